"""Kernel ridge: closed forms, refits, scikit-learn, and what it says when things go wrong."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_regression,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeCV
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.ridge import KernelRidge, KernelRidgeClassifier
from mercer.estimators.ridge_cv import KernelRidgeCV
from mercer.solvers.result import Status


@parametrize_with_checks(
    [
        KernelRidge(),
        KernelRidge(kernel="rbf", solver="eigh"),
        KernelRidge(kernel=K.RBF(), solver="gd"),
        KernelRidge(kernel="poly", degree=2, solver="primal"),
        KernelRidge(kernel="rbf", solver="pcg", fit_intercept=True),
        KernelRidge(kernel="rbf", solver="nystrom"),
        KernelRidgeClassifier(),
        KernelRidgeCV(kernel="rbf"),
        KernelRidgeCV(kernel="rbf", solver="nystrom", fit_intercept=True),
    ]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def data(n=40, d=3, targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.sin(X @ rng.normal(size=(d, targets))) + 0.1 * rng.normal(size=(n, targets))
    return X, (Y[:, 0] if targets == 1 else Y)


KERNELS = [
    {"kernel": "linear"},
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "laplacian", "gamma": 0.3},
    {"kernel": "poly", "degree": 2, "coef0": 0.5},
    {"kernel": "cosine"},
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(kernel, targets, weighted):
    X, y = data(targets=targets)
    weight = np.random.default_rng(1).uniform(0.1, 2.0, size=len(X)) if weighted else None
    alpha = [0.05, 1.0, 3.0] if targets == 3 else 0.05
    ours = KernelRidge(alpha, **kernel).fit(X, y, sample_weight=weight)
    theirs = SklearnKernelRidge(alpha, **kernel).fit(X, y, sample_weight=weight)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-9)
    assert_allclose(ours.predict(X[::2] + 0.1), theirs.predict(X[::2] + 0.1), atol=1e-9)
    assert ours.result_.gap < 1e-10


def test_equals_scikit_learn_on_diabetes():
    X, y = load_diabetes(return_X_y=True)
    ours = KernelRidge(0.01, kernel="rbf", gamma=2.0).fit(X, y)
    theirs = SklearnKernelRidge(0.01, kernel="rbf", gamma=2.0).fit(X, y)
    assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)


@pytest.mark.parametrize("solver", ["auto", "cholesky", "eigh", "primal", "pcg", "gd"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_solver_finds_the_closed_form(solver, weighted):
    X, y = data(n=20)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=20) if weighted else np.ones(20)
    kernel = K.Polynomial(degree=2)
    model = KernelRidge(0.7, kernel=kernel, solver=solver, max_iter=100_000, tol=1e-12)
    model.fit(X, y, sample_weight=weight)
    expected = np.linalg.solve(kernel(X) + 0.7 * np.diag(1 / weight), y)
    if solver != "gd":  # which is slow to settle what no prediction depends on
        assert_allclose(model.dual_coef_, expected, atol=1e-9)
    assert_allclose(model.predict(X[:5] + 1), kernel(X[:5] + 1, X) @ expected, atol=1e-7)


def test_auto_chooses_and_says_why():
    X, y = data(n=60)
    linear = KernelRidge().fit(X, y)
    assert linear.result_.method == "primal: 3 features are few beside 60 points"
    assert_allclose(linear.coef_, np.linalg.solve(X.T @ X + np.eye(3), X.T @ y))
    wide = KernelRidge(kernel="poly").fit(X, y)
    assert wide.result_.method == "cholesky: 20 features are not few beside 60 points"
    assert wide.coef_ is None
    gaussian = KernelRidge(kernel="rbf").fit(X, y)
    assert gaussian.result_.method == "cholesky: no finite feature map"
    free = KernelRidge(1e-18, kernel="rbf").fit(X, y)
    assert free.result_.method == "eigh: alpha is lost in rounding"


def test_refitting_with_another_solver_forgets_the_weights():
    X, y = data(n=30)
    model = KernelRidge(0.1).fit(X, y)
    before = model.predict(X)
    model.set_params(solver="cholesky").fit(X, y)
    assert model.coef_ is None
    assert_allclose(model.predict(X), before, atol=1e-10)


def test_strings_are_solved_in_their_sparse_features():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ab"), size=12)) for _ in range(80)]
    y = np.array([sum(text[i:].startswith("aba") for i in range(12)) for text in texts], float)
    kernel = K.Spectrum(k=3)
    auto = KernelRidge(0.1, kernel=kernel).fit(texts, y)
    dual = KernelRidge(0.1, kernel=kernel, solver="cholesky").fit(texts, y)
    assert auto.result_.method.startswith("primal: 8 features")
    assert_allclose(auto.predict(["abababab", "bbbb"]), dual.predict(["abababab", "bbbb"]))
    assert_allclose(auto.dual_coef_, dual.dual_coef_, atol=1e-8)
    assert auto.score(texts, y) > 0.99


@pytest.mark.parametrize("solver", ["auto", "eigh", "cholesky"])
def test_alpha_zero_on_a_singular_gram_is_minimum_norm_and_warns(solver):
    X, y = data(n=12)
    X[5] = X[3]
    model = KernelRidge(0, kernel="rbf", solver=solver)
    with pytest.warns(ConvergenceWarning, match="numerical rank 11 of 12"):
        model.fit(X, y)
    assert_allclose(model.predict(X), rbf_kernel(X) @ np.linalg.pinv(rbf_kernel(X)) @ y, atol=1e-6)
    assert model.predict(X[[3]])[0] == pytest.approx((y[3] + y[5]) / 2)


def test_alpha_zero_in_the_primal_is_least_squares():
    X, y = data(n=50)
    model = KernelRidge(0, solver="primal").fit(X, y)
    assert_allclose(model.coef_, np.linalg.lstsq(X, y)[0])
    assert_allclose(X.T @ model.dual_coef_, model.coef_)


def test_constant_columns_and_single_points():
    X, y = data(n=10)
    X = np.column_stack([X, np.ones(10)])
    for kernel in ("linear", "rbf"):
        model = KernelRidge(0.5, kernel=kernel).fit(X, y)
        assert_allclose(
            model.predict(X), SklearnKernelRidge(0.5, kernel=kernel).fit(X, y).predict(X)
        )
    assert_allclose(KernelRidge(1.0).fit([[2.0]], [5.0]).predict([[2.0]]), [4.0])


@pytest.mark.parametrize("alpha", [1e-14, 1e14])
def test_extreme_regularisers(alpha):
    X, y = data(n=15)
    model = KernelRidge(alpha, kernel="laplacian").fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))
    if alpha < 1:
        assert_allclose(model.predict(X), y, atol=1e-6)
    else:
        assert_allclose(model.predict(X), 0.0, atol=1e-10)


def test_gradient_descent_walks_as_the_notes_do():
    """Notes 004: alpha_i <- alpha_i - 2 s (h(x_i) - y_i) from zero, without a regulariser."""
    X, y = data(n=15)
    model = KernelRidge(
        0, kernel="rbf", solver="gd", step_size=0.01, max_iter=25, tol=0, keep_path=True
    )
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    alpha, gram = np.zeros(15), rbf_kernel(X)
    assert model.path_.shape == (26, 15)
    for step in model.path_:
        assert_allclose(step, alpha, atol=1e-13)
        alpha = alpha - 2 * 0.01 * (gram @ alpha - y)
    assert_allclose(model.dual_coef_, model.path_[-1])
    assert model.n_iter_ == 25


def test_divergence_is_named_with_the_largest_stable_step():
    X, y = data(n=15)
    limit = 1 / (np.linalg.eigvalsh(rbf_kernel(X))[-1] + 0.5)
    model = KernelRidge(0.5, kernel="rbf", solver="gd", step_size=2 * limit)
    with pytest.warns(ConvergenceWarning, match=f"largest stable step_size is {limit:.3g}"[:-1]):
        model.fit(X, y)
    assert model.result_.status is Status.DIVERGED
    assert np.all(np.isfinite(model.dual_coef_))


INTERCEPTS = ["auto", "cholesky", "eigh", "primal", "pcg", "nystrom", "gd"]


@pytest.mark.parametrize("solver", INTERCEPTS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [1, 2])
def test_an_intercept_is_centring_with_every_solver(solver, weighted, targets):
    X, y = data(n=30, targets=targets)
    y = y + 5.0
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=30) if weighted else np.ones(30)
    weight[3] = 0.0 if weighted else 1.0
    model = KernelRidge(0.7, kernel=K.Polynomial(degree=2), fit_intercept=True, solver=solver)
    model.set_params(max_iter=100_000, tol=1e-12, n_centers=30 if solver == "nystrom" else None)
    model.fit(X, y, sample_weight=weight)
    phi = K.Polynomial(degree=2).feature_map().fit(X)
    theirs = Ridge(0.7).fit(phi.transform(X), y, sample_weight=weight)
    assert_allclose(model.intercept_, theirs.intercept_, atol=1e-6)
    query = X[:6] + 0.5
    assert_allclose(model.predict(query), theirs.predict(phi.transform(query)), atol=1e-6)
    if solver != "nystrom":
        assert_allclose(model.dual_coef_.sum(axis=0), 0.0, atol=1e-9)


def test_sparse_features_are_centred_without_being_filled():
    texts = ["aab", "abb", "bbb", "aaa", "abab", "baab", "bb", "ba", "aabb", "abba"] * 4
    y = np.array([text.count("a") + 0.1 * i for i, text in enumerate(texts)])
    kernel = K.Spectrum(k=2)
    primal = KernelRidge(0.1, kernel=kernel, fit_intercept=True).fit(texts, y)
    dual = KernelRidge(0.1, kernel=kernel, fit_intercept=True, solver="cholesky").fit(texts, y)
    assert primal.coef_ is not None
    assert_allclose(primal.predict(texts), dual.predict(texts), atol=1e-9)
    assert_allclose(primal.dual_coef_, dual.dual_coef_, atol=1e-8)


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
    assert by_function.result_.method == "cholesky: values of this kernel are dear to recompute"
    assert free.result_.method.startswith("eigh: alpha is lost in rounding")


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
            m.setattr("mercer.estimators.ridge_solution.FLOAT32_FROM", 100)
            model.fit(X, y)
        assert model.result_.method.startswith(method)
        assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-7, atol=1e-7)
        assert model.intercept_ == pytest.approx(expected.intercept_, rel=1e-9)


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
    monkeypatch.setattr("mercer.estimators.ridge_nystrom.ENTRIES", 20 * 64)
    monkeypatch.setattr("mercer.estimators.ridge_nystrom.PASSES_PAY", 0)
    blocked = clone(model).fit(mapped, y)
    assert_allclose(blocked.predict(X), whole, atol=1e-6)
    assert re.search(r"sums over \d+ points precondition", blocked.result_.method)
    with pytest.raises(ValueError, match="over a part of its points"):
        blocked.partial_fit(X, y)


def test_far_more_points_than_centres_have_no_bound_and_say_so(monkeypatch):
    X, y = data(n=300)
    monkeypatch.setattr("mercer.estimators.ridge_nystrom.BOUND_PAYS", 10)
    model = KernelRidge(0.1, kernel="rbf", solver="nystrom", n_centers=20).fit(X, y)
    assert model.error_bound_ is None
    assert "no bound on the distance" in model.result_.method


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


def test_sparse_float32_precomputed_and_functions_agree_with_dense():
    X, y = data(n=25)
    X[np.abs(X) < 0.5] = 0.0
    query = X[:7]
    expected = KernelRidge(0.1, kernel="rbf", gamma=0.4).fit(X, y).predict(query)
    csr = KernelRidge(0.1, kernel="rbf", gamma=0.4).fit(sparse.csr_array(X), y)
    assert_allclose(csr.predict(sparse.csr_array(query)), expected)
    single = KernelRidge(0.1, kernel="rbf", gamma=0.4).fit(X.astype(np.float32), y)
    assert_allclose(single.predict(query.astype(np.float32)), expected, atol=1e-4)
    given = KernelRidge(0.1, kernel="precomputed").fit(rbf_kernel(X, gamma=0.4), y)
    assert_allclose(given.predict(rbf_kernel(query, X, gamma=0.4)), expected)

    def gaussian(a, b, width):
        return np.exp(-width * np.sum((a - b) ** 2))

    by_hand = KernelRidge(0.1, kernel=gaussian, kernel_params={"width": 0.4}).fit(X, y)
    assert_allclose(by_hand.predict(query), expected)


def test_an_indefinite_kernel_is_refused_or_corrected():
    X, y = data(n=20)
    kernel = K.Sigmoid(coef0=1.0)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        KernelRidge(0.1, kernel=kernel).fit(X, y)
    values, vectors = np.linalg.eigh(kernel(X))
    clipped = (vectors * np.maximum(values, 0)) @ vectors.T
    for solver in ("cholesky", "eigh", "gd"):
        model = KernelRidge(
            0.1, kernel=kernel, indefinite="clip", solver=solver, max_iter=50_000, tol=1e-11
        ).fit(X, y)
        expected = clipped @ np.linalg.solve(clipped + 0.1 * np.eye(20), y)
        assert_allclose(model.predict(X), expected, atol=1e-6)


def test_grid_search_reaches_into_the_kernel():
    X, y = data(n=60)
    search = GridSearchCV(
        KernelRidge(0.1, kernel=K.RBF() + K.Linear()), {"kernel__left__gamma": [1e-3, 0.5, 50.0]}
    ).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores.round(9))) == 3
    assert search.best_params_ == {"kernel__left__gamma": 0.5}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"alpha": -1}, ValueError, "alpha"),
        ({"alpha": [1.0, 2.0]}, ValueError, "2 values and y has 1 target"),
        ({"kernel": "rbf", "gamma": -1.0}, ValueError, "gamma"),
        ({"kernel": "no such"}, ValueError, "kernel='no such'"),
        ({"kernel": K.RBF(), "gamma": 3.0}, ValueError, "gamma=3.0 has no effect"),
        ({"solver": "magic"}, ValueError, "solver"),
        ({"solver": "primal", "kernel": "rbf"}, TypeError, "no finite feature map"),
        ({"step_size": 0}, ValueError, "step_size"),
    ],
)
def test_wrong_parameters_are_named(change, error, words):
    X, y = data(n=10)
    with pytest.raises(error, match=words):
        KernelRidge(**change).fit(X, y)


def test_wrong_data_are_named():
    X, y = data(n=10)
    with pytest.raises(ValueError, match="NaN"):
        KernelRidge().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        KernelRidge().fit(X, y, sample_weight=-np.ones(10))
    with pytest.raises(ValueError, match="features"):
        KernelRidge().fit(X, y).predict(X[:, :2])
    with pytest.raises(ValueError, match="one class only"):
        KernelRidgeClassifier().fit(X, np.zeros(10))
    with pytest.raises(ValueError, match=r"0 sample|[Ee]mpty"):
        KernelRidge().fit(np.empty((0, 3)), [])


def leave_out_by_refitting(X, y, alpha, weight, folds, gamma=0.5, **options):
    predictions = np.empty_like(y)
    for fold in folds:
        kept = np.setdiff1d(np.arange(len(y)), fold)
        model = KernelRidge(alpha, kernel="rbf", gamma=gamma, **{"solver": "eigh", **options})
        model.fit(X[kept], y[kept], sample_weight=weight[kept])
        predictions[fold] = model.predict(X[fold])
    return predictions


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leave_one_out_equals_refitting(targets, weighted, fit_intercept):
    X, y = data(n=20, targets=targets)
    y = y + 2.0
    rng = np.random.default_rng(3)
    weight = rng.uniform(0.1, 2.0, size=20) if weighted else np.ones(20)
    if weighted:
        weight[4] = 0.0
    alphas = [1e-4, 0.01, 0.3, 5.0]
    model = KernelRidgeCV(alphas, kernel="rbf", gamma=0.5, fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weight if weighted else None)
    scores, ones = [], [[i] for i in range(20)]
    for alpha in alphas:
        slow = leave_out_by_refitting(X, y, alpha, weight, ones, fit_intercept=fit_intercept)
        errors = ((y - slow) ** 2).reshape(20, -1).mean(axis=1)
        scores.append(-np.sum(weight * errors) / weight.sum())
        if alpha == model.alpha_:
            assert_allclose(model.loo_predictions_, slow, atol=1e-8)
    assert_allclose(model.loo_scores_, scores, rtol=1e-7)
    assert model.alpha_ == alphas[int(np.argmax(scores))]
    assert model.best_score_ == model.loo_scores_.max()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leaving_folds_out_equals_refitting(fit_intercept):
    X, y = data(n=24)
    y = y + 2.0
    option = {"fit_intercept": fit_intercept}
    weight = np.random.default_rng(3).uniform(0.1, 2.0, size=24)
    weight[7] = 0.0
    splits = KFold(5, shuffle=True, random_state=0)
    model = KernelRidgeCV([0.2], kernel="rbf", gamma=0.5, cv=splits, **option)
    model.fit(X, y, sample_weight=weight)
    folds = [test for _, test in splits.split(X)]
    slow = leave_out_by_refitting(X, y, 0.2, weight, folds, **option)
    assert_allclose(model.loo_predictions_, slow, atol=1e-9)
    free = KernelRidgeCV([0.0], kernel="rbf", gamma=0.5, cv=splits, **option).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        slow = leave_out_by_refitting(X, y, 0.0, np.ones(24), folds, **option)
    assert_allclose(free.loo_predictions_, slow, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("cv", [None, "gcv", 4])
def test_centres_choose_as_the_refits_they_stand_for(fit_intercept, cv):
    X, y = data(n=60)
    y = y + 2.0
    weight = np.random.default_rng(3).uniform(0.1, 2.0, size=60)
    alphas = np.logspace(-4, 1, 6)
    option = {"solver": "nystrom", "n_centers": 15, "fit_intercept": fit_intercept}
    model = KernelRidgeCV(alphas, kernel="rbf", gamma=0.5, cv=cv, **option)
    model.fit(X, y, sample_weight=weight)
    plain = KernelRidge(model.alpha_, kernel="rbf", gamma=0.5, **option)
    plain.fit(X, y, sample_weight=weight)
    assert_allclose(model.predict(X), plain.predict(X), atol=1e-9)
    if cv != "gcv":
        option["centers"] = model.X_fit_
        folds = np.split(np.arange(60), cv or 60)
        slow = leave_out_by_refitting(X, y, model.alpha_, weight, folds, **option)
        assert_allclose(model.loo_predictions_, slow, atol=1e-8)
        assert model.best_score_ == pytest.approx(-np.average((y - slow) ** 2, weights=weight))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_generalised_cross_validation_by_hand(fit_intercept, weighted):
    X, y = data(n=30)
    weight = np.random.default_rng(3).uniform(0.1, 2.0, size=30) if weighted else np.ones(30)
    weight[2] = 0.0 if weighted else 1.0
    alphas = [0.01, 0.3]
    model = KernelRidgeCV(alphas, kernel="rbf", cv="gcv", fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weight)
    used = weight > 0
    for alpha, score in zip(alphas, model.loo_scores_, strict=True):
        # The hat matrix, column by column, from fits to unit vectors.
        units = KernelRidge(alpha, kernel="rbf", fit_intercept=fit_intercept, solver="eigh")
        units.fit(X[used], np.eye(used.sum()), sample_weight=weight[used])
        hat = units.predict(X[used])
        n, residual = used.sum(), y[used] - hat @ y[used]
        expected = n * np.sum(weight[used] * residual**2) / (n - np.trace(hat)) ** 2
        assert score == pytest.approx(-expected)
        if alpha == model.alpha_:
            left_out = y[used] - residual * n / (n - np.trace(hat))
            assert_allclose(model.loo_predictions_[used], left_out, atol=1e-9)
    centred = KernelRidgeCV(
        alphas, kernel="rbf", cv="gcv", fit_intercept=fit_intercept, solver="nystrom", n_centers=30
    ).fit(X, y, sample_weight=weight)
    assert_allclose(centred.loo_scores_, model.loo_scores_, rtol=1e-6)
    assert_allclose(centred.loo_predictions_, model.loo_predictions_, atol=1e-6)
    with pytest.raises(ValueError, match="no effect with cv='gcv'"):
        model.set_params(scoring="r2").fit(X, y)


def test_folds_must_leave_out_every_point_once():
    X, y = data(n=10)
    everyone = np.arange(10)
    with pytest.raises(ValueError, match="all points outside its test set"):
        KernelRidgeCV(cv=[(everyone, everyone[:2])]).fit(X, y)
    with pytest.raises(ValueError, match="every point exactly once"):
        KernelRidgeCV(cv=[(everyone[2:], everyone[:2])]).fit(X, y)


def test_the_chosen_model_is_kernel_ridge():
    X, y = data(n=30)
    chosen = KernelRidgeCV([0.01, 0.1, 1.0], kernel="rbf").fit(X, y)
    plain = KernelRidge(chosen.alpha_, kernel="rbf").fit(X, y)
    assert_allclose(chosen.predict(X), plain.predict(X), atol=1e-9)


def test_other_scores_and_scikit_learn_agree():
    X, y = make_regression(30, 4, noise=5.0, random_state=0)
    alphas = [0.1, 1.0, 10.0, 100.0]
    ours = KernelRidgeCV(alphas).fit(X, y)
    theirs = RidgeCV(alphas, fit_intercept=False).fit(X, y)
    assert ours.alpha_ == theirs.alpha_
    assert_allclose(ours.predict(X), theirs.predict(X))
    judged = KernelRidgeCV(alphas, scoring="r2").fit(X, y)
    assert_allclose(judged.best_score_, r2_score(y, judged.loo_predictions_))
    weight = np.arange(1.0, 31.0)
    judged = KernelRidgeCV(alphas, scoring="r2").fit(X, y, sample_weight=weight)
    expected = r2_score(y, judged.loo_predictions_, sample_weight=weight)
    assert_allclose(judged.best_score_, expected)
    with pytest.raises(ValueError, match="alphas"):
        KernelRidgeCV([]).fit(X, y)
    with pytest.raises(ValueError, match="none negative"):
        KernelRidgeCV([-1.0]).fit(X, y)


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_the_classifier_is_ridge_on_signs(load, class_weight):
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for labels in (y, y == 1):
        ours = KernelRidgeClassifier(0.5, kernel="linear", class_weight=class_weight)
        theirs = RidgeClassifier(0.5, fit_intercept=False, class_weight=class_weight)
        ours.fit(X, labels)
        theirs.fit(X, labels)
        assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-8)
        assert_array_equal(ours.predict(X), theirs.predict(X))


def test_the_classifier_on_digits_like_strings():
    texts = ["aaab", "abab", "bbba", "baba", "aaaa", "bbbb"]
    labels = ["a", "a", "b", "b", "a", "b"]
    model = KernelRidgeClassifier(0.01, kernel=K.Spectrum(k=1)).fit(texts, labels)
    assert_array_equal(model.predict(["aaabbb", "aaaaab", "bbbbba"])[1:], ["a", "b"])


@pytest.mark.parametrize("solver", ["auto", "eigh", "primal"])
def test_a_small_alpha_is_not_taken_for_zero(solver):
    X, y = load_breast_cancer(return_X_y=True)
    alpha = 1e-6
    stacked = np.vstack([X, np.sqrt(alpha) * np.eye(30)])
    w = np.linalg.lstsq(stacked, np.append(y, np.zeros(30)), rcond=None)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelRidge(alpha, solver=solver).fit(X, y.astype(float))
    assert_allclose(model.predict(X), X @ w, atol=1e-5)


def test_cross_validation_warns_like_the_fit_it_chooses():
    X = np.ones((6, 2))
    with pytest.warns(ConvergenceWarning, match="undetermined: .* rank 1 of 6"):
        KernelRidgeCV(alphas=[0.0]).fit(X, np.arange(6.0))
    X, y = load_diabetes(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="undetermined|stalled"):
        KernelRidgeCV(alphas=[1e-14], kernel="rbf", gamma=1e-3).fit(X, y)


def test_a_scorer_without_weights_is_named():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match="scoring='neg_max_error' takes no sample_weight"):
        KernelRidgeCV(scoring="neg_max_error").fit(X, y, sample_weight=np.ones(len(y)))
    KernelRidgeCV(scoring="neg_max_error").fit(X, y)


def test_balanced_classes_count_a_weight_of_two_as_two_samples():
    X, y = load_iris(return_X_y=True)
    X, y = X[30:120], y[30:120]
    weight = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = KernelRidgeClassifier(kernel=K.RBF(0.3), class_weight="balanced")
    weighted.fit(X, y, sample_weight=weight)
    repeated = KernelRidgeClassifier(kernel=K.RBF(0.3), class_weight="balanced")
    repeated.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-8)
