"""The choice between working sets, active sets and interior points for support vector machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer.solvers.qp.active_sets import active_sets
from mercer.solvers.qp.interior_point import interior_point
from mercer.solvers.qp.quadratic_program import (
    LARGEST_GAP,
    QuadraticProgram,
    Solution,
    certified_result,
)
from mercer.solvers.qp.smo import smo_together
from mercer.solvers.qp.smo_tensors import is_on_device, smo_tensors
from mercer.solvers.qp.switching import SwitchRule
from mercer.solvers.result import Budget, Monitor, Result, Status

# Variables up to which the interior-point method takes all together; and the rounds in which it
# chooses them anew.
_INTERIOR_UP_TO_VARIABLES = 500
_INTERIOR_ROUNDS = 10
# Ratio of all variables to the free ones from which it is worth choosing.
_VARIABLES_PER_FREE_ONE = 4
# Rounds or steps of each method that continues where `smo` stopped.
_MOST_ROUNDS_PER_STAGE = 200

_Stage = Callable[..., Result]


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
    """Minimise a `QuadraticProgram` by `smo`, by `interior_point`, or by one and then others.

    Parameters
    ----------
    program : QuadraticProgram
    solver : {"auto", "smo", "interior_point"}
        "auto" starts with `smo`, and where K fits the budget turns to `active_sets`, and where
        those fail to interior points, as soon as the violation falls so slowly that they will be
        there first. Large C and small tol are what makes pairs slow, and matter little to either.
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
    return solve_programs(
        [program],
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        starts=[start],
        budget=budget,
        report=report,
    )[0]


def solve_programs(
    programs: Sequence[QuadraticProgram],
    *,
    solver: str = "auto",
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_time: float | None = None,
    starts: Sequence[np.ndarray | None] | None = None,
    budget: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> list[Result]:
    """Minimise problems on parts of one Gram matrix, whose rows they share.

    Parameters
    ----------
    programs : sequence of QuadraticProgram
    solver, tol, max_iter, max_time, budget, report
        As for `solve_program`; ``max_iter`` is for each, ``max_time`` for all.
    starts : sequence, optional
        Where each starts.
    """
    if not programs:
        return []
    if is_on_device(programs[0]):
        if solver == "interior_point":
            raise ValueError(
                "solver='interior_point' is not available for tensors on a device; use "
                "solver='smo', or pass X.cpu()"
            )
        return smo_tensors(
            programs,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            starts=starts or [None] * len(programs),
            report=report,
        )
    if solver not in ("auto", "smo", "interior_point"):
        raise ValueError(
            f"solver={solver!r} is unknown; expected 'auto', 'smo' or 'interior_point'"
        )
    limits = Budget(max_iter, max_time, report)
    if solver == "interior_point":
        return _interior(programs, tol, limits, budget)
    rules: list[SwitchRule | None] = [None] * len(programs)
    if solver == "auto":
        rules = [
            SwitchRule(program, tol, max_iter) if program.fits(budget) else None
            for program in programs
        ]
    found = smo_together(
        programs,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        starts=starts,
        budget=budget,
        report=limits.stage_report(),
        watches=rules,
    )
    # Without max_iter, MAX_ITER means that `smo` gave up at its own limit.
    given_up = (Status.STALLED,) if max_iter is not None else (Status.STALLED, Status.MAX_ITER)
    for i, (program, rule) in enumerate(zip(programs, rules, strict=True)):
        if (
            rule
            and (rule.switches or found[i].status in given_up)
            and limits.stop is not Status.STOPPED
        ):
            limits.before = sum(result.n_iter for result in found)
            found[i] = _finish(program, found[i], rule, tol, limits)
    return found


def _interior(
    programs: Sequence[QuadraticProgram], tol: float, limits: Budget, budget: float | None
) -> list[Result]:
    found: list[Result] = []
    for program in programs:
        if not program.fits(budget):
            raise ValueError(
                f"solver='interior_point' needs a dense Gram matrix of {program.n_points} points, "
                "which is more than the memory budget; use solver='smo', or raise the budget with "
                "sklearn.config_context(working_memory=...)"
            )
        found.append(_interior_one(program, tol, limits))
        limits.before += found[-1].n_iter
    return found


def _interior_one(program: QuadraticProgram, tol: float, limits: Budget) -> Result:
    """Interior points, unless there is no time for them: else where they would start."""
    seconds, start = limits.seconds_left, program.feasible()
    if start is not None and (limits.stop is Status.STOPPED or seconds == 0.0):
        status = Status.STOPPED if limits.stop is Status.STOPPED else Status.MAX_TIME
        method = "interior point"
        return certified_result(program, Monitor(tol=0.0), start, tol, status=status, method=method)
    return interior_point(
        program,
        tol=tol,
        max_iter=limits.max_iter,
        max_time=seconds,
        report=limits.stage_report(),
    )


def joint_result(results: list[Result]) -> Result:
    """One `Result` for several problems: all solutions, the worst status and the largest gap."""
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
    program: QuadraticProgram, first: Result, rule: SwitchRule, tol: float, limits: Budget
) -> Result:
    """Go on where `smo` left off, and give the best of the answers.

    By active sets, which are there soonest or not at all; else by interior points, first on the
    variables that are not clearly at a bound, and on all if that does not do.
    """
    found = replace(first, method=f"smo ({first.n_iter} steps)")
    if rule.tries_active_sets:
        found = _go_on(program, found, rule, tol, limits)
        if not rule.switches:
            return found
    stages: list[_Stage] = [partial(interior_point, program)]
    if program.bounded and _few_are_free(program, first.value):
        stages.insert(0, partial(_undecided, program, first.value))
    if program.bounded and not rule.few_features:
        stages.insert(0, partial(active_sets, program, first.value.a))
    before = limits.before
    for stage in stages:
        steps, seconds = limits.steps_left(found.n_iter), limits.seconds_left
        if steps == 0 or seconds == 0.0:
            return replace(found, status=Status.MAX_ITER if steps == 0 else Status.MAX_TIME)
        most = _MOST_ROUNDS_PER_STAGE if steps is None else min(_MOST_ROUNDS_PER_STAGE, steps)
        limits.before = before + found.n_iter - first.n_iter
        last = stage(tol=tol, max_iter=most, max_time=seconds, report=limits.stage_report())
        found = _more_accurate(found, last)
        if found.status not in (Status.STALLED, Status.MAX_ITER):
            return found
    # Out of the rounds that a stage may take, with some left of those that were asked for.
    return found if limits.steps_left(found.n_iter) == 0 else replace(found, status=Status.STALLED)


