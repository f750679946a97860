"""Permutation importances, and spectra of Gram matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import n_rows, take_rows
from mercer.cli.models import final_estimator
from mercer.kernels import Kernel, Precomputed
from mercer.reports.scores import METRICS, HeldOut

# Most rows that importances are computed on, and most columns that they are computed for.
IMPORTANCE_ROWS = 500
IMPORTANCE_COLUMNS = 40


def importances(model: Any, X: Any, y: np.ndarray, task: str, seed: int) -> dict[str, float] | None:
    """Permutation importance: the loss of score when the values of one column are shuffled."""
    from sklearn.inspection import permutation_importance

    is_table = hasattr(X, "columns")
    d = X.shape[1] if is_table or isinstance(X, np.ndarray) else 0
    if not 2 <= d <= IMPORTANCE_COLUMNS:
        return None
    rows = np.random.default_rng(seed).permutation(len(y))[:IMPORTANCE_ROWS]
    X, y = take_rows(X, rows), y[rows]
    if task == "regression" and y.min() == y.max():
        return None

    metric = METRICS["accuracy" if task == "classification" else "r2"]

    def score(model: Any, X: Any, y: np.ndarray) -> float:
        return metric.function(HeldOut(task, y, np.asarray(model.predict(X))))

    found = permutation_importance(model, X, y, scoring=score, n_repeats=1, random_state=seed)
    names = map(str, X.columns) if is_table else (f"column {k}" for k in range(d))
    losses = dict(zip(names, found["importances_mean"].tolist(), strict=True))
    return dict(sorted(losses.items(), key=lambda item: -item[1]))


def spectrum(model: Any, most: int = 300) -> list[float] | None:
    """Eigenvalues of a Gram matrix of at most ``most`` training points, as shares of their sum."""
    fitted = final_estimator(model)
    points = getattr(fitted, "X_fit_", getattr(fitted, "support_vectors_", None))
    kernel = getattr(fitted, "kernel_", None)
    if points is None or not isinstance(kernel, Kernel) or isinstance(kernel, Precomputed):
        return None
    n = n_rows(points)
    if not n:
        return None
    chosen = take_rows(points, np.unique(np.linspace(0, n - 1, min(n, most)).astype(int)))
    values = np.linalg.eigvalsh(np.asarray(kernel(chosen), dtype=float))[::-1]
    values = np.maximum(values, 0)
    return (values / values.sum()).tolist() if values.sum() > 0 else None
