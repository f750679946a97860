"""Active sets against a general solver and interior points; and where they give up."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.solvers.qp import support_vectors
from mercer.solvers.qp.active_sets import active_sets
from mercer.solvers.qp.interior_point import interior_point
from mercer.solvers.qp.smo import smo
from mercer.solvers.qp.support_vectors import solve_program
from mercer.solvers.result import Status
from quadratic_programs import FORMS, check_feasible, check_optimal, gram, make, slow_optimum


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("m", [6, 10])
def test_finds_the_optimum_of_a_general_solver(form, m):
    program = make(form, gram(m), 2.0)
    start = smo(program, max_iter=5).value.a
    result = active_sets(program, start, tol=1e-8)
    assert result.status is Status.CONVERGED
    best = slow_optimum(program)
    scale = max(1.0, abs(best))
    assert best - 1e-6 * scale <= result.value.objective <= best + 1e-9 * scale
    assert result.gap < 1e-8


@pytest.mark.parametrize("form", ["c_svc", "c_svc_weighted", "c_svc_no_bias", "svr"])
@pytest.mark.parametrize("C", [10.0, 1e5])
def test_prices_hardly_matter_where_points_are_independent(form, C):
    program = make(form, gram(300, d=15), C)
    start = smo(program, max_iter=50).value.a
    result = active_sets(program, start, tol=1e-8)
    check_optimal(program, result, tol=1e-8)
    assert result.n_iter <= 15
    assert result.history[-1] == 0
    best = interior_point(program, tol=1e-8).value.objective
    assert_allclose(result.value.objective, best, rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["linear", "repeated"])
def test_dependent_points_are_solved_or_given_up(form, kind):
    program = make(form, gram(80, kind), 100.0)
    result = active_sets(program, smo(program, max_iter=100).value.a, tol=1e-6)
    assert result.status in (Status.CONVERGED, Status.STALLED)
    if result.status.ok:
        check_optimal(program, result, tol=1e-6)
    check_feasible(program, result.value.a)
    finished = solve_program(program, tol=1e-6)
    assert finished.status.ok


def test_ends_with_rounds_time_and_report():
    program = make("c_svc", gram(200, d=8), 100.0)
    start = np.zeros(200)
    rounds = active_sets(program, start).n_iter
    assert rounds > 2
    for limit, status in (
        ({"max_iter": 2}, Status.MAX_ITER),
        ({"max_time": 0.0}, Status.MAX_TIME),
        ({"report": lambda n, share: n >= 2}, Status.STOPPED),
    ):
        early = active_sets(program, start, **limit)
        assert early.status is status
        assert early.n_iter <= 2
        check_feasible(program, early.value.a)


def test_auto_turns_to_active_sets_then_back_and_then_to_interior_points(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    K = np.exp(-0.01 * ((X[:, None] - X) ** 2).sum(axis=2))
    program = make("c_svc", K, 1e5)
    quick = solve_program(program, tol=1e-5)
    assert re.fullmatch(r"smo \(\d+ steps\), then active sets \(\d+\)", quick.method)
    check_optimal(program, quick, tol=1e-5)
    given_up = replace(quick, status=Status.STALLED, method="active sets", n_iter=3)
    monkeypatch.setattr(support_vectors, "active_sets", lambda *given, **limits: given_up)
    slow = solve_program(program, tol=1e-5)
    tries = r"(, then active sets \(3\), then smo \(\d+\))+"
    rest = r", then active sets \(3\), then interior point \(\d+\)"
    assert re.fullmatch(r"smo \(\d+ steps\)" + tries + rest, slow.method)
    assert_allclose(slow.value.objective, quick.value.objective, rtol=1e-9)
