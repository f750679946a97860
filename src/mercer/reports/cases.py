"""Single rows: what if a column had another value, similar training rows, intervals, residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import n_rows, take_rows
from mercer.reports import importances as importance
from mercer.reports.novelty import similarities
from mercer.reports.scores import HeldOut, wilson

# Columns that are varied for one row or drawn against residuals, and places of each curve.
COLUMNS, PLACES = 6, 21
# Rows drawn against each column, most similar rows listed, training rows they are sought among.
DRAWN, NEAREST, SOUGHT = 400, 5, 5000
# Nominal coverages of prediction intervals that are compared with the fraction observed.
COVERAGES = (0.5, 0.8, 0.9, 0.95)


def largest_error(held: HeldOut) -> int:
    """The row with the largest error, or the least probability of its class."""
    if held.task == "regression":
        return int(np.argmax(np.abs(held.y - held.predicted)))
    if held.probabilities is None or held.classes is None:
        return int(np.argmax(held.y != held.predicted))
    place = np.minimum(np.searchsorted(held.classes, held.y), len(held.classes) - 1)
    return int(np.argmin(held.probabilities[np.arange(len(held.y)), place]))


def what_if(
    model: Any, X: Any, held: HeldOut, row: int, number: int, columns: list[str]
) -> dict[str, Any] | None:
    """The response for one row with each column in turn set to other values.

    Parameters
    ----------
    row : int
        Position in X; ``number`` is what the report calls it.
    columns : list of str
        The most important columns.

    Returns
    -------
    dict with the row, its true value and response, and "columns": for each the values, the
    responses, and the row's own value; None if no column can be varied.
    """
    names = importance.column_names(X) or []
    one, found = take_rows(X, np.array([row])), []
    for name in columns[:COLUMNS]:
        k = names.index(name)
        places = importance.places_of(importance.column_of(X, k), PLACES)
        if len(places) < 2:
            continue
        own = importance.column_of(one, k)
        own = own.iloc[0] if hasattr(own, "iloc") else own[0]
        values = importance.response(model, importance.crossed(one, {k: places}))
        found.append(
            {
                "column": name,
                "values": [importance.plain(v) for v in places],
                "response": values.tolist(),
                "own": None if own is None or own != own else importance.plain(own),
            }
        )
    if not found:
        return None
    return {
        "row": number,
        "true": _shown(held.y[row]),
        "predicted": _shown(held.predicted[row]),
        "response": float(importance.response(model, one)[0]),
        "columns": found,
    }


def nearest_training_rows(
    model: Any, X: Any, row: int, X_train: Any, y_train: np.ndarray, numbers: np.ndarray
) -> list[dict[str, Any]]:
    """The training rows most similar to one row, by the model's kernel; none without a kernel."""
    n = min(n_rows(X_train), SOUGHT)
    some = np.arange(n)
    close = similarities(model, take_rows(X, np.array([row])), take_rows(X_train, some))
    if close is None:
        return []
    order = np.argsort(-close, kind="stable")[:NEAREST]
    return [
        {"row": int(numbers[i]), "similarity": float(close[i]), "true": _shown(y_train[i])}
        for i in order
    ]


def interval_coverage(model: Any, X: Any, y: np.ndarray) -> list[dict[str, Any]]:
    """Nominal and observed coverage of prediction intervals, and their mean width."""
    if not hasattr(model, "predict_interval"):
        return []
    found = []
    for coverage in COVERAGES:
        try:
            low, high = np.asarray(model.predict_interval(X, coverage=coverage))
        except (TypeError, ValueError):  # the model has no intervals after this fit
            return []
        inside = int(np.sum((low <= y) & (y <= high)))
        width = high - low
        found.append(
            {
                "coverage": coverage,
                "observed": inside / len(y),
                "interval": list(wilson(inside, len(y))),
                "mean width": float(width.mean()) if np.all(np.isfinite(width)) else None,
            }
        )
    return found


def residuals_by_column(X: Any, held: HeldOut, columns: list[str]) -> list[dict[str, Any]]:
    """Residuals of some held-out rows and their values in columns of numbers or few categories."""
    names = importance.column_names(X) or []
    rows = np.random.default_rng(0).permutation(len(held.y))[:DRAWN]
    residual = (held.y - held.predicted)[rows]
    found = []
    for name in columns[:COLUMNS]:
        column = take_rows(importance.column_of(X, names.index(name)), rows)
        values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
        if values.dtype.kind in "biuf":
            known = np.isfinite(values.astype(float))
            shown: list = values[known].astype(float).tolist()
        else:
            known = np.array([v is not None and v == v for v in values])
            shown = [importance.plain(v) for v in values[known]]
            if len(set(shown)) > 8:
                continue
        if known.sum() > 1:
            found.append({"column": name, "values": shown, "residual": residual[known].tolist()})
    return found


def _shown(value: Any) -> Any:
    return float(value) if isinstance(value, int | float | np.number) else str(value)
