"""Primal-dual active sets: guess which variables are at a bound, solve for the others, and look."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError

from mercer.arrays.threads import blas_threads
from mercer.solvers.qp.crossover import settle
from mercer.solvers.qp.free_variables import FreeVariables
from mercer.solvers.qp.quadratic_program import QuadraticProgram, certified_result
from mercer.solvers.result import Monitor, Result, Status

# Rounds without a guess better than all before it, after which the guesses are going in circles.
_ROUNDS_WITHOUT_PROGRESS = 4
# Variables freed at once, in addition to as many as are free already.
_MOST_FREED = 500
# A bound holds its variable as long as the gradient pulls it away by less than this share of tol.
_SLACK_PER_TOL = 0.1
# Ratio of points to those that moved from which a gradient is corrected instead of computed anew.
_CHANGED_PER_POINT = 8


def active_sets(
    program: QuadraticProgram,
    start: np.ndarray,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``½ aᵀQa + pᵀa`` over a box with given sums, all bounds guessed at once.

    With the variables at a bound held there, the optimality conditions of the others are one
    linear system. Where its solution leaves the box, the variable is put on the bound that it
    passed; where the gradient pulls a variable off its bound, that is freed; and so on until the
    guess is right. That is Newton's method for the conditions as they stand, kinks included: from
    almost any start it is there in some twenty rounds, of one factorisation of the free variables'
    part of K each, whatever C is. It may also go in circles, as with features so few that free
    points are dependent; then it says so, and `interior_point` is the one to ask.

    Parameters
    ----------
    program : QuadraticProgram
        With finite bounds. K is made dense.
    start : ndarray of shape (n,)
        A point whose bounds are the first guess.
    tol : float
        Largest violation of the optimality conditions, as in LIBSVM.
    max_iter : int, optional
        Number of rounds at most, 100 if None.
    max_time : float, optional
        Seconds at most, but for the round under way.
    report : callable, optional
        ``report(n_iter, violation)``; a true return value stops the solver.

    Returns
    -------
    Result
        ``value`` is a `Solution`; ``history`` holds the share of variables guessed wrong. The
        status is ``STALLED`` where the guesses do not get better.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([-1.0, 1.0]), np.array([-1.0, 1.0])
    >>> program = QuadraticProgram(np.outer(x, x) + np.eye(2), -y, np.minimum(0, 9 * y),
    ...                            np.maximum(0, 9 * y), np.zeros(2, dtype=int), np.zeros(1))
    >>> active_sets(program, np.array([0.0, 9.0])).value.coefficients.round(9)
    array([-0.33333333,  0.33333333])

    References
    ----------
    Hintermüller, Ito and Kunisch (2003), "The primal-dual active set strategy as a semismooth
    Newton method"; Júdice and Pires (1994), "A block principal pivoting algorithm for large-scale
    strictly monotone linear complementarity problems".
    """
    monitor = Monitor(
        tol=0.0, max_iter=100 if max_iter is None else max_iter, max_time=max_time, report=report
    )
    stored = program.stored()
    a = np.clip(start, program.lo, program.hi)
    at_lo, at_hi = a <= program.lo, a >= program.hi
    with blas_threads(program.n_points):
        a = _last_guess(stored, a, at_lo, at_hi, tol, monitor)
    early = monitor.status in (Status.MAX_ITER, Status.MAX_TIME, Status.STOPPED)
    return certified_result(
        program,
        monitor,
        settle(program, np.clip(a, program.lo, program.hi)),
        tol,
        status=monitor.status if early else None,
        method="active sets",
    )


def _last_guess(
    program: QuadraticProgram,
    a: np.ndarray,
    at_lo: np.ndarray,
    at_hi: np.ndarray,
    tol: float,
    monitor: Monitor,
) -> np.ndarray:
    """The point of the last guess, which may be outside of the box."""
    system, F = FreeVariables(program), program.gradient(a)
    while True:
        free = ~(at_lo | at_hi)
        try:
            a, F = _solved(system, a, F, free, _SLACK_PER_TOL * tol)
        except LinAlgError:
            break
        below, above = free & (a < program.lo), free & (a > program.hi)
        pull = _pull(program, F, free, at_lo, at_hi)
        leaves = pull > _SLACK_PER_TOL * tol
        if monitor.record(float(np.mean(below | above | leaves))) or _in_circles(monitor.history):
            break
        most = np.count_nonzero(free) + _MOST_FREED
        if np.count_nonzero(leaves) > most:
            leaves = pull >= np.partition(pull, -most)[-most]
        at_lo, at_hi = (at_lo & ~leaves) | below, (at_hi & ~leaves) | above
        before, a = a, np.where(at_lo, program.lo, np.where(at_hi, program.hi, a))
        F = _moved(program, F, before, a)
    return a


def _solved(
    system: FreeVariables, a: np.ndarray, F: np.ndarray, free: np.ndarray, slack: float
) -> tuple[np.ndarray, np.ndarray]:
    """The solution for the free variables, and its gradient, which is level on them."""
    program = system.program
    a = system.solve(a, free, F, rounds=1)
    F = program.gradient(a)
    if system.bordered and np.max(np.abs(F - _levels(program, F, free))[free]) > slack:
        system.forget()
        a = system.solve(a, free, F, rounds=1)
        F = program.gradient(a)
    return a, F


def _moved(
    program: QuadraticProgram, F: np.ndarray, before: np.ndarray, a: np.ndarray
) -> np.ndarray:
    """The gradient at a, from that at a point where most variables are the same."""
    net = program.net(a - before)
    changed = np.flatnonzero(net)
    if not isinstance(program.K, np.ndarray) or _CHANGED_PER_POINT * len(changed) > len(net):
        return program.gradient(a)
    return F + program.spread(net[changed] @ program.K[changed])


def _levels(program: QuadraticProgram, F: np.ndarray, free: np.ndarray) -> np.ndarray:
    """What the gradient of each variable is compared with, (n,): the mean of its group's free."""
    levels = np.zeros(len(F))
    for g in range(program.n_groups):
        inside = program.groups == g
        levels[inside] = F[inside & free].mean() if np.any(inside & free) else np.median(F[inside])
    return levels


def _pull(
    program: QuadraticProgram, F: np.ndarray, free: np.ndarray, at_lo: np.ndarray, at_hi: np.ndarray
) -> np.ndarray:
    """How hard the gradient F pulls each variable off the bound it is at, (n,); else zero."""
    r = F - _levels(program, F, free)
    return np.where(at_lo, -r, np.where(at_hi, r, 0.0))


def _in_circles(history: list[float]) -> bool:
    return len(history) > _ROUNDS_WITHOUT_PROGRESS and min(
        history[-_ROUNDS_WITHOUT_PROGRESS:]
    ) >= min(history[:-_ROUNDS_WITHOUT_PROGRESS])
