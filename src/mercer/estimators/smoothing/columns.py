"""Tables of numbers and categories as points: categories are places at distance one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from mercer._sklearn import check_feature_names, check_n_features
from mercer.arrays import refuse_masked

UNORDERED, ORDERED, NUMERIC = "unordered", "ordered", "numeric"


class ColumnCoding:
    """How the columns of a table become coordinates.

    A column of numbers is one coordinate. Different categories are at squared distance 1 from each
    other, so that exp(-r²/2h²) is λ where they differ and 1 where they agree, λ = exp(-1/2h²); of
    an ordered column, levels k steps apart are at squared distance k and have λ^k. A category that
    was not seen in training is as far from all.

    Parameters
    ----------
    unordered, ordered : sequence of int or str, mask, "from_dtype", or None
        Columns of categories. "from_dtype" takes those of a DataFrame that hold text or categories,
        or, as ``ordered``, categories with an order.

    Attributes
    ----------
    owners : ndarray of shape (D,)
        For each coordinate, the column it comes from.

    Examples
    --------
    >>> import numpy as np
    >>> coding = ColumnCoding([1], None)
    >>> P = coding.fit(np.array([[0.5, "a"], [0.5, "b"]], dtype=object)).transform(
    ...     np.array([[0.5, "a"], [0.5, "b"]], dtype=object))
    >>> float(np.sum((P[0] - P[1]) ** 2).round(12))
    1.0
    """

    def __init__(self, unordered: Any, ordered: Any):
        self.unordered, self.ordered = unordered, ordered

    def fit(self, X: Any) -> ColumnCoding:
        table = _table(X)
        names = [str(name) for name in getattr(X, "columns", range(table.shape[1]))]
        unordered = _chosen(self.unordered, X, names, "categorical_features")
        ordered = _chosen(self.ordered, X, names, "ordered_features")
        if isinstance(self.unordered, str):
            unordered -= ordered
        twice = sorted(unordered & ordered)
        if twice:
            raise ValueError(
                f"column {names[twice[0]]!r} is in categorical_features and in ordered_features; "
                "name it once"
            )
        self.kinds, self.levels, owners = [], [], []
        for k, column in enumerate(table.T):
            kind = UNORDERED if k in unordered else ORDERED if k in ordered else NUMERIC
            levels = None if kind == NUMERIC else _levels(X, k, column, names[k])
            self.kinds.append(kind)
            self.levels.append(levels)
            width = 1 if levels is None else len(levels) - (kind == ORDERED)
            owners += [k] * max(width, 1)
        self.owners = np.array(owners)
        self.names = names
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The points of a table, (n, D)."""
        table, parts = _table(X), []
        for k, (kind, levels) in enumerate(zip(self.kinds, self.levels, strict=True)):
            column = table[:, k]
            if kind == NUMERIC:
                parts.append(_numbers(column, self.names[k]))
                continue
            place = {level: i for i, level in enumerate(levels)}
            found = np.array([place.get(v, -1) for v in _categories(column, self.names[k])])
            if kind == UNORDERED:
                parts.append((found[:, None] == np.arange(len(levels))) / np.sqrt(2))
            else:
                steps = np.arange(1, max(len(levels), 2))
                middle = np.where(found < 0, (len(levels) - 1) / 2, found)
                parts.append(np.clip(middle[:, None] - steps + 1, 0, 1))
        return np.column_stack(parts)


def checked_table(estimator: Any, X: Any, reset: bool) -> Any:
    """X, once its width and the names of its columns are found to be right."""
    refuse_masked(X)
    check_feature_names(estimator, X, reset=reset)
    check_n_features(estimator, X, reset=reset)
    return X


def _table(X: Any) -> np.ndarray:
    table = X.to_numpy(dtype=object) if hasattr(X, "to_numpy") else np.asarray(X, dtype=object)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"X has shape {table.shape}; expected a table of shape (n, d)")
    return table


def _chosen(columns: Any, X: Any, names: list[str], parameter: str) -> set[int]:
    if columns is None:
        return set()
    if isinstance(columns, str):
        if columns != "from_dtype" or not hasattr(X, "dtypes"):
            raise ValueError(
                f'{parameter}={columns!r}; expected columns, or "from_dtype" with a DataFrame'
            )
        if parameter == "ordered_features":
            return {k for k, kind in enumerate(X.dtypes) if getattr(kind, "ordered", False)}
        kinds = [getattr(kind, "name", str(kind)) for kind in X.dtypes]
        return {
            k for k, kind in enumerate(kinds) if kind in ("category", "object", "string", "str")
        }
    columns = list(columns)
    if columns and all(isinstance(c, bool | np.bool_) for c in columns):
        if len(columns) != len(names):
            raise ValueError(
                f"{parameter} is a mask of {len(columns)} columns, and X has {len(names)}"
            )
        columns = list(np.flatnonzero(columns))
    places = {name: k for k, name in enumerate(names)}
    chosen = {places.get(c, -1) if isinstance(c, str) else int(c) for c in columns}
    if not chosen <= set(range(len(names))):
        raise ValueError(f"{parameter}={columns} names a column that X does not have: {names}")
    return chosen


def _levels(X: Any, k: int, column: np.ndarray, name: str) -> list[Any]:
    levels = set(_categories(column, name))
    dtype: Any = X.dtypes.iloc[k] if hasattr(X, "dtypes") else None
    if getattr(dtype, "ordered", False):
        return [_plain(level) for level in dtype.categories]
    return sorted(levels, key=lambda value: (type(value).__name__, value))


def _categories(column: np.ndarray, name: str) -> list[Any]:
    values = [_plain(value) for value in column]
    # Neither NaN nor pandas' NA equals itself.
    if any(value is None or (value == value) is not True for value in values):
        raise ValueError(f"column {name!r} has missing values; give them a category of their own")
    return values


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _numbers(column: np.ndarray, name: str) -> np.ndarray:
    try:
        return check_array(column[:, None], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} is not a column of finite numbers: {error}; name it in "
            "categorical_features if it holds categories"
        ) from error
