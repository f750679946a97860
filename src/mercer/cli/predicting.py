"""Predictions for new rows, with columns matched by name."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.reports import novelty
from mercer.reports.scores import METRICS, HeldOut
from mercer.tables.data import Data, counted, listed, refuse_repeated
from mercer.tables.identifiers import REASONS
from mercer.tables.kinds import written_days
from mercer.tables.sparse import SparseCoding, stays_sparse
from mercer.tables.text import as_names


def predictions(
    model: Any,
    notes: dict[str, Any],
    data: Data,
    probabilities: bool = False,
    novelties: bool = False,
) -> dict[str, np.ndarray]:
    """Row names, the column ``prediction``, and optionally probabilities and novelty."""
    X = arranged(model, notes, data)
    predicted = np.asarray(model.predict(X))
    columns = _names(notes, data)
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
    if novelties:
        columns |= _novelties(model, notes, X)
    return columns


def _novelties(model: Any, notes: dict[str, Any], X: Any) -> dict[str, np.ndarray]:
    found = {}
    distance = novelty.novelty(model, X)
    if distance is not None:
        found["novelty"] = distance
    if hasattr(X, "columns"):
        flags = novelty.unlike_training(notes.get("columns", []), X)
        found["unlike training"] = np.array(["; ".join(flag) for flag in flags], dtype=str)
    trained = novelty.were_trained_on(notes.get("training rows"), X)
    if trained is not None:
        found["trained on"] = np.where(trained, "yes", "no")
    if not found:
        raise ValueError("--novelty: this model stores nothing that new rows are compared with")
    return found


def trained_rows(model: Any, notes: dict[str, Any], data: Data) -> np.ndarray | None:
    """Which rows were trained on; None if the model does not say."""
    if not notes.get("training rows"):
        return None
    return novelty.were_trained_on(notes["training rows"], arranged(model, notes, data))


def notes_on_rows(
    model: Any, notes: dict[str, Any], data: Data, trained: np.ndarray | None
) -> list[str]:
    """Notes on rows that were trained on, and on rows that are unlike the training rows."""
    X, found = arranged(model, notes, data), []
    if trained is not None and trained.any():
        rows = counted(len(trained), "row")
        found.append(f"{trained.sum():,} of {rows} were trained on; --novelty says which")
    if hasattr(X, "columns"):
        flags = [flag for flag in novelty.unlike_training(notes.get("columns", []), X) if flag]
        if flags:
            found.append(
                f"{counted(len(flags), 'row')} unlike the training rows, such as {flags[0][0]}; "
                "--novelty says which"
            )
    return found


def _names(notes: dict[str, Any], data: Data) -> dict[str, np.ndarray]:
    """Row names: from the file, or from columns that training excluded as names."""
    found = dict(data.names)
    for name, why in (notes.get("left out") or {}).items():
        if name in (data.columns or ()) and why in REASONS:
            column = data.X[name]
            label = "name" if name.startswith("Unnamed: ") else name
            found.setdefault(label, as_names(column))
    return found


def newly_marked(notes: dict[str, Any], data: Data) -> str | None:
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


def score_of(
    notes: dict[str, Any],
    data: Data,
    columns: dict[str, np.ndarray],
    trained: np.ndarray | None = None,
) -> str | None:
    """The score if the data have the target, on all rows and on those not trained on."""
    y, task, predicted = _target(notes, data), notes.get("task"), columns.get("prediction")
    if notes.get("target") in data.repeated:
        return f"no score: several columns of {data.source} are called {notes['target']!r}"
    if y is None or task is None or predicted is None:
        return None
    given = np.array([value is not None and value == value for value in y], dtype=bool)
    y, predicted = np.asarray(y)[given], predicted[given]
    if len(y) < 2:
        return None
    new = np.ones(len(y), dtype=bool) if trained is None else ~trained[given]
    metric, without = (notes.get("score") or {}).get("metric"), ""
    if metric not in METRICS or METRICS[metric].needs_probabilities:
        metric = "accuracy" if task == "classification" else "r2"
    name = METRICS[metric].name
    if predicted.dtype.kind in "iuf":
        numbers = np.array([_number(value) for value in y])
        wrong = np.isnan(numbers)
        if wrong.any():
            without = (
                f"; {counted(wrong.sum(), 'row')} left out, whose target is not a number, such as "
                f"{y[wrong][0]!r}"
            )
        y, predicted, new = numbers[~wrong], predicted[~wrong], new[~wrong]
    else:
        y, predicted = y.astype(str), predicted.astype(str)
    if len(y) < 2:
        return f"no {name}{without}"
    held, score = HeldOut(task, y, predicted), METRICS[metric].function
    line = f"{name} {score(held):.3f} on the {len(y):,} rows with a target{without}"
    if new.sum() >= 2 and not new.all():
        line += f"; {score(held.rows(new)):.3f} on the {new.sum():,} of them not trained on"
    return line


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


def arranged(model: Any, notes: dict[str, Any], data: Data) -> Any:
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
        there = set(data.columns)
        missing = [name for name in wanted if name not in there]
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
