"""Hyperparameters from the exact evidence of some rows, for searches with all rows to begin at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mercer.arrays import take_rows
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.maximisation import LogNormal, maximise
from mercer.solvers.evidence.problem import EvidenceProblem

# All evaluations with so many rows take the time of a few with ten times as many.
ROWS = 1000


def of_some_rows(
    problem: EvidenceProblem,
    starts: Sequence[np.ndarray] = (),
    *,
    priors: Sequence[LogNormal | None] = (),
    max_time: float | None = None,
    random_state: int = 0,
) -> EvidenceProblem:
    """The problem at the theta of the highest exact evidence of some rows.

    Parameters
    ----------
    problem : EvidenceProblem
    starts : list of (p,) arrays, where searches begin; none for the problem's theta
    priors : LogNormal or None for each entry of theta
    max_time : float, optional
        Seconds.
    random_state : int
    """
    rows = np.sort(np.random.RandomState(random_state).permutation(len(problem.Y))[:ROWS])
    some = replace(
        problem,
        X=take_rows(problem.X, rows),
        Y=problem.Y[rows],
        noise=problem.noise[rows],
    )
    covariance = problem.covariance
    found = maximise(
        ExactEngine(some).evidence,
        list(starts) or [covariance.theta],
        covariance.bounds,
        priors=priors,
        max_time=max_time,
    )
    return replace(problem, covariance=covariance.at(found.value))
