"""Scores on held-out rows, compared with a baseline; permutation importances; spectra."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import n_rows, take_rows
from mercer.cli.models import final_estimator
from mercer.kernels import Kernel, Precomputed

# Most rows that importances are computed on, and most columns that they are computed for.
IMPORTANCE_ROWS = 500
IMPORTANCE_COLUMNS = 40
BOOTSTRAPS = 500


def split(X: Any, y: np.ndarray, task: str, share: float, random_state: int) -> tuple[Any, ...]:
    """X_train, X_test, y_train, y_test, stratified by class.

    The only row of a class is a training row.
    """
    from sklearn.model_selection import train_test_split

    rows, alone, stratify = np.arange(len(y)), np.array([], dtype=int), None
    if task == "classification":
        _, place, counts = np.unique(y, return_inverse=True, return_counts=True)
        is_alone = counts[place] == 1
        rows, alone = rows[~is_alone], rows[is_alone]
        fits = min(share, 1 - share) * len(rows) >= np.sum(counts > 1)
        stratify = y[rows] if fits else None
    train, test = train_test_split(
        rows, test_size=share, stratify=stratify, random_state=random_state
    )
    train = np.concatenate([train, alone])
    return take_rows(X, train), take_rows(X, test), y[train], y[test]


def score_value(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """Accuracy, or R². NaN for a regression whose targets are all equal."""
    if task == "classification":
        return float(np.mean(y == predicted))
    if y.min() == y.max():
        return float("nan")
    from sklearn.metrics import r2_score

    deviation = y - y.mean()
    unit = np.abs(deviation).max()  # squares of larger numbers would overflow
    return float(r2_score(deviation / unit, (predicted - y.mean()) / unit))


def scored(task: str, y: np.ndarray, predicted: np.ndarray, y_train: np.ndarray) -> dict[str, Any]:
    """The score on held-out rows, its standard error, and the score of a constant prediction.

    The standard error is binomial for accuracy and bootstrapped for R². ``better`` says whether the
    model exceeds the baseline by more than one standard error of the difference.
    """
    n, value = len(y), score_value(task, y, predicted)
    if task == "classification":
        values, counts = np.unique(y_train, return_counts=True)
        constant = values[np.argmax(counts)]
        error = float(np.sqrt(value * (1 - value) / n))
        gains = (y == predicted).astype(float) - (y == constant)
        better = gains.mean() > gains.std() / np.sqrt(n)
        name, baseline = "accuracy", f"always predicting {constant}"
    else:
        constant = y_train.mean()
        draws = np.random.default_rng(0).integers(0, n, size=(BOOTSTRAPS, n))
        drawn = np.array([score_value(task, y[rows], predicted[rows]) for rows in draws])
        error = float("nan") if np.isnan(value) else float(np.nanstd(drawn))
        better = value > error
        name, baseline = "R²", "predicting the mean"
    return {
        "name": name,
        "value": value,
        "error": error,
        "rows": n,
        "baseline": score_value(task, y, np.full(n, constant)),
        "baseline name": baseline,
        "better": bool(better),
    }


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

    def score(model: Any, X: Any, y: np.ndarray) -> float:
        return score_value(task, y, model.predict(X))

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
