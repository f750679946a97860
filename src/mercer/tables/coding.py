"""From a raw table to points: numbers scaled, categories coded, gaps filled, texts set apart."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import check_feature_names, check_n_features
from mercer.arrays import require_cpu
from mercer.estimators.fitting import warn_the_caller
from mercer.tables.days import is_day, times

NUMBER, CATEGORY, TEXT = "number", "category", "text"
SCALINGS = ("standard", "normal", "common")
# A column of words has categories up to so many of them; beyond, where most rows share theirs.
_FEW_LEVELS = 20
_MOST_LEVELS = 200
_LONG = 40
# Levels of a category that occur less often than this are one.
_RARE = 2
# So few rows of numbers are coded all columns at once.
_FEW_ROWS = 32
# Quantiles that a column's values are compared with, and the farthest normal score.
_QUANTILES = 257
_FARTHEST = 2.5


class TableCoding(TransformerMixin, BaseEstimator):
    """A table of numbers, categories and texts as points.

    Numbers are moved and scaled, and so are days, written or as times; a gap becomes the median,
    and an indicator of it is added where there were gaps in training. Categories at
    distance one from each other take a coordinate per level, with rare and unseen levels in one
    place. Texts and sequences are left as they are, for a string kernel.

    Parameters
    ----------
    scaling : {"standard", "normal", "common"}, default="standard"
        Each column of numbers with mean 0 and variance 1; or by its ranks, as the quantiles of a
        normal distribution, which outliers do not stretch; or all by one factor, for columns that
        are of one kind, as pixels are.

    Attributes
    ----------
    kinds_ : list of str
        "number", "category" or "text" for each column.
    days_ : list of int
        The columns of numbers that are days.
    owners_ : ndarray of shape (n_coordinates,)
        The column that each coordinate comes from.
    texts_ : list of int
        The columns of texts, which come last in the points, in this order.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.array([[1.0, "a"], [3.0, "b"], [5.0, "a"], [7.0, "b"]], dtype=object)
    >>> coding = TableCoding().fit(table)
    >>> coding.kinds_, coding.transform(table).round(2).tolist()[0]
    (['number', 'category'], [-1.34, 0.71, 0.0, 0.0])
    """

    def __init__(self, scaling: str = "standard"):
        self.scaling = scaling

    def fit(self, X: Any, y: Any = None) -> TableCoding:
        check_feature_names(self, X, reset=True)
        columns = _columns(as_table(X))
        check_n_features(self, np.empty((1, len(columns))), reset=True)
        declared = _declared_categories(X)
        self.days_ = [
            k for k, column in enumerate(columns) if k not in declared and _is_of_days(column)
        ]
        self.kinds_ = [
            CATEGORY if k in declared else NUMBER if k in self.days_ else _kind(column)
            for k, column in enumerate(columns)
        ]
        self.texts_ = [k for k, kind in enumerate(self.kinds_) if kind == TEXT]
        self.levels_ = [
            _levels(column) if kind == CATEGORY else []
            for column, kind in zip(columns, self.kinds_, strict=True)
        ]
        numbers = [k for k, kind in enumerate(self.kinds_) if kind == NUMBER]
        self.numbers_ = np.array(numbers, dtype=np.int64)
        values = self._values(columns)
        present = np.isfinite(values)
        self.gaps_ = self.numbers_[~present.all(axis=0)]
        self.medians_ = np.array([_median(v[p]) for v, p in zip(values.T, present.T, strict=True)])
        filled = np.where(present, values, self.medians_)
        self._fit_scaling(filled)
        owners = [self._number_owners(), self.gaps_]
        owners += [np.full(len(levels), k) for k, levels in enumerate(self.levels_)]
        self.owners_ = np.concatenate(owners).astype(np.int64)
        return self

    def _number_owners(self) -> np.ndarray:
        """The column of each coordinate that `_scaled` makes."""
        return self.numbers_[self.varying_]

    def _values(self, columns: list[np.ndarray]) -> np.ndarray:
        """The columns of numbers side by side, NaN where there is none."""
        values = np.full((len(columns[0]), len(self.numbers_)), np.nan)
        for j, k in enumerate(self.numbers_):
            values[:, j] = _days(columns[k]) if k in self.days_ else _numbers(columns[k])
        wrong = np.flatnonzero(np.isinf(values).any(axis=1))
        if len(wrong):
            raise ValueError(f"X has an infinite value at row {wrong[0]}; remove or clip it first")
        return values

    def _fit_scaling(self, values: np.ndarray) -> None:
        self.means_, spreads = mean_and_spread(values)
        self.varying_ = np.flatnonzero(spreads > 0)
        values = values[:, self.varying_]
        self.means_, spreads = self.means_[self.varying_], spreads[self.varying_]
        if self.scaling == "common" and spreads.size:
            largest = spreads.max()
            spreads = np.full(len(spreads), largest * np.sqrt(np.mean((spreads / largest) ** 2)))
        self.spreads_ = spreads
        self.quantiles_ = _quantiles(values) if self.scaling == "normal" else None

    def transform(self, X: Any, model: Any = None) -> np.ndarray:
        """The points, (n, n_coordinates), followed by a column for each text if there are any.

        ``model`` is the estimator whose name errors have, by default this one.
        """
        points = self._of_plain_numbers(X)
        if points is not None:
            return points
        check_is_fitted(self)
        model = self if model is None else model
        if list(getattr(X, "columns", ())) != list(getattr(self, "feature_names_in_", ())):
            check_feature_names(model, X, reset=False)
        columns = _columns(as_table(X))
        if len(columns) != self.n_features_in_:
            check_n_features(model, np.empty((1, len(columns))), reset=False)
        n = len(columns[0])
        values = self._values(columns)
        self._warn_of_words(columns, values)
        present = np.isfinite(values)
        filled = np.where(present, values, self.medians_)[:, self.varying_]
        # Two categories are at distance one, and so are a gap and none.
        gaps = ~present[:, np.isin(self.numbers_, self.gaps_)]
        parts = [self._scaled(filled), gaps.astype(float)]
        for k, levels in enumerate(self.levels_):
            if levels:
                parts.append(self._coded(k, columns[k]))
        points = np.hstack(parts)
        if not self.texts_:
            return points
        table = np.empty((n, points.shape[1] + len(self.texts_)), dtype=object)
        table[:, : points.shape[1]] = points
        for place, k in enumerate(self.texts_, points.shape[1]):
            table[:, place] = [_word(v) for v in columns[k]]
        return table

    def _coded(self, k: int, column: np.ndarray) -> np.ndarray:
        """Coordinates of the k-th column, of categories: one per level."""
        levels = self.levels_[k]
        places = {level: i for i, level in enumerate(levels)}
        found = np.array([places.get(_word(v), len(levels) - 1) for v in column])
        return (found[:, None] == np.arange(len(levels))) / np.sqrt(2)

    def _of_plain_numbers(self, X: Any) -> np.ndarray | None:
        """The points of an array of finite numbers, where all columns are numbers; else None."""
        own = vars(self)
        width = own.get("n_features_in_")
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size
        if not plain or X.shape[1] != width or "feature_names_in_" in own:
            return None
        if self.days_ or len(self.numbers_) != width or not np.isfinite(X.sum()):
            return None
        points = self._scaled(X if len(self.varying_) == width else X[:, self.varying_])
        gaps = len(self.gaps_)
        return np.hstack([points, np.zeros((len(X), gaps))]) if gaps else points

    def _warn_of_words(self, columns: list[np.ndarray], values: np.ndarray) -> None:
        for k, column in zip(self.numbers_, values.T, strict=True):
            if columns[k].dtype.kind in "biufmM":
                continue
            words = [_word(value) for value in columns[k][np.isnan(column)]]
            words = [word for word in words if word and (k in self.days_ or not _is_number(word))]
            if words:
                names = getattr(self, "feature_names_in_", None)
                held = "days" if k in self.days_ else "numbers"
                warn_the_caller(
                    f"column {k if names is None else repr(names[k])} held {held} in training and "
                    f"now has {len(words)} of other words, such as {words[0]!r}, which count as "
                    "missing",
                    UserWarning,
                )

    def text(self, X: Any, k: int) -> list[str]:
        """The k-th column of texts."""
        return [_word(value) for value in _columns(as_table(X))[self.texts_[k]]]

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        if self.quantiles_ is None:
            return (values - self.means_) / self.spreads_
        return _from_shares(self._shares(values, self.quantiles_))

    @staticmethod
    def _shares(values: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
        """The share of training rows below each value, with half of those equal to it."""
        shares = np.linspace(0, 1, _QUANTILES)
        middle = np.empty_like(values)
        with np.errstate(over="ignore"):
            float32 = (values == values.astype(np.float32)) & (values != np.round(values))
        if len(values) <= _FEW_ROWS and not float32.any():
            return _few_shares(values, quantiles, shares)
        for j, (column, known) in enumerate(zip(values.T, quantiles.T, strict=True)):
            if float32[:, j].any():
                column = _snapped(column, known)
            # Equal values have the middle of the shares that they take.
            low = np.interp(column, known, shares)
            high = 1 - np.interp(-column, -known[::-1], shares)
            middle[:, j] = (low + high) / 2
        return middle

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


def _from_shares(shares: np.ndarray) -> np.ndarray:
    """Values of a normal distribution below which so large a share of it is."""
    return np.clip(ndtri(shares), -_FARTHEST, _FARTHEST)


def _few_shares(values: np.ndarray, known: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The middle of the shares that values (m, d) take among quantiles (Q, d) of their columns.

    What `numpy.interp` finds column by column, for all columns at once: complex numbers are ordered
    by their real parts, here the columns, and then by their imaginary parts.
    """
    Q, columns = len(known), np.arange(values.shape[1])
    ordered = (columns[:, None] + 1j * known.T).ravel()
    wanted = columns + 1j * values
    first = Q * columns
    right = np.searchsorted(ordered, wanted, "right") - first
    left = np.searchsorted(ordered, wanted, "left") - first
    j = np.clip(right - 1, 0, Q - 2)
    at, after = known[j, columns], known[j + 1, columns]
    with np.errstate(all="ignore"):  # of equal quantiles, which are not chosen
        slopes = (shares[j + 1] - shares[j]) / (after - at)
        between = slopes * (values - at) + shares[j]
    low = np.where(at == values, shares[j], between)
    low = np.where(right == 0, 0.0, np.where(right == Q, 1.0, low))
    k = np.clip(left, 1, Q - 1)  # and the same from above
    i = Q - 1 - k
    at, after = -known[k, columns], -known[k - 1, columns]
    with np.errstate(all="ignore"):
        slopes = (shares[i + 1] - shares[i]) / (after - at)
        between = slopes * (-values - at) + shares[i]
    high = np.where(at == -values, shares[i], between)
    high = 1 - np.where(left == Q, 0.0, np.where(left == 0, 1.0, high))
    return (low + high) / 2


