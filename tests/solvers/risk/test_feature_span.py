"""Machines over features: solver against solver, and duality gaps against slow optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linprog, minimize

from mercer.solvers.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.solvers.qp.piecewise_linear_risk import piecewise_linear_dual
from mercer.solvers.result import Status
from mercer.solvers.risk import softmax as softmax_module
from mercer.solvers.risk.feature_span import FeatureSpan, certified, solve_scaled
from mercer.solvers.risk.lbfgs import span_lbfgs
from mercer.solvers.risk.newton import newton
from mercer.solvers.risk.piecewise import piecewise_linear_primal
from mercer.solvers.risk.softmax import Softmax, softmax_machine
from mercer.solvers.risk.span_newton import span_newton
from mercer.solvers.risk_problem import balanced

SMOOTH = [Squared(), Logistic(), SquaredHinge(), Huber(0.5), Poisson()]
CORNERED = [Hinge(), Absolute(), EpsilonInsensitive(0.2), Quantile(0.3)]


def name(loss):
    return type(loss).__name__


def problem(loss, n=40, r=6, seed=0):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(n, r))
    y = Phi[:, 0] - 0.5 * Phi[:, 1] + rng.normal(size=n)
    if isinstance(loss, Hinge | SquaredHinge | Logistic):
        y = np.where(y > 0, 1.0, -1.0)
    elif isinstance(loss, Poisson):
        y = rng.poisson(np.exp(0.5 * y)).astype(float)
    return Phi, y


def in_pieces(Phi, fit_intercept, keep):
    """The same span, its features a few rows at a time."""
    parts = [slice(i, min(i + 7, len(Phi))) for i in range(0, len(Phi), 7)]
    return FeatureSpan(
        lambda: ((rows, Phi[rows]) for rows in parts), *Phi.shape, fit_intercept, keep
    )


@pytest.mark.parametrize("keep", [True, False])
def test_products_are_those_of_the_matrix(keep):
    rng = np.random.default_rng(0)
    Phi, h = rng.normal(size=(30, 4)), rng.uniform(size=30)
    whole = np.column_stack([Phi, np.ones(30)])
    span = in_pieces(Phi, True, keep)
    z, u = rng.normal(size=(5, 2)), rng.normal(size=(30, 2))
    assert_allclose(span.predict(z), whole @ z)
    assert_allclose(span.gather(u), whole.T @ u)
    assert_allclose(span.curvature(h), (whole.T * h) @ whole)
    assert_allclose(span.norms(z), np.sum(z[:4] ** 2, axis=0))


def test_a_singular_system_is_solved_with_the_least_norm():
    A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert_allclose(solve_scaled(A, np.array([2.0, 2.0, 0.0])), [1.0, 1.0, 0.0])


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize("loss", SMOOTH, ids=name)
def test_newton_over_features_is_newton_over_points(loss, lam, fit_intercept):
    Phi, y = problem(loss)
    over_points = newton(Phi @ Phi.T, y, loss, lam, fit_intercept=fit_intercept, tol=1e-11)
    result = span_newton(in_pieces(Phi, fit_intercept, True), y, loss, lam, tol=1e-11)
    assert result.status is Status.CONVERGED
    z = result.value.z
    assert_allclose(z[:6], Phi.T @ over_points.value.alpha, atol=1e-4)
    if fit_intercept:
        assert_allclose(z[-1], over_points.value.intercept, atol=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize("loss", CORNERED, ids=name)
def test_interior_points_over_features_are_those_of_the_dual(loss, lam, fit_intercept):
    Phi, y = problem(loss)
    weighted = loss.weighted(np.arange(40) % 4 * 0.7)
    over_points = piecewise_linear_dual(Phi @ Phi.T, y, weighted, lam, fit_intercept=fit_intercept)
    span = in_pieces(Phi, fit_intercept, True)
    result = piecewise_linear_primal(span, y, [weighted], lam, tol=1e-9)
    assert result.status is Status.CONVERGED
    assert_allclose(result.value.z[:6, 0], Phi.T @ over_points.value.alpha, atol=2e-3)

    def objective(w, b):
        return weighted.value(y, Phi @ w + b) + 0.5 * lam * w @ w

    z = result.value.z[:, 0]
    best = objective(Phi.T @ over_points.value.alpha, over_points.value.intercept)
    assert objective(z[:6], z[-1] if fit_intercept else 0.0) <= best * (1 + 1e-8) + 1e-10


def test_lbfgs_over_features_agrees_and_certifies():
    Phi, y = problem(Huber(0.5))
    span = FeatureSpan.of(Phi, True)
    first = span_lbfgs(span, y, Huber(0.5), 0.2, tol=1e-9)
    second = span_newton(span, y, Huber(0.5), 0.2, tol=1e-12)
    assert first.status is Status.CONVERGED
    assert first.gap < 1e-9
    assert_allclose(first.value.z, second.value.z, atol=1e-5)


LEVELS = [0.1, 0.4, 0.5, 0.9]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [1e-4, 0.05, 50.0])
def test_ordered_quantiles_against_a_linear_programme_and_separate_fits(lam, fit_intercept):
    Phi, y = problem(Quantile(), n=60, r=8)
    span = FeatureSpan.of(Phi, fit_intercept)
    levels = [Quantile(level) for level in LEVELS]
    result = piecewise_linear_primal(span, y, levels, lam, tol=1e-10)
    assert result.status is Status.CONVERGED
    f = span.predict(result.value.z)
    assert np.diff(f, axis=1).min() > -1e-8
    alone = [
        piecewise_linear_primal(span, y, [level], lam, tol=1e-10).value.z[:, 0] for level in levels
    ]
    if np.diff(span.predict(np.column_stack(alone)), axis=1).min() > 1e-6:
        assert_allclose(result.value.z, np.column_stack(alone), atol=1e-4)


def test_ordered_quantiles_without_penalty_are_a_linear_programme():
    """As lam vanishes: min sum of pinball losses with f_1 <= f_2 at the points, by HiGHS."""
    Phi, y = problem(Quantile(), n=30, r=4, seed=3)
    n, p = 30, 5
    whole = np.column_stack([Phi, np.ones(n)])
    levels = [0.4, 0.5]
    result = piecewise_linear_primal(
        FeatureSpan.of(Phi, True), y, [Quantile(level) for level in levels], 1e-7, tol=1e-9
    )
    f = FeatureSpan.of(Phi, True).predict(result.value.z)
    ours = sum(Quantile(q).value(y, f[:, j]) for j, q in enumerate(levels))
    cost = np.concatenate([np.zeros(2 * p), *(np.repeat([q, 1 - q], n) for q in levels)])
    none, unit = np.zeros((n, p)), np.eye(n)
    zero = np.zeros((n, n))
    equal = np.vstack(
        [
            np.hstack([whole, none, unit, -unit, zero, zero]),
            np.hstack([none, whole, zero, zero, unit, -unit]),
        ]
    )
    above = np.hstack([whole, -whole, np.zeros((n, 4 * n))])
    free = [(None, None)] * (2 * p) + [(0, None)] * (4 * n)
    exact = linprog(cost, above, np.zeros(n), equal, np.concatenate([y, y]), bounds=free)
    assert exact.status == 0
    assert_allclose(ours, exact.fun, rtol=1e-5)
    assert np.diff(f, axis=1).min() > -1e-9


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [1e-2, 1.0])
def test_softmax_against_a_slow_optimiser(lam, fit_intercept, dense, monkeypatch):
    monkeypatch.setattr(softmax_module, "DENSE", 10**6 if dense else 0)
    rng = np.random.default_rng(0)
    Phi, weight = rng.normal(size=(50, 3)), rng.uniform(0.2, 2.0, size=50)
    T = np.eye(4)[rng.integers(4, size=50)]
    span = FeatureSpan.of(Phi, fit_intercept)
    loss, p = Softmax().weighted(weight), span.p

    def objective(z):
        z = z.reshape(p, 4)
        return loss.value(T, span.predict(z)) + 0.5 * lam * np.sum(z[:3] ** 2)

    slow = minimize(objective, np.zeros(4 * p), method="BFGS", options={"gtol": 1e-7})
    result = softmax_machine(span, T, lam, weight=weight, tol=1e-10)
    assert result.status is Status.CONVERGED
    assert_allclose(objective(result.value.z.ravel()), slow.fun, rtol=1e-9)
    assert_allclose(span.predict(result.value.z).sum(axis=1), 0.0, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lam=st.floats(1e-3, 1e3),
    scale=st.floats(1e-3, 1e3),
    steps=st.integers(1, 6),
    fit_intercept=st.booleans(),
)
def test_the_gap_is_never_less_than_what_is_left_to_gain(seed, lam, scale, steps, fit_intercept):
    """Stopped early, a solver's certificate still bounds the distance from the minimum."""
    rng = np.random.default_rng(seed)
    Phi = scale * rng.normal(size=(15, 3))
    span = FeatureSpan.of(Phi, fit_intercept)
    y = rng.normal(size=15)
    for loss in (Huber(0.3), Logistic(), Quantile(0.8)):
        t = np.where(y > 0, 1.0, -1.0) if isinstance(loss, Logistic) else y

        def run(max_iter, loss=loss, t=t):
            if isinstance(loss, Quantile):
                return piecewise_linear_primal(span, t, [loss], lam, tol=1e-10, max_iter=max_iter)
            return span_newton(span, t, loss, lam, tol=1e-10, max_iter=max_iter)

        def objective(z, loss=loss, t=t):
            z = z.reshape(span.p, -1)[:, 0]
            return loss.value(t, span.predict(z)) + 0.5 * lam * np.sum(z[:3] ** 2)

        early, late = run(steps), run(200)
        if not np.isfinite(early.value.excess):
            continue
        left = objective(early.value.z) - objective(late.value.z)
        assert left <= early.value.excess + 1e-7 * (1 + abs(objective(late.value.z)))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", [*SMOOTH, *CORNERED], ids=name)
