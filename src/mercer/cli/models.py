"""The model that `mercer fit` trains: the one place that says which."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

import mercer
import mercer.kernels as K

# Exact machines on more points than this take minutes.
MOST_ROWS = 4000


class Trained(NamedTuple):
    """A fitted model, and what was tried on the way to it, best first: rows of a table."""

    model: Any
    tried: list[dict[str, Any]]


def train(X: Any, y: np.ndarray, task: str, max_time: float, random_state: int) -> Trained:
    """The best model for these data that can be found in so many seconds.

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
    return _on_columns(X, y, task, random_state)


def _on_graphs(graphs: list, y: np.ndarray, task: str) -> Trained:
    """A Weisfeiler-Lehman kernel and a machine, by cross-validation."""
    from sklearn.model_selection import GridSearchCV

    kernel = K.WeisfeilerLehman().normalize()
    grid: dict[str, list] = {"kernel__kernel__iterations": [1, 3, 5]}
    if task == "classification":
        machine: Any = mercer.SVC(kernel=kernel)
        grid["C"] = [1.0, 10.0, 100.0]
    else:
        machine = mercer.KernelRidgeCV(kernel=kernel)
    search = GridSearchCV(machine, grid, cv=5, refit=True).fit(graphs, y)
    found = search.cv_results_
    order = np.argsort(found["rank_test_score"], kind="stable")
    tried = [
        {
            "kernel": repr(clone(machine).set_params(**found["params"][i]).kernel),
            **{name: found["params"][i][name] for name in grid if "__" not in name},
            "score": float(found["mean_test_score"][i]),
        }
        for i in order
    ]
    return Trained(search.best_estimator_, tried)


def _on_columns(X: Any, y: np.ndarray, task: str, random_state: int) -> Trained:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    rows = np.random.default_rng(random_state).permutation(len(y))[:MOST_ROWS]
    machine = mercer.SVC(C=10.0) if task == "classification" else mercer.KernelRidgeCV(kernel="rbf")
    if hasattr(X, "columns"):
        model = make_pipeline(_columns(X), machine)
        return Trained(model.fit(X.iloc[rows], y[rows]), [])
    scaler = MaxAbsScaler() if hasattr(X, "tocsr") else StandardScaler()
    return Trained(make_pipeline(scaler, machine).fit(X[rows], y[rows]), [])


def _columns(X: Any) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    from mercer.cli.columns import column_kinds

    kinds = column_kinds(X)
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    categories = [name for name, kind in kinds.items() if kind == "category"]
    words = K.Spectrum(3).normalize().feature_map()
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    one_hot = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer(
        [
            ("numbers", scaled, numbers),
            ("categories", one_hot, categories),
            *((name, words, name) for name, kind in kinds.items() if kind == "text"),
        ]
    )
