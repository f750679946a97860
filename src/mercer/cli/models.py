"""Which model `mercer fit` trains."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

import mercer
import mercer.kernels as K
from mercer.auto import AutoKernelClassifier, AutoKernelRegressor


class Trained(NamedTuple):
    """A fitted model and the candidates compared, one dict each."""

    model: Any
    tried: list[dict[str, Any]]


def train(X: Any, y: np.ndarray, task: str, max_time: float, random_state: int) -> Trained:
    """The best model found for these data in about ``max_time`` seconds.

    Parameters
    ----------
    X : DataFrame, array, CSR matrix or list of graphs
    y : (n,) array
    task : "classification" or "regression"
    max_time : float
    random_state : int
    """
    if isinstance(X, list):
        return _on_graphs(X, y, task)
    auto = AutoKernelClassifier if task == "classification" else AutoKernelRegressor
    model = auto(max_time=max_time, random_state=random_state).fit(X, y)
    return Trained(model, model.report_["tried"])


def final_estimator(model: Any) -> Any:
    """The last step of a pipeline, or the model inside an automatic one."""
    model = model[-1] if hasattr(model, "steps") else model
    return getattr(model, "model_", model)


def _on_graphs(graphs: list, y: np.ndarray, task: str) -> Trained:
    """A model with a Weisfeiler-Lehman kernel, tuned by cross-validation."""
    from sklearn.model_selection import GridSearchCV

    kernel = K.WeisfeilerLehman().normalize()
    grid: dict[str, list] = {"kernel__kernel__iterations": [1, 3, 5]}
    if task == "classification":
        model: Any = mercer.SVC(kernel=kernel)
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
