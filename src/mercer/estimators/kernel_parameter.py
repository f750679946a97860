"""From the parameters kernel, gamma, degree, coef0 and kernel_params to a kernel object."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer import kernels as K
from mercer.arrays import backend
from mercer.estimators.array_support import array_support
from mercer.estimators.narrow_kernels import warn_if_narrow
from mercer.kernels import Kernel


def resolve_kernel(estimator: Any, X: Any, sample_weight: np.ndarray | None = None) -> Kernel:
    """The kernel to fit with and store as ``kernel_``: a clone, names and functions made objects.

    Names are scikit-learn's. A function takes what the estimator's `ArraySupport` says.
    gamma="scale" counts each point as often as it weighs.
    """
    kernel = estimator.kernel
    if isinstance(kernel, Kernel):
        _refuse_unused(estimator)
        for path in kernel.tensors():
            raise TypeError(
                f"kernel has {path} as a tensor that requires a gradient, and a fit has none; pass "
                "a number"
            )
        fitted = clone(kernel).settled(X)
        if fitted.domain.is_vectors and hasattr(estimator, "fit"):
            warn_if_narrow(fitted, X)
        return fitted
    if isinstance(kernel, type):
        raise TypeError(f"kernel={kernel.__name__} is a class; pass an object: {kernel.__name__}()")
    if callable(kernel):
        parameters = getattr(estimator, "kernel_params", None) or {}
        function = functools.partial(kernel, **parameters) if parameters else kernel
        pairwise = array_support(estimator).function_of == "rows"
        return K.FromFunction(function, pairwise=pairwise)
    refuse_unknown(kernel)
    return NAMES[kernel](estimator, functools.partial(resolve_gamma, estimator, X, sample_weight))


def resolve_gamma(estimator: Any, X: Any, sample_weight: np.ndarray | None = None) -> float:
    """The number that the parameter gamma stands for on the training points X, (n, d)."""
    gamma = getattr(estimator, "gamma", None)
    if gamma == "scale":
        with np.errstate(over="ignore", invalid="ignore"):
            variance = backend(X).variance(X, sample_weight)
        if not variance < np.inf:
            raise ValueError(
                "gamma='scale' is one over the variance of X, which exceeds what its precision "
                "holds; scale X, for example with sklearn.preprocessing.StandardScaler"
            )
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    if gamma is None or gamma == "auto":
        return 1.0 / X.shape[1]
    if isinstance(gamma, Real) and float(gamma) > 0:
        return float(gamma)
    raise ValueError(f"gamma={gamma!r}; expected a positive number, 'scale', 'auto' or None")


def _refuse_unused(estimator: Any) -> None:
    """With a kernel object, gamma, degree and coef0 say nothing; set to a value, they are wrong."""
    signature = inspect.signature(type(estimator)).parameters
    for name in ("gamma", "degree", "coef0", "kernel_params"):
        if name not in signature:
            continue
        value, default = getattr(estimator, name), signature[name].default
        if value is not default and value != default:
            raise ValueError(
                f"{name}={value!r} has no effect with kernel={estimator.kernel!r}; set it on the "
                "kernel object itself"
            )


def refuse_unknown(kernel: Any) -> None:
    """Raise a ValueError where the parameter is a text that names no kernel."""
    if isinstance(kernel, Kernel) or callable(kernel) or kernel in NAMES:
        return
    expected = f"expected a mercer kernel, a function, or one of {sorted(NAMES)}"
    if "(" in str(kernel):
        expected += f"; for a kernel written as text pass mercer.kernels.parse({kernel!r})"
    elif close := difflib.get_close_matches(str(kernel).lower(), NAMES, n=1):
        expected = f"did you mean {close[0]!r}? Otherwise {expected}"
    elif known := [name for name in K.REGISTRY if name.lower() == str(kernel).lower()]:
        expected = f"pass the object mercer.kernels.{known[0]}(...). Otherwise {expected}"
    raise ValueError(f"kernel={kernel!r} is not the name of a kernel; {expected}")


def _polynomial(estimator: Any, gamma: Callable[[], float]) -> Kernel:
    degree = estimator.degree
    if not float(degree).is_integer():
        raise ValueError(
            f"degree={degree!r} of {type(estimator).__name__}: expected a whole number, since a "
            "polynomial kernel of another degree is not positive semidefinite"
        )
    return K.Polynomial(degree=int(degree), gamma=gamma(), coef0=estimator.coef0)


def _chi2(estimator: Any, gamma: Callable[[], float]) -> Kernel:
    return K.Chi2() if getattr(estimator, "gamma", None) is None else K.Chi2(gamma())


def _additive_chi2(estimator: Any, gamma: Callable[[], float]) -> Kernel:
    from sklearn.metrics.pairwise import additive_chi2_kernel  # slow to import

    return K.FromFunction(additive_chi2_kernel, pairwise=False)


# Each takes the estimator and a function that settles its gamma.
NAMES: dict[str, Callable[[Any, Callable[[], float]], Kernel]] = {
    "linear": lambda estimator, gamma: K.Linear(),
    "poly": _polynomial,
    "polynomial": _polynomial,
    "rbf": lambda estimator, gamma: K.RBF(gamma=gamma()),
    "laplacian": lambda estimator, gamma: K.Laplacian(gamma=gamma()),
    "sigmoid": lambda estimator, gamma: K.Sigmoid(gamma=gamma(), coef0=estimator.coef0),
    "cosine": lambda estimator, gamma: K.Cosine(),
    "chi2": _chi2,
    "additive_chi2": _additive_chi2,
    "precomputed": lambda estimator, gamma: K.Precomputed(),
}
