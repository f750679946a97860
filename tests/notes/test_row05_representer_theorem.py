"""Row 5. The representer theorem: chapter 16 (Shalev-Shwartz and Ben-David), (16.2) and (16.3).

Minimise f(<w, psi(x_1)>, ..., <w, psi(x_m)>) + R(‖w‖) for any function f of all m predictions and
any nondecreasing R. A minimiser can be found in the span of the psi(x_i): taking away a part of w
that is orthogonal to them leaves every prediction and makes the norm no larger. So it is enough to
search over alpha, with predictions G alpha and ‖w‖² = alphaᵀ G alpha.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import mercer
from mercer import kernels as K
from mercer.estimators.losses import Loss

QUADRATIC = K.Polynomial(2)


class SoftWorstCase(Loss):
    """log Σ exp((y_i - f_i)²): of the whole vector, close to its largest squared error."""

    def value(self, y, f):
        r = (y - f) ** 2
        return float(r.max() + np.log(np.sum(np.exp(r - r.max()))))

    def gradient(self, y, f):
        r = (y - f) ** 2
        share = np.exp(r - r.max())
        return share / share.sum() * 2 * (f - y)


class Neighbours(Loss):
    """½ Σ (y_i - f_i)² + ½ Σ (f_{i+1} - f_i)²: predictions that look at each other."""

    def value(self, y, f):
        return float(0.5 * np.sum((y - f) ** 2) + 0.5 * np.sum(np.diff(f) ** 2))

    def gradient(self, y, f):
        steps = np.diff(f)
        return (f - y) - np.append(steps, 0.0) + np.insert(steps, 0, 0.0)


class CubicNorm(SoftWorstCase):
    """The same loss with R(a) = a³/3 in place of ½ alpha a²."""

    def penalty(self, norm):
        return norm**3 / 3

    def penalty_slope(self, norm):
        return norm**2


class PlainNorm(Neighbours):
    """R(a) = 0.7 a, nondecreasing and not smooth at zero."""

    def penalty(self, norm):
        return 0.7 * norm

    def penalty_slope(self, norm):
        return 0.7


def objective(loss, alpha, y, f, norm):
    own = loss.penalty(norm) if loss.penalty is not None else 0.5 * alpha * norm**2
    return loss.value(y, f) + own


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 4))  # 8 points in 15 features: most directions are outside the span
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=8)
    return X, y


LOSSES = [SoftWorstCase(), Neighbours(), CubicNorm(), PlainNorm()]


def fitted(loss, X, y, alpha=0.4):
    model = mercer.KernelMachineRegressor(
        loss, kernel=QUADRATIC, alpha=alpha, fit_intercept=False, tol=1e-9
    )
    return model.fit(X, y)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_minimum_over_alpha_is_the_minimum_over_all_of_feature_space(loss, data):
    X, y = data
    Phi = QUADRATIC.feature_map().fit_transform(X)
    assert Phi.shape == (8, 15)

    def over_w(w):
        return objective(loss, 0.4, y, Phi @ w, np.linalg.norm(w))

    rng = np.random.default_rng(1)
    found = min(
        (
            minimize(over_w, rng.normal(size=15), method="BFGS", options={"gtol": 1e-9})
            for _ in range(3)
        ),
        key=lambda result: result.fun,
    )
    model = fitted(loss, X, y)
    w = Phi.T @ model.dual_coef_
    assert over_w(w) <= found.fun + 1e-9 * abs(found.fun)
    np.testing.assert_allclose(w, found.x, atol=2e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_no_direction_outside_the_span_helps(loss, data):
    X, y = data
    Phi = QUADRATIC.feature_map().fit_transform(X)
    model = fitted(loss, X, y)
    w = Phi.T @ model.dual_coef_
    best = objective(loss, 0.4, y, Phi @ w, np.linalg.norm(w))
    outside = np.linalg.svd(Phi)[2][8:]  # an orthonormal basis of what no point reaches
    np.testing.assert_allclose(Phi @ outside.T, 0, atol=1e-12)
    rng = np.random.default_rng(2)
    for size in (1e-3, 0.1, 1.0, 10.0):
        for _ in range(20):
            u = size * (rng.normal(size=7) @ outside)
            np.testing.assert_allclose(Phi @ (w + u), Phi @ w, atol=1e-9)
            moved = objective(loss, 0.4, y, Phi @ (w + u), np.linalg.norm(w + u))
            assert moved > best


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_nor_does_any_direction_inside_it(loss, data):
    X, y = data
    G = QUADRATIC(X)
    model = fitted(loss, X, y)

    def over_alpha(a):
        return objective(loss, 0.4, y, G @ a, np.sqrt(max(a @ G @ a, 0.0)))

    best = over_alpha(model.dual_coef_)
    rng = np.random.default_rng(3)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(30):
            assert over_alpha(model.dual_coef_ + size * rng.normal(size=8)) >= best - 1e-8


def test_objective_in_alpha_is_the_objective_in_w(data):
    X, _ = data
    Phi, G = QUADRATIC.feature_map().fit_transform(X), QUADRATIC(X)
    alpha = np.random.default_rng(4).normal(size=8)
    w = sum(alpha[j] * Phi[j] for j in range(8))
    np.testing.assert_allclose(G @ alpha, Phi @ w, rtol=1e-10, atol=1e-10)
    assert alpha @ G @ alpha == pytest.approx(w @ w)


def test_predictions_at_new_points_use_kernel_values_alone(data):
    X, y = data
    model = fitted(SoftWorstCase(), X, y)
    phi = QUADRATIC.feature_map().fit(X)
    fresh = np.random.default_rng(5).normal(size=(6, 4))
    w = phi.transform(X).T @ model.dual_coef_
    np.testing.assert_allclose(model.predict(fresh), phi.transform(fresh) @ w, rtol=1e-9)


def test_quadratic_loss_of_the_whole_vector_has_its_closed_form(data):
    X, y = data
    G = QUADRATIC(X)
    n = len(y)
    # With D the differences, ½‖y - f‖² + ½‖Df‖² + ½ lam alphaᵀ G alpha is least where
    # (I + DᵀD) G alpha + lam alpha = y.
    D = np.diff(np.eye(n), axis=0)
    alpha = np.linalg.solve((np.eye(n) + D.T @ D) @ G + 0.4 * np.eye(n), y)
    model = fitted(Neighbours(), X, y)
    np.testing.assert_allclose(model.predict(X), G @ alpha, atol=1e-6)


def test_soft_svm_is_the_instance_the_chapter_names(data):
    # R(a) = lam a² and f = mean hinge: the machine's alpha is 2 m lam once multiplied by m.
    X, y = data
    labels = np.where(y > np.median(y), 1, -1)
    lam, m = 0.05, len(y)
    G = QUADRATIC(X)
    model = mercer.KernelMachineClassifier(
        "hinge", alpha=2 * m * lam, kernel=QUADRATIC, fit_intercept=False, tol=1e-10
    ).fit(X, labels)

    def chapter(a):
        return lam * a @ G @ a + np.mean(np.maximum(0, 1 - labels * (G @ a)))

    best = chapter(model.dual_coef_)
    rng = np.random.default_rng(6)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(50):
            assert chapter(model.dual_coef_ + size * rng.normal(size=m)) >= best - 1e-9


def test_on_more_points_than_features_the_span_is_everything():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 2))
    y = np.sin(X[:, 0])
    model = fitted(SoftWorstCase(), X, y)
    Phi = QUADRATIC.feature_map().fit_transform(X)
    w = Phi.T @ model.dual_coef_
    loss = SoftWorstCase()
    slope = Phi.T @ loss.gradient(y, Phi @ w) + 0.4 * w
    assert np.linalg.norm(slope) < 1e-5
