"""Control characters in text from files, escaped."""

from __future__ import annotations

import re
from typing import Any

# Control characters except line ends and tabs, marks of writing direction, and surrogates, which
# no output can encode.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape(text: str) -> str:
    """The text with control characters escaped.

    Examples
    --------
    >>> print(escape("a\\x1b[31mb"))
    a\\x1b[31mb
    """
    return CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def escape_all(value: Any) -> Any:
    """An equal value with control characters escaped in all its text, names of entries included.

    Examples
    --------
    >>> escape_all({"a\\x1b": ["b\\x9b", 1.5]})
    {'a\\\\x1b': ['b\\\\x9b', 1.5]}
    """
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {escape_all(name): escape_all(held) for name, held in value.items()}
    if isinstance(value, list):
        return [escape_all(held) for held in value]
    return value
