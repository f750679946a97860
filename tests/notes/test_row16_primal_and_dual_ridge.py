"""Row 16. Ridge regression solved for the weights or for the dual coefficients.

Lecture 19 and the regression lecture. The weights (ΦᵀΦ + λI)⁻¹Φᵀy come from a D by D system, the
dual coefficients (K + λI)⁻¹y from an n by n one; both give the same function, so one solves the
smaller. The regression lecture's example is 1000 images of 32 by 32 pixels with a quadratic kernel:
a regression in a space of about a million dimensions, for the price of a 1000 by 1000 system.
"""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import kernels as K


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2], rng.normal(size=(12, 3))


@pytest.mark.parametrize("kernel", [K.Linear(), K.Polynomial(2), K.Polynomial(3)], ids=repr)
@pytest.mark.parametrize("lam", [1e-3, 1.0, 100.0])
def test_primal_equals_dual_equals_both_formulas(kernel, lam, data):
    X, y, fresh = data
    phi = kernel.feature_map().fit(X)
    Phi = phi.transform(X)
    w = np.linalg.inv(Phi.T @ Phi + lam * np.eye(Phi.shape[1])) @ Phi.T @ y
    a = np.linalg.inv(Phi @ Phi.T + lam * np.eye(len(y))) @ y
    np.testing.assert_allclose(Phi.T @ a, w, rtol=1e-5, atol=1e-6)  # w lies in the span

    primal = mercer.KernelRidge(alpha=lam, kernel=kernel, solver="primal").fit(X, y)
    dual = mercer.KernelRidge(alpha=lam, kernel=kernel, solver="cholesky").fit(X, y)
    np.testing.assert_allclose(primal.coef_, w, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(dual.dual_coef_, a, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(primal.dual_coef_, dual.dual_coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(primal.predict(fresh), phi.transform(fresh) @ w, rtol=1e-7)
    np.testing.assert_allclose(primal.predict(fresh), dual.predict(fresh), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(dual.predict(fresh), kernel(fresh, X) @ a, rtol=1e-5, atol=1e-7)


def test_dual_solution_is_stationary_for_the_lectures_objective(data):
    X, t, _ = data
    G, lam = K.RBF(0.5)(X), 0.3
    a = mercer.KernelRidge(alpha=lam, kernel=K.RBF(0.5)).fit(X, t).dual_coef_
    # The derivative of ½aᵀKKa - aᵀKt + ½tᵀt + ½λaᵀKa.
    np.testing.assert_allclose(G @ G @ a - G @ t + lam * G @ a, 0, atol=1e-10)


def test_auto_takes_the_primal_with_few_features_and_says_so():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(500, 4)), rng.normal(size=500)
    model = mercer.KernelRidge(kernel=K.Linear()).fit(X, y)
    assert model.result_.method.startswith("primal")
    assert "4 features" in model.result_.method
    assert "500 points" in model.result_.method
    assert model.coef_.shape == (4,)
    by_hand = np.linalg.solve(X.T @ X + np.eye(4), X.T @ y)
    np.testing.assert_allclose(model.coef_, by_hand, rtol=1e-9)


def test_auto_takes_the_dual_with_many_features_and_says_so():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(20, 50)), rng.normal(size=20)
    model = mercer.KernelRidge(kernel=K.Linear()).fit(X, y)
    assert model.result_.method.startswith("cholesky")
    assert "50 features" in model.result_.method
    assert "20 points" in model.result_.method
    assert model.coef_ is None
    by_hand = np.linalg.solve(X @ X.T + np.eye(20), y)
    np.testing.assert_allclose(model.dual_coef_, by_hand, rtol=1e-9)


def test_auto_takes_the_dual_where_there_is_no_finite_map_and_says_so(data):
    X, y, _ = data
    model = mercer.KernelRidge(kernel=K.RBF(0.5)).fit(X, y)
    assert "no finite feature map" in model.result_.method


def test_the_thousand_images():
    rng = np.random.default_rng(3)
    images = rng.uniform(size=(1000, 32 * 32)) / 32
    pairs = rng.integers(0, 32 * 32, size=(40, 2))
    y = 1024 * (images[:, pairs[:, 0]] * images[:, pairs[:, 1]]).sum(axis=1)
    y = y - y.mean()
    kernel, lam = K.Polynomial(degree=2, coef0=0), 1e-3

    # The feature space: 1024² products of two pixels, 524,800 of them distinct.
    assert kernel.feature_map().width(images) == 1024 * 1025 // 2
    with pytest.raises(MemoryError, match="524,800 features"):
        kernel.feature_map().fit(images).transform(images)

    model = mercer.KernelRidge(alpha=lam, kernel=kernel).fit(images, y)
    assert model.dual_coef_.shape == (1000,)
    assert model.result_.method.startswith("cholesky")
    assert "524,800 features" in model.result_.method
    a = np.linalg.solve((images @ images.T) ** 2 + lam * np.eye(1000), y)
    np.testing.assert_allclose(model.dual_coef_, a, rtol=1e-6, atol=1e-6 * np.abs(a).max())

    # The weights of all the products, had without ever mapping an image: f(x) = xᵀ W x.
    W = (images.T * model.dual_coef_) @ images
    assert W.size == 1_048_576
    fresh = rng.uniform(size=(5, 32 * 32)) / 32
    by_weights = [x @ W @ x for x in fresh]
    np.testing.assert_allclose(model.predict(fresh), by_weights, rtol=1e-6, atol=1e-8)
