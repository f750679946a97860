"""The choice between working sets and interior points for support vector machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.solvers.interior_point import interior_point, low_rank
from mercer.solvers.quadratic_program import QuadraticProgram, restrict
from mercer.solvers.result import Result, Status
from mercer.solvers.smo import smo

# Points on which "auto" looks at the rank of K, to tell what interior points are going to cost.
_SAMPLE = 400


def solve_program(
    program: QuadraticProgram,
    *,
    solver: str = "auto",
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_time: float | None = None,
    start: np.ndarray | None = None,
    budget: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    """Minimise a `QuadraticProgram` by `smo`, by `interior_point`, or by one and then the other.

    Parameters
    ----------
    program : QuadraticProgram
    solver : {"auto", "smo", "interior_point"}
        "auto" starts with `smo`, and where K fits the budget turns to interior points as soon as
        the violation falls so slowly that they will be there first. Large C and small tol are
        what makes pairs slow, and matter little to interior points.
    tol, max_iter, max_time, start, budget, report
        As for `smo`.

    Returns
    -------
    Result
        With the number of steps and seconds of both where both ran; ``method`` says which.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([-1.0, 1.0]), np.array([-1.0, 1.0])
    >>> program = QuadraticProgram(np.outer(x, x), -y, np.minimum(0, 9 * y), np.maximum(0, 9 * y),
    ...                            groups=np.zeros(2, dtype=int), totals=np.zeros(1))
    >>> solve_program(program).method
    'smo'
    """
    if solver == "interior_point":
        if not program.fits(budget):
            raise ValueError(
                f"solver='interior_point' needs a dense Gram matrix of {program.n_points} points, "
                "which is more than the memory budget; use solver='smo', or raise the budget with "
                "sklearn.config_context(working_memory=...)"
            )
        return interior_point(program, tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    if solver not in ("auto", "smo"):
        raise ValueError(
            f"solver={solver!r} is unknown; expected 'auto', 'smo' or 'interior_point'"
        )
    allowance = None
    if solver == "auto" and program.fits(budget):
        allowance = _Allowance(program, tol, max_iter, report)
    first = smo(
        program,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        start=start,
        budget=budget,
        report=allowance or report,
    )
    if allowance is None or not (allowance.spent or first.status is Status.STALLED):
        return first
    return _finish(program, first, tol, max_iter, max_time, report)


class _Allowance:
    """A report that ends `smo` where interior points will be there first.

    The steps left are foretold from how fast the violation fell over the last half of those taken.
    The first look is taken after a few steps a point, before which it need not fall at all.
    """

    def __init__(
        self,
        program: QuadraticProgram,
        tol: float,
        max_iter: int | None,
        report: Callable[[int, float], bool | None] | None,
    ):
        m = program.n_points
        sample = np.unique(np.linspace(0, m - 1, min(m, _SAMPLE)).astype(int))
        few_features = low_rank(_block(program.K, sample)) is not None
        self.steps = 2000 + (m if few_features else m**2 // 50)
        self.first_look = 1000 + 2 * m
        self.tol = tol
        self.max_iter = max_iter
        self.report = report
        self.lowest = [np.inf]
        self.spent = False

    def __call__(self, n_iter: int, violation: float) -> bool:
        self.lowest.append(min(violation, self.lowest[-1]))
        if self.report and self.report(n_iter, violation):
            return True
        last = self.max_iter is not None and n_iter >= self.max_iter
        self.spent = not last and n_iter >= self.first_look and self._left(n_iter) > self.steps
        return self.spent

    def _left(self, n_iter: int) -> float:
        """Steps until the violation is small enough, if it falls as it did lately."""
        now, before = self.lowest[-1], self.lowest[len(self.lowest) // 2]
        if now == 0:
            return 0.0
        # Within tol already, it is a large gap that keeps `smo` going.
        goal = self.tol if now > self.tol else 0.1 * now
        return 0.5 * n_iter * np.log(now / goal) / max(np.log(before / now), 1e-9)


def combined(results: list[Result]) -> Result:
    """One `Result` for several programmes: all solutions, the worst status and the largest gap."""
    if len(results) == 1:
        return results[0]
    worst = min(results, key=lambda result: (result.status.ok, -result.gap))
    return Result(
        value=tuple(result.value for result in results),
        status=worst.status,
        gap=max(result.gap for result in results),
        n_iter=sum(result.n_iter for result in results),
        seconds=sum(result.seconds for result in results),
        history=worst.history,
        method=f"{len(results)} pairs of classes, the worst by {worst.method}",
        advice=worst.advice,
    )


def _finish(
    program: QuadraticProgram,
    first: Result,
    tol: float,
    max_iter: int | None,
    max_time: float | None,
    report: Callable[[int, float], bool | None] | None,
) -> Result:
    """Go on by interior point where `smo` left off, and give the better of the two answers."""
    second = interior_point(
        program,
        tol=tol,
        max_iter=None if max_iter is None else max(1, min(100, max_iter - first.n_iter)),
        max_time=None if max_time is None else max(0.0, max_time - first.seconds),
        report=report,
    )
    decided = second.status.ok or second.status is Status.INFEASIBLE
    better = second if decided or second.gap <= first.gap else first
    second = replace(second, value=better.value, gap=better.gap)
    method = f"smo ({first.n_iter} steps), then interior point ({second.n_iter})"
    return replace(followed(first, second), method=method)


def followed(first: Result, second: Result) -> Result:
    """The second result, with the steps, seconds and history of both."""
    return replace(
        second,
        n_iter=first.n_iter + second.n_iter,
        seconds=first.seconds + second.seconds,
        history=first.history + second.history,
    )


def _block(K: Any, index: np.ndarray) -> np.ndarray:
    small = restrict(K, index)
    return np.asarray(small if isinstance(small, np.ndarray) else small.dense(), dtype=np.float64)
