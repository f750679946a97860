"""Days as they are written: 2024-12-31, 2024-12-31T23:59:00+01:00 and 31.12.2024."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np

_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_POINTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII)


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
    except (ValueError, OverflowError):  # as in 2024-02-30
        pass
    return None
