"""The final fit of a classifier: kernel logistic regression on all rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from mercer.auto.likelihood import Scores, fit_likelihood, mean_loss
from mercer.estimators import KernelRidge
from mercer.estimators.ridge.engine import Fit, store
from mercer.operators import gram
from mercer.solvers.result import Result, Status

# The first regulariser, relative to the mean of K's diagonal, the factor from one to the next, and
# what a step must gain of the loss.
_FIRST, _FACTOR, _GAIN = 0.2, 3.0, 2e-3
_LEAST, _LARGEST = 1e-4, 1e3
# A gradient, relative to that of the shares alone, with which the fit has converged.
_CONVERGED = 1e-2


def best_likelihood(
    K: np.ndarray, codes: np.ndarray, C: int, weight: np.ndarray | None, report: Any
) -> tuple[float, Scores]:
    """Downhill to the regulariser with the least leave-one-out loss.

    ``report(lam, loss)`` is called for each one tried, and may raise `TimeoutError` to end
    the walk.
    """
    level = float(np.mean(K.diagonal()))
    seen: dict[float, tuple[float, Scores]] = {}

    def look(lam: float) -> float:
        if lam not in seen:
            try:
                scores = fit_likelihood(K, codes, C, lam, weight)
            except np.linalg.LinAlgError:
                return np.inf
            is_known = np.all(np.isfinite(scores.left_out))
            loss = mean_loss(scores.left_out, codes, weight) if is_known else np.inf
            seen[lam] = (loss, scores)
            report(lam, seen[lam][0])
        return seen[lam][0]

    best = first = _FIRST * level
    try:
        look(first)
        for step in (1 / _FACTOR, _FACTOR):
            while _LEAST * level <= best * step <= _LARGEST * level:
                if not look(best * step) < (1 - _GAIN) * look(best):
                    break
                best *= step
            if best != first:
                break
    except TimeoutError:
        pass
    best = min(seen, key=lambda lam: seen[lam][0])
    return best, seen[best][1]


def as_model(
    kernel: Any,
    points: Any,
    found: Scores,
    codes: np.ndarray,
    lam: float,
    weight: np.ndarray | None,
    began: float,
) -> KernelRidge:
    """The function that was found, with the gradient of its objective as its certificate."""
    n, C = len(codes), found.coef.shape[1]
    operator = gram(kernel, points)
    scores = np.asarray(operator @ found.coef, dtype=np.float64) + found.intercept
    targets = codes[:, None].astype(float) if C == 1 else np.eye(C)[codes]
    weights = np.ones((n, 1)) if weight is None else weight[:, None]
    if C == 1:
        p = 0.5 * (1 + np.tanh(0.5 * scores))
    else:
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
    shares = np.average(targets, axis=0, weights=weights[:, 0])
    left = lam * found.coef + weights * (p - targets)
    gap = float(np.linalg.norm(left) / np.linalg.norm(weights * (shares - targets)))
    result = Result(
        None,
        Status.CONVERGED if gap <= _CONVERGED else Status.MAX_ITER,
        gap,
        1,
        time.perf_counter() - began,
        method="likelihood: kernel logistic regression",
    )
    model = KernelRidge(alpha=lam, kernel=kernel)
    model.kernel_, model.n_features_in_ = kernel, points.shape[1]
    store(model, points, Fit(found.coef, result, found.intercept, points=points), flat=False)
    return model


# Decisions.

METRICS = ("log_loss", "auc", "accuracy", "balanced_accuracy", "f1")
# Thresholds that are compared.
_THRESHOLDS = 200


def best_offsets(
    metric: str, chances: np.ndarray, codes: np.ndarray, weight: np.ndarray | None
) -> np.ndarray:
    """What to add to log-probabilities so that the largest decides best by a metric, (C,).

    Parameters
    ----------
    metric : {"log_loss", "auc", "accuracy", "balanced_accuracy", "f1"}
        For the first three nothing is added: the most probable class is the best decision.
    chances : (n, C) array
        Leave-one-out probabilities.
    codes : (n,) array of int
    weight : (n,) array or None

    Examples
    --------
    >>> import numpy as np
    >>> chances = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> offsets = best_offsets("balanced_accuracy", chances, np.array([0, 0, 1, 1]), None)
    >>> (np.log(chances) + offsets).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    n, C = chances.shape
    offsets = np.zeros(C)
    if metric not in ("balanced_accuracy", "f1"):
        return offsets
    weight = np.ones(n) if weight is None else weight
    logs, totals = np.log(np.maximum(chances, 1e-300)), np.bincount(codes, weight, C)
    if C > 2:  # each class as if all were as frequent
        return -np.log(totals / totals.sum())
    odds = logs[:, 1] - logs[:, 0]
    ordered = np.unique(odds)
    middles = 0.5 * (ordered[1:] + ordered[:-1])
    if len(middles) > _THRESHOLDS:
        middles = np.quantile(middles, np.linspace(0, 1, _THRESHOLDS))
    scores = [_decision_score(metric, odds > t, codes, weight, totals) for t in middles]
    if scores:
        offsets[1] = -middles[int(np.argmax(scores))]
    return offsets


def _decision_score(
    metric: str, said: np.ndarray, codes: np.ndarray, weight: np.ndarray, totals: np.ndarray
) -> float:
    if metric == "f1" and totals[1] > totals[0]:  # that of the rarer class
        said, codes, totals = ~said, 1 - codes, totals[::-1]
    hits = weight[said & (codes == 1)].sum()
    wrong = weight[said & (codes == 0)].sum()
    if metric == "f1":
        return float(2 * hits / (hits + wrong + totals[1]))
    return float(hits / totals[1] - wrong / totals[0])
