"""Sequential minimal optimisation: support vector machines two coefficients at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.solvers.quadratic_program import LARGEST_GAP, QuadraticProgram, close
from mercer.solvers.result import Monitor, Result, Status

# Steps between two looks at the clock; the gap is recorded as often.
_STEPS_PER_RECORD = 64
# At the end a fresh gradient may show that rounding had drifted; so many times before giving up.
_MAX_REFRESHES = 20
# Where the violation is within tol and the gap still large, the search goes on to this share of it.
_TIGHTER = 0.1


def smo(
    program: QuadraticProgram,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_time: float | None = None,
    start: np.ndarray | None = None,
    budget: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``½ aᵀQa + pᵀa`` over a box with given sums, a pair of variables at a time.

    Each step moves ``a_i`` up and ``a_j`` down by the same amount, so sums stay as they are. The
    first is the variable with the smallest gradient among those that can rise; the second gains
    most by the second-order model, ``(F_j - F_i)² / (Q_ii + Q_jj - 2 Q_ij)``. With two groups the
    pair is the better of the groups' pairs. Without groups the two variables move freely: the one
    whose best move lowers the objective most, and the one that adds most to that.

    Parameters
    ----------
    program : QuadraticProgram
    tol : float
        Largest violation of the optimality conditions, as in LIBSVM; where the relative duality
        gap is still above a hundredth then, as with a high price, the search goes on.
    max_iter : int, optional
        Number of steps at most; as in LIBSVM, the larger of ten million and 100 n if None.
    max_time : float, optional
        Seconds at most.
    start : ndarray of shape (n,), optional
        Where to start; clipped to the box, and moved so that the sums hold. Zero if None.
    budget : float, optional
        Bytes for K, dense where that fits and a cache of its rows otherwise; scikit-learn's
        ``working_memory`` if None.
    report : callable, optional
        ``report(n_iter, violation)``; a true return value stops the solver.

    Returns
    -------
    Result
        ``value`` is a `Solution`, whose ``violation`` is at most tol and whose ``gap`` at most
        0.01 if the status is ok; ``gap`` is the relative duality gap; ``history`` holds violations.
        The status is ``INFEASIBLE`` if no point satisfies the constraints, or if infinite bounds
        let the objective fall without end, which is so when no model satisfies the hard
        constraints.

    Examples
    --------
    Two points at -1 and 1: the widest margin is 1, with both coefficients a half.

    >>> import numpy as np
    >>> x, y = np.array([-1.0, 1.0]), np.array([-1.0, 1.0])
    >>> program = QuadraticProgram(np.outer(x, x), -y, np.minimum(0, 9 * y), np.maximum(0, 9 * y),
    ...                            groups=np.zeros(2, dtype=int), totals=np.zeros(1))
    >>> smo(program).value.coefficients
    array([-0.5,  0.5])

    References
    ----------
    Fan, Chen and Lin (2005), "Working set selection using second order information for training
    support vector machines"; Steinwart, Hush and Scovel (2011), "Training SVMs without offset".
    """
    max_iter = max(10_000_000, 100 * len(program.p)) if max_iter is None else max_iter
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    a = program.feasible(start)
    if a is None:
        a = np.clip(np.zeros(len(program.p)), program.lo, program.hi)
        return close(program, monitor, a, tol, status=Status.INFEASIBLE, method="smo")
    search = _Search(program, a, budget)
    status = None
    refreshes = 0
    while status is None:
        steps = min(_STEPS_PER_RECORD, max_iter - monitor.n_iter)
        taken, violation = search.advance(steps, monitor.tol)
        if violation <= monitor.tol or search.stuck:
            violation = search.refresh()
            refreshes += 1
        if violation <= monitor.tol and program.solution(search.a).gap > LARGEST_GAP:
            monitor.tol = _TIGHTER * violation
            refreshes = 0
        if search.unbounded or search.rescale():
            status = Status.INFEASIBLE
        elif monitor.record(violation, steps=taken):
            break
        elif refreshes >= _MAX_REFRESHES:
            status = Status.STALLED
    return close(program, monitor, search.a, tol, status=status, method="smo")


