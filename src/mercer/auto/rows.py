"""Rows of a raw table with their targets, weights and groups, validated."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_consistent_length, column_or_1d

from mercer.arrays import to_cpu
from mercer.auto.search import take
from mercer.estimators.labels import checked_weights
from mercer.tables.coding import as_table
from mercer.tables.graphs import GraphCoding, is_of_graphs
from mercer.tables.sparse import sparse_rows, stays_sparse


def times_class_weight(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray | None
) -> np.ndarray | None:
    """Weights of rows times those of their classes; None for none."""
    if class_weight is None:
        return weight
    of_rows = compute_sample_weight(class_weight, classes[codes])
    return of_rows if weight is None else of_rows * weight


def required_target(y: Any) -> Any:
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    return to_cpu(y)


def table_of_rows(X: Any, y: np.ndarray) -> Any:
    """The table, with as many rows as there are targets."""
    if is_of_graphs(X):
        table = GraphCoding().fit(X).transform(X)
    else:
        table = sparse_rows(X) if stays_sparse(X) else as_table(X)
    check_consistent_length(table, y)
    if len(y) < 2:
        raise ValueError(f"Found array with {len(y)} sample(s) while a minimum of 2 is required.")
    return table


def weighted_rows(
    X: Any, y: np.ndarray, sample_weight: Any, groups: Any
) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The rows that have weight: their targets, weights of mean 1 and groups; None for none."""
    if groups is not None:
        groups = column_or_1d(to_cpu(groups))
        check_consistent_length(groups, y)
    weight = checked_weights(sample_weight, X)
    if weight is None:
        return X, y, None, groups
    rows = np.flatnonzero(weight)
    if len(rows) < 2:
        raise ValueError(
            f"Found array with {len(rows)} sample(s) of positive weight while a minimum of 2 is "
            "required."
        )
    if len(rows) < len(y):
        X, y, weight = take(X, rows), y[rows], weight[rows]
        groups = None if groups is None else groups[rows]
    return X, y, weight / weight.mean(), groups
