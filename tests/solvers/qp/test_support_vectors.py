"""One method after the other: limits bound all of them together, and the best answer is kept."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.operators import FeatureGram
from mercer.solvers.qp import smo as smo_module
from mercer.solvers.qp import support_vectors as module
from mercer.solvers.qp.interior_point import interior_point
from mercer.solvers.qp.quadratic_program import QuadraticProgram, few_features
from mercer.solvers.qp.restricted_gram import restrict
from mercer.solvers.qp.smo import smo, smo_together
from mercer.solvers.qp.support_vectors import solve_program, solve_programs
from mercer.solvers.result import Budget, Status
from quadratic_programs import FORMS, check_feasible, check_optimal, gram, make

STAGES = ("active_sets", "_undecided", "interior_point")


@contextmanager
def impatient():
    """Working sets are left after five steps; what the other stages found is noted."""
    found = []

    def few_steps(programs, *, max_iter, watches, **given):
        few = 5 if max_iter is None else min(5, max_iter)
        results = smo_together(programs, max_iter=few, **given)
        for i, result in enumerate(results):
            if result.status is Status.MAX_ITER and few != max_iter:
                watches[i].switches = True
                results[i] = replace(result, status=Status.STOPPED)
        return results

    def noted(stage):
        def run(*arguments, **limits):
            before = len(found)
            result = stage(*arguments, **limits)
            del found[before:]  # what a stage itself has asked for
            found.append((limits, result))
            return result

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "smo_together", few_steps)
        patch.setattr(module, "_INTERIOR_UP_TO_VARIABLES", 5)
        for name in STAGES:
            patch.setattr(module, name, noted(getattr(module, name)))
        yield found


@given(
    form=st.sampled_from(FORMS),
    kind=st.sampled_from(["rbf", "linear", "repeated"]),
    m=st.integers(2, 60),
    C=st.sampled_from([1e-2, 1.0, 1e4]),
    max_iter=st.one_of(st.none(), st.integers(0, 60)),
    tol=st.sampled_from([1e-3, 1e-7]),
)
@settings(deadline=None, max_examples=60)
def test_all_stages_together_keep_to_the_steps(form, kind, m, C, max_iter, tol):
    program = make(form, gram(m, kind), C)
    told = []
    with impatient() as stages:
        result = solve_program(
            program, tol=tol, max_iter=max_iter, report=lambda n, gap: told.append(n)
        )
    if result.status is Status.INFEASIBLE:
        assert smo(program).status is Status.INFEASIBLE
        return
    check_feasible(program, result.value.a)
    assert result.gap == result.value.gap
    np.testing.assert_allclose(result.gap, program.solution(result.value.a).gap, 1e-3, 1e-9)
    if max_iter is not None:
        assert result.n_iter <= max_iter
        assert result.status.ok or result.status is Status.STALLED or result.n_iter == max_iter
    else:
        assert result.status.ok
    assert told == sorted(told)
    before = result.n_iter - sum(stage.n_iter for _, stage in stages)
    for limits, stage in stages:
        assert stage.n_iter <= limits["max_iter"]
        assert f", then {stage.method} ({stage.n_iter})" in result.method
    if stages:
        assert result.method.startswith(f"smo ({before} steps), then ")
        worst = max(result.value.violation, tol) * np.sum(program.hi - program.lo)
        assert result.value.objective <= stages[-1][1].value.objective + worst
    if result.status.ok:
        best = interior_point(program, tol=1e-9).value.objective
        missing = result.gap * max(1.0, abs(result.value.objective))
        assert result.value.objective - best <= missing + 1e-8 * max(1.0, abs(best))


def test_a_stage_that_stalls_or_runs_out_is_followed_by_the_next(monkeypatch):
    program = make("c_svc", gram(60, d=12), 100.0)
    far = program.solution(np.zeros(60))
    for status in (Status.STALLED, Status.MAX_ITER):
        given_up = replace(smo(program, max_iter=1), status=status, value=far, gap=far.gap)
        with impatient() as stages:
            monkeypatch.setattr(module, "active_sets", lambda *given, r=given_up, **limits: r)
            result = solve_program(program, tol=1e-6)
        assert [stage.method for _, stage in stages] == ["interior point"]
        check_optimal(program, result, tol=1e-6)


def test_the_best_answer_is_kept_where_all_give_up(monkeypatch):
    program = make("c_svc", gram(60, d=12), 100.0)
    far = program.solution(np.zeros(60))
    given_up = replace(smo(program, max_iter=1), status=Status.STALLED, value=far, gap=far.gap)
    with impatient():
        for name in STAGES:
            monkeypatch.setattr(module, name, lambda *given, **limits: given_up)
        result = solve_program(program, tol=1e-9)
    assert result.status is Status.STALLED
    assert result.value.objective < far.objective
    assert result.gap < far.gap
    # A stage that has used up its own rounds was not stopped by the user's limit.
    spent = replace(given_up, status=Status.MAX_ITER)
    with impatient():
        for name in STAGES:
            monkeypatch.setattr(module, name, lambda *given, **limits: spent)
        assert solve_program(program, tol=1e-9).status is Status.STALLED


def test_no_stage_begins_without_time(monkeypatch):
    program = make("c_svc", gram(60, d=12), 100.0)
    taken = iter([10.0, 0.0])
    monkeypatch.setattr(Budget, "seconds_left", property(lambda self: next(taken)))
    with impatient() as stages:
        monkeypatch.setattr(
            module, "active_sets", lambda *given, **limits: replace(stalled, seconds=10.0)
        )
        stalled = replace(smo(program, max_iter=1), status=Status.STALLED)
        result = solve_program(program, tol=1e-9, max_time=10.0)
    assert result.status is Status.MAX_TIME
    assert stages == []


@pytest.mark.parametrize("solver", ["smo", "interior_point"])
@pytest.mark.parametrize("form", ["c_svc", "nu_svc", "svr"])
def test_no_programme_begins_without_time(solver, form, monkeypatch):
    programs = [make(form, gram(60, d=12, seed=seed)) for seed in range(4)]
    begun = []

    def noted(stage):
        def run(first, *arguments, **limits):
            begun.append(first)
            return stage(first, *arguments, **limits)

        return run

    late = property(lambda self: len(begun) > 1)
    monkeypatch.setattr(Budget, "is_late", late)
    left = property(lambda self: 0.0 if len(begun) > 1 else 10.0)
    monkeypatch.setattr(Budget, "seconds_left", left)
    monkeypatch.setattr(smo_module, "_by_rows", noted(smo_module._by_rows))
    monkeypatch.setattr(module, "interior_point", noted(interior_point))
    results = solve_programs(programs, solver=solver, max_time=10.0)
    assert len(begun) == 2
    assert results[0].status is Status.CONVERGED
    for program, result in zip(programs[2:], results[2:], strict=True):
        assert result.status is Status.MAX_TIME
        assert result.n_iter == 0
        check_feasible(program, result.value.a)


@pytest.mark.parametrize("solver", ["auto", "interior_point"])
@pytest.mark.parametrize("call", [1, 2, 4, 6])
def test_a_stop_lasts(solver, call):
    programs = [make("c_svc", gram(60, d=12, seed=seed), 1e3) for seed in range(3)]
    told = []

    def report(n_iter, gap):
        told.append(n_iter)
        return len(told) == call  # says it once

    with impatient():
        results = solve_programs(programs, solver=solver, tol=1e-9, report=report)
    assert results[-1].status is (Status.STOPPED if len(told) >= call else Status.CONVERGED)
    assert call > 4 or len(told) >= call
    assert told == sorted(told)
    for program, result in zip(programs, results, strict=True):
        assert result.status in (Status.CONVERGED, Status.STOPPED)
        check_feasible(program, result.value.a)
    # What was under way may say where it ended, and no more.
    assert len(told) <= call + len(programs) * (2 if solver == "interior_point" else 1)


def test_steps_that_nobody_limits_are_not_the_end(monkeypatch):
    program = make("c_svc", gram(60, "linear"), 1e4)
    early = smo(program, tol=1e-6, max_iter=50)
    monkeypatch.setattr(module, "smo_together", lambda *given, **limits: [early])
    assert early.status is Status.MAX_ITER
    assert solve_program(program, tol=1e-6).status.ok
    assert solve_program(program, tol=1e-6, max_iter=50) is early


def test_what_no_point_satisfies(monkeypatch):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.where(np.random.default_rng(1).random(30) < 0.5, 1.0, -1.0)
    lo, hi = np.where(y < 0, -np.inf, 0.0), np.where(y > 0, np.inf, 0.0)
    program = QuadraticProgram(X @ X.T, -y, lo, hi, np.zeros(30, dtype=int), np.zeros(1))
    with impatient():
        assert solve_program(program).status is Status.INFEASIBLE


def features(n=2000, d=1, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d))
    phi = sp.csr_array(phi) if sparse else phi
    return FeatureGram(phi, phi)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("form", ["svr", "c_svc", "svr_no_bias"])
def test_few_features_are_enough_for_interior_points_beyond_the_budget(form, sparse):
    program = make(form, features(sparse=sparse), 1e3)
    result = solve_program(program, tol=1e-3, budget=2**20)
    assert result.status.ok
    assert result.n_iter < 10_000_000
    dense = replace(program, K=program.K.dense())
    best = interior_point(dense, tol=1e-6).value.objective
    assert result.value.objective == pytest.approx(best, rel=1e-4)
    alone = solve_program(program, solver="interior_point", tol=1e-6, budget=2**20)
    assert alone.status.ok
    assert alone.value.objective == pytest.approx(best, rel=1e-9)


def test_features_are_few_or_not():
    K = features(40, 3)
    np.testing.assert_array_equal(few_features(K), K.left)
    index = np.array([3, 1, 5, 7, 2, 9, 11, 12, 30, 31, 32, 33])
    np.testing.assert_array_equal(few_features(restrict(K, index)), K.left[index])
    assert few_features(restrict(K, index[:11])) is None
    assert few_features(K.dense()) is None
