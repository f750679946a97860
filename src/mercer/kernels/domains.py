"""Where a kernel is defined: what its points are, and the check that they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import as_vectors, n_rows


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
    return found


def _check_nonnegative(X: Any, name: str) -> Any:
    X = as_vectors(X, name)
    values = X.data if sp.issparse(X) else X
    if values.size and values.min() < 0:
        raise ValueError(
            f"{name} has a negative value ({values.min():g}); this kernel is defined on "
            "non-negative vectors: shift or clip the features first"
        )
    return X


def _check_indices(X: Any, name: str) -> np.ndarray:
    indices = np.asarray(X)
    if indices.ndim == 2 and indices.shape[1] == 1:
        indices = indices[:, 0]
    if indices.ndim != 1 or not np.all(indices == np.floor(indices)):
        raise ValueError(
            f"{name} must hold integer indices into the matrix, shape (n,) or (n, 1); "
            f"got shape {np.shape(X)}"
        )
    return indices.astype(np.intp)


def _any_collection(X: Any, name: str) -> Any:
    n_rows(X)
    return X


def _normal(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.standard_normal((n, d)) * 2.0 ** rng.integers(-3, 4)


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
SETS = Domain("finite sets", objects)
INDICES = Domain("indices of a matrix", _check_indices)
TABLES = Domain("tables", _any_collection)
ANYTHING = Domain("its inputs", _any_collection)
