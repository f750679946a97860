"""Which model `mercer fit` trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

import mercer
import mercer.kernels as K
from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.refitting import refitted
from mercer.reports.scores import METRICS

# Metrics of predicted classes that depend on the threshold.
THRESHOLDED = ("balanced_accuracy", "f1")


class Trained(NamedTuple):
    """A fitted model, and the candidates compared, one dict each."""

    model: Any
    tried: list[dict[str, Any]]

    @property
    def threshold(self) -> float | None:
        """The probability from which on the second of two classes is predicted, if not 1/2."""
        offsets = getattr(self.model, "offsets_", None)
        if offsets is None or len(offsets) != 2 or offsets[0] == offsets[1]:
            return None
        return float(1 / (1 + np.exp(offsets[1] - offsets[0])))


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

    def train(self, X: Any, y: np.ndarray, groups: np.ndarray | None = None) -> Trained:
        """The best model found for these data.

        Parameters
        ----------
        X : DataFrame, array, CSR matrix or list of graphs
        y : (n,) array
        groups : (n,) array or None
        """
        if isinstance(X, list):
            return self._on_graphs(X, y)
        settings: dict[str, Any] = {"max_time": self.max_time, "random_state": self.random_state}
        if self.task == "regression":
            model: Any = AutoKernelRegressor(**settings)
        else:
            settings |= {"metric": self.metric, "class_weight": self.class_weight}
            model = AutoKernelClassifier(**settings)
        model.fit(X, y, groups=groups)
        return Trained(model, model.report_["tried"])

    def refit(
        self, trained: Trained, X: Any, y: np.ndarray, groups: np.ndarray | None = None
    ) -> Trained:
        """The model with the chosen kernel and alpha, fitted to all rows."""
        if isinstance(X, list):
            return trained._replace(model=clone(trained.model).fit(X, y))
        return trained._replace(model=refitted(trained.model, X, y, groups))

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
