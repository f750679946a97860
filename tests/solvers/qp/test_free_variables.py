"""Systems of the free variables against dense ones that hold the constraints as equations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.solvers.qp.free_variables import FreeVariables
from mercer.solvers.qp.quadratic_program import QuadraticProgram
from quadratic_programs import FORMS, gram, make


def solved_densely(program: QuadraticProgram, a: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The Karush-Kuhn-Tucker system of the free variables, written out."""
    n, m = len(program.p), program.n_points
    s = np.ones(n) if program.signs is None else program.signs
    Q = np.outer(s, s) * np.asarray(program.K)[np.ix_(np.arange(n) % m, np.arange(n) % m)]
    f, h = np.flatnonzero(free), np.flatnonzero(~free)
    E = np.array([program.groups == g for g in range(program.n_groups)], dtype=float).reshape(-1, n)
    E = E[np.any(E[:, f], axis=1)]
    totals = [program.totals[int(program.groups[np.argmax(e)])] for e in E]
    k = len(E)
    system = np.block([[Q[np.ix_(f, f)], E[:, f].T], [E[:, f], np.zeros((k, k))]])
    right = np.concatenate([-program.p[f] - Q[np.ix_(f, h)] @ a[h], totals - E[:, h] @ a[h]])
    out = a.copy()
    out[f] = np.linalg.solve(system, right)[: len(f)]
    return out


@pytest.mark.parametrize("form", FORMS)
def test_sets_that_change_little_are_solved_with_the_first_factor(form):
    m = 60
    program = make(form, gram(m, d=15) + np.eye(m), 2.0).stored()
    n = len(program.p)
    rng = np.random.default_rng(0)
    a = np.clip(rng.normal(size=n), program.lo, program.hi)
    free = rng.permutation(n) < 0.8 * m  # at most one variable of a point, mostly
    free[m:] &= n > m and ~free[:m]
    system = FreeVariables(program)
    seen = []
    for changed in (0, 1, 1, 0, n):
        free = free.copy()
        flipped = rng.choice(m, min(changed, m), replace=False)
        free[flipped] = ~free[flipped]
        free[m:] &= n > m and ~free[:m]
        found = system.solve(a, free, program.gradient(a))
        assert_allclose(found, solved_densely(program, a, free), atol=1e-8)
        seen.append(system.bordered)
    assert seen == [False, True, True, True, False]
    system.forget()
    system.solve(a, free)
    assert not system.bordered


def test_no_free_variables_leave_the_point_as_it_is():
    program = make("c_svc", gram(5), 1.0)
    a = np.zeros(5)
    assert FreeVariables(program).solve(a, np.zeros(5, dtype=bool)) is a
