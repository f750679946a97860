"""Kernel predictions and those of boosted partitions, weighted by errors of rows left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import logsumexp

from mercer.auto.partitions import CLASSES, SQUARED, BoostedPartitions
from mercer.tables.coordinates import TableCoordinates

# Rows and outputs for which partitions are tried.
_FEWEST_ROWS, _MOST_OUTPUTS = 100, 30
# Seconds that a tree takes per row, output, level and feature.
_PACE = 2e-9
# How far weights are drawn to equal ones where both err the same: errors of rows left out are too
# low for scales that were learnt on these rows, and too high for the trees of one fold.
_EVEN = 0.5


def questions_of(coding: TableCoordinates) -> np.ndarray:
    """The coordinates that trees ask for: of a value and its rank the latter."""
    sorts, owners = np.array(coding.sorts_), np.asarray(coding.owners_)
    ranked = owners[sorts == "rank"]
    return np.flatnonzero((sorts != "value") | ~np.isin(owners, ranked))


def boosted(
    coding: Any,
    points: Any,
    y: np.ndarray,
    *,
    is_classes: bool,
    weight: np.ndarray | None,
    groups: Any,
    seed: int,
    seconds: float,
    quality: str,
) -> BoostedPartitions | None:
    """Partitions of a table's points; None where there are too few rows or seconds."""
    if not isinstance(coding, TableCoordinates) or len(y) < _FEWEST_ROWS:
        return None
    columns = questions_of(coding)
    model = BoostedPartitions(loss=CLASSES if is_classes else SQUARED, random_state=seed)
    if quality == "fast":
        model.set_params(n_trees=100, learning_rate=0.15, patience=15)
    outputs = (len(np.unique(y)) if is_classes else 1) if y.ndim == 1 else y.shape[1]
    if groups is not None and len(np.unique(groups)) < model.n_folds:
        return None
    work = _PACE * len(y) * outputs * model.depth * len(columns) * model.n_folds
    affordable = int(min(model.n_trees, 0.5 * seconds / max(work, 1e-300)))
    if not len(columns) or outputs > _MOST_OUTPUTS or affordable < 1:
        return None
    model.set_params(n_trees=affordable)
    return model.fit(points[:, columns].astype(np.float64), y, weight, groups)


def tree_scores(coding: Any, points: Any, partitions: BoostedPartitions) -> np.ndarray:
    """Scores of points as the coding makes them."""
    return partitions.scores_at(points[:, questions_of(coding)].astype(np.float32))


def weights_for_numbers(
    parts: list[np.ndarray], Y: np.ndarray, weight: np.ndarray | None
) -> np.ndarray:
    """Non-negative weights of predictions (n, t) of left-out rows, by least squares.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.arange(9.0)[:, None]
    >>> weights_for_numbers([y, 0 * y + 4], y, None).round(2).tolist()
    [1.0, 0.0]
    """
    roots = np.ones((len(Y), 1)) if weight is None else np.sqrt(weight)[:, None]
    columns = np.stack([(roots * part).ravel() for part in parts], axis=1)
    found, _ = nnls(columns, (roots * Y).ravel())
    errors = [float(np.mean((roots * (part - Y)) ** 2)) for part in parts]
    return _drawn(found, errors, 1.0)


def weights_for_classes(
    parts: list[np.ndarray], codes: np.ndarray, weight: np.ndarray | None
) -> np.ndarray:
    """Non-negative weights of scores (n, C) of left-out rows, by the mean log loss."""
    n, C = parts[0].shape
    # A row is of its class with probability 1 - 1/(n + 2): scores that tell all classes apart would
    # else have weights without bound.
    targets = np.full((n, C), 1 / ((n + 2) * (C - 1)))
    targets[np.arange(n), codes] = 1 - 1 / (n + 2)
    stacked = np.stack(parts)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        f = np.tensordot(weights, stacked, axes=1)
        log_p = f - logsumexp(f, axis=1, keepdims=True)
        losses = -np.sum(targets * log_p, axis=1)
        slope = np.einsum("nc,knc->kn", np.exp(log_p) - targets, stacked)
        return float(np.average(losses, weights=weight)), np.average(slope, axis=1, weights=weight)

    begin = np.full(len(parts), 1 / len(parts))
    bounds = [(0.0, 10.0)] * len(parts)
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds).x
    alone = np.eye(len(parts))
    return _drawn(found, [loss(alone[k])[0] for k in range(len(parts))], 1.0)


def _drawn(found: np.ndarray, errors: list[float], total: float) -> np.ndarray:
    """Weights drawn to equal ones, less so where one part errs more than the best."""
    if not np.isfinite(errors).all():
        return found
    least = max(min(errors), 1e-300)
    share = _EVEN * (least / max(max(errors), 1e-300)) ** 2
    return (1 - share) * found + share * total / len(found)


def ablation(
    parts: dict[str, np.ndarray], combined: np.ndarray, error: Callable[[np.ndarray], float]
) -> dict[str, float]:
    """The leave-one-out error of each part alone and of the combination."""
    found = {f"{name} alone": error(part) for name, part in parts.items()}
    return found | {"combined": error(combined)}
