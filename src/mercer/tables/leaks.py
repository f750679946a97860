"""Columns that predict the target almost perfectly alone, which may be a leak of the target."""

from __future__ import annotations

from typing import Any

import numpy as np

# Fraction of the baseline's error that one column must remove to be named.
NEARLY_ALL = 0.97
# Rows and columns that are examined.
_MOST_ROWS, _MOST_COLUMNS = 2000, 200
_FOLDS = 5


def possible_leaks(X: Any, y: np.ndarray, task: str) -> dict[str, float]:
    """The columns of a table that alone predict the target, with their scores.

    The score is the accuracy, or R², of a decision tree on one column, by five-fold
    cross-validation. A column is named if it removes 97 % of the error of a constant.

    Parameters
    ----------
    X : DataFrame or array
        Without columns that identify the rows.
    y : (n,) array
    task : "classification" or "regression"
    """
    n, d = X.shape
    if d < 2 or d > _MOST_COLUMNS or n < 2 * _FOLDS:
        return {}
    rows = np.random.default_rng(0).permutation(n)[:_MOST_ROWS]
    y = np.asarray(y)[rows]
    if task == "classification":
        codes = np.unique(y, return_inverse=True)[1]
        baseline = np.bincount(codes).max() / len(codes)
        y = codes
    else:
        y, baseline = np.asarray(y, dtype=float), 0.0
    if np.ptp(y) == 0 or (task == "classification" and y.max() > n / 4):
        return {}
    limit = baseline + NEARLY_ALL * (1 - baseline)
    columns = (
        {str(name): X[name].iloc[rows] for name in X.columns}
        if hasattr(X, "columns")
        else {f"column {k}": X[rows, k] for k in range(d)}
    )
    found = {name: score_alone(column, y, task) for name, column in columns.items()}
    return {name: score for name, score in found.items() if score > limit}


def score_alone(column: Any, y: np.ndarray, task: str) -> float:
    """The score of a decision tree on one column (n,), by five-fold cross-validation."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    predicted = np.empty(len(y))
    fold = np.arange(len(y)) % _FOLDS
    trees = {"classification": DecisionTreeClassifier, "regression": DecisionTreeRegressor}
    numbers = _numbers(column)
    for k in range(_FOLDS):
        train, test = fold != k, fold == k
        values = _by_mean(column, y, train) if numbers is None else numbers
        tree = trees[task](min_samples_leaf=3, max_leaf_nodes=100, random_state=0)
        predicted[test] = tree.fit(values[train, None], y[train]).predict(values[test, None])
    if task == "classification":
        return float(np.mean(predicted == y))
    return float(1 - np.mean((y - predicted) ** 2) / np.var(y))


def _numbers(column: Any) -> np.ndarray | None:
    """The column as numbers, of days where it holds times; None if it holds words."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "M":
        return np.asarray(column, dtype="datetime64[s]").astype(float)
    if kind not in "biuf" or str(column.dtype) == "category":
        return None
    values = np.asarray(column, dtype=np.float64)
    return np.clip(values, -1e37, 1e37)  # trees compute in float32


def _by_mean(column: Any, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Each word as the mean of its training targets; the mean of all for other words."""
    words = np.asarray(column).astype(str)
    known, codes = np.unique(words[train], return_inverse=True)
    means = np.bincount(codes, y[train]) / np.bincount(codes)
    place = np.minimum(np.searchsorted(known, words), len(known) - 1)
    return np.where(known[place] == words, means[place], y[train].mean())
