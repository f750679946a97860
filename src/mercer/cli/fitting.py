"""From data to a fitted model and its summary, which JSON can hold."""

from __future__ import annotations

import operator
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import mercer
from mercer.cli import evaluation, models
from mercer.tables import kinds as columns
from mercer.tables.leaks import possible_leaks
from mercer.tables.readers import Data, counted, listed, refuse_repeated

# Most held-out predictions stored for the plots.
KEPT_PREDICTIONS = 2000
# Most held-out rows: more would not make the score more precise.
MOST_HELD_OUT = 20_000
NO_BETTER = (
    "on held-out rows the model is no better than the baseline ({}), within one standard error: "
    "the columns may carry little information, there may be too few rows, or one class dominates"
)
MANY_CLASSES = (
    "the target is text, such as {!r}, and is treated as {:,} classes; if it is a quantity, write "
    "it as plain numbers"
)
SLASHED = "column {!r} holds dates such as {!r}, which are read as text; write them as 2024-12-31"
WITH_UNIT = (
    "column {!r} holds text such as {!r}, which is not read as a number; if it is a quantity, "
    "write it as plain numbers"
)
LEAK = (
    "column {!r} alone predicts the target ({} {:.3f}), a possible leak: if it is not known when "
    "predictions are needed, exclude it with --ignore {!r}"
)
NO_SCORE = "the target is {} in all held-out rows, so the model has no score"


def fit(
    data: Data,
    *,
    task: str | None = None,
    share: float = 0.25,
    max_time: float = 60.0,
    random_state: int = 0,
    refit: bool = False,
    step: Callable[[str], None] = lambda name: None,
) -> tuple[Any, dict[str, Any]]:
    """A fitted model of the data, and its summary.

    Parameters
    ----------
    data : Data
    task : "classification", "regression" or None to infer it from the target
    share : float
        Fraction of rows to hold out for testing.
    max_time : float
        Seconds that the search for a model may take.
    random_state : int
    refit : bool
        Whether to train again on all rows after testing.
    step : callable
        Called with the name of each stage.
    """
    began = time.perf_counter()
    refuse_repeated(data, data.columns or (), ", or leave them out with --ignore {!r}")
    data, advice = _numbers_meant(data, task)
    X, y, missing = _complete(data)
    was_asked, task = task is not None, task or columns.task_of(y, text=data.is_text)
    are_numbers = getattr(y.dtype, "kind", "O") in "iuf"
    y = _targets(y, task)
    _refuse_unlearnable(y, task, are_numbers)
    if task == "classification" and not was_asked and columns.may_be_quantities(y):
        advice.append(MANY_CLASSES.format(str(y[0]), len(np.unique(y))))
    if data.held_out is not None:
        X_train, y_train = X, y
        X_test, y_test = data.held_out[0], _targets(data.held_out[1], task)
    else:
        share = min(share, MOST_HELD_OUT / len(y))
        X_train, X_test, y_train, y_test = evaluation.split(X, y, task, share, random_state)
    if hasattr(X_train, "columns") or isinstance(X_train, np.ndarray):
        name = "accuracy" if task == "classification" else "R²"
        leaks = possible_leaks(X_train, y_train, task)
        advice += [LEAK.format(column, name, value, column) for column, value in leaks.items()]
    step("training")
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model, tried = models.train(X_train, y_train, task, max_time, random_state)
    trained = time.perf_counter() - started
    step("testing")
    predicted = np.asarray(model.predict(X_test))
    score = evaluation.scored(task, y_test, predicted, y_train)
    if np.isnan(score["value"]):
        advice.append(NO_SCORE.format(y_test[0]))
    elif not score["better"]:
        advice.append(NO_BETTER.format(score["baseline name"]))
    summary = {
        "kind": "fit",
        "data": data.source,
        "rows": len(y),
        "trained on": len(y_train),
        "tested on": len(y_test),
        "rows without a target": missing,
        "task": task,
        "target": data.target,
        "columns": _described(model, X),
        "left out": data.left_out or {},
        "read as": _read_as(data),
        "score": score,
        "importances": evaluation.importances(model, X_test, y_test, task, random_state),
        "held out": _test_predictions(task, y_test, predicted),
        "tried": tried,
        "advice": [
            *advice,
            *dict.fromkeys(_line(w.message) for w in heard if _is_advice(w)),
        ],
        "mercer": mercer.__version__,
    }
    if refit:
        step("training on all rows")
        model, _ = models.train(X, y, task, max_time, random_state)
        summary["trained on"] = len(y)
    summary |= described(model)
    summary["seconds"] = {"training": trained, "all": time.perf_counter() - began}
    return model, summary


