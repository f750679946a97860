"""Maximise the evidence over hyperparameters by L-BFGS-B, from one or several starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from mercer.arrays.threads import one_blas_thread
from mercer.solvers.result import Result, Status

MAX_ITER = 200
# An optimum is at a bound if theta is as close to it as scikit-learn calls close.
NEAR_BOUND = 1e-5

# A gradient below this, relative to the evidence, is as small as a line search can make it.
ROUNDING = 1e-5


@dataclass(frozen=True)
class LogNormal:
    """A prior on a hyperparameter whose logarithm has the distribution N(log median, spread²).

    Examples
    --------
    >>> LogNormal(2.0, 1.0).log_density(np.log(2.0))
    (-0.9189385332046727, -0.0)
    """

    median: float
    spread: float

    def log_density(self, theta: float) -> tuple[float, float]:
        """Of the logarithm theta, with its derivative."""
        z = (float(theta) - np.log(self.median)) / self.spread
        value = -0.5 * z * z - np.log(self.spread) - 0.5 * np.log(2 * np.pi)
        return float(value), float(-z / self.spread)


@dataclass
class Target:
    """What is maximised: the evidence plus the log density of the priors.

    Attributes
    ----------
    evidence : callable
        ``evidence(theta, gradient=True)`` returns an object with ``value`` and ``gradient``.
    priors : sequence of LogNormal or None, one for each entry of theta
    deadline : float or None
        Of `time.perf_counter`.
    """

    evidence: Callable[..., Any]
    priors: Sequence[LogNormal | None] = ()
    deadline: float | None = None
    n_evaluations: int = 0
    best: tuple[float, np.ndarray | None] = (-np.inf, None)
    slope: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __call__(self, theta: np.ndarray, eval_gradient: bool = True) -> Any:
        """Minus the target, and its gradient; infinite where there is no evidence."""
        theta = np.asarray(theta, dtype=float)
        self.n_evaluations += 1
        value, slope = -np.inf, np.zeros(len(theta))
        if np.isfinite(theta).all():
            found = self.evidence(theta, gradient=eval_gradient)
            value = found.value
            if eval_gradient and np.isfinite(value):
                slope = np.array(found.gradient, dtype=float)
        for j, prior in enumerate(self.priors):
            if prior is not None and np.isfinite(value):
                log_density, change = prior.log_density(theta[j])
                value, slope[j] = value + log_density, slope[j] + change
        if not np.isfinite(value) or not np.isfinite(slope).all():
            value, slope = -np.inf, np.zeros(len(theta))
        if value > self.best[0]:
            self.best, self.slope = (float(value), theta.copy()), slope
        return (-float(value), -slope) if eval_gradient else -float(value)

    def stop_in_time(self, intermediate_result: OptimizeResult) -> None:
        """A callback of SciPy's that ends a run at the deadline."""
        if self.deadline is not None and time.perf_counter() > self.deadline:
            raise StopIteration


