"""Tables in text: what parts the columns, what is a number or a day, and which line is wrong."""

from __future__ import annotations

import csv
import io
import re
import warnings
from typing import Any, NamedTuple

from mercer.tables.marked_numbers import read_marked

# The longest fields that every system allows: the limit is a C long, of 32 bits on Windows.
csv.field_size_limit(2**31 - 1)
DELIMITERS = ",;\t|"
SPACES = r"\s+"
# What stands for a missing value, in addition to what pandas takes for one.
MISSING = ["?"]
MORE_FIELDS = "its lines have more fields than the first, which has the names"
# Names of columns whose numbers of eight digits may be days.
DAY_NAME = re.compile(r"date|day|datum|^tag$|tag$|time", re.IGNORECASE)
# Lines from which the form of a table is inferred.
_HEAD = 20
# Characters in which a delimiter is looked for.
_MOST_SNIFFED = 10_000


class Table(NamedTuple):
    """A table as it was read.

    Attributes
    ----------
    frame : DataFrame
        With a name of its own for each column.
    row_names : array or None
        What stands before the columns, where it is more than the rows' numbers.
    repeated : dict of str to list of str
        Names that several columns have in the file, and what these are called in the frame.
    read_as : dict of str to str
        Columns of numbers with marks, each with an example: "$12.30 as 12.30".
    """

    frame: Any
    row_names: Any
    repeated: dict[str, list[str]]
    read_as: dict[str, str]


def read_table(content: bytes, header: bool, separator: str | None = None) -> Table:
    """A table in text; a first column without a name holds names of the rows."""
    import pandas

    text = content.decode("utf-8-sig")
    separator = separator or _separator(text)
    comma = separator == ";" and _has_decimal_commas(text)
    stream, written = io.StringIO(text), {"sep": separator, "skipinitialspace": True}
    try:
        first = pandas.read_csv(
            stream, header=None, nrows=1, dtype=str, keep_default_na=False, **written
        )
        stream.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                stream,
                header=0 if header else None,
                index_col=False if _ends_with_separators(text, separator) else None,
                decimal="," if comma else ".",
                na_values=MISSING,
                skip_blank_lines=True,
                low_memory=False,
                **written,
            )
    except pandas.errors.ParserError as error:
        raise ValueError(_fault(str(error))) from error
    except pandas.errors.ParserWarning as error:  # it would leave out what is too much
        raise ValueError(MORE_FIELDS) from error
    if not isinstance(frame.index, pandas.RangeIndex) and (
        frame.index.dtype.kind == "f" or not frame.index.is_unique
    ):
        raise ValueError(MORE_FIELDS)
    empty = frame.columns.astype(str).str.startswith("Unnamed: ") & frame.isna().all().to_numpy()
    if header:
        pairs = zip(first.iloc[0], frame.columns, strict=True)
        frame.columns = [name or numbered for name, numbered in pairs]
    return named(frame.loc[:, ~empty], separator == ",", comma)


def _separator(text: str) -> str:
    """The delimiter that the first line has, or that makes all lines alike; else spaces."""
    lines = [line for line in text.splitlines()[:_HEAD] if line.strip()]
    seen = [delimiter for delimiter in DELIMITERS if delimiter in lines[0]]
    if len(seen) == 1:
        return seen[0]
    if seen:
        try:
            # The time of the search for quotes is quadratic in the length.
            head = "\n".join(lines)[:_MOST_SNIFFED]
            return csv.Sniffer().sniff(head, delimiters=DELIMITERS).delimiter
        except csv.Error:
            return ","
    widths = {len(line.split()) for line in lines}
    return SPACES if len(widths) == 1 and widths != {1} else ","


def _has_decimal_commas(text: str) -> bool:
    """Whether numbers are written as 1,5, as they are where semicolons part the columns."""
    head = "\n".join(text.splitlines()[:_HEAD])
    commas, points = (rf"(?m)(^|;)\s*-?\d+{mark}\d+\s*(;|$)" for mark in (",", r"\."))
    return bool(re.search(commas, head)) and not re.search(points, head)


