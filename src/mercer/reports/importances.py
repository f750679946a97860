"""Which columns the predictions depend on: permutation importance and partial dependence."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from mercer.arrays import take_rows
from mercer.reports.scores import METRICS, HeldOut

# Rows that importances are computed on, repeats, and seconds that they may take.
ROWS, REPEATS, SECONDS = 500, 10, 4.0
# Columns whose partial dependence is drawn, rows that it is averaged over, places of the curve.
CURVES, CURVE_ROWS, PLACES = 6, 60, 21
# Columns among which interactions are measured, and places of each along both.
PAIRS_OF, PAIR_PLACES = 4, 6


def importances(
    model: Any, X: Any, y: np.ndarray, task: str, random_state: int = 0
) -> list[dict[str, Any]] | None:
    """Permutation importances of the columns, largest first.

    The loss of accuracy or R² when the values of one column are permuted, with its standard
    deviation over repeats. A coded column is permuted as a whole. With very many columns, one
    permutation on few rows selects those that are repeated.

    Parameters
    ----------
    model : fitted estimator
    X : DataFrame or array
    y : (n,) array
    task : "classification" or "regression"
    random_state : int

    Returns
    -------
    list of dict with "column", "mean" and "sd"; None for other data than tables.
    """
    names = column_names(X)
    if names is None or len(names) < 2 or (task == "regression" and y.min() == y.max()):
        return None
    rng = np.random.default_rng(random_state)
    rows = rng.permutation(len(y))[:ROWS]
    began = time.perf_counter()
    model.predict(take_rows(X, rows))
    once = max(time.perf_counter() - began, 1e-4)
    chosen = np.arange(len(names))
    if len(names) * once > SECONDS / 2:
        few = rows[: max(40, int(ROWS * SECONDS / (2 * len(names) * once)))]
        first = _losses(model, X, y, task, few, chosen, 1, rng)
        chosen = chosen[np.argsort(-first[:, 0], kind="stable")[:20]]
    repeats = int(np.clip(SECONDS / (len(chosen) * once), 3, REPEATS))
    losses = _losses(model, X, y, task, rows, chosen, repeats, rng)
    found = [
        {"column": names[k], "mean": float(loss.mean()), "sd": float(loss.std(ddof=1))}
        for k, loss in zip(chosen, losses, strict=True)
    ]
    return sorted(found, key=lambda row: -row["mean"])


def _losses(
    model: Any,
    X: Any,
    y: np.ndarray,
    task: str,
    rows: np.ndarray,
    columns: np.ndarray,
    repeats: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """The loss of score, (number of columns, repeats)."""
    score = METRICS["accuracy" if task == "classification" else "r2"].function
    X, y = take_rows(X, rows), y[rows]
    whole = score(HeldOut(task, y, np.asarray(model.predict(X))))
    found = np.empty((len(columns), repeats))
    for i, k in enumerate(columns):
        for r in range(repeats):
            changed = with_column(X, k, take_rows(column_of(X, k), rng.permutation(len(y))))
            found[i, r] = whole - score(HeldOut(task, y, np.asarray(model.predict(changed))))
    return found


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a table or array; None for other data."""
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return [f"column {k}" for k in range(X.shape[1])]
    return None


def column_of(X: Any, k: int) -> Any:
    return X.iloc[:, k] if hasattr(X, "iloc") else X[:, k]


def with_column(X: Any, k: int, values: Any) -> Any:
    """A copy of the table with other values in column k."""
    changed = X.copy()
    if hasattr(X, "iloc"):
        values = values.set_axis(X.index) if hasattr(values, "set_axis") else values
        changed.isetitem(k, values)
    else:
        changed[:, k] = values
    return changed


def crossed(X: Any, columns: dict[int, list[Any]]) -> Any:
    """The rows of X once for each combination of values of some columns, one after the other."""
    grids = np.meshgrid(*[np.arange(len(v)) for v in columns.values()], indexing="ij")
    places = [grid.ravel() for grid in grids]
    n = X.shape[0]
    table = take_rows(X, np.tile(np.arange(n), len(places[0])))
    for place, (k, values) in zip(places, columns.items(), strict=True):
        table = with_column(table, k, _repeated(column_of(X, k), values, np.repeat(place, n)))
    return table


