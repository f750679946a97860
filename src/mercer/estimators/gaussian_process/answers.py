"""What a Gaussian process says besides predictions: leave-one-out, parts of a sum, functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.estimators.gaussian_process.prediction import squeezed
from mercer.estimators.inputs import validate_query
from mercer.kernels import Constant, Kernel, Sum


class LeaveOneOut(NamedTuple):
    """What is predicted for each training target from all others.

    Attributes
    ----------
    mean, std, log_density : arrays of the shape of y
    """

    mean: np.ndarray
    std: np.ndarray
    log_density: np.ndarray


class Part(NamedTuple):
    """The posterior of one term of a sum of kernels.

    Attributes
    ----------
    kernel : Kernel
    mean, std : ndarrays of shape (m,) or (m, n_targets)
    """

    kernel: Kernel
    mean: np.ndarray
    std: np.ndarray


class FunctionSample:
    """A function from the posterior, on the scale of the targets."""

    def __init__(self, model: Any, sample: Any):
        self.model, self.sample = model, sample

    def __call__(self, X: Any) -> np.ndarray:
        values = self.sample(validate_query(self.model, X))
        return squeezed(values * self.model._y_train_std + self.model._y_train_mean)


def summands(kernel: Kernel) -> list[Kernel]:
    """The terms of a sum of kernels, without those that are zero.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> summands(2.0 * K.RBF() + K.Linear() + 1.0)
    [2.0 * RBF(gamma=1.0), Linear(), Constant(value=1.0)]
    """
    if isinstance(kernel, Sum):
        return [*summands(kernel.left), *summands(kernel.right)]
    return [] if isinstance(kernel, Constant) and kernel.value == 0 else [kernel]


def parts_of(model: Any, X: Any) -> list[Part]:
    """The posterior of each term of the kernel, in the units of the targets."""
    posterior = model.posterior_
    kernel = posterior.prior.kernel
    if kernel is None:
        raise ValueError("predict_parts needs a kernel of this library, or one converted to it")
    scales = np.broadcast_to(model._y_train_std, posterior.problem.Y.shape[1])
    found = []
    for term in summands(kernel):
        mean = posterior.mean(X, part=term) * scales
        std = np.sqrt(posterior.variance(X, part=term))[:, None] * scales
        found.append(Part(term, squeezed(mean), squeezed(std)))
    return found


def leave_one_out_of(model: Any, posterior: Any) -> LeaveOneOut:
    """What an exact posterior predicts for each training target from all others."""
    mean, variance = posterior.leave_one_out()
    Y, scale = posterior.problem.Y, model._y_train_std
    z = (Y - mean) ** 2 / variance[:, None]
    density = -0.5 * (z + np.log(2 * np.pi * variance)[:, None]) - np.log(scale)
    std = np.sqrt(variance)[:, None] * np.broadcast_to(scale, Y.shape[1])
    mean = mean * scale + model._y_train_mean
    one = 0 if model._flat else slice(None)
    return LeaveOneOut(mean[:, one], std[:, one], density[:, one])
