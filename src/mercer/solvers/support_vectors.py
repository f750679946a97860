"""The choice between working sets and interior points for support vector machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mercer.solvers.interior_point import interior_point
from mercer.solvers.quadratic_program import QuadraticProgram
from mercer.solvers.result import Result, Status
from mercer.solvers.smo import smo


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
        "auto" gives `smo` as many steps as take about the time of one interior-point solve, and
        turns to that if they were not enough and K fits the budget. Large C and small tol are
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
    allowance = max_iter
    if solver == "auto" and program.fits(budget):
        allowance = 2000 + program.n_points**2 // 50
        allowance = allowance if max_iter is None else min(allowance, max_iter)
    first = smo(
        program,
        tol=tol,
        max_iter=allowance,
        max_time=max_time,
        start=start,
        budget=budget,
        report=report,
    )
    slow = first.status is Status.STALLED or (
        first.status is Status.MAX_ITER and allowance != max_iter
    )
    if solver == "smo" or not slow or not program.fits(budget):
        return first
    return _finish(program, first, tol, max_iter, max_time, report)


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
