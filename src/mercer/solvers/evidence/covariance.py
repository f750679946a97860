"""The covariance of targets under a kernel whose numbers are learnt, with or without noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.arrays import as_numpy, n_rows, to_float64
from mercer.expressions.contraction import Outer, contracted, points_contracted
from mercer.expressions.gradient import gradient
from mercer.expressions.interpreter import PairMatrix
from mercer.kernels.algebra import Constant, Product
from mercer.kernels.hyperparameters import BOUNDS, Entry, value_at, values, with_values
from mercer.kernels.kernel import Kernel

NOISE = "noise"
# Logarithms of numbers that float64 holds with room to spare.
RANGE = 690.0


@dataclass(frozen=True, eq=False)
class KernelCovariance:
    """``cov(y_i, y_j) = k(x_i, x_j) + [i = j] s(x_i)`` at numbers of k that are logarithms.

    Attributes
    ----------
    whole : Kernel
        k, or with ``white`` the kernel whose diagonal is that of k + s.
    entries : tuple of Entry
        The numbers of ``whole`` that theta moves, one for each entry of theta.
    bounds : (p, 2) array, of theta
    noise : float or None
        A variance s of all errors alike, whose logarithm is the last entry of theta.
    white : tuple of str
        Paths of constants in ``whole`` that count on the diagonal alone.
    labels : tuple of str
        Other names of the entries of theta, if they have any.
    """

    whole: Kernel
    entries: tuple[Entry, ...]
    bounds: np.ndarray
    noise: float | None = None
    white: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def theta(self) -> np.ndarray:
        rates = np.array([entry.rate for entry in self.entries])
        found = np.log(values(self.whole, self.entries)) / rates if len(rates) else rates
        return found if self.noise is None else np.append(found, np.log(self.noise))

    @property
    def names(self) -> tuple[str, ...]:
        if self.labels:
            return self.labels
        found = tuple(entry.name for entry in self.entries)
        return found if self.noise is None else (*found, NOISE)

    @property
    def kernel(self) -> Kernel:
        """k, without what counts on the diagonal alone."""
        return self._kernel

    @cached_property
    def _kernel(self) -> Kernel:
        if not self.white:
            return self.whole
        return with_values(self.whole, [Entry(path) for path in self.white], self._none)

    @property
    def _none(self) -> np.ndarray:
        return np.zeros(len(self.white))

    def at(self, theta: np.ndarray) -> KernelCovariance:
        theta, p = np.asarray(theta, dtype=float), len(self.entries)
        noise = None if self.noise is None else float(np.exp(np.clip(theta[p], -RANGE, RANGE)))
        rates = np.array([entry.rate for entry in self.entries])
        numbers = np.exp(np.clip(rates * theta[:p], -RANGE, RANGE))
        return replace(self, whole=with_values(self.whole, self.entries, numbers), noise=noise)

    # Values.

    def gram(self, X: Any, Y: Any = None) -> np.ndarray:
        with np.errstate(over="ignore"):  # an infinite value has no evidence
            if Y is None:
                return np.ascontiguousarray(as_numpy(self._pairs(X).gram()), dtype=np.float64)
            X, Y = to_float64(X), to_float64(Y)
            return np.ascontiguousarray(as_numpy(self.kernel(X, Y)), dtype=np.float64)

    def own(self, X: Any) -> np.ndarray:
        return np.array(as_numpy(self.kernel.diag(to_float64(X))), dtype=np.float64)

    def errors(self, X: Any) -> np.ndarray:
        found = np.full(n_rows(X), 0.0 if self.noise is None else self.noise)
        if self.white:
            found += as_numpy(self.whole.diag(to_float64(X))) - self.own(X)
        return found

    # Slopes.

    def gradient(self, X: Any, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        U, V = (A.reshape(len(A), -1) for A in (U, V))
        weight = as_numpy((U * V).sum(1))
        return self._by_theta(X, gradient(self._pairs(X), U, V, self._paths), weight)

    def contracted(self, X: Any, W: np.ndarray, total: float | None = None) -> np.ndarray:
        factor = None if total is None else self._factor
        found = contracted(self._pairs(X), W, self._paths - {factor})
        if factor is not None:
            found[factor] = total / value_at(self.whole, factor)
        return self._by_theta(X, found, W.diagonal())

    @cached_property
    def _factor(self) -> str | None:
        """The path of a constant to be learnt that multiplies all of k."""
        kernel, path = self.whole, ""
        while isinstance(kernel, Product) and not self.white:
            for side in ("left", "right"):
                constant = isinstance(getattr(kernel, side), Constant)
                if constant and f"{path}{side}__value" in self._paths:
                    return f"{path}{side}__value"
            kernel, path = kernel.left, path + "left__"
        return None

    def cross_contracted(self, X: Any, Z: Any, W: np.ndarray | Outer) -> np.ndarray:
        Z = None if Z is None else to_float64(Z)
        pairs = self.kernel.over(to_float64(X), Z)
        return self._of_kernel(contracted(pairs, W, self._paths))

    def points_contracted(self, X: Any, Z: Any, W: np.ndarray) -> np.ndarray:
        found = points_contracted(self.kernel.over(to_float64(X), to_float64(Z)), W)
        if found is None:
            raise TypeError(
                f"inducing points can be moved where the kernel is a function of squared distances "
                f"and dot products of dense vectors, and {self.kernel!r} is not; keep them fixed"
            )
        return found

    def own_contracted(self, X: Any, weight: np.ndarray) -> np.ndarray:
        pairs = self._pairs(X)
        known, found = pairs.formula.parameters(), np.zeros(len(self.theta))
        for j, entry in enumerate(self.entries):
            if entry.path in known and entry.path not in self.white:
                found[j] = weight @ _diagonal_slope(pairs, entry.path, entry.index)
        found[: len(self.entries)] *= self._rates
        return found

    def errors_contracted(self, X: Any, weight: np.ndarray) -> np.ndarray:
        return self._by_theta(X, {}, weight)

    @property
    def _paths(self) -> set[str]:
        return {entry.path for entry in self.entries}

    def _pairs(self, X: Any) -> PairMatrix:
        """The kernel over all pairs of X; the last is cached, for the gradient after the value."""
        last = self.__dict__.get("_last")
        if last is None or last[0] is not X:
            last = self.__dict__["_last"] = (X, self.kernel.over(to_float64(X)))
        return last[1]

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def _of_kernel(self, by_path: Mapping[str, Any]) -> np.ndarray:
        """The chain rule from numbers to theta, of k alone."""
        found = np.array([self._slope(by_path, entry) for entry in self.entries]) * self._rates
        return found if self.noise is None else np.append(found, 0.0)

    def _by_theta(self, X: Any, by_path: Mapping[str, Any], weight: np.ndarray) -> np.ndarray:
        """The chain rule from numbers to theta, with what acts on the diagonal alone."""
        found = np.array([self._slope(by_path, entry) for entry in self.entries])
        if self.white and len(found):
            found += self._on_diagonal(X, weight)
        found *= self._rates
        return found if self.noise is None else np.append(found, weight.sum() * self.noise)

    def _slope(self, by_path: Mapping[str, Any], entry: Entry) -> float:
        if entry.path in self.white or entry.path not in by_path:
            return 0.0
        slope = by_path[entry.path]
        return float(slope if entry.index is None else slope[entry.index])

    def _on_diagonal(self, X: Any, weight: np.ndarray) -> np.ndarray:
        """Σ_i weight_i ∂s(x_i)/∂value for each entry."""
        whole, part = self.whole.over(to_float64(X)), self._pairs(X)
        known, found = part.formula.parameters(), np.zeros(len(self.entries))
        for j, entry in enumerate(self.entries):
            path, index = entry.path, entry.index
            found[j] = weight @ _diagonal_slope(whole, path, index)
            if path not in self.white and path in known:
                found[j] -= weight @ _diagonal_slope(part, path, index)
        return found

    @property
    def _rates(self) -> np.ndarray:
        """d value / d theta for each entry."""
        rates = np.array([entry.rate for entry in self.entries])
        return rates * values(self.whole, self.entries) if len(rates) else rates


def _diagonal_slope(pairs: PairMatrix, path: str, index: int | None) -> np.ndarray:
    slope = pairs.derivative(path, index)
    return np.asarray(slope.diagonal(), dtype=np.float64)


def of_kernel(
    kernel: Kernel,
    entries: Sequence[Entry],
    *,
    noise: float | None = None,
    bounds: Mapping[str, Any] | None = None,
) -> KernelCovariance:
    """A covariance of a kernel of ours, with bounds by path; "fixed" takes an entry away.

    Parameters
    ----------
    kernel : Kernel
    entries : what may be learnt
    noise : float, optional
        A variance of the errors to begin with, learnt too.
    bounds : mapping from path, or ``"noise"``, to (low, high) or "fixed"
    """
    given = dict(bounds or {})
    kept, limits = [], []
    for entry in entries:
        own = given.get(entry.name, given.get(entry.path, BOUNDS))
        if not isinstance(own, str):
            kept.append(entry)
            limits.append(np.log(np.asarray(own, dtype=float)))
    if noise is not None:
        own = given.get(NOISE, BOUNDS)
        limits.append(np.log(np.asarray(own, dtype=float)))
    return KernelCovariance(kernel, tuple(kept), np.array(limits).reshape(-1, 2), noise)
