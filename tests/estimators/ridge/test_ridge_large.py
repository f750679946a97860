"""Kernel ridge without a Gram matrix, or on centres: memory, bounds, chunks and float32."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from mercer import kernels as K
from mercer.estimators.ridge.classification import KernelRidgeClassifier
from mercer.estimators.ridge.cross_validation import KernelRidgeCV
from mercer.estimators.ridge.regression import KernelRidge
from mercer.solvers.linear.refinement import solve_refined
from mercer.solvers.result import Status
from ridge_examples import data


def test_auto_climbs_the_ladder_by_memory_and_by_what_is_asked():
    X, y = data(n=400)
    with sklearn.config_context(working_memory=1):
        model = KernelRidge(0.1, kernel="rbf").fit(X, y)
        chosen = KernelRidgeCV([0.1], kernel="rbf").fit(X, y)
    assert model.result_.method.startswith("pcg with a preconditioner of rank")
    assert model.result_.method.endswith(": 1 MiB exceed the budget of 1 MiB")
    assert chosen.result_.method.startswith("nystrom with 80 centres: 1 MiB exceed")
    dense = KernelRidge(0.1, kernel="rbf").fit(X, y)
    assert dense.result_.method == "cholesky: no finite feature map"
    assert_allclose(model.predict(X), dense.predict(X), atol=1e-5)
    few = KernelRidge(0.1, kernel="rbf", n_centers=50).fit(X, y)
    assert few.result_.method == "nystrom with 50 centres: n_centers is given"
    many = KernelRidge(np.logspace(-3, 1, 20), kernel="rbf").fit(X, np.tile(y[:, None], 20))
    assert many.result_.method.startswith("eigh")


def test_values_that_are_dear_are_stored_beyond_the_budget_and_lost_alphas_decomposed():
    X, y = data(n=370)
    with sklearn.config_context(working_memory=1):
        dear = K.FromFunction(rbf_kernel, pairwise=False, valid=True)
        by_function = KernelRidge(0.1, kernel=dear).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            free = KernelRidge(0.0, kernel="rbf").fit(X, y)
    assert by_function.result_.method == "cholesky: kernel evaluations are expensive"
    assert free.result_.method.startswith("eigh: alpha is below the rounding error of K")


def test_sparse_features_are_multiplied_by_where_the_matrix_is_beyond_the_budget():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGT"), size=20)) for _ in range(400)]
    y = np.array([text.count("AC") for text in texts], dtype=np.float64)
    stored = KernelRidge(0.1, kernel=K.Spectrum(4)).fit(texts, y)
    with sklearn.config_context(working_memory=1):
        model = KernelRidge(0.1, kernel=K.Spectrum(4)).fit(texts, y)
    assert stored.result_.method.startswith("cholesky")
    assert model.result_.method.startswith("pcg")
    assert_allclose(model.predict(texts), stored.predict(texts), atol=1e-4)


def test_features_whose_products_exceed_the_budget_are_left_as_they_are():
    rng = np.random.default_rng(0)
    texts = ["".join(word) for word in rng.choice(list("ABCDEFGH"), size=(2200, 8))]
    y = np.array([text.count("AB") for text in texts], dtype=np.float64)
    primal = KernelRidge(1.0, kernel=K.Spectrum(3)).fit(texts, y)  # 512 features
    with sklearn.config_context(working_memory=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelRidge(1.0, kernel=K.Spectrum(3)).fit(texts, y)
        free = KernelRidge(0.0, kernel=K.Spectrum(3)).fit(texts, y)
    assert primal.result_.method.startswith("primal: 512 features")
    assert model.result_.method.startswith("pcg")
    assert free.result_.method.startswith("primal: alpha is below the rounding error of K")
    assert_allclose(model.predict(texts), primal.predict(texts), atol=1e-4)


@pytest.mark.parametrize("solver", ["pcg", "nystrom"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_error_bound_holds_at_every_point(solver, fit_intercept):
    X, y = data(n=200, targets=2)
    common = {"kernel": K.RBF(0.3), "fit_intercept": fit_intercept}
    exact = KernelRidge(0.1, solver="eigh", **common).fit(X, y)
    rough = KernelRidge(0.1, solver=solver, n_centers=40, tol=1e-2, **common).fit(X, y)
    query = np.random.default_rng(5).normal(size=(300, 3))
    apart = rough.predict(query) - rough.intercept_ - (exact.predict(query) - exact.intercept_)
    assert rough.error_bound_.shape == (2,)
    assert np.all(np.abs(apart) <= rough.error_bound_ + 1e-12)
    assert np.abs(apart).max() > 1e-9
    assert rough.result_.bound == rough.error_bound_.max()
    assert exact.error_bound_ is None


@pytest.mark.parametrize("centers", ["pivoted", "uniform"])
def test_a_kernel_that_is_zero_everywhere_has_no_centres(centers):
    model = KernelRidge(kernel="linear", solver="nystrom", centers=centers)
    with pytest.raises(ValueError, match="zero at every centre"):
        model.fit(np.zeros((12, 2)), np.arange(12.0))


def test_warm_started_conjugate_gradients_go_on():
    X, y = data(n=200)
    model = KernelRidge(
        1e-3, kernel="rbf", solver="pcg", n_centers=5, max_iter=4, tol=1e-10, warm_start=True
    )
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    first = model.result_.gap
    model.set_params(max_iter=500).fit(X, y)
    assert model.result_.history[0] == pytest.approx(first)
    exact = KernelRidge(1e-3, kernel="rbf", solver="eigh").fit(X, y)
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-8)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.set_params(max_time=1e-9, warm_start=False).fit(X, y)


def test_pcg_refuses_alpha_zero_with_the_condition_number():
    X, y = data(n=20)
    with pytest.raises(ValueError, match=r"condition number is up to inf.*solver='eigh'"):
        KernelRidge(0.0, kernel="rbf", solver="pcg").fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_points_are_factorised_in_float32_unless_alpha_is_small(dtype, monkeypatch):
    X, y = data(n=300)
    X = X.astype(dtype)
    for alpha, method in ((0.1, "cholesky in float32, refined to float64"), (1e-7, "cholesky:")):
        model = KernelRidge(alpha, kernel=K.RBF(0.3), fit_intercept=True)
        expected = clone(model).fit(X.astype(np.float64), y)
        assert expected.result_.method.startswith("cholesky:")
        with monkeypatch.context() as m:
            m.setattr("mercer.estimators.ridge.engine.REFINED_FROM_POINTS", 100)
            model.fit(X, y)
        assert model.result_.method.startswith(method)
        assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-7, atol=1e-7)
        assert model.intercept_ == pytest.approx(expected.intercept_, rel=1e-9)


@pytest.mark.parametrize(("features", "form"), [(3, "TiledGram"), (80, "DenseGram")])
def test_refinement_multiplies_by_a_stored_matrix_where_features_are_many(
    features, form, monkeypatch
):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, features)), rng.normal(size=300)
    model = KernelRidge(0.1, kernel=K.RBF(0.3 / features))
    expected = clone(model).fit(X, y).dual_coef_
    used = []

    def watched(operator, *problem, **named):
        used.append(type(operator).__name__)
        return solve_refined(operator, *problem, **named)

    monkeypatch.setattr("mercer.estimators.ridge.engine.REFINED_FROM_POINTS", 100)
    monkeypatch.setattr("mercer.estimators.ridge.engine.solve_refined", watched)
    monkeypatch.setattr("mercer.operators.choice.STORED", 0)
    found = clone(model).fit(X, y)
    assert used == [form]
    assert found.result_.method.startswith("cholesky in float32, refined to float64")
    assert_allclose(found.dual_coef_, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_chunks_learn_what_all_points_at_once_do(fit_intercept):
    X, y = data(n=300, targets=2)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=300)
    whole = KernelRidge(
        0.1, kernel=K.RBF(0.3), solver="nystrom", n_centers=40, fit_intercept=fit_intercept
    ).fit(X, y, sample_weight=weight)
    assert whole.X_fit_.shape == (40, 3)
    assert whole.dual_coef_.shape == (40, 2)
    parts = clone(whole).set_params(centers=whole.X_fit_)
    for i in range(0, 300, 70):
        parts.partial_fit(X[i : i + 70], y[i : i + 70], sample_weight=weight[i : i + 70])
    assert_allclose(parts.predict(X), whole.predict(X), atol=1e-9)
    assert parts.moments_.n == 300
    before = parts.predict(X)
    with pytest.raises(ValueError, match="features"):
        parts.partial_fit(X[:, :2], y)
    with pytest.raises(ValueError, match="1 targets and the points before had 2"):
        parts.partial_fit(X, y[:, 0])
    assert_allclose(parts.predict(X), before)
    # After fit, its centres and sums stay.
    half = clone(whole).set_params(centers=whole.X_fit_).fit(X[:150], y[:150], weight[:150])
    half.partial_fit(X[150:], y[150:], weight[150:])
    assert_allclose(half.predict(X), whole.predict(X), atol=1e-6)
    assert not hasattr(KernelRidge(), "partial_fit")


def three_classes(n=240):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    return X, np.array(["low", "mid", "top"])[np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("labels", [2, 3])
def test_classes_in_chunks_give_what_all_points_at_once_do(fit_intercept, labels):
    X, y = three_classes()
    if labels == 2:
        y = np.where(y == "low", "low", "top")
    order = np.argsort(y != "top", kind="stable")  # one class alone at first, then the others
    X, y = X[order], y[order]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    model = KernelRidgeClassifier(
        0.1,
        kernel=K.RBF(0.5),
        solver="nystrom",
        centers=X[::8],
        fit_intercept=fit_intercept,
        class_weight={"low": 2.0, "mid": 0.5, "top": 1.0},
    )
    whole = clone(model).fit(X, y, weight)
    cuts = [slice(i, i + 50) for i in range(0, 240, 50)]
    chunks = [(X[rows], y[rows], weight[rows]) for rows in cuts]
    found = clone(model).fit_chunks(chunks)
    assert_allclose(found.decision_function(X), whole.decision_function(X), atol=1e-8)
    assert found.classes_.tolist() == whole.classes_.tolist()
    assert np.mean(found.predict(X) == whole.predict(X)) == 1.0
    one_by_one = clone(model)
    for part, labelled, mass in chunks:
        one_by_one.partial_fit(part, labelled, classes=np.unique(y), sample_weight=mass)
    assert_allclose(one_by_one.decision_function(X), whole.decision_function(X), atol=1e-8)
    # A label that is longer than those before it.
    longer = np.where(y == "low", "lowest of all", y)
    grown = clone(model).set_params(class_weight=None)
    grown.fit_chunks([(X[rows], longer[rows]) for rows in cuts])
    assert grown.classes_.tolist() == np.unique(longer).tolist()
    # After fit, and with a class that comes late.
    late = clone(model).fit(X[:200], y[:200], weight[:200])
    late.partial_fit(X[200:], y[200:], sample_weight=weight[200:])
    assert_allclose(late.decision_function(X), whole.decision_function(X), atol=1e-6)


def test_classes_in_chunks_say_what_they_lack():
    X, y = three_classes()
    model = KernelRidgeClassifier(solver="nystrom", centers=X[:20])
    with pytest.raises(ValueError, match="one class only so far, 'low'"):
        model.partial_fit(X[y == "low"], y[y == "low"])
    with pytest.raises(ValueError, match=r"'top'.*not among classes"):
        model.partial_fit(X, y, classes=["low", "mid"])
    with pytest.raises(ValueError, match="dict of weights"):
        clone(model).set_params(class_weight="balanced").partial_fit(X, y)
    with pytest.raises(ValueError, match="chunks is empty"):
        model.fit_chunks([])
    assert not hasattr(model, "classes_")
    assert not hasattr(KernelRidgeClassifier(), "partial_fit")


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_float32_points_and_targets_go_to_conjugate_gradients_where_it_pays(
    fit_intercept, monkeypatch
):
    X, y = data(n=900)
    model = KernelRidge(0.1, kernel=K.RBF(0.3), fit_intercept=fit_intercept)
    expected = clone(model).fit(X, y).predict(X)
    monkeypatch.setattr("mercer.estimators.ridge.engine.STEPS_FROM_POINTS", 500)
    monkeypatch.setattr("mercer.estimators.ridge.engine.ENOUGH_STEPS", 1)
    single = X.astype(np.float32), y.astype(np.float32)
    quick = clone(model).fit(*single)
    assert quick.result_.method.startswith("pcg")
    assert quick.result_.method.endswith(": points and targets are float32")
    assert quick.result_.gap <= 1e-6
    assert_allclose(quick.predict(single[0]), expected, atol=2e-5)
    assert "pcg" not in clone(model).fit(X, y).result_.method
    # Too slow, too small an alpha, too many targets: factorised as before.
    rough = KernelRidge(1e-3, kernel=K.Laplacian(5.0), fit_intercept=fit_intercept).fit(*single)
    assert "pcg had not converged after" in rough.result_.method
    assert rough.result_.gap < 1e-10
    tiny = clone(model).set_params(alpha=1e-7).fit(*single)
    assert "pcg" not in tiny.result_.method
    many = clone(model).fit(single[0], np.tile(single[1][:, None], 10))
    assert "pcg" not in many.result_.method


def test_readers_of_tables_and_iterators_give_what_fit_does(tmp_path):
    X, y = data(n=300)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=300)
    model = KernelRidge(0.1, kernel=K.RBF(0.3), solver="nystrom", centers=X[:40])
    expected = clone(model).fit(X, y, weight).predict(X)
    cuts = [slice(i, i + 70) for i in range(0, 300, 70)]
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(goal=y, mass=weight)
    table.to_csv(tmp_path / "points.csv", index=False)
    names = {"target": "goal", "sample_weight": "mass"}
    for chunks, named in (
        (((X[rows], y[rows], weight[rows]) for rows in cuts), {}),
        (pd.read_csv(tmp_path / "points.csv", chunksize=70), names),
    ):
        found = clone(model).fit_chunks(chunks, **named)
        query = table[["a", "b", "c"]] if named else X
        assert_allclose(found.predict(query), expected, atol=1e-9)
        assert found.moments_.n == 300
        assert "from the sums over 300 points" in found.result_.method
    again = found.fit_chunks([(X[:50], y[:50])])
    assert again.moments_.n == 50
    two = clone(model).fit_chunks([table], target=["goal", "mass"])
    assert two.dual_coef_.shape == (40, 2)
    whole = clone(model).fit(X, y)
    for chunks, named, words in (
        ([], {}, "chunks is empty"),
        ([table], {}, "name the target's column"),
        ([table], {"target": "none"}, "no column 'none'"),
        ([(X, y)], {"target": "goal"}, "chunks are tuples"),
        ([(X,)], {}, "chunk 0 has 1 parts"),
        ([(X[:9], y[:9]), (X[:9, :2], y[:9])], {}, "features"),
    ):
        with pytest.raises(ValueError, match=words):
            whole.fit_chunks(chunks, **named)
        assert whole.moments_.n == 300
    with pytest.raises(TypeError, match="chunk 0 is of type list"):
        whole.fit_chunks([[1, 2]])
    assert not hasattr(KernelRidge(), "fit_chunks")


def test_parquet_is_read_in_batches(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    X, y = data(n=300)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(goal=y)
    table.to_parquet(tmp_path / "points.parquet")
    model = KernelRidge(0.1, kernel=K.RBF(0.3), solver="nystrom", centers=X[:40])
    expected = clone(model).fit(X, y).predict(X)
    batches = parquet.ParquetFile(tmp_path / "points.parquet").iter_batches(64)
    found = model.fit_chunks(batches, target="goal")
    assert_allclose(found.predict(table[["a", "b", "c"]]), expected, atol=1e-9)


def test_a_memory_map_is_read_in_blocks(tmp_path, monkeypatch):
    X, y = data(n=500)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = KernelRidge(0.1, kernel=K.RBF(0.3), solver="nystrom", n_centers=20, tol=1e-9)
    whole = model.fit(X, y).predict(X)
    monkeypatch.setattr("mercer.estimators.centres.BLOCK_ENTRIES", 20 * 64)
    monkeypatch.setattr("mercer.estimators.centres.PASSES_FROM_MULTIPLICATIONS", 0)
    blocked = clone(model).fit(mapped, y)
    assert_allclose(blocked.predict(X), whole, atol=1e-6)
    assert re.search(r"sums over \d+ points precondition", blocked.result_.method)
    with pytest.raises(ValueError, match="over a part of its points"):
        blocked.partial_fit(X, y)


def test_far_more_points_than_centres_have_no_bound_and_say_so(monkeypatch):
    X, y = data(n=300)
    monkeypatch.setattr("mercer.estimators.centres.BOUND_UP_TO_POINTS_PER_CENTRE", 10)
    model = KernelRidge(0.1, kernel="rbf", solver="nystrom", n_centers=20).fit(X, y)
    assert model.error_bound_ is None
    assert "no bound on the distance" in model.result_.method
    model.set_params(solver="auto").fit(X, y)
    assert model.result_.method.startswith("nystrom with 20 centres: n_centers is given; no bound")


def test_uniform_given_and_too_many_centres():
    X, y = data(n=100)
    common = {"kernel": K.RBF(0.3), "solver": "nystrom"}
    uniform = KernelRidge(0.1, centers="uniform", n_centers=30, **common).fit(X, y)
    pivoted = KernelRidge(0.1, n_centers=30, **common).fit(X, y)
    assert {tuple(row) for row in uniform.X_fit_} <= {tuple(row) for row in X}
    assert not np.array_equal(uniform.X_fit_, pivoted.X_fit_)
    given = KernelRidge(0.1, centers=uniform.X_fit_, **common).fit(X, y)
    assert_allclose(given.predict(X), uniform.predict(X), atol=1e-9)
    with pytest.raises(ValueError, match="n_centers=101 and X has 100 points"):
        KernelRidge(n_centers=101, **common).fit(X, y)


def test_nystrom_takes_precomputed_corrected_and_structured_kernels():
    X, y = data(n=40)
    G = rbf_kernel(X)
    given = KernelRidge(0.1, kernel="precomputed", solver="nystrom", n_centers=40).fit(G, y)
    exact = KernelRidge(0.1, kernel="rbf", gamma=1 / 3, solver="eigh").fit(X, y)
    assert_allclose(given.predict(G), exact.predict(X), atol=1e-7)
    folds = {"alphas": [0.1], "kernel": "precomputed", "cv": 5}
    chosen = KernelRidgeCV(solver="nystrom", n_centers=40, **folds).fit(G, y)
    left_out = KernelRidgeCV(solver="eigh", **folds).fit(G, y).loo_predictions_
    assert chosen.loo_predictions_.shape == left_out.shape
    assert np.corrcoef(chosen.loo_predictions_, left_out)[0, 1] > 0.9
    sigmoid = {"kernel": K.Sigmoid(coef0=1.0), "indefinite": "clip"}
    few = KernelRidge(0.1, solver="nystrom", n_centers=40, **sigmoid).fit(X, y)
    assert_allclose(few.predict(X), KernelRidge(0.1, **sigmoid).fit(X, y).predict(X), atol=1e-6)
    with pytest.raises(ValueError, match="precomputed or corrected"):
        KernelRidge(solver="nystrom", centers=X[:5], **sigmoid).fit(X, y)
    texts = ["aab", "abb", "bbb", "aaa", "abab", "baab"]
    kernel = K.Subsequence(length=2)
    words = KernelRidge(0.1, kernel=kernel, solver="nystrom", n_centers=6).fit(texts, y[:6])
    dense = KernelRidge(0.1, kernel=kernel, solver="cholesky").fit(texts, y[:6])
    assert_allclose(words.predict(texts), dense.predict(texts), atol=1e-7)


@pytest.mark.parametrize("solver", ["pcg", "nystrom"])
def test_float32_points_give_the_float64_solution(solver):
    X, y = data(n=120)
    X = X.astype(np.float32)
    model = KernelRidge(0.05, kernel=K.RBF(0.3), solver=solver, n_centers=120, tol=1e-9).fit(X, y)
    exact = KernelRidge(0.05, kernel=K.RBF(0.3), solver="eigh").fit(X.astype(float), y)
    assert_allclose(model.predict(X), exact.predict(X.astype(float)), atol=2e-4)
    if solver == "pcg":
        assert_allclose(model.dual_coef_, exact.dual_coef_, atol=1e-6)


@pytest.mark.parametrize("solver", ["pcg", "nystrom"])
def test_classifiers_take_the_large_solvers(solver):
    X, y = load_iris(return_X_y=True)
    model = KernelRidgeClassifier(0.1, solver=solver, n_centers=50, fit_intercept=True).fit(X, y)
    plain = KernelRidgeClassifier(0.1, fit_intercept=True).fit(X, y)
    assert model.intercept_.shape == (3,)
    assert_allclose(model.decision_function(X), plain.decision_function(X), atol=0.05)
    assert np.mean(model.predict(X) == plain.predict(X)) > 0.98


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [1e-8, 1e-3, 1.0, [0.1, 10.0]])
@pytest.mark.parametrize("spread", [1e-3, 1.0])
def test_passes_over_the_points_find_what_sums_over_them_do(
    fit_intercept, alpha, spread, monkeypatch
):
    """Clusters of near points make the kernel between the centres nearly singular."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 3)), 100, axis=0) + spread * rng.normal(size=(2000, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + 3.0, X[:, 1]]) + 0.1 * rng.normal(size=(2000, 2))
    weight = rng.uniform(0.1, 2.0, size=2000)
    model = KernelRidge(
        alpha, kernel=K.RBF(0.3), solver="nystrom", n_centers=60, fit_intercept=fit_intercept
    )
    by_sums = clone(model).fit(X, Y, weight)
    monkeypatch.setattr("mercer.estimators.centres.PASSES_FROM_MULTIPLICATIONS", 0)
    by_passes = clone(model).fit(X, Y, weight)
    for fitted in (by_sums, by_passes):
        assert fitted.result_.status is Status.CONVERGED
        assert fitted.result_.gap <= 1e-6
    assert_allclose(by_passes.predict(X), by_sums.predict(X), atol=2e-4)
    # Where rounding would stop the passes, the sums are taken.
    assert by_passes.moments_.exact == (alpha == 1e-8 and spread == 1e-3)
