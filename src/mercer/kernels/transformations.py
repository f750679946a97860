"""Kernels made of one other kernel: exponential, normalised, rescaled, composed, on columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from mercer.arrays import n_rows
from mercer.expressions import Expression, Map, Pairs, Point, Statistic, View, diagonal, normalised
from mercer.expressions import exp as exp_node
from mercer.expressions import statistic as statistic_node
from mercer.kernels import feature_maps as maps
from mercer.kernels.algebra import bracketed
from mercer.kernels.domains import ANYTHING, TABLES, Domain
from mercer.kernels.kernel import Kernel
from mercer.kernels.validity import Validity, valid


def exp(operand: Kernel | Expression) -> Any:
    """exp(k(x, z)) of a kernel; of a formula in `sqnorm`, the formula's exponential."""
    if isinstance(operand, Expression):
        return exp_node(operand)
    if not isinstance(operand, Kernel):
        raise TypeError(f"exp takes a kernel or a formula in sqnorm; got {operand!r}")
    return Exp(operand)


class _Unary(Kernel):
    """A kernel made of one other; subclasses say what they do to its formula."""

    rule = ""
    kernel: Kernel

    def transform(self, inner: Expression, view: View) -> Expression:
        raise NotImplementedError

    def build(self, view: View, path: str) -> Expression:
        return self.transform(self.kernel.build(view, path + "kernel__"), view)

    @property
    def domain(self) -> Domain:
        return self.kernel.domain

    @property
    def is_infinitely_divisible(self) -> bool:
        return self.kernel.is_infinitely_divisible

    def judge(self) -> Validity:
        inner = self.kernel.judge()
        if inner.status == "valid":
            return valid(f"{self!r} is a kernel", self.rule, inner.proof)
        return self.searched(
            f"the rule ({self.rule}) needs a valid kernel inside, and no counterexample was found"
        )


class Exp(_Unary):
    """exp(k(x, z)).

    Parameters
    ----------
    kernel : Kernel
    """

    rule = "exponential: a limit of polynomials with non-negative coefficients"

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def transform(self, inner: Expression, view: View) -> Expression:
        return exp_node(inner)

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    @property
    def distance(self) -> Hashable | None:
        return self.kernel.distance

    @property
    def is_infinitely_divisible(self) -> bool:
        return self.kernel.judge().status == "valid"

    def __repr__(self, N_CHAR_MAX: int = 0) -> str:
        return f"exp({self.kernel!r})"


class Normalized(_Unary):
    """k(x, z) / sqrt(k(x, x) k(z, z)), zero where k(x, x) or k(z, z) is.

    Parameters
    ----------
    kernel : Kernel
    """

    rule = "normalisation: f(x) k(x,z) f(z) with f(x) = k(x,x)^(-1/2), 0 where k(x,x) = 0"

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def transform(self, inner: Expression, view: View) -> Expression:
        return normalised(inner)

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    @property
    def distance(self) -> Hashable | None:
        return self.kernel.distance

    def feature_map(self) -> maps.FeatureMap:
        return maps.RescaledMap(self.kernel.feature_map(), self._factor)

    def _factor(self, X: Any) -> np.ndarray:
        squared = self.kernel.diag(X)
        return np.divide(1, np.sqrt(squared), out=np.zeros_like(squared), where=squared > 0)

    def __repr__(self, N_CHAR_MAX: int = 0) -> str:
        return f"{bracketed(self.kernel)}.normalize()"


sqnorm = statistic_node("dot")
"""‖x‖², for formulas given to ``rescale``: ``rescale(exp(-0.5 * sqnorm))``."""


class Rescaled(_Unary):
    """f(x) k(x, z) f(z).

    Parameters
    ----------
    kernel : Kernel
    function : callable or Expression
        A function from n points to n numbers, or a formula in `sqnorm`. A formula is part of the
        kernel's expression, so its exponentials fuse with the kernel's own and do not overflow.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> gaussian = K.exp(1.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm))
    >>> float(gaussian([[1000.0]], [[1001.0]])[0, 0]) == float(K.RBF(0.5)([[0.0]], [[1.0]])[0, 0])
    True
    """

    rule = "f(x) k(x,z) f(z)"

    def __init__(self, kernel: Kernel, function: Any):
        self.kernel = kernel
        self.function = function

    def transform(self, inner: Expression, view: View) -> Expression:
        if isinstance(self.function, Expression):
            f = _with_view(self.function, view)
            return inner * diagonal(f, 0) * diagonal(f, 1)
        if not callable(self.function):
            raise TypeError(
                f"rescale needs a function of points or a formula in sqnorm; got {self.function!r}"
            )
        return inner * Point(self.function, view, 0) * Point(self.function, view, 1)

    @property
    def is_infinitely_divisible(self) -> bool:
        return False  # unless f is positive, which nobody has said

    def feature_map(self) -> maps.FeatureMap:
        return maps.RescaledMap(self.kernel.feature_map(), self._factor)

    def _factor(self, X: Any) -> np.ndarray:
        if isinstance(self.function, Expression):
            return Pairs(diagonal(self.function, 0), X).diagonal()
        return np.asarray(self.function(X), dtype=float)

    def __repr__(self, N_CHAR_MAX: int = 0) -> str:
        return f"{bracketed(self.kernel)}.rescale({_function_text(self.function)})"


