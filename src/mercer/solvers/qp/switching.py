"""When working sets are left for another method: forecasts of the steps that each will take."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.cached import cached_property
from mercer.core import LARGEST_WORKING_SET, working_set_size
from mercer.solvers.measured import (
    NS_PER_CUBE,
    NS_PER_ENTRY,
    NS_PER_FREE_ENTRY,
    NS_PER_ROUND,
    NS_PER_STEP,
    STEPS_PER_CUBE,
    STEPS_PER_SQUARE,
)
from mercer.solvers.qp.interior_point import low_rank
from mercer.solvers.qp.quadratic_program import QuadraticProgram

# Points from which "auto" estimates the rank of K, and so the cost of the interior-point method.
_POINTS_FOR_RANK = 400
# Steps before the rank is estimated, and the fraction of the interior-point method's cost that is
# spent at the first forecast.
_STEPS_BEFORE_RANK = 20_000
_COST_FRACTION_AT_FIRST_FORECAST = 1 / 32
# Rounds of active sets near the solution, all but one of which need no factorisation, and more
# factorisations per fraction of the first violation.
_ROUNDS_NEAR_SOLUTION, _ROUNDS_PER_VIOLATION = 4, 60
# Steps before active sets are tried, unless all variables are in one working set, where steps take
# a tenth of the time; the fraction of their cost that is spent by then, and that of
# the steps forecast: forecasts are low, since a large gap makes the search go on.
_STEPS_BEFORE_ACTIVE_SETS = 4000
# Once they have failed they are tried again after so many times more steps.
_STEPS_BEFORE_NEXT_TRY = 3
_COST_FRACTION_SPENT, _COST_FRACTION_FORECAST = 0.4, 0.6


class SwitchRule:
    """Callback that stops `smo` where the interior-point method is predicted to finish sooner.

    The remaining steps are forecast from how fast the violation fell over the last half of those
    taken. Early on that says little, so a hopeless forecast is asked for then; once as much has
    been spent as interior points would cost, any that is worse than they are will do.

    Active sets cost far less while few variables are free, or where few bounds are still to be
    guessed. They are tried when nearly half has been spent of what they will cost, and where
    they fail, again after three times as many steps.

    Attributes
    ----------
    switches : bool
        Whether `smo` was stopped.
    tries_active_sets : bool
        Whether it was stopped for active sets, which may fail; `smo` then goes on.
    """

    def __init__(self, program: QuadraticProgram, tol: float, max_iter: int | None):
        self.program = program
        self.tol = tol
        self.max_iter = max_iter
        self.first = np.inf  # violation at the start
        self.lowest = [(0, np.inf)]  # steps, and the smallest violation so far
        self.switches = False
        self.tries_active_sets = False
        n = len(program.p)
        self._next_try: float = np.inf
        if program.bounded:
            several = working_set_size(n) < n
            self._next_try = _STEPS_BEFORE_ACTIVE_SETS if several else _STEPS_BEFORE_RANK

    def __call__(self, n_iter: int, violation: float, a: np.ndarray) -> bool:
        if self.first == np.inf:
            self.first = violation
        self.lowest.append((n_iter, min(violation, self.lowest[-1][1])))
        last = self.max_iter is not None and n_iter >= self.max_iter
        if self.switches or last:
            return self.switches
        if self._active_sets_pay(n_iter, a):
            self.switches = self.tries_active_sets = True
            self._next_try = _STEPS_BEFORE_NEXT_TRY * n_iter
            return True
        if n_iter < _STEPS_BEFORE_RANK:  # before which the rank is not worth computing
            return False
        if n_iter < _COST_FRACTION_AT_FIRST_FORECAST * self._cost_of_switching():
            return False
        cost = self._cost_of_switching()
        self.switches = self._left(n_iter) > cost * max(1.0, cost / n_iter) ** 0.5
        return self.switches

    def go_on(self) -> None:
        """Active sets have failed: `smo` may take its steps, which are counted from zero."""
        self.switches = self.tries_active_sets = False
        self.lowest = [(0, np.inf)]

    def _active_sets_pay(self, n_iter: int, a: np.ndarray) -> bool:
        if n_iter < self._next_try:
            return False
        cost = self._cost_of_active_sets(a)
        spent = n_iter > _COST_FRACTION_SPENT * cost
        worth = spent and self._left(n_iter) > _COST_FRACTION_FORECAST * cost
        return worth and not self.few_features

    def _cost_of_active_sets(self, a: np.ndarray) -> float:
        """How many steps they will cost as much as."""
        m, n = self.program.n_points, len(a)
        free = np.count_nonzero((a > self.program.lo) & (a < self.program.hi))
        size = min(working_set_size(n) + 1.5 * free, LARGEST_WORKING_SET, n)
        share = min(self.lowest[-1][1] / self.first, 1.0) if self.first < np.inf else 1.0
        more = _ROUNDS_PER_VIOLATION * share
        round_ = NS_PER_ROUND + NS_PER_ENTRY * m**2 + NS_PER_FREE_ENTRY * free**2
        total = (_ROUNDS_NEAR_SOLUTION + more) * round_ + (1 + more) * NS_PER_CUBE * free**3
        return total / (NS_PER_STEP * size)

    @cached_property
    def few_features(self) -> bool:
        """Whether K has a small rank, as some of the points show."""
        m = self.program.n_points
        sample = np.unique(np.linspace(0, m - 1, min(m, _POINTS_FOR_RANK)).astype(int))
        return low_rank(_block(self.program.K, sample)) is not None

    def _cost_of_switching(self) -> float:
        """How many steps interior points will cost as much as."""
        m = self.program.n_points
        dense = min(STEPS_PER_SQUARE * m**2, STEPS_PER_CUBE * m**3)
        return 20_000 + (20 * m if self.few_features else dense)

    def _left(self, n_iter: int) -> float:
        """Steps until the violation is small enough, if it falls as it did lately."""
        now = self.lowest[-1][1]
        if now == np.inf:  # a method that was there first has given up
            return np.inf
        steps, before = [seen for seen in self.lowest if 2 * seen[0] <= n_iter][-1]
        if now == 0 or steps == 0:
            return 0.0
        # Within tol already, it is a large gap that keeps `smo` going.
        goal = self.tol if now > self.tol else 0.1 * now
        return (n_iter - steps) * np.log(now / goal) / max(np.log(before / now), 1e-9)


def _block(K: Any, index: np.ndarray) -> np.ndarray:
    small = K[np.ix_(index, index)] if isinstance(K, np.ndarray) else K.block(index, index)
    return np.asarray(small, dtype=np.float64)
