"""Predictions for new rows, with columns matched by name."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.cli.evaluation import score_value
from mercer.tables.kinds import written_days
from mercer.tables.readers import WHY_LEFT_OUT, Data, counted, listed, refuse_repeated
from mercer.tables.sparse import SparseCoding, stays_sparse
from mercer.tables.text import as_names


def predictions(
    model: Any, notes: dict[str, Any], data: Data, probabilities: bool
) -> dict[str, np.ndarray]:
    """Row names, the column ``prediction``, and optionally class probabilities."""
    _refuse_other_notes(notes)
    X = _arranged(model, notes, data)
    columns, predicted = _names(notes, data), np.asarray(model.predict(X))
    if predicted.ndim > 1:
        columns |= {f"prediction {k}": y for k, y in enumerate(predicted.T)}
    else:
        columns["prediction"] = predicted
    if probabilities:
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                "--probabilities needs a classifier with probabilities; this model has none"
            )
        shares = model.predict_proba(X)
        for label, share in zip(model.classes_, shares.T, strict=True):
            columns[f"probability of {label}"] = share
    return columns


def _refuse_other_notes(notes: dict[str, Any]) -> None:
    """Raise an error if notes are not of the form that `mercer fit` writes."""
    columns = notes.get("columns", [])
    named = isinstance(columns, list) and all(
        isinstance(column, dict) and all(isinstance(column.get(k), str) for k in ("name", "kind"))
        for column in columns
    )
    tables = [notes.get(key) or {} for key in ("left out", "read as", "score")]
    texts = [notes.get(key) or "" for key in ("target", "task")]
    fitting = all(isinstance(t, dict) for t in tables) and all(isinstance(t, str) for t in texts)
    if not (named and fitting):
        raise ValueError("the notes of the model are not those that mercer fit writes")


def _names(notes: dict[str, Any], data: Data) -> dict[str, np.ndarray]:
    """Row names: from the file, or from columns that training excluded as names."""
    found = dict(data.names)
    for name, why in (notes.get("left out") or {}).items():
        if name in (data.columns or ()) and why in WHY_LEFT_OUT:
            column = data.X[name]
            label = "name" if name.startswith("Unnamed: ") else name
            found.setdefault(label, as_names(column))
    return found


def unlike_training(notes: dict[str, Any], data: Data) -> str | None:
    """A note on columns whose numbers have marks, such as $ or %, only in the new data."""
    known = {column["name"] for column in notes.get("columns", [])} | {notes.get("target")}
    marked = {
        name: example
        for name, example in data.read_as.items()
        if name in known and name not in notes.get("read as", {})
    }
    if not marked:
        return None
    shown = listed([f"{name} ({example})" for name, example in marked.items()])
    return f"read as numbers: {shown}"


def score_of(notes: dict[str, Any], data: Data, columns: dict[str, np.ndarray]) -> str | None:
    """The score if the data have the target, and how many of its values are not numbers."""
    y, task, predicted = _target(notes, data), notes.get("task"), columns.get("prediction")
    if notes.get("target") in data.repeated:
        return f"no score: several columns of {data.source} are called {notes['target']!r}"
    if y is None or task is None or predicted is None:
        return None
    given = np.array([value is not None and value == value for value in y], dtype=bool)
    y, predicted = np.asarray(y)[given], predicted[given]
    if len(y) < 2:
        return None
    name, without = notes.get("score", {}).get("name", "score"), ""
    if predicted.dtype.kind in "iuf":
        numbers = np.array([_number(value) for value in y])
        wrong = np.isnan(numbers)
        if wrong.any():
            without = (
                f"; {counted(wrong.sum(), 'row')} left out, whose target is not a number, such as "
                f"{y[wrong][0]!r}"
            )
        y, predicted = numbers[~wrong], predicted[~wrong]
    else:
        y, predicted = y.astype(str), predicted.astype(str)
    if len(y) < 2:
        return f"no {name}{without}"
    value = score_value(task, y, predicted)
    return f"{name} {value:.3f} on the {len(y):,} rows with a target{without}"


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _target(notes: dict[str, Any], data: Data) -> Any:
    target = notes.get("target")
    if data.columns is not None and target in data.columns:
        y = data.X[target]
        return written_days(y) if y.dtype.kind == "M" else y
    return data.y


def _arranged(model: Any, notes: dict[str, Any], data: Data) -> Any:
    """The columns that the model was trained on, in their order."""
    X: Any = data.X
    known = notes.get("columns", [])
    graphs = any(column["kind"] == "graph" for column in known)
    if known and graphs != isinstance(X, list):
        held, learnt = ("a table", "graphs") if graphs else ("graphs", "a table")
        raise ValueError(f"{data.source} holds {held}, but the model was trained on {learnt}")
    wanted = [
        column["name"] for column in known if column["kind"] in ("number", "category", "text")
    ]
    if not wanted and hasattr(model, "feature_names_in_"):
        wanted = [str(name) for name in model.feature_names_in_]
    if data.columns is not None and wanted:
        missing = [name for name in wanted if name not in data.columns]
        if missing:
            several = "s" if len(missing) > 1 else ""
            lacking = listed([f"{name!r:.80}" for name in missing])
            raise ValueError(
                f"{data.source} lacks the column{several} {lacking}, which the model needs"
            )
        refuse_repeated(data, wanted)
        return X[wanted]
    if wanted and data.width == len(wanted) and not hasattr(X, "tocsr"):
        import pandas

        warnings.warn(
            f"{data.source} has no column names; they are assumed to be in the order of training",
            stacklevel=2,
        )
        return pandas.DataFrame(X, columns=wanted)
    expected = getattr(model, "n_features_in_", 0)
    if data.columns is not None and known:  # trained on an array
        X = X.drop(columns=[notes["target"]] if notes.get("target") in data.columns else [])
        X = X.to_numpy()
    # A LIBSVM file has no columns beyond its last nonzero feature.
    is_libsvm = data.is_text and data.columns is None and hasattr(X, "shape")
    if is_libsvm and X.shape[1] < expected:
        return _widened(X, expected)
    if is_libsvm and X.shape[1] > expected and isinstance(_coding(model), SparseCoding):
        return _narrowed(X, expected, data.source)
    if expected and hasattr(X, "shape") and X.shape[1] != expected:
        raise ValueError(
            f"{data.source} has {X.shape[1]} feature columns; the model was trained on {expected}"
        )
    return X


def _widened(X: Any, width: int) -> Any:
    wide = sp.csr_array(X, copy=True)
    wide.resize((X.shape[0], width))
    return wide if hasattr(X, "tocsr") or stays_sparse(wide) else wide.toarray()


def _narrowed(X: Any, width: int, source: str) -> Any:
    """The columns of training; the model does not know further ones, such as new words."""
    rows = sp.csr_array(X)
    new = rows.indices >= width
    warnings.warn(
        f"{source} has {X.shape[1]:,} columns and training had {width:,}; {new.sum():,} of "
        f"{rows.nnz:,} entries, in the further columns, are ignored",
        stacklevel=2,
    )
    return rows[:, :width]


def _coding(model: Any) -> Any:
    """The coding of tables in an automatic model, None for other models."""
    model = model[-1] if hasattr(model, "steps") else model
    return getattr(model, "coding_", None)
