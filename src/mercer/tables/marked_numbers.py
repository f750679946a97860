"""Numbers that are written with marks, such as $12.30, 1,234.5, 12 % and 12,50 €."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

# Many numbers, and a smaller share of words than this, are a column of numbers.
FEW_WORDS = 0.1
UNITS = "$€£¥₹₩%‰"


class Notation(NamedTuple):
    """The mark between thousands, and that before decimals."""

    thousands: str
    decimal: str

    @property
    def pattern(self) -> str:
        """Sign, unit, digits and unit of a number."""
        whole = f"(?:[1-9][0-9]{{0,2}}(?:[{self.thousands}][0-9]{{3}})+|[0-9]+)"
        bare = f"{whole}(?:[{self.decimal}][0-9]*)?(?:[eE][-+]?[0-9]+)?|[{self.decimal}][0-9]+"
        return rf"^([-+−]?)\s*([{UNITS}]?)\s*([-+−]?)({bare})\s*([{UNITS}]?)$"


ENGLISH, CONTINENTAL = Notation(",", "."), Notation(".", ",")


class Reading(NamedTuple):
    """A column as numbers, or as words where some are none, and an example of what was done."""

    column: Any
    example: str


def read_marked(frame: Any, comma_parts: bool, comma_decimals: bool) -> dict[str, str]:
    """Make numbers of the columns whose values all have the same marks, and name these columns.

    Parameters
    ----------
    frame : DataFrame
        Changed in place.
    comma_parts : bool
        Whether commas part the columns; "1,5" then is no number.
    comma_decimals : bool
        Whether decimals are known to come after commas; else "1,234" is above a thousand, unless
        another column has numbers that can only be read the other way.

    Returns
    -------
    dict of str to str
        For each such column a value, and the number that it is.
    """
    words = [k for k, kind in enumerate(frame.dtypes) if str(kind) in ("str", "string", "object")]
    english = {} if comma_decimals else _readings(frame, words, ENGLISH)
    others = [k for k in words if k not in english]
    continental = _readings(frame, others, CONTINENTAL, unit_needed=comma_parts)
    if continental:
        continental |= _readings(frame, list(english), CONTINENTAL, unit_needed=comma_parts)
    found = english | continental
    for k, reading in found.items():
        frame.isetitem(k, reading.column)
    return {str(frame.columns[k]): found[k].example for k in sorted(found)}


def _readings(
    frame: Any, columns: list[int], notation: Notation, unit_needed: bool = False
) -> dict[int, Reading]:
    readings = {k: _reading(frame.iloc[:, k], notation, unit_needed) for k in columns}
    return {k: reading for k, reading in readings.items() if reading is not None}


def _reading(column: Any, notation: Notation, unit_needed: bool) -> Reading | None:
    """The numbers, where all values but a few without digits are some, with the same unit."""
    import pandas

    words = column.dropna()
    if not all(isinstance(word, str) for word in words):
        return None
    written = words[words.str.contains("[0-9]")]
    if not len(written) or not re.match(notation.pattern, written.iloc[0]):
        return None
    if len(words) - len(written) > FEW_WORDS * len(words):
        return None
    parts = written.str.extract(notation.pattern)
    if parts.isna().to_numpy().any() or len(parts[[1, 4]].drop_duplicates()) != 1:
        return None
    has_unit = bool(parts[1].iloc[0] or parts[4].iloc[0])
    plain = parts[3].str.replace(notation.thousands, "").str.replace(notation.decimal, ".")
    changed = parts[3].index[has_unit | (plain != parts[3])]
    if not len(changed) or (unit_needed and not has_unit):
        return None
    plain = (parts[0] + parts[2]).str.replace("−", "-") + plain
    example = f"{written[changed[0]]} as {plain[changed[0]]}"
    numbers = column.copy()
    numbers[plain.index] = plain
    return Reading(pandas.to_numeric(numbers) if len(words) == len(written) else numbers, example)
