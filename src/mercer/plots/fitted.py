"""What displays ask of a fitted estimator: its last step, its support vectors, its features."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import as_dense, as_numpy


def last_step(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """The last step of a fitted pipeline and X as that step sees it; other estimators as given.

    Of a search it is that of the best estimator.
    """
    check_is_fitted(estimator)
    while hasattr(estimator, "steps") or hasattr(estimator, "best_estimator_"):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
            continue
        if X is not None and len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator[-1]
    return estimator, X


def kept_support(estimator: Any) -> np.ndarray | None:
    """Support vectors as the last step keeps them, or None where it keeps none."""
    last, _ = last_step(estimator)
    if not hasattr(last, "support_"):
        return None
    # The perceptron keeps no other points than those that support it.
    kept = last.support_vectors_ if hasattr(last, "support_vectors_") else last.X_fit_
    return as_numpy(as_dense(kept)) if len(last.support_) else None


def support_rows(estimator: Any, X: Any) -> np.ndarray | None:
    """Which rows of X are the support vectors, where X is what the estimator was fitted on."""
    kept = kept_support(estimator)
    if kept is None:
        return None
    last, X = last_step(estimator, X)
    seen, rows = as_numpy(as_dense(X)), as_numpy(last.support_)
    return rows if rows.max() < len(seen) and np.array_equal(seen[rows], kept) else None


def feature_names(estimator: Any, d: int, X: Any = None) -> list[str]:
    """Names of the d features, by the table X or by the one that the estimator was fitted on."""
    names = getattr(X, "columns", getattr(estimator, "feature_names_in_", None))
    return [f"x{k}" for k in range(d)] if names is None else [str(name) for name in names]


def like_table(X: Any, Z: np.ndarray) -> Any:
    """Points Z as a table with the columns of X, or as they are where X is no table."""
    return type(X)(dict(zip(X.columns, Z.T, strict=True))) if hasattr(X, "columns") else Z
