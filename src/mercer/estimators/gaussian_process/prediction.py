"""Mean, standard deviation and covariance at new points, given the targets or before them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators.gaussian_process.covariances import kernel_object, make_covariance


def of_posterior(
    model: Any, X: Any, return_std: bool, return_cov: bool, include_noise: bool
) -> Any:
    """What a fitted regression predicts, in the units of the targets."""
    posterior, scale = model.posterior_, model._y_train_std
    mean = squeezed(posterior.mean(X) * scale + model._y_train_mean)
    if not (return_std or return_cov):
        return mean
    errors = posterior.prior.errors(X) + model._fixed_noise if include_noise else 0.0
    scales = np.broadcast_to(scale, posterior.problem.Y.shape[1])
    if return_cov:
        return mean, squeezed(_with_errors(posterior.covariance(X), errors)[..., None] * scales**2)
    std = np.sqrt(posterior.variance(X) + errors)
    return mean, squeezed(std[:, None] * scales)


def of_prior(model: Any, X: Any, return_std: bool, return_cov: bool, include_noise: bool) -> Any:
    """What a regression predicts before `fit`: the mean is zero."""
    covariance = make_covariance(kernel_object(model.kernel, X, fixed_default=True), X)
    t = model.n_targets or 1
    mean = squeezed(np.zeros((len(covariance.own(X)), t)))
    if not (return_std or return_cov):
        return mean
    fixed = 0.0 if isinstance(model.noise, str) else float(model.noise)
    errors = covariance.errors(X) + fixed if include_noise else 0.0
    if return_cov:
        cov = _with_errors(covariance.gram(X), errors)
        return mean, squeezed(np.repeat(cov[..., None], t, axis=-1))
    std = np.sqrt(covariance.own(X) + errors)
    return mean, squeezed(np.repeat(std[:, None], t, axis=-1))


def _with_errors(cov: np.ndarray, errors: Any) -> np.ndarray:
    cov[np.diag_indices_from(cov)] += errors
    return cov


def squeezed(values: np.ndarray) -> np.ndarray:
    """Without the last axis, if that is of one target."""
    return values[..., 0] if values.shape[-1] == 1 else values
