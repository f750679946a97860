"""The interior-point method against working sets and a general solver; the choice between them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.operators import DenseGram
from mercer.solvers.qp import crossover
from mercer.solvers.qp.diagonal_shifts import DiagonalShifts
from mercer.solvers.qp.free_variables import FreeVariables
from mercer.solvers.qp.interior_point import interior_point, low_rank
from mercer.solvers.qp.quadratic_program import QuadraticProgram
from mercer.solvers.qp.smo import smo
from mercer.solvers.qp.support_vectors import joint_result, solve_program
from mercer.solvers.result import Status
from quadratic_programs import FORMS, check_feasible, check_optimal, gram, make, slow_optimum


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["rbf", "linear", "repeated"])
@pytest.mark.parametrize("C", [0.05, 2.0, 30.0])
def test_finds_the_optimum_of_a_general_solver(form, kind, C):
    program = make(form, gram(10, kind), C)
    result = interior_point(program, tol=1e-8)
    assert result.status is Status.CONVERGED
    best = slow_optimum(program)
    scale = max(1.0, abs(best))
    assert result.value.objective <= best + 1e-9 * scale
    assert result.value.objective >= best - 1e-6 * scale
    assert result.gap < 1e-8


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["rbf", "linear", "repeated"])
@pytest.mark.parametrize("C", [1e-4, 1.0, 100.0])
def test_agrees_with_working_sets(form, kind, C):
    program = make(form, gram(50, kind), C)
    pairs, interior = smo(program, tol=1e-7, max_iter=10_000), interior_point(program, tol=1e-7)
    assert interior.status.ok
    assert interior.n_iter <= 40
    scale = max(1e-6, abs(interior.value.objective))
    if pairs.status.ok:
        assert_allclose(pairs.value.objective, interior.value.objective, atol=1e-5 * scale)
    else:
        assert interior.value.objective <= pairs.value.objective


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("m", [2, 7, 60])
def test_satisfies_the_optimality_conditions(form, m):
    program = make(form, gram(m), C=5.0)
    check_optimal(program, interior_point(program, tol=1e-8), tol=1e-8)


def test_bounds_hold_exactly():
    program = make("c_svc", gram(80, "linear"), C=0.5)
    a = interior_point(program).value.a
    at_bounds = (a == 0) | (np.abs(a) == 0.5)
    assert at_bounds.sum() >= 80 - 4  # in three dimensions four points can lie on the margin
    pairs = smo(program, tol=1e-9).value.a
    assert np.array_equal(a == 0, pairs == 0)
    assert np.array_equal(np.abs(a) == 0.5, np.abs(pairs) == 0.5)


@pytest.mark.parametrize("C", [1e4, 1e6, np.inf])
def test_large_prices_take_hardly_more_steps(C):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 4))
    y = np.sign(X @ [1.0, -1.0, 0.5, 0.0])
    X = X + 0.05 * y[:, None] * np.array([1.0, -1.0, 0.5, 0.0])
    lo, hi = np.where(y < 0, -C, 0.0), np.where(y > 0, C, 0.0)
    program = QuadraticProgram(X @ X.T, -y, lo, hi, np.zeros(120, dtype=int), np.zeros(1))
    result = interior_point(program, tol=1e-6)
    assert result.status.ok
    assert result.n_iter <= 60
    value = result.value
    margins = y * (X @ X.T @ value.coefficients - value.multipliers[0])
    assert margins.min() > 1 - 1e-5  # separable, so a high price gives the hard margin


@pytest.mark.parametrize("case", ["overlap", "repeated"])
@pytest.mark.parametrize("bias", [True, False])
def test_hard_margin_on_inseparable_points_is_infeasible(case, bias):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    if case == "repeated":
        X, y = np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([1.0, -1.0])
    lo, hi = np.where(y < 0, -np.inf, 0.0), np.where(y > 0, np.inf, 0.0)
    sums = {"groups": np.zeros(len(y), dtype=int), "totals": np.zeros(1)} if bias else {}
    program = QuadraticProgram(X @ X.T, -y, lo, hi, **sums)
    assert interior_point(program).status is Status.INFEASIBLE
    assert solve_program(program).status is Status.INFEASIBLE


def test_totals_out_of_reach_are_infeasible():
    program = QuadraticProgram(
        np.eye(3), np.zeros(3), np.zeros(3), np.ones(3), np.zeros(3, dtype=int), np.array([3.5])
    )
    assert interior_point(program).status is Status.INFEASIBLE


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps", [1, 3])
def test_stopped_early_it_is_feasible_and_says_how_far_off(form, steps):
    program = make(form, gram(40), C=3.0)
    best = interior_point(program, tol=1e-9).value.objective
    early = interior_point(program, tol=1e-12, max_iter=steps)
    check_feasible(program, early.value.a)
    missing = early.value.objective - best
    assert early.gap * max(1.0, abs(early.value.objective)) >= missing - 1e-10


@pytest.mark.parametrize("form", FORMS)
def test_few_features_give_the_same_answer_as_the_whole_matrix(form, monkeypatch):
    program = make(form, gram(60, "linear"), C=5.0)
    features = low_rank(program.K)
    assert features.shape == (60, 3)
    assert_allclose(features @ features.T, program.K, atol=1e-13 * program.K.max())
    quick = interior_point(program, tol=1e-8)
    monkeypatch.setattr("mercer.solvers.qp.interior_point.low_rank", lambda K: None)
    whole = interior_point(program, tol=1e-8)
    assert quick.status.ok
    assert_allclose(quick.value.objective, whole.value.objective, rtol=1e-10, atol=1e-12)


def test_low_rank_is_left_alone_where_it_is_not_low():
    assert low_rank(gram(20)) is None
    assert low_rank(np.zeros((5, 5))).shape == (5, 0)


def test_the_crossover_ends_with_the_time_and_the_callback(monkeypatch):
    program = make("svr", gram(60), C=100.0)
    solved = []
    solve = FreeVariables.solve
    monkeypatch.setattr(FreeVariables, "solve", lambda *given: solved.append(1) or solve(*given))
    assert interior_point(program, tol=1e-9, max_time=0.0).status is Status.MAX_TIME
    assert not solved
    path = interior_point(program, tol=1e-9).n_iter
    rounds = len(solved)
    assert rounds > 0
    calls = []
    stopped = interior_point(program, tol=1e-9, report=lambda n, _: calls.append(n) or n >= path)
    check_feasible(program, stopped.value.a)
    assert len(solved) == rounds
    assert interior_point(program, tol=1e-9, report=lambda n, _: n >= 2).status is Status.STOPPED


def test_a_box_about_zero_starts_at_zero():
    K = gram(30)
    t = np.random.default_rng(0).normal(size=30)
    one = np.ones(30)
    for C in (1.0, 1e8):
        with np.errstate(all="raise", under="ignore"):
            program = QuadraticProgram(K, -t, -C * one, C * one, 0 * one.astype(int), np.zeros(1))
            result = interior_point(program, tol=1e-8)
        assert result.status.ok
        assert result.gap < 1e-6


def test_auto_turns_to_interior_points_where_pairs_are_slow():
    program = make("c_svc", gram(60, "linear"), C=1e4)
    slow = solve_program(program, tol=1e-6)
    assert slow.status.ok
    assert re.fullmatch(r"smo \(\d+ steps\), then interior point \(\d+\)", slow.method)
    assert slow.gap < 1e-9
    quick = solve_program(make("c_svc", gram(60)), tol=1e-3)
    assert quick.method == "smo"


def test_auto_keeps_to_the_steps_it_is_given():
    program = make("c_svc", gram(60, "linear"), C=1e4)
    result = solve_program(program, tol=1e-6, max_iter=10)
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 10


def test_without_memory_for_the_matrix():
    program = make("c_svc", DenseGram(gram(30)))
    with pytest.raises(ValueError, match="use solver='smo'"):
        solve_program(program, solver="interior_point", budget=100)
    assert solve_program(program, budget=100).status.ok
    with pytest.raises(ValueError, match="solver='newton'"):
        solve_program(program, solver="newton")


def test_combined_results_tell_of_the_worst():
    good = smo(make("c_svc", gram(20)), tol=1e-9)
    bad = smo(make("c_svc", gram(20)), tol=1e-9, max_iter=1)
    both = joint_result([good, bad])
    assert both.status is Status.MAX_ITER
    assert both.gap == max(good.gap, bad.gap)
    assert both.n_iter == good.n_iter + bad.n_iter
    assert both.value == (good.value, bad.value)
    assert joint_result([good]) is good


@pytest.mark.parametrize("spread", [0.0, 3.0, 12.0])
@pytest.mark.parametrize("kind", ["rbf", "repeated"])
def test_diagonal_shifts_are_solved_by_conjugate_gradients(kind, spread):
    rng = np.random.default_rng(0)
    K = gram(300, kind)
    d, B = 10 ** rng.uniform(-spread / 2, spread, size=300), rng.normal(size=(300, 2))
    X = DiagonalShifts(K).at(d)(B, 1e-5)
    expected = np.linalg.solve(K + np.diag(d), B)
    # In the norm of the matrix itself, which is what conjugate gradients make small.
    error = X - expected
    size = np.sum(expected * B)
    assert np.sum(error * ((K + np.diag(d)) @ error)) <= 1e-6 * size


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("C", [0.5, 100.0])
def test_inexact_directions_lead_to_the_same_optimum(monkeypatch, form, C):
    program = make(form, gram(120), C)
    exact = interior_point(program, tol=1e-6)
    monkeypatch.setattr("mercer.solvers.qp.interior_point._ITERATIVE_FROM_POINTS", 100)
    inexact = interior_point(program, tol=1e-6)
    assert inexact.status.ok
    check_optimal(program, inexact, tol=1e-6)
    assert_allclose(inexact.value.objective, exact.value.objective, rtol=1e-8, atol=1e-8)


def test_exact_directions_go_on_where_others_do_not_get_there(monkeypatch):
    program = make("c_svc", gram(120), 100.0)
    monkeypatch.setattr("mercer.solvers.qp.interior_point._ITERATIVE_FROM_POINTS", 100)
    monkeypatch.setattr("mercer.solvers.qp.interior_point._ITERATIVE_COMPLEMENTARITY", 1e3)
    monkeypatch.setattr(crossover, "_ROUNDS", 0)
    first = interior_point(program, tol=1e-6)
    assert first.status.ok
    assert first.history[0] > first.history[-1]
    check_optimal(program, first, tol=1e-6)


@pytest.mark.parametrize("scale", [1e-60, 1e-44, 1.0, 1e39])
def test_shifted_systems_at_any_scale(scale):
    X = np.random.default_rng(0).normal(size=(50, 3))
    A = scale * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    d, b = np.full(50, 0.1 * scale), np.full((50, 1), scale)
    x = DiagonalShifts(A).at(d)(b, 1e-5)
    assert np.linalg.norm((A + np.diag(d)) @ x - b) < 1e-4 * np.linalg.norm(b)
