"""Hyperparameters and inducing points that raise the lower bound on the evidence together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mercer.arrays import take_rows
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.maximisation import maximise
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
    max_iter: int = 50,
    max_time: float | None = None,
    random_state: int = 0,
) -> tuple[InducingEngine, Result]:
    """The engine with the inducing points found, and theta.

    It begins at the maximum of the exact evidence of some rows. Where the bound has a gradient by
    the inducing points they move; elsewhere they are chosen anew every few steps.

    Parameters
    ----------
    problem : EvidenceProblem
    n_inducing : int
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

    theta, bounds = problem.covariance.theta, problem.covariance.bounds
    if n > ROWS:
        rows = np.sort(np.random.RandomState(random_state).permutation(n)[:ROWS])
        some = part(problem, rows)
        theta = maximise(ExactEngine(some).evidence, [theta], bounds, max_time=seconds_left()).value
    at = replace(problem, covariance=problem.covariance.at(theta))
    engine = InducingEngine(at, n_inducing, random_state=random_state)
    if engine.moves:
        engine, result = engine.improved(theta, max_iter=max_iter, max_time=seconds_left())
    else:
        engine, result = _in_turns(engine, theta, max_iter, seconds_left)
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
    max_iter: int,
    seconds_left: Callable[[], float | None],
) -> tuple[InducingEngine, Result]:
    """A few steps for theta, other inducing points, and so on while the bound rises."""
    bounds = engine.problem.covariance.bounds
    best, steps = (-np.inf, engine, Result(theta, Status.COMPLETED, np.inf, 0, 0.0)), 0
    while steps < max_iter:
        most = min(STEPS, max_iter - steps)
        result = maximise(engine.evidence, [theta], bounds, max_iter=most, max_time=seconds_left())
        theta, steps = result.value, steps + max(result.n_iter, 1)
        value = engine.evidence(theta, gradient=False).value
        if not value > best[0]:
            break
        best = (value, engine, result)
        if result.status is Status.MAX_TIME:
            break
        engine = engine.rechosen(theta)
    return best[1], replace(best[2], n_iter=steps)