def test_a_certificate_has_the_gap_for_every_regulariser(loss, fit_intercept):
    """Against the objective and its dual written out."""
    Phi, y = problem(loss)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    loss = loss.weighted(weight)
    z = 0.1 * np.random.default_rng(2).normal(size=6 + fit_intercept)
    w, f = z[:6], Phi @ z[:6] + z[6:].sum()
    g = loss.gradient(y, f)
    at = certified(in_pieces(Phi, fit_intercept, keep=True), y, loss, z, f)
    u = balanced(g) if fit_intercept else g
    assert_allclose(at.u, u)
    assert_allclose(at.slopes, np.append(Phi.T @ g, g.sum())[: len(z)])
    if not isinstance(loss, Hinge | Absolute | EpsilonInsensitive | Quantile):
        assert_allclose(at.curved, loss.curvature(y, f).sum())
    pulled = Phi.T @ u
    for lam in (0.1, 3.0):
        value = loss.value(y, f) + 0.5 * lam * w @ w
        dual = -loss.conjugate(y, u) - 0.5 / lam * pulled @ pulled
        size = max(
            abs(loss.value(y, f)) + 0.5 * lam * w @ w,
            abs(loss.conjugate(y, u)) + 0.5 / lam * pulled @ pulled,
        )
        assert_allclose(at.solution(lam).excess, value - dual)
        assert_allclose(at.gap(lam), (value - dual) / size)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_certificate_without_a_conjugate_has_the_gap_at_the_gradient(fit_intercept):
    class Unknown(Logistic):
        def conjugates(self, y, u):
            return None

    Phi, y = problem(Logistic())
    z = 0.1 * np.random.default_rng(2).normal(size=6 + fit_intercept)
    f, lam = Phi @ z[:6] + z[6:].sum(), 0.7
    at = certified(FeatureSpan.of(Phi, fit_intercept), y, Unknown(), z, f)
    g = Logistic().gradient(y, f)
    assert_allclose(at.u, g)
    r = Phi.T @ g + lam * z[:6]
    slack = abs(g.sum()) * (1 + abs(f).max()) if fit_intercept else 0.0
    excess = r @ r / (2 * lam) + slack
    assert_allclose(at.solution(lam).excess, excess)
    size = Logistic().value(y, f) + 0.5 * lam * z[:6] @ z[:6]
    assert_allclose(at.gap(lam), excess / size)