def maximise(
    evidence: Callable[..., Any],
    starts: Sequence[np.ndarray],
    bounds: np.ndarray,
    *,
    priors: Sequence[LogNormal | None] = (),
    optimizer: Any = "fmin_l_bfgs_b",
    max_iter: int | None = None,
    max_time: float | None = None,
    workers: int = 1,
) -> Result:
    """The best theta of all runs, one from each start.

    Parameters
    ----------
    evidence : callable
        ``evidence(theta, gradient=True)`` returns an object with ``value`` and ``gradient``.
    starts : list of (p,) arrays
    bounds : (p, 2) array
    priors : LogNormal or None for each entry of theta
    optimizer : "fmin_l_bfgs_b" or callable
        A callable is called as scikit-learn does.
    max_iter : int or None
        Of one run; None is 200.
    max_time : float or None
        Seconds of all runs together.
    workers : int
        Runs at a time, each in a thread with BLAS in one, if there are several starts.

    Returns
    -------
    Result
        ``value`` is theta; ``gap`` the largest entry of the projected gradient; ``history`` the
        evidence at the end of each run; ``method`` reports why the best run stopped.
    """
    begin = time.perf_counter()
    deadline = None if max_time is None else begin + max_time

    def run(start: np.ndarray) -> _Run | None:
        if start is not starts[0] and deadline is not None and time.perf_counter() > deadline:
            return None
        target = Target(evidence, priors, deadline)
        return _Run(target, *_run(target, start, bounds, optimizer, max_iter or MAX_ITER))

    if workers > 1 and len(starts) > 1 and isinstance(optimizer, str):
        with one_blas_thread(), ThreadPoolExecutor(min(workers, len(starts))) as pool:
            found = list(pool.map(run, starts))
    else:
        found = list(map(run, starts))
    runs = [each for each in found if each is not None]
    best = max(runs, key=lambda each: each.target.best[0])
    theta = starts[0] if best.target.best[1] is None else best.target.best[1]
    gap = _projected(theta, best.target.slope, bounds)
    name = "L-BFGS-B" if isinstance(optimizer, str) else getattr(optimizer, "__name__", "optimizer")
    steps = sum(each.n_iter for each in runs)
    counts = f"{steps} steps, {sum(each.target.n_evaluations for each in runs)} evaluations"
    several = f", best of {len(runs)} runs" if len(runs) > 1 else ""
    return Result(
        theta,
        best.status,
        gap,
        steps,
        time.perf_counter() - begin,
        tuple(each.target.best[0] for each in runs),
        f"{name}{several}: {best.reason} ({counts})",
        ADVICE.get(best.status, ""),
    )


class _Run(NamedTuple):
    """One run: its target with the best it found, why it stopped, and its number of steps."""

    target: Target
    reason: str
    status: Status
    n_iter: int


ADVICE = {
    Status.MAX_ITER: "raise max_iter, or set narrower bounds on the hyperparameters",
    Status.MAX_TIME: "raise max_time, or use fewer hyperparameters",
    Status.STALLED: "standardise the features and targets, or set narrower bounds",
}


def _run(
    target: Target, start: np.ndarray, bounds: np.ndarray, optimizer: Any, max_iter: int
) -> tuple[str, Status, int]:
    """One run: why it stopped, as words and status, and its number of steps."""
    if callable(optimizer):
        found: Any = optimizer(target, np.array(start), bounds=bounds)
        target(np.atleast_1d(found[0]))
        return "returned", Status.COMPLETED, target.n_evaluations
    found = minimize(
        target,
        np.clip(start, bounds[:, 0], bounds[:, 1]),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=target.stop_in_time,
        options={"maxiter": max_iter},
    )
    if found.success:
        small = "gradient" if "GRADIENT" in str(found.message).upper() else "change of the evidence"
        return f"the {small} is below tolerance", Status.CONVERGED, found.nit
    if found.status == 1:
        return "max_iter was reached", Status.MAX_ITER, found.nit
    if target.deadline is not None and time.perf_counter() > target.deadline:
        return "max_time was reached", Status.MAX_TIME, found.nit
    if _is_rounding(target, bounds):
        return "rounding hides any further change", Status.CONVERGED, found.nit
    return "the line search found no better point", Status.STALLED, found.nit


def _is_rounding(target: Target, bounds: np.ndarray) -> bool:
    """Whether the gradient at the best theta is too small for a line search to go on."""
    value, theta = target.best
    if theta is None:
        return False
    return _projected(theta, target.slope, bounds) <= ROUNDING * max(1.0, abs(value))


def _projected(theta: np.ndarray, slope: np.ndarray, bounds: np.ndarray) -> float:
    """The largest entry of the gradient that does not lead out of the bounds."""
    if not len(slope):
        return 0.0
    with np.errstate(invalid="ignore"):
        step = np.clip(theta + slope, bounds[:, 0], bounds[:, 1]) - theta
    return float(np.max(np.abs(np.nan_to_num(step, nan=0.0))))


def at_bounds(theta: np.ndarray, bounds: np.ndarray) -> list[tuple[int, str]]:
    """The entries of theta at a bound, with "lower" or "upper"."""
    found = []
    for j, (low, high) in enumerate(bounds):
        if np.isclose(theta[j], low, rtol=NEAR_BOUND):
            found.append((j, "lower"))
        elif np.isclose(theta[j], high, rtol=NEAR_BOUND):
            found.append((j, "upper"))
    return found
