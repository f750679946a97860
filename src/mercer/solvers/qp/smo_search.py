"""The state of one quadratic program that `smo` solves: its point, gradient and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import core
from mercer.core.reference.working_sets import TIGHTER, State, flat_below
from mercer.solvers.qp.coordinate_descent import descend
from mercer.solvers.qp.quadratic_program import (
    LARGEST_GAP,
    QuadraticProgram,
    Solution,
    certified_result,
)
from mercer.solvers.result import Budget, Monitor, Result, Status

# At the end a fresh gradient may show that rounding had drifted; so many times before giving up.
_MOST_REFRESHES = 20
# With infinite bounds, steps between two looks at whether the objective falls without end.
_STEPS_PER_UNBOUNDED_CHECK = 64
# Rounds of coordinate descent at most, where another method is there to take over.
_DESCENT_ROUNDS = 300
# Steps, the violation and the point; true ends the search.
Watch = Callable[[int, float, np.ndarray], bool]


class Search:
    """One problem on its way: the point, its gradient and how it is doing."""

    def __init__(
        self,
        program: QuadraticProgram,
        start: np.ndarray | None,
        watch: Watch | None,
        tol: float,
        max_iter: int | None,
        limits: Budget,
    ):
        n = len(program.p)
        self.program, self.watch, self.tol, self.limits = program, watch, tol, limits
        self.max_iter = max(10_000_000, 100 * n) if max_iter is None else max_iter
        self.monitor = Monitor(tol=tol, max_iter=self.max_iter)
        self.status: Status | None = None
        self.solution: Solution | None = None
        self.refreshes = 0
        self.rough = False  # whether it is a step on the way, whose gap does not matter
        a = program.feasible(start)
        if a is None:
            self.status = Status.INFEASIBLE
            a = np.clip(np.zeros(n), program.lo, program.hi)
        self.a, self.F = a, program.p.astype(np.float64)
        self.bounded = program.bounded
        self.problem: Any = None
        if self.status is None and limits.is_over():
            self.status = limits.stop

    def descend(self) -> None:
        """Start near the solution where explicit features lead there at once."""

        def seconds_left() -> float:
            left = self.limits.seconds_left
            return np.inf if left is None else left

        # Half of the steps are left for making sums exact, or for whoever is watching.
        most = self.max_iter // 2
        if self.watch:
            most = min(most, _DESCENT_ROUNDS * len(self.a))
        found = descend(self.program, self.a, self.tol, most, seconds_left, self.limits.tick)
        self.status = self.limits.stop
        if found is None:
            return
        near = self.program.feasible(found[0])
        self.monitor.n_iter += found[1]
        if near is not None:
            self.a = near
        gave_up = found[1] + len(self.a) > most and self.status is None
        if gave_up and self.watch and self.watch(self.monitor.n_iter, np.inf, self.a):
            self.status = Status.STOPPED

    def begin(self, column: np.ndarray, diagonal: np.ndarray) -> None:
        """Set up the working sets, for points at these places of a Gram matrix."""
        program = self.program
        n = len(program.p)
        flat = flat_below(float(np.max(diagonal)))
        group = np.zeros(n) if program.groups is None else program.groups
        self.problem = core.solver().Problem(
            self.a,
            self.F,
            _double(program.p),
            _double(program.lo),
            _double(program.hi),
            np.ascontiguousarray(group, dtype=np.int32),
            program.n_groups,
            column,
            None if program.signs is None else _double(program.signs),
            core.working_set_size(n),
            self.tol,
            flat,
        )

    @property
    def steps_left(self) -> int:
        left = self.max_iter - self.monitor.n_iter
        return left if self.bounded else min(left, _STEPS_PER_UNBOUNDED_CHECK)

    def steps_until_report(self, work: float) -> int:
        """Steps between reports, after about so many multiplications."""
        if self.limits.report is None:
            return self.steps_left
        return min(self.steps_left, int(work / len(self.a)) + 1)

    def note(self, state: State, steps: int) -> None:
        """Look at where a round of steps has led, and decide whether to go on."""
        violation = self.problem.violation
        begun = state != State.WAITING or steps > 0  # else the gradient is not there yet
        if state == State.UNBOUNDED or (begun and not self.bounded and self._rescale()):
            self.status = Status.INFEASIBLE
        elif state == State.STUCK:
            self.refreshes += 1
            self.F[:] = self.program.gradient(self.a)
            if self.refreshes >= _MOST_REFRESHES:
                self.status = Status.STALLED
        elif state == State.DONE:
            solution = self._solution()
            if solution.gap > LARGEST_GAP and violation > 0 and not self.rough:
                self.problem.tol = TIGHTER * violation
            else:
                self.solution = solution
        if begun:
            self.monitor.history.append(float(violation))
        if self.status is None and self.solution is None:
            self.check_limits()

    def _solution(self) -> Solution:
        """The point with its certificate, by the core where bounds are finite."""
        if not self.bounded:
            return self.program.solution(self.a, self.F)
        return Solution(self.a, self.F, self.program.net(self.a), *self.problem.measure())

    def check_limits(self) -> None:
        """Whether there is a reason to stop before the end."""
        if self.limits.stop:
            self.status = self.limits.stop
        elif self.monitor.n_iter >= self.max_iter:
            self.status = Status.MAX_ITER
        elif self.watch and self.watch(self.monitor.n_iter, self.problem.violation, self.a):
            self.status = Status.STOPPED

    @property
    def over(self) -> bool:
        return self.solution is not None or self.status is not None

    def certified(self, seconds_per_step: float) -> Result:
        """The answer, with its share of the time that all took together."""
        self.monitor.took = seconds_per_step * (self.monitor.n_iter + 1)
        return certified_result(
            self.program,
            self.monitor,
            self.a,
            self.tol,
            solution=self.solution,
            status=self.status,
            method="smo",
        )

    def _rescale(self) -> bool:
        """With infinite bounds, scale the whole point to the best multiple of itself.

        Coefficients of a hard margin can be large, and pairs alone reach them slowly; where no
        margin exists they grow without end. True if that has been seen.
        """
        program, a = self.program, self.a
        if np.any(program.totals):
            return False
        quadratic, fall = a @ (self.F - program.p), -(program.p @ a)
        if program.unbounded_along(a, self.F):
            return True
        if quadratic <= 0 or fall <= quadratic:
            return False
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.fmin.reduce(np.where(a > 0, program.hi / a, program.lo / a))
        factor = max(1.0, min(fall / quadratic, room))
        a *= factor
        np.clip(a, program.lo, program.hi, out=a)
        self.F[:] = program.gradient(a)
        return False


def _double(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float64)
