"""What kernel smoothers share: weights, leave-one-out bandwidths, local fits, p(t | x)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mercer.estimators.bandwidths import (
    Bandwidth,
    feature_scales,
    loo_bandwidth,
    normal_reference,
    resolve_bandwidth,
    simplest_form,
)
from mercer.estimators.conditionals import JointConditional, ProductConditional
from mercer.estimators.neighbourhoods import (
    LocalFit,
    Neighbourhoods,
    carried_targets,
    leave_one_out,
    local_constant,
)
from mercer.kernels.densities import FunctionKernel, JointDensity
from mercer.kernels.smoothing import SMOOTHING_KERNELS, SmoothingKernel

BANDWIDTH_CONSTRAINTS = [
    Interval(Real, 0, None, closed="neither"),
    StrOptions({"loo", "loo_per_feature"}),
    "array-like",
]
TARGET_BANDWIDTH_CONSTRAINTS = [
    Interval(Real, 0, None, closed="neither"),
    StrOptions({"silverman"}),
    "array-like",
]
KERNEL_CONSTRAINTS = [StrOptions(set(SMOOTHING_KERNELS)), callable, SmoothingKernel]


class Smoother(BaseEstimator):
    """What the three smoothers share: training points, their weights, and the bandwidth."""

    _local_fit: LocalFit = staticmethod(local_constant)
    bandwidth: Any
    kernel_: SmoothingKernel
    n_features_in_: int

    def weights(self, X: Any) -> np.ndarray:
        """w_n(x) for each row of ``X: (m, d)`` and training point, (m, n); each row sums to one."""
        X = self._queries(X)
        return np.concatenate([W for _, _, W in self._neighbourhoods().blocks(X)])

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _keep(self, X: np.ndarray, sample_weight: Any) -> np.ndarray:
        """Store the points that have weight; returns which they are."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = weight > 0
        self.X_fit_ = X[kept]
        self.sample_weight_ = weight[kept]
        return kept

    def _neighbourhoods(self, bandwidth: Any = None) -> Neighbourhoods:
        bandwidth = self.bandwidth_ if bandwidth is None else bandwidth
        scaling = resolve_bandwidth(bandwidth, self.n_features_in_)
        return Neighbourhoods(self.kernel_, scaling, self.X_fit_, self.sample_weight_)

    def _settle(self, Y: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Set ``bandwidth_``; returns what the others predict of each row of ``Y: (n, k)``.

        Leave-one-out errors are divided by ``scales: (k,)`` and squared.
        """
        weight = self.sample_weight_ / self.sample_weight_.sum()

        def predicted(h: Any) -> np.ndarray:
            return leave_one_out(self._neighbourhoods(h), Y, self._local_fit)

        def error(h: np.ndarray) -> float:
            return float((weight @ ((Y - predicted(h)) / scales) ** 2).mean())

        if isinstance(self.bandwidth, str):
            h = self._start()
            if len(Y) > 1:
                h = loo_bandwidth(error, h, per_feature=self.bandwidth == "loo_per_feature")
            self.bandwidth_ = simplest_form(h)
        else:
            given = resolve_bandwidth(self.bandwidth, self.n_features_in_)
            if given.is_matrix and not self.kernel_.radial:
                raise ValueError(
                    f"bandwidth is a matrix, which turns the axes that {self.kernel_!r} depends "
                    "on; give one bandwidth for each feature, or use a radial kernel"
                )
            one = isinstance(self.bandwidth, Real)
            self.bandwidth_ = float(self.bandwidth) if one else np.array(self.bandwidth, float)
        return predicted(self.bandwidth_)

    def _start(self) -> np.ndarray:
        """Bandwidths on the scale of the features, where the search begins."""
        d = self.n_features_in_
        scales = feature_scales(self.X_fit_, self.sample_weight_, ddof=0)
        scales[scales == 0] = 1.0
        shrinkage = self.sample_weight_.sum() ** (-1 / (d + 4))
        return scales * shrinkage / np.sqrt(self.kernel_.variance(d))


class LocalRegressor(MultiOutputMixin, RegressorMixin, Smoother):
    """Regression by a local fit, and the conditional density around it."""

    target_bandwidth: Any

    def _fit(self, X: Any, y: Any, sample_weight: Any, kernel: Callable[[int], SmoothingKernel]):
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        kept = self._keep(X, sample_weight)
        self.y_fit_ = np.asarray(y, dtype=np.float64)[kept]
        self.kernel_ = kernel(X.shape[1])
        scales = feature_scales(self._Y, self.sample_weight_, ddof=0)
        loo = self._settle(self._Y, np.where(scales > 0, scales, 1.0))
        self.loo_predictions_ = loo.reshape(self.y_fit_.shape)
        self.target_bandwidth_ = self._settle_target_bandwidth(self._Y - loo)
        return self

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
        near, conditional = self._neighbourhoods(), self._conditional()
        V = near.V
        mean = np.empty((len(X), Y.shape[1]))
        variance = np.empty_like(mean)
        for rows, U, W in near.blocks(X, floats_per_pair=4 * (X.shape[1] + Y.shape[1])):
            mean[rows], slope = self._local_fit(W, U, V, Y)
            if return_std:
                residuals = carried_targets(U, V, Y, slope) - mean[rows][:, None]
                variance[rows] = np.einsum("mn,mnk->mk", W, residuals**2)
                variance[rows] += conditional.variance(U, V, W)
        shape = (len(X), *self.y_fit_.shape[1:])
        if return_std:
            return mean.reshape(shape), np.sqrt(variance).reshape(shape)
        return mean.reshape(shape)

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
        if np.min(self.target_bandwidth_) == 0:
            raise ValueError(
                "target_bandwidth='silverman' is zero, since the targets do not vary around the "
                "fit; give target_bandwidth as a number"
            )
        near, conditional = self._neighbourhoods(), self._conditional()
        V = near.V
        density = np.empty((len(X), len(T)))
        for rows, U, W in near.blocks(X, floats_per_pair=4 * (X.shape[1] + Y.shape[1])):
            slope = self._local_fit(W, U, V, Y)[1]
            targets = carried_targets(U, V, Y, slope)
            density[rows] = conditional.density(U, V, W, targets, T)
        return density

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
