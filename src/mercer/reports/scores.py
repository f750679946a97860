"""Scores of predictions on held-out rows, with intervals and compared with a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

# Coverage of the intervals, and resamples of the bootstrap.
COVERAGE = 0.95
BOOTSTRAPS = 400
# Significance level of the comparison with the baseline, one-sided.
LEVEL = 0.025
# A largest class with a larger fraction of the rows makes accuracy a poor score.
IMBALANCED = 0.8


@dataclass(frozen=True)
class HeldOut:
    """Predictions for rows that the model was not trained on.

    Attributes
    ----------
    task : "classification" or "regression"
    y : (n,) array
    predicted : (n,) array
    classes : (c,) array or None
        In the order of the columns of ``probabilities``.
    probabilities : (n, c) array or None
    """

    task: str
    y: np.ndarray
    predicted: np.ndarray
    classes: np.ndarray | None = None
    probabilities: np.ndarray | None = None

    def rows(self, rows: np.ndarray) -> HeldOut:
        shares = None if self.probabilities is None else self.probabilities[rows]
        return HeldOut(self.task, self.y[rows], self.predicted[rows], self.classes, shares)

    def coded(self) -> HeldOut:
        """The same with classes as integers, in the same order, which are compared faster."""
        if self.task == "regression":
            return self
        known = [] if self.classes is None else self.classes
        values = np.unique(np.concatenate([self.y, self.predicted, known]))
        y, predicted, classes = (
            np.searchsorted(values, v) for v in (self.y, self.predicted, known)
        )
        return HeldOut(self.task, y, predicted, classes, self.probabilities)

    @property
    def is_binary(self) -> bool:
        return self.probabilities is not None and self.probabilities.shape[1] == 2


@dataclass(frozen=True)
class Metric:
    """A score: its name in print, its task, and whether more is better."""

    name: str
    task: str
    function: Callable[[HeldOut], float]
    more_is_better: bool = True
    needs_probabilities: bool = False


def _accuracy(held: HeldOut) -> float:
    return float(np.mean(held.y == held.predicted))


def _recalls(held: HeldOut) -> np.ndarray:
    return np.array([np.mean(held.predicted[held.y == c] == c) for c in np.unique(held.y)])


def _balanced_accuracy(held: HeldOut) -> float:
    return float(np.mean(_recalls(held)))


def _f1(held: HeldOut) -> float:
    """F1 of the rarer class of two, and the mean over classes of more."""
    classes, counts = np.unique(held.y, return_counts=True)
    rarer = classes[[1 if counts[-1] <= counts[0] else 0]] if len(classes) == 2 else classes
    return float(np.mean([_f1_of(held, c) for c in rarer]))


def _f1_of(held: HeldOut, c: Any) -> float:
    is_class, is_predicted = held.y == c, held.predicted == c
    total = is_class.sum() + is_predicted.sum()
    return float(2 * np.sum(is_class & is_predicted) / total) if total else 0.0


def _auc(held: HeldOut) -> float:
    """P(score of a row of the class > that of another row); the mean over more than two."""
    if held.classes is None or held.probabilities is None:
        return float("nan")
    columns = [1] if held.is_binary else range(len(held.classes))
    areas = [_auc_of(held.y == held.classes[k], held.probabilities[:, k]) for k in columns]
    return float(np.nanmean(areas)) if not np.isnan(areas).all() else float("nan")


def _auc_of(is_class: np.ndarray, score: np.ndarray) -> float:
    n = int(is_class.sum())
    m = len(is_class) - n
    if not n or not m:
        return float("nan")
    ranks = stats.rankdata(score)
    return float((ranks[is_class].sum() - n * (n + 1) / 2) / (n * m))


def _log_loss(held: HeldOut) -> float:
    if held.classes is None or held.probabilities is None:
        return float("nan")
    place = np.searchsorted(held.classes, held.y)
    place = np.minimum(place, len(held.classes) - 1)
    given = held.probabilities[np.arange(len(held.y)), place]
    given = np.where(held.classes[place] == held.y, given, 0.0)
    return float(-np.mean(np.log(np.maximum(given, np.finfo(float).eps))))


def _r2(held: HeldOut) -> float:
    y = held.y
    if y.min() == y.max():
        return float("nan")
    deviation = y - y.mean()
    unit = np.abs(deviation).max()  # squares of larger numbers would overflow
    residual = (y - held.predicted) / unit
    return float(1 - np.sum(residual**2) / np.sum((deviation / unit) ** 2))


def _rmse(held: HeldOut) -> float:
    error = np.abs(held.y - held.predicted)
    unit = error.max(initial=0.0) or 1.0
    return float(unit * np.sqrt(np.mean((error / unit) ** 2)))


def _mae(held: HeldOut) -> float:
    return float(np.mean(np.abs(held.y - held.predicted)))


METRICS = {
    "accuracy": Metric("accuracy", "classification", _accuracy),
    "balanced_accuracy": Metric("balanced accuracy", "classification", _balanced_accuracy),
    "f1": Metric("F1", "classification", _f1),
    "auc": Metric("AUC", "classification", _auc, needs_probabilities=True),
    "log_loss": Metric("log loss", "classification", _log_loss, False, True),
    "r2": Metric("R²", "regression", _r2),
    "rmse": Metric("RMSE", "regression", _rmse, False),
    "mae": Metric("MAE", "regression", _mae, False),
}


def default_metric(task: str, y: np.ndarray) -> str:
    """R² or accuracy; balanced accuracy if one class has more than 80 % of the rows."""
    if task == "regression":
        return "r2"
    counts = np.unique(y, return_counts=True)[1]
    return "balanced_accuracy" if counts.max() > IMBALANCED * len(y) else "accuracy"


def checked_metric(metric: str | None, task: str, y: np.ndarray) -> str:
    """The metric, or the default; a ValueError if it is unknown or of the other task."""
    if metric is None:
        return default_metric(task, y)
    fitting = [name for name, m in METRICS.items() if m.task == task]
    if metric not in fitting:
        raise ValueError(f"--metric {metric}: {task} has the metrics {', '.join(fitting)}")
    return metric


def wilson(successes: float, n: int, coverage: float = COVERAGE) -> tuple[float, float]:
    """Wilson's interval for a binomial proportion.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(13, 13)]
    [0.772, 1.0]
    """
    z = stats.norm.ppf((1 + coverage) / 2)
    p = successes / n
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    low = 0.0 if successes == 0 else float(middle - half)
    return low, 1.0 if successes == n else float(middle + half)


def constant(held: HeldOut, y_train: np.ndarray, metric: str | None = None) -> tuple[HeldOut, str]:
    """The predictions of a constant model, and its name.

    It predicts the mean or the largest class; for F1 of two classes the rarer one, since the F1 of
    the other prediction is zero.
    """
    n = len(held.y)
    if held.task == "regression":
        return HeldOut("regression", held.y, np.full(n, y_train.mean())), "predicting the mean"
    values, counts = np.unique(y_train, return_counts=True)
    is_f1 = metric == "f1" and len(values) == 2
    value = values[counts.argmax()] if not is_f1 else values[1 if counts[1] <= counts[0] else 0]
    shares = None
    if held.classes is not None:
        share = np.array([np.mean(y_train == c) for c in held.classes])
        shares = np.tile(share, (n, 1))
    always = HeldOut("classification", held.y, np.full(n, value), held.classes, shares)
    return always, f"always predicting {value}"


def scored(held: HeldOut, y_train: np.ndarray, metric: str) -> dict[str, Any]:
    """The score by one metric, its 95 % interval, and the score of a constant.

    ``better`` says whether the model exceeds the constant in a one-sided test at level 2.5 %: the
    exact test of McNemar for accuracy, the bootstrap for all else. ``better`` is False where the
    score does not exist.
    """
    chosen = METRICS[metric]
    always, words = constant(held, y_train, metric)
    held, always = held.coded(), always.coded()
    value, baseline = chosen.function(held), chosen.function(always)
    resamples = _resamples(held) if metric != "accuracy" else []
    sign = 1.0 if chosen.more_is_better else -1.0
    if metric == "accuracy":
        right, by_constant = held.y == held.predicted, held.y == always.predicted
        wins, losses = int(np.sum(right & ~by_constant)), int(np.sum(~right & by_constant))
        better = wins > losses and (
            stats.binomtest(wins, wins + losses, alternative="greater").pvalue <= LEVEL
        )
    else:
        f = chosen.function
        gains = sign * np.array([f(held.rows(r)) - f(always.rows(r)) for r in resamples])
        better = sign * (value - baseline) > 0 and np.nanquantile(gains, LEVEL) > 0
    return {
        "name": chosen.name,
        "metric": metric,
        "value": value,
        "interval": interval(held, metric),
        "rows": len(held.y),
        "baseline": baseline,
        "baseline name": words,
        "better": bool(better),
    }


def interval(held: HeldOut, metric: str) -> list[float]:
    """The 95 % interval of a score: Wilson's for accuracy, else by the bootstrap.

    The bootstrap interval of a balanced accuracy combines Wilson intervals of the recalls if all
    rows are predicted alike, since resampling equal rows shows no spread.
    """
    if metric == "accuracy":
        return list(wilson(float(np.sum(held.y == held.predicted)), len(held.y)))
    function, held = METRICS[metric].function, held.coded()
    values = np.array([function(held.rows(rows)) for rows in _resamples(held)])
    if np.isnan(values).all() or np.isnan(function(held)):
        return [float("nan")] * 2
    tail = (1 - COVERAGE) / 2
    low, high = np.nanquantile(values, [tail, 1 - tail], method="nearest")
    if metric in ("balanced_accuracy", "f1", "auc") and low == high:
        # No resample differs: the interval of as many successes.
        ends = wilson(float(low) * len(held.y), len(held.y))
        return [min(ends[0], float(low)), max(ends[1], float(high))]
    return [float(low), float(high)]


def _resamples(held: HeldOut) -> list[np.ndarray]:
    """Bootstrap samples of the rows, drawn within each class so that none is lost."""
    rng = np.random.default_rng(0)
    n = len(held.y)
    if held.task == "regression":
        return list(rng.integers(0, n, size=(BOOTSTRAPS, n)))
    groups = [np.flatnonzero(held.y == c) for c in np.unique(held.y)]
    return [np.concatenate([rng.choice(g, len(g)) for g in groups]) for _ in range(BOOTSTRAPS)]


def all_scores(held: HeldOut, y_train: np.ndarray) -> list[dict[str, Any]]:
    """Every score that the predictions have, with its interval and that of a constant."""
    found = []
    for metric, chosen in METRICS.items():
        if chosen.task != held.task or (chosen.needs_probabilities and held.probabilities is None):
            continue
        found.append(
            {
                "name": chosen.name,
                "value": chosen.function(held),
                "interval": interval(held, metric),
                "baseline": chosen.function(constant(held, y_train, metric)[0]),
            }
        )
    return found


def by_class(held: HeldOut) -> list[dict[str, Any]]:
    """Rows, precision, recall with its interval, and F1 of each class."""
    found = []
    for c in np.unique(np.concatenate([held.y, held.predicted])):
        is_class, is_predicted = held.y == c, held.predicted == c
        both = int(np.sum(is_class & is_predicted))
        n, m = int(is_class.sum()), int(is_predicted.sum())
        found.append(
            {
                "class": str(c),
                "rows": n,
                "predicted": m,
                "precision": both / m if m else float("nan"),
                "recall": both / n if n else float("nan"),
                "recall interval": list(wilson(both, n)) if n else [float("nan")] * 2,
                "F1": _f1_of(held, c),
            }
        )
    return found
