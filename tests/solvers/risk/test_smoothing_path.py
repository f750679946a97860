"""Losses with corners, rounded less and less, against interior points; their certificates."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad

from mercer.solvers.losses import Absolute, EpsilonInsensitive, Hinge, Quantile
from mercer.solvers.result import Status
from mercer.solvers.risk.feature_span import FeatureSpan
from mercer.solvers.risk.piecewise import piecewise_linear_primal
from mercer.solvers.risk.smoothing_path import Rounded, smoothing_path

RNG = np.random.default_rng(0)
PHI = RNG.normal(size=(200, 8))
F = PHI @ RNG.normal(size=8)
NOISY = F + RNG.normal(size=200)
WEIGHT = RNG.integers(0, 3, size=200).astype(float)
LOSSES = {
    "hinge": (Hinge(), np.sign(NOISY)),
    "absolute": (Absolute(), NOISY),
    "tube": (EpsilonInsensitive(0.3), NOISY),
    "quantile": (Quantile(0.8), 10 * NOISY),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_rounded_loss_is_its_definition(name):
    loss, y = LOSSES[name]
    mu, f = 0.7, F[:5]
    y = y[:5]
    rounded = Rounded(loss, mu)
    lo, hi = loss.bounds(y)
    t = lo + (hi - lo) * np.linspace(0, 1, 20_001)[:, None]
    expected = np.max(t * (y - f) - loss.tube * np.abs(t) - mu * t**2 / 2, axis=0)
    assert_allclose(rounded.values(y, f), expected, atol=1e-6)
    gap = loss.values(y, f) - rounded.values(y, f)
    assert np.all(gap >= -1e-12)
    assert np.all(gap <= mu * np.maximum(hi, -lo) ** 2 / 2 + 1e-12)
    assert check_grad(lambda f: rounded.value(y, f), lambda f: rounded.gradient(y, f), f) < 1e-5
    u = rounded.slopes(y, f)
    assert_allclose(rounded.conjugates(y, u), u * f - rounded.values(y, f), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("lam", [1e-2, 1.0, 30.0])
@pytest.mark.parametrize("name", LOSSES)
def test_it_finds_what_interior_points_find(name, lam, fit_intercept, weighted):
    loss, y = LOSSES[name]
    loss = loss.weighted(WEIGHT if weighted else None)
    span = FeatureSpan.of(PHI, fit_intercept)
    expected = piecewise_linear_primal(span, y, [loss], lam, tol=1e-10).value.z.ravel()
    result = smoothing_path(span, y, loss, lam, tol=1e-7)
    assert result.status is Status.CONVERGED
    found = result.value
    objective = loss.value(y, span.predict(found.z)) + lam / 2 * span.norms(found.z)
    # The objective rises from its minimum at least as fast as half lam times the distance squared.
    reach = np.sqrt(2 * found.excess / lam)
    assert result.gap <= 1e-7
    assert np.linalg.norm((found.z - expected)[: span.r]) <= reach + 1e-4
    least = loss.value(y, span.predict(expected)) + lam / 2 * span.norms(expected)
    assert objective - least <= found.excess + 1e-8 * objective


def test_steps_are_limited():
    loss, y = LOSSES["hinge"]
    result = smoothing_path(FeatureSpan.of(PHI, True), y, loss, 1e-3, tol=1e-12, max_iter=3)
    assert result.status is Status.MAX_ITER
    assert 1e-12 < result.gap < 10
