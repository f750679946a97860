"""What the columns of a table hold, and whether a target is a class or a quantity."""

from __future__ import annotations

from typing import Any

import numpy as np

# Whole numbers of at most so many different values, each some times over, are classes.
MOST_CLASSES = 20


def column_kinds(X: Any) -> dict[str, str]:
    """For each column of a table "number", "category" or "text"."""
    return {str(name): _kind(X[name]) for name in X.columns}


def _kind(column: Any) -> str:
    if column.dtype.kind in "iufb" and not hasattr(column, "cat"):
        return "number"
    if hasattr(column, "cat"):
        return "category"
    values = column.dropna().astype(str)
    # Few different values name groups; long ones that hardly repeat are texts or sequences.
    few = values.nunique() <= max(10, len(values) / 20)
    return "category" if few or values.str.len().mean() < 5 else "text"


def described(X: Any) -> list[dict[str, Any]]:
    """A row for each column of a table: its name, kind, missing values and what it holds."""
    rows = []
    for name, kind in column_kinds(X).items():
        column = X[name]
        held = column.dropna()
        if not len(held):
            shown = "nothing"
        elif kind == "number":
            shown = f"{held.min():g} to {held.max():g}"
        elif kind == "category":
            shown = ", ".join(map(str, held.value_counts().index[:4]))
            shown += ", ..." if held.nunique() > 4 else ""
        else:
            lengths = held.astype(str).str.len()
            shown = f"{lengths.min()} to {lengths.max()} letters"
        rows.append(
            {"name": name, "kind": kind, "missing": int(column.isna().sum()), "holds": shown}
        )
    return rows


def task_of(y: Any, text: bool) -> str:
    """Whether targets are to be told apart or estimated.

    Parameters
    ----------
    y : array or Series
    text : bool
        Whether they were read from text, where 1 and 1.0 are not told apart: whole numbers then
        are classes if there are few. Floating-point arrays are quantities whatever they hold.
    """
    kind = getattr(y.dtype, "kind", "O")
    if kind not in "iuf":
        return "classification"
    values = np.asarray(y, dtype=float)
    values = values[np.isfinite(values)]
    if (kind == "f" and not text) or np.any(values != np.round(values)):
        return "regression"
    different = len(np.unique(values))
    few = different == 2 or different <= min(MOST_CLASSES, len(values) / 10)
    return "classification" if few else "regression"
