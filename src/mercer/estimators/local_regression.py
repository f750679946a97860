"""What kernel smoothers share: weights, leave-one-out bandwidths, local fits, p(t | x)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_n_features,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from mercer.arrays import as_numpy, as_vectors, beside, doubled, following, is_tensor
from mercer.elsewhere import over_blocks
from mercer.estimators.bandwidths import (
    Bandwidth,
    feature_scales,
    log_search,
    loo_bandwidth,
    normal_reference,
    resolve_bandwidth,
    simplest_form,
)
from mercer.estimators.columns import NUMERIC, ColumnCoding, checked_table
from mercer.estimators.conditionals import JointConditional, ProductConditional
from mercer.estimators.labels import checked_weights
from mercer.estimators.local_fits import (
    LocalFits,
    expression_score,
    gaussian_score,
    has_slopes,
)
from mercer.estimators.neighbourhoods import (
    LocalFit,
    Neighbourhoods,
    carried_targets,
    leave_one_out,
    linear_weights,
    local_constant,
    local_linear,
)
from mercer.estimators.scores import Regressor
from mercer.estimators.tensor_smoothing import TensorMeans, tensor_lines
from mercer.kernels.densities import FunctionKernel, JointDensity
from mercer.kernels.smoothing import SMOOTHING_KERNELS, RadialKernel, SmoothingKernel

BANDWIDTH_CONSTRAINTS = [
    Interval(Real, 0, None, closed="neither"),
    StrOptions({"loo", "loo_per_feature", "loo_common"}),
    "array-like",
]
TARGET_BANDWIDTH_CONSTRAINTS = [
    Interval(Real, 0, None, closed="neither"),
    StrOptions({"silverman"}),
    "array-like",
]
KERNEL_CONSTRAINTS = [StrOptions(set(SMOOTHING_KERNELS)), callable, SmoothingKernel]
COLUMN_CONSTRAINTS = [StrOptions({"from_dtype"}), "array-like", None]
# Pairs from which sums go through the core without weights being stored.
MANY_PAIRS = 2**16
# Logarithms beyond this are not subtracted from each other.
FAR = 1e4
# Beyond so many points the search begins on a part of them.
MANY_POINTS, PART = 5000, 2500


class Smoother(BaseEstimator):
    """What the three smoothers share: training points, their weights, and the bandwidth."""

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

    def _points(self, X: Any) -> np.ndarray:
        """The points of a training table with categories, whose coding is kept."""
        X = checked_table(self, X, reset=True)
        self.coding_ = ColumnCoding(self.categorical_features, self.ordered_features).fit(X)
        return self.coding_.transform(X)

    @property
    def _has_categories(self) -> bool:
        return self.categorical_features is not None or self.ordered_features is not None

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if self.coding_ is not None:
            return self.coding_.transform(checked_table(self, X, reset=False))
        if is_tensor(X) and is_tensor(self.X_fit_):
            X = as_vectors(X)
            _check_n_features(self, X, reset=False)
            return X
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _tensors(self, X: Any, y: Any) -> Any:
        """Training points that are tensors, checked where they are, as many as targets."""
        X = as_vectors(X)
        _check_n_features(self, X, reset=True)
        check_consistent_length(X, y)
        return X

    def _keep(self, X: np.ndarray, sample_weight: Any) -> np.ndarray:
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
        if is_tensor(self.X_fit_):
            raise TypeError("only predict is there for tensors; fit on X.cpu().numpy()")
        return self._around(self.X_fit_, bandwidth)

    def _around(self, points: np.ndarray, bandwidth: Any = None) -> Neighbourhoods:
        scaling = self._scaling(bandwidth)
        return Neighbourhoods(self.kernel_, scaling, points, self.sample_weight_, self._lines)

    def _fused(self, m: int) -> bool:
        """Whether m queries go through the core, without a matrix of weights."""
        d = self.X_fit_.shape[1]
        return m * len(self.X_fit_) >= MANY_PAIRS and LocalFits.serve(self.kernel_, d)

    def _fits(self, Y: np.ndarray) -> LocalFits:
        near = self._neighbourhoods()
        return LocalFits(near.V, near.mass, Y, self._slopes, self._lines)

    def _means(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The local fit of ``Y: (n, k)`` around each row of ``X: (m, d)``, (m, k)."""
        if is_tensor(self.X_fit_) and is_tensor(X):
            return beside(self._tensor_fits(as_numpy(Y), X), X)
        near = self._neighbourhoods()
        if not self._fused(len(X)):
            V = near.sites
            blocks = near.blocks(X, floats_per_pair=4 * (X.shape[1] + Y.shape[1]))
            parts = [self._local_fit(W, U, V, Y)[0] for _, U, W in blocks]
            return np.concatenate(parts)
        moments = self._fits(Y).at(near.bandwidth.shrink(X))
        mean = moments.value
        careful = np.flatnonzero(moments.flat | ~np.isfinite(moments.log_sum))
        if len(careful):
            V = near.sites
            blocks = near.blocks(X[careful], floats_per_pair=4 * (X.shape[1] + Y.shape[1]))
            parts = [self._local_fit(W, U, V, Y)[0] for _, U, W in blocks]
            mean[careful] = np.concatenate(parts)
        return mean

    def _tensor_fits(self, Y: np.ndarray, X: Any = None) -> Any:
        """The local fit of ``Y: (n, k)`` around each query or, by the others, each point: (m, k).

        Lines where the points in reach hardly spread are left to the host.
        """
        points, mass, shrink = self.X_fit_, self.sample_weight_, self._scaling().shrink
        if not self._is_linear:
            means = TensorMeans(self.kernel_, shrink(points), mass, Y)
            return means.around(None if X is None else shrink(X))
        points, X = doubled(points), None if X is None else doubled(X)
        around = None if X is None else shrink(X)
        fits = tensor_lines(self.kernel_, shrink(points), mass, Y, around)
        careful, near = np.flatnonzero(fits.flat), self._around(as_numpy(points))
        at, chosen = (None, careful) if X is None else (as_numpy(X)[careful], None)
        for rows, U, W in near.blocks(at, 4 * (points.shape[1] + Y.shape[1]), chosen):
            fits.value[careful[rows]] = self._local_fit(W, U, near.sites, Y)[0]
        return fits.value

    def _left_out(self, Y: np.ndarray) -> np.ndarray:
        """What each row of ``Y: (n, k)`` is predicted to be by the others."""
        if is_tensor(self.X_fit_):
            return as_numpy(self._tensor_fits(Y))
        if self._fused(len(Y)):
            moments = self._fits(Y).at()
            if not moments.flat.any():
                return moments.value
        return leave_one_out(self._neighbourhoods(), Y, self._local_fit)

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
            weight = self.sample_weight_ / self.sample_weight_.sum()

            def error(h: np.ndarray) -> float:
                if score is not None:
                    return score(h, False)[0]
                near = self._around(as_numpy(doubled(self.X_fit_)), h)
                predicted = leave_one_out(near, Y, self._local_fit)
                return float((weight @ ((Y - predicted) / scales) ** 2).mean())

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
        if is_tensor(self.X_fit_):  # there may be too many for the host
            return narrowed
        return log_search(score, narrowed, powers=(0,), lowest=-6, highest=6, starts=1, rtol=1e-7)[
            0
        ]

    def _selected(self, h: np.ndarray, curve: dict[str, np.ndarray], start: np.ndarray):
        self.selection_ = {
            "bandwidth": curve["factor"][:, None] * start,
            "score": curve["score"],
        }
        return h

    def _score(self, Y: np.ndarray, scales: np.ndarray, rows: np.ndarray) -> Any:
        """The leave-one-out error of some points with its slopes, or None where there are none."""
        X, mass, Y = as_numpy(doubled(self.X_fit_[rows])), self.sample_weight_[rows], Y[rows]
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
        own = feature_scales(as_numpy(doubled(self.X_fit_)), self.sample_weight_, ddof=0)
        single = np.bincount(owners, minlength=d) == 1
        if self.coding_ is not None:
            single &= np.array([kind == NUMERIC for kind in self.coding_.kinds])
        scales[single] = own[np.isin(owners, np.flatnonzero(single))]
        scales[scales == 0] = 1.0
        shrinkage = self.sample_weight_.sum() ** (-1 / (d + 4))
        return scales * shrinkage / np.sqrt(self.kernel_.variance(self.X_fit_.shape[1]))


