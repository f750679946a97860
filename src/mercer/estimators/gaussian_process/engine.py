"""Hyperparameters by maximum evidence: the engine, the search, and what there is to report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer._sklearn import StrOptions
from mercer.arrays.threads import ONE_THREAD_CHOLESKY, blas_threads
from mercer.estimators.constraints import at_least
from mercer.estimators.fitting import warn_of_convergence
from mercer.kernels import Kernel
from mercer.solvers.evidence import inducing_search, iterative_search
from mercer.solvers.evidence.covariance import NOISE
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.iterative import IterativeEngine
from mercer.solvers.evidence.maximisation import at_bounds, maximise
from mercer.solvers.evidence.problem import Engine, EvidenceProblem
from mercer.solvers.result import Result, Status

ENGINES = {"auto", "exact", "iterative", "inducing"}
# Points up to which "auto" factorises C, and up to which it uses all pairs of points.
EXACT_AT_MOST, PAIRS_AT_MOST = 6000, 30_000
N_INDUCING = 512
# Hyperparameters that may be at their lower bound without a warning.
QUIET = (NOISE,)
# Parameters of the search, as regression and classification declare them.
OPTIMIZER: dict = {
    "kernel": [str, Kernel, callable, None],
    "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
    "n_restarts_optimizer": [at_least(0)],
    "copy_X_train": ["boolean"],
    "random_state": ["random_state"],
}


def make_engine(estimator: Any, problem: EvidenceProblem, Z: Any = None) -> tuple[Engine, str]:
    """The engine that the estimator asks for, and why it was chosen; Z are its inducing points."""
    name, n, reason = estimator.engine, len(problem.Y), ""
    if name == "auto":
        name, reason = "exact", f"{n} points"
        if problem.covariance.kernel is None:
            reason = "the kernel is known by its matrices only"
        elif estimator.n_inducing is not None:
            name, reason = "inducing", "n_inducing is given"
        elif n > PAIRS_AT_MOST:
            name, reason = "inducing", f"{n} points"
        elif n > EXACT_AT_MOST:
            name = "iterative"
    if name == "exact":
        return ExactEngine(problem), reason
    if problem.covariance.kernel is None:
        raise ValueError(
            f"engine={name!r} needs a kernel of this library, or one of scikit-learn's that has a "
            "counterpart; use engine='exact'"
        )
    if not np.all(problem.diagonal(problem.covariance) > 0):
        raise ValueError(
            f"engine={name!r} needs noise, known or learnt; pass noise='learn' or a larger alpha"
        )
    seed = int(check_random_state(estimator.random_state or 0).randint(2**31 - 1))
    if name == "iterative":
        return IterativeEngine(problem, random_state=seed), reason
    m = min(estimator.n_inducing or N_INDUCING, n)
    return InducingEngine(problem, m, Z=Z, random_state=seed), reason


def searched(
    estimator: Any, engine: Engine, problem: EvidenceProblem, **options: Any
) -> tuple[Engine, Result]:
    """`learned` hyperparameters, and the engine that goes with them.

    Engines of chosen points choose them for these hyperparameters, and begin with those of some
    rows, unless the optimizer is a function.
    """
    chooses = isinstance(engine, InducingEngine | IterativeEngine)
    if not chooses or estimator.optimizer is None or not len(problem.covariance.theta):
        workers = getattr(engine, "workers", 1)
        with blas_threads(len(problem.Y), ONE_THREAD_CHOLESKY):
            search = learned(
                estimator, engine.evidence, problem.covariance, workers=workers, **options
            )
        return engine, search
    if isinstance(estimator.optimizer, str):
        return _from_some_rows(estimator, engine, problem, **options)
    search = learned(estimator, engine.evidence, problem.covariance, **options)
    return engine.rechosen(search.value), search


def learned(
    estimator: Any,
    evidence: Callable[..., Any],
    covariance: Any,
    *,
    priors: tuple = (),
    quiet: tuple[str, ...] = (),
    restarts: int | None = None,
    workers: int = 1,
) -> Result:
    """The search for theta: its ``value`` is the best found.

    Parameters
    ----------
    estimator : with optimizer, n_restarts_optimizer, random_state
    evidence : callable, ``evidence(theta, gradient=True)``
    covariance : Covariance
        At the theta to begin with.
    quiet : names of hyperparameters that may be at their lower bound without a warning
    restarts : int, in place of the estimator's
    workers : int, runs at a time
    """
    theta, bounds = covariance.theta, covariance.bounds
    if not len(theta):
        return Result(theta, Status.EXACT, 0.0, 0, 0.0, method="no hyperparameters to learn")
    if estimator.optimizer is None:
        return Result(theta, Status.EXACT, 0.0, 0, 0.0, method="hyperparameters as given")
    count: int = estimator.n_restarts_optimizer if restarts is None else restarts
    starts = starting_points(estimator, covariance, count)
    result = maximise(
        evidence,
        starts,
        bounds,
        priors=priors,
        optimizer=estimator.optimizer,
        max_time=getattr(estimator, "max_time", None),
        workers=workers,
    )
    warn_of_bounds(result.value, bounds, covariance.names, quiet)
    return result


def starting_points(estimator: Any, covariance: Any, restarts: int) -> list[np.ndarray]:
    """The theta to begin with, and as many within the bounds as there are restarts."""
    theta, bounds = covariance.theta, covariance.bounds
    if restarts == 0:
        return [theta]
    if not np.isfinite(bounds).all():
        raise ValueError(
            "Multiple optimizer restarts (n_restarts_optimizer>0) requires that all bounds are "
            "finite."
        )
    rng = check_random_state(estimator.random_state)
    return [theta, *(rng.uniform(bounds[:, 0], bounds[:, 1]) for _ in range(restarts))]


def _from_some_rows(
    estimator: Any,
    engine: InducingEngine | IterativeEngine,
    problem: EvidenceProblem,
    priors: tuple = (),
    quiet: tuple[str, ...] = (),
) -> tuple[Engine, Result]:
    covariance = problem.covariance
    options = {
        "starts": starting_points(estimator, covariance, estimator.n_restarts_optimizer),
        "priors": priors,
        "max_time": getattr(estimator, "max_time", None),
        "random_state": engine.random_state,
    }
    if isinstance(engine, InducingEngine):
        found, search = inducing_search.search(problem, engine.n_inducing, **options)
    else:
        found, search = iterative_search.search(problem, **options)
    warn_of_bounds(search.value, covariance.bounds, covariance.names, quiet)
    return found, search


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


def joint_result(posterior: Result, search: Result, reason: str = "") -> Result:
    """One result of a search and of the posterior at its end."""
    method = f"{posterior.method} ({reason})" if reason else posterior.method
    ended = posterior if search.status.ok else search
    return replace(
        posterior,
        status=ended.status,
        n_iter=search.n_iter,
        seconds=search.seconds + posterior.seconds,
        history=search.history,
        method=f"{method}; {search.method}",
        advice=ended.advice,
    )


def described(covariance: Any) -> dict[str, float]:
    """The value of each hyperparameter by name."""
    values = np.exp(np.asarray(covariance.theta, dtype=float))
    return dict(zip(covariance.names, values.tolist(), strict=True))
