"""The eigendecomposition of a Gram matrix, which serves every regulariser."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mercer.arrays import as_numpy, backend, like, namespace, product
from mercer.solvers.result import Monitor
from mercer.solvers.ridge_problem import EPS, as_columns, weighted_mean


class Eigensystem:
    r"""The weighted Gram matrix ``S^{1/2} K S^{1/2} = V diag(values) V^T``, decomposed once.

    Parameters
    ----------
    K : ndarray or tensor of shape (n, n)
        Gram matrix, symmetric positive semidefinite up to rounding.
    sample_weight : ndarray of shape (n,), optional
    fit_intercept : bool
        Whether an intercept is fitted, which confines everything to the n - 1 dimensions
        orthogonal to ``S^{1/2} 1``.

    Attributes
    ----------
    values : ndarray of shape (n,) or (n - 1,)
        Eigenvalues, ascending, negative rounding clipped to zero.
    vectors : ndarray or tensor of shape (n, n) or (n, n - 1)
    cutoff : float
        ``n * eps * values.max()``: eigenvalues below it are noise. A regulariser below it cannot
        distinguish them from zero, and the solution of minimum norm is returned.
    rank : int
        Number of eigenvalues above the cut-off.
    seconds : float
        Time the decomposition took.

    Examples
    --------
    >>> import numpy as np
    >>> system = Eigensystem(np.ones((2, 2)))
    >>> system.coefficients(np.array([1.0, 3.0]), 0.0).ravel()
    array([1., 1.])
    """

    def __init__(
        self, K: Any, sample_weight: np.ndarray | None = None, fit_intercept: bool = False
    ):
        clock = Monitor(tol=0.0)
        n = len(K)
        self.gram: Any = backend(K).asarray(K, np.float64)
        self.weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
        self._root = np.sqrt(self.weight)
        self.fit_intercept = fit_intercept and bool(self.weight.any())
        root = like(self._root, self.gram)
        values, self.vectors = self._decomposed(self.gram * namespace(root).outer(root, root), root)
        self.cutoff = n * EPS * float(np.max(np.abs(values), initial=0.0))
        self.values = np.maximum(values, 0.0)
        self.rank = int(np.sum(values > self.cutoff))
        self.seconds = clock.seconds

    def _decomposed(self, A: Any, root: Any) -> tuple[np.ndarray, Any]:
        """Eigenvalues and vectors of A, or of its part orthogonal to the roots of the weights."""
        if not self.fit_intercept:
            return backend(A).eigh(A, overwrite=True)
        # A reflection that takes the first axis to the roots; the others span what is orthogonal.
        xp = namespace(A)
        v = root / xp.linalg.norm(root)
        v[0] += 1.0
        v /= xp.linalg.norm(v)
        image = A @ v
        cross = xp.outer(v, image - (v @ image) * v)
        A -= 2.0 * (cross + cross.T)
        vectors = xp.zeros_like(A[:, 1:])
        values = np.empty(0)
        if len(A) > 1:
            values, vectors[1:] = backend(A).eigh(A[1:, 1:])
        return values, vectors - 2.0 * xp.outer(v, v @ vectors)

    def coefficients(self, Y: np.ndarray, lam: float | np.ndarray) -> np.ndarray:
        """Dual coefficients ``(n, t)`` for targets ``(n,)`` or ``(n, t)``."""
        Y, lams, _ = as_columns(Y, lam, None)
        spectral = self._filter(lams) * product(self.vectors.T, self._root[:, None] * Y)
        return self._root[:, None] * product(self.vectors, spectral)

    def intercept(self, Y: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """What goes with the coefficients ``(n, t)``, shape (t,); zero without one."""
        if not self.fit_intercept:
            return np.zeros(alpha.shape[1])
        return weighted_mean(Y.reshape(alpha.shape) - product(self.gram, alpha), self.weight)

    def leave_one_out(self, Y: np.ndarray, lam: float) -> np.ndarray:
        """What each training point is predicted to be by the fit without it, ``(n, t)``."""
        return self.leave_one_out_path(Y, np.array([lam]))[0]

    def leave_one_out_path(self, Y: np.ndarray, lams: np.ndarray) -> np.ndarray:
        r"""What each point is predicted to be by the fit without it, for every lam: ``(a, n, t)``.

        With ``G = (S^{1/2} K S^{1/2} + lam I)^{-1}`` and ``beta = G S^{1/2} y`` the left-out
        residual is ``beta_i / (sqrt(s_i) G_ii)``, exactly (Allen 1974); with an intercept G is the
        inverse on the vectors orthogonal to ``S^{1/2} 1``. At ``lam = 0`` this is its limit, the
        minimum-norm fit without the point.
        """
        Y, _, _ = as_columns(Y, 0.0, None)
        squares = self.vectors**2
        spectrum = product(self.vectors.T, self._root[:, None] * Y)
        residuals, leverages = self._residuals(spectrum, squares, self._filter(lams))
        if np.any(lams <= self.cutoff):
            # Divided by lam, G tends to the projector onto the null space wherever that is seen.
            null = (self.values <= self.cutoff).astype(float)[:, None]
            null_residual, null_leverage = self._residuals(spectrum, squares, null)
            seen = null_leverage[:, 0] > len(Y) * EPS
            for j in np.flatnonzero(lams <= self.cutoff):
                residuals[j][seen] = null_residual[0][seen]
                leverages[seen, j] = null_leverage[seen, 0]
        predictions = np.empty_like(residuals)
        for lam, residual, leverage, prediction in zip(
            lams, residuals, leverages.T, predictions, strict=True
        ):
            in_use = (self._root > 0) & (leverage > 0)
            scale = self._root[in_use] * leverage[in_use]
            prediction[in_use] = Y[in_use] - residual[in_use] / scale[:, None]
            if not in_use.all():
                # A point of no weight is predicted alike with and without it.
                alpha = self.coefficients(Y, lam)
                fitted = product(self.gram[~in_use], alpha) + self.intercept(Y, alpha)
                prediction[~in_use] = fitted
        return predictions

    def generalised(self, Y: np.ndarray, lams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Generalised cross-validation for every lam: criteria (a, t), predictions (a, n, t).

        ``n ||beta||^2 / (tr G)^2`` with G and ``beta`` as above is the mean squared left-out
        residual if all points had the mean of the ``G_ii``; points of no weight do not count.
        """
        Y, _, _ = as_columns(Y, 0.0, None)
        spectrum = product(self.vectors.T, self._root[:, None] * Y)
        in_use = self._root > 0
        n = int(in_use.sum())
        criteria, predictions = [], []
        for lam in lams:
            weights = self._filter(np.array([lam]))
            if lam <= self.cutoff and np.any(self.values <= self.cutoff):
                weights = (self.values <= self.cutoff).astype(float)[:, None]
            idle = (len(Y) - n) * float(weights[0, 0]) if n < len(Y) else 0.0
            trace = max(float(weights.sum()) - idle, EPS)
            beta = product(self.vectors, weights * spectrum)
            criteria.append(n * np.einsum("ij,ij->j", beta, beta) / trace**2)
            alpha = self.coefficients(Y, lam)
            prediction = product(self.gram, alpha) + self.intercept(Y, alpha)
            left_out = beta[in_use] / self._root[in_use, None] * (n / trace)
            prediction[in_use] = Y[in_use] - left_out
            predictions.append(prediction)
        return np.array(criteria), np.array(predictions)

    def leave_folds_out(self, Y: np.ndarray, lam: float, folds: Iterable[np.ndarray]) -> np.ndarray:
        r"""What each point is predicted to be by the fit without its fold, ``(n, t)``.

        Without the points T the coefficients are ``beta - G_{:T} G_{TT}^{-1} beta_T``, exactly,
        with G and ``beta`` as in `leave_one_out`. Every point belongs to one fold.
        """
        Y, _, _ = as_columns(Y, 0.0, None)
        prediction = np.empty_like(Y)
        everyone = np.arange(len(Y))
        smooth = self._filter(np.array([lam]))
        beta = product(self.vectors, smooth * product(self.vectors.T, self._root[:, None] * Y))
        for fold in folds:
            if lam <= self.cutoff:
                # The cut-off of the whole matrix is not that of a part of it.
                kept = np.setdiff1d(everyone, fold)
                part = Eigensystem(
                    self.gram[np.ix_(kept, kept)], self.weight[kept], self.fit_intercept
                )
                alpha = part.coefficients(Y[kept], lam)
                level = part.intercept(Y[kept], alpha)
                prediction[fold] = product(self.gram[np.ix_(fold, kept)], alpha) + level
                continue
            G = self.vectors @ (like(smooth, self.vectors) * self.vectors[fold].T)
            without = beta - product(G, _solved(G[fold], beta[fold]))
            without[fold] = 0.0
            alpha = self._root[:, None] * without
            level = np.zeros(Y.shape[1])
            if self.fit_intercept:
                others = self.weight.copy()
                others[fold] = 0.0
                level = weighted_mean(Y - product(self.gram, alpha), others)
            prediction[fold] = product(self.gram[fold], alpha) + level
        return prediction

    def _filter(self, lam: np.ndarray) -> np.ndarray:
        """``1 / (value + lam)``, or zero where both are below the cut-off: (n, t)."""
        values = self.values[:, None]
        seen = (values > self.cutoff) | (lam > self.cutoff)
        return np.divide(1.0, values + lam, out=np.zeros(seen.shape), where=seen)

    def _residuals(
        self, spectrum: np.ndarray, squares: Any, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """``V diag(weights_j) V^T`` applied to the targets, (a, n, t), and its diagonal, (n, a)."""
        applied = [product(self.vectors, weights * column[:, None]) for column in spectrum.T]
        return np.stack(applied, axis=2).transpose(1, 0, 2), product(squares, weights)


def _solved(A: Any, B: np.ndarray) -> np.ndarray:
    """A⁻¹ B for a positive definite A."""
    return as_numpy(backend(A).cholesky(backend(A).copy(A))(like(B, A)))
