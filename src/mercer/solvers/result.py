"""What a solver returns: an answer, how far it is from the optimum, and what to do about it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from html import escape
from typing import Any


class Status(Enum):
    """How a solver ended; ``advice`` says in plain words what to do about it."""

    CONVERGED = "the tolerance was reached"
    EXACT = "solved directly, up to rounding"
    COMPLETED = "all the steps asked for were taken"
    MAX_ITER = "max_iter was reached first: raise it, loosen tol, or standardise the features"
    MAX_TIME = "max_time was reached first: raise it, loosen tol, or standardise the features"
    STOPPED = "stopped by a callback: the model is usable as it is"
    STALLED = (
        "rounding stops further progress: standardise the features, "
        "or choose a smaller C or a larger alpha"
    )
    DIVERGED = "the iterates grew without bound: choose a smaller step_size"
    INFEASIBLE = "no point satisfies the constraints: use a finite C, or a richer kernel"

    @property
    def ok(self) -> bool:
        """Whether the solver did what was asked of it."""
        return self in (Status.CONVERGED, Status.EXACT, Status.COMPLETED)

    @property
    def advice(self) -> str:
        return self.value


@dataclass(frozen=True)
class Result:
    """What a solver found and how far that is from the optimum.

    Attributes
    ----------
    value : Any
        The solution, in the solver's own form.
    status : Status
        How the solver ended.
    gap : float
        Certificate measured in float64 at the end: a duality gap, a relative residual or an
        optimality violation, as the solver's docstring says. Zero is perfect.
    n_iter : int
        Iterations used.
    seconds : float
        Wall-clock time.
    history : tuple of float
        The gap as it went, one entry per recorded iteration.
    method : str
        Which solver ran and why it was chosen.
    advice : str
        What to do about it, where more is known than the status says.
    bound : float or None
        A proven bound on the distance from the exact solution in the kernel's space, the largest
        over targets; None where none was computed.
    """

    value: Any = field(repr=False)
    status: Status
    gap: float
    n_iter: int
    seconds: float
    history: tuple[float, ...] = field(default=(), repr=False)
    method: str = ""
    advice: str = ""
    bound: float | None = None

    @property
    def message(self) -> str:
        """One sentence for people: status, figures and advice."""
        return (
            f"{self.method or 'solver'}: {self.status.name.lower()} with gap {self.gap:.1e} "
            f"after {self.n_iter} iterations, {self.seconds:.2g} s; "
            f"{self.advice or self.status.advice}"
        )

    def _repr_html_(self) -> str:
        """Status, gap and advice as a table, in notebooks."""
        rows = {
            "solver": self.method or "",
            "status": self.status.name.lower(),
            "gap": f"{self.gap:.1e}",
            "iterations": f"{self.n_iter:,}",
            "seconds": f"{self.seconds:.2g}",
            "advice": self.advice or self.status.advice,
        }
        if self.bound is not None:
            rows["bound"] = f"{self.bound:.1e}"
        cells = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table>{cells}</table>"

    def advised(self, advice: str) -> Result:
        """The same with this advice, if there is anything to be done about it."""
        return self if self.status.ok else replace(self, advice=advice)

    def after(self, first: Result) -> Result:
        """This result, with the steps, seconds and history of the one that it started from too."""
        return replace(
            self,
            n_iter=first.n_iter + self.n_iter,
            seconds=first.seconds + self.seconds,
            history=first.history + self.history,
        )


class Budget:
    """The steps and seconds that all stages of a fit may take together, and their report.

    Parameters
    ----------
    max_iter : int or None
    max_time : float or None
        Seconds, from when the budget is made.
    report : callable or None
        ``report(n_iter, gap)`` is called as the fit goes on; a true return value ends it.

    Attributes
    ----------
    before : int
        Steps of the stages that are over, which are added to those of the one that runs.
    stop : Status or None
        Why all stages are to end.
    """

    def __init__(
        self,
        max_iter: int | None = None,
        max_time: float | None = None,
        report: Callable[[int, float], bool | None] | None = None,
    ):
        self.max_iter, self.max_time = max_iter, max_time
        self.report = report
        self.before = 0
        self.stop: Status | None = None
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How many have been taken."""
        return time.perf_counter() - self._start

    @property
    def seconds_left(self) -> float | None:
        """None for any number."""
        return None if self.max_time is None else max(0.0, self.max_time - self.seconds)

    @property
    def time_left(self) -> float:
        """Seconds; infinite for any number."""
        return math.inf if self.max_time is None else max(0.0, self.max_time - self.seconds)

    def end(self) -> None:
        """Leave no more time."""
        self.max_time = self.seconds

    def steps_left(self, taken: int) -> int | None:
        """Steps left to a solver that has taken so many; None for any number."""
        return None if self.max_iter is None else max(0, self.max_iter - taken)

    @property
    def is_late(self) -> bool:
        return self.max_time is not None and self.seconds >= self.max_time

    def tick(self, n_iter: int, gap: float) -> bool:
        """Report the steps of the running stage and its gap; whether all stages are to end."""
        self._hear(n_iter, gap)
        return self.is_over()

    def is_over(self) -> bool:
        """Whether there is a reason to end, the time among them."""
        if self.stop is None and self.is_late:
            self.stop = Status.MAX_TIME
        return self.stop is not None

    def stage_report(self) -> Callable[[int, float], bool] | None:
        """What a stage that keeps its own time reports to; once it ends one, it ends all."""
        return None if self.report is None else self._hear

    def _hear(self, n_iter: int, gap: float) -> bool:
        if self.report and self.report(self.before + n_iter, gap):
            self.stop = Status.STOPPED
        return self.stop is Status.STOPPED


class Monitor:
    """Counts iterations, watches the clock and the gap, and closes with a `Result`.

    Parameters
    ----------
    tol : float
        Stop when the recorded gap is at most this.
    max_iter : int or None
        Stop after this many recorded iterations.
    max_time : float or None
        Stop after this many seconds.
    report : callable or None
        ``report(n_iter, gap)`` is called at every record; a true return value stops the solver.
    """

    def __init__(
        self,
        *,
        tol: float,
        max_iter: int | None = None,
        max_time: float | None = None,
        report: Callable[[int, float], bool | None] | None = None,
    ):
        self.tol = tol
        self.max_iter = max_iter
        self.budget = Budget(None, max_time, report)
        self.n_iter = 0
        self.history: list[float] = []
        self.status: Status | None = None
        self.took: float | None = None  # where others ran at the same time

    @property
    def seconds(self) -> float:
        return self.budget.seconds if self.took is None else self.took

    def record(self, gap: float, steps: int = 1) -> bool:
        """Note the gap after ``steps`` more iterations; True when it is time to stop."""
        self.n_iter += steps
        self.history.append(float(gap))
        self.budget.tick(self.n_iter, float(gap))
        if gap <= self.tol:
            self.status = Status.CONVERGED
        elif self.budget.stop is Status.STOPPED:
            self.status = Status.STOPPED
        elif self.max_iter is not None and self.n_iter >= self.max_iter:
            self.status = Status.MAX_ITER
        elif self.budget.stop is not None:
            self.status = Status.MAX_TIME
        return self.status is not None

    def result(
        self, value: Any, gap: float, *, status: Status | None = None, method: str = ""
    ) -> Result:
        """Close with the solution and its final, freshly measured gap."""
        final = status or self.status or Status.MAX_ITER
        return Result(
            value=value,
            status=final,
            gap=float(gap),
            n_iter=self.n_iter,
            seconds=self.seconds,
            history=tuple(self.history),
            method=method,
        )
