"""The forms of pandas' tables, whose columns are numbers, text, objects or categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.persistence import limits
from mercer.persistence.forms import Form, Unsavable, is_vector, require


def pandas_kind(value: Any) -> str | None:
    """The name of the form of a value of pandas'; None of others."""
    if type(value).__module__.partition(".")[0] != "pandas":
        return None
    import pandas as pd

    kinds = {pd.DataFrame: "table", pd.Series: "column"}
    return "index" if isinstance(value, pd.Index) else kinds.get(type(value))


def _values_parts(column: Any) -> tuple[Any, ...]:
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return ("numpy", column.to_numpy())
    if isinstance(dtype, pd.StringDtype):
        return ("text", [None if pd.isna(value) else value for value in column], str(dtype))
    if isinstance(dtype, pd.CategoricalDtype):
        codes = column.array.codes if hasattr(column, "array") else column.codes
        return ("category", np.asarray(codes), dtype.categories, bool(dtype.ordered))
    raise Unsavable(
        f"has the column {column.name!r} of pandas' kind {dtype}, which a file cannot hold; "
        "convert it to one of NumPy's"
    )


def _values(kind: Any, values: Any, more: Any = None, ordered: Any = None) -> Any:
    import pandas as pd

    if kind == "numpy":
        require(isinstance(values, np.ndarray) and values.ndim == 1, "a column has no values")
        return values
    if kind == "text":
        require(more in ("str", "string"), "a column is of an unknown kind")
        texts = isinstance(values, list) and all(v is None or isinstance(v, str) for v in values)
        require(texts, "a column is not of text")
        return pd.array(values, dtype=more)
    require(kind == "category" and isinstance(more, pd.Index), "a column is of an unknown kind")
    require(is_vector(values, "i"), "a column has no categories")
    return pd.Categorical.from_codes(values, categories=more, ordered=bool(ordered))


def _index_parts(index: Any) -> list[Any]:
    import pandas as pd

    if isinstance(index, pd.MultiIndex):
        raise Unsavable("is a table with several levels of names; use one level")
    if isinstance(index, pd.RangeIndex):
        return [index.name, "range", index.start, index.stop, index.step]
    return [index.name, *_values_parts(index)]


def _index(name: Any, kind: Any, *rest: Any) -> Any:
    import pandas as pd

    if kind == "range":
        rows = pd.RangeIndex(*rest, name=name)
        require(len(rows) <= limits.LARGEST_EMPTY, "an index is too long")
        return rows
    return pd.Index(_values(kind, *rest), name=name)


def _table_parts(table: Any) -> list[Any]:
    columns = [_values_parts(table.iloc[:, k]) for k in range(table.shape[1])]
    return [table.index, table.columns, *columns]


def _table(rows: Any, names: Any, *columns: Any) -> Any:
    import pandas as pd

    require(isinstance(rows, pd.Index) and isinstance(names, pd.Index), "a table has no names")
    made = [_values(*parts) for parts in columns]
    fitting = len(names) == len(made) and all(len(values) == len(rows) for values in made)
    require(fitting, "the columns of a table are not as long as its names")
    require(made or len(rows) <= limits.LONGEST_RANGE, "a table without columns is too long")
    table = pd.DataFrame(dict(enumerate(made)), index=rows)
    table.columns = names
    return table


def _column(rows: Any, name: Any, *parts: Any) -> Any:
    import pandas as pd

    require(isinstance(rows, pd.Index), "a column has no names")
    return pd.Series(_values(*parts), index=rows, name=name)


def _column_parts(column: Any) -> list[Any]:
    return [column.index, column.name, *_values_parts(column)]


FORMS = {
    "column": Form(_column_parts, _column),
    "index": Form(_index_parts, _index),
    "table": Form(_table_parts, _table),
}
