"""Row 19. The support vector machine: largest margin, quadratic program, support vectors.

The regression lecture. Of the hyperplanes that separate two classes, take the one whose closest
examples are farthest away; with w·x + b = ±1 at those, their distance is 1/‖w‖, and the problem is
to minimise w·w subject to (w·x_j + b) y_j >= 1, a quadratic program. The closest examples, the
support vectors, alone define the hyperplane.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import mercer
from mercer import kernels as K


@pytest.fixture
def separable():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    gap = X @ [1.0, -2.0] + 0.5
    far = np.abs(gap) > 0.4
    return X[far], np.sign(gap[far])


@pytest.fixture
def overlapping():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(24, 2))
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=24) > 0, 1, -1)
    return X, y


def primal_by_slsqp(X, y):
    """min w·w subject to y_j(w·x_j + b) >= 1."""
    start, *_ = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), 5.0 * y, rcond=None)
    found = minimize(
        lambda v: v[:2] @ v[:2],
        start,
        constraints={"type": "ineq", "fun": lambda v: y * (X @ v[:2] + v[2]) - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    return found.x[:2], found.x[2]


def dual_by_pairs(G, y, C, sweeps=2000):
    """max Σa - ½ Σ a_i a_j y_i y_j G_ij subject to 0 <= a <= C and Σ a_i y_i = 0.

    In b = y a: two entries at a time move against each other, as far as helps within the box.
    """
    b, lo, hi = np.zeros(len(y)), np.minimum(0, C * y), np.maximum(0, C * y)
    for _ in range(sweeps):
        before = b.copy()
        for i in range(len(y)):
            for j in range(i):
                slope = y[i] - y[j] - (G[i] - G[j]) @ b
                step = slope / (G[i, i] + G[j, j] - 2 * G[i, j])
                step = min(max(step, lo[i] - b[i], b[j] - hi[j]), hi[i] - b[i], b[j] - lo[j])
                b[i] += step
                b[j] -= step
        if np.abs(b - before).max() < 1e-10 * C:
            break
    return b * y


def multipliers(model, y):
    """The a_i >= 0 of every point, from the signed coefficients of the support vectors."""
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_.ravel() * y[model.support_]
    return a


def test_largest_margin(separable):
    X, y = separable
    w, b = primal_by_slsqp(X, y)
    model = mercer.SVC(kernel=K.Linear(), C=np.inf, tol=1e-8).fit(X, y)
    assert model.margin_ == pytest.approx(1 / np.linalg.norm(w), rel=1e-5)
    np.testing.assert_allclose(model.decision_function(X), X @ w + b, atol=1e-3)
    # Geometrically: the distance of the closest examples from the line.
    distances = np.abs(X @ w + b) / np.linalg.norm(w)
    assert distances.min() == pytest.approx(model.margin_, rel=1e-5)


def test_no_other_line_has_a_larger_margin(separable):
    X, y = separable
    model = mercer.SVC(kernel=K.Linear(), C=np.inf, tol=1e-8).fit(X, y)
    for angle in np.linspace(0, 2 * np.pi, 2000):
        direction = np.array([np.cos(angle), np.sin(angle)])
        side = X @ direction
        margin = (side[y == 1].min() - side[y == -1].max()) / 2
        assert margin <= model.margin_ * (1 + 1e-6)


def test_only_support_vectors_matter(separable):
    X, y = separable
    model = mercer.SVC(kernel=K.Linear(), C=np.inf, tol=1e-8).fit(X, y)
    closest = model.support_
    assert 2 <= len(closest) < len(X) / 4
    np.testing.assert_allclose(y[closest] * model.decision_function(X[closest]), 1, atol=1e-4)
    alone = mercer.SVC(kernel=K.Linear(), C=np.inf, tol=1e-8).fit(X[closest], y[closest])
    np.testing.assert_allclose(alone.decision_function(X), model.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(model.support_vectors_, X[closest])
    assert sum(model.n_support_) == len(closest)


@pytest.mark.parametrize("C", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("kernel", [K.Linear(), K.RBF(0.8)], ids=repr)
def test_quadratic_programme(kernel, C, overlapping):
    X, y = overlapping
    G = kernel(X)
    a = dual_by_pairs(G, y, C)
    model = mercer.SVC(kernel=kernel, C=C, tol=1e-9).fit(X, y)
    mine = multipliers(model, y)

    def value(a):
        return a.sum() - 0.5 * (a * y) @ G @ (a * y)

    assert value(mine) == pytest.approx(value(a), rel=1e-6)
    np.testing.assert_allclose(G @ (mine * y), G @ (a * y), atol=2e-3)


@pytest.mark.parametrize("C", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("kernel", [K.Linear(), K.Polynomial(2), K.RBF(0.8)], ids=repr)
def test_kkt_conditions(kernel, C, overlapping):
    X, y = overlapping
    model = mercer.SVC(kernel=kernel, C=C, tol=1e-9).fit(X, y)
    a, margins = multipliers(model, y), y * model.decision_function(X)
    assert a.min() >= 0
    assert a.max() <= C * (1 + 1e-9)
    assert abs(a @ y) < 1e-6 * C
    slack = 1e-4
    assert np.all(margins[a < 1e-7 * C] >= 1 - slack)
    assert np.all(margins[a > C * (1 - 1e-7)] <= 1 + slack)
    between = (a > 1e-5 * C) & (a < C * (1 - 1e-5))
    np.testing.assert_allclose(margins[between], 1, atol=slack)


@pytest.mark.parametrize("kernel", [K.Linear(), K.RBF(0.8)], ids=repr)
def test_the_gap_between_primal_and_dual_closes(kernel, overlapping):
    X, y = overlapping
    G, C = kernel(X), 2.0
    model = mercer.SVC(kernel=kernel, C=C, tol=1e-7).fit(X, y)
    a, f = multipliers(model, y), model.decision_function(X)
    squared_norm = (a * y) @ G @ (a * y)
    primal = 0.5 * squared_norm + C * np.sum(np.maximum(0, 1 - y * f))
    dual = a.sum() - 0.5 * squared_norm
    assert primal - dual == pytest.approx(0, abs=1e-5 * primal)
    assert 0 <= model.dual_gap_ < 1e-5 * primal + 1e-9
    assert model.margin_ == pytest.approx(1 / np.sqrt(squared_norm), rel=1e-6)
    assert model.result_.status.ok


def test_the_border_is_curved_with_a_kernel():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, size=(200, 2))
    y = np.where((X**2).sum(axis=1) < 1.5, 1, -1)
    straight = mercer.SVC(kernel=K.Linear(), C=10.0).fit(X, y)
    curved = mercer.SVC(kernel=K.Polynomial(2), C=10.0).fit(X, y)
    assert straight.score(X, y) < 0.75
    assert curved.score(X, y) > 0.97