def mean_and_spread(
    values: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The mean and standard deviation of each column, whatever its size; 0 where all are equal."""
    size = np.abs(values).max(axis=0, initial=0.0)
    unit = np.where(size > 0, size, 1.0)
    average = np.mean if weight is None else partial(np.average, weights=weight)
    mean = average(values / unit, axis=0) * unit
    apart = values - mean
    farthest = np.abs(apart).max(axis=0, initial=0.0)
    unit = np.where(farthest > 0, farthest, 1.0)
    spread = unit * np.sqrt(average((apart / unit) ** 2, axis=0))
    return mean, np.where(values.max(axis=0) > values.min(axis=0), spread, 0.0)


def _quantiles(values: np.ndarray) -> np.ndarray:
    """As `numpy.quantile` does for many shares at once, by one sort of each column."""
    ordered = np.sort(values, axis=0)
    place = np.linspace(0, len(values) - 1, _QUANTILES)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, len(values) - 1)
    part = (place - below)[:, None]
    low, high = ordered[below], ordered[above]
    return np.where(low == high, low, (1 - part) * low + part * high)  # equal ones stay so


def _snapped(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The values, but of one that many rows had, rounded to float32, that one itself.

    It has the middle of a range of shares, and its neighbours have the ends.
    """
    tied = np.unique(known[1:][known[1:] == known[:-1]])
    if not tied.size:
        return values
    above = np.minimum(np.searchsorted(tied, values), len(tied) - 1)
    below = np.maximum(above - 1, 0)
    near = tied[np.where(values - tied[below] < tied[above] - values, below, above)]
    return np.where(np.abs(values - near) <= 2.0**-24 * np.abs(near), near, values)


def as_table(X: Any) -> Any:
    """A DataFrame as it is, anything else as an array of rows and columns."""
    if hasattr(X, "columns") and hasattr(X, "shape"):
        _check_shape(X)
        return X
    X = require_cpu(X, "AutoKernel")
    if hasattr(X, "toarray"):
        X = X.toarray()
    if np.ma.isMaskedArray(X):
        X = np.ma.filled(X.astype(float if X.dtype.kind in "biuf" else object), np.nan)
    table = _table(X) if isinstance(X, list | tuple) else np.asarray(X)
    if table.ndim == 1 and table.dtype.kind in "OUS" and isinstance(table[:1].tolist()[0], str):
        table = table[:, None]
    if table.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {table.ndim}D array instead: a table has a row for each "
            "sample. Reshape your data with X.reshape(-1, 1) if it has a single feature"
        )
    if table.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    _check_shape(table)
    return table


