"""Ridge in an explicit feature space, for kernels with a finite map of few features."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError

from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.linear.cholesky import shifted_solve
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import (
    ROUNDING_LIMIT,
    as_columns,
    gradient_ratio,
    is_negligible,
    rounding_advice,
    weighted_mean,
)


class PrimalSolution(NamedTuple):
    """Weights in feature space, the dual coefficients behind them, and what was determined.

    Attributes
    ----------
    coef : ndarray of shape (D, t)
    dual_coef : ndarray of shape (n, t)
    rank : int
        Numerical rank of the equations where an eigenvalue cut-off was needed, else min(n, D).
    intercept : ndarray of shape (t,)
    """

    coef: np.ndarray
    dual_coef: np.ndarray
    rank: int
    intercept: np.ndarray


def solve_primal(
    Phi: Any,
    Y: np.ndarray,
    lam: float | np.ndarray,
    sample_weight: np.ndarray | None = None,
    *,
    fit_intercept: bool = False,
) -> Result:
    r"""Solve ``(Phi^T S Phi + lam I) w = Phi^T S y``, from the smaller of D and n equations.

    With more features than points the same ``w`` is ``Phi^T alpha`` from the n dual equations.
    A negligible ``lam`` gives minimum-norm least squares by an eigenvalue cut-off.

    Parameters
    ----------
    Phi : ndarray or CSR matrix of shape (n, D)
        The mapped training points.
    Y : ndarray of shape (n,) or (n, t)
    lam : float or ndarray of shape (t,)
        Regulariser, zero allowed.
    sample_weight : ndarray of shape (n,), optional
    fit_intercept : bool
        Whether features and targets are centred on their weighted means.

    Returns
    -------
    Result
        ``value`` is a `PrimalSolution`; ``gap`` is ``||grad J(w)|| / ||grad J(0)||``, the worst
        over targets.

    Examples
    --------
    >>> import numpy as np
    >>> Phi = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> solve_primal(Phi, np.array([1.0, 2.0, 3.0]), lam=0.0).value.coef.ravel().round(6)
    array([1., 1.])

    References
    ----------
    Hoerl and Kennard (1970), "Ridge regression: biased estimation for nonorthogonal problems".
    """
    monitor = Monitor(tol=ROUNDING_LIMIT)
    Y, lams, weight = as_columns(Y, lam, sample_weight)
    n, D = Phi.shape
    mean = weighted_mean(Y, weight) if fit_intercept else np.zeros(Y.shape[1])
    Z = _Features(Phi, weight, fit_intercept)
    B = Z.root * (Y - mean)
    start = Z.pull(B)
    if n >= D:
        coef, beta, rank = _from_features(Z, B, lams)
    else:
        beta, rank = _solve(Z.outer(), B, lams)
        coef = Z.pull(beta)
    gradient = Z.pull(B - Z.apply(coef)) - lams * coef
    gap = gradient_ratio(np.sum(gradient**2, axis=0), np.sum(start**2, axis=0))
    monitor.record(gap)
    status = Status.EXACT if gap <= ROUNDING_LIMIT else Status.STALLED
    solution = PrimalSolution(coef, Z.root * beta, rank, mean - Z.mean @ coef)
    result = monitor.result(solution, gap, status=status, method="primal")
    return result.advised(rounding_advice(Z.squares(), lams))


class _Features:
    """``Z = S^{1/2} (Phi - 1 mean^T)``, where sparse features stay sparse.

    Attributes
    ----------
    root : ndarray of shape (n, 1)
    mean : ndarray of shape (D,)
        The weighted mean of the features, zero without an intercept.
    """

    def __init__(self, Phi: Any, weight: np.ndarray, fit_intercept: bool):
        self.root = np.sqrt(weight)[:, None]
        self.mean = np.zeros(Phi.shape[1])
        if fit_intercept and weight.any():
            self.mean = np.ravel(weight @ Phi) / weight.sum()
        # What is still to be subtracted: nothing of dense features, which are centred at once.
        self._shift = self.mean
        if sparse.issparse(Phi):
            self._scaled = Phi.multiply(self.root).tocsr()
        else:
            self._scaled, self._shift = (Phi - self.mean) * self.root, np.zeros_like(self.mean)

    def apply(self, coef: np.ndarray) -> np.ndarray:
        """``Z coef``, (n, t)."""
        return self._scaled @ coef - self.root * (self._shift @ coef)

    def pull(self, B: np.ndarray) -> np.ndarray:
        """``Z^T B``, (D, t)."""
        return self._scaled.T @ B - np.outer(self._shift, self.root[:, 0] @ B)

    def squares(self) -> float:
        """The trace of ``Z^T Z``."""
        Z = self._scaled.data if sparse.issparse(self._scaled) else self._scaled
        total = float(np.sum(Z**2))
        return total - float(np.sum(self.root**2)) * float(self._shift @ self._shift)

    def normal(self) -> np.ndarray:
        """``Z^T Z``, (D, D)."""
        H = _dense(self._scaled.T @ self._scaled)
        return H - float(np.sum(self.root**2)) * np.outer(self._shift, self._shift)

    def outer(self) -> np.ndarray:
        """``Z Z^T``, (n, n)."""
        K, r = _dense(self._scaled @ self._scaled.T), self.root
        seen = np.reshape(self._scaled @ self._shift, (-1, 1))
        return K - seen @ r.T - r @ seen.T + float(self._shift @ self._shift) * (r @ r.T)


def _from_features(
    Z: _Features, B: np.ndarray, lam: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Weights from the D normal equations, and ``beta`` with ``Z^T beta = w``."""
    normal = Z.normal()
    coef, rank = _solve(normal, Z.pull(B), lam)
    free = np.array([is_negligible(value, np.trace(normal)) for value in lam])
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = (B - Z.apply(coef)) / lam
    if free.any():
        # Without a regulariser the residual says nothing about beta; take the smallest one.
        beta[:, free] = Z.apply(Eigensystem(normal).coefficients(coef[:, free], 0.0))
    return coef, beta, rank


def _solve(A: np.ndarray, B: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, int]:
    """The solution of ``(A + lam I) z = b``, of minimum norm where it is free, and the rank."""
    if not any(is_negligible(value, np.trace(A)) for value in lam):
        with suppress(LinAlgError):  # not positive definite after rounding
            return shifted_solve(A, B, lam), len(A)
    system = Eigensystem(A)
    return system.coefficients(B, lam), system.rank


def _dense(A: Any) -> np.ndarray:
    return A.toarray() if sparse.issparse(A) else np.asarray(A, dtype=np.float64)
