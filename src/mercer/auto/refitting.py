"""An automatic model fitted to other rows with the coding, kernel and regulariser it has."""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.auto.classes import as_model
from mercer.auto.classification import AutoKernelClassifier
from mercer.auto.combination import questions_of
from mercer.auto.likelihood import fit_likelihood
from mercer.auto.rows import table_of_rows, times_class_weight, weighted_rows
from mercer.auto.targets import Targets
from mercer.tables.coordinates import TableCoordinates


def refitted(model: Any, X: Any, y: Any, groups: Any = None) -> Any:
    """A copy of a fitted automatic model, fitted to these rows without a search.

    The kernel, its scales and alpha stay, and so do the scale of the targets and the threshold.

    Parameters
    ----------
    model : fitted AutoKernelClassifier or AutoKernelRegressor
    X : table, such as the training rows with others
    y : (n,) array
    groups : (n,) array, optional
        As in ``fit``.
    """
    new, began = copy.copy(model), time.perf_counter()
    y, X = np.asarray(y), table_of_rows(X, np.asarray(y))
    weight, codes = None, None
    if isinstance(model, AutoKernelClassifier):
        if unknown := np.setdiff1d(y, model.classes_).tolist():
            raise ValueError(f"y has the class {unknown[0]!r}, which the model does not know")
        codes = np.searchsorted(model.classes_, y)
        weight = times_class_weight(model.class_weight, model.classes_, codes, None)
        columns = slice(1, None) if len(model.classes_) == 2 else slice(None)
        Y = np.eye(len(model.classes_))[codes][:, columns] - model.shares_
    else:
        mean, scale = np.atleast_1d(model.y_mean_, model.y_scale_)
        y = y.astype(np.float64).reshape(len(y), -1)
        if model.log_target_ is not None and y.min() <= -model.log_target_[0]:
            raise ValueError(f"y has {y.min():g}, whose logarithm the model cannot learn")
        Y = Targets(mean, scale, model.log_target_).standardised(y)
    if weight is not None:
        _, _, weight, _ = weighted_rows(X, y, weight, None)
    new.coding_, points = _coded(model.coding_, X, Y, weight, groups)
    if codes is not None and model.loss_ == "logistic":
        K, C = np.asarray(model.kernel_(points), dtype=np.float64), len(model.classes_)
        found = fit_likelihood(K, codes, C, model.alpha_, weight, leave_out=False)
        new.model_ = as_model(model.kernel_, points, found, codes, model.alpha_, weight, began)
    else:
        points = points if points.shape[1] else np.zeros((len(y), 1))
        new.model_ = clone(model.model_).fit(points, Y, weight)
    if model.partitions_ is not None:
        columns = questions_of(new.coding_)
        targets = Y if codes is None else codes
        new.partitions_ = clone(model.partitions_).fit(
            points[:, columns].astype(np.float64), targets, weight, groups
        )
    return new


def _coded(coding: Any, X: Any, Y: np.ndarray, weight: Any, groups: Any) -> tuple[Any, Any]:
    """The coding fitted to all rows, and their points.

    Where all rows have other categories or gaps, the coordinates differ from those that the kernel
    has scales for: the coding then stays, with target means of categories that are cross-fitted on
    all rows, since means of a row's own target would be fitted like any other number.
    """
    if not isinstance(coding, TableCoordinates):
        return coding, coding.transform(X)
    again = clone(coding)
    points = again.fit_transform(X, Y, weight, groups)
    if np.array_equal(again.owners_, coding.owners_) and again.sorts_ == coding.sorts_:
        return again, points
    kept = coding.transform(X)
    for k in np.unique(coding.owners_):
        old, new = _means_of(coding, k), _means_of(again, k)
        if len(old) == len(new):
            kept[:, old] = points[:, new]
    return coding, kept


def _means_of(coding: TableCoordinates, k: int) -> np.ndarray:
    """The coordinates that are target means of column k."""
    return np.flatnonzero((coding.owners_ == k) & (np.array(coding.sorts_) == "mean"))
