"""Hyperparameters and inducing points that raise the lower bound on the evidence together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mercer.arrays import take_rows
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.maximisation import LogNormal, maximise
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.result import Result, Status

# Rows whose exact evidence gives the hyperparameters to begin with: all of it takes the time of a
# few evaluations of the bound.
ROWS = 1000
# Steps with inducing points that stay, before others are chosen.
STEPS = 15


def search(
    problem: EvidenceProblem,
    n_inducing: int,
    *,
    starts: Sequence[np.ndarray] = (),
    priors: Sequence[LogNormal | None] = (),
    max_iter: int = 50,
    max_time: float | None = None,
    random_state: int = 0,
) -> tuple[InducingEngine, Result]:
    """The engine with the inducing points found, and theta.

    It begins at the highest maximum of the exact evidence of some rows. Where the bound has a
    gradient by the inducing points they move; elsewhere they are chosen anew every few steps.

    Parameters
    ----------
    problem : EvidenceProblem
    n_inducing : int
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
    start, n = time.perf_counter(), len(problem.Y)

    def seconds_left() -> float | None:
        return None if max_time is None else max(0.0, max_time - (time.perf_counter() - start))

    bounds = problem.covariance.bounds
    rows = np.sort(np.random.RandomState(random_state).permutation(n)[:ROWS])
    first = maximise(
        ExactEngine(part(problem, rows)).evidence,
        list(starts) or [problem.covariance.theta],
        bounds,
        priors=priors,
        max_time=seconds_left(),
    )
    at = replace(problem, covariance=problem.covariance.at(first.value))
    engine = InducingEngine(at, n_inducing, random_state=random_state)
    if engine.moves:
        engine, result = engine.improved(
            first.value, priors=priors, max_iter=max_iter, max_time=seconds_left()
        )
    else:
        engine, result = _in_turns(engine, first.value, priors, max_iter, seconds_left)
    if result.status is Status.MAX_ITER:
        result = replace(result, status=Status.COMPLETED)
    return engine, replace(result, seconds=time.perf_counter() - start)


def part(problem: EvidenceProblem, rows: np.ndarray) -> EvidenceProblem:
    """The problem of some rows."""
    X = take_rows(problem.X, rows)
    return replace(problem, X=X, Y=problem.Y[rows], noise=problem.noise[rows])


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
