"""Kernel ridge: closed forms, scikit-learn, and what it says when things go wrong."""

from __future__ import annotations

import re
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.ridge.classification import KernelRidgeClassifier
from mercer.estimators.ridge.cross_validation import KernelRidgeCV
from mercer.estimators.ridge.regression import KernelRidge
from mercer.solvers.result import Status
from ridge_examples import data


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
    assert linear.result_.method == "primal: 3 features are few compared with 60 points"
    assert_allclose(linear.coef_, np.linalg.solve(X.T @ X + np.eye(3), X.T @ y))
    wide = KernelRidge(kernel="poly").fit(X, y)
    assert wide.result_.method == "cholesky: 20 features are not few compared with 60 points"
    assert wide.coef_ is None
    gaussian = KernelRidge(kernel="rbf").fit(X, y)
    assert gaussian.result_.method == "cholesky: no finite feature map"
    free = KernelRidge(1e-18, kernel="rbf").fit(X, y)
    assert free.result_.method == "eigh: alpha is below the rounding error of K"


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


def in_decimals(A, y):
    """A^{-1} y by elimination with 60 digits, the floats of A taken as exact."""
    with localcontext() as context:
        context.prec = 60
        rows = [[Decimal(a) for a in row] for row in np.column_stack([A, y]).tolist()]
        for k, pivot in enumerate(rows):
            for i in range(k + 1, len(rows)):
                factor = rows[i][k] / pivot[k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], pivot, strict=True)]
        x = []  # from the last to the first
        for k in reversed(range(len(rows))):
            known = sum(a * b for a, b in zip(reversed(rows[k][k + 1 : -1]), x, strict=True))
            x.append((rows[k][-1] - known) / rows[k][k])
        return np.array([float(a) for a in reversed(x)])


def gaussian_in_decimals(X, Z, gamma):
    """exp(-gamma ||x - z||^2) with 60 digits, as an array of objects."""
    with localcontext() as context:
        context.prec = 60
        X, Z = ([[Decimal(v) for v in row] for row in A.tolist()] for A in (X, Z))
        far = [[sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) for z in Z] for x in X]
        return np.array([[(-Decimal(gamma) * r).exp() for r in row] for row in far])


@pytest.mark.parametrize("solver", ["cholesky", "auto", "eigh"])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 50.0])
def test_alpha_below_the_rounding_error_of_a_singular_gram_is_warned_of(solver, gamma):
    X = np.linspace(-3, 3, 25)[:, None]
    T, y = X[:-1] + 0.1, np.sin(X[:, 0])  # noise would leave a large residual, and be found by it
    exact, between = gaussian_in_decimals(X, X, gamma), gaussian_in_decimals(T, X, gamma)
    errors, heard = [], []
    for alpha in (1e-6, 1e-12, 1e-14, 1e-15):
        expected = in_decimals(exact + Decimal(alpha) * np.eye(25, dtype=int), y)
        expected = (between @ [Decimal(a) for a in expected.tolist()]).astype(float)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model = KernelRidge(alpha, kernel=K.RBF(gamma), solver=solver).fit(X, y)
        errors.append(np.abs(model.predict(T) - expected).max())
        heard.append("".join(str(warning.message) for warning in caught))
    assert np.array(errors)[[text == "" for text in heard]].max() < 1e-7
    if gamma == 50.0:  # whose Gram matrix is far from singular
        assert heard == [""] * 4
    elif gamma == 0.1:
        assert heard[0] == ""
        told = {"cholesky": "alpha=1e-14 is below the rounding error of K"}
        assert told.get(solver, "numerical rank") in heard[2]


@pytest.mark.parametrize("solver", ["auto", "cholesky", "eigh", "pcg", "nystrom"])
@pytest.mark.parametrize("alpha", [1e-14, 1e-12, 1e-10, 1e-8, 1e-4])
@pytest.mark.parametrize("gamma", [1e-4, 1e-2])
def test_near_singular_systems_are_solved_or_the_condition_number_is_told(solver, alpha, gamma):
    X, y = data(n=15)
    G = K.RBF(gamma)(X)
    expected = y - alpha * in_decimals(G + alpha * np.eye(15), y)
    model = KernelRidge(alpha, kernel="precomputed", solver=solver)
    model.set_params(n_centers=15 if solver == "nystrom" else None)
    if solver == "pcg" and alpha == 1e-14:
        with pytest.raises(ValueError, match="condition number"):
            model.fit(G, y)
        return
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(G, y)
    if heard:
        assert re.search("condition number|undetermined", str(heard[0].message))
    else:
        assert_allclose(model.predict(G), expected, atol=1e-5)


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


def test_balanced_classes_count_a_weight_of_two_as_two_samples():
    X, y = load_iris(return_X_y=True)
    X, y = X[30:120], y[30:120]
    weight = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = KernelRidgeClassifier(kernel=K.RBF(0.3), class_weight="balanced")
    weighted.fit(X, y, sample_weight=weight)
    repeated = KernelRidgeClassifier(kernel=K.RBF(0.3), class_weight="balanced")
    repeated.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-8)
