"""How a statistic sees the input: checked, columns picked, scaled, mapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np

from mercer.arrays import Array, as_dense, backend, dtype_of, like, namespace, to_float64
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
        scales = backend(self.scales).asarray(self.scales)
        return backend(X).scale_columns(X, 1 / scales)

    def with_tensor(self, scales: Any) -> Self:
        return replace(self, scales=scales)

    def derivative(self, X: Array, whole: Array, index: int | None) -> Array:
        factors = np.zeros(len(self.scales))
        chosen = slice(None) if index is None else index
        factors[chosen] = -1 / np.square(np.asarray(self.scales)[chosen])
        return backend(whole).scale_columns(whole, factors)

    def chain(self, X: Array, dX: Array) -> Array:
        return backend(dX).scale_columns(dX, 1 / np.asarray(self.scales))


@frozen
class Unit:
    """x / ‖x‖, and 0 where x = 0: each point at length one, without overflow on the way."""

    def apply(self, X: Array, name: str) -> Array:
        arrays, most = backend(X), np.finfo(dtype_of(X)).maxexp - 2
        # Dividing by the power of two below the largest entry costs no digits.
        exponents = arrays.xp.frexp(arrays.row_maxima(X))[1]
        shrunk = arrays.scale_rows(X, arrays.powers_of_two(arrays.xp.clip(-exponents, -most, most)))
        return arrays.scale_rows(shrunk, _reciprocal(arrays.row_norms(shrunk)))

    def chain(self, X: Array, dX: Array) -> Array:
        X, dX = as_dense(X), as_dense(dX)
        unit = self.apply(X, "X")
        along = (unit * dX).sum(1)[:, None]
        return (dX - along * unit) * _reciprocal(backend(X).row_norms(X))[:, None]


# Binary exponents of points whose squares, and sums of them, are well within float32's range.
ORDINARY = (-47, 52)
LARGEST_EXPONENT = 1000  # of a power of two whose inverse is a number as well


@frozen
class RowUnit:
    """A function of points: for each a power of two close to its largest entry.

    It is one for points of ordinary size, which are most.
    """

    def __call__(self, X: Array) -> Any:
        return backend(X).powers_of_two(self.exponents(X))

    @staticmethod
    def exponents(X: Array) -> Any:
        xp = namespace(X)
        exponents = xp.frexp(backend(X).row_maxima(X))[1]
        exponents = xp.clip(exponents, -LARGEST_EXPONENT, LARGEST_EXPONENT)
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
        return backend(X).scale_rows(X, backend(X).powers_of_two(-exponents))


def _reciprocal(a: Any) -> Any:
    """1/a, and 0 where a = 0."""
    xp = namespace(a)
    return xp.where(a == 0, 0.0, 1 / xp.where(a == 0, 1.0, a))


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
class Shift:
    """x_j - location: each feature measured from one place."""

    path: str
    location: float
    size: None = None

    def apply(self, X: Array, name: str) -> Array:
        return as_dense(X) - self.location

    def with_tensor(self, location: Any) -> Self:
        return replace(self, location=location)

    def derivative(self, X: Array, whole: Array, index: int | None) -> Array:
        return namespace(X).zeros_like(as_dense(X)) - 1

    def chain(self, X: Array, dX: Array) -> Array:
        return dX


@frozen
class Logistic:
    """1 / (1 + exp(-x_j / width)), or with ``falling`` 1 / (1 + exp(x_j / width))."""

    path: str
    width: float
    falling: bool = False
    size: None = None

    def apply(self, X: Array, name: str) -> Array:
        t = as_dense(X) * (0.5 / self.width)
        return 0.5 + 0.5 * namespace(X).tanh(-t if self.falling else t)

    def with_tensor(self, width: Any) -> Self:
        return replace(self, width=width)

    def derivative(self, X: Array, whole: Array, index: int | None) -> Array:
        return self.chain(X, -as_dense(X) / self.width)

    def chain(self, X: Array, dX: Array) -> Array:
        s = self.apply(X, "X")
        slope = s * (1 - s) / self.width
        return as_dense(dX) * (-slope if self.falling else slope)


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