class _Search:
    """The point, its gradient, and which variables can rise and fall."""

    def __init__(self, program: QuadraticProgram, a: np.ndarray, budget: float | None):
        n = len(program.p)
        self.program = program
        self.a = a
        self.row = program.rows(budget)
        self.diagonal = program.diagonal()
        # Below this curvature a direction is flat to rounding, as for repeated points.
        self.flat = max(1e-12 * float(self.diagonal.max()), 1e-150)
        self.curvature = np.maximum(self.diagonal, self.flat)
        self.stuck = False
        self.unbounded = False
        self.work = np.empty((2, n))
        self.refresh()

    def refresh(self) -> float:
        """Recompute the gradient, which drifts by rounding; the violation there."""
        program, a = self.program, self.a
        self.F = program.gradient(a)
        count = max(1, program.n_groups)
        # Added to F, these hide variables of other groups and those at a bound from argmin/argmax.
        self.rise = np.full((count, len(a)), np.inf)
        self.fall = np.full((count, len(a)), -np.inf)
        for g in range(count):
            inside = np.ones(len(a), dtype=bool) if program.groups is None else program.groups == g
            self.rise[g, inside & (a < program.hi)] = 0.0
            self.fall[g, inside & (a > program.lo)] = 0.0
        return program.violation(a, self.F)

    def advance(self, steps: int, tol: float) -> tuple[int, float]:
        """Take up to so many steps; how many were taken and the violation before the last one."""
        step = self._pair_step if self.program.n_groups else self._free_step
        self.stuck = False
        violation = np.inf
        for taken in range(steps):
            violation = step(tol)
            if violation <= tol or self.stuck or self.unbounded:
                return taken, violation
        return steps, violation

    def _pair_step(self, tol: float) -> float:
        F, diagonal = self.F, self.diagonal
        gain, curvature = self.work
        violation, best = 0.0, 0.0
        i = j = g = -1
        for group in range(len(self.rise)):
            np.add(F, self.rise[group], gain)
            first = int(gain.argmin())
            lowest = gain[first]
            np.add(F, self.fall[group], gain)
            np.subtract(gain, lowest, gain)
            worst = gain.max()
            violation = max(violation, worst)
            if worst <= tol:
                continue
            np.multiply(self.row(first), -2.0, curvature)
            curvature += diagonal
            curvature += diagonal[first]
            np.maximum(curvature, self.flat, out=curvature)
            np.maximum(gain, 0.0, out=gain)
            np.multiply(gain, gain, gain)
            np.divide(gain, curvature, gain)
            second = int(gain.argmax())
            if gain[second] > best:
                i, j, g, best = first, second, group, gain[second]
        if g >= 0:
            self._move_pair(i, j, g)
        return float(violation)

    def _move_pair(self, i: int, j: int, g: int) -> None:
        """Raise a_i and lower a_j by the best amount that keeps both in the box."""
        a, F, program = self.a, self.F, self.program
        row_i, row_j = self.row(i), self.row(j)
        curvature = self.diagonal[i] + self.diagonal[j] - 2.0 * row_i[j]
        room_i, room_j = program.hi[i] - a[i], a[j] - program.lo[j]
        step = (F[j] - F[i]) / max(curvature, self.flat)
        if curvature <= self.flat and np.isinf(room_i) and np.isinf(room_j):
            self.unbounded = True
            return
        new_i, new_j = a[i] + step, a[j] - step
        if step >= min(room_i, room_j):
            step = min(room_i, room_j)
            new_i = program.hi[i] if room_i <= step else a[i] + step
            new_j = program.lo[j] if room_j <= step else a[j] - step
        self.stuck = new_i == a[i] and new_j == a[j]
        self._set(i, new_i, g)
        self._set(j, new_j, g)
        change = self.work[0]
        np.subtract(row_i, row_j, change)
        change *= step
        F += change

    def _free_step(self, tol: float) -> float:
        """Without groups: the best single move, then the best second variable beside it."""
        F, a, diagonal = self.F, self.a, self.diagonal
        gain, move = self.work
        np.add(F, self.rise[0], gain)
        violation = -gain.min()
        np.add(F, self.fall[0], gain)
        violation = float(max(0.0, violation, gain.max()))
        if violation <= tol:
            return violation
        i = self._best_move(F, self.curvature)
        step_i = move[i]
        row_i = self.row(i)
        if diagonal[i] <= self.flat and np.isinf(step_i):
            self.unbounded = True
            return violation
        slope = row_i * step_i
        slope += F
        curvature = self.curvature
        if self.program.lo[i] < a[i] + step_i < self.program.hi[i]:
            # Variable i is free to follow, which lowers the curvature along every other one.
            curvature = row_i * row_i
            curvature *= -1.0 / self.curvature[i]
            curvature += diagonal
            np.maximum(curvature, self.flat, out=curvature)
        j = self._best_move(slope, curvature)
        self._move_both(i, j, float(move[j]) if j != i else 0.0)
        return violation

    def _best_move(self, slope: np.ndarray, curvature: np.ndarray) -> int:
        """Leave every variable's best move alone in ``work[1]``; the one that gains most."""
        gain, move = self.work
        np.divide(slope, curvature, move)
        np.subtract(self.a, move, move)
        np.clip(move, self.program.lo, self.program.hi, move)
        move -= self.a
        # The objective changes by move (slope + ½ curvature move).
        np.multiply(curvature, move, gain)
        gain *= 0.5
        gain += slope
        gain *= move
        return int(gain.argmin())

    def _move_both(self, i: int, j: int, step_j: float) -> None:
        """Given a move of a_j, the best a_i; then the best a_j once more; both in the box."""
        a, F, lo, hi = self.a, self.F, self.program.lo, self.program.hi
        row_i, row_j = self.row(i), self.row(j)
        new_i, new_j = float(a[i]), float(a[j] + step_j)
        new_i = a[i] - (F[i] + row_i[j] * (new_j - a[j])) / self.curvature[i]
        new_i = float(min(max(new_i, lo[i]), hi[i]))
        if j != i:
            new_j = a[j] - (F[j] + row_i[j] * (new_i - a[i])) / self.curvature[j]
            new_j = float(min(max(new_j, lo[j]), hi[j]))
        step_i, step_j = new_i - a[i], new_j - a[j]
        self.stuck = step_i == 0.0 and (step_j == 0.0 or i == j)
        F += step_i * row_i
        self._set(i, new_i, 0)
        if j != i:
            F += step_j * row_j
            self._set(j, new_j, 0)

    def _set(self, i: int, value: float, g: int) -> None:
        self.a[i] = value
        self.rise[g, i] = 0.0 if value < self.program.hi[i] else np.inf
        self.fall[g, i] = 0.0 if value > self.program.lo[i] else -np.inf

    def rescale(self) -> bool:
        """With infinite bounds, scale the whole point to the best multiple of itself.

        Coefficients of a hard margin can be large, and pairs alone reach them slowly; where no
        margin exists they grow without end. True if that has been seen.
        """
        program, a = self.program, self.a
        if program.bounded or np.any(program.totals):
            return False
        quadratic, fall = a @ (self.F - program.p), -(program.p @ a)
        if program.unbounded_along(a, self.F):
            return True
        if quadratic <= 0 or fall <= quadratic:
            return False
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.fmin.reduce(np.where(a > 0, program.hi / a, program.lo / a))
        self.a = a * max(1.0, min(fall / quadratic, room))
        np.clip(self.a, program.lo, program.hi, out=self.a)
        self.refresh()
        return False
