"""Escaping of text from files: for a terminal, for JSON, for a spreadsheet."""

from __future__ import annotations

from mercer.reports.controls import CONTROLS, escape

__all__ = ["escape", "escape_json", "quote_formula"]

# First characters of a cell that a spreadsheet treats as a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def escape_json(text: str) -> str:
    """An equal JSON text with control characters in its strings escaped.

    Examples
    --------
    >>> print(escape_json('"a\x9b31m"'))
    "a\\u009b31m"
    """
    return CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


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
