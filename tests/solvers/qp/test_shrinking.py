"""Gram matrices too large to be kept: shrinking leads to the same answer, whatever the room."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer.kernels import RBF
from mercer.operators import gram
from mercer.solvers.qp import smo as module
from mercer.solvers.qp.quadratic_program import QuadraticProgram
from mercer.solvers.qp.restricted_gram import RestrictedGram
from mercer.solvers.qp.shrinking import undecided
from mercer.solvers.qp.smo import smo
from quadratic_programs import FORMS, check_feasible, full_matrix, make
from quadratic_programs import gram as small_gram

N = 1200


def tiled(n=N, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 6))
    return gram(RBF(0.3), X, store=False)


@pytest.mark.parametrize("form", ["c_svc", "c_svc_weighted", "c_svc_no_bias", "svr", "one_class"])
def test_any_budget_gives_the_same_answer(form, monkeypatch):
    program = make(form, tiled(), 20.0)
    whole = smo(program, tol=1e-3)
    assert whole.status.ok
    shrunk = []
    original = module._shrunk
    monkeypatch.setattr(module, "_shrunk", lambda *given: shrunk.append(1) or original(*given))
    for share in (0.9, 0.5, 0.2):
        shrunk.clear()
        found = smo(program, tol=1e-3, budget=share * 8 * N**2)
        assert found.status.ok
        check_feasible(program, found.value.a)
        assert found.value.violation <= 1e-3
        # The certificate is of all points, from a gradient computed afresh.
        assert_allclose(found.value.gradient, program.gradient(found.value.a), atol=1e-6)
        scale = abs(whole.value.objective)
        assert_allclose(found.value.objective, whole.value.objective, rtol=0, atol=1e-3 * scale)
        if form.startswith("c_svc"):
            assert shrunk


def test_without_room_nothing_is_kept(monkeypatch):
    program = make("c_svc", tiled(), 20.0)
    monkeypatch.setattr(module, "_shrunk", None)
    assert smo(program, tol=1e-2, budget=0).status.ok


def test_stops_within_the_shrunk_part():
    program = make("c_svc", tiled(), 20.0)
    room = 0.5 * 8 * N**2
    steps = smo(program, tol=1e-3, budget=room).n_iter
    early = smo(program, tol=1e-3, budget=room, max_iter=steps // 2)
    assert early.status.name == "MAX_ITER"
    assert early.n_iter <= steps // 2
    check_feasible(program, early.value.a)
    told = []
    stopped = smo(
        program, tol=1e-3, budget=room, report=lambda n, v: told.append(n) or n > steps // 2
    )
    assert stopped.status.name == "STOPPED"
    assert told == sorted(told)
    check_feasible(program, stopped.value.a)


@pytest.mark.parametrize("form", FORMS)
def test_a_part_is_the_whole_with_the_others_held(form):
    program = make(form, small_gram(12), 2.0)
    a = smo(program, max_iter=6).value.a
    F = program.gradient(a)
    points = np.array([1, 4, 5, 10])
    part, chosen = program.part(points, a, F), program.variables(points)
    assert_array_equal(chosen % 12, np.tile(points, len(chosen) // 4))
    move = np.random.default_rng(0).normal(size=len(chosen))
    after = a.copy()
    after[chosen] += move
    Q = full_matrix(program)

    def objective(a):
        return 0.5 * a @ Q @ a + program.p @ a

    inner = 0.5 * move @ (part.gradient(move) - part.p) + part.p @ move
    assert_allclose(inner, objective(after) - objective(a), atol=1e-12)
    best = smo(part, tol=1e-10).value.a
    found = program.moved(points, a, best)
    check_feasible(program, found)
    others = np.setdiff1d(np.arange(len(a)), chosen)
    assert_array_equal(found[others], a[others])
    assert objective(found) <= objective(a)


def test_a_move_all_the_way_ends_on_the_bound():
    lo, hi = np.zeros(3), np.full(3, 0.3)
    program = QuadraticProgram(np.eye(3), np.zeros(3), lo, hi)
    a = np.array([0.1, 0.1, 0.2])
    room = hi[1:] - a[1:]
    assert_array_equal(program.moved(np.array([1, 2]), a, room), [0.1, 0.3, 0.3])
    assert_array_equal(program.moved(np.array([1, 2]), a, -a[1:]), [0.1, 0.0, 0.0])


def test_undecided_points_are_those_that_can_violate():
    rng = np.random.default_rng(1)
    program = make("nu_svc", small_gram(30), 1.0)
    a, F = np.where(rng.random(30) < 0.5, program.lo, program.hi), rng.normal(size=30)
    a[:4] = 0.5 * (program.lo + program.hi)[:4]
    violating = set(range(4))
    for i in range(30):
        for j in range(30):
            if (
                program.groups[i] == program.groups[j]
                and a[i] < program.hi[i]
                and a[j] > program.lo[j]
                and F[j] > F[i]
            ):
                violating |= {i, j}
    assert_array_equal(undecided(program, a, F, 30), sorted(violating))
    few = undecided(program, a, F, 6)
    assert len(few) == 6
    assert set(few) <= violating


def test_parts_of_parts_are_parts():
    X = np.random.default_rng(0).normal(size=(9, 2))
    K = gram(RBF(1.0), X)
    half = RestrictedGram(K, np.array([1, 3, 5, 7]))
    program = make("c_svc", half)
    part = program.part(np.array([0, 2]), np.zeros(4), program.p)
    assert_array_equal(part.K.index, [1, 5])
    assert_allclose(part.K.dense(), K.dense()[np.ix_([1, 5], [1, 5])])
