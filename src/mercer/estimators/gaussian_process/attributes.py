"""The fitted attributes of Gaussian process regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators.gaussian_process.covariances import kernel_at
from mercer.estimators.gaussian_process.engine import described


def set_attributes(model: Any, posterior: Any) -> None:
    """Set what a fit or an update finds, in the units of the targets."""
    prior, problem = posterior.prior, posterior.problem
    one = 0 if model._flat else slice(None)
    model.posterior_ = posterior
    model.kernel_ = kernel_at(model._template, prior)
    model.hyperparameters_ = described(prior)
    model.noise_ = (getattr(prior, "noise", None) or 0.0) + model._fixed_noise
    model.evidence_ = posterior.evidence
    model.log_marginal_likelihood_value_ = posterior.evidence.value
    model.X_train_ = problem.X
    model.y_train_ = problem.Y[:, one]
    model.alpha_ = posterior.result.value[:, one]
    if hasattr(posterior, "L"):
        model.L_ = posterior.L
    elif hasattr(model, "L_"):
        del model.L_
    std = np.sqrt(posterior.mean_covariance.diagonal())[:, None] * model._y_train_std
    coef = posterior.mean_coefficients * model._y_train_std
    if len(coef):
        coef[0] += model._y_train_mean
    model.mean_coef_, model.mean_coef_std_ = coef[:, one], std[:, one]
