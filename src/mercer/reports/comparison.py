"""Other models on the same training and held-out rows: a constant, a linear one, boosted trees."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.reports.scores import METRICS, HeldOut, constant, interval
from mercer.tables.coding import TableCoding
from mercer.tables.sparse import SparseCoding

# Training rows for the other models, of larger data a sample.
MOST_ROWS = 50_000


def compared(
    held: HeldOut, X: Any, X_train: Any, y_train: np.ndarray, metric: str, random_state: int = 0
) -> list[dict[str, Any]]:
    """The score, its interval and the seconds of each model, with settings of scikit-learn.

    Parameters
    ----------
    held : HeldOut
        Predictions of our model for the rows X.
    X, X_train : DataFrame, array or sparse matrix
    y_train : (m,) array
    metric : str
    """
    always, words = constant(held, y_train, metric)
    rows = [_row("this model", held, metric, None), _row(words, always, metric, None)]
    if isinstance(X, list):
        return rows
    if len(y_train) > MOST_ROWS:
        chosen = np.random.default_rng(random_state).permutation(len(y_train))[:MOST_ROWS]
        X_train = X_train.iloc[chosen] if hasattr(X_train, "iloc") else X_train[chosen]
        y_train = y_train[chosen]
    points = _points(X, X_train)
    if points is None:
        return rows
    for name, estimator in _others(held.task, sp.issparse(points[0]), random_state).items():
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a solver that stops early is still a comparison
            estimator.fit(points[1], y_train)
        seconds = time.perf_counter() - began
        predicted = np.asarray(estimator.predict(points[0]))
        shares = classes = None
        if held.task == "classification":
            shares, classes = estimator.predict_proba(points[0]), estimator.classes_
        other = HeldOut(held.task, held.y, predicted, classes, shares)
        rows.append(_row(name, other, metric, seconds))
    return rows


def _points(X: Any, X_train: Any) -> tuple[Any, Any] | None:
    """Coded rows without texts; None if nothing is left."""
    if sp.issparse(X):
        occupied = SparseCoding().fit(X_train)
        return occupied.transform(X), occupied.transform(X_train)
    coding = TableCoding().fit(X_train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair = coding.transform(X), coding.transform(X_train)
    keep = pair[0].shape[1] - len(coding.texts_)
    if not keep:
        return None
    return tuple(points[:, :keep].astype(float) for points in pair)  # type: ignore[return-value]


def _others(task: str, is_sparse: bool, random_state: int) -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
    from sklearn.model_selection import GridSearchCV, ShuffleSplit

    if task == "regression":
        linear: Any = RidgeCV(np.logspace(-3, 3, 13))
        if is_sparse:  # RidgeCV makes a dense matrix of the size of X
            split = ShuffleSplit(1, test_size=0.2, random_state=random_state)
            linear = GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 7)}, cv=split)
        trees: Any = HistGradientBoostingRegressor(random_state=random_state)
    else:
        linear = LogisticRegression(max_iter=300)
        trees = HistGradientBoostingClassifier(random_state=random_state)
    name = "ridge regression" if task == "regression" else "logistic regression"
    return {name: linear} if is_sparse else {name: linear, "boosted trees": trees}


def _row(name: str, held: HeldOut, metric: str, seconds: float | None) -> dict[str, Any]:
    chosen = METRICS[metric]
    if chosen.needs_probabilities and held.probabilities is None:
        return {"model": name, "value": float("nan"), "interval": [float("nan")] * 2}
    found = {"model": name, "value": chosen.function(held), "interval": interval(held, metric)}
    return found if seconds is None else {**found, "seconds": seconds}
