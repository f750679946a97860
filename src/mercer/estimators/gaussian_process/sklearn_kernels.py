"""scikit-learn's kernel objects as covariances: converted exactly, or used as they are."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer import kernels as K
from mercer.kernels.algebra import Product, Sum
from mercer.kernels.hyperparameters import Entry
from mercer.kernels.kernel import Kernel
from mercer.kernels.power import Power
from mercer.solvers.evidence.covariance import KernelCovariance

MODULE = "sklearn.gaussian_process.kernels"


class NoCounterpart(Exception):
    """A kernel of scikit-learn's that none of ours equals."""


def is_sklearn_kernel(kernel: Any) -> bool:
    """Whether this is an object of scikit-learn's own kernel classes, or of a subclass."""
    module = sys.modules.get(MODULE)  # whoever made the object has imported it
    return module is not None and isinstance(kernel, module.Kernel)


def is_compound(kernel: Any) -> bool:
    """Whether this is a list of kernels in one object, which is no covariance."""
    return is_sklearn_kernel(kernel) and isinstance(kernel, sys.modules[MODULE].CompoundKernel)


def default_kernel(fixed: bool) -> Any:
    """scikit-learn's default, a constant times a Gaussian kernel."""
    from sklearn.gaussian_process import kernels  # slow to import

    if fixed:
        return kernels.ConstantKernel(1.0, "fixed") * kernels.RBF(1.0, "fixed")
    return kernels.ConstantKernel() * kernels.RBF()


def covariance_of(kernel: Any, n_features: int | None) -> Any:
    """The covariance of a kernel of scikit-learn's, with its theta, bounds and names.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    n_features : int or None
        Columns of the points; None for points that are not rows of numbers.

    Returns
    -------
    KernelCovariance, or GramCovariance for the exact engine alone
    """
    if n_features is not None:
        try:
            return _Conversion(n_features).covariance(kernel)
        except NoCounterpart:
            pass
    return GramCovariance(clone(kernel))


@dataclass
class _Conversion:
    """The numbers of a kernel that are met on the way through it."""

    n_features: int
    entries: list[Entry] = field(default_factory=list)
    white: list[str] = field(default_factory=list)

    def covariance(self, kernel: Any) -> KernelCovariance:
        # White noise that comes last is the noise of all targets, and the last entry of theta.
        noise = _last_noise(kernel)
        whole = self.converted(kernel if noise is None else kernel.k1, "")
        try:
            _ = whole.expression(), whole.domain
        except (TypeError, ValueError) as error:  # such as DotProduct() ** 0.5, which is no kernel
            raise NoCounterpart from error
        return KernelCovariance(
            whole,
            tuple(self.entries),
            bounds_of(kernel),
            noise,
            white=tuple(self.white),
            labels=names_of(kernel),
        )

    def converted(self, kernel: Any, path: str) -> Kernel:
        way = CONVERSIONS.get(type(kernel).__name__)
        if way is None or type(kernel).__module__ != MODULE:
            raise NoCounterpart
        return way(self, kernel, path)

    def learn(self, kernel: Any, name: str, path: str, rate: float = 1.0) -> None:
        """Note a number of theirs, which ours has at ``path``, unless it is fixed."""
        found = getattr(kernel, "hyperparameter_" + name)
        if found.fixed:
            return
        if found.n_elements == 1:
            self.entries.append(Entry(path, None, rate))
        else:
            self.entries += [Entry(path, j, rate) for j in range(found.n_elements)]

    def scales(self, kernel: Any) -> tuple[float, ...] | None:
        """One length scale per feature; None where there is a single one."""
        scale = np.squeeze(kernel.length_scale).astype(float)
        if scale.ndim and len(scale) != self.n_features:
            raise ValueError(
                f"kernel={kernel!r} has {len(scale)} length scales and X has {self.n_features} "
                "features; give one length scale, or one per feature"
            )
        return tuple(scale.tolist()) if scale.ndim else None


def _last_noise(kernel: Any) -> float | None:
    """The level of white noise that is the last term of a sum, and learnt."""
    last: Any = getattr(kernel, "k2", None)
    if not (_is_theirs(kernel, "Sum") and _is_theirs(last, "WhiteKernel")):
        return None
    return None if last.hyperparameter_noise_level.fixed else float(last.noise_level)


def _is_theirs(kernel: Any, name: str) -> bool:
    return type(kernel).__name__ == name and type(kernel).__module__ == MODULE


def _constant(state: _Conversion, kernel: Any, path: str) -> Kernel:
    state.learn(kernel, "constant_value", path + "value")
    return K.Constant(float(kernel.constant_value))


def _white(state: _Conversion, kernel: Any, path: str) -> Kernel:
    state.learn(kernel, "noise_level", path + "value")
    state.white.append(path + "value")
    return K.Constant(float(kernel.noise_level))


