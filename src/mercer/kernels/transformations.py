"""Kernels made of one other kernel: exponential, normalised, rescaled, composed, on columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from mercer.arrays import n_rows
from mercer.expressions import (
    Check,
    Expression,
    Map,
    PairMatrix,
    Point,
    Statistic,
    View,
    diagonal,
    lower,
    normalised,
)
from mercer.expressions import Constant as Number
from mercer.expressions import exp as exp_node
from mercer.expressions import statistic as statistic_node
from mercer.kernels import feature_maps as maps
from mercer.kernels.algebra import bracketed, spectral_terms
from mercer.kernels.domains import ANYTHING, REALS, Domain, named, table_layout, tables
from mercer.kernels.kernel import Kernel, literal
from mercer.kernels.validity import Validity, indefinite, valid

# Normalisations within each other: the formulas of four can take minutes to write out.
MOST_NORMALISATIONS = 3


def exp(operand: Kernel | Expression) -> Any:
    """exp(k(x, z)) of a kernel; of a formula in `sqnorm`, the formula's exponential.

    exp(k) overflows for k > 709 in float64 (88 in float32). Its normalised form does not: see
    `Normalized`.
    """
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

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        # exp(k) = Σ_m k^m / m!, in which the power m has the weight of a Poisson variable at m.
        _, weights = spectral_terms(self.kernel, d)
        powers = rng.poisson(weights.sum(), size=n)
        out = np.zeros((n, d))
        draws = self.kernel.frequencies(rng, int(powers.sum()), d)
        np.add.at(out, np.repeat(np.arange(n), powers), draws)
        return out

    def __repr__(self) -> str:
        return f"exp({self.kernel!r})"


class Normalized(_Unary):
    """k(x, z) / sqrt(k(x, x) k(z, z)), zero where k(x, x) or k(z, z) is.

    Factors and terms are normalised one by one, so that nothing overflows on the way. The
    normalised exponential of k is exp(-D), with D = k(x,x)/2 + k(z,z)/2 - k(x,z).

    Parameters
    ----------
    kernel : Kernel
        Not one that is zero everywhere. At most three normalisations within each other.

    Notes
    -----
    Accuracy, with eps the rounding of the points' dtype:

    * ``diag(X)`` and the diagonal of ``k(X)`` are 1 up to a few eps, and exactly 1 for an
      exponential.
    * D is computed from distances for sums, products and integer powers of Linear, Polynomial, Min
      and kernels of a distance. It is exactly 0 at equal points, and its error is about
      eps sqrt(D k(x,x)) nearby.
    * For other exponents, such as Conjunction, and for points that are nearly opposed, the error of
      D is about eps k(x,x). So exp(k).normalize() has few digits where k(x,x) is above 1e12.
    * No value of an exponential is above 1 where its exponent is a kernel by one of these rules.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> K.exp(K.Polynomial(4)).normalize()([[30.0, 9.0], [30.0, 9.00001]]).round(6).tolist()
    [[1.0, 0.789576], [0.789576, 1.0]]
    """

    rule = "normalisation: f(x) k(x,z) f(z) with f(x) = k(x,x)^(-1/2), 0 where k(x,x) = 0"

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def build(self, view: View, path: str) -> Expression:
        levels = _normalisations(self)
        if levels > MOST_NORMALISATIONS:
            raise ValueError(
                f"{levels} normalisations within each other; at most {MOST_NORMALISATIONS} are "
                "possible, since each multiplies the length of the formula: normalise the parts "
                "only, or the whole"
            )
        return super().build(view, path)

    def transform(self, inner: Expression, view: View) -> Expression:
        self._refuse_zero(inner)
        return normalised(inner)

    def _refuse_zero(self, inner: Expression) -> None:
        kernel = self.kernel
        try:
            # Kernels of objects may hold large tables, which an expansion would compare.
            expanded = kernel.domain.is_vectors and kernel.expand().is_zero
            is_zero = expanded or lower(inner) == Number(0.0)
        except ValueError:  # an expansion too long to write out, or a diagonal that is negative
            return
        if is_zero:
            raise ValueError(
                f"{kernel!r} is zero everywhere and cannot be normalised: k(x,z) / "
                "sqrt(k(x,x) k(z,z)) is 0/0 for all points; check the signs of its terms"
            )

    def judge(self) -> Validity:
        self._refuse_zero(self.kernel.expression())
        return super().judge()

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

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        return self.kernel.frequencies(rng, n, d)

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)}.normalize()"


def _normalisations(kernel: Kernel) -> int:
    """How many normalisations are within each other."""
    parts = [part for part in vars(kernel).values() if isinstance(part, Kernel)]
    return isinstance(kernel, Normalized) + max(map(_normalisations, parts), default=0)


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
            f = _with_view(self.function, view.then(Check(REALS)))
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
            f = _with_view(self.function, View().then(Check(REALS)))
            return PairMatrix(diagonal(f, 0), X).diagonal()
        return np.asarray(self.function(X), dtype=float)

    def __repr__(self) -> str:
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

    def __repr__(self) -> str:
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
        return self.kernel.build(view.then(self._pick()), path + "kernel__")

    def _pick(self) -> PickColumns:
        return PickColumns(_hashable_columns(self.columns), self.kernel.domain.is_vectors)

    @property
    def domain(self) -> Domain:
        return tables(self._pick().wanted)

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
        if inner.counterexample is not None:
            table = self._pick().place(inner.counterexample.points)
            if table is not None:
                shown = indefinite(self, table, f"on its columns: {inner.reason}")
                if shown.status == "indefinite":
                    return shown
        return self.searched("the kernel inside is not valid, but may be on so many columns")

    def feature_map(self) -> maps.FeatureMap:
        return maps.ComposedMap(self._pick(), self.kernel.feature_map())

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)}.on({literal(self.columns)})"


@dataclass(frozen=True)
class PickColumns:
    """A view's step, and a function: some columns of a table, one alone as objects or numbers."""

    columns: Any
    as_vectors: bool

    def __call__(self, X: Any) -> Any:
        return self.apply(X, "X")

    @property
    def wanted(self) -> tuple[str | int, ...]:
        return self.columns if isinstance(self.columns, tuple) else (self.columns,)

    def apply(self, X: Any, name: str) -> Any:
        if not hasattr(X, "shape"):
            X = np.array(X, dtype=object)
        if len(X.shape) != 2:
            raise ValueError(f"{name} has shape {X.shape}; expected a table, shape (n, d)")
        positions = [self._position(c, X, name) for c in self.wanted]
        picked = X.iloc[:, positions] if hasattr(X, "iloc") else X[:, positions]
        if self.as_vectors or isinstance(self.columns, tuple):
            return picked
        return picked.iloc[:, 0] if hasattr(X, "iloc") else picked[:, 0]

    def _position(self, column: str | int, X: Any, name: str) -> int:
        names = list(X.columns) if hasattr(X, "columns") else None  # of pandas and polars
        if isinstance(column, str):
            if names is None:
                raise TypeError(
                    f"column {column!r} is a name, and {name} is a {type(X).__name__} without "
                    "names; pass a DataFrame or give positions"
                )
            if column in names:
                return names.index(column)
        elif -X.shape[1] <= column < X.shape[1]:
            return column
        held = X.shape[1] if names is None else list(map(str, names))
        raise ValueError(f"{name} has no column {column!r}; it has {held}")

    def place(self, points: Any) -> Any:
        """A table with these points in the columns and zeros elsewhere; None if they do not fit."""
        points = np.asarray(points)
        if not self.as_vectors or points.shape[1] > len(self.wanted):
            return None
        names, width = table_layout(self.wanted)
        table = np.zeros((len(points), width))
        at = [names.index(c) if isinstance(c, str) else c for c in self.wanted]
        table[:, at[: points.shape[1]]] = points
        return named(table, names)


def _hashable_columns(columns: Any) -> Any:
    if _is_column(columns):
        return columns
    several = isinstance(columns, list | tuple | np.ndarray) and len(columns)
    if several and all(map(_is_column, columns)):
        return tuple(c if isinstance(c, str) else int(c) for c in columns)
    raise TypeError(
        f"on(columns) takes a column name, a position or a list of them; got {columns!r}"
    )


def _is_column(column: Any) -> bool:
    return isinstance(column, str | Integral) and not isinstance(column, bool | np.bool_)


def _with_view(e: Expression, view: View) -> Expression:
    """A formula in statistics of the raw points, moved to the points a view shows."""
    if isinstance(e, Statistic):
        return Statistic(e.kind, view)
    return e.rebuild(tuple(_with_view(c, view) for c in e.children()))


def _function_text(function: Any) -> str:
    if isinstance(function, Expression):
        return f"<{function}>"
    return f"<{getattr(function, '__name__', type(function).__name__)}>"
