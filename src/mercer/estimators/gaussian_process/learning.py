"""Hyperparameters by maximum evidence: the engine, the search, and what there is to report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.estimators.fitting import warn_of_convergence
from mercer.solvers.evidence.covariance import NOISE
from mercer.solvers.evidence.maximisation import at_bounds, maximise
from mercer.solvers.result import Result, Status

ENGINES = {"auto", "exact", "iterative", "inducing"}


def learned(
    estimator: Any,
    evidence: Callable[..., Any],
    covariance: Any,
    *,
    priors: tuple = (),
    quiet: tuple[str, ...] = (),
) -> Result:
    """The search for theta: its ``value`` is the best found.

    Parameters
    ----------
    estimator : with optimizer, n_restarts_optimizer, random_state
    evidence : callable, ``evidence(theta, gradient=True)``
    covariance : Covariance
        At the theta to begin with.
    quiet : names of hyperparameters that may be at their lower bound without a warning
    """
    theta, bounds = covariance.theta, covariance.bounds
    if not len(theta):
        return Result(theta, Status.EXACT, 0.0, 0, 0.0, method="no hyperparameters to learn")
    if estimator.optimizer is None:
        return Result(theta, Status.EXACT, 0.0, 0, 0.0, method="hyperparameters as given")
    starts = [theta]
    if estimator.n_restarts_optimizer > 0:
        if not np.isfinite(bounds).all():
            raise ValueError(
                "Multiple optimizer restarts (n_restarts_optimizer>0) requires that all bounds are "
                "finite."
            )
        rng = check_random_state(estimator.random_state)
        starts += [
            rng.uniform(bounds[:, 0], bounds[:, 1]) for _ in range(estimator.n_restarts_optimizer)
        ]
    result = maximise(
        evidence,
        starts,
        bounds,
        priors=priors,
        optimizer=estimator.optimizer,
        max_time=getattr(estimator, "max_time", None),
    )
    warn_of_bounds(result.value, bounds, covariance.names, quiet)
    return result


def warn_of_bounds(
    theta: np.ndarray, bounds: np.ndarray, names: tuple[str, ...], quiet: tuple[str, ...]
) -> None:
    """Warn of each hyperparameter that the search has left at a bound, in scikit-learn's words."""
    for j, side in at_bounds(theta, bounds):
        if names[j] in quiet and side == "lower":
            continue
        name, _, index = names[j].partition("[")
        bound = float(f"{np.exp(bounds[j, int(side == 'upper')]):.12g}")
        change = "Decreasing" if side == "lower" else "Increasing"
        warn_of_convergence(
            f"The optimal value found for dimension {index.rstrip(']') or 0} of parameter {name} "
            f"is close to the specified {side} bound {bound}. {change} the bound and calling fit "
            "again may find a better value."
        )


def combined(posterior: Result, search: Result) -> Result:
    """One result of a search and of the posterior at its end."""
    ended = posterior if search.status.ok else search
    return replace(
        posterior,
        status=ended.status,
        n_iter=search.n_iter,
        seconds=search.seconds + posterior.seconds,
        history=search.history,
        method=f"{posterior.method}; {search.method}",
        advice=ended.advice,
    )


def described(covariance: Any) -> dict[str, float]:
    """The value of each hyperparameter by name."""
    values = np.exp(np.asarray(covariance.theta, dtype=float))
    return dict(zip(covariance.names, values.tolist(), strict=True))


QUIET = (NOISE,)
