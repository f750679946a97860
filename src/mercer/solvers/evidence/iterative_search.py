"""Hyperparameters of high evidence from few evaluations by conjugate gradients."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.solvers.evidence.iterative import IterativeEngine
from mercer.solvers.evidence.maximisation import LogNormal, maximise
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.evidence.some_rows import of_some_rows
from mercer.solvers.result import Result, Status


def search(
    problem: EvidenceProblem,
    *,
    starts: Sequence[np.ndarray] = (),
    priors: Sequence[LogNormal | None] = (),
    max_iter: int = 20,
    max_time: float | None = None,
    random_state: int = 0,
    **options: Any,
) -> tuple[IterativeEngine, Result]:
    """The engine with its preconditioner chosen close to the optimum, and theta.

    It begins at the highest maximum of the exact evidence of some rows, and ends where the gradient
    is smaller than its own error, which a line search notices.

    Parameters
    ----------
    problem : EvidenceProblem
    starts : list of (p,) arrays, where searches on some rows begin; none for the problem's theta
    priors : LogNormal or None for each entry of theta
    max_iter : int
        Steps with all rows.
    max_time : float, optional
        Seconds.
    random_state : int
    **options : of the engine

    Returns
    -------
    engine : IterativeEngine
    result : Result
        ``value`` is theta.
    """
    begin = time.perf_counter()
    at = of_some_rows(problem, starts, priors=priors, max_time=max_time, random_state=random_state)
    engine = IterativeEngine(at, random_state=random_state, **options)
    theta, bounds = at.covariance.theta, at.covariance.bounds
    left = None if max_time is None else max(0.0, max_time - (time.perf_counter() - begin))
    result = maximise(
        engine.evidence, [theta], bounds, priors=priors, max_iter=max_iter, max_time=left
    )
    if result.status in (Status.MAX_ITER, Status.STALLED):
        result = replace(result, status=Status.COMPLETED, advice="")
    return engine, replace(result, seconds=time.perf_counter() - begin)