def _go_on(
    program: QuadraticProgram, found: Result, rule: SwitchRule, tol: float, limits: Budget
) -> Result:
    """Active sets from there, and if they fail `smo` again, until other methods are due."""
    before, point = limits.before, found.value.a
    while rule.tries_active_sets:
        for again in (False, True):
            steps, seconds = limits.steps_left(found.n_iter), limits.seconds_left
            if steps == 0 or seconds == 0.0:
                return replace(found, status=Status.MAX_ITER if steps == 0 else Status.MAX_TIME)
            limits.before = before + found.n_iter
            rule.go_on()
            stage: _Stage = partial(_smo_again, rule=rule) if again else active_sets
            last = stage(
                program,
                point,
                tol=tol,
                max_iter=steps,
                max_time=seconds,
                report=limits.stage_report(),
            )
            found = _more_accurate(found, last)
            point = last.value.a if again else point
            going = found.status in (Status.STALLED, Status.MAX_ITER, Status.STOPPED)
            if limits.stop is Status.STOPPED or not going:
                return found
    return found


def _smo_again(
    program: QuadraticProgram, start: np.ndarray, *, rule: SwitchRule, **limits: Any
) -> Result:
    return smo_together([program], starts=[start], watches=[rule], **limits)[0]


def _more_accurate(first: Result, second: Result) -> Result:
    """The second result with what both took, and with the first's answer if that is better."""
    decided = second.status.ok or second.status is Status.INFEASIBLE
    # Gaps are relative to the objective: an answer that is far worse may have the smaller one.
    closer = second.gap <= first.gap and second.value.objective <= first.value.objective
    better = second if decided or closer else first
    method = f"{first.method}, then {second.method} ({second.n_iter})"
    return replace(second.after(first), value=better.value, gap=better.gap, method=method)


def _few_are_free(program: QuadraticProgram, found: Solution) -> bool:
    """Whether interior points on the free variables and some more are much less work."""
    free = np.count_nonzero((found.a > program.lo) & (found.a < program.hi))
    return bool(
        found.gap < np.inf
        and max(_INTERIOR_UP_TO_VARIABLES, _VARIABLES_PER_FREE_ONE * free) < len(found.a)
    )


def _undecided(
    program: QuadraticProgram,
    found: Solution,
    *,
    tol: float,
    max_iter: int,
    max_time: float | None,
    report: Callable[[int, float], bool | None] | None,
) -> Result:
    """Interior points on the variables that may leave their bound, round by round.

    Free variables come first, then those whose reduced gradient holds them to their bound least;
    the others stay where they are. What violates the conditions after that joins the next round.
    """
    monitor = Monitor(tol=tol)
    a, F = found.a.copy(), found.gradient.copy()
    status = None
    for _ in range(_INTERIOR_ROUNDS):
        r = program.reduced_gradient(F, program.multipliers(a, F))
        free = (a > program.lo) & (a < program.hi)
        held = np.where(free, -np.inf, np.where(a <= program.lo, r, -r))
        size = min(len(a), max(_INTERIOR_UP_TO_VARIABLES, int(1.5 * np.count_nonzero(free))))
        points = np.unique(np.argpartition(held, size - 1)[:size] % program.n_points)
        part = program.part(points, a, F)
        left = None if max_time is None else max(0.0, max_time - monitor.seconds)
        steps = max_iter - monitor.n_iter
        if steps <= 0:
            status = Status.MAX_ITER
            break
        from_here = None if report is None else partial(_later, report, monitor.n_iter)
        inner = interior_point(part, tol=0.1 * tol, max_iter=steps, max_time=left, report=from_here)
        monitor.n_iter += inner.n_iter
        monitor.history += inner.history
        before, a = a, program.moved(points, a, inner.value.a)
        F = F + program.gradient(a - before) - program.p
        solution = program.solution(a, F)
        if solution.violation <= tol and solution.gap <= LARGEST_GAP:
            break
        if inner.status in (Status.MAX_TIME, Status.STOPPED):
            status = inner.status
            break
    return certified_result(program, monitor, a, tol, status=status, method="interior point")


def _later(report: Callable, before: int, n_iter: int, gap: float) -> bool | None:
    return report(before + n_iter, gap)
