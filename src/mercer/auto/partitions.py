"""Partitions of space by boosted trees: predictions, and a kernel with explicit sparse features."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from mercer import core
from mercer._sklearn import Interval, StrOptions
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.labels import checked_weights

SQUARED, CLASSES = "squared", "classes"
# Features are cut at no more places than codes of eight bits tell apart.
_MOST_BINS = 256
# From so many rows on there are two folds, each leaving out so many rows at most.
_MANY_ROWS, _JUDGES = 20_000, 10_000
# Rows that quantiles are taken of.
_QUANTILE_ROWS = 50_000
# Rows that a tree sees at most.
_ROWS_OF_TREE = 100_000


class BoostedPartitions(TransformerMixin, BaseEstimator):
    r"""Partitions by boosted trees that ask one question of all leaves of a level.

    .. math:: f(x) = b + \sum_{t=1}^T v_t(\mathrm{leaf}_t(x)), \qquad
              k(x, z) = \frac1T \sum_{t=1}^T [\mathrm{leaf}_t(x) = \mathrm{leaf}_t(z)]

    Each tree lowers the loss by a Newton step in each of its :math:`2^{depth}` leaves. The rows
    are divided into folds; trees are boosted on the others until the loss of the fold no longer
    falls, and predictions are means over folds. `transform` gives leaf indicators, whose dot
    products are the kernel k.

    Parameters
    ----------
    loss : {"squared", "classes"}, default="squared"
        "classes" is the logistic loss of two classes, and that of the softmax function of more.
    n_trees : int, default=300
        In each fold, at most.
    depth : int, default=6
    learning_rate : float, default=0.08
    l2 : float, default=3.0
        Added to the sum of curvatures of a leaf.
    row_share, column_share : float, default=0.8 and 0.5
        Shares of the rows that a tree sees and of the features that a level may ask for.
    n_bins : int, default=64
        Intervals of a feature, between quantiles.
    n_folds : int, default=4
        From 20,000 rows on there are two, of at most 10,000 rows that are left out.
    patience : int, default=40
        Trees without progress that end the boosting.
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    features_, thresholds_ : ndarrays of shape (trees, depth)
        The questions of all trees: is the feature above the threshold?
    values_ : ndarray of shape (trees, 2**depth, n_outputs)
    first_ : ndarray of shape (n_outputs,)
        The score without trees.
    left_out_ : ndarray of shape (n, n_outputs)
        Scores of each row from the trees of the fold that leaves it out; NaN where none does.
    classes_ : ndarray
        For ``loss="classes"``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(40.0)[:, None]
    >>> found = BoostedPartitions().fit(X, np.floor(X[:, 0] / 10))
    >>> found.scores([[5.0], [35.0]]).ravel().round(1).tolist()
    [0.0, 3.0]
    >>> Z = found.transform(X)
    >>> np.asarray((Z @ Z.T).todense()).diagonal().round(6).tolist() == [1.0] * 40
    True
    """

    _parameter_constraints: dict = {
        "loss": [StrOptions({SQUARED, CLASSES})],
        "n_trees": [Interval(Integral, 1, None, closed="left")],
        "depth": [Interval(Integral, 1, 8, closed="both")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "l2": [Interval(Real, 0, None, closed="left")],
        "row_share": [Interval(Real, 0, 1, closed="right")],
        "column_share": [Interval(Real, 0, 1, closed="right")],
        "n_bins": [Interval(Integral, 2, _MOST_BINS, closed="both")],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        loss: str = SQUARED,
        n_trees: int = 300,
        depth: int = 6,
        learning_rate: float = 0.08,
        l2: float = 3.0,
        row_share: float = 0.8,
        column_share: float = 0.5,
        n_bins: int = 64,
        n_folds: int = 4,
        patience: int = 40,
        random_state: Any = 0,
    ):
        self.loss = loss
        self.n_trees = n_trees
        self.depth = depth
        self.learning_rate = learning_rate
        self.l2 = l2
        self.row_share = row_share
        self.column_share = column_share
        self.n_bins = n_bins
        self.n_folds = n_folds
        self.patience = patience
        self.random_state = random_state

    @atomic_fit
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> BoostedPartitions:
        """Boost trees.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, n_outputs)
            Numbers, or labels for ``loss="classes"``.
        sample_weight : float or array of shape (n,), optional
        groups : array of shape (n,), optional
            Rows of a group are in the same fold.
        """
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=self.loss == SQUARED, dtype=np.float64
        )
        random, n = check_random_state(self.random_state), len(X)
        weight = checked_weights(sample_weight, X)
        weight = np.ones(n) if weight is None else weight / weight.mean()
        kind, targets, strata = self._targets(y)
        shares = np.average(targets, axis=0, weights=weight)
        self._scale = np.ones(1)
        if kind == 0:
            self.first_, spread = shares, np.sqrt(np.average((targets - shares) ** 2, axis=0))
            self._scale = np.where(spread > 0, spread, 1.0)
            targets = (targets - shares) / self._scale
        else:
            shares = np.clip(shares, 1e-12, 1 - 1e-12)
            self.first_ = np.log(shares / (1 - shares)) if kind == 1 else np.log(shares)
        begin = np.zeros(targets.shape[1]) if kind == 0 else self.first_
        fold = self._folds(n, strata, groups, random)
        F = int(fold.max()) + 1
        cuts = [_cuts(x, self.n_bins, random) for x in X.T]
        codes = np.array([_coded(x, c) for x, c in zip(X.T, cuts, strict=True)], dtype=np.uint8)
        out = fold == np.arange(F)[:, None]
        found, scores = core.boosting_routines().boost(
            np.ascontiguousarray(np.broadcast_to(codes, (F, *codes.shape))),
            np.array([len(c) + 1 for c in cuts], dtype=np.int32),
            targets.astype(np.float32),
            np.where(out, 0, weight).astype(np.float32),
            np.where(out, weight, 0).astype(np.float32),
            np.tile(begin, (F, n, 1)).astype(np.float32),
            kind,
            self.n_trees,
            self.depth,
            self.patience,
            self.learning_rate,
            self.l2,
            min(self.row_share, _ROWS_OF_TREE / n),
            self.column_share,
            random.randint(2**31 - 1),
            core.threads(F * codes.size * self.n_trees, 0),
        )
        self._keep(found, cuts, F)
        scores = np.asarray(scores, dtype=np.float64)
        left_out = np.where(fold >= 0, 1.0, np.nan)[:, None] * scores[fold, np.arange(n)]
        self.left_out_ = left_out * self._scale + (self.first_ if kind == 0 else 0)
        return self

    def _targets(self, y: np.ndarray) -> tuple[int, np.ndarray, np.ndarray | None]:
        """The number of the loss, targets (n, outputs), and codes of classes."""
        if self.loss == SQUARED:
            y = np.asarray(y, dtype=np.float64)
            return 0, y.reshape(len(y), -1), None
        self.classes_, codes = np.unique(column_or_1d(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y has one class; loss='classes' needs at least two")
        if len(self.classes_) == 2:
            return 1, codes[:, None].astype(float), codes
        return 2, np.eye(len(self.classes_))[codes], codes

    def _folds(
        self, n: int, strata: np.ndarray | None, groups: Any, random: np.random.RandomState
    ) -> np.ndarray:
        """The fold that leaves each row out, -1 for none; classes in equal shares."""
        order = random.permutation(n)
        if groups is not None:
            check_consistent_length(groups, order)
            places = np.unique(groups, return_inverse=True)[1].ravel()
            return (random.permutation(int(places.max()) + 1) % self.n_folds)[places]
        if strata is not None:
            order = order[np.argsort(strata[order], kind="stable")]
        fold = np.full(n, -1)
        if n < _MANY_ROWS:
            fold[order] = np.arange(n) % self.n_folds
        else:
            fold[order[:: max(n // (2 * _JUDGES), 2)]] = 0
            some = np.flatnonzero(fold == 0)
            fold[some] = np.arange(len(some)) % 2
        return fold

    def _keep(self, found: list, cuts: list[np.ndarray], F: int) -> None:
        """The questions in the units of the features, and the values of means over folds."""
        features = [np.asarray(trees[0]) for trees in found]
        places = [np.asarray(trees[1]) for trees in found]
        self.features_ = np.concatenate(features).astype(np.int32)
        # A last interval has nothing above it.
        ends = [np.append(c, np.inf) for c in cuts]
        asked = zip(self.features_.ravel(), np.concatenate(places).ravel(), strict=True)
        thresholds = [ends[k][min(c, len(ends[k]) - 1)] for k, c in asked]
        self.thresholds_ = np.array(thresholds, dtype=np.float32).reshape(self.features_.shape)
        values = np.concatenate([np.asarray(trees[2]) for trees in found])
        self.values_ = (values * (self._scale / F)).astype(np.float32)
        self.n_trees_ = [len(trees) for trees in features]

    def scores(self, X: Any) -> np.ndarray:
        """Predictions of numbers, or logarithms of the odds of classes, (m, n_outputs).

        Of two classes, those of the second; of more, up to a constant for each row.
        """
        return self.scores_at(self._points(X))

    def scores_at(self, points: np.ndarray) -> np.ndarray:
        """As `scores`, for points in float32 that need no checks."""
        sums = core.boosting_routines().partition_sums(
            np.ascontiguousarray(points),
            self.features_,
            self.thresholds_,
            self.values_,
            core.threads(len(points) * len(self.features_), 0),
        )
        return np.asarray(sums) + self.first_

    def transform(self, X: Any) -> sp.csr_matrix:
        """Leaf indicators divided by the root of the number of trees, (m, trees * leaves)."""
        points, T = self._points(X), len(self.features_)
        leaves = core.boosting_routines().partition_leaves(
            points, self.features_, self.thresholds_, core.threads(len(points) * T, 0)
        )
        columns = np.asarray(leaves).astype(np.int64) + 2**self.depth * np.arange(T)
        values = np.full(columns.size, 1 / np.sqrt(max(T, 1)))
        starts = np.arange(0, columns.size + 1, T) if T else np.zeros(len(points) + 1, dtype=int)
        shape = (len(points), T * 2**self.depth)
        return sp.csr_matrix((values, columns.ravel(), starts), shape=shape)

    def _points(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        # In float32, and above a threshold in the same way as in training.
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.ascontiguousarray(X, dtype=np.float32)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``tree0_leaf0``, ``tree0_leaf1``, ..."""
        check_is_fitted(self)
        T = len(self.features_)
        names = [f"tree{t}_leaf{leaf}" for t in range(T) for leaf in range(2**self.depth)]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _cuts(x: np.ndarray, bins: int, random: np.random.RandomState) -> np.ndarray:
    """Thresholds in float32 between values, at quantiles where there are many values."""
    if len(x) > _QUANTILE_ROWS:
        x = x[random.permutation(len(x))[:_QUANTILE_ROWS]]
    known = np.unique(x.astype(np.float32))
    if len(known) > bins:
        ordered = np.sort(x.astype(np.float32))
        shares = np.linspace(0, len(x) - 1, bins + 1)[1:-1].astype(int)
        places = np.unique(np.searchsorted(known, ordered[shares]))
    else:
        places = np.arange(len(known))
    places = places[places < len(known) - 1]
    low, high = known[places].astype(np.float64), known[places + 1].astype(np.float64)
    middle = (low / 2 + high / 2).astype(np.float32)
    # Where no float32 lies between, the lower value itself parts the two.
    return np.where(middle < known[places + 1], middle, known[places])


def _coded(x: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """How many cuts each value is above."""
    return np.searchsorted(cuts, x.astype(np.float32), side="left")
