"""Row 24. A kernel matrix computed beforehand: notes 004 (Kernels).

With finitely many training points all inner products fit in one matrix, and learning needs no more
than look-ups in it. So every estimator that learns from a kernel also learns from `Precomputed()`:
it takes the square matrix of the training points in fit, and the matrix of new points with them
later.
"""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import kernels as K

KERNEL = K.RBF(0.5)
CLASSIFIERS = {
    "SVC": {"tol": 1e-8},
    "NuSVC": {"nu": 0.3, "tol": 1e-8},
    "KernelRidgeClassifier": {"solver": "cholesky"},
    "KernelMachineClassifier": {"tol": 1e-10},
    "KernelPerceptron": {"random_state": 0},
    "KernelSGDClassifier": {"random_state": 0, "n_iter": 500},
    "KernelCentroidClassifier": {},
}
REGRESSORS = {
    "SVR": {"tol": 1e-8},
    "NuSVR": {"tol": 1e-8},
    "KernelRidge": {"solver": "cholesky"},
    "KernelRidgeCV": {},
    "KernelMachineRegressor": {"tol": 1e-10},
}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    target = np.sin(X[:, 0]) + X[:, 1]
    return X, target, rng.normal(size=(15, 2))


@pytest.mark.parametrize("given", [K.Precomputed(), "precomputed"], ids=["object", "name"])
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers(name, classes, given, data):
    X, target, fresh = data
    y = np.digitize(target, np.quantile(target, np.linspace(0, 1, classes + 1)[1:-1]))
    build = getattr(mercer, name)
    direct = build(kernel=KERNEL, **CLASSIFIERS[name]).fit(X, y)
    matrix = build(kernel=given, **CLASSIFIERS[name]).fit(KERNEL(X), y)
    np.testing.assert_allclose(
        matrix.decision_function(KERNEL(fresh, X)), direct.decision_function(fresh), atol=1e-6
    )
    np.testing.assert_array_equal(matrix.predict(KERNEL(fresh, X)), direct.predict(fresh))


@pytest.mark.parametrize("given", [K.Precomputed(), "precomputed"], ids=["object", "name"])
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, given, data):
    X, target, fresh = data
    build = getattr(mercer, name)
    direct = build(kernel=KERNEL, **REGRESSORS[name]).fit(X, target)
    matrix = build(kernel=given, **REGRESSORS[name]).fit(KERNEL(X), target)
    np.testing.assert_allclose(matrix.predict(KERNEL(fresh, X)), direct.predict(fresh), atol=1e-6)


def test_one_class(data):
    X, _, fresh = data
    direct = mercer.OneClassSVM(kernel=KERNEL, nu=0.2, tol=1e-8).fit(X)
    matrix = mercer.OneClassSVM(kernel=K.Precomputed(), nu=0.2, tol=1e-8).fit(KERNEL(X))
    np.testing.assert_allclose(
        matrix.decision_function(KERNEL(fresh, X)), direct.decision_function(fresh), atol=1e-6
    )


def test_kernel_pca(data):
    X, _, fresh = data
    direct = mercer.KernelPCA(n_components=3, kernel=KERNEL).fit(X)
    matrix = mercer.KernelPCA(n_components=3, kernel=K.Precomputed()).fit(KERNEL(X))
    np.testing.assert_allclose(matrix.eigenvalues_, direct.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(
        np.abs(matrix.transform(KERNEL(fresh, X))), np.abs(direct.transform(fresh)), atol=1e-7
    )


def test_kernel_cca_in_each_view(data):
    X, target, fresh = data
    Y = np.column_stack([target, np.random.default_rng(1).normal(size=60)])
    direct = mercer.KernelCCA(n_components=1, kernel=KERNEL).fit(X, Y)
    matrix = mercer.KernelCCA(n_components=1, kernel=K.Precomputed()).fit(KERNEL(X), KERNEL(Y))
    np.testing.assert_allclose(
        matrix.canonical_correlations_, direct.canonical_correlations_, rtol=1e-7
    )
    np.testing.assert_allclose(
        np.abs(matrix.transform(KERNEL(fresh, X))), np.abs(direct.transform(fresh)), atol=1e-6
    )


def test_look_ups_are_all_that_gradient_descent_needs(data):
    X, target, _ = data
    G = KERNEL(X)
    s = 0.3 / np.linalg.eigvalsh(G)[-1]
    alpha = np.zeros(60)
    for _ in range(20):
        alpha = alpha - 2 * s * (G @ alpha - target)
    model = mercer.KernelRidge(
        alpha=0, kernel=K.Precomputed(), solver="gd", step_size=s, max_iter=20, tol=0
    )
    with pytest.warns(Warning, match="step"):
        model.fit(G, target)
    np.testing.assert_allclose(model.dual_coef_, alpha, rtol=1e-9)


def test_any_matrix_that_is_a_kernel_will_do_and_no_other(data):
    _, target, _ = data
    rng = np.random.default_rng(2)
    B = rng.normal(size=(60, 8))
    A = B @ B.T  # of points nobody has seen
    model = mercer.KernelRidge(alpha=1.0, kernel=K.Precomputed()).fit(A, target)
    by_hand = np.linalg.solve(A + np.eye(60), target)
    np.testing.assert_allclose(model.dual_coef_, by_hand, rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match="positive semidefinite"):
        mercer.KernelRidge(alpha=1.0, kernel=K.Precomputed()).fit(A - 20 * np.eye(60), target)


def test_the_matrix_must_be_square():
    with pytest.raises(ValueError, match="square"):
        mercer.KernelRidge(kernel=K.Precomputed()).fit(np.ones((4, 3)), np.arange(4.0))


def test_cross_validation_cuts_rows_and_columns(data):
    from sklearn.model_selection import cross_val_score

    X, target, _ = data
    direct = cross_val_score(mercer.KernelRidge(alpha=0.1, kernel=KERNEL), X, target, cv=4)
    matrix = cross_val_score(
        mercer.KernelRidge(alpha=0.1, kernel=K.Precomputed()), KERNEL(X), target, cv=4
    )
    np.testing.assert_allclose(matrix, direct, rtol=1e-7)