def _rbf(state: _Conversion, kernel: Any, path: str) -> Kernel:
    return _radial(state, kernel, path, math.inf)


def _matern(state: _Conversion, kernel: Any, path: str) -> Kernel:
    if kernel.nu not in (0.5, 1.5, 2.5, math.inf):
        raise NoCounterpart
    return _radial(state, kernel, path, float(kernel.nu))


def _radial(state: _Conversion, kernel: Any, path: str, nu: float) -> Kernel:
    scales = state.scales(kernel)
    if scales is None:
        state.learn(kernel, "length_scale", path + "length_scale")
        return K.Matern(nu, float(np.squeeze(kernel.length_scale)))
    state.learn(kernel, "length_scale", path + "scales")
    return K.RBF(0.5, scales) if nu == math.inf else K.Matern(nu, 1.0, scales)


def _rational_quadratic(state: _Conversion, kernel: Any, path: str) -> Kernel:
    state.learn(kernel, "alpha", path + "alpha")
    state.learn(kernel, "length_scale", path + "length_scale")
    return K.RationalQuadratic(float(kernel.alpha), float(kernel.length_scale))


def _periodic(state: _Conversion, kernel: Any, path: str) -> Kernel:
    if state.n_features != 1:  # theirs is the sine of a Euclidean distance, which is no kernel
        raise NoCounterpart
    state.learn(kernel, "length_scale", path + "length_scale")
    state.learn(kernel, "periodicity", path + "period")
    return K.Periodic(float(kernel.periodicity), float(kernel.length_scale))


def _dot_product(state: _Conversion, kernel: Any, path: str) -> Kernel:
    state.learn(kernel, "sigma_0", path + "left__value", rate=2.0)
    return Sum(K.Constant(float(kernel.sigma_0) ** 2), K.Linear())


def _combined(ours: Callable[[Kernel, Kernel], Kernel]) -> Callable[..., Kernel]:
    def convert(state: _Conversion, kernel: Any, path: str) -> Kernel:
        left = state.converted(kernel.k1, path + "left__")
        return ours(left, state.converted(kernel.k2, path + "right__"))

    return convert


def _power(state: _Conversion, kernel: Any, path: str) -> Kernel:
    inner = state.converted(kernel.kernel, path + "kernel__")
    return Power(inner, float(kernel.exponent))


CONVERSIONS: dict[str, Callable[[_Conversion, Any, str], Kernel]] = {
    "ConstantKernel": _constant,
    "DotProduct": _dot_product,
    "ExpSineSquared": _periodic,
    "Exponentiation": _power,
    "Matern": _matern,
    "Product": _combined(Product),
    "RBF": _rbf,
    "RationalQuadratic": _rational_quadratic,
    "Sum": _combined(Sum),
    "WhiteKernel": _white,
}


def bounds_of(kernel: Any) -> np.ndarray:
    """Of theta: (p, 2)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.reshape(kernel.bounds, (-1, 2)).astype(float)


def names_of(kernel: Any) -> tuple[str, ...]:
    """Of the entries of theta: those of the parameters, with an index for vectors."""
    found: list[str] = []
    for each in kernel.hyperparameters:
        if not each.fixed and each.n_elements == 1:
            found.append(each.name)
        elif not each.fixed:
            found += [f"{each.name}[{j}]" for j in range(each.n_elements)]
    return tuple(found)


@dataclass(frozen=True, eq=False)
class GramCovariance:
    """A kernel of scikit-learn's of which only matrices are known, and their gradients.

    What such a kernel adds to the diagonal, as noise, is part of its matrices.
    """

    object: Any

    @property
    def theta(self) -> np.ndarray:
        return self.object.theta

    @property
    def bounds(self) -> np.ndarray:
        return bounds_of(self.object)

    @property
    def names(self) -> tuple[str, ...]:
        return names_of(self.object)

    @property
    def kernel(self) -> None:
        return None

    def at(self, theta: np.ndarray) -> GramCovariance:
        return replace(self, object=self.object.clone_with_theta(theta))

    def gram(self, X: Any, Y: Any = None) -> np.ndarray:
        found = self.object(X) if Y is None else self.object(X, Y)
        return np.array(found, dtype=np.float64, order="C")

    def own(self, X: Any) -> np.ndarray:
        return np.array(self.object.diag(X), dtype=np.float64)

    def errors(self, X: Any) -> np.ndarray:
        return np.zeros(len(X))

    def gradient(self, X: Any, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        slopes = self.object(X, eval_gradient=True)[1]
        return np.einsum("ic,ijk,jc->k", U, slopes, V)

    def contracted(self, X: Any, W: np.ndarray, total: float | None = None) -> np.ndarray:
        slopes = self.object(X, eval_gradient=True)[1]
        whole = np.tril(W) + np.tril(W, -1).T
        return np.einsum("ij,ijk->k", whole, slopes)