class Composed(_Unary):
    """k(phi(x), phi(z)).

    Parameters
    ----------
    kernel : Kernel
    function : callable
        phi, from n points to n points of the kernel's domain.
    """

    rule = "composition with a map"

    def __init__(self, kernel: Kernel, function: Callable[[Any], Any]):
        self.kernel = kernel
        self.function = function

    def build(self, view: View, path: str) -> Expression:
        if not callable(self.function):
            raise TypeError(f"compose needs a function of points; got {self.function!r}")
        return self.kernel.build(view.then(Map(self._mapped)), path + "kernel__")

    def _mapped(self, X: Any) -> Any:
        mapped = self.function(X)
        if n_rows(mapped) != n_rows(X):
            raise ValueError(
                f"the function given to compose returned {n_rows(mapped)} points for {n_rows(X)}"
            )
        return mapped

    @property
    def domain(self) -> Domain:
        return ANYTHING

    def judge(self) -> Validity:
        inner = self.kernel.judge()
        if inner.status == "valid":
            return valid(f"{self!r} is a kernel", self.rule, inner.proof)
        return Validity(
            "unknown", reason="the kernel composed is not valid, but may be on the map's range"
        )

    def feature_map(self) -> maps.FeatureMap:
        return maps.ComposedMap(self._mapped, self.kernel.feature_map())

    def __repr__(self, N_CHAR_MAX: int = 0) -> str:
        return f"{bracketed(self.kernel)}.compose({_function_text(self.function)})"


class OnColumns(_Unary):
    """The kernel on some columns of a table.

    Parameters
    ----------
    kernel : Kernel
    columns : str, int, or a list of either
        One name or position gives a kernel on objects that column; a list gives vectors.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> k = K.Spectrum(2).on(0) + K.RBF(gamma=1.0).on([1])
    >>> k(np.array([["abab", 1.0], ["abba", 2.0]], dtype=object)).round(3).tolist()
    [[6.0, 3.368], [3.368, 4.0]]
    """

    rule = "composition with the choice of columns"

    def __init__(self, kernel: Kernel, columns: Any):
        self.kernel = kernel
        self.columns = columns

    def build(self, view: View, path: str) -> Expression:
        chosen = _hashable_columns(self.columns)
        pick = PickColumns(chosen, self.kernel.domain.is_vectors)
        return self.kernel.build(view.then(pick), path + "kernel__")

    @property
    def domain(self) -> Domain:
        return TABLES

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    @property
    def distance(self) -> Hashable | None:
        inner = self.kernel.distance
        return None if inner is None else (inner, _hashable_columns(self.columns))

    def judge(self) -> Validity:
        inner = self.kernel.judge()
        if inner.status == "valid":
            return valid(f"{self!r} is a kernel", self.rule, inner.proof)
        return Validity(inner.status, None, inner.counterexample, f"on its columns: {inner.reason}")

    def feature_map(self) -> maps.FeatureMap:
        pick = PickColumns(_hashable_columns(self.columns), self.kernel.domain.is_vectors)
        return maps.ComposedMap(pick, self.kernel.feature_map())

    def __repr__(self, N_CHAR_MAX: int = 0) -> str:
        return f"{bracketed(self.kernel)}.on({self.columns!r})"


@dataclass(frozen=True)
class PickColumns:
    """A view's step, and a function: some columns of a table, one alone as objects or numbers."""

    columns: Any
    as_vectors: bool

    def __call__(self, X: Any) -> Any:
        return self.apply(X, "X")

    def apply(self, X: Any, name: str) -> Any:
        single = not isinstance(self.columns, tuple)
        wanted = [self.columns] if single else list(self.columns)
        if hasattr(X, "iloc"):
            missing = [c for c in wanted if isinstance(c, str) and c not in X.columns]
            if missing:
                raise ValueError(
                    f"{name} has no column {missing[0]!r}; it has {list(map(str, X.columns))}"
                )
            parts = X[wanted] if all(isinstance(c, str) for c in wanted) else X.iloc[:, wanted]
            return parts.iloc[:, 0] if single and not self.as_vectors else parts
        if any(isinstance(c, str) for c in wanted):
            raise TypeError(
                f"columns {wanted} are names, and {name} is a {type(X).__name__} without names; "
                "pass a DataFrame or give positions"
            )
        if not hasattr(X, "shape"):
            X = np.array(X, dtype=object)
        if len(X.shape) != 2 or max(wanted) >= X.shape[1]:
            raise ValueError(f"{name} has shape {X.shape}; columns {wanted} were asked for")
        picked = X[:, wanted]
        if not self.as_vectors:
            return picked[:, 0] if single else picked
        return picked.astype(float) if picked.dtype.kind == "O" else picked


def _hashable_columns(columns: Any) -> Any:
    if isinstance(columns, str | Integral):
        return columns
    if isinstance(columns, list | tuple | np.ndarray) and len(columns):
        return tuple(c if isinstance(c, str) else int(c) for c in columns)
    raise TypeError(
        f"on(columns) takes a column name, a position or a list of them; got {columns!r}"
    )


def _with_view(e: Expression, view: View) -> Expression:
    """A formula in statistics of the raw points, moved to the points a view shows."""
    if isinstance(e, Statistic):
        return Statistic(e.kind, view)
    return e.rebuild(tuple(_with_view(c, view) for c in e.children()))


def _function_text(function: Any) -> str:
    if isinstance(function, Expression):
        return f"<{function}>"
    return f"<{getattr(function, '__name__', type(function).__name__)}>"