def described(model: Any) -> dict[str, Any]:
    """Facts of a fitted model: its kernel and proof, its size, its certificate."""
    inner = models.final_estimator(model)
    inside = "" if inner is model else f": {type(inner).__name__}"
    found: dict[str, Any] = {"model": type(model).__name__ + inside}
    kernel = getattr(model, "kernel_", getattr(inner, "kernel_", None))
    if isinstance(kernel, mercer.kernels.Kernel):
        validity = kernel.validity
        found["kernel"] = repr(kernel)
        found["kernel is"] = validity.status
        found["proof"] = str(validity.proof or validity.counterexample or validity.reason)
    if hasattr(inner, "support_"):
        found["size"] = {"name": "support vectors", "value": len(inner.support_)}
    elif hasattr(inner, "dual_coef_"):
        name = "centres" if getattr(inner, "solver", None) == "nystrom" else "points"
        found["size"] = {"name": name, "value": int(np.shape(inner.dual_coef_)[0])}
    result = getattr(inner, "result_", None)
    if result is not None:
        found["certificate"] = {
            "status": result.status.name.lower(),
            "gap": float(result.gap),
            "message": result.message,
            "gaps": [float(gap) for gap in result.history][-200:],
        }
    found["spectrum"] = evaluation.spectrum(model)
    return found


def _complete(data: Data) -> tuple[Any, Any, int]:
    """The rows with a target, and how many rows have none."""
    if data.y is None:
        if data.columns is None:
            raise ValueError(f"{data.source} has no target y")
        named = listed(data.columns)
        raise ValueError(f"--target: name the column of {data.source} to predict: {named}")
    X, y = data.X, data.y
    gone = np.asarray([value is None or value != value for value in y])
    if gone.any():
        kept = np.flatnonzero(~gone)
        y = y.iloc[kept] if hasattr(y, "iloc") else y[kept]
        X = X.iloc[kept] if hasattr(X, "iloc") else X[kept]
    if len(y) < 10:
        rows = counted(len(y), "row")
        raise ValueError(f"{data.source} has {rows} with a target; at least 10 are needed")
    if data.columns is not None and not data.columns:
        raise ValueError(f"{data.source} has no column except the target")
    for name in data.columns or ():
        if X[name].dtype.kind == "f" and (rows := np.flatnonzero(np.isinf(X[name]))).size:
            raise ValueError(f"column {name!r} of {data.source} is infinite in row {rows[0]}")
    return X, y, int(gone.sum())


def _targets(y: Any, task: str) -> np.ndarray:
    if hasattr(y, "dt") and y.dtype.kind == "M":
        y = columns.written_days(y)
    if task == "regression":
        try:
            values = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            words = columns.nonnumbers(y) if hasattr(y, "iloc") else [str(y[0])]
            raise ValueError(
                f"the target holds {words[0]!r}, which is not a number; write numbers, or use "
                "--task classification"
            ) from None
        if not np.all(np.isfinite(values)):
            raise ValueError("the target has infinite values")
        return values
    values = np.asarray(y)
    if values.dtype.kind == "f" and np.all((values == np.round(values)) & (abs(values) < 2**53)):
        return values.astype(np.int64)
    return values.astype(str) if values.dtype.kind in "OMf" else values


