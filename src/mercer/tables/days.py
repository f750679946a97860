"""Days and times of day as they are written.

2024-12-31, 2024-12-31T23:59:00+01:00, 2024-12, 31.12.2024, Dec 31, 2024, 31 Dec 2024, 31-Dec-2024,
and times of day, 08:30 or 08:30:15, as times on 1970-01-01.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np

_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_MONTH = re.compile(r"(\d{4})-(\d\d)", re.ASCII)
_POINTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?", re.ASCII)
_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2}),? (\d{4})", re.ASCII)
_DAY_FIRST = re.compile(r"(\d{1,2})[ -]([A-Za-z]{3,9})\.?[ -](\d{4})", re.ASCII)
_MONTHS = [
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
]


def is_day(word: Any) -> bool:
    return _time(word) is not None


def times(words: Iterable[Any]) -> np.ndarray:
    """The times in Greenwich that words are, NaT for all else.

    Examples
    --------
    >>> times(["1970-01-02", "1970-01-01 12:00+01:00", "3.1.1970", "soon"]).astype("M8[h]").tolist()
    ... # doctest: +NORMALIZE_WHITESPACE
    [datetime.datetime(1970, 1, 2, 0, 0), datetime.datetime(1970, 1, 1, 11, 0),
     datetime.datetime(1970, 1, 3, 0, 0), None]
    """
    return np.array([_time(word) for word in words], dtype="datetime64[us]")


def _time(word: Any) -> datetime | None:
    if not isinstance(word, str):
        return None
    word = word.strip()
    try:
        if _ISO.fullmatch(word):
            time = datetime.fromisoformat(word)
            return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
        if points := _POINTS.fullmatch(word):
            day, month, year = map(int, points.groups())
            return datetime(year, month, day)
        if month_alone := _MONTH.fullmatch(word):
            year, month = map(int, month_alone.groups())
            return datetime(year, month, 1)
        if clock := _CLOCK.fullmatch(word):
            hour, minute, second = (int(part or 0) for part in clock.groups())
            return datetime(1970, 1, 1, hour, minute, second)
        if parts := _MONTH_FIRST.fullmatch(word):
            name, day, year = parts.groups()
            return _named_day(int(year), name, int(day))
        if parts := _DAY_FIRST.fullmatch(word):
            day, name, year = parts.groups()
            return _named_day(int(year), name, int(day))
    except (ValueError, OverflowError):  # as in 2024-02-30
        pass
    return None


def _named_day(year: int, name: str, day: int) -> datetime | None:
    """A day whose month is a word, or its first letters, three at least."""
    for number, month in enumerate(_MONTHS, 1):
        if month.startswith(name.lower()):
            return datetime(year, number, day)
    return None


def eight_digits(numbers: np.ndarray) -> np.ndarray | None:
    """Days written as 20241231, (n,); None where one is none, or not between 1800 and 2200.

    Examples
    --------
    >>> eight_digits(np.array([20240229, 19991231])).astype(str).tolist()
    ['2024-02-29', '1999-12-31']
    >>> eight_digits(np.array([20230229]))
    """
    if not len(numbers) or numbers.min() < 18000101 or numbers.max() > 22001231:
        return None
    words = [f"{n // 10000:04d}-{n // 100 % 100:02d}-{n % 100:02d}" for n in numbers.tolist()]
    found = times(words).astype("datetime64[D]")
    return None if np.isnat(found).any() else found