class LocalRegressor(MultiOutputMixin, Regressor, Smoother):
    """Regression by a local fit, and the conditional density around it."""

    target_bandwidth: Any

    def _fit(self, X: Any, y: Any, sample_weight: Any, kernel: Callable[[int], SmoothingKernel]):
        self.coding_ = None
        if self._has_categories:
            X, y = self._points(X), _check_y(y, multi_output=True, y_numeric=True)
            check_consistent_length(X, y)
        elif is_tensor(X):
            X = self._tensors(X, y)
            y = _check_y(as_numpy(y), multi_output=True, y_numeric=True)
        else:
            X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        kept = self._keep(X, sample_weight)
        self.y_fit_ = np.asarray(y, dtype=np.float64)[kept]
        self.kernel_ = kernel(X.shape[1])
        scales = feature_scales(self._Y, self.sample_weight_, ddof=0)
        loo = self._settle(self._Y, np.where(scales > 0, scales, 1.0))
        self.loo_predictions_ = loo.reshape(self.y_fit_.shape)
        self.target_bandwidth_ = self._settle_target_bandwidth(self._Y - loo)
        for name in ("y_fit_", "loo_predictions_"):
            setattr(self, name, following(getattr(self, name), self.X_fit_))
        return self

    @over_blocks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The regression y(x) = E[t | x] at each row of ``X: (m, d)``.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Queries.
        return_std : bool, default=False
            Whether to return the standard deviation of t given x as well: that of
            `conditional_density`, in which the target bandwidth takes part.

        Returns
        -------
        y : ndarray of shape (m,) or (m, n_outputs)
        std : ndarray of the same shape, if asked for
        """
        X, Y = self._queries(X), self._Y
        if not return_std:
            return self._means(X, Y).reshape(len(X), *self.y_fit_.shape[1:])
        near, conditional = self._neighbourhoods(), self._conditional()
        V = near.sites
        mean = np.empty((len(X), Y.shape[1]))
        variance = np.empty_like(mean)
        for rows, U, W in near.blocks(X, floats_per_pair=4 * (X.shape[1] + Y.shape[1])):
            mean[rows], slope = self._local_fit(W, U, V, Y)
            residuals = carried_targets(U, V, Y, slope) - mean[rows][:, None]
            variance[rows] = np.einsum("mn,mnk->mk", W, residuals**2)
            variance[rows] += conditional.variance(U, V, W)
        shape = (len(X), *self.y_fit_.shape[1:])
        return mean.reshape(shape), np.sqrt(variance).reshape(shape)

    @over_blocks
    def standard_error(self, X: Any) -> np.ndarray:
        """Standard error of the regression at each row of ``X: (m, d)``, shaped as `predict`.

        √Σ l_n(x)² e_n² / a_n, with l_n the weights of the fit, e_n the leave-one-out residuals and
        a_n how often a point counts: the noise may differ from place to place. It says nothing of
        the bias.
        """
        X = self._queries(X)
        residuals = (self._Y - self.loo_predictions_.reshape(self._Y.shape)) ** 2
        if np.isnan(residuals).any():
            raise ValueError("a lone training point has no residual to judge the noise by")
        near = self._neighbourhoods()
        variance, careful = np.empty((len(X), residuals.shape[1])), np.arange(len(X))
        if self._fused(len(X)) and not self._is_linear:
            # The square of a Gaussian is one of √2 times the distance.
            U, V = near.bandwidth.shrink(X), near.V
            plain = LocalFits(V, near.mass, residuals[:, :0]).at(U)
            squared = LocalFits(np.sqrt(2) * V, near.mass, residuals).at(np.sqrt(2) * U)
            # Far from all points two large logarithms would leave their rounding.
            near_by = np.abs(plain.log_sum) < FAR
            share = np.exp(squared.log_sum[near_by] - 2 * plain.log_sum[near_by])
            variance[near_by] = share[:, None] * squared.value[near_by]
            careful = np.flatnonzero(~near_by)
        if len(careful):
            V = near.sites
            for rows, U, W in near.blocks(X[careful], floats_per_pair=4 * X.shape[1]):
                L = linear_weights(W, U, V) if self._is_linear else W
                variance[careful[rows]] = (L**2 / near.mass) @ residuals
        return np.sqrt(variance).reshape(len(X), *self.y_fit_.shape[1:])

    def confidence_band(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Pointwise band around the regression: `predict` plus and minus z standard errors.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Queries.
        level : float, default=0.95
            How often the band should hold E[t | x] at one x, the bias of smoothing apart.

        Returns
        -------
        lower, upper : ndarrays shaped as `predict`
        """
        if not 0 < level < 1:
            raise ValueError(f"level={level!r} must lie between 0 and 1")
        mean, half = self.predict(X), ndtri(0.5 + level / 2) * self.standard_error(X)
        return mean - half, mean + half

    @over_blocks
    def conditional_quantile(self, X: Any, q: Any = 0.5) -> np.ndarray:
        """Quantiles of t given x, of the density that `conditional_density` gives.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Queries.
        q : float or array-like of shape (k,), default=0.5
            Probabilities between 0 and 1.

        Returns
        -------
        t : ndarray of shape (m,), or (m, k) for several q
        """
        X, Y = self._queries(X), self._Y
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"q={q!r} must lie between 0 and 1")
        if Y.shape[1] > 1 or isinstance(self.kernel_, JointDensity):
            raise ValueError("conditional_quantile is for one output and a kernel, not joint=")
        self._refuse_no_spread()
        near, conditional = self._neighbourhoods(), self._conditional()
        assert isinstance(conditional, ProductConditional)
        V = near.sites
        out = np.empty((len(X), len(levels)))
        for rows, U, W in near.blocks(X, floats_per_pair=8 + 4 * X.shape[1]):
            slope = self._local_fit(W, U, V, Y)[1]
            targets = carried_targets(U, V, Y, slope)[:, :, 0]
            out[rows] = conditional.quantiles(W, targets, levels)
        return out if np.ndim(q) else out[:, 0]

    @over_blocks
    def conditional_density(self, X: Any, t: Any) -> np.ndarray:
        """p(t | x) from the joint Parzen density, at each row of X and each t.

        Its mean is `predict` and its standard deviation that of ``predict(X, return_std=True)``.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Queries.
        t : array-like of shape (q,), or (q, n_outputs) with several outputs
            Targets.

        Returns
        -------
        density : ndarray of shape (m, q)
        """
        X, Y = self._queries(X), self._Y
        T = np.asarray(t, dtype=np.float64)
        T = T.reshape(-1, 1) if T.ndim <= 1 and Y.shape[1] == 1 else T
        if T.ndim != 2 or T.shape[1] != Y.shape[1] or not np.isfinite(T).all():
            raise ValueError(
                f"t of shape {np.shape(t)} was found; expected finite targets of shape (q,) for "
                f"one output, (q, n_outputs) for more; this model has {Y.shape[1]}"
            )
        self._refuse_no_spread()
        near, conditional = self._neighbourhoods(), self._conditional()
        V = near.sites
        density = np.empty((len(X), len(T)))
        for rows, U, W in near.blocks(X, floats_per_pair=4 * (X.shape[1] + Y.shape[1])):
            slope = self._local_fit(W, U, V, Y)[1]
            targets = carried_targets(U, V, Y, slope)
            density[rows] = conditional.density(U, V, W, targets, T)
        return density

    def _refuse_no_spread(self) -> None:
        if np.min(self.target_bandwidth_) == 0:
            raise ValueError(
                "target_bandwidth='silverman' is zero, since the targets do not vary around the "
                "fit; give target_bandwidth as a number"
            )

    @property
    def _Y(self) -> np.ndarray:
        return self.y_fit_.reshape(len(self.y_fit_), -1)

    @property
    def _target_kernel(self) -> SmoothingKernel:
        users = isinstance(self.kernel_, FunctionKernel | JointDensity)
        return SMOOTHING_KERNELS["gaussian"] if users else self.kernel_

    def _conditional(self) -> ProductConditional | JointConditional:
        h = np.broadcast_to(self.target_bandwidth_, self._Y.shape[1])
        if isinstance(self.kernel_, JointDensity):
            return JointConditional(self.kernel_, Bandwidth(h))
        return ProductConditional(self._target_kernel, Bandwidth(h))

    def _settle_target_bandwidth(self, residuals: np.ndarray) -> float | np.ndarray:
        k = residuals.shape[1]
        if isinstance(self.target_bandwidth, str):
            if np.isnan(residuals).any():
                return simplest_form(np.zeros(k))
            variance = self._target_kernel.variance(k)
            h = normal_reference(residuals, "silverman", self.sample_weight_, variance)
            # Residuals that are nothing but rounding have no spread.
            h[h <= 8 * np.finfo(float).eps * np.abs(self._Y).max(axis=0)] = 0.0
            return simplest_form(h)
        given = resolve_bandwidth(self.target_bandwidth, k, "target_bandwidth")
        if given.is_matrix:
            raise ValueError("target_bandwidth is a matrix; give one number for each output")
        return simplest_form(given.root)
