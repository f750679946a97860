"""The structure of a target as a function of one or a few columns, for the report."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mercer.tables.kinds import as_numbers

# Columns up to which a structure is looked for, points of a curve, and points of the data shown.
MOST_COLUMNS, CURVE, MOST_SHOWN = 5, 200, 1000
# A curve of a series goes on for this fraction of its range.
BEYOND = 0.15
# The band has so many standard deviations on each side, 95 % of a normal distribution.
REACH = 1.96


def refuse_unstructured(X: Any, task: str) -> None:
    """Raise a ValueError if there is no structure to look for in this table."""
    count = len(getattr(X, "columns", ()))
    kinds = [getattr(kind, "kind", "O") for kind in getattr(X, "dtypes", ())]
    if task != "regression":
        raise ValueError("--explain: the target has classes; a structure is that of a quantity")
    if not 1 <= count <= MOST_COLUMNS or not set(kinds) <= set("biufM"):
        words = [str(X.columns[j]) for j, kind in enumerate(kinds) if kind not in "biufM"]
        held = f"the columns {', '.join(words)} hold words" if words else f"there are {count}"
        raise ValueError(
            f"--explain needs 1 to {MOST_COLUMNS} columns of numbers or dates, such as the times "
            f"of a series, and {held}; exclude columns with --ignore"
        )


def structure_of(X: Any, y: np.ndarray, max_time: float, random_state: int = 0) -> dict[str, Any]:
    """Parts of the target, found by `StructureSearch`, with the curve of each along its column.

    Parameters
    ----------
    X : DataFrame
        One to five columns of numbers or dates; rows with a missing value are left out.
    y : (n,) array
    max_time : float
        Seconds of the search.

    Returns
    -------
    dict
        ``"words"`` has a line for each part, ``"parts"`` their curves; of a single column
        ``"whole"`` has that of the sum, which goes on beyond the data, and ``"points"`` the data.
    """
    from mercer.estimators import StructureSearch

    known = np.all([np.isfinite(as_numbers(X.iloc[:, j])) for j in range(X.shape[1])], axis=0)
    X, y = X.loc[known], np.asarray(y, dtype=float)[known]
    with warnings.catch_warnings():
        # Curves are drawn through plain numbers, which have no names of features.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        search = StructureSearch(max_time=max_time, random_state=random_state).fit(X, y)
        found: dict[str, Any] = {"words": search.describe().splitlines()}
        found["parts"] = [_curve(search, i) for i in range(len(search.report_["parts"]))]
        if X.shape[1] == 1:
            found["whole"] = _whole(search)
            found["points"] = _points(search, y)
    return found


def _curve(search: Any, i: int) -> dict[str, Any]:
    """The posterior of a part along its column, the others at their medians."""
    entry, points = search.report_["parts"][i], search.X_train_
    j = entry["feature"]
    x = np.linspace(points[:, j].min(), points[:, j].max(), CURVE)
    Z = np.tile(np.median(points, axis=0), (CURVE, 1))
    Z[:, j] = x
    part = search.predict_parts(Z)[i]
    words = {"words": part.words, "share": part.share, "kernel": entry["kernel"]}
    return words | _along(search.axes_[j], x, part.mean, part.std)


def _whole(search: Any) -> dict[str, Any]:
    low, high = search.X_train_.min(), search.X_train_.max()
    x = np.linspace(low, high + BEYOND * (high - low), 3 * CURVE)
    mean, std = search.predict(x[:, None], return_std=True)
    return {**_along(search.axes_[0], x, mean, std), "end": _written(search.axes_[0], high)}


def _points(search: Any, y: np.ndarray) -> dict[str, Any]:
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), MOST_SHOWN)).astype(int))
    return {"x": _written(search.axes_[0], search.X_train_[rows, 0]), "y": y[rows].tolist()}


def _along(axis: Any, x: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, Any]:
    return {
        "column": axis.name,
        "x": _written(axis, x),
        "mean": mean.tolist(),
        "low": (mean - REACH * std).tolist(),
        "high": (mean + REACH * std).tolist(),
    }


def _written(axis: Any, x: Any) -> Any:
    """Numbers, or dates as text."""
    shown = axis.shown(np.asarray(x))
    return shown.astype(str).tolist() if shown.dtype.kind == "M" else shown.tolist()
