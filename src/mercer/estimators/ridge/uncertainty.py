"""What kernel ridge regression knows of its errors: leave-one-out, and standard deviations.

With weights S and ``G = S^{1/2} (S^{1/2} K S^{1/2} + alpha I)^{-1} S^{1/2}`` the coefficients are
``G y``. With an intercept G is less what it takes to make them sum to zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.arrays import NUMPY, as_dense, backend, n_rows, row_blocks, take_rows, to_float64
from mercer.estimators.inputs import is_precomputed, validate_query
from mercer.estimators.intervals import PredictionIntervals, jackknife_plus
from mercer.operators import expansion, gram

# Points whose smoother is held as a matrix.
MOST_POINTS = 5000


class RidgeUncertainty(PredictionIntervals):
    """Exact intervals and standard deviations of a fit over all its training points."""

    def _leave_one_out(self, X: Any, coverage: float) -> np.ndarray | None:
        if self._why_inexact():
            return None
        model: Any = self
        n, alphas = n_rows(model.X_fit_), self._regularisers_of_targets()
        coef, weight = model.dual_coef_.reshape(n, -1), self._weights()
        centre = np.asarray(model.predict(X), dtype=float).reshape(-1, coef.shape[1])
        X = validate_query(self, X)
        found = np.empty((2, *centre.shape))
        for t, alpha in enumerate(alphas):
            try:
                P, level = self._smoother(alpha)
            except LinAlgError:
                return None
            own = P.diagonal()
            used = (weight > 0) & (own > 0)
            residual = np.zeros(n)
            residual[used] = coef[used, t] / own[used]
            for rows in row_blocks(len(centre), 64 * n):
                some = take_rows(X, rows)
                shift = expansion(model.kernel_, some, model.X_fit_, P * residual)
                moved = np.asarray(shift, dtype=float) + level * residual
                without = centre[rows, t][:, None] - moved
                weights = np.where(used, weight, 0.0)
                found[:, rows, t] = jackknife_plus(without, np.abs(residual), weights, coverage)
        return found[..., 0] if model.dual_coef_.ndim == 1 else found

    def _deviations(self, X: Any, noise: float | None) -> np.ndarray:
        """Of new targets: (m,) or (m, t), with the variance of errors of weight one.

        The model is that of a Gaussian process with the covariance (noise / alpha) k. If the noise
        is None, it is the one of maximum likelihood.
        """
        if reason := self._why_inexact():
            raise ValueError(
                f"return_std needs the smoother of all training points, and {reason}; use "
                "GaussianProcessRegressor, or predict_interval"
            )
        model: Any = self
        X = validate_query(self, X)
        coef, weight = model.dual_coef_.reshape(n_rows(model.X_fit_), -1), self._weights()
        used = weight > 0
        columns = []
        for t, alpha in enumerate(self._regularisers_of_targets()):
            variance = noise
            if variance is None:
                a = coef[:, t]
                energy = a @ (self._gram() @ a) + alpha * np.sum(a[used] ** 2 / weight[used])
                variance = alpha * energy / max(int(used.sum()) - model.fit_intercept, 1)
            P, level = self._smoother(alpha)
            spread = self._spread(X, P, level, alpha)
            columns.append(np.sqrt(variance * (np.maximum(spread, 0.0) / alpha + 1)))
        found = np.stack(columns, axis=1)
        return found[:, 0] if model.dual_coef_.ndim == 1 else found

    def _spread(self, X: Any, P: np.ndarray, level: np.ndarray, alpha: float) -> np.ndarray:
        """k(x, x) less the part that training points and intercept explain: (m,)."""
        model: Any = self
        points, weight = model.X_fit_, self._weights()
        found = np.array(model.kernel_.diag(to_float64(X)), dtype=float)
        used = weight > 0
        for rows in row_blocks(n_rows(X), 64 * n_rows(points)):
            some = to_float64(take_rows(X, rows))
            k = np.asarray(gram(model.kernel_, some, to_float64(points)).dense(), dtype=float)
            found[rows] -= np.einsum("ij,ij->i", k @ P, k) + 2 * (k @ level)
            if model.fit_intercept:  # the variance of the level alone
                found[rows] += self._level_variance(level, alpha, used, weight)
        return found

    def _level_variance(
        self, level: np.ndarray, alpha: float, used: np.ndarray, weight: np.ndarray
    ) -> float:
        """1 / (1' G 1), as level' (K + alpha S^-1) level."""
        whole = level @ (self._gram() @ level)
        return float(whole + alpha * np.sum(level[used] ** 2 / weight[used]))

    def _smoother(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """P and c with coefficients P y and the intercept c'y: (n, n) and (n,)."""
        model: Any = self
        root = np.sqrt(self._weights())
        A = root[:, None] * self._gram() * root
        A[np.diag_indices_from(A)] += alpha
        inverse = cho_solve(cho_factor(A, overwrite_a=True), np.diag(root))
        G = root[:, None] * inverse
        G = 0.5 * (G + G.T)
        if not model.fit_intercept:
            return G, np.zeros(len(G))
        ones = G.sum(axis=0)
        level = ones / ones.sum()
        return G - np.outer(ones, level), level

    def _gram(self) -> np.ndarray:
        model: Any = self
        if is_precomputed(model.kernel_):
            return np.asarray(as_dense(model.X_fit_), dtype=float)
        return np.asarray(gram(model.kernel_, to_float64(model.X_fit_)).dense(), dtype=float)

    def _weights(self) -> np.ndarray:
        model: Any = self
        given = getattr(model, "_weight", None)
        return np.ones(n_rows(model.X_fit_)) if given is None else given

    def _regularisers_of_targets(self) -> np.ndarray:
        model: Any = self
        t = 1 if model.dual_coef_.ndim == 1 else model.dual_coef_.shape[1]
        alpha = getattr(model, "alpha_", None)
        given = np.ravel(model.alpha if alpha is None else alpha)
        return np.broadcast_to(given, (t,)).astype(float)

    def _why_inexact(self) -> str:
        """Why there is no smoother of all training points; empty where there is one."""
        model: Any = self
        if backend(model.X_fit_) is not NUMPY:
            return "the model was fitted on tensors"
        if hasattr(model, "moments_") or model.result_.method.startswith(("nystrom", "gradient")):
            return f"the fit was by {model.result_.method.partition(':')[0]}"
        if n_rows(model.X_fit_) > MOST_POINTS:
            return f"there are more than {MOST_POINTS} of them"
        if not np.all(self._regularisers_of_targets() > 0):
            return "alpha is zero"
        if model.kernel_.validity.status == "indefinite" or (
            is_precomputed(model.kernel_) and model.indefinite != "error"
        ):
            return "the Gram matrix was corrected"
        return ""
