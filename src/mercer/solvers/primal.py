"""Ridge in an explicit feature space, for kernels with a finite map of few features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer.solvers.cholesky import shifted_solve
from mercer.solvers.eigh import Eigensystem
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge import ROUNDING_LIMIT, as_columns, gradient_ratio, is_negligible


class PrimalSolution(NamedTuple):
    """Weights in feature space, the dual coefficients behind them, and what was determined.

    Attributes
    ----------
    coef : ndarray of shape (D, t)
    dual_coef : ndarray of shape (n, t)
    rank : int
        Numerical rank of the equations where an eigenvalue cut-off was needed, else min(n, D).
    """

    coef: np.ndarray
    dual_coef: np.ndarray
    rank: int


def solve_primal(
    Phi: Any,
    Y: np.ndarray,
    lam: float | np.ndarray,
    sample_weight: np.ndarray | None = None,
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
    root = np.sqrt(weight)[:, None]
    scaled = Phi.multiply(root).tocsr() if sparse.issparse(Phi) else Phi * root
    if n >= D:
        coef, beta, rank = _from_features(scaled, root * Y, lams)
    else:
        beta, rank = _solve(_dense(scaled @ scaled.T), root * Y, lams)
        coef = scaled.T @ beta
    gradient = scaled.T @ (root * Y - scaled @ coef) - lams * coef
    start = scaled.T @ (root * Y)
    gap = gradient_ratio(np.sum(gradient**2, axis=0), np.sum(start**2, axis=0))
    monitor.record(gap)
    status = Status.EXACT if gap <= ROUNDING_LIMIT else Status.STALLED
    solution = PrimalSolution(coef, root * beta, rank)
    return monitor.result(solution, gap, status=status, method="primal")


def _from_features(Z: Any, B: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Weights from the D normal equations, and ``beta`` with ``Z^T beta = w``."""
    normal = _dense(Z.T @ Z)
    coef, rank = _solve(normal, Z.T @ B, lam)
    free = np.array([is_negligible(value, np.trace(normal)) for value in lam])
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = (B - Z @ coef) / lam
    if free.any():
        # Without a regulariser the residual says nothing about beta; take the smallest one.
        beta[:, free] = Z @ Eigensystem(normal).coefficients(coef[:, free], 0.0)
    return coef, beta, rank


def _solve(A: np.ndarray, B: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, int]:
    """The solution of ``(A + lam I) z = b``, of minimum norm where it is free, and the rank."""
    if any(is_negligible(value, np.trace(A)) for value in lam):
        system = Eigensystem(A)
        return system.coefficients(B, lam), system.rank
    return shifted_solve(A, B, lam), len(A)


def _dense(A: Any) -> np.ndarray:
    return A.toarray() if sparse.issparse(A) else np.asarray(A, dtype=np.float64)
