"""Where a kernel is defined: what its points are, and the check that they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import as_vectors, is_missing, n_rows, refuse_masked


@dataclass(frozen=True)
class Domain:
    """A set of points.

    Attributes
    ----------
    name : str
        In words, as proofs say it: "all real vectors".
    check : callable
        ``check(X, name)`` returns the points in their internal form or raises an error that names
        the argument.
    sample : callable or None
        ``sample(rng, n, d)`` draws n points, for the search for counterexamples.
    is_vectors : bool
        Whether points are rows of a numeric array.
    """

    name: str
    check: Callable[[Any, str], Any]
    sample: Callable[[np.random.Generator, int, int], Any] | None = None
    is_vectors: bool = False

    def __str__(self) -> str:
        return self.name

    def intersect(self, other: Domain) -> Domain:
        """The points both domains have, or a TypeError where they have nothing in common."""
        if self == other or other is ANYTHING:
            return self
        if self is ANYTHING:
            return other
        if {self, other} == {REALS, NONNEGATIVE}:
            return NONNEGATIVE
        found = [d.sample for d in (self, other) if isinstance(d.sample, _TableSample)]
        if len(found) == 2 or (found and (self.is_vectors or other.is_vectors)):
            columns = sum((t.columns for t in found), ())
            return tables(columns, whole=len(found) == 1 or any(t.whole for t in found))
        raise TypeError(
            f"one kernel takes {self} and the other {other}; to combine them, say which columns "
            "of a table each one reads: k.on(columns)"
        )


def objects(X: Any, name: str) -> list:
    """Any collection of objects as a list: a list, an object array, a Series, one column."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise TypeError(
            f"{name} is a single {type(X).__name__}; expected a list of objects, one per sample"
        )
    refuse_masked(X, name)
    if hasattr(X, "columns"):  # a DataFrame
        if X.shape[1] != 1:
            raise ValueError(
                f"{name} has {X.shape[1]} columns; expected one column of objects: pick it with "
                "k.on(column)"
            )
        X = X.iloc[:, 0]
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1:
        X = X[:, 0]
    if hasattr(X, "shape") and len(X.shape) != 1:
        raise ValueError(
            f"{name} has shape {X.shape}; expected one object per sample, as a list or a "
            "one-dimensional array"
        )
    found = list(X)
    if not found:
        raise ValueError(f"{name} is empty; expected at least one object")
    for row, x in enumerate(found):
        if is_missing(x):
            column = getattr(X, "name", None)
            place = f"row {row}" if column is None else f"row {row}, column {column!r}"
            raise ValueError(
                f"{name} has a missing value ({x}) at {place}; drop the row or fill it in first"
            )
    return found


def _check_sets(X: Any, name: str) -> list:
    """Any collection of sets as a list; the rows of a sparse matrix as lists of columns."""
    if not sp.issparse(X):
        return objects(X, name)
    rows = sp.csr_array(X)
    if not rows.shape[0]:
        raise ValueError(f"{name} is empty; expected at least one row")
    if not np.all(rows.data):
        rows = rows.copy()
        rows.eliminate_zeros()
    columns, bounds = rows.indices.tolist(), rows.indptr.tolist()
    return [columns[a:b] for a, b in pairwise(bounds)]


def _check_nonnegative(X: Any, name: str) -> Any:
    X = as_vectors(X, name)
    values = X.data if sp.issparse(X) else X
    if n_rows(values) and values.min() < 0:
        raise ValueError(
            f"{name} has a negative value ({float(values.min()):g}); this kernel is defined on "
            "non-negative vectors: shift or clip the features first"
        )
    return X


def _check_indices(X: Any, name: str) -> np.ndarray:
    refuse_masked(X, name)
    indices = np.asarray(X)
    if indices.ndim == 2 and indices.shape[1] == 1:
        indices = indices[:, 0]
    numeric = indices.dtype.kind in "iuf"
    if indices.ndim != 1 or not numeric or not np.all(indices == np.floor(indices)):
        raise ValueError(
            f"{name} must hold integer indices into the matrix, shape (n,) or (n, 1); "
            f"got shape {np.shape(X)} of {indices.dtype}"
        )
    return indices.astype(np.intp)


def _any_collection(X: Any, name: str) -> Any:
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        raise TypeError(f"{name} is a single {type(X).__name__}; expected a collection of points")
    refuse_masked(X, name)
    return X


def _normal(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.standard_normal((n, d)) * 2.0 ** rng.integers(-3, 4)


@dataclass(frozen=True)
class _TableSample:
    """Random tables of numbers that have these columns, by name or position.

    With ``whole`` some kernel reads every column, so that their number matters.
    """

    columns: tuple[str | int, ...]
    whole: bool = False

    def __call__(self, rng: np.random.Generator, n: int, d: int) -> Any:
        names, width = table_layout(self.columns)
        table = _normal(rng, n, max(width, d) if self.whole else width)
        return named(table if rng.random() < 0.5 else np.abs(table), names)


def table_layout(columns: tuple[str | int, ...]) -> tuple[list[str], int]:
    """The names among these columns, and how many columns a table with all of them needs."""
    names = list(dict.fromkeys(c for c in columns if isinstance(c, str)))
    positions = [c + 1 if c >= 0 else -c for c in columns if not isinstance(c, str)]
    return names, max([len(names), *positions])


def named(table: np.ndarray, names: list[str]) -> Any:
    """The table as it is, or as a DataFrame whose first columns have these names."""
    if not names:
        return table
    import pandas as pd

    others = [f"column {j}" for j in range(len(names), table.shape[1])]
    return pd.DataFrame(table, columns=names + others)


def tables(columns: tuple[str | int, ...], whole: bool = False) -> Domain:
    """Tables that have these columns; with ``whole`` every column is read besides."""
    return Domain("tables", _any_collection, _TableSample(columns, whole))


REALS = Domain("all real vectors", as_vectors, _normal, is_vectors=True)
NONNEGATIVE = Domain(
    "non-negative vectors",
    _check_nonnegative,
    lambda rng, n, d: np.abs(_normal(rng, n, d)),
    is_vectors=True,
)
STRINGS = Domain("sequences", objects)
TREES = Domain("trees", objects)
GRAPHS = Domain("graphs", objects)
SETS = Domain("finite sets", _check_sets)
INDICES = Domain("indices of a matrix", _check_indices)
ANYTHING = Domain("its inputs", _any_collection)
