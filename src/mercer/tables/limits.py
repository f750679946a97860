"""Limits of readers of tables, and refusals of tables that are nearly all gaps."""

from __future__ import annotations

# GiB that a compressed file may have when it is unpacked.
MAX_GIB = 4.0
# Cells of a table for each value in the file, gaps included; and how many it may have in any case.
MOST_GAPS, GAPS_OF_FEW = 20, 20_000_000
# The rows and columns that a sheet of an xlsx file may have.
LAST_ROW, LAST_COLUMN = 1_048_576, 16_384
# Characters of a number format in an xlsx file.
LONGEST_FORMAT = 1000


def refuse_gaps(rows: int, columns: int, values: int) -> None:
    """Raise where a table would be far larger than the values that the file has for it."""
    if rows * columns > max(GAPS_OF_FEW, MOST_GAPS * values):
        raise ValueError(
            f"its {values:,} values are spread over {rows:,} rows and {columns:,} columns; remove "
            "the rows or columns far from the others, or write the values as LIBSVM data"
        )
