"""How far new rows are from the training rows, and which rows were trained on."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from mercer.arrays import n_rows
from mercer.auto.novelty import novelty as nearest_novelty
from mercer.kernels import Kernel, Precomputed
from mercer.tables.kinds import as_numbers

# Rows whose fingerprints are stored.
MOST_FINGERPRINTS = 200_000
# A number this fraction of the training range beyond it is flagged.
BEYOND = 0.1


def fingerprints(X: Any) -> np.ndarray | None:
    """A 32-bit hash per row of a table or array; None for other points."""
    if hasattr(X, "tocsr") or isinstance(X, list):
        return None
    import pandas

    table = X if hasattr(X, "columns") else pandas.DataFrame(np.asarray(X))
    parts = {}
    for k in range(table.shape[1]):
        column = table.iloc[:, k]
        kind = getattr(column.dtype, "kind", "O")
        if kind in "biuf":
            parts[k] = column.astype(np.float64) + 0.0  # without a negative zero
        else:
            parts[k] = column.astype(object).where(column.notna(), "").astype(str)
    if not parts:
        return None
    whole = pandas.util.hash_pandas_object(pandas.DataFrame(parts), index=False)
    return (whole.to_numpy() >> np.uint64(32)).astype("<u4")


def stored_fingerprints(X: Any) -> str | None:
    """Fingerprints of training rows as text; None for more than 200,000 rows."""
    found = fingerprints(X) if n_rows(X) <= MOST_FINGERPRINTS else None
    return None if found is None else base64.b64encode(np.unique(found).tobytes()).decode()


def were_trained_on(stored: Any, X: Any) -> np.ndarray | None:
    """Which rows have the fingerprint of a training row; None if that is not known."""
    try:
        known = np.frombuffer(base64.b64decode(stored, validate=True), dtype="<u4")
    except (TypeError, ValueError):  # a damaged file
        return None
    found = fingerprints(X)
    return None if found is None else np.isin(found, known)


def novelty(model: Any, X: Any) -> np.ndarray | None:
    r"""The fraction of training points that are closer to another one than each row is to any.

    With the similarity :math:`k(x, z) / \sqrt{k(x, x)\,k(z, z)}` of the model's kernel, zero for
    a training point, and one for a row farther from all training points than any of them is from
    its nearest neighbour. None if the model has no kernel on points.

    Parameters
    ----------
    model : estimator
    X : the rows, as for ``model.predict``
    """
    if hasattr(model, "novelty"):
        return np.asarray(model.novelty(X))
    parts = _points_and_kernel(model, X)
    if parts is None:
        return None
    rows, points, kernel = parts
    return nearest_novelty(kernel, rows, points)


def similarities(model: Any, X: Any, others: Any) -> np.ndarray | None:
    """k(x, z) / sqrt(k(x, x) k(z, z)) of one row with others, (m,); None without a kernel."""
    parts, many = _points_and_kernel(model, X), _points_and_kernel(model, others)
    if parts is None or many is None:
        return None
    (row, _, kernel), (rows, _, _) = parts, many
    roots = np.sqrt(np.maximum(np.asarray(kernel.diag(rows), dtype=float), 1e-300))
    own = np.sqrt(max(float(np.asarray(kernel.diag(row))[0]), 1e-300))
    return np.asarray(kernel(row, rows), dtype=float)[0] / roots / own


def _points_and_kernel(model: Any, X: Any) -> tuple[Any, Any, Kernel] | None:
    """The rows as the kernel sees them, the training points, and the kernel."""
    inner = getattr(model, "model_", model)
    points = getattr(inner, "X_fit_", getattr(inner, "support_vectors_", None))
    kernel = getattr(inner, "kernel_", None)
    if points is None or not isinstance(kernel, Kernel) or isinstance(kernel, Precomputed):
        return None
    rows = model.coding_.transform(X) if hasattr(model, "coding_") else X
    if not n_rows(points) or (hasattr(points, "shape") and not points.shape[1]):
        return None
    return rows, points, kernel


def unlike_training(columns: list[dict[str, Any]], X: Any) -> list[list[str]]:
    """What each row of a table has that the training rows did not.

    Parameters
    ----------
    columns : list of dict
        Of the training table, with "range" for numbers and "levels" for categories.
    X : DataFrame
    """
    found: list[list[str]] = [[] for _ in range(len(X))]
    for row in np.flatnonzero(X.isna().to_numpy().all(axis=1)):
        found[row].append("every column is missing")
    for column in columns:
        name = column["name"]
        if name not in X.columns:
            continue
        values = X[name]
        if levels := column.get("levels"):
            known = set(levels)
            for row, value in enumerate(values):
                if value is not None and value == value and str(value) not in known:
                    found[row].append(f"{name}={value} is new")
        elif limits := column.get("range"):
            low, high = map(float, limits)
            margin = BEYOND * (high - low)
            numbers = as_numbers(values)
            for row in np.flatnonzero(numbers < low - margin):
                found[row].append(f"{name}={values.iloc[row]} is below {low:g}")
            for row in np.flatnonzero(numbers > high + margin):
                found[row].append(f"{name}={values.iloc[row]} is above {high:g}")
    return found
