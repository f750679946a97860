"""The first sheet of an xlsx file, read in time and memory that go with what the file holds."""

from __future__ import annotations

import contextlib
import io
import zipfile
from typing import Any
from xml.parsers import expat

from mercer.tables.limits import LAST_COLUMN, LAST_ROW, LONGEST_FORMAT, refuse_gaps


def first_sheet(content: bytes, header: bool) -> Any:
    """A data frame without empty rows and columns.

    Raises
    ------
    ValueError
        If the file declares XML entities, or has a few cells far apart.
    ImportError
        If openpyxl is missing.
    """
    import pandas

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as part:
                _Part().check(part)
    place = io.BytesIO(content)
    frame = pandas.read_excel(place, header=0 if header else None, engine="openpyxl")
    return frame.dropna(axis="index", how="all").dropna(axis="columns", how="all")


class _Part:
    """A part of an xlsx file: where the cells end, if it is a sheet.

    Every part is checked, since the file itself says which is the first sheet. What stands before
    an error in the XML counts, too.
    """

    def __init__(self) -> None:
        self.depth = self.depth_of_row = 0
        self.row = self.column = 0
        self.height = self.width = self.cells = 0

    def check(self, part: Any) -> None:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = _refuse_entities
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        with contextlib.suppress(expat.ExpatError):  # a picture, or damage that openpyxl names
            parser.ParseFile(part)
        refuse_gaps(self.height, self.width, self.cells)

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if name.endswith(" row"):
            self.depth_of_row, self.column = self.depth, 0
            place = attributes.get("r")
            self.row = self.row + 1 if place is None else int(float(place))
            _refuse_beyond("row", self.row, LAST_ROW)
        elif self.depth_of_row and self.depth == self.depth_of_row + 1:  # a cell, whatever its name
            place = attributes.get("r")
            self.column = self.column + 1 if place is None else _column(place)
            _refuse_beyond("column", self.column, LAST_COLUMN)
            self.cells += 1
            self.height, self.width = max(self.height, self.row), max(self.width, self.column)
        elif len(attributes.get("formatCode", "")) > LONGEST_FORMAT:
            raise ValueError(f"a format of numbers has more than {LONGEST_FORMAT:,} characters")

    def _end(self, name: str) -> None:
        if self.depth == self.depth_of_row:
            self.depth_of_row = 0
        self.depth -= 1


def _column(place: str) -> int:
    """The number of the column of a cell such as BC12, from 1."""
    number = 0
    for letter in place.rstrip("0123456789")[:4].upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _refuse_beyond(what: str, number: int, last: int) -> None:
    if number > last:
        raise ValueError(f"a sheet names {what} {number:,}; the last is {last:,}")


def _refuse_entities(*_: Any) -> None:
    raise ValueError("it declares XML entities, which xlsx files do not need")
