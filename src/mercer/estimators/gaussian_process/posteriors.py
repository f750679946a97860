"""Posteriors of regression: learnt, extended by rows, and the evidence at other hyperparameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from mercer.estimators.gaussian_process.covariances import (
    checked_priors,
    kernel_at,
    kernel_object,
    make_covariance,
)
from mercer.estimators.gaussian_process.engine import QUIET, make_engine, searched
from mercer.estimators.gaussian_process.mean import mean_basis
from mercer.estimators.gaussian_process.sklearn_kernels import is_sklearn_kernel
from mercer.estimators.gaussian_process.training import (
    joined,
    known_noise,
    singular_advice,
    variance_of,
)
from mercer.solvers.evidence.covariance import NOISE
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.result import Result


def learned_posterior(model: Any, X: Any, Y: np.ndarray) -> tuple[Any, Result, str]:
    """The posterior at the hyperparameters of most evidence, the search, and why its engine.

    The estimator keeps the kernel in the form it was given, and the noise that is fixed.
    """
    model._template = template = kernel_object(model.kernel, X)
    own = model.kernel is not None and not is_sklearn_kernel(model.kernel)
    learns = model.noise == "learn" or (model.noise == "auto" and own)
    model._fixed_noise = fixed = 0.0 if isinstance(model.noise, str) else float(model.noise)
    covariance = make_covariance(
        template, X, learns_noise=learns, scale=variance_of(Y), bounds=model.bounds
    )
    priors = checked_priors(model.priors, covariance.names)
    noise = known_noise(model.alpha, len(Y)) + fixed
    problem = EvidenceProblem(covariance, X, Y, noise, mean_basis(model.mean, X))
    engine, reason = make_engine(model, problem)
    quiet = () if model.bounds and NOISE in model.bounds else QUIET
    engine, search = searched(model, engine, problem, priors=priors, quiet=quiet)
    try:
        return engine.posterior(search.value), search, reason
    except LinAlgError as error:
        raise LinAlgError(singular_advice(kernel_at(template, covariance), X)) from error


def extended(model: Any, posterior: Any, X: Any, y: Any, alpha: Any) -> Any:
    """The exact posterior with more rows, at the hyperparameters it has."""
    old = posterior.problem
    Y = (np.asarray(y, dtype=np.float64) - model._y_train_mean) / model._y_train_std
    Y = Y.reshape(len(Y), -1)
    if Y.shape[1] != old.Y.shape[1]:
        raise ValueError(f"y has {Y.shape[1]} targets; fit was with {old.Y.shape[1]}")
    noise = known_noise(alpha, len(Y)) + model._fixed_noise
    return posterior.extended(
        joined(old.X, X), X, np.vstack([old.Y, Y]), np.append(old.noise, noise)
    )


def evidence_at(model: Any, theta: np.ndarray, gradient: bool) -> tuple[Any, Any]:
    """The evidence of other hyperparameters, and the covariance with them."""
    problem = model.posterior_.problem
    engine, _ = make_engine(model, problem, getattr(model.posterior_, "Z", None))
    return engine.evidence(theta, gradient=gradient), problem.covariance.at(theta)
