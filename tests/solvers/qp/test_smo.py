"""Sequential minimal optimisation against a general solver, its conditions and its certificates."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.operators import DenseGram, FeatureGram
from mercer.solvers.qp.quadratic_program import LARGEST_GAP, QuadraticProgram
from mercer.solvers.qp.restricted_gram import RestrictedGram, restrict
from mercer.solvers.qp.smo import smo
from mercer.solvers.result import Status
from quadratic_programs import (
    FORMS,
    check_feasible,
    check_optimal,
    full_matrix,
    gram,
    make,
    objective,
    slow_optimum,
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["rbf", "linear", "repeated"])
@pytest.mark.parametrize("C", [0.05, 2.0, 30.0])
def test_finds_the_optimum_of_a_general_solver(form, kind, C):
    program = make(form, gram(10, kind), C)
    result = smo(program, tol=1e-8)
    assert result.status is Status.CONVERGED
    best = slow_optimum(program)
    scale = max(1.0, abs(best))
    assert abs(result.value.objective - objective(program, result.value.a)) <= 1e-9 * scale
    assert result.value.objective <= best + 1e-7 * scale
    assert result.value.objective >= best - 1e-6 * scale


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("m", [2, 7, 60])
def test_satisfies_the_optimality_conditions(form, m):
    program = make(form, gram(m), C=5.0)
    result = smo(program, tol=1e-6)
    assert result.status.ok
    assert result.value.violation <= 1e-6
    check_optimal(program, result, tol=1.01e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps", [0, 1, 5, 20])
def test_the_gap_bounds_what_is_missing(form, steps):
    program = make(form, gram(20), C=3.0)
    best = smo(program, tol=1e-10).value.objective
    early = smo(program, tol=1e-10, max_iter=steps)
    check_feasible(program, early.value.a)
    missing = early.value.objective - best
    assert early.n_iter <= steps
    assert early.gap * max(1.0, abs(early.value.objective)) >= missing - 1e-12
    assert early.gap >= 0


def test_the_gap_is_the_primal_minus_the_dual_of_a_classifier():
    K = gram(25)
    program = make("c_svc", K, C=1.5)
    value = smo(program, tol=0.3).value
    y, beta, b = -program.p, value.coefficients, -value.multipliers[0]
    hinge = np.maximum(0, 1 - y * (K @ beta + b)).sum()
    primal = 0.5 * beta @ K @ beta + 1.5 * hinge
    dual = np.abs(beta).sum() - 0.5 * beta @ K @ beta
    assert_allclose(value.gap * max(1, abs(dual)), primal - dual, rtol=1e-9)


def test_the_gap_is_the_primal_minus_the_dual_of_a_regression():
    K = gram(25)
    program = make("svr", K, C=1.5)
    t = 0.2 - program.p[:25]
    value = smo(program, tol=0.3).value
    beta, b = value.coefficients, -value.multipliers[0]
    loss = np.maximum(0, np.abs(t - K @ beta - b) - 0.2).sum()
    primal = 0.5 * beta @ K @ beta + 1.5 * loss
    dual = t @ beta - 0.2 * np.abs(value.a).sum() - 0.5 * beta @ K @ beta
    assert_allclose(value.gap * max(1, abs(dual)), primal - dual, rtol=1e-9)


@pytest.mark.parametrize("C", [1e3, 1e5])
def test_goes_on_until_the_gap_is_small(C):
    K = gram(40, "linear") + 0.05 * np.eye(40)
    result = smo(make("c_svc", K, C=C), tol=1.0)
    assert result.status is Status.CONVERGED
    assert result.gap <= LARGEST_GAP


def test_a_large_gap_is_never_called_converged():
    program = make("c_svc", gram(40, "linear"), C=1e6)
    result = smo(program, tol=100.0, max_iter=5)
    assert result.value.violation <= 100.0
    assert result.gap > LARGEST_GAP
    assert result.status is Status.MAX_ITER


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps", [0, 7, 10_000])
def test_multipliers_give_the_smallest_gap(form, steps):
    program = make(form, gram(20), C=3.0)
    a = smo(program, tol=1e-6, max_iter=steps).value.a
    F = program.gradient(a)
    best = program.multipliers(a, F)
    gap = program.duality_gap(a, F, best)
    for g in range(program.n_groups):
        for value in F:
            other = best.copy()
            other[g] = value
            assert program.duality_gap(a, F, other) >= gap - 1e-12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("m", [40, 400])
def test_a_matrix_that_is_not_kept_gives_the_same_answer(form, m):
    K = gram(m)
    stored = smo(make(form, K), tol=1e-8)
    kept = smo(make(form, FeatureGram(K, np.eye(m))), tol=1e-8)
    tiled = smo(make(form, FeatureGram(K, np.eye(m))), tol=1e-8, budget=0)
    assert kept.status is tiled.status is stored.status is Status.CONVERGED
    for other in (kept, tiled):
        assert_allclose(other.value.objective, stored.value.objective, rtol=1e-9, atol=1e-9)
        assert_allclose(other.value.coefficients, stored.value.coefficients, rtol=0, atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_starts_where_it_is_told(form):
    program = make(form, gram(60), C=10.0)
    cold = smo(program, tol=1e-6)
    warm = smo(program, tol=1e-6, start=cold.value.a)
    assert warm.n_iter <= 1
    assert_allclose(warm.value.objective, cold.value.objective, rtol=1e-9)
    anywhere = smo(program, tol=1e-6, start=np.full(len(program.p), 100.0))
    assert_allclose(anywhere.value.objective, cold.value.objective, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_hard_margin_on_separable_points(bias):
    X = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.3], [-3.0, -2.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    lo, hi = np.where(y < 0, -np.inf, 0.0), np.where(y > 0, np.inf, 0.0)
    sums = {"groups": np.zeros(4, dtype=int), "totals": np.zeros(1)} if bias else {}
    result = smo(QuadraticProgram(X @ X.T, -y, lo, hi, **sums), tol=1e-9)
    assert result.status.ok
    soft = smo(QuadraticProgram(X @ X.T, -y, lo.clip(-1e6), hi.clip(None, 1e6), **sums), tol=1e-9)
    assert_allclose(result.value.coefficients, soft.value.coefficients, atol=1e-6)
    assert result.gap < 1e-7
    b = -result.value.multipliers[0] if bias else 0.0
    margins = y * (X @ X.T @ result.value.coefficients + b)
    assert_allclose(margins.min(), 1.0, atol=1e-6)


def test_the_gap_of_a_hard_margin_bounds_what_is_missing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.sign(X[:, 0])
    X[:, 0] += 0.3 * y
    lo, hi = np.where(y < 0, -np.inf, 0.0), np.where(y > 0, np.inf, 0.0)
    program = QuadraticProgram(X @ X.T, -y, lo, hi, np.zeros(40, dtype=int), np.zeros(1))
    best = smo(program, tol=1e-10).value.objective
    for tol in (0.5, 0.1, 1e-3):
        early = smo(program, tol=tol)
        assert np.isfinite(early.gap)
        assert early.gap * abs(early.value.objective) >= early.value.objective - best - 1e-12


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", ["overlap", "repeated"])
def test_hard_margin_on_inseparable_points_is_infeasible(bias, case):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    y = np.where(rng.random(12) < 0.5, 1.0, -1.0)
    if case == "repeated":
        X, y = np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([1.0, -1.0])
    lo, hi = np.where(y < 0, -np.inf, 0.0), np.where(y > 0, np.inf, 0.0)
    sums = {"groups": np.zeros(len(y), dtype=int), "totals": np.zeros(1)} if bias else {}
    result = smo(QuadraticProgram(X @ X.T, -y, lo, hi, **sums), max_iter=200_000)
    assert result.status is Status.INFEASIBLE
    assert "finite C" in result.message


def test_totals_out_of_reach_are_infeasible():
    program = QuadraticProgram(
        np.eye(3), np.zeros(3), np.zeros(3), np.ones(3), np.zeros(3, dtype=int), np.array([3.5])
    )
    assert smo(program).status is Status.INFEASIBLE


def test_all_variables_at_their_bounds_is_an_answer():
    program = QuadraticProgram(
        gram(5), np.zeros(5), np.zeros(5), np.full(5, 0.1), np.zeros(5, dtype=int), np.array([0.5])
    )
    result = smo(program)
    assert result.status.ok
    assert np.all(result.value.a == 0.1)
    assert np.all(np.isfinite(result.value.multipliers))


def test_stops_by_steps_time_and_report():
    program = make("c_svc", gram(80, "linear"), C=100.0)
    assert smo(program, tol=1e-9, max_iter=3).status is Status.MAX_ITER
    assert smo(program, tol=1e-9, max_time=0.0).status is Status.MAX_TIME
    seen = []
    hard = make("c_svc", gram(400, "linear"), C=1e4)
    stopped = smo(hard, tol=1e-9, report=lambda n, gap: seen.append((n, gap)) or len(seen) == 2)
    assert stopped.status is Status.STOPPED
    assert [n for n, _ in seen] == sorted(n for n, _ in seen)
    assert seen[-1] == (stopped.n_iter, stopped.history[-1])


def test_zero_kernel_and_single_points():
    zero = smo(make("c_svc", np.zeros((4, 4))))
    assert zero.status.ok
    alone = QuadraticProgram(np.ones((1, 1)), -np.ones(1), np.zeros(1), np.full(1, 2.0))
    assert_allclose(smo(alone).value.a, [1.0])


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_follows_the_scale_of_the_kernel(scale):
    K = gram(30)
    plain = smo(make("c_svc", K, C=2.0), tol=1e-8)
    scaled = smo(make("c_svc", scale * K, C=2.0 / scale), tol=1e-8)
    assert_allclose(scaled.value.coefficients * scale, plain.value.coefficients, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_gradient_and_diagonal_agree_with_the_matrix_written_out(form):
    program = make(form, gram(6))
    Q = full_matrix(program)
    a = np.random.default_rng(0).normal(size=len(program.p))
    assert_allclose(program.gradient(a), Q @ a + program.p)
    assert_allclose(program.diagonal(), np.diag(Q))


def test_restricted_operator_is_the_submatrix():
    K, index = gram(9), np.array([7, 1, 4])
    expected = K[np.ix_(index, index)]
    v = np.array([1.0, -2.0, 0.5])
    for small in (RestrictedGram(DenseGram(K), index), restrict(K, index)):
        assert_allclose(small.dense(), expected)
        assert_allclose(small.rows(np.array([2])), expected[[2]])
        assert_allclose(small.block(np.array([2]), np.array([0, 1])), expected[2:, :2])
        assert_allclose(small.combination(np.array([0, 2]), v[:2]), expected[:, [0, 2]] @ v[:2])
        out = np.zeros((2, 3))
        small.put(np.array([2]), np.array([1]), slice(1, 3), out)
        assert_allclose(out, [[0, 0, 0], [0, *expected[2, 1:]]])
        assert_allclose(small.diagonal(), np.diag(expected))
        assert small.dtype == K.dtype
        assert_allclose(small @ v, expected @ v)
    assert restrict(K, np.arange(9)) is K


def test_refuses_malformed_programs():
    one = np.ones(2)
    with pytest.raises(ValueError, match="p has 3 entries"):
        QuadraticProgram(np.eye(2), np.zeros(3), np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match=r"lo\[1\]"):
        QuadraticProgram(np.eye(2), one, np.array([0.0, 1.0]), one)
    with pytest.raises(ValueError, match="without groups"):
        QuadraticProgram(np.eye(2), one, 0 * one, one, totals=np.zeros(1))
