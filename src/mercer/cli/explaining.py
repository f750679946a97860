"""Why a model predicts what it does for one row."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.cli.predicting import arranged, predictions
from mercer.reports.importances import column_names, column_of, response, with_column
from mercer.reports.novelty import novelty, similarities, unlike_training
from mercer.tables.data import Data, counted

# Training rows that are listed as the nearest.
NEAREST = 5


def explanation(
    model: Any, notes: dict[str, Any], data: Data, row: int, among: Data | None = None
) -> dict[str, Any]:
    """The prediction for a row, the effect of each column, and the nearest training rows.

    The effect of a column is the change of the prediction when its value is replaced by the
    typical one of the training rows: the median, or the most frequent category. Effects of
    columns that interact do not add up.

    Parameters
    ----------
    model : fitted estimator
    notes : dict
        Of the model file.
    data : Data
    row : int
        Position in the data, from 0.
    among : Data or None
        Rows, such as the training file, of which the nearest to this one are listed.
    """
    X = arranged(model, notes, data)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if not 0 <= row < n:
        raise ValueError(f"--row {row}: {data.source} has {counted(n, 'row')}, from 0")
    names = column_names(X)
    if names is None:
        raise ValueError("explain needs a table with named columns or an array")
    one = X.iloc[[row]] if hasattr(X, "iloc") else X[[row]]
    columns = predictions(model, {**notes, "left out": {}}, _only(data, row))
    found: dict[str, Any] = {
        "row": row,
        "prediction": columns["prediction"][0],
        "response": float(response(model, one)[0]),
        "of": _meaning(model, notes),
        "effects": _effects(model, notes, one, names),
        "unlike training": unlike_training(notes.get("columns", []), one)[0]
        if hasattr(one, "columns")
        else [],
    }
    distance = novelty(model, one)
    if distance is not None:
        found["novelty"] = float(distance[0])
    if among is not None:
        found["nearest"] = _nearest(model, notes, one, among)
    return found


def _only(data: Data, row: int) -> Data:
    from dataclasses import replace

    X = data.X.iloc[[row]] if hasattr(data.X, "iloc") else data.X[[row]]
    return replace(data, X=X, y=None, names={})


def _meaning(model: Any, notes: dict[str, Any]) -> str:
    """What the effects are changes of."""
    if hasattr(model, "predict_proba"):
        return f"probability of {model.classes_[-1]}"
    if hasattr(model, "decision_function"):
        return f"score of {model.classes_[-1]}"
    return str(notes.get("target") or "the prediction")


def _effects(model: Any, notes: dict[str, Any], one: Any, names: list[str]) -> list[dict[str, Any]]:
    typical = {c["name"]: c["typical"] for c in notes.get("columns", []) if "typical" in c}
    at, found = float(response(model, one)[0]), []
    for k, name in enumerate(names):
        column = column_of(one, k)
        if name not in typical:
            continue
        value = typical[name]
        if hasattr(column, "astype"):
            value = _of_kind(column, value)
        if value is None:
            continue
        changed = with_column(one, k, value)
        found.append(
            {
                "column": name,
                "value": str(column.iloc[0] if hasattr(column, "iloc") else column[0]),
                "typical": str(typical[name]),
                "effect": at - float(response(model, changed)[0]),
            }
        )
    return sorted(found, key=lambda r: -abs(r["effect"]))


def _of_kind(column: Any, value: Any) -> Any:
    """The typical value as a column of the same kind, None where it does not fit."""
    kind = getattr(column.dtype, "kind", "O")
    if not hasattr(column, "iloc"):
        return np.asarray([value], dtype=float) if kind in "iuf" else None
    import pandas

    if kind == "M":
        times = pandas.to_datetime(pandas.Series([float(value)]), unit="D", utc=True)
        return times if column.dt.tz is not None else times.dt.tz_localize(None)
    if kind in "iuf":
        return pandas.Series([float(value)])
    if kind == "b":
        return pandas.Series([bool(value)])
    return pandas.Series([str(value)], dtype=column.dtype if kind == "O" else object)


def _nearest(model: Any, notes: dict[str, Any], one: Any, among: Data) -> list[dict[str, Any]]:
    others = arranged(model, notes, among)
    close = similarities(model, one, others)
    if close is None:
        return []
    target = notes.get("target")
    y = among.X[target] if among.columns is not None and target in among.columns else among.y
    found = []
    for i in np.argsort(-close, kind="stable")[:NEAREST]:
        entry: dict[str, Any] = {"row": int(i), "similarity": float(close[i])}
        if y is not None:
            entry[str(target or "y")] = str(y.iloc[i] if hasattr(y, "iloc") else y[i])
        found.append(entry)
    return found


def lines(found: dict[str, Any], width: int = 24) -> str:
    """The explanation as text with bars."""
    out = [f"row {found['row']}: prediction {found['prediction']}"]
    if str(found["prediction"]) != f"{found['response']:.6g}":
        out.append(f"{found['of']}: {found['response']:.4g}")
    if "novelty" in found:
        out.append(
            f"novelty: {found['novelty']:.3f} (fraction of training points that are closer to "
            "another than this row is to any)"
        )
    out += [f"unlike training: {flag}" for flag in found["unlike training"]]
    shown = [row for row in found["effects"][:15] if row["effect"] != 0]
    if shown:
        out += ["", f"change of {found['of']} compared with the typical value of a column:"]
        most = max(abs(row["effect"]) for row in shown)
        name = max(len(row["column"][:28]) for row in shown)
        for row in shown:
            bar = "█" * max(1, round(width * abs(row["effect"]) / most))
            words = f"{row['value'][:18]} instead of {row['typical'][:18]}"
            out.append(f"  {row['column'][:28]:<{name}}  {row['effect']:+.4g}  {bar}  {words}")
    if found.get("nearest"):
        out += ["", "most similar rows, by the kernel:"]
        for row in found["nearest"]:
            rest = ", ".join(f"{k} {v}" for k, v in row.items() if k not in ("row", "similarity"))
            out.append(
                f"  row {row['row']}: similarity {row['similarity']:.3f}, {rest}".rstrip(", ")
            )
    return "\n".join(out)
