"""What is known of a model's predictions on held-out rows: scores, curves, worst rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mercer.reports.scores import HeldOut, all_scores, by_class, scored, wilson

# Most held-out predictions stored for the plots, and points of a curve.
KEPT_PREDICTIONS = 2000
CURVE_POINTS = 200
# Bins of the calibration curve, and rows with the largest errors that are listed.
BINS, WORST = 10, 8


def evaluated(
    held: HeldOut, y_train: np.ndarray, metric: str, rows: np.ndarray | None = None
) -> dict[str, Any]:
    """Scores, and numbers for the plots, in types that JSON can hold.

    Parameters
    ----------
    held : HeldOut
    y_train : (m,) array
        Training targets, for the constant that the model is compared with.
    metric : str
    rows : (n,) array or None
        Numbers of the held-out rows in the data, for the list of the worst.
    """
    found: dict[str, Any] = {
        "score": scored(held, y_train, metric),
        "scores": all_scores(held, y_train),
        "held out": _held_out(held, np.arange(len(held.y)) if rows is None else rows),
    }
    if held.task == "classification":
        found["by class"] = by_class(held)
        found |= _curves(held)
    return found


def _held_out(held: HeldOut, rows: np.ndarray) -> dict[str, Any]:
    """Predictions, or the confusion matrix, and the rows with the largest errors."""
    if held.task == "regression":
        some = np.random.default_rng(0).permutation(len(held.y))[:KEPT_PREDICTIONS]
        error = np.abs(held.y - held.predicted)
        worst = np.argsort(-error, kind="stable")[:WORST]
        return {
            "true": held.y[some].tolist(),
            "predicted": held.predicted[some].tolist(),
            "worst": [
                {
                    "row": int(rows[i]),
                    "true": float(held.y[i]),
                    "predicted": float(held.predicted[i]),
                    "error": float(held.predicted[i] - held.y[i]),
                }
                for i in worst
            ],
        }
    from sklearn.metrics import confusion_matrix

    labels = np.unique(np.concatenate([held.y, held.predicted]))
    with warnings.catch_warnings():  # of many classes
        warnings.simplefilter("ignore", UserWarning)
        counts = confusion_matrix(held.y, held.predicted, labels=labels)
    found: dict[str, Any] = {"classes": [str(c) for c in labels], "counts": counts.tolist()}
    if held.probabilities is not None and held.classes is not None:
        found["worst"] = _surest_errors(held, rows)
    return found


def _surest_errors(held: HeldOut, rows: np.ndarray) -> list[dict[str, Any]]:
    """The errors with the largest probability of the predicted class."""
    assert held.probabilities is not None
    assert held.classes is not None
    place = np.searchsorted(held.classes, held.predicted)
    sure = held.probabilities[np.arange(len(place)), place]
    wrong = np.flatnonzero(held.y != held.predicted)
    worst = wrong[np.argsort(-sure[wrong], kind="stable")[:WORST]]
    return [
        {
            "row": int(rows[i]),
            "true": str(held.y[i]),
            "predicted": str(held.predicted[i]),
            "probability": float(sure[i]),
        }
        for i in worst
    ]


def _curves(held: HeldOut) -> dict[str, Any]:
    """ROC, precision–recall, threshold and calibration curves; the first three of two classes."""
    if held.probabilities is None or held.classes is None:
        return {}
    found: dict[str, Any] = {"calibration": calibration(held)}
    is_second = held.y == held.classes[-1]
    if not held.is_binary or not is_second.any() or is_second.all():
        return found
    from sklearn.metrics import precision_recall_curve, roc_curve

    share = held.probabilities[:, 1]
    false, true, _ = roc_curve(is_second, share)
    precision, recall, thresholds = precision_recall_curve(is_second, share)
    some, few = _thinned(len(false)), _thinned(len(thresholds))
    found["roc"] = {"false": false[some].tolist(), "true": true[some].tolist()}
    found["precision recall"] = {
        "class": str(held.classes[1]),
        "precision": precision[few].tolist(),
        "recall": recall[few].tolist(),
        "threshold": thresholds[few].tolist(),
        "share": float(is_second.mean()),
    }
    return found


def _thinned(n: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, CURVE_POINTS)).astype(int))


def calibration(held: HeldOut) -> list[dict[str, Any]]:
    """Bins of probability: the rows in each, their mean, and the observed fraction.

    For two classes the probability of the second, for more the probability of the predicted class.
    """
    assert held.probabilities is not None
    assert held.classes is not None
    if held.is_binary:
        share, event = held.probabilities[:, 1], held.y == held.classes[1]
    else:
        share = held.probabilities.max(axis=1)
        event = held.y == held.classes[held.probabilities.argmax(axis=1)]
    place = np.minimum((share * BINS).astype(int), BINS - 1)
    found = []
    for k in range(BINS):
        inside = place == k
        n, happened = int(inside.sum()), int(event[inside].sum())
        if n:
            low, high = wilson(happened, n)
            found.append(
                {
                    "from": k / BINS,
                    "to": (k + 1) / BINS,
                    "rows": n,
                    "mean probability": float(share[inside].mean()),
                    "observed": happened / n,
                    "interval": [low, high],
                }
            )
    return found
