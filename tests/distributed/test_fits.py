"""Fits on Dask collections give what fits in memory give, and the same bits on any scheduler."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import mercer
from mercer import kernels as K
from mercer.solvers.losses import Logistic, Loss
from mercer.solvers.nystrom.sums import Totals
from mercer.solvers.risk.newton import along

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install mercer[dask]")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.usefixtures("one_thread")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = np.sin(X).sum(axis=1) + 0.3 * RNG.normal(size=240)
W = RNG.integers(0, 3, size=240).astype(float)
THREE = np.array(["a", "b", "c"])[np.digitize(Y, [-0.8, 0.5])]
COUNTS = np.round(np.exp(np.clip(Y, -2, 2)))
CENTRES = {"n_centers": 25, "random_state": 0}
NYSTROM = {"solver": "nystrom", **CENTRES}
# Newton's steps are taken until rounding ends them, for both to be at the minimum itself.
TO_THE_END = {"tol": 1e-300, "gamma": 0.2, "alpha": 0.5, **NYSTROM}

CASES = {
    "ridge": (mercer.KernelRidge(0.1, kernel="rbf", gamma="scale", **NYSTROM), Y),
    "intercept": (mercer.KernelRidge(0.1, kernel="rbf", fit_intercept=True, **NYSTROM), Y),
    "targets": (
        mercer.KernelRidge([0.1, 2.0], kernel=K.Laplacian(0.3), **NYSTROM),
        np.column_stack([Y, X[:, 0]]),
    ),
    "two classes": (mercer.KernelRidgeClassifier(0.1, **NYSTROM), Y > 0),
    "three classes": (
        mercer.KernelRidgeClassifier(0.1, class_weight="balanced", **NYSTROM),
        THREE,
    ),
    "a class of no weight": (
        mercer.KernelRidgeClassifier(0.1, class_weight={"b": 0.0}, **NYSTROM),
        THREE,
    ),
    "leave-one-out": (mercer.KernelRidgeCV([1e-3, 0.1, 10.0], kernel="rbf", **NYSTROM), Y),
    "gcv": (mercer.KernelRidgeCV([1e-3, 0.1, 10.0], kernel="rbf", cv="gcv", **NYSTROM), Y),
    "components": (
        mercer.KernelPCA(4, kernel="rbf", gamma=0.1, eigen_solver="nystrom", **CENTRES),
        None,
    ),
    "logistic": (mercer.KernelMachineClassifier("logistic", **TO_THE_END), Y > 0),
    "squared hinge": (mercer.KernelMachineClassifier("squared_hinge", **TO_THE_END), Y > 0),
    "softmax": (
        mercer.KernelMachineClassifier("logistic", class_weight="balanced", **TO_THE_END),
        THREE,
    ),
    "huber": (mercer.KernelMachineRegressor("huber", **TO_THE_END), Y),
    "poisson": (mercer.KernelMachineRegressor("poisson", **TO_THE_END), COUNTS),
}
# Fits of many passes take a while even where they are small.
LONG = ("logistic", "squared hinge", "softmax", "huber", "poisson")
PAIRS = [
    pytest.param(name, weighted, marks=[pytest.mark.long] if name in LONG else [])
    for name in CASES
    for weighted in (False, True)
    if not (name == "components" and weighted)
]


def as_dask(y, chunks=50):
    return None if y is None else da.from_array(y, chunks=(chunks, *y.shape[1:]))


def fitted(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).fit(*data)


def outputs(model, points):
    names = ("decision_function", "predict_proba", "transform", "predict")
    return {name: getattr(model, name)(points) for name in names if hasattr(model, name)}


@pytest.mark.parametrize(("name", "weighted"), PAIRS)
def test_the_fit_equals_the_one_in_memory(name, weighted):
    model, y = CASES[name]
    data = [each for each in (y, W if weighted else None) if each is not None]
    here = fitted(model, X, *data)
    there = fitted(model, da.from_array(X, chunks=(70, 2)), *map(as_dask, data))
    assert there.n_features_in_ == 3
    expected, found = outputs(here, X), outputs(there, X)
    for method, values in expected.items():
        if values.dtype.kind == "f":
            assert_allclose(found[method], values, atol=1e-10, err_msg=method)
        else:
            assert_array_equal(found[method], values)
    if name in ("leave-one-out", "gcv"):
        assert there.alpha_ == here.alpha_
        assert_allclose(there.loo_scores_, here.loo_scores_, rtol=1e-10)
    if name == "components":
        for attribute in ("eigenvalues_", "explained_variance_ratio_", "residuals_"):
            assert_allclose(getattr(there, attribute), getattr(here, attribute), atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("loss", ["hinge", "quantile"])
def test_losses_with_corners_are_certified(loss):
    kind = mercer.KernelMachineClassifier if loss == "hinge" else mercer.KernelMachineRegressor
    model = kind(loss, gamma=0.2, alpha=5.0, tol=1e-3, **NYSTROM)
    y = Y > 0 if loss == "hinge" else Y
    here, there = fitted(model, X, y, W), fitted(model, as_dask(X, 120), as_dask(y), as_dask(W))
    assert there.result_.status.name == "CONVERGED"
    assert there.result_.gap <= 1e-3
    method = "decision_function" if loss == "hinge" else "predict"
    expected, found = (outputs(each, X)[method] for each in (here, there))
    assert np.abs(found - expected).max() < 0.1
    assert np.abs(found - expected).mean() < 0.01


def test_passes_over_all_points_equal_those_in_memory(monkeypatch):
    """So many points that sums over a part of them precondition passes over all."""
    monkeypatch.setattr("mercer.estimators.centres.PASSES_FROM_MULTIPLICATIONS", 0)
    model = mercer.KernelRidge(1.0, kernel="rbf", fit_intercept=True, tol=1e-13, **NYSTROM)
    here = fitted(model, X, Y, W)
    there = fitted(model, as_dask(X), as_dask(Y), as_dask(W))
    assert here.result_.n_iter > 2
    assert "precondition" in there.result_.method
    assert_allclose(there.predict(X), here.predict(X), atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("name", ["logistic", "softmax", "squared_hinge"])
def test_newton_steps_by_products_end_where_those_by_curvatures_do(name, passes, monkeypatch):
    """So many centres that products take less time, and return less, than curvatures.

    Steps that are nearly Newton's end where rounding hides that the objective falls: at the square
    root of it.
    """
    for constant, value in {
        "SAMPLE": 4,
        "PRODUCTS_PAY": 1,
        "MULTIPLICATIONS_PER_VALUE": -2,
    }.items():
        monkeypatch.setattr(f"mercer.distributed.points.{constant}", value)
    monkeypatch.setattr("mercer.solvers.risk.softmax.DENSE", 0)
    loss = "logistic" if name == "softmax" else name
    model = mercer.KernelMachineClassifier(loss, **TO_THE_END)
    points = np.random.default_rng(0).normal(size=(600, 3))
    scores = np.sin(points).sum(axis=1)
    y = np.digitize(scores, [-0.8, 0.5]) if name == "softmax" else scores > 0
    weight = np.arange(600) % 3 + 1.0
    here = fitted(model, points, y, weight)
    there = fitted(model, as_dask(points, 150), as_dask(y), as_dask(weight))
    assert "CurvatureSums" not in passes
    assert ("ProductSums" in passes) == (name != "softmax")
    found, expected = (each.decision_function(points) for each in (there, here))
    assert_allclose(found, expected, rtol=0, atol=1e-7)


def test_the_bits_do_not_depend_on_the_scheduler():
    """In this process by one thread or some, and on a cluster of two workers inside it."""
    model, y = CASES["ridge"]
    data = as_dask(X, 20), as_dask(y, 30)
    expected = fitted(model, *data)
    with dask.config.set(scheduler="threads"):
        assert_array_equal(fitted(model, *data).dual_coef_, expected.dual_coef_)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        dask.config.set(scheduler=None),
        distributed.LocalCluster(processes=False, **options) as cluster,
        distributed.Client(cluster),
    ):
        found = fitted(model, *data)
        assert_array_equal(found.dual_coef_, expected.dual_coef_)
        assert_array_equal(found.predict(data[0]).compute(), expected.predict(data[0]).compute())
        names = {f"mercer-{name}" for name in ("survey", "rows", "FeatureSums", "predict")}
        assert names <= set(cluster.scheduler.task_prefixes)  # as the dashboard shows them
    from mercer.distributed import keeping

    assert not keeping._HERE


def test_sums_are_merged_in_the_order_of_the_blocks():
    from mercer.distributed.reduction import reduced

    class Words(Totals):
        def __init__(self, mark, word):
            self.text = mark + word

        def merged(self, other, sign=1):
            return Words("", self.text + other.text)

    letters = [(chr(97 + i % 26),) for i in range(100)]
    expected = "".join("-" + letter for (letter,) in letters)
    with dask.config.set(scheduler="threads"):
        assert reduced("words", Words, "-", letters).text == expected


@pytest.fixture
def files(tmp_path):
    """The same points in every kind of file that Dask reads."""
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=Y)
    (tmp_path / "parquet").mkdir()
    for i in range(12):
        table[20 * i : 20 * (i + 1)].to_parquet(tmp_path / f"parquet/{i:02d}.parquet")
    table.to_csv(tmp_path / "table.csv", index=False)
    np.save(tmp_path / "points.npy", X)
    return tmp_path


READERS = {
    "parquet": lambda files: dd.read_parquet(files / "parquet", aggregate_files=False),
    "csv": lambda files: dd.read_csv(files / "table.csv", blocksize=4096),
}


@pytest.mark.parametrize("kind", READERS)
def test_tables_come_from_files(kind, files):
    model, y = CASES["ridge"]
    here = pd.DataFrame(X, columns=["u", "v", "w"])
    expected = fitted(model, here, y).predict(here)
    table = READERS[kind](files)
    assert table.npartitions > 2
    points = table[["u", "v", "w"]]
    found = fitted(model, points, table["y"])
    assert list(found.feature_names_in_) == ["u", "v", "w"]
    predicted = found.predict(points)
    assert isinstance(predicted, dd.Series)
    assert_allclose(predicted.compute(), expected, atol=1e-10)
    error = ((predicted - table["y"]) ** 2).mean().compute()
    assert_allclose(error, np.mean((expected - y) ** 2))


@pytest.mark.parametrize("kind", ["memory map", "zarr"])
def test_arrays_come_from_files(kind, files):
    if kind == "zarr":
        pytest.importorskip("zarr", reason="zarr is not installed")
        as_dask(X).to_zarr(str(files / "points.zarr"))
        points = da.from_zarr(str(files / "points.zarr"))
    else:
        points = da.from_array(np.load(files / "points.npy", mmap_mode="r"), chunks=(70, 3))
    assert points.numblocks[0] > 2
    model, y = CASES["ridge"]
    found = fitted(model, points, as_dask(y, 90))
    predicted = found.predict(points)
    assert predicted.chunks[0] == points.chunks[0]
    assert_allclose(predicted.compute(), fitted(model, X, y).predict(X), atol=1e-10)


def test_blocks_may_be_empty_and_their_lengths_unknown():
    model, y = CASES["ridge"]
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=y, row=np.arange(240))
    some = dd.from_pandas(table, npartitions=6)
    some = some[some["row"] >= 100]
    points = some[["u", "v", "w"]]
    found = fitted(model, points, some["y"])
    rest = table[["u", "v", "w"]][100:]
    expected = fitted(model, rest, y[100:]).predict(rest)
    assert_allclose(found.predict(points).compute(), expected, atol=1e-10)


@pytest.mark.parametrize("name", ["ridge", "three classes"])
def test_lengths_of_the_blocks_of_arrays_may_be_unknown(name):
    """Targets and weights, labels among them, are then cut as the points are."""
    model, y = CASES[name]
    table = dd.from_pandas(pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=y, s=W), npartitions=5)
    points, targets, weight = (table[each].to_dask_array() for each in (["u", "v", "w"], "y", "s"))
    assert np.isnan(points.shape[0])
    found = fitted(model, points, targets, weight)
    predicted, expected = found.predict(points), fitted(model, X, y, W).predict(X)
    assert np.isnan(predicted.shape[0])
    if name == "ridge":
        assert_allclose(predicted.compute(), expected, atol=1e-10)
    else:
        assert_array_equal(predicted.compute(), expected)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        fitted(model, points, as_dask(y, 48))


def test_blocks_may_be_sparse():
    model, y = CASES["ridge"]
    points = as_dask(X).map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0)))
    expected = fitted(model.set_params(gamma=0.1), X, y).predict(X)
    found = fitted(model, points, as_dask(y))
    assert_allclose(found.predict(points).compute(), expected, atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("name", ["logistic", "softmax", "poisson"])
def test_machines_may_have_empty_blocks(name):
    model, y = CASES[name]
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=y, row=np.arange(240))
    some = dd.from_pandas(table, npartitions=6)
    some = some[some["row"] >= 100]
    found = fitted(model, some[["u", "v", "w"]], some["y"])
    rest = table[["u", "v", "w"]][100:]
    here = fitted(model, rest, y[100:])
    method = "predict" if name == "poisson" else "predict_proba"
    assert_allclose(getattr(found, method)(rest), getattr(here, method)(rest), atol=1e-10)


def test_all_rows_of_a_block_may_weigh_nothing():
    model, y = CASES["ridge"]
    weight = np.where(np.arange(240) < 70, 0.0, W + 1)
    found = fitted(model, as_dask(X), as_dask(y), as_dask(weight))
    assert_allclose(found.predict(X), fitted(model, X, y, weight).predict(X), atol=1e-10)


def test_two_fits_at_a_time_keep_their_own_centres():
    from mercer.distributed.keeping import kept

    with kept([1], "the same") as first:
        with kept([1], "the same") as second:
            assert dask.base.tokenize(first) == dask.base.tokenize(second)
        assert first.value == [1]


def refusals():
    ridge = CASES["ridge"][0]
    points, targets = as_dask(X), as_dask(Y)
    hole = X.copy()
    hole[130, 1] = np.nan
    yield "SVC", mercer.SVC(), (points, targets), TypeError, "SVC.fit takes no Dask"
    exact = mercer.KernelRidge(solver="cholesky")
    yield "solver", exact, (points, targets), ValueError, "solver='cholesky' needs all points"
    yield "rows", ridge, (points, targets[:-1]), ValueError, "X has 240 rows and y has 239"
    missing = r"block 2 \(from row 100 on\): X has a missing value \(NaN\) at row 30, column 1"
    yield "missing", ridge, (as_dask(hole), targets), ValueError, missing
    rows = dd.from_pandas(pd.DataFrame(hole, columns=["u", "v", "w"]), npartitions=4)
    missing = r"block 2: X has a missing value \(NaN\) at row 10, column 'v'"
    yield "missing cell", ridge, (rows, rows["u"]), ValueError, missing
    wild = as_dask(np.where(np.arange(240) == 51, np.inf, Y))
    yield (
        "infinite",
        ridge,
        (points, wild),
        ValueError,
        "block 1 .*y has an infinite value at row 1",
    )
    yield "no targets", ridge, (points, None), ValueError, "requires y"
    yield "no weight", ridge, (points, targets, 0.0 * targets), ValueError, "zero for every row"
    yield "vector", ridge, (targets, targets), ValueError, "1 dimensions"
    yield "bag", ridge, (dask.delayed(X), targets), TypeError, "give an array or a table"
    table = dd.from_pandas(pd.DataFrame(X), npartitions=4)
    other = table[0].repartition(npartitions=2)
    yield "partitions", ridge, (table, other), ValueError, "y has 2 partitions and X has 4"
    uncounted = table[0].to_dask_array()
    yield "uncounted", ridge, (points, uncounted), ValueError, "compute_chunk_sizes"
    counts = mercer.KernelMachineRegressor("poisson", **NYSTROM)
    yield "negative", counts, (points, targets), ValueError, "negative value, -"
    yield (
        "kernel",
        clone(ridge).set_params(kernel="sigmoid"),
        (points, targets),
        ValueError,
        "proved",
    )
    one = mercer.KernelRidgeClassifier(**NYSTROM)
    yield "class", one, (points, as_dask(np.ones(240))), ValueError, "one class only"
    levels = mercer.KernelMachineRegressor("quantile", quantile=[0.1, 0.9], **NYSTROM)
    yield "levels", levels, (points, targets), ValueError, "one level at a time"
    folds = mercer.KernelRidgeCV(cv=5, **NYSTROM)
    yield "folds", folds, (points, targets), ValueError, "cv=None or 'gcv'"
    none = da.zeros((0, 3))
    yield "nothing", ridge, (none, da.zeros(0)), ValueError, "no rows"


@pytest.mark.parametrize("refusal", list(refusals()), ids=lambda refusal: refusal[0])
def test_errors_say_what_to_do(refusal):
    _, model, data, error, words = refusal
    with pytest.raises(error, match=words):
        model.fit(*data)
    assert not hasattr(model, "n_features_in_")


def test_a_missing_value_to_predict_for_is_found():
    model, y = CASES["ridge"]
    hole = X.copy()
    hole[130, 1] = np.nan
    predicted = fitted(model, X, y).predict(as_dask(hole))
    with pytest.raises(ValueError, match=r"in block 2: X has a missing .* row 30, column 1"):
        predicted.compute()


class Widest(Loss):
    """A smooth function of all errors together, which is no sum over points."""

    def value(self, y, f):
        return np.log(np.sum(np.exp((y - f) ** 2)))

    def gradient(self, y, f):
        share = np.exp((y - f) ** 2)
        return share / share.sum() * 2 * (f - y)


@pytest.mark.long
def test_a_loss_of_all_points_together_is_not_summed_by_blocks():
    model = mercer.KernelMachineRegressor(Widest(), gamma=0.2, alpha=0.5, **NYSTROM)
    here, there = fitted(model, X, Y), fitted(model, as_dask(X), as_dask(Y))
    assert_allclose(there.predict(X), here.predict(X), atol=1e-4)
    assert_allclose(there.result_.gap, here.result_.gap, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_blocks_are_those_over_all(weighted, monkeypatch):
    """So few rows at a time that blocks have several parts."""
    from mercer.distributed import spans

    monkeypatch.setattr(spans, "ROWS_AT_ONCE", 16)
    span = spans.RemoteFeatureSpan.__new__(spans.RemoteFeatureSpan)
    loss, f = Logistic(), X[:, 0]
    there = loss.weighted(as_dask(W)) if weighted else loss
    here = loss.weighted(W) if weighted else loss
    given = as_dask(np.sign(Y)), as_dask(f), as_dask(X[:, 1])
    found = span.total(partial(along, steps=[0.0, 0.5, 2.0]), there, *given)
    expected = along(here, np.sign(Y), f, X[:, 1], steps=[0.0, 0.5, 2.0])
    assert_allclose(found, expected, rtol=1e-13)
