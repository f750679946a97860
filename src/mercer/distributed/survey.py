"""A first look at every block: checked where it is, counted, and what the fit must know of it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import backend, n_rows, row_major, take_rows
from mercer.distributed.rows import placed
from mercer.estimators.inputs import validate_training
from mercer.estimators.labels import checked_weights, signed_targets, validate_supervised
from mercer.kernels import Kernel
from mercer.solvers.nystrom.sums import Totals


@dataclass(frozen=True)
class Preparation:
    """From a block as it was read to checked points, targets (b, t) and weights, on a worker.

    Parameters
    ----------
    estimator : a clone of the estimator that knows the features
    check : dict
        For `validate_supervised`.
    supervised : bool
    classes : ndarray or None
        Once they are known, targets are signs.
    class_weight : ndarray of shape (k,) or None
    """

    estimator: Any
    check: dict
    supervised: bool
    classes: np.ndarray | None = None
    class_weight: np.ndarray | None = None

    def checked(self, X: Any, y: Any, weight: Any) -> tuple[Any, Any, np.ndarray | None]:
        """Points, targets as they are, and weights."""
        if self.supervised:
            X, y = validate_supervised(self.estimator, X, y, reset=False, **self.check)
        else:
            X = validate_training(self.estimator, X, reset=False)
        # The way from another worker changes where arrays begin and, of some, the order in memory.
        weight = checked_weights(weight, X, may_be_zero=True)
        return _in_order(X), _in_order(y), _in_order(weight)

    def __call__(self, X: Any, y: Any, weight: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
        X, y, weight = self.checked(X, y, weight)
        if not self.supervised:
            return X, np.zeros((n_rows(X), 0)), weight
        if self.classes is None:
            return X, np.asarray(y, dtype=np.float64).reshape(len(y), -1), weight
        codes = np.searchsorted(self.classes, y)
        if self.class_weight is not None:
            each = self.class_weight[codes]
            weight = each if weight is None else each * weight
        return X, signed_targets(codes, len(self.classes)), weight


def _in_order(values: Any) -> Any:
    return row_major(values) if isinstance(values, np.ndarray) else values


class Survey(Totals):
    """What is known of the data after a first look.

    Attributes
    ----------
    lengths : ndarray of shape (n_blocks,)
        Rows of each block.
    mass, mean, squares : float
        Weight, mean and sum of squared deviations of all entries of the points.
    columns : int
        Of the targets; 0 where they are a vector.
    labels, label_weights : ndarrays of shape (k,)
        The distinct targets and their weights, where they were asked for.
    """

    def __init__(self, given: tuple[Preparation, bool], block: tuple, place: str):
        preparation, with_labels = given
        self.lengths = np.array([n_rows(block[0])])
        self.mass = self.mean = self.squares = 0.0
        self.columns, self.labels, self.label_weights = -1, np.zeros(0), np.zeros(0)
        if not self.lengths[0]:
            return
        try:
            X, y, weight = preparation.checked(*block)
        except (TypeError, ValueError) as error:
            parts = dict(zip(("X", "y", "sample_weight"), block, strict=True))
            raise placed(error, place, **parts) from error
        s = np.ones(n_rows(X)) if weight is None else weight
        if isinstance(X, np.ndarray) and X.dtype.kind == "f" and s.any():
            self.mass = float(s.sum()) * X.shape[1]
            self.mean = float(s @ X.sum(axis=1, dtype=np.float64)) / self.mass
            self.squares = float(s @ np.sum((X - self.mean) ** 2, axis=1, dtype=np.float64))
        if preparation.supervised:
            self.columns = y.shape[1] if y.ndim == 2 else 0
        if with_labels:
            self.labels, codes = np.unique(y, return_inverse=True)
            self.label_weights = np.bincount(codes, weights=s)

    def merged(self, other: Survey, sign: int = 1) -> Survey:
        both = copy(self)
        both.lengths = np.append(self.lengths, other.lengths)
        both.mass = self.mass + other.mass
        if both.mass > 0:
            apart, share = other.mean - self.mean, other.mass / both.mass
            both.mean = self.mean + share * apart
            both.squares = self.squares + other.squares + self.mass * share * apart**2
        if min(self.columns, other.columns) >= 0 and self.columns != other.columns:
            raise ValueError("y has not as many columns in every block")
        both.columns = max(self.columns, other.columns)
        parts = [part for part in (self, other) if len(part.labels)]
        if parts:
            together = np.concatenate([part.labels for part in parts])
            both.labels, codes = np.unique(together, return_inverse=True)
            weights = np.concatenate([part.label_weights for part in parts])
            both.label_weights = np.bincount(codes, weights=weights)
        return both


class Weighed(Totals):
    """Rows that have weight in each block, and the weight of all."""

    def __init__(self, preparation: Preparation, block: tuple):
        s = preparation(*block)[2]
        assert s is not None
        self.counts, self.total = np.array([np.count_nonzero(s)]), float(s.sum())

    def merged(self, other: Weighed, sign: int = 1) -> Weighed:
        both = copy(self)
        both.counts = np.append(self.counts, other.counts)
        both.total = self.total + other.total
        return both


class Places(Totals):
    """Positions in each block of those of its weighted rows that have these ranks."""

    def __init__(self, preparation: Preparation, block: tuple, ranks: np.ndarray):
        self.places = np.zeros(0, dtype=np.int64)
        if len(ranks):
            s = preparation(*block)[2]
            assert s is not None
            self.places = np.flatnonzero(s)[ranks]

    def merged(self, other: Places, sign: int = 1) -> Places:
        both = copy(self)
        both.places = np.append(self.places, other.places)
        return both


class Taken(Totals):
    """The points at some positions of a block, or of several one after another."""

    def __init__(self, preparation: Preparation, block: tuple, at: np.ndarray):
        self.rows = take_rows(preparation(*block)[0], at) if len(at) else None

    def merged(self, other: Taken, sign: int = 1) -> Taken:
        both = copy(self)
        if self.rows is None or other.rows is None:
            both.rows = other.rows if self.rows is None else self.rows
        else:
            both.rows = backend(self.rows).join((self.rows, other.rows))
        return both


class Diagonal(Totals):
    """The sum of k(x, x), and the one of largest size."""

    def __init__(self, given: tuple[Preparation, Kernel], block: tuple):
        preparation, kernel = given
        values = np.asarray(kernel.diag(preparation(*block)[0]), dtype=np.float64)
        self.total, self.largest = float(values.sum()), float(np.abs(values).max())

    def merged(self, other: Diagonal, sign: int = 1) -> Diagonal:
        both = copy(self)
        both.total = self.total + other.total
        both.largest = float(np.maximum(self.largest, other.largest))
        return both
