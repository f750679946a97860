"""Losses against numerical calculus."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize_scalar

from mercer.solvers import losses

LOSSES = [
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.Logistic(),
    losses.Squared(),
    losses.Absolute(),
    losses.EpsilonInsensitive(0.3),
    losses.Huber(0.7),
    losses.Quantile(0.2),
    losses.Poisson(),
]


def name(loss):
    return type(loss).__name__


def targets(loss, n=6, seed=0):
    rng = np.random.default_rng(seed)
    if isinstance(loss, losses.Hinge | losses.SquaredHinge | losses.Logistic):
        return rng.choice([-1.0, 1.0], size=n)
    if isinstance(loss, losses.Poisson):
        return rng.poisson(2.0, size=n).astype(float)
    return rng.normal(size=n)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_slopes_and_curvatures_are_derivatives(loss):
    rng = np.random.default_rng(1)
    y, f = targets(loss), rng.normal(size=6)
    weighted = loss.weighted(rng.uniform(0.5, 2.0, size=6))
    for one in (loss, weighted):
        slope = approx_fprime(f, lambda f, one=one: one.value(y, f), 1e-7)
        assert_allclose(one.gradient(y, f), slope, atol=1e-5)
        if loss.curvature(y, f) is not None:
            bend = [
                approx_fprime(f, lambda f, i=i, one=one: one.gradient(y, f)[i], 1e-7)[i]
                for i in range(6)
            ]
            assert_allclose(one.curvature(y, f), bend, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_conjugates_are_suprema(loss):
    rng = np.random.default_rng(2)
    y = targets(loss)
    for i in range(6):
        for f in rng.normal(size=4):
            u = loss.gradient(y[[i]], np.array([f]))
            best = minimize_scalar(
                lambda t, i=i, u=u: loss.value(y[[i]], np.array([t])) - u[0] * t,
                bounds=(-30, 30),
                method="bounded",
                options={"xatol": 1e-10},
            )
            assert_allclose(loss.conjugate(y[[i]], u), -best.fun, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_fenchel_and_young_hold(loss):
    """L(f) + L*(u) >= u·f, with equality at the gradient, weights included."""
    rng = np.random.default_rng(3)
    y = targets(loss)
    weighted = loss.weighted(np.array([0.0, 1.0, 2.0, 0.5, 1.0, 3.0]))
    for _ in range(20):
        f, g = rng.normal(size=6), rng.normal(size=6)
        u = weighted.gradient(y, g)
        assert weighted.value(y, f) + weighted.conjugate(y, u) >= u @ f - 1e-10
        assert_allclose(weighted.value(y, g) + weighted.conjugate(y, u), u @ g, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_outside_its_domain_a_conjugate_is_infinite(loss):
    y = targets(loss)
    far = np.full(6, -50.0) * np.where(y == 0, 1, np.sign(y))
    if not isinstance(loss, losses.Squared | losses.SquaredHinge):
        assert loss.conjugate(y, far) == np.inf
    weighted = loss.weighted(np.zeros(6))
    assert weighted.conjugate(y, np.ones(6)) == np.inf
