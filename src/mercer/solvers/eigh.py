"""Kernel ridge by one eigendecomposition, which then serves every regulariser.

It also gives minimum-norm least squares and exact leave-one-out predictions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy.linalg import eigh, solve

from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge import EPS, ROUNDING_LIMIT, as_columns, relative_gradient


class Eigensystem:
    r"""The weighted Gram matrix ``S^{1/2} K S^{1/2} = V diag(values) V^T``, decomposed once.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, symmetric positive semidefinite up to rounding.
    sample_weight : ndarray of shape (n,), optional

    Attributes
    ----------
    values : ndarray of shape (n,)
        Eigenvalues, ascending, negative rounding clipped to zero.
    vectors : ndarray of shape (n, n)
    cutoff : float
        ``n * eps * values.max()``: eigenvalues below it are noise. A regulariser below it cannot
        tell them from zero, and the solution of minimum norm is returned.
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

    def __init__(self, K: np.ndarray, sample_weight: np.ndarray | None = None):
        clock = Monitor(tol=0.0)
        n = len(K)
        self.gram = np.asarray(K, dtype=np.float64)
        self.weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
        self._root = np.sqrt(self.weight)
        values, self.vectors = eigh(self.gram * np.outer(self._root, self._root))
        self.cutoff = n * EPS * float(np.max(np.abs(values), initial=0.0))
        self.values = np.maximum(values, 0.0)
        self.rank = int(np.sum(values > self.cutoff))
        self.seconds = clock.seconds

    def coefficients(self, Y: np.ndarray, lam: float | np.ndarray) -> np.ndarray:
        """Dual coefficients ``(n, t)`` for targets ``(n,)`` or ``(n, t)``."""
        Y, lams, _ = as_columns(Y, lam, None)
        spectral = self._filter(lams) * (self.vectors.T @ (self._root[:, None] * Y))
        return self._root[:, None] * (self.vectors @ spectral)

    def leave_one_out(self, Y: np.ndarray, lam: float) -> np.ndarray:
        r"""What each training point is predicted to be by the fit without it, ``(n, t)``.

        With ``G = (S^{1/2} K S^{1/2} + lam I)^{-1}`` and ``beta = G S^{1/2} y`` the left-out
        residual is ``beta_i / (sqrt(s_i) G_ii)``, exactly (Allen 1974). At ``lam = 0`` this is
        its limit, the minimum-norm fit without the point.
        """
        Y, _, _ = as_columns(Y, 0.0, None)
        B = self._root[:, None] * Y
        spectrum = self.vectors.T @ B
        inverse = self._filter(np.array([lam]))
        residual, leverage = self._residual(spectrum, inverse)
        if lam <= self.cutoff:
            # Divided by lam, G tends to the projector onto the null space wherever that is seen.
            null = (self.values <= self.cutoff).astype(float)[:, None]
            null_residual, null_leverage = self._residual(spectrum, null)
            seen = null_leverage[:, 0] > len(Y) * EPS
            residual = np.where(seen[:, None], null_residual, residual)
            leverage = np.where(seen[:, None], null_leverage, leverage)
        # A point of no weight is predicted alike with and without it.
        in_use = (self._root > 0) & (leverage[:, 0] > 0)
        prediction = self.gram @ self.coefficients(Y, lam)
        scale = self._root[in_use, None] * leverage[in_use]
        prediction[in_use] = Y[in_use] - residual[in_use] / scale
        return prediction

    def leave_folds_out(self, Y: np.ndarray, lam: float, folds: Iterable[np.ndarray]) -> np.ndarray:
        r"""What each point is predicted to be by the fit without its fold, ``(n, t)``.

        Without the points T the coefficients are ``beta - G_{:T} G_{TT}^{-1} beta_T``, exactly,
        with G and ``beta`` as in `leave_one_out`. Every point belongs to one fold.
        """
        Y, _, _ = as_columns(Y, 0.0, None)
        prediction = np.empty_like(Y)
        everyone = np.arange(len(Y))
        smooth = self._filter(np.array([lam]))
        beta = self.vectors @ (smooth * (self.vectors.T @ (self._root[:, None] * Y)))
        for fold in folds:
            if lam <= self.cutoff:
                # The cut-off of the whole matrix is not that of a part of it.
                kept = np.setdiff1d(everyone, fold)
                part = Eigensystem(self.gram[np.ix_(kept, kept)], self.weight[kept])
                prediction[fold] = self.gram[np.ix_(fold, kept)] @ part.coefficients(Y[kept], lam)
                continue
            G = self.vectors @ (smooth * self.vectors[fold].T)
            without = beta - G @ solve(G[fold], beta[fold], assume_a="pos")
            without[fold] = 0.0
            prediction[fold] = self.gram[fold] @ (self._root[:, None] * without)
        return prediction

    def _filter(self, lam: np.ndarray) -> np.ndarray:
        """``1 / (value + lam)``, or zero where both are below the cut-off: (n, t)."""
        values = self.values[:, None]
        seen = (values > self.cutoff) | (lam > self.cutoff)
        return np.divide(1.0, values + lam, out=np.zeros(seen.shape), where=seen)

    def _residual(self, spectrum: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Apply ``V diag(weights) V^T`` to the targets, and take its diagonal."""
        return self.vectors @ (weights * spectrum), self.vectors**2 @ weights


def solve_eigh(system: Eigensystem, Y: np.ndarray, lam: float | np.ndarray) -> Result:
    """Solve weighted kernel ridge by an eigendecomposition, of minimum norm where it is free.

    Parameters
    ----------
    system : Eigensystem
        Decomposed once, good for any number of regularisers.
    Y : ndarray of shape (n,) or (n, t)
    lam : float or ndarray of shape (t,)
        Regulariser, zero allowed.

    Returns
    -------
    Result
        ``value`` is ``alpha`` of shape (n, t); ``gap`` is `relative_gradient`.

    Examples
    --------
    >>> import numpy as np
    >>> solve_eigh(Eigensystem(np.eye(2)), np.array([1.0, 2.0]), lam=1.0).value.ravel()
    array([0.5, 1. ])

    References
    ----------
    Rifkin and Lippert (2007), "Notes on regularized least squares".
    """
    monitor = Monitor(tol=ROUNDING_LIMIT)
    Y, lams, weight = as_columns(Y, lam, system.weight)
    alpha = system.coefficients(Y, lams)
    gap = relative_gradient(system.gram, alpha, Y, lams, weight)
    monitor.record(gap)
    status = Status.EXACT if gap <= ROUNDING_LIMIT else Status.STALLED
    result = monitor.result(alpha, gap, status=status, method="eigh")
    return replace(result, seconds=result.seconds + system.seconds)
