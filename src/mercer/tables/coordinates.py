"""Tables as points for kernels that follow single columns: values, ranks and target means."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.tables.coding import (
    CATEGORY,
    TableCoding,
    _columns,
    _quantiles,
    _word,
    as_table,
    mean_and_spread,
)
from mercer.tables.identifiers import why_identifier

# The farthest that a coordinate is from its centre, in its spread.
_FARTHEST = 4.0
# A level with fewer rows has no coordinate of its own, and a column has at most so many of them.
_FEWEST_ROWS, _MOST_LEVELS = 8, 40
# Columns with more levels than this have a coordinate for how frequent a level is.
_FEW_LEVELS = 4


class TableCoordinates(TableCoding):
    r"""A table as points with several coordinates per column.

    - A column of numbers has its value, centred at the median, divided by its spread and clipped;
      its rank, unless it has only two values; and a flag for missing values.
    - A column of categories has an indicator for each frequent level, the mean of each target among
      the training rows of the level, and the logarithm of the number of those rows. With m rows of
      the level and means shrunk towards the mean of all by p rows, the mean is
      :math:`\sum_i y_i / (m + p)` for centred targets y.

    The target means of the training rows are *cross-fitted*: those of one fold come from the other
    folds, so that a row's own target is not in its coordinates. `fit_transform` therefore differs
    from `fit` followed by `transform`, which is for new rows.

    Parameters
    ----------
    n_folds : int, default=8
    prior : float, default=4.0
        The number p of rows.
    random_state : int, RandomState or None, default=0
        For the folds.

    Attributes
    ----------
    kinds_, days_, owners_, texts_
        As in `TableCoding`; texts that identify rows are not among ``texts_``.
    identifiers_ : dict
        Columns that identify rows, such as names, e-mail addresses and codes, and why they are not
        part of the points.
    sorts_ : list of str
        What each coordinate is: "value", "rank", "missing", "level", "mean" or "frequency".

    Examples
    --------
    >>> import numpy as np
    >>> table = np.array([[1.0, "a"], [3.0, "b"], [5.0, "a"], [7.0, "b"]] * 9, dtype=object)
    >>> coding = TableCoordinates()
    >>> points = coding.fit_transform(table, np.arange(36.0))
    >>> points.shape, coding.sorts_
    ((36, 3), ['value', 'rank', 'level'])
    """

    scaling = "values, ranks and target means"

    def __init__(self, n_folds: int = 8, prior: float = 4.0, random_state: Any = 0):
        self.n_folds = n_folds
        self.prior = prior
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> TableCoordinates:
        self.fit_transform(X, y, sample_weight, groups)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Fit, and return the points of the training rows, with cross-fitted target means.

        Parameters
        ----------
        X : table
        y : array of shape (n,) or (n, n_targets), optional
            Numbers; without them, categories have no target means.
        sample_weight : array of shape (n,), optional
            Weights in the target means.
        groups : array of shape (n,), optional
            Rows of a group are in the same fold.
        """
        super().fit(X)
        columns = _columns(as_table(X))
        names = getattr(self, "feature_names_in_", None)
        self.identifiers_ = {}
        for k in self.texts_:
            why = why_identifier("text" if names is None else str(names[k]), columns[k])
            if why is not None:
                self.identifiers_[k] = why
        self.texts_ = [k for k in self.texts_ if k not in self.identifiers_]
        n = len(columns[0])
        Y = np.zeros((n, 0)) if y is None else np.asarray(y, dtype=np.float64).reshape(n, -1)
        weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        Y = Y - np.average(Y, axis=0, weights=weight)
        self.n_targets_, fold = Y.shape[1], self._folds(n, groups)
        fitted = {k: self._fit_levels(k, columns[k], Y, weight, fold) for k in self._categories()}
        self._describe()
        points = self.transform(X)
        for k, means in fitted.items():
            if means.size:
                own = (self.owners_ == k) & (np.array(self.sorts_) == "mean")
                points[:, np.flatnonzero(own)] = _clipped(means)
        return points

    def _categories(self) -> list[int]:
        return [k for k, kind in enumerate(self.kinds_) if kind == CATEGORY]

    def _folds(self, n: int, groups: Any) -> np.ndarray:
        """The fold of each row, (n,)."""
        random = check_random_state(self.random_state)
        if groups is None:
            return random.permutation(n) % self.n_folds
        places = np.unique(groups, return_inverse=True)[1].ravel()
        return (random.permutation(int(places.max()) + 1) % self.n_folds)[places]

    def _fit_levels(
        self, k: int, column: np.ndarray, Y: np.ndarray, weight: np.ndarray, fold: np.ndarray
    ) -> np.ndarray:
        """Coordinates of every level of a column; returns the cross-fitted means (n, t or 0)."""
        levels, place, counts = np.unique(
            np.array([_word(v) for v in column]), return_inverse=True, return_counts=True
        )
        L = len(levels)
        frequent = [i for i in np.argsort(-counts, kind="stable") if counts[i] >= _FEWEST_ROWS]
        frequent = frequent[: 1 if L == 2 else _MOST_LEVELS]
        parts = [np.eye(L + 1)[:, frequent]]
        sorts = ["level"] * len(frequent)
        crossed = Y[:, :0]
        if L > 2 and Y.shape[1]:
            sums, sizes = _sums(place, L, Y, weight)
            crossed = np.empty_like(Y)
            for each in np.unique(fold):
                inside = fold == each
                s, m = _sums(place[inside], L, Y[inside], weight[inside])
                crossed[inside] = ((sums - s) / (sizes - m + self.prior)[:, None])[place[inside]]
            mean, spread = mean_and_spread(crossed)
            spread = np.where(spread > 0, spread, 1.0)
            crossed = (crossed - mean) / spread
            means = np.vstack([sums / (sizes + self.prior)[:, None], 0 * mean])
            parts.append(_clipped((means - mean) / spread))
            sorts += ["mean"] * Y.shape[1]
        if L > _FEW_LEVELS:
            logs = np.log(np.append(counts, 1))[:, None]
            mean, spread = mean_and_spread(logs[place])
            parts.append(_clipped((logs - mean) / np.where(spread > 0, spread, 1.0)))
            sorts.append("frequency")
        self.levels_[k] = levels.tolist()
        self.codes_[k] = np.hstack(parts)
        self.level_sorts_[k] = sorts
        return crossed

    def _describe(self) -> None:
        """Which column each coordinate comes from, and what it is."""
        d = len(self.varying_)
        self.sorts_ = ["value"] * d + ["rank"] * len(self.ranked_) + ["missing"] * len(self.gaps_)
        owners = [self._number_owners(), self.gaps_]
        for k in self._categories():
            owners.append(np.full(len(self.level_sorts_[k]), k))
            self.sorts_ += self.level_sorts_[k]
        self.owners_ = np.concatenate(owners).astype(np.int64)

    # What `TableCoding` does with numbers and with categories.

    def _fit_scaling(self, values: np.ndarray) -> None:
        self.codes_: dict[int, np.ndarray] = {}
        self.level_sorts_: dict[int, list[str]] = {}
        _, spreads = mean_and_spread(values)
        self.varying_ = np.flatnonzero(spreads > 0)
        values, spreads = values[:, self.varying_], spreads[self.varying_]
        self.quantiles_ = _quantiles(values)
        low, middle, high = np.quantile(values, [0.01, 0.5, 0.99], axis=0, method="nearest")
        # Of a normal distribution these quantiles are 4.65 standard deviations apart.
        width = high / 3 - low / 3
        self.means_, self.spreads_ = (
            middle,
            np.where(width > 0, np.minimum(width, spreads), spreads),
        )
        lowest, highest = self.quantiles_[0], self.quantiles_[-1]
        two = np.all((values == lowest) | (values == highest), axis=0)
        self.ranked_ = np.flatnonzero(~two)

    def _number_owners(self) -> np.ndarray:
        return self.numbers_[np.concatenate([self.varying_, self.varying_[self.ranked_]])]

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        ranks = self._shares(values[:, self.ranked_], self.quantiles_[:, self.ranked_]) - 0.5
        with np.errstate(over="ignore"):
            moved = values / self.spreads_ - self.means_ / self.spreads_
        return np.hstack([_clipped(moved), np.sqrt(12) * ranks])

    def _coded(self, k: int, column: np.ndarray) -> np.ndarray:
        codes = self.codes_[k]
        places = {level: i for i, level in enumerate(self.levels_[k])}
        return codes[[places.get(_word(v), len(codes) - 1) for v in column]]


def _clipped(points: np.ndarray) -> np.ndarray:
    return np.clip(points, -_FARTHEST, _FARTHEST)


def _sums(
    place: np.ndarray, L: int, Y: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted sums of targets by level, (L, t), and weights, (L,)."""
    sums = [np.bincount(place, weight * y, minlength=L) for y in Y.T]
    return np.array(sums).reshape(-1, L).T, np.bincount(place, weight, minlength=L)
