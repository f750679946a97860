"""Hyperparameters and inducing points that raise the lower bound on the evidence together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.maximisation import LogNormal, maximise
from mercer.solvers.evidence.some_rows import of_some_rows
from mercer.solvers.result import Result, Status

# Steps with inducing points that stay, before others are chosen.
STEPS = 15


def search(
    problem: Any,
    n_inducing: int,
    *,
    sums: Any = None,
    exact: Any = ExactEngine,
    starts: Sequence[np.ndarray] = (),
    priors: Sequence[LogNormal | None] = (),
    max_iter: int = 50,
    max_time: float | None = None,
    random_state: int = 0,
) -> tuple[InducingEngine, Result]:
    """The engine with the inducing points found, and theta.

    It begins at the highest maximum of the exact evidence of some rows. Where the bound has a
    gradient by the inducing points they move; otherwise they are chosen anew every few steps.

    Parameters
    ----------
    problem : EvidenceProblem or LabelProblem
    n_inducing : int
    sums : callable, optional
        Of `InducingEngine`.
    exact : class of the engine for some rows
    starts : list of (p,) arrays, where searches on some rows begin; none for the problem's theta
    priors : LogNormal or None for each entry of theta
    max_iter : int
        Steps with all rows.
    max_time : float, optional
        Seconds.
    random_state : int

    Returns
    -------
    engine : InducingEngine
    result : Result
        ``value`` is theta.
    """
    start = time.perf_counter()

    def seconds_left() -> float | None:
        return None if max_time is None else max(0.0, max_time - (time.perf_counter() - start))

    options: dict[str, Any] = {"priors": priors, "max_time": max_time, "engine": exact}
    at = of_some_rows(problem, starts, random_state=random_state, **options)
    engine = InducingEngine(at, n_inducing, sums=sums, random_state=random_state)
    theta = at.covariance.theta
    if engine.moves:
        engine, result = engine.improved(
            theta, priors=priors, max_iter=max_iter, max_time=seconds_left()
        )
    else:
        engine, result = _in_turns(engine, theta, priors, max_iter, seconds_left)
    if result.status is Status.MAX_ITER:
        result = replace(result, status=Status.COMPLETED)
    return engine, replace(result, seconds=time.perf_counter() - start)


def _in_turns(
    engine: InducingEngine,
    theta: np.ndarray,
    priors: Sequence[LogNormal | None],
    max_iter: int,
    seconds_left: Callable[[], float | None],
) -> tuple[InducingEngine, Result]:
    """A few steps for theta, other inducing points, and so on while the bound rises."""
    bounds = engine.problem.covariance.bounds
    best, steps = (-np.inf, engine, Result(theta, Status.COMPLETED, np.inf, 0, 0.0)), 0
    while steps < max_iter:
        most = min(STEPS, max_iter - steps)
        result = maximise(
            engine.evidence,
            [theta],
            bounds,
            priors=priors,
            max_iter=most,
            max_time=seconds_left(),
        )
        theta, steps = result.value, steps + max(result.n_iter, 1)
        value = engine.evidence(theta, gradient=False).value
        if not value > best[0]:
            break
        best = (value, engine, result)
        if result.status is Status.MAX_TIME:
            break
        engine = engine.rechosen(theta)
    return best[1], replace(best[2], n_iter=steps)
