"""How a statistic sees the input: checked, columns picked, scaled, mapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from mercer.arrays import Array, as_dense, dtype_of, is_tensor, like, namespace, to_float64
from mercer.expressions.hashing import frozen


class Step(Protocol):
    """One stage of a view. Steps are hashable, so that equal views share their work."""

    def apply(self, X: Any, name: str) -> Any: ...


@frozen
class Check:
    """Refuse what lies outside the domain, with a message that names the argument."""

    domain: Any

    def apply(self, X: Any, name: str) -> Any:
        return self.domain.check(X, name)


@frozen
class Map:
    """Apply a function to the whole set of points."""

    function: Callable[[Any], Any]

    def apply(self, X: Any, name: str) -> Any:
        return self.function(X)


@frozen
class Scale:
    """x_j / s_j: each feature measured in units of its own scale."""

    path: str
    scales: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.scales)

    def apply(self, X: Array, name: str) -> Array:
        if X.shape[1] != len(self.scales):
            raise ValueError(
                f"{name} has {X.shape[1]} features but scales has {len(self.scales)} entries; "
                "give one scale per feature"
            )
        own: Any = self.scales if is_tensor(self.scales) else np.asarray(self.scales)
        return self._times(X, 1 / own)

    def with_tensor(self, scales: Any) -> Self:
        return replace(self, scales=scales)

    def derivative(self, X: Array, whole: Array, index: int | None) -> Array:
        factors = np.zeros(len(self.scales))
        chosen = slice(None) if index is None else index
        factors[chosen] = -1 / np.square(np.asarray(self.scales)[chosen])
        return self._times(whole, factors)

    def chain(self, X: Array, dX: Array) -> Array:
        return self._times(dX, 1 / np.asarray(self.scales))

    @staticmethod
    def _times(X: Array, factors: Any) -> Array:
        if is_tensor(X):
            return X * like(factors, X)
        if np.abs(factors).max() <= np.finfo(X.dtype).max:  # float32 stays float32 where it can
            factors = factors.astype(X.dtype)
        return (X @ sp.diags_array(factors)).tocsr() if sp.issparse(X) else X * factors


@frozen
class Unit:
    """x / ‖x‖, and 0 where x = 0: each point at length one, without overflow on the way."""

    def apply(self, X: Array, name: str) -> Array:
        # Dividing by the power of two below the largest entry costs no digits.
        if is_tensor(X):
            xp, most = namespace(X), np.finfo(dtype_of(X)).maxexp - 2
            exponent = xp.frexp(X.abs().amax(1, keepdim=True)).exponent
            shrunk = X * xp.exp2(-exponent.clamp(-most, most).to(X.dtype))
            length = xp.linalg.vector_norm(shrunk, dim=1, keepdim=True)
            return xp.where(length == 0, 0.0, shrunk / xp.where(length == 0, 1.0, length))
        most = np.finfo(X.dtype).maxexp - 1
        shrunk = _times_rows(X, np.ldexp(1.0, np.minimum(-np.frexp(_largest(X))[1], most)))
        return _times_rows(shrunk, _reciprocal(row_norms(shrunk)))

    def chain(self, X: Array, dX: Array) -> Array:
        X, dX = as_dense(X), as_dense(dX)
        unit = self.apply(X, "X")
        along = (unit * dX).sum(1)[:, None]
        if is_tensor(X):
            return ((dX - along * unit) / X.norm(dim=1)[:, None]).nan_to_num(0.0)
        return (dX - along * unit) * _reciprocal(row_norms(X))[:, None]


# Binary exponents of points whose squares, and sums of them, are well within float32's range.
ORDINARY = (-47, 52)
LARGEST_EXPONENT = 1000  # of a power of two whose inverse is a number as well


@frozen
class RowUnit:
    """A function of points: for each a power of two close to its largest entry.

    It is one for points of ordinary size, which are most.
    """

    def __call__(self, X: Array) -> Any:
        if is_tensor(X):
            return namespace(X).exp2(self.exponents(X).to(namespace(X).float64))
        return np.ldexp(1.0, self.exponents(X))

    @staticmethod
    def exponents(X: Array) -> Any:
        xp = namespace(X)
        largest = X.abs().amax(1) if is_tensor(X) else _largest(X)
        exponents = xp.clip(xp.frexp(largest)[1], -LARGEST_EXPONENT, LARGEST_EXPONENT)
        least, most = ORDINARY
        return xp.where((exponents < least) | (exponents > most), exponents, 0)


@frozen
class InRowUnits:
    """x divided by its `RowUnit`, exactly: squared norms then neither over- nor underflow."""

    def apply(self, X: Array, name: str) -> Array:
        exponents = RowUnit.exponents(X)
        if not bool(exponents.any()):
            return X
        X = to_float64(X)  # for quotients of units, which float32 may not hold
        if is_tensor(X):
            return X * namespace(X).exp2(-exponents.to(X.dtype))[:, None]
        if not sp.issparse(X):
            return np.ldexp(X, -exponents[:, None])
        X = sp.csr_array(X)
        data = np.ldexp(X.data, -np.repeat(exponents, np.diff(X.indptr)))
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _largest(X: Array) -> np.ndarray:
    """The largest |x_j| of each row, without a copy of the points."""
    most, least = X.max(axis=1), X.min(axis=1)
    if sp.issparse(X):
        most, least = most.toarray().ravel(), least.toarray().ravel()
    return np.maximum(most, -least)


def _reciprocal(a: np.ndarray) -> np.ndarray:
    return np.divide(1, a, out=np.zeros_like(a), where=a > 0)


def _times_rows(X: Array, factors: np.ndarray) -> Array:
    factors = factors.astype(X.dtype, copy=False)
    return (sp.diags_array(factors) @ X).tocsr() if sp.issparse(X) else X * factors[:, None]


@frozen
class Circle:
    """(cos t_j, sin t_j) with t_j = 2π x_j / period: each feature wound round a circle."""

    path: str
    period: float
    size: None = None

    def apply(self, X: Array, name: str) -> Array:
        return namespace(X).hstack(self._around(X))

    def with_tensor(self, period: Any) -> Self:
        return replace(self, period=period)

    def derivative(self, X: Array, whole: Array, index: int | None) -> Array:
        return self.chain(X, -as_dense(whole) / self.period)

    def chain(self, X: Array, dX: Array) -> Array:
        (cos, sin), dt = self._around(X), as_dense(dX) * (2 * np.pi / self.period)
        return namespace(X).hstack([-sin * dt, cos * dt])

    def _around(self, X: Array) -> list[Any]:
        """cos t and sin t, of t within one period and in double: fmod loses no digits."""
        X, xp = as_dense(X), namespace(X)
        t = xp.fmod(to_float64(X), self.period) * (2 * np.pi / self.period)
        return [like(f(t), X) for f in (xp.cos, xp.sin)]


@frozen
class Within:
    """x_j less a multiple of its period: nothing that a periodic function of x_j sees.

    Before points are divided by scales, so that those far from the origin keep their digits.
    """

    periods: tuple[float, ...]

    def apply(self, X: Array, name: str) -> Array:
        X = as_dense(X)
        if X.shape[1] != len(self.periods):
            return X  # which the scales refuse
        return like(namespace(X).fmod(to_float64(X), like(self.periods, to_float64(X))), X)


@frozen
class View:
    """A chain of steps from the user's input to the points a statistic is taken of."""

    steps: tuple[Any, ...] = ()

    def then(self, *steps: Step) -> View:
        return View(self.steps + steps)

    def apply(self, X: Any, name: str, tensors: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """The points that a statistic is taken of.

        Hyperparameters that are tensors, by path, stand in for the numbers of the steps.
        """
        moves = any(getattr(step, "path", None) in tensors for step in self.steps)
        for step in self.steps:
            if moves and isinstance(step, Within):
                continue  # multiples of a period count where the period has a derivative
            given = tensors.get(getattr(step, "path", ""))
            X = (step if given is None else step.with_tensor(given)).apply(X, name)
        return X

    def parameters(self) -> dict[str, int | None]:
        """Paths of the hyperparameters this view depends on, with their sizes (None: a scalar)."""
        return {step.path: step.size for step in self.steps if hasattr(step, "derivative")}

    def owners(self, path: str) -> np.ndarray | None:
        """For each output feature, the one entry of the vector ``path`` that moves it.

        None where features move with several of its entries.
        """
        own = None
        for step in self.steps:
            if getattr(step, "path", None) == path:
                own = np.arange(step.size)
            elif own is not None and isinstance(step, Circle):
                own = np.tile(own, 2)
            elif own is not None and hasattr(step, "chain") and not isinstance(step, Scale):
                return None
        return own

    def tangent(self, X: Any, path: str, index: int | None, name: str) -> Array:
        """How the output changes with one hyperparameter (one entry of it, given ``index``)."""
        # Derivatives are in proportion to the points before whole periods are taken away.
        dX, whole = None, X
        for step in self.steps:
            if dX is not None:
                dX = step.chain(X, dX) if hasattr(step, "chain") else dX
            if getattr(step, "path", None) == path:
                own = step.derivative(X, whole, index)
                dX = own if dX is None else dX + own
            before, X = X, step.apply(X, name)
            if not isinstance(step, Within):
                whole = X if whole is before else step.apply(whole, name)
        assert dX is not None, f"the view does not depend on {path}"
        return dX
