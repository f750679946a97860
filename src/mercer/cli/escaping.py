"""Escaping of text from files: for a terminal, for JSON, for a spreadsheet."""

from __future__ import annotations

import re

# Control characters except line ends and tabs, marks of writing direction, and surrogates, which
# no output can encode.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# First characters of a cell that a spreadsheet treats as a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def escape(text: str) -> str:
    """The text with control characters escaped.

    Examples
    --------
    >>> print(escape("a\\x1b[31mb"))
    a\\x1b[31mb
    """
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def escape_json(text: str) -> str:
    """An equal JSON text with control characters in its strings escaped.

    Examples
    --------
    >>> print(escape_json('"a\x9b31m"'))
    "a\\u009b31m"
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def quote_formula(value: object) -> object:
    """The value; text that a spreadsheet would run gets a leading quotation mark.

    Examples
    --------
    >>> quote_formula("=1+1"), quote_formula("plain"), quote_formula("+"), quote_formula(-2.5)
    ("'=1+1", 'plain', '+', -2.5)
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
