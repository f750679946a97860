"""Text from files, made safe to show: on a terminal, and in a spreadsheet."""

from __future__ import annotations

import re

# What a terminal obeys instead of showing it: control characters, but for line ends and tabs, and
# marks that turn the direction of writing; and halves of characters, which no output can encode.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# How a cell begins that a spreadsheet takes for a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str) -> str:
    """The text with what a terminal would obey written out.

    Examples
    --------
    >>> print(visible("a\\x1b[31mb"))
    a\\x1b[31mb
    """
    return _OBEYED.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def visible_json(text: str) -> str:
    """A JSON text of the same meaning, with such characters in its strings escaped.

    Examples
    --------
    >>> print(visible_json('"a\x9b31m"'))
    "a\\u009b31m"
    """
    return _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def quoted(value: object) -> object:
    """A text that a spreadsheet would run, behind a quotation mark; all else as it is.

    Examples
    --------
    >>> quoted("=1+1"), quoted("plain"), quoted("+"), quoted("-2.5"), quoted(-2.5)
    ("'=1+1", 'plain', '+', '-2.5', -2.5)
    """
    return f"'{value}" if isinstance(value, str) and _is_formula(value) else value


def _is_formula(text: str) -> bool:
    if len(text) < 2 or not text.startswith(FORMULAS):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False
