"""Rows and targets that a model can be trained on."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.arrays import take_rows
from mercer.tables import kinds as columns
from mercer.tables.data import Data, counted, listed

SLASHED = "column {!r} holds dates such as {!r}, which are read as text; write them as 2024-12-31"
WITH_UNIT = (
    "column {!r} holds text such as {!r}, which is not read as a number; if it is a quantity, "
    "write it as plain numbers"
)


def complete(data: Data) -> tuple[Data, int]:
    """The data of the rows with a target, and how many rows have none."""
    if data.y is None:
        if data.columns is None:
            raise ValueError(f"{data.source} has no target y")
        named = listed(data.columns)
        raise ValueError(f"--target: name the column of {data.source} to predict: {named}")
    X, y = data.X, data.y
    gone = np.asarray([value is None or value != value for value in y])
    if gone.any():
        kept = np.flatnonzero(~gone)
        X, y = take_rows(X, kept), take_rows(y, kept)
        groups = None if data.groups is None else data.groups[kept]
        times = None if data.times is None else data.times[kept]
        data = replace(data, X=X, y=y, groups=groups, times=times)
    if len(y) < 10:
        rows = counted(len(y), "row")
        raise ValueError(f"{data.source} has {rows} with a target; at least 10 are needed")
    if data.columns is not None and not data.columns:
        raise ValueError(f"{data.source} has no column except the target")
    for name in data.columns or ():
        if X[name].dtype.kind == "f" and (rows := np.flatnonzero(np.isinf(X[name]))).size:
            raise ValueError(f"column {name!r} of {data.source} is infinite in row {rows[0]}")
    return data, int(gone.sum())


def targets(y: Any, task: str) -> np.ndarray:
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


def refuse_unlearnable(y: np.ndarray, task: str, are_numbers: bool) -> None:
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


def numbers_meant(data: Data, task: str | None) -> tuple[Data, list[str]]:
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
