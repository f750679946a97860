"""Columns that identify rows instead of describing them: names, numbers, addresses, codes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from mercer.tables.kinds import SLASHED_DAY, WITH_UNIT

NUMBERS_ROWS = "it numbers the rows"
NAMES_ROWS = "it names the rows"
NAMES_SEQUENCES = "it names the sequences"
IDENTIFIES_ROWS = "it identifies the rows: nearly every value occurs once"
E_MAIL = "it holds e-mail addresses"
PHONE = "it holds phone numbers"
# Columns left out for these reasons are printed with the predictions.
REASONS = (NUMBERS_ROWS, NAMES_ROWS, NAMES_SEQUENCES, IDENTIFIES_ROWS, E_MAIL, PHONE)

# Fewest rows that show that a column identifies them.
FEWEST_ROWS = 20
# A column whose share of distinct values exceeds this is near-unique.
NEAR_UNIQUE = 0.95
# Near-unique text of a larger mean length is prose or a sequence, not a name.
LONGEST_NAME = 40
# Values that the patterns are tried on.
_EXAMINED = 2000

_NAMED_AS_ID = re.compile(
    r"(^|[^a-z])(id|uuid|guid|key|index|name|no|nr|row|row_?names|unnamed: 0)$", re.IGNORECASE
)
_CAMEL_ID = re.compile(r"[a-z](Id|ID|Key|Name|No|Nr)$")
_E_MAIL = re.compile(r"\S+@\S+\.\w+")
_PHONE = re.compile(r"(?=(.*\d){7})[+(]?\d[\d ()/.-]*[ ()/.-][\d ()/.-]*|\+\d{7,}")
_PERIOD = re.compile(r"\d{2,4}\D\d{2,4}(\D\d{2,4})?")
# Text over these letters is a sequence of nucleotides or amino acids.
_SEQUENCE = re.compile(r"[ACDEFGHIKLMNPQRSTVWYX*-]+|[acgtun-]+")
# A chemical structure in SMILES; at least some have bonds, rings or brackets.
_SMILES = re.compile(r"[A-Za-z0-9@+\-\[\]()=#$:/\\.%*]+")
_BOND = re.compile(r"[()=#\[\]]|[a-z]\d")


def why_identifier(name: str, values: Iterable[Any]) -> str | None:
    """The reason why a column identifies rows, one of `REASONS`; None if it does not.

    A model that learns such a column learns the training rows by heart: an id may follow the order
    of the classes, and is of no use for new rows. Near-unique text is left out unless it is a
    sequence over few letters, a chemical structure, or prose whose words recur.

    Parameters
    ----------
    name : str
        The name of the column.
    values : Series, array or iterable

    Examples
    --------
    >>> why_identifier("code", [f"case_{i:04d}" for i in range(40)])
    'it identifies the rows: nearly every value occurs once'
    >>> why_identifier("dna", [f"{i:05b}".replace("0", "a").replace("1", "t") for i in range(32)])
    """
    column: Any = values if hasattr(values, "dtype") else np.array(list(values), dtype=object)
    kind = getattr(column.dtype, "kind", "O")
    if len(column) < FEWEST_ROWS or kind in "fbcmM":
        return None
    if kind in "iu":
        return _why_number(name, np.asarray(column))
    words = [str(v).strip() for v in column if v is not None and v == v and v != ""]
    if len(words) < FEWEST_ROWS or len(words) < len(column) / 2:
        return None
    if str(column.dtype) == "category" and len(set(words)) < len(words):
        return None
    return _why_text(name, words)


def _why_number(name: str, column: np.ndarray) -> str | None:
    if not (_NAMED_AS_ID.search(name) or _CAMEL_ID.search(name) or not name):
        return None
    n, distinct = len(column), len(np.unique(column))
    if distinct == n and int(column.max()) - int(column.min()) < 2 * n:
        return NUMBERS_ROWS
    is_quantity = re.search(r"(index|name)$", name, re.IGNORECASE)
    return IDENTIFIES_ROWS if distinct == n and not is_quantity else None


def _why_text(name: str, words: list[str]) -> str | None:
    some = words[:: max(1, len(words) // _EXAMINED)]
    if _share(some, _E_MAIL.fullmatch) > 0.9:
        return E_MAIL
    distinct = len(set(words)) / len(words)
    looks_dialled = sum(word[0] in "+(" for word in some) > len(some) / 2
    if (looks_dialled or distinct > NEAR_UNIQUE) and _share(some, _is_phone) > 0.9:
        return PHONE
    if distinct <= NEAR_UNIQUE or _share(some, _is_number) > 0.5 or _are_quantities(some):
        return None
    if _NAMED_AS_ID.search(name) or _CAMEL_ID.search(name) or not name:
        return NAMES_ROWS
    return None if describes(some) else IDENTIFIES_ROWS


def describes(words: list[str]) -> bool:
    """Whether near-unique text is a sequence, a structure or prose rather than a name or a code."""
    text = "".join(words)
    letters, digits = set(text), sum(letter.isdigit() for letter in text) / len(text)
    if _share(words, _SEQUENCE.fullmatch) > 0.9 or (len(letters) <= 10 and not digits):
        return True
    if _share(words, _SMILES.fullmatch) > 0.9 and _share(words, _BOND.search) > 0.3:
        return digits < 0.25
    parts = [re.findall(r"[^\W\d_]{2,}", word) for word in words]
    all_parts = [part for row in parts for part in row]
    per_row = len(all_parts) / len(words)
    spaces = float(np.mean([len(word.split()) for word in words]))
    if len(text) / len(words) > LONGEST_NAME:
        return spaces >= 5 or (spaces < 2 and len(letters) < 30 and not digits)
    capitals = sum(part[0].isupper() and not part.isupper() for part in all_parts)
    if min(per_row, spaces) < 3 or capitals > 0.9 * len(all_parts):
        return False
    counts = Counter(part.lower() for row in parts for part in set(row))
    return sum(counts[part.lower()] >= 3 for part in all_parts) > 0.75 * len(all_parts)


def _are_quantities(words: list[str]) -> bool:
    """Whether most words are days such as 12/31/2024, or numbers with one unit, such as 12 kg."""
    if _share(words, re.compile(SLASHED_DAY).fullmatch) > 0.5:
        return True
    found = [match.groups() for word in words if (match := re.match(WITH_UNIT, word))]
    ((before, after), times), *_ = Counter(found).most_common(1) or [(("", ""), 0)]
    return 2 * times > len(words) and bool(after.strip()) and not before.strip()


def _is_phone(word: str) -> bool:
    return bool(_PHONE.fullmatch(word)) and not _PERIOD.fullmatch(word)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _share(words: list[str], test: Any) -> float:
    """The fraction of the words that pass a test."""
    return sum(bool(test(word)) for word in words) / len(words)
