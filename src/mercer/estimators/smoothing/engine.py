"""What kernel smoothers share: training points, weights, and leave-one-out bandwidths."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from mercer._sklearn import Interval, StrOptions
from mercer.arrays import as_numpy, refuse_tensors, to_float64
from mercer.arrays.remote import over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.inputs import points_in_double, query_points
from mercer.estimators.labels import checked_weights, require_targets
from mercer.estimators.smoothing.bandwidths import (
    Bandwidth,
    feature_scales,
    log_search,
    loo_bandwidth,
    resolve_bandwidth,
    simplest_form,
)
from mercer.estimators.smoothing.columns import NUMERIC, ColumnCoding, checked_table
from mercer.estimators.smoothing.local_estimates import local_estimates
from mercer.estimators.smoothing.local_fits import (
    LocalFits,
    expression_score,
    gaussian_score,
    has_slopes,
)
from mercer.estimators.smoothing.neighbourhoods import (
    LocalFit,
    Neighbourhoods,
    leave_one_out,
    local_constant,
    local_linear,
)
from mercer.kernels.smoothing.window import RadialKernel, SmoothingKernel
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS

BANDWIDTH_CONSTRAINTS = [
    Interval(Real, 0, None, closed="neither"),
    StrOptions({"loo", "loo_per_feature", "loo_common"}),
    "array-like",
]
KERNEL_CONSTRAINTS = [StrOptions(set(SMOOTHING_KERNELS)), callable, SmoothingKernel]
COLUMN_CONSTRAINTS = [StrOptions({"from_dtype"}), "array-like", None]
# Beyond so many points the search begins on a part of them.
MANY_POINTS, PART = 5000, 2500
# Local lines in so many features or fewer are searched at all points, else at as many at least.
LINES_SEARCHED = 50


class Smoother(BaseEstimator):
    """What the three smoothers share: training points, their weights, and the bandwidth."""

    _arrays = ArraySupport(tensors="everywhere")
    _local_fit: LocalFit = staticmethod(local_constant)
    bandwidth: Any
    categorical_features: Any
    ordered_features: Any
    kernel_: SmoothingKernel
    n_features_in_: int

    @over_blocks
    def weights(self, X: Any) -> np.ndarray:
        """w_n(x) for each row of ``X: (m, d)`` and training point, (m, n); each row sums to one."""
        X = self._queries(X)
        return np.concatenate([W for _, _, W in self._neighbourhoods().blocks(X)])

    @property
    def _is_linear(self) -> bool:
        return self._local_fit is local_linear

    @property
    def _lines(self) -> np.ndarray | None:
        """The coordinates along which local lines slope, those of numbers; all if None."""
        if not self._is_linear or self.coding_ is None:
            return None
        numeric = np.array([kind == NUMERIC for kind in self.coding_.kinds])
        return np.flatnonzero(numeric[self._owners])

    @property
    def _slopes(self) -> bool:
        """Whether local fits are lines: there may be nothing but categories."""
        return self._is_linear and (self._lines is None or len(self._lines) > 0)

    def _training_points(self, X: Any, y: Any) -> Any:
        """Training points checked, as many as targets; the coding of their categories is kept."""
        self.coding_ = None
        require_targets(self, y)
        if self.categorical_features is not None or self.ordered_features is not None:
            X = checked_table(self, X, reset=True)
            self.coding_ = ColumnCoding(self.categorical_features, self.ordered_features).fit(X)
            X = self.coding_.transform(X)
        else:
            X = points_in_double(self, X, reset=True)
        check_consistent_length(X, y)
        return X

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if self.coding_ is not None:
            return self.coding_.transform(checked_table(self, X, reset=False))
        return query_points(self, X)

    def _store_points(self, X: np.ndarray, sample_weight: Any) -> np.ndarray:
        """Store the points that have weight; returns which they are."""
        weight = checked_weights(sample_weight, X)
        weight = np.ones(len(X)) if weight is None else weight
        kept = weight > 0
        self.X_fit_ = X[kept]
        self.sample_weight_ = weight[kept]
        return kept

    @property
    def _owners(self) -> np.ndarray:
        """For each coordinate of the points, the feature it comes from."""
        return np.arange(self.n_features_in_) if self.coding_ is None else self.coding_.owners

    def _scaling(self, bandwidth: Any = None) -> Bandwidth:
        bandwidth = self.bandwidth_ if bandwidth is None else bandwidth
        scaling = resolve_bandwidth(bandwidth, self.n_features_in_)
        return scaling if scaling.is_matrix else Bandwidth(scaling.root[self._owners])

    def _neighbourhoods(self, bandwidth: Any = None) -> Neighbourhoods:
        refuse_tensors(self.X_fit_, "anything but predict")
        return self._around(self.X_fit_, bandwidth)

    def _around(self, points: np.ndarray, bandwidth: Any = None) -> Neighbourhoods:
        scaling = self._scaling(bandwidth)
        return Neighbourhoods(self.kernel_, scaling, points, self.sample_weight_, self._lines)

    def _means(self, X: Any, Y: np.ndarray) -> Any:
        """The local fit of ``Y: (n, k)`` around each row of ``X: (m, d)``, (m, k)."""
        return local_estimates(self).around(X, Y)

    def _left_out(self, Y: np.ndarray) -> np.ndarray:
        """The prediction of each row of ``Y: (n, k)`` by the others."""
        return local_estimates(self).left_out(Y)

    def _settle(self, Y: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Set ``bandwidth_``; returns what the others predict of each row of ``Y: (n, k)``.

        Leave-one-out errors are divided by ``scales: (k,)`` and squared.
        """
        self.selection_ = None
        if isinstance(self.bandwidth, str):
            h = self._start()
            if len(Y) > 1:
                h = self._search(Y, scales, h)
            self.bandwidth_ = simplest_form(h)
        else:
            given = resolve_bandwidth(self.bandwidth, self.n_features_in_)
            if given.is_matrix and not self.kernel_.radial:
                raise ValueError(
                    f"bandwidth is a matrix, which turns the axes that {self.kernel_!r} depends "
                    "on; give one bandwidth for each feature, or use a radial kernel"
                )
            if given.is_matrix and self.coding_ is not None:
                raise ValueError(
                    "bandwidth is a matrix, and X has categories; give one number for each feature"
                )
            one = isinstance(self.bandwidth, Real)
            self.bandwidth_ = float(self.bandwidth) if one else np.array(self.bandwidth, float)
        return self._left_out(Y)

    def _search(self, Y: np.ndarray, scales: np.ndarray, start: np.ndarray) -> np.ndarray:
        score = self._score(Y, scales, np.arange(len(Y)))
        common = self.bandwidth == "loo_common"
        if score is None or common:
            rows = self._searched_rows(len(Y))
            weight = self.sample_weight_[rows] / self.sample_weight_[rows].sum()

            def error(h: np.ndarray) -> float:
                if score is not None:
                    return score(h, False)[0]
                near = self._around(as_numpy(to_float64(self.X_fit_)), h)
                predicted = leave_one_out(near, Y, self._local_fit, rows)
                return float((weight @ ((Y[rows] - predicted) / scales) ** 2).mean())

            return self._selected(*loo_bandwidth(error, start, per_feature=not common), start)
        if len(Y) <= MANY_POINTS:
            h, curve = log_search(score, start, value=lambda h: score(h, False)[0])
            return self._selected(h, curve, start)
        # From the best on a part of the points, narrowed as the number grows, all of them descend.
        some = np.random.default_rng(0).choice(len(Y), PART, replace=False)
        part = self._score(Y, scales, np.sort(some))
        assert part is not None
        h, curve = log_search(part, start, value=lambda h: part(h, False)[0])
        self._selected(h, curve, start)
        narrowed = h * (PART / len(Y)) ** (1 / (len(h) + 4))
        if not local_estimates(self).searches_all:
            return narrowed
        return log_search(score, narrowed, powers=(0,), lowest=-6, highest=6, starts=1, rtol=1e-7)[
            0
        ]

    def _searched_rows(self, n: int) -> np.ndarray:
        """The points at which the search without slopes measures the error.

        A local line takes n d min(n, d) operations, so that all n of them take more than n² d; of
        many features it is measured at n LINES_SEARCHED / min(n, d) points, spread evenly.
        """
        d = self.X_fit_.shape[1]
        m = n if not self._slopes else min(n, n * LINES_SEARCHED // min(n, d))
        return np.linspace(0, n - 1, m).round().astype(np.intp)

    def _selected(self, h: np.ndarray, curve: dict[str, Any], start: np.ndarray):
        self.selection_ = {
            "bandwidth": curve["factor"][:, None] * start,
            "score": curve["score"],
            "per_feature": curve["per_feature"],
        }
        return h

    def _score(self, Y: np.ndarray, scales: np.ndarray, rows: np.ndarray) -> Any:
        """The leave-one-out error of some points with its slopes, or None where there are none."""
        X, mass, Y = as_numpy(to_float64(self.X_fit_[rows])), self.sample_weight_[rows], Y[rows]
        owners = self._owners
        if LocalFits.serve(self.kernel_, X.shape[1]):
            inner = gaussian_score(X, mass, Y, scales, self._slopes, self._lines)
        elif isinstance(self.kernel_, RadialKernel) and self._has_gradient:
            inner = expression_score(self.kernel_, X, mass, Y, scales)
        else:
            return None

        def score(h: np.ndarray, with_slopes: bool = True) -> tuple[float, np.ndarray]:
            value, slopes = inner(h[owners], with_slopes)
            return value, np.bincount(owners, slopes, minlength=len(h))

        return score

    @property
    def _has_gradient(self) -> bool:
        return has_slopes(self.kernel_) and not self._is_linear

    def _start(self) -> np.ndarray:
        """Bandwidths on the scale of the features, where the search begins."""
        d, owners = self.n_features_in_, self._owners
        scales = np.ones(d)  # of categories, which are at distance one
        own = feature_scales(as_numpy(to_float64(self.X_fit_)), self.sample_weight_, ddof=0)
        single = np.bincount(owners, minlength=d) == 1
        if self.coding_ is not None:
            single &= np.array([kind == NUMERIC for kind in self.coding_.kinds])
        scales[single] = own[np.isin(owners, np.flatnonzero(single))]
        scales[scales == 0] = 1.0
        shrinkage = max(self.sample_weight_.sum(), 1.0) ** (-1 / (d + 4))
        return scales * shrinkage / np.sqrt(self.kernel_.variance(self.X_fit_.shape[1]))
