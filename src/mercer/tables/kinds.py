"""What the columns of a table hold, and whether a target is a class or a quantity."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.tables.marked_numbers import FEW_WORDS

# Whole numbers of at most so many different values, each some times over, are classes.
MOST_CLASSES = 20
# Most levels of a category that are listed.
MOST_LEVELS = 200
SLASHED_DAY = r"\d{1,2}/\d{1,2}/\d{4}"
# What is before a number and after it; letters at a number's head, as in P12, are no unit.
WITH_UNIT = r"^(\D*[^-\w+−]|)[-+−]?\d[\d.,]*(?:[eE][-+]?\d+)?\s*(\D*)$"


def described(X: Any, kinds: list[str]) -> list[dict[str, Any]]:
    """A row for each column of a table: its name, kind, missing values and what it holds.

    Parameters
    ----------
    X : DataFrame
    kinds : list of str
        "number", "category" or "text", as the model sees each column.
    """
    rows = []
    for k, kind in enumerate(kinds):
        column = X.iloc[:, k]
        missing = int(column.isna().sum())
        shown = _held(column.dropna(), kind)
        row = {"name": str(X.columns[k]), "kind": kind, "missing": missing, "holds": shown}
        rows.append(row | _values(column.dropna(), kind))
    return rows


def _values(column: Any, kind: str) -> dict[str, Any]:
    """The range of a column of numbers or times, or the levels of a category; a typical value."""
    if not len(column):
        return {}
    if kind != "number":
        typical = {"example": str(column.iloc[0])[:60], "typical": str(column.mode().iloc[0])}
        levels = sorted(map(str, column.unique())) if kind == "category" else []
        return typical | ({"levels": levels} if 0 < len(levels) <= MOST_LEVELS else {})
    example = {"example": str(column.iloc[0])}
    numbers = as_numbers(column)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return example
    limits = [float(numbers.min()), float(numbers.max())]
    return {**example, "range": limits, "typical": float(np.median(numbers))}


def as_numbers(column: Any) -> np.ndarray:
    """The numbers of a column, days since 1970 of times, NaN for words."""
    import pandas

    if getattr(column.dtype, "kind", "O") == "M":
        times = column.to_numpy(dtype="datetime64[us]")
        return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 8.64e10)
    return pandas.to_numeric(column, errors="coerce").to_numpy(dtype=float)


def _held(column: Any, kind: str) -> str:
    if not len(column):
        return "nothing"
    if getattr(column.dtype, "kind", "") == "M":
        clock = (column.dt.strftime("%Y-%m-%d") == "1970-01-01").all()
        form = "%H:%M" if clock else "%Y-%m-%d"
        return f"{column.min():{form}} to {column.max():{form}}"
    if kind == "number":
        values = column.astype(float)
        return f"{values.min():g} to {values.max():g}"
    if kind == "category":
        more = ", ..." if column.nunique() > 4 else ""
        return ", ".join(map(str, column.value_counts().index[:4])) + more
    lengths = column.astype(str).str.len()
    return f"{lengths.min()} to {lengths.max()} letters"


def written_days(times: Any) -> Any:
    """Times as text, with the hour where it is not midnight."""
    return times.dt.strftime("%Y-%m-%d %H:%M:%S").str.removesuffix(" 00:00:00")


def nonnumbers(column: Any) -> list[str]:
    """The words in a column that are neither numbers nor missing."""
    return [str(word) for word in column[_as_numbers(column).isna() & column.notna()]]


def numbers_meant(column: Any) -> Any:
    """The column with words as missing values, where nearly all it holds are numbers; else None."""
    if getattr(column.dtype, "kind", "O") in "biufcmM" or str(column.dtype) == "category":
        return None
    numbers, words = _as_numbers(column), len(nonnumbers(column))
    few = 0 < words < FEW_WORDS * column.notna().sum()
    return numbers if few and numbers.nunique() > MOST_CLASSES else None


def _as_numbers(column: Any) -> Any:
    import pandas

    return pandas.to_numeric(column.astype(str), errors="coerce")


def slashed_day(column: Any) -> str | None:
    """A day as in 12/31/2024 or 31/12/2024, where all words of the column are such days."""
    words = column.dropna()
    is_text = len(words) and all(isinstance(word, str) for word in words)
    slashed = is_text and words.str.fullmatch(SLASHED_DAY).all()
    return words.iloc[0] if slashed else None


def number_with_unit(column: Any) -> str | None:
    """A number as in 12 kg or EUR 12, where most words are such, of one unit, and many differ."""
    words = column.dropna()
    if not len(words) or not all(isinstance(word, str) for word in words):
        return None
    parts = words.str.extract(WITH_UNIT).dropna()
    units = parts[0].str.strip() + " " + parts[1]
    if not len(units):
        return None
    commonest = units.value_counts().index[0]
    alike = words[units.index[units == commonest]]
    many = 2 * len(alike) > len(words) and alike.nunique() > MOST_CLASSES
    return alike.iloc[0] if many and commonest.strip() else None


def may_be_quantities(classes: np.ndarray) -> bool:
    """Whether words that are taken for classes are many, and mostly different or with digits."""
    different = np.unique(classes)
    if classes.dtype.kind not in "OUT" or len(different) <= MOST_CLASSES:
        return False
    digits = [any(letter.isdigit() for letter in str(word)) for word in different]
    return bool(np.mean(digits) > 1 - FEW_WORDS or len(different) > len(classes) / 2)


def task_of(y: Any, text: bool) -> str:
    """Whether the task is classification or regression.

    Parameters
    ----------
    y : array or Series
    text : bool
        Whether they were read from text, where 1 and 1.0 are the same: whole numbers then
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