def _check_shape(table: Any) -> None:
    n, d = table.shape
    if d == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required."
        )
    if n == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def _columns(table: Any) -> list[np.ndarray]:
    """The columns of a table, one array each."""
    if hasattr(table, "iloc") and len(table) <= _FEW_ROWS:
        together = table.to_numpy()
        if together.dtype.kind in "biuf":
            return list(together.T)
    if hasattr(table, "iloc"):
        return [_of_series(series) for _, series in table.items()]
    if hasattr(table, "columns"):
        return [np.asarray(table[name]) for name in table.columns]
    return list(table.T)


def _of_series(series: Any) -> np.ndarray:
    """A column of a DataFrame; times of any zone as they would be in Greenwich."""
    if getattr(series.dtype, "kind", "") == "M":
        return series.to_numpy(dtype="datetime64[us]")
    return np.asarray(series)


def _is_of_days(column: np.ndarray) -> bool:
    if column.dtype.kind not in "OUST":
        return column.dtype.kind == "M"
    present = [value for value in column if not _is_missing(value)]
    return bool(present) and all(is_day(_dated(value)) for value in present)


def _dated(value: Any) -> str:
    """A word; of a period, such as a month or a quarter, its beginning."""
    return _word(value.to_timestamp() if hasattr(value, "to_timestamp") else value)


