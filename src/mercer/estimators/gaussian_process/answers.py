"""What a Gaussian process says besides predictions: leave-one-out, parts of a sum, functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

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


def squeezed(values: np.ndarray) -> np.ndarray:
    """Without the last axis, if that is of one target."""
    return values[..., 0] if values.shape[-1] == 1 else values
