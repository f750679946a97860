"""From a point inside the box to one whose bounds hold exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError

from mercer.solvers.qp.free_variables import FreeVariables
from mercer.solvers.qp.quadratic_program import QuadraticProgram

# More rounds than this mean that the point was far from the optimum.
_ROUNDS = 60


def crossover(
    program: QuadraticProgram,
    a: np.ndarray,
    r: np.ndarray,
    tol: float,
    size: float = 0.0,
    stop: Callable[[float], bool] = lambda gap: False,
) -> np.ndarray:
    """Put variables on their bounds, solve for the others, and keep the best point met.

    A variable is taken to be at a bound when its distance from it is small against its reduced
    gradient, both measured in typical sizes. The optimality conditions of the free variables are
    then one linear system. The few variables that were misjudged are put right by an active-set
    method: the first bound on the way to the system's solution is fixed, and once there is none
    on the way, the variable at a bound that gains most by leaving it is freed.

    Parameters
    ----------
    program : QuadraticProgram
        Whose K is `stored`.
    a : ndarray of shape (n,)
        A point near the optimum.
    r : ndarray of shape (n,)
        Reduced gradient there.
    tol : float
        Violation at which to stop.
    size : float
        A typical coefficient, should those of ``a`` all be close to zero.
    stop : callable
        Told the relative duality gap before every round; a true value ends the search.
    """
    lo, hi = program.lo, program.hi
    size = max(float(np.mean(np.abs(a))), size)
    linear = program.p if np.any(program.p) else program.gradient(a)
    slope = max(float(np.max(np.abs(r))), float(np.max(np.abs(linear)))) or 1.0
    at_lo = (a - lo) / size < r / slope
    at_hi = (hi - a) / size < -r / slope
    a = settle(program, np.where(at_lo, lo, np.where(at_hi, hi, a)))
    best = program.solution(a)
    free = (a > lo) & (a < hi)
    system = FreeVariables(program)
    for _ in range(_ROUNDS):
        if stop(best.gap):
            break
        try:
            a, blocked = _step_to(program, a, system.solve(a, free))
        except LinAlgError:
            break
        a = settle(program, a)
        measured = program.solution(a)
        if measured.gap < best.gap:
            best = measured
        if measured.violation <= min(tol, 1e-9 * slope):
            break
        free &= ~blocked
        if not np.any(blocked):
            freed = _worst_pair(program, a)
            if np.all(free[freed]):
                break
            free[freed] = True
    return best.a


def _worst_pair(program: QuadraticProgram, a: np.ndarray) -> list[int]:
    """The variable that gains most by rising and the one that gains most by falling."""
    F = program.gradient(a)
    if program.groups is None:
        gain = np.where(a <= program.lo, -F, np.where(a >= program.hi, F, np.abs(F)))
        return [int(np.argmax(gain))]
    worst, pair = -np.inf, []
    for g in range(program.n_groups):
        rise = np.where((program.groups == g) & (a < program.hi), F, np.inf)
        fall = np.where((program.groups == g) & (a > program.lo), F, -np.inf)
        i, j = int(np.argmin(rise)), int(np.argmax(fall))
        if fall[j] - rise[i] > worst:
            worst, pair = fall[j] - rise[i], [i, j]
    return pair


def _step_to(
    program: QuadraticProgram, a: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Go from ``a`` to ``target`` or to the first bound in between; which variables met theirs."""
    lo, hi = program.lo, program.hi
    move = target - a
    room = np.where(move > 0, hi - a, np.where(move < 0, a - lo, np.inf))
    reach = np.divide(room, np.abs(move), out=np.full(len(a), np.inf), where=move != 0)
    step = min(1.0, float(reach.min()))
    blocked = reach <= step if step < 1 else np.zeros(len(a), dtype=bool)
    a = np.where(blocked, np.where(move > 0, hi, lo), np.clip(a + step * move, lo, hi))
    return a, blocked


def settle(program: QuadraticProgram, a: np.ndarray) -> np.ndarray:
    """The point with its sums put right, first by the free variables of each group."""
    a = a.copy()
    for g, total in enumerate(program.totals):
        free = np.flatnonzero((program.groups == g) & (a > program.lo) & (a < program.hi))
        missing = total - a[program.groups == g].sum()
        if free.size and missing:
            room = program.hi[free] - a[free] if missing > 0 else a[free] - program.lo[free]
            share = np.minimum(room, np.max(np.abs(a[free])))
            a[free] += missing * share / share.sum()
    settled = program.feasible(a)
    return a if settled is None else settled
