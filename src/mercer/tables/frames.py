"""Tables in Parquet, Feather, spreadsheets and JSON."""

from __future__ import annotations

import io
import json
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np

from mercer.tables.columnar import feather_table
from mercer.tables.limits import refuse_gaps
from mercer.tables.spreadsheets import first_sheet
from mercer.tables.text import Table, named


def read_parquet(content: bytes) -> Table:
    import pandas

    try:
        frame = pandas.read_parquet(io.BytesIO(content))
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'mercer[parquet]'") from error
    return _typed(frame)


def read_feather(content: bytes) -> Table:
    import pandas

    try:
        feather_table(content)
        frame = pandas.read_feather(io.BytesIO(content))
    except ImportError as error:
        raise ImportError("Feather files need pyarrow: pip install 'mercer[parquet]'") from error
    return _typed(frame)


def read_spreadsheet(content: bytes, header: bool) -> Table:
    """The first sheet of an xlsx file."""
    try:
        frame = first_sheet(content, header)
    except ImportError as error:
        raise ImportError(
            "xlsx files need openpyxl: pip install 'mercer[xlsx]', or save it as CSV"
        ) from error
    return _typed(frame)


def read_json(content: bytes) -> Table:
    """An object per line, or an array of objects; keys are columns, and nested values refused."""
    import pandas

    text = content.decode("utf-8-sig")
    if text.lstrip().startswith("["):
        records = json.loads(text)
    else:
        records = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    records.append(json.loads(line))
                except json.JSONDecodeError as error:
                    raise ValueError(f"line {number} is not JSON: {error}") from error
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise ValueError(f"record {number} is {str(record)[:40]!r}; expected an object")
        for name, value in record.items():
            if isinstance(value, dict | list):
                kind = "an object" if isinstance(value, dict) else "a list"
                raise ValueError(f"record {number} has {kind} in {name!r}; expected a plain value")
    names = {name for record in records for name in record}
    refuse_gaps(len(records), len(names), sum(map(len, records)))
    return _typed(pandas.DataFrame.from_records(records))


def _typed(frame: Any) -> Table:
    for k in range(frame.shape[1]):
        frame.isetitem(k, _known_type(frame.iloc[:, k]))
    return named(frame.reset_index(drop=True) if frame.index.name is None else frame)


def _known_type(column: Any) -> Any:
    """Days, which pandas holds as objects, as times; decimals and lengths of time as numbers."""
    import pandas

    if column.dtype.kind == "m":
        return column / pandas.Timedelta(days=1)
    if isinstance(column.dtype, pandas.PeriodDtype | pandas.IntervalDtype):
        return column.astype(str).where(column.notna())
    if column.dtype.kind != "O":
        return column
    first = next(iter(column.dropna()), None)
    if isinstance(first, dict | list | np.ndarray):
        raise ValueError(f"its column {column.name!r} holds lists; expected a value in each row")
    if isinstance(first, date):
        return pandas.to_datetime(column, utc=True)
    return column.astype(float) if isinstance(first, Decimal) else column
