"""From the parameters kernel, noise and bounds to a covariance with hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.estimators.gaussian_process.sklearn_kernels import (
    covariance_of,
    default_kernel,
    is_compound,
    is_sklearn_kernel,
)
from mercer.estimators.inputs import is_precomputed
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.kernels.hyperparameters import BOUNDS, learnable
from mercer.kernels.kernel import Kernel
from mercer.solvers.evidence.covariance import NOISE, KernelCovariance, of_kernel
from mercer.solvers.evidence.maximisation import LogNormal
from mercer.solvers.evidence.problem import Covariance

# Noise that is learnt starts at this fraction of the variance of the targets, within these bounds.
NOISE_START, NOISE_BOUNDS = 0.1, (1e-6, 10.0)


@dataclass
class _Defaults:
    """What a name of a kernel stands for besides."""

    kernel: Any
    gamma: Any = None
    degree: float = 3
    coef0: float = 1.0


def refuse_compound(kernel: Any) -> None:
    """Raise a ValueError where scikit-learn's list of kernels is given for one."""
    if is_compound(kernel):
        raise ValueError(
            "kernel cannot be a CompoundKernel, which is several kernels and not one; pass their "
            "sum or product"
        )


def kernel_object(kernel: Any, X: Any, *, fixed_default: bool = False) -> Any:
    """The kernel, ours or scikit-learn's, that the parameter stands for on points X.

    A name or a function is multiplied with a constant, so that its amplitude can be learnt.
    """
    if kernel is None:
        return default_kernel(fixed_default)
    if is_sklearn_kernel(kernel):
        return kernel
    if is_precomputed(kernel):
        raise ValueError(
            "kernel='precomputed' gives no prior variance at new points; pass "
            "kernel=kernels.FromMatrix(A), whose points are indices into the matrix A"
        )
    found = resolve_kernel(_Defaults(kernel), X)
    if not isinstance(kernel, Kernel):
        found = 1.0 * found
    if found.validity.status == "indefinite":
        raise ValueError(
            f"kernel={found!r} is not positive semidefinite, so it is no covariance; choose "
            f"another kernel. For example, {found.validity.counterexample}"
        )
    return found


def make_covariance(
    kernel: Any,
    X: Any,
    *,
    learns_noise: bool = False,
    scale: float = 1.0,
    bounds: Mapping[str, Any] | None = None,
) -> Covariance:
    """The covariance of a kernel object, whose noise has a size relative to ``scale``.

    Parameters
    ----------
    kernel : ours or scikit-learn's
    X : the training points
    learns_noise : bool
    scale : float
        The variance of the targets.
    bounds : mapping from names of hyperparameters to (low, high) or "fixed"
    """
    given = dict(bounds or {})
    noise = NOISE_START * scale if learns_noise else None
    own = given.get(NOISE, tuple(bound * scale for bound in NOISE_BOUNDS))
    if isinstance(kernel, Kernel):
        entries = learnable(kernel)
        known = {name for e in entries for name in (e.name, e.path)}
        refuse_unknown_names("bounds", given, known | ({NOISE} if learns_noise else set()))
        if learns_noise:
            given[NOISE] = _checked(NOISE, own)
            noise = float(np.clip(NOISE_START * scale, *given[NOISE]))
        checked = {name: _checked(name, value) for name, value in given.items()}
        return of_kernel(kernel, entries, noise=noise, bounds=checked)
    others = set(given) - {NOISE}
    if others:
        raise ValueError(
            f"bounds={bounds!r}: a kernel of scikit-learn's has its bounds in its own parameters, "
            "such as length_scale_bounds"
        )
    columns = X.shape[1] if len(getattr(X, "shape", ())) == 2 else None
    found = covariance_of(kernel, columns)
    if not learns_noise:
        return found
    if not isinstance(found, KernelCovariance):
        raise ValueError(
            f"noise='learn' with kernel={kernel!r}: the noise of a kernel class of yours is learnt "
            "by adding sklearn.gaussian_process.kernels.WhiteKernel()"
        )
    if found.noise is not None:
        raise ValueError(
            f"noise='learn' with kernel={kernel!r}: its WhiteKernel is the noise; use noise='auto'"
        )
    limits = np.vstack([found.bounds, np.log(np.asarray(_checked(NOISE, own), dtype=float))])
    return replace(found, noise=noise, bounds=limits, labels=(*found.labels, NOISE))


def _checked(name: str, value: Any) -> Any:
    if isinstance(value, str) and value == "fixed":
        if name == NOISE:
            raise ValueError("bounds['noise']='fixed': pass the number as noise instead")
        return value
    pair = np.ravel(np.asarray(value, dtype=float)) if not isinstance(value, str) else np.empty(0)
    if len(pair) != 2 or not 0 < pair[0] <= pair[1] < np.inf:
        raise ValueError(
            f"bounds[{name!r}]={value!r}; expected two positive numbers in ascending order, or "
            f"'fixed'; the default is {BOUNDS}"
        )
    return (float(pair[0]), float(pair[1]))


def refuse_unknown_names(parameter: str, given: Mapping[str, Any], known: set[str]) -> None:
    """Raise a ValueError where a mapping names a hyperparameter that the model has not."""
    for name in given:
        if name not in known:
            raise ValueError(
                f"{parameter} names {name!r}, which is no hyperparameter of this model; it has "
                f"{', '.join(map(repr, sorted(known))) or 'none'}"
            )


def checked_priors(
    priors: Mapping[str, Any] | None, names: tuple[str, ...]
) -> tuple[LogNormal | None, ...]:
    """The prior of each entry of theta; that of a vector's name is that of all its entries."""
    if not priors:
        return ()
    paths = {name.partition("[")[0] for name in names}
    refuse_unknown_names("priors", priors, {*names, *paths})
    found = []
    for name in names:
        pair = priors.get(name, priors.get(name.partition("[")[0]))
        if pair is None:
            found.append(None)
            continue
        numbers = np.ravel(np.asarray(pair, dtype=float))
        if len(numbers) != 2 or not np.all((numbers > 0) & np.isfinite(numbers)):
            raise ValueError(
                f"priors[{name!r}]={pair!r}; expected (median, spread), two positive numbers, of a "
                "log-normal distribution"
            )
        found.append(LogNormal(float(numbers[0]), float(numbers[1])))
    return tuple(found)


def kernel_at(template: Any, covariance: Covariance) -> Any:
    """The kernel object as the user writes it, with the covariance's hyperparameters."""
    if isinstance(template, Kernel):
        return getattr(covariance, "whole", template)
    return template.clone_with_theta(np.array(covariance.theta[: len(template.theta)]))
