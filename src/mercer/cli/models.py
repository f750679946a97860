"""Which model `mercer fit` trains, and how it decides between two classes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

import mercer
import mercer.kernels as K
from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.leave_one_out import left_out, weighed
from mercer.reports.scores import METRICS, HeldOut

# Metrics of predicted classes that depend on the threshold.
THRESHOLDED = ("balanced_accuracy", "f1")
# Folds of the probabilities that the threshold is chosen on, where leave-one-out is not exact.
_FOLDS = 5


class Trained(NamedTuple):
    """A fitted model, the candidates compared (one dict each), and the threshold.

    The threshold is the probability of the second class from which on it is predicted; None if the
    model's own predictions are used.
    """

    model: Any
    tried: list[dict[str, Any]]
    threshold: float | None = None

    def held_out(self, X: Any, y: np.ndarray, task: str) -> HeldOut:
        """Predictions for rows that the model was not trained on."""
        predicted = np.asarray(self.model.predict(X))
        if task == "regression" or not hasattr(self.model, "predict_proba"):
            return HeldOut(task, y, predicted)
        shares, classes = self.model.predict_proba(X), self.model.classes_
        if self.threshold is not None:
            predicted = decided(classes, shares, self.threshold)
        return HeldOut(task, y, predicted, classes, shares)


@dataclass(frozen=True)
class Trainer:
    """What a model is trained for.

    Attributes
    ----------
    task : "classification" or "regression"
    max_time : float
        Seconds.
    random_state : int
    metric : str
        A key of `METRICS`.
    class_weight : "balanced", dict or None
        Weights of the rows by class.
    """

    task: str
    max_time: float
    random_state: int
    metric: str
    class_weight: Any = None

    def train(self, X: Any, y: np.ndarray) -> Trained:
        """The best model found for these data.

        Parameters
        ----------
        X : DataFrame, array, CSR matrix or list of graphs
        y : (n,) array
        """
        if isinstance(X, list):
            return self._on_graphs(X, y)
        weight = self.weights(y)
        if self.task == "regression":
            auto: Any = AutoKernelRegressor
        else:
            auto = AutoKernelClassifier
        model = auto(max_time=self.max_time, random_state=self.random_state)
        model.fit(X, y, sample_weight=weight)
        threshold = None
        if self.metric in THRESHOLDED and len(model.classes_) == 2:
            shares = left_out_probabilities(model, X, y, weight)
            threshold = best_threshold(y, model.classes_, shares, self.metric)
        return Trained(model, model.report_["tried"], threshold)

    def refit(self, trained: Trained, X: Any, y: np.ndarray) -> Trained:
        """The model with the chosen coding, kernel and alpha, fitted to all rows."""
        if isinstance(X, list):
            return trained._replace(model=clone(trained.model).fit(X, y))
        model = copy.deepcopy(trained.model)
        weight = self.weights(y)
        if self.task == "regression":
            Y = (y - model.y_mean_) / model.y_scale_
        else:
            codes = np.searchsorted(model.classes_, y)
            Y = np.where(codes[:, None] == np.arange(len(model.classes_)), 1.0, 0.0)
            Y = Y[:, 1:] - model.shares_ if len(model.classes_) == 2 else Y - model.shares_
        points = model.coding_.transform(X)
        points = points if points.shape[1] else np.zeros((len(y), 1))
        model.model_ = clone(model.model_).fit(points, Y.reshape(len(y), -1), weight)
        return trained._replace(model=model)

    def weights(self, y: np.ndarray) -> np.ndarray | None:
        """The weight of each row, (n,)."""
        if self.class_weight is None:
            return None
        from sklearn.utils.class_weight import compute_sample_weight

        return compute_sample_weight(self.class_weight, y)

    def _on_graphs(self, graphs: list, y: np.ndarray) -> Trained:
        """A model with a Weisfeiler-Lehman kernel, tuned by cross-validation."""
        from sklearn.model_selection import GridSearchCV

        if METRICS[self.metric].needs_probabilities:
            raise ValueError(
                f"--metric {self.metric} needs probabilities, which graphs do not have"
            )
        kernel = K.WeisfeilerLehman().normalize()
        grid: dict[str, list] = {"kernel__kernel__iterations": [1, 3, 5]}
        if self.task == "classification":
            model: Any = mercer.SVC(kernel=kernel, class_weight=self.class_weight)
            grid["C"] = [1.0, 10.0, 100.0]
        else:
            model = mercer.KernelRidgeCV(kernel=kernel)
        search = GridSearchCV(model, grid, cv=5).fit(graphs, y)
        found = search.cv_results_
        tried = [
            {
                "kernel": repr(clone(model).set_params(**parameters).kernel),
                **{name: value for name, value in parameters.items() if "__" not in name},
                "score": float(score),
            }
            for parameters, score in zip(found["params"], found["mean_test_score"], strict=True)
        ]
        return Trained(search.best_estimator_, tried)


def left_out_probabilities(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None
) -> np.ndarray:
    """Probabilities of two classes (n, 2) for training rows, from models without each row.

    Leave-one-out where the model is an exact kernel ridge, from its Gram matrix; five-fold
    cross-validation of the whole search otherwise.
    """
    inner = getattr(model, "model_", None)
    exact = isinstance(inner, mercer.KernelRidge) and not isinstance(inner, mercer.KernelRidgeCV)
    if not exact or not hasattr(model, "steepness_"):
        return _cross_validated(model, X, y, weight)
    points = model.coding_.transform(X)
    if not points.shape[1]:
        return model.predict_proba(X)
    roots = None if weight is None else np.sqrt(weight)
    G = weighed(np.asarray(model.kernel_(points), dtype=np.float64), roots)
    Y = (y == model.classes_[1]).astype(float)[:, None] - model.shares_
    error, residual = left_out(G, Y if roots is None else roots[:, None] * Y, model.alpha_)
    if not np.isfinite(error):
        return _cross_validated(model, X, y, weight)
    score = Y - (residual if roots is None else residual / roots[:, None]) + model.shares_
    share = 1 / (1 + np.exp(np.clip(model.steepness_ * (1 - 2 * score[:, 0]), -700, 700)))
    return np.column_stack([1 - share, share])


def _cross_validated(model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    short = clone(model).set_params(max_time=(model.max_time or 60.0) / _FOLDS)
    k = int(min(_FOLDS, np.unique(y, return_counts=True)[1].min()))
    if k < 2:
        return model.predict_proba(X)
    params = None if weight is None else {"sample_weight": weight}
    cv = StratifiedKFold(k, shuffle=True, random_state=0)
    return cross_val_predict(short, X, y, cv=cv, method="predict_proba", params=params)


def decided(classes: np.ndarray, shares: np.ndarray, threshold: float) -> np.ndarray:
    """The second of two classes where its probability is at least the threshold."""
    return np.where(shares[:, 1] >= threshold, classes[1], classes[0])


def best_threshold(y: np.ndarray, classes: np.ndarray, shares: np.ndarray, metric: str) -> float:
    """The threshold with the best score, halfway to the next lower probability.

    Every threshold is examined: with c the cumulative counts of both classes in decreasing order
    of probability, each metric is a function of c.
    """
    order = np.argsort(-shares[:, 1], kind="stable")
    ranked, second = shares[order, 1], (y == classes[1])[order]
    n1, n0 = second.sum(), (~second).sum()
    hits, misses = np.cumsum(second), np.cumsum(~second)
    if metric == "balanced_accuracy":
        value = hits / n1 + (n0 - misses) / n0
    elif n1 <= n0:  # F1 of the rarer class
        value = 2 * hits / (n1 + hits + misses)
    else:
        value = 2 * (n0 - misses) / (2 * n0 - misses + n1 - hits)
    ends = np.append(ranked[:-1] > ranked[1:], True)  # equal probabilities are decided alike
    best = int(np.argmax(np.where(ends, value, -np.inf)))
    below = ranked[best + 1] if best + 1 < len(ranked) else 0.0
    return float((ranked[best] + below) / 2)
