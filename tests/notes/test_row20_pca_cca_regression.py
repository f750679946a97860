"""Row 20. Kernel PCA, kernel CCA and kernel regression, which the regression lecture names.

Each is a linear method that touches the data through inner products alone. Principal components of
features are eigenvectors of the centred Gram matrix; canonical correlation of two views of the same
points is a generalised eigenproblem in their two Gram matrices; regression is a linear system.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh

import mercer
from mercer import kernels as K


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 3))


def centred(G):
    n = len(G)
    H = np.eye(n) - np.ones((n, n)) / n
    return H @ G @ H


def same_up_to_sign(A, B, atol):
    for a, b in zip(A.T, B.T, strict=True):
        sign = np.sign(a @ b)
        np.testing.assert_allclose(a, sign * b, atol=atol)


@pytest.mark.parametrize("kernel", [K.Linear(), K.Polynomial(2), K.RBF(0.3)], ids=repr)
def test_principal_components_are_eigenvectors_of_the_centred_gram(kernel, X):
    values, vectors = np.linalg.eigh(centred(kernel(X)))
    values, vectors = values[::-1][:3], vectors[:, ::-1][:, :3]
    model = mercer.KernelPCA(n_components=3, kernel=kernel).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)
    same_up_to_sign(model.fit_transform(X), vectors * np.sqrt(values), atol=1e-7)
    total = np.trace(centred(kernel(X)))
    np.testing.assert_allclose(model.explained_variance_ratio_, values / total, rtol=1e-9)


def test_principal_components_are_those_of_the_explicit_features(X):
    phi = K.Polynomial(2).feature_map().fit(X)
    Phi = phi.transform(X)
    mean = Phi.mean(axis=0)
    _, sizes, directions = np.linalg.svd(Phi - mean)
    model = mercer.KernelPCA(n_components=4, kernel=K.Polynomial(2)).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, sizes[:4] ** 2, rtol=1e-9)
    fresh = np.random.default_rng(1).normal(size=(10, 3))
    by_hand = (phi.transform(fresh) - mean) @ directions[:4].T
    same_up_to_sign(model.transform(fresh), by_hand, atol=1e-7)


def test_kernel_pca_unfolds_two_rings():
    rng = np.random.default_rng(2)
    angle = rng.uniform(0, 2 * np.pi, size=80)
    radius = np.repeat([1.0, 4.0], 40)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    y = np.where(radius > 2, 1.0, -1.0)

    def best_line(F):
        """Accuracy of the least squares halfspace."""
        with_one = np.column_stack([F, np.ones(len(F))])
        return np.mean(np.sign(with_one @ np.linalg.lstsq(with_one, y, rcond=None)[0]) == y)

    curved = mercer.KernelPCA(n_components=3, kernel=K.Polynomial(2, coef0=0)).fit_transform(X)
    assert best_line(mercer.KernelPCA(n_components=2, kernel=K.Linear()).fit_transform(X)) < 0.7
    assert best_line(curved) == 1.0


def regularised_cca(G1, G2, rho):
    """Σ of alphaᵀK1K2beta under alphaᵀ(K1² + n kappa K1)alpha = 1, as one symmetric problem."""
    n = len(G1)
    K1, K2 = centred(G1), centred(G2)

    def factor(G):
        """B with f(x_i) = √n (Bu)_i, where uᵀu = var f + kappa‖f‖²."""
        values, vectors = np.linalg.eigh(G)
        keep = values > 1e-10 * values[-1]
        values, vectors = values[keep], vectors[:, keep]
        kappa = rho * np.trace(G) / n
        return vectors * np.sqrt(values / (values / n + kappa) / n)

    return np.linalg.svd(factor(K1).T @ factor(K2))[1]


@pytest.mark.parametrize("rho", [0.01, 0.3])
def test_canonical_correlations_of_two_views(rho, X):
    rng = np.random.default_rng(3)
    Y = np.column_stack([X[:, 0] ** 2 + 0.1 * rng.normal(size=40), rng.normal(size=40)])
    kernels = [K.Polynomial(2), K.RBF(0.5)]
    by_hand = regularised_cca(kernels[0](X), kernels[1](Y), rho)
    model = mercer.KernelCCA(n_components=3, kernel=kernels, regularization=rho).fit(X, Y)
    np.testing.assert_allclose(model.canonical_correlations_, by_hand[:3], rtol=1e-7)


def test_with_linear_kernels_and_little_penalty_it_is_classical_cca(X):
    rng = np.random.default_rng(4)
    Y = X @ rng.normal(size=(3, 2)) + 0.5 * rng.normal(size=(40, 2))
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    S = np.block([[np.zeros((3, 3)), A.T @ B], [B.T @ A, np.zeros((2, 2))]])
    D = np.block([[A.T @ A, np.zeros((3, 2))], [np.zeros((2, 3)), B.T @ B]])
    correlations = eigh(S, D)[0][::-1][:2]
    model = mercer.KernelCCA(n_components=2, kernel=K.Linear(), regularization=1e-9).fit(X, Y)
    np.testing.assert_allclose(model.canonical_correlations_, correlations, rtol=1e-6)
    a, b = model.transform(X, Y)
    for j in range(2):
        assert np.corrcoef(a[:, j], b[:, j])[0, 1] == pytest.approx(correlations[j], rel=1e-6)


def test_cca_finds_a_relation_that_no_line_shows():
    rng = np.random.default_rng(5)
    t = rng.uniform(-2, 2, size=(150, 1))
    X, Y = t, t**2 + 0.05 * rng.normal(size=(150, 1))
    linear = mercer.KernelCCA(n_components=1, kernel=K.Linear(), regularization=1e-6)
    curved = mercer.KernelCCA(n_components=1, kernel=K.RBF(1.0), regularization=0.02)
    assert linear.fit(X[:100], Y[:100]).score(X[100:], Y[100:]) < 0.5
    assert curved.fit(X[:100], Y[:100]).score(X[100:], Y[100:]) > 0.95
    assert curved.permutation_test(99, random_state=0).pvalue == 0.01


def test_without_regularisation_unrelated_views_would_correlate_fully():
    rng = np.random.default_rng(6)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    tiny = mercer.KernelCCA(n_components=1, kernel=K.RBF(1.0), regularization=1e-6).fit(X, Y)
    honest = mercer.KernelCCA(n_components=1, kernel=K.RBF(1.0), regularization=0.1).fit(X, Y)
    assert tiny.canonical_correlations_[0] > 0.999
    assert honest.permutation_test(99, random_state=0).pvalue > 0.05


def test_kernel_regression_by_ridge_and_by_local_averages():
    rng = np.random.default_rng(7)
    X = rng.uniform(-3, 3, size=(200, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)
    fresh = np.linspace(-2.5, 2.5, 50)[:, None]
    truth = np.sin(2 * fresh[:, 0])
    a = np.linalg.solve(K.RBF(2.0)(X) + 0.1 * np.eye(200), y)
    ridge = mercer.KernelRidge(alpha=0.1, kernel=K.RBF(2.0)).fit(X, y)
    np.testing.assert_allclose(ridge.predict(fresh), K.RBF(2.0)(fresh, X) @ a, atol=1e-9)
    local = mercer.NadarayaWatsonRegressor(bandwidth="loo").fit(X, y)
    straight = np.polyval(np.polyfit(X[:, 0], y, 1), fresh[:, 0])
    line = np.mean((straight - truth) ** 2)
    for model in (ridge, local):
        assert np.mean((model.predict(fresh) - truth) ** 2) < 0.02 * line
