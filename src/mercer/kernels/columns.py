"""Kernels on some columns of the points."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from mercer.expressions import Expression, View
from mercer.kernels import feature_maps as maps
from mercer.kernels.algebra import bracketed
from mercer.kernels.domains import Domain, named, table_layout, tables
from mercer.kernels.kernel import Kernel, literal
from mercer.kernels.transformations import Unary
from mercer.kernels.validity import Validity, indefinite, valid


class OnColumns(Unary):
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

    def chosen(self, X: Any) -> Any:
        """The columns of a table that the kernel inside sees."""
        return self._pick()(X)

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
