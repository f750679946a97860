"""Newton, L-BFGS and the box dual against a slow minimiser in an explicit feature space."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog, minimize

from mercer.solvers.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.solvers.qp.piecewise_linear_risk import piecewise_linear_dual
from mercer.solvers.result import Status
from mercer.solvers.risk.lbfgs import lbfgs
from mercer.solvers.risk.newton import along, newton, step_along
from mercer.solvers.risk_problem import Risk, balanced, best_intercept

SMOOTH = [SquaredHinge(), Logistic(), Squared(), Huber(0.5), Poisson()]
CORNERED = [Hinge(), Absolute(), EpsilonInsensitive(0.2), Quantile(0.3), Quantile(0.9)]


def problem(loss, n=25, D=4, seed=0):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(n, D))
    signal = Phi @ rng.normal(size=D) + 0.7 * rng.normal(size=n)
    if isinstance(loss, Hinge | SquaredHinge | Logistic):
        y = np.where(signal > 0.4, 1.0, -1.0)
    elif isinstance(loss, Poisson):
        y = rng.poisson(np.exp(0.4 * signal)).astype(float)
    else:
        y = 2.0 + signal
    return Phi, y


def objective(loss, Phi, y, lam, w, b):
    return loss.value(y, Phi @ w + b) + 0.5 * lam * w @ w


def slow_minimum(loss, Phi, y, lam, bias):
    """BFGS over (w, b) in feature space."""

    def value(z):
        return objective(loss, Phi, y, lam, z[:-1], z[-1] * bias)

    def slope(z):
        g = loss.gradient(y, Phi @ z[:-1] + z[-1] * bias)
        return np.append(Phi.T @ g + lam * z[:-1], g.sum() * bias)

    return minimize(value, np.zeros(Phi.shape[1] + 1), jac=slope, method="BFGS", tol=1e-10)


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lam", [0.05, 3.0])
@pytest.mark.parametrize("solver", [newton, lbfgs])
def test_smooth_losses_reach_the_minimum(loss, bias, lam, solver):
    Phi, y = problem(loss)
    slow = slow_minimum(loss, Phi, y, lam, bias)
    tol = 1e-12 if solver is newton else 1e-8
    result = solver(Phi @ Phi.T, y, loss, lam, fit_intercept=bias, tol=tol)
    w = Phi.T @ result.value.alpha
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-7
    assert_allclose(w, slow.x[:-1], atol=2e-4)
    assert objective(loss, Phi, y, lam, w, result.value.intercept) <= slow.fun * (1 + 2e-8) + 1e-9


def slow_cornered_minimum(loss, Phi, y, lam, bias):
    """Trust-region on the epigraph: minimise s·slack + ½ lam‖w‖² under linear constraints."""
    n, D = Phi.shape
    lo, hi = loss.bounds(y)

    def value(z):
        w, up, down = z[:D], z[D + 1 : D + 1 + n], z[D + 1 + n :]
        return hi @ up - lo @ down + 0.5 * lam * w @ w

    def slope(z):
        return np.concatenate([lam * z[:D], [0.0], hi, -lo])

    def margins(z):
        f = Phi @ z[:D] + z[D] * bias
        r = y - f
        up, down = z[D + 1 : D + 1 + n], z[D + 1 + n :]
        return np.concatenate([up - r + loss.tube, down + r + loss.tube])

    eye, zero = np.eye(n), np.zeros((n, n))
    ones = np.full((n, 1), float(bias))
    jacobian = np.vstack([np.hstack([Phi, ones, eye, zero]), np.hstack([-Phi, -ones, zero, eye])])
    start = np.concatenate([np.zeros(D + 1), np.abs(y) + 1, np.abs(y) + 1])
    bounds = [(None, None)] * (D + 1) + [(0, None)] * (2 * n)
    constraint = {"type": "ineq", "fun": margins, "jac": lambda z: jacobian}
    return minimize(
        value,
        start,
        jac=slope,
        bounds=bounds,
        constraints=constraint,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-13},
    )


@pytest.mark.parametrize("loss", CORNERED, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("bias", [True, False])
def test_cornered_losses_reach_the_minimum(loss, bias):
    Phi, y = problem(loss, n=18, D=3)
    slow = slow_cornered_minimum(loss, Phi, y, 0.6, bias)
    result = piecewise_linear_dual(Phi @ Phi.T, y, loss, 0.6, fit_intercept=bias)
    w = Phi.T @ result.value.alpha
    assert result.status is Status.CONVERGED
    assert_allclose(w, slow.x[:3], atol=1e-5)
    assert objective(loss, Phi, y, 0.6, w, result.value.intercept) <= slow.fun * (1 + 1e-8)


@pytest.mark.parametrize("loss", SMOOTH + CORNERED, ids=lambda loss: type(loss).__name__)
def test_the_gap_bounds_the_distance_to_the_minimum(loss):
    Phi, y = problem(loss)
    K, lam = Phi @ Phi.T, 0.5
    solver = piecewise_linear_dual if loss in CORNERED else newton
    machine = solver(K, y, loss, lam).value
    lowest = objective(loss, Phi, y, lam, Phi.T @ machine.alpha, machine.intercept)
    risk = Risk(K, y, loss, lam, True)
    rng = np.random.default_rng(5)
    for size in (1e-3, 1e-1, 1.0):
        alpha = machine.alpha + size * rng.normal(size=len(y)) / len(y)
        b = best_intercept(loss, y, K @ alpha)
        f = K @ alpha + b
        for u in (loss.gradient(y, f), -lam * alpha):
            upper, lower, _ = risk.bounds(alpha, f, u)
            assert_allclose(upper, objective(loss, Phi, y, lam, Phi.T @ alpha, b))
            assert lower <= lowest + 1e-9
            assert upper >= lowest - 1e-9


def test_newton_solves_squared_loss_in_one_step():
    Phi, y = problem(Squared())
    result = newton(Phi @ Phi.T, y, Squared(), 0.3, fit_intercept=False)
    assert result.n_iter == 1
    assert_allclose(result.value.alpha, np.linalg.solve(Phi @ Phi.T + 0.3 * np.eye(25), y))


def test_huber_moves_even_where_nothing_curves():
    """Every residual starts beyond delta, so the first Hessian is zero."""
    Phi, y = problem(Huber())
    loss = Huber(0.01)
    result = newton(Phi @ Phi.T, 10 * y, loss, 1e-3, max_iter=300)
    assert result.status is Status.CONVERGED


def test_huber_goes_on_where_the_slope_is_gentle_beyond_the_minimum():
    """Along a step the slope jumps, and then hardly changes while the objective rises."""
    x = np.array([[1, 0], [1, 0], [-1, 1], [-1, 0], [1, 1], [0, -1]])
    K = np.exp(-0.7 * np.sum((x[:, None] - x) ** 2, axis=2))
    y = np.array([830.011306, 618.160676, -439.173155, -671.835475, 1099.759280, 332.278875])
    found = newton(K, y, Huber(1.35), 1e-3, fit_intercept=False, tol=1e-6)
    assert found.status is Status.CONVERGED


def test_weights_repeat_and_zero_weights_drop_points():
    for loss, solver in [
        (Logistic(), newton),
        (Hinge(), piecewise_linear_dual),
        (Poisson(), lbfgs),
    ]:
        Phi, y = problem(loss, n=20)
        weight = np.arange(20) % 3
        again = np.repeat(np.arange(20), weight)
        K = Phi @ Phi.T
        one = solver(K, y, loss.weighted(weight.astype(float)), 0.4).value
        many = solver(K[np.ix_(again, again)], y[again], loss, 0.4).value
        assert_allclose(Phi.T @ one.alpha, Phi[again].T @ many.alpha, atol=1e-5)
        assert_allclose(one.intercept, many.intercept, atol=1e-4)
        if solver is not lbfgs:  # whose coefficients are one choice of many where K is singular
            assert_allclose(one.alpha[weight == 0], 0.0, atol=1e-8)


@pytest.mark.parametrize("solver", [newton, lbfgs])
def test_stops_at_max_iter_and_says_so(solver):
    Phi, y = problem(Logistic())
    result = solver(Phi @ Phi.T, y, Logistic(), 1e-6, max_iter=2)
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 2
    assert result.gap > 1e-8


def test_a_report_can_stop_newton():
    Phi, y = problem(Logistic())
    seen = []

    def report(n_iter, gap):
        seen.append(gap)
        return n_iter == 1

    result = newton(Phi @ Phi.T, y, Logistic(), 1e-3, report=report)
    assert result.status is Status.STOPPED
    assert seen == list(result.history)


class Quartic(Loss):
    """A loss of the whole vector: the square of the sum of squares; with its own regulariser."""

    def value(self, y, f):
        return float(np.sum((y - f) ** 2) ** 2)

    def gradient(self, y, f):
        return 4 * np.sum((y - f) ** 2) * (f - y)

    def penalty(self, norm):
        return np.exp(norm)

    def penalty_slope(self, norm):
        return np.exp(norm)


def test_any_loss_with_any_nondecreasing_penalty():
    Phi, y = problem(Squared(), n=12, D=5)

    def value(w):
        return Quartic().value(y, Phi @ w) + np.exp(np.linalg.norm(w))

    slow = minimize(
        value,
        np.full(5, 0.1),
        method="Nelder-Mead",
        options={"maxiter": 50_000, "maxfev": 50_000, "xatol": 1e-9, "fatol": 1e-10},
    )
    result = lbfgs(Phi @ Phi.T, y, Quartic(), lam=123.0, fit_intercept=False)
    assert result.status is Status.CONVERGED
    assert_allclose(Phi.T @ result.value.alpha, slow.x, atol=1e-4)
    assert value(Phi.T @ result.value.alpha) <= slow.fun + 1e-8


def test_balancing_keeps_signs_and_shrinks():
    rng = np.random.default_rng(0)
    for _ in range(20):
        u = rng.normal(size=7)
        v = balanced(u)
        assert abs(v.sum()) < 1e-12
        assert np.all(u * v >= 0)
        assert np.all(np.abs(v) <= np.abs(u))
    assert_allclose(balanced(np.ones(3)), 0.0)
    assert_allclose(balanced(np.zeros(3)), 0.0)


@pytest.mark.parametrize("loss", SMOOTH + CORNERED, ids=lambda loss: type(loss).__name__)
def test_the_best_intercept_beats_a_grid(loss):
    Phi, y = problem(loss)
    f = Phi[:, 0]
    b = best_intercept(loss, y, f)
    best = loss.value(y, f + b)
    assert all(best <= loss.value(y, f + t) + 1e-12 for t in np.linspace(b - 3, b + 3, 301))


def test_quantile_intercept_is_a_quantile():
    """With a kernel of zeros nothing but the bias can fit: a linear problem in one unknown."""
    y = np.random.default_rng(1).normal(size=21)
    machine = piecewise_linear_dual(np.zeros((21, 21)), y, Quantile(0.8), 1.0).value
    n = len(y)
    cost = np.concatenate([[0.0], np.full(n, 0.8), np.full(n, 0.2)])
    A = np.hstack([np.ones((n, 1)), np.eye(n), -np.eye(n)])
    linear = linprog(cost, A_eq=A, b_eq=y, bounds=[(None, None)] + [(0, None)] * (2 * n))
    assert_allclose(machine.intercept, linear.x[0], atol=1e-9)


def test_eigenvalues_of_very_different_size():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2)) * [1e6, 1.0]
    y = X @ [1e-6, 1.0] + rng.normal(size=50)
    lam = 1e-4
    machine = newton(X @ X.T, y, Squared(), lam, fit_intercept=False).value
    # The same ridge problem in feature space, with each feature brought to unit size.
    unit = X / [1e6, 1.0]
    w = np.linalg.solve(unit.T @ unit + np.diag([lam / 1e12, lam]), unit.T @ y)
    assert_allclose(X @ (X.T @ machine.alpha), unit @ w, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 0.2, 1.0, 7.0, 300.0])
@pytest.mark.parametrize(
    "loss", [Logistic(), SquaredHinge(), Poisson()], ids=lambda loss: type(loss).__name__
)
def test_a_search_that_foresees_finds_the_same_step_and_asks_less_often(loss, scale):
    Phi, y = problem(loss)
    d = -scale * Phi @ (Phi.T @ loss.gradient(y, np.zeros(25)))
    asked = {}

    def sums(steps):
        calls.append(len(steps))
        return along(loss, y, np.zeros(25), d, steps=steps)

    found = []
    for moves in (0, 1, 3):
        calls = asked[moves] = []
        found.append(step_along(sums, 0.0, 0.1 * scale, moves))
    assert found[0] == found[1] == found[2] > 0
    assert set(asked[0][1:]) <= {1}
    assert set(asked[3][1:]) <= {15}
    tried = len(asked[0]) - 1
    for moves in (1, 3):
        assert len(asked[moves]) - 1 == -(-tried // (moves + 1))
