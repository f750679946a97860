"""Which model `mercer fit` trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.refitting import refitted

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
        return trained._replace(model=refitted(trained.model, X, y, groups))