def _days(column: np.ndarray) -> np.ndarray:
    """Days since 1970, NaN where there is none; numbers are such already."""
    if column.dtype.kind in "OUST":
        column = times(_dated(value) for value in column)
    return _numbers(column)


def _declared_categories(X: Any) -> set[int]:
    """The columns of a DataFrame whose type says that they are categories."""
    kinds = getattr(X, "dtypes", [])
    kinds = list(kinds) if hasattr(X, "columns") else []
    return {k for k, kind in enumerate(kinds) if str(kind) == "category"}


def _table(rows: list | tuple) -> np.ndarray:
    """A list of rows, whose numbers stay numbers although others are words."""
    plain = np.asarray(rows)
    return plain if plain.dtype.kind in "biuf" or plain.ndim != 2 else np.array(rows, dtype=object)


def _kind(column: np.ndarray) -> str:
    if column.dtype.kind in "biufm":
        return NUMBER
    words = [_word(value) for value in column if not _is_missing(value)]
    if all(_is_number(word) for word in words):
        return NUMBER
    distinct = len(set(words))
    if distinct == len(words):  # as categories all would be rare, and alike
        return TEXT
    if np.mean([len(word) for word in words]) > _LONG:
        return TEXT
    few = distinct <= _FEW_LEVELS or (distinct <= _MOST_LEVELS and 2 * distinct <= len(words))
    return CATEGORY if few else TEXT


def _is_missing(value: Any) -> bool:
    if type(value) is str:
        return not value
    # pandas.NA has no truth value, so it is known by the name of its type.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or _is_nothing(value)


def _is_nothing(value: Any) -> bool:
    return bool(value == "" or value != value)


def _is_number(word: str) -> bool:
    return not np.isnan(_number(word)) or word.strip().lower() == "nan"


def _number(word: str) -> float:
    """The number that a word is, truth values included; NaN for any other word."""
    if word in ("True", "False"):
        return float(word == "True")
    try:
        return float(word)
    except ValueError:
        return np.nan


def _word(value: Any) -> str:
    if type(value) is str:  # at once, as most are
        return value
    if _is_missing(value):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))  # what a column of whole numbers becomes when it has gaps
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _levels(column: np.ndarray) -> list[str]:
    """The words of a column that are not rare, and one for all others."""
    words, counts = np.unique([_word(value) for value in column], return_counts=True)
    return [*(str(w) for w, c in zip(words, counts, strict=True) if c >= _RARE), "any other"]


def _numbers(column: np.ndarray) -> np.ndarray:
    """Numbers, times in days, NaN where there is none."""
    if column.dtype.kind in "biuf":
        return column
    if column.dtype.kind in "mM":
        microseconds = column.astype(f"{column.dtype.kind}8[us]").astype(np.int64)
        return np.where(np.isnat(column), np.nan, microseconds / 8.64e10)
    return np.array([_number(_word(value)) for value in column])


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if values.size else 0.0