def _ends_with_separators(text: str, separator: str) -> bool:
    """Whether lines have a separator at the end, and the line of names has not."""
    if separator == SPACES:
        return False
    lines = [line for line in text.splitlines()[:_HEAD] if line.strip()]
    rows = list(csv.reader(lines[:2], delimiter=separator, skipinitialspace=True))
    return len(rows) == 2 and len(rows[1]) == len(rows[0]) + 1 and not rows[1][-1].strip()


def _fault(message: str) -> str:
    """Which line is wrong, from what pandas says."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        expected, line, seen = found.groups()
        return f"line {line} has {seen} fields, and the lines before it {expected}"
    if found := re.search(r"EOF inside string starting at row (\d+)", message):
        return f"a quote that opens in line {int(found.group(1)) + 1} is never closed"
    return message


def names_are_values(frame: Any) -> bool:
    """Whether the names look as if they were a row: decimals, or words that their columns hold."""
    return any(
        re.fullmatch(r"-?\d*\.\d+", name) or (column.dtype.kind == "O" and (column == name).any())
        for name, column in frame.items()
    )


def named(frame: Any, comma_parts: bool = True, comma_decimals: bool = False) -> Table:
    """The table with names that differ, words without spaces around them, days and numbers."""
    import pandas

    names = [str(name).strip() for name in frame.columns]
    apart = _apart(names)
    is_numbered = isinstance(frame.index, pandas.RangeIndex)
    row_names = None if is_numbered else as_names(frame.index.to_series())
    frame = frame.reset_index(drop=True)
    frame.columns = apart
    if frame.empty:
        raise ValueError("it has no rows")
    for k, kind in enumerate(frame.dtypes):
        if str(kind) in ("str", "string", "object"):
            frame.isetitem(k, _days(_stripped(frame.iloc[:, k])))
        elif kind.kind == "i" and DAY_NAME.search(apart[k]):
            frame.isetitem(k, _eight_digits(frame.iloc[:, k]))
        if frame.dtypes.iloc[k].kind == "O":
            _refuse_vast(frame.iloc[:, k], apart[k])
    repeated: dict[str, list[str]] = {}
    for name, other in zip(names, apart, strict=True):
        repeated.setdefault(name, []).append(other)
    repeated = {name: others for name, others in repeated.items() if len(others) > 1}
    return Table(frame, row_names, repeated, read_marked(frame, comma_parts, comma_decimals))


def _eight_digits(column: Any) -> Any:
    """Times, where all numbers are days written as 20241231; else as it is."""
    import pandas

    from mercer.tables.days import eight_digits

    days = eight_digits(column.to_numpy())
    if days is None:
        return column
    times = pandas.Series(days.astype("datetime64[us]"), column.index, name=column.name)
    return times.dt.tz_localize("UTC")


def _refuse_vast(column: Any, name: str) -> None:
    """Raise where a whole number is beyond the largest that arithmetic has."""
    for row, value in enumerate(column):
        is_vast = isinstance(value, int) and abs(value) > 10**308
        if not is_vast and isinstance(value, str) and len(value) > 308:
            is_vast = value.lstrip("+-").isdecimal()
        if is_vast:
            raise ValueError(f"column {name!r} has a number of more than 308 digits in row {row}")


def as_names(column: Any) -> Any:
    """An array of numbers or of text, which is empty where it is missing."""
    if column.dtype.kind in "iuf":
        return column.to_numpy()
    return column.astype(object).where(column.notna(), "").to_numpy(dtype=str)


def _stripped(column: Any) -> Any:
    if str(column.dtype) == "object":
        return column.map(lambda value: value.strip() if isinstance(value, str) else value)
    return column.str.strip()


def _days(column: Any) -> Any:
    """Times, where all values are days, as in 2024-12-31 or 31.12.2024; else as it is."""
    import pandas

    from mercer.tables.days import is_day, times

    words = column.dropna()
    if words.empty or not words.map(is_day).all():
        return column
    return pandas.Series(times(column), column.index, name=column.name).dt.tz_localize("UTC")


def _apart(names: list[str]) -> list[str]:
    """The names, with a number after those that others have before them, as pandas does."""
    apart: list[str] = []
    taken, seen, last = set(names), set(), dict.fromkeys(names, 0)
    for name in names:
        other = name
        while other in seen or (other != name and other in taken):
            last[name] += 1
            other = f"{name}.{last[name]}"
        seen.add(other)
        apart.append(other)
    return apart
