"""Row 11. Kernel ridge regression in each note's convention, and its closed form.

Chapter 16 (Shalev-Shwartz and Ben-David), exercise 3, minimises lambda ‖w‖² plus 1/(2m) times the
sum of squared errors. In alpha this is lambda alphaᵀGalpha + (1/2m)‖G alpha - y‖², least at
alpha = (G + 2 m lambda I)⁻¹ y, so `KernelRidge(alpha=2*m*lam)` is that problem. Lecture 19 has
½ Σ (...)² + (lambda/2)‖w‖² and the regression lecture ‖y - Xw‖² + lambda ‖w‖², both solved by
(K + lambda I)⁻¹ t: their lambda is `alpha`.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import mercer
from mercer import kernels as K


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=30)


KERNELS = [K.Linear(), K.Polynomial(2), K.RBF(0.3), K.Laplacian(0.5)]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
def test_exercise_3_closed_form(kernel, lam, data):
    X, y = data
    m, G = len(y), kernel(X)
    closed = np.linalg.solve(G + 2 * m * lam * np.eye(m), y)
    model = mercer.KernelRidge(alpha=2 * m * lam, kernel=kernel).fit(X, y)
    np.testing.assert_allclose(model.predict(X), G @ closed, rtol=1e-7, atol=1e-9)

    def g(alpha):  # (16.9)
        return lam * alpha @ G @ alpha + np.sum((G @ alpha - y) ** 2) / (2 * m)

    rng = np.random.default_rng(1)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            assert g(model.dual_coef_ + size * rng.normal(size=m)) >= g(model.dual_coef_) - 1e-12


@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
def test_exercise_3_in_feature_space(lam, data):
    X, y = data
    m = len(y)
    phi = K.Polynomial(2).feature_map().fit(X)
    Phi = phi.transform(X)

    def f(w):  # (16.8)
        return lam * w @ w + np.sum((Phi @ w - y) ** 2) / (2 * m)

    def slope(w):
        return 2 * lam * w + Phi.T @ (Phi @ w - y) / m

    found = minimize(f, np.zeros(Phi.shape[1]), jac=slope, method="BFGS", options={"gtol": 1e-10})
    model = mercer.KernelRidge(alpha=2 * m * lam, kernel=K.Polynomial(2)).fit(X, y)
    np.testing.assert_allclose(Phi.T @ model.dual_coef_, found.x, atol=1e-6)
    fresh = np.random.default_rng(2).normal(size=(7, 3))
    np.testing.assert_allclose(model.predict(fresh), phi.transform(fresh) @ found.x, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("lam", [1e-2, 1.0, 30.0])
def test_lecture_19(kernel, lam, data):
    X, t = data
    a = np.linalg.inv(kernel(X) + lam * np.eye(len(t))) @ t
    model = mercer.KernelRidge(alpha=lam, kernel=kernel).fit(X, t)
    np.testing.assert_allclose(model.dual_coef_, a, rtol=1e-5, atol=1e-8)
    fresh = np.random.default_rng(3).normal(size=(5, 3))
    by_hand = [kernel(x[None], X)[0] @ a for x in fresh]
    np.testing.assert_allclose(model.predict(fresh), by_hand, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("lam", [1e-2, 1.0, 30.0])
def test_the_regression_lecture(lam, data):
    X, y = data
    w = np.linalg.inv(X.T @ X + lam * np.eye(3)) @ X.T @ y
    model = mercer.KernelRidge(alpha=lam, kernel="linear").fit(X, y)
    np.testing.assert_allclose(model.predict(X), X @ w, rtol=1e-8)
    np.testing.assert_allclose(X.T @ model.dual_coef_, w, rtol=1e-8)
    # alpha = (y - Xw) / lambda, as the lecture derives it.
    np.testing.assert_allclose(model.dual_coef_, (y - X @ w) / lam, rtol=1e-6, atol=1e-8)


def test_all_conventions_are_one_problem(data):
    X, y = data
    m, lam = len(y), 0.02
    models = [
        mercer.KernelRidge(alpha=2 * m * lam, kernel=K.RBF(0.3)),
        mercer.KernelMachineRegressor(
            "squared", alpha=2 * m * lam, kernel=K.RBF(0.3), fit_intercept=False, tol=1e-12
        ),
        mercer.KernelRidgeCV(alphas=[2 * m * lam], kernel=K.RBF(0.3)),
    ]
    predictions = [model.fit(X, y).predict(X) for model in models]
    np.testing.assert_allclose(predictions[1], predictions[0], rtol=1e-6)
    np.testing.assert_allclose(predictions[2], predictions[0], rtol=1e-9)


def test_leave_one_out_of_the_closed_form_against_refitting(data):
    X, y = data
    m, lam = len(y), 0.02
    model = mercer.KernelRidgeCV(alphas=[2 * m * lam], kernel=K.RBF(0.3)).fit(X, y)
    for i in (0, 11, 29):
        rest = np.arange(m) != i
        # Left out, one point fewer is in the sum, and the convention's constant is kept.
        a = np.linalg.solve(K.RBF(0.3)(X[rest]) + 2 * m * lam * np.eye(m - 1), y[rest])
        assert model.loo_predictions_[i] == pytest.approx((K.RBF(0.3)(X[[i]], X[rest]) @ a).item())
