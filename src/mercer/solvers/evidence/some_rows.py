"""Hyperparameters from the exact evidence of some rows, for searches with all rows to begin at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from mercer.arrays import n_rows
from mercer.arrays.threads import ONE_THREAD_CHOLESKY, blas_threads
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.maximisation import LogNormal, maximise
from mercer.solvers.evidence.problem import EvidenceProblem, LabelProblem

Problem = TypeVar("Problem", EvidenceProblem, LabelProblem)

# All evaluations with so many rows take the time of a few with ten times as many.
ROWS = 1000


def of_some_rows(
    problem: Problem,
    starts: Sequence[np.ndarray] = (),
    *,
    priors: Sequence[LogNormal | None] = (),
    max_time: float | None = None,
    random_state: int = 0,
    engine: Callable[[Problem], Any] = ExactEngine,
) -> Problem:
    """The problem at the theta of the highest exact evidence of some rows.

    Parameters
    ----------
    problem : EvidenceProblem or LabelProblem
    starts : list of (p,) arrays, where searches begin; none for the problem's theta
    priors : LogNormal or None for each entry of theta
    max_time : float, optional
        Seconds.
    random_state : int
    engine : class of the engine for some rows
    """
    rows = np.random.RandomState(random_state).permutation(n_rows(problem.X))[:ROWS]
    covariance = problem.covariance
    of_rows = engine(problem.some(np.sort(rows)))
    with blas_threads(len(rows), ONE_THREAD_CHOLESKY):
        found = maximise(
            of_rows.evidence,
            list(starts) or [covariance.theta],
            covariance.bounds,
            priors=priors,
            max_time=max_time,
            workers=getattr(of_rows, "workers", 1),
        )
    return replace(problem, covariance=covariance.at(found.value))
