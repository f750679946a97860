"""Regression by local fits, with its standard errors and the density of targets p(t | x)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import MultiOutputMixin

from mercer._sklearn import Interval, StrOptions, check_y
from mercer.arrays import DROP, refuse_masked, row_blocks, to_cpu, to_device_of
from mercer.arrays.remote import over_blocks
from mercer.estimators.fitting import warn_the_caller
from mercer.estimators.labels import refuse_words
from mercer.estimators.scores import Regressor
from mercer.estimators.smoothing.bandwidths import (
    Bandwidth,
    feature_scales,
    normal_reference,
    resolve_bandwidth,
    simplest_form,
)
from mercer.estimators.smoothing.conditionals import JointConditional, ProductConditional
from mercer.estimators.smoothing.engine import Smoother
from mercer.estimators.smoothing.local_estimates import is_fused
from mercer.estimators.smoothing.local_fits import LocalFits
from mercer.estimators.smoothing.neighbourhoods import carried_targets, linear_weights
from mercer.kernels.smoothing.densities import FunctionKernel, JointDensity
from mercer.kernels.smoothing.window import SmoothingKernel
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS

TARGET_BANDWIDTH_CONSTRAINTS = [
    Interval(Real, 0, None, closed="neither"),
    StrOptions({"silverman"}),
    "array-like",
]
# Logarithms beyond this are not subtracted from each other.
FAR = 1e4
# Weight relative to that of a point at the query itself, below which no point is near it.
OUTSIDE = 0.01


class LocalRegressor(MultiOutputMixin, Regressor, Smoother):
    """Regression by a local fit, and the conditional density around it."""

    target_bandwidth: Any

    def _fit(self, X: Any, y: Any, sample_weight: Any, kernel: Callable[[int], SmoothingKernel]):
        refuse_words(self, y)
        X = self._training_points(X, y)
        y = check_y(to_cpu(y), multi_output=True, y_numeric=True)
        kept = self._store_points(X, sample_weight)
        self.y_fit_ = np.asarray(y, dtype=np.float64)[kept]
        self.kernel_ = kernel(X.shape[1])
        scales = feature_scales(self._Y, self.sample_weight_, ddof=0)
        loo = self._settle(self._Y, np.where(scales > 0, scales, 1.0))
        self.loo_predictions_ = loo.reshape(self.y_fit_.shape)
        self.target_bandwidth_ = self._settle_target_bandwidth(self._Y - loo)
        for name in ("y_fit_", "loo_predictions_"):
            setattr(self, name, to_device_of(getattr(self, name), self.X_fit_))
        return self

    @over_blocks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The regression y(x) = E[t | x] at each row of ``X: (m, d)``.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Queries.
        return_std : bool, default=False
            Whether to also return the standard deviation of t given x: that of
            `conditional_density`, which depends on the target bandwidth.

        Returns
        -------
        y : ndarray of shape (m,) or (m, n_outputs)
        std : ndarray of the same shape, with ``return_std``
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

        √Σ l_n(x)² e_n² / a_n, with the weights l_n of the fit, the leave-one-out residuals e_n and
        the repetitions a_n of each point. The variance of the noise may depend on x. The bias is
        not included. NaN, with a warning, outside the data: where each training point has less
        than 1 % of the weight that it would have at x itself.
        """
        X = self._queries(X)
        error, outside = self._standard_error(X), self._are_outside(X)
        if outside.any():
            error[outside] = np.nan
            warn_the_caller(
                f"{outside.sum()} of {len(X)} queries are outside the training data, at the scale "
                "of the bandwidth; their standard error is not known and is NaN",
                UserWarning,
            )
        return error

    def _are_outside(self, X: np.ndarray) -> np.ndarray:
        """Which rows of ``X: (m, d)`` are outside the data, at the scale of the bandwidth."""
        near = self._neighbourhoods()
        V, U = near.V, near.bandwidth.shrink(X)
        floor = near.kernel.log_pairs(V[:1], V[:1])[0, 0] + np.log(OUTSIDE)
        found = np.empty(len(U), dtype=bool)
        for rows in row_blocks(len(U), len(V) * near.kernel.bytes_per_pair(V.shape[1])):
            found[rows] = near.kernel.log_pairs(U[rows], V).max(axis=1) < floor
        return found

    def _standard_error(self, X: np.ndarray) -> np.ndarray:
        residuals = (self._Y - self.loo_predictions_.reshape(self._Y.shape)) ** 2
        if np.isnan(residuals).any():
            raise ValueError("a lone training point has no residual to judge the noise by")
        near = self._neighbourhoods()
        variance, careful = np.empty((len(X), residuals.shape[1])), np.arange(len(X))
        if is_fused(self, len(X)) and not self._is_linear:
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
        """Pointwise band for the smoothed curve: `predict` plus and minus z standard errors.

        It covers the mean of the estimate, E[y(x)]. At a bend that curve differs from E[t | x] by
        the bias of smoothing, and the band covers E[t | x] less often than ``level``. NaN, with a
        warning, outside the data.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Queries.
        level : float, default=0.95
            Coverage of the smoothed curve at a single x.

        Returns
        -------
        lower, upper : ndarrays with the shape of `predict`
        """
        if not 0 < level < 1:
            raise ValueError(f"level={level!r} must lie between 0 and 1")
        mean, half = self.predict(X), ndtri(0.5 + level / 2) * self.standard_error(X)
        return mean - half, mean + half

    @over_blocks
    def conditional_quantile(self, X: Any, q: Any = 0.5) -> np.ndarray:
        """Quantiles of t given x, those of `conditional_density`.

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

        Its mean and standard deviation are those of ``predict(X, return_std=True)``.

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
        refuse_masked(t, "t", DROP)
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