def _repeated(column: Any, values: list[Any], place: np.ndarray) -> Any:
    """``values[place]`` in the type of the column, where it holds them."""
    if not hasattr(column, "iloc"):
        return np.asarray(values)[place]
    import pandas

    found = pandas.Series(values)
    if getattr(column.dtype, "kind", "O") not in "iub" or found.dtype.kind in "iub":
        found = found.astype(column.dtype)
    return found.iloc[place].reset_index(drop=True)


def response(model: Any, X: Any) -> np.ndarray:
    """Predicted numbers, or the probability of the last class, or its score."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X))[:, -1]
    if hasattr(model, "decision_function"):
        found = np.asarray(model.decision_function(X))
        return found if found.ndim == 1 else found[:, -1]
    return np.asarray(model.predict(X), dtype=float)


def dependence(
    model: Any, X: Any, columns: list[str], random_state: int = 0
) -> list[dict[str, Any]]:
    """Partial dependence: the mean response with one column set to each of several values.

    Parameters
    ----------
    columns : list of str
        The most important columns.

    Returns
    -------
    list of dict with "column", "values", "mean", and "low" and "high", the quartiles over rows.
    """
    names = column_names(X) or []
    n = X.shape[0]
    rows = np.sort(np.random.default_rng(random_state).permutation(n)[:CURVE_ROWS])
    some, found = take_rows(X, rows), []
    for name in columns[:CURVES]:
        k = names.index(name)
        places = places_of(column_of(X, k), PLACES)
        if len(places) < 2:
            continue
        values = response(model, crossed(some, {k: places})).reshape(len(places), -1)
        low, high = np.quantile(values, [0.25, 0.75], axis=1)
        found.append(
            {
                "column": name,
                "values": [plain(v) for v in places],
                "mean": values.mean(axis=1).tolist(),
                "low": low.tolist(),
                "high": high.tolist(),
            }
        )
    return found


def interactions(
    model: Any, X: Any, columns: list[str], random_state: int = 0
) -> list[dict[str, Any]]:
    r"""Friedman's H of pairs of columns, the largest first.

    .. math:: H^2_{jk} = \sum (F_{jk} - F_j - F_k)^2 / \sum F_{jk}^2

    with centred partial dependences F: zero if the effects of both columns add up.
    """
    names = column_names(X) or []
    n = X.shape[0]
    rows = np.sort(np.random.default_rng(random_state).permutation(n)[: CURVE_ROWS // 2])
    some, chosen = take_rows(X, rows), columns[:PAIRS_OF]
    places = {c: places_of(column_of(X, names.index(c)), PAIR_PLACES) for c in chosen}
    found = []
    for a, first in enumerate(chosen):
        for second in chosen[a + 1 :]:
            j, k = names.index(first), names.index(second)
            both = {j: places[first], k: places[second]}
            if not all(both.values()):
                continue
            F = response(model, crossed(some, both))
            F = F.reshape(len(places[first]), len(places[second]), -1).mean(axis=2)
            F -= F.mean()
            rest = F - F.mean(axis=1, keepdims=True) - F.mean(axis=0)
            total = float(np.sum(F**2))
            h = np.sqrt(float(np.sum(rest**2)) / total) if total > 1e-20 else 0.0
            found.append({"columns": f"{first} × {second}", "H": float(h)})
    return sorted(found, key=lambda row: -row["H"])


def places_of(column: Any, most: int) -> list[Any]:
    """Quantiles of a column of numbers, or the most frequent values of other columns."""
    import pandas

    series = column if hasattr(column, "dropna") else pandas.Series(column)
    values = series.dropna()
    if values.dtype.kind in "iuf" and values.nunique() > 2:
        quantiles = np.quantile(values.astype(float), np.linspace(0.02, 0.98, most))
        return np.unique(quantiles).tolist()
    if values.dtype.kind == "M":
        return list(values.quantile(np.linspace(0.02, 0.98, most)).drop_duplicates())
    counts = values.value_counts()
    return list(counts.index[:8]) if len(counts) <= 200 else []


def plain(value: Any) -> Any:
    if isinstance(value, int | float | np.number):
        return float(value)
    return str(value.date()) if hasattr(value, "date") else str(value)
