"""How good a model is on rows it has not seen, beside knowing nothing, and what it looks at."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import n_rows, take_rows
from mercer.cli.models import machine_of
from mercer.kernels import Kernel, Precomputed

# Rows and columns that the importances are measured on.
IMPORTANCE_ROWS = 500
IMPORTANCE_COLUMNS = 40
BOOTSTRAPS = 500


def split(X: Any, y: np.ndarray, task: str, share: float, random_state: int) -> tuple[Any, ...]:
    """X_train, X_test, y_train, y_test; of classes each has its share.

    A row that is the only one of its class is for training.
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


def quality(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """The share of right answers, or R²: one minus the squared error over that of the mean.

    Where all targets are the same there is no R²; it is NaN.
    """
    if task == "classification":
        return float(np.mean(y == predicted))
    if y.min() == y.max():
        return float("nan")
    apart = y - y.mean()
    unit = np.abs(apart).max()  # lest squares be too large
    return float(1 - np.sum(((y - predicted) / unit) ** 2) / np.sum((apart / unit) ** 2))


def scored(task: str, y: np.ndarray, predicted: np.ndarray, y_train: np.ndarray) -> dict[str, Any]:
    """The score on rows held out, its standard error, and that of a constant guess.

    The standard error is binomial for shares, and by the bootstrap for R². The model is better than
    the guess if it is by more than one standard error of the difference.
    """
    n, value = len(y), quality(task, y, predicted)
    if task == "classification":
        values, counts = np.unique(y_train, return_counts=True)
        guess = values[np.argmax(counts)]
        error = float(np.sqrt(value * (1 - value) / n))
        gains = (y == predicted).astype(float) - (y == guess)
        better = gains.mean() > gains.std() / np.sqrt(n)
        name, baseline = "accuracy", f"always {guess}"
    else:
        guess = y_train.mean()
        draws = np.random.default_rng(0).integers(0, n, size=(BOOTSTRAPS, n))
        drawn = np.array([quality(task, y[rows], predicted[rows]) for rows in draws])
        error = float("nan") if np.isnan(value) else float(np.nanstd(drawn))
        better = value > error
        name, baseline = "R²", "always the mean"
    return {
        "name": name,
        "value": value,
        "error": error,
        "rows": n,
        "baseline": quality(task, y, np.full(n, guess)),
        "baseline name": baseline,
        "better": bool(better),
    }


def importances(model: Any, X: Any, y: np.ndarray, task: str, seed: int) -> dict[str, float] | None:
    """For each column, how much of the score is lost when its values are shuffled."""
    table = hasattr(X, "columns")
    width = X.shape[1] if table or isinstance(X, np.ndarray) else 0
    if not 2 <= width <= IMPORTANCE_COLUMNS:
        return None
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))[:IMPORTANCE_ROWS]
    X, y = take_rows(X, rows), y[rows]
    whole = quality(task, y, model.predict(X))
    if np.isnan(whole):
        return None
    lost = {}
    for k in range(width):
        shuffled = X.copy()
        order = rng.permutation(len(y))
        if table:
            shuffled.isetitem(k, X.iloc[order, k].array)
        else:
            shuffled[:, k] = X[order, k]
        name = str(X.columns[k]) if table else f"column {k}"
        lost[name] = whole - quality(task, y, model.predict(shuffled))
    return dict(sorted(lost.items(), key=lambda item: -item[1]))


def spectrum(model: Any, most: int = 300) -> list[float] | None:
    """Eigenvalues of the kernel between some training points, as shares of their sum."""
    fitted = machine_of(model)
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