def _refuse_unlearnable(y: np.ndarray, task: str, are_numbers: bool) -> None:
    values = np.unique(y)
    if len(values) == 1:
        raise ValueError(f"the target is {y[0]} throughout; there is nothing to learn")
    if task == "classification" and len(values) == len(y):
        quantities = (
            "without --task classification these numbers are treated as quantities"
            if are_numbers
            else "write quantities as plain numbers"
        )
        raise ValueError(
            f"no two rows have the same target, such as {y[0]}; each class needs several rows, and "
            f"{quantities}"
        )


def _described(model: Any, X: Any) -> list[dict[str, Any]]:
    """One entry per column, or one for all columns without names."""
    if hasattr(X, "columns"):
        return columns.described(X, model.coding_.kinds_)
    if isinstance(X, list):
        sizes = [graph.n_nodes for graph in X]
        held = f"{min(sizes)} to {max(sizes)} nodes"
        return [{"name": "graphs", "kind": "graph", "missing": 0, "holds": held}]
    name = f"{X.shape[1]:,} columns"
    if not hasattr(X, "tocsr"):
        return [{"name": name, "kind": "numbers", "missing": 0, "holds": ""}]
    held = f"{X.nnz:,} entries, {X.nnz / X.shape[0]:.3g} per row"
    return [{"name": name, "kind": "sparse numbers", "missing": 0, "holds": held}]


def _test_predictions(task: str, y: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Held-out predictions or the confusion matrix, for the plots of the report."""
    if task == "regression":
        rows = np.random.default_rng(0).permutation(len(y))[:KEPT_PREDICTIONS]
        return {"true": y[rows].tolist(), "predicted": predicted[rows].tolist()}
    from sklearn.metrics import confusion_matrix

    labels = np.unique(np.concatenate([y, predicted]))
    with warnings.catch_warnings():  # of many classes
        warnings.simplefilter("ignore", UserWarning)
        counts = confusion_matrix(y, predicted, labels=labels)
    return {"classes": [str(label) for label in labels], "counts": counts.tolist()}


def _numbers_meant(data: Data, task: str | None) -> tuple[Data, list[str]]:
    """The data with stray words in numeric columns as missing values, and notes about them."""
    advice: list[str] = []

    def mended(name: str, column: Any) -> Any:
        numbers = columns.numbers_meant(column)
        if numbers is None:
            return column
        words = columns.nonnumbers(column)
        advice.append(
            f"column {name!r} holds numbers and {counted(len(words), 'other value')}, such as "
            f"{words[0]!r}, which are treated as missing"
        )
        return numbers

    y = data.y
    if hasattr(y, "iloc") and task != "classification":
        y = mended(data.target or "y", y)
    X = data.X
    if data.columns is not None:
        given = [X.iloc[:, k] for k in range(X.shape[1])]
        used = [mended(name, column) for name, column in zip(data.columns, given, strict=True)]
        if any(map(operator.is_not, used, given)):  # all at once: one by one is quadratic
            X = type(X)(dict(enumerate(used)), index=X.index).set_axis(X.columns, axis=1)
        for name, column in zip(data.columns, used, strict=True):
            if day := columns.slashed_day(column):
                advice.append(SLASHED.format(name, day))
            if word := columns.number_with_unit(column):
                advice.append(WITH_UNIT.format(name, word))
    return replace(data, X=X, y=y), advice


def _is_advice(heard: warnings.WarningMessage) -> bool:
    from sklearn.exceptions import ConvergenceWarning

    repeats = str(heard.message).startswith("The number of unique classes")  # as MANY_CLASSES
    return issubclass(heard.category, ConvergenceWarning | UserWarning) and not repeats


def _read_as(data: Data) -> dict[str, str]:
    """How marked numbers were read: the target first, then the features."""
    used = (data.target, *(data.columns or ()))
    return {str(name): data.read_as[name] for name in used if name in data.read_as}


def _line(message: Any) -> str:
    return " ".join(str(message).split())
