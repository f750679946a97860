"""Kernel ridge by a Cholesky factorisation of the Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from mercer.arrays import backend, namespace
from mercer.arrays.factorisation import factorised
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import (
    EPS,
    ROUNDING_LIMIT,
    as_columns,
    relative_gradient,
    rounding_advice,
)


def solve_cholesky(
    K: np.ndarray,
    Y: np.ndarray,
    lam: float | np.ndarray,
    sample_weight: np.ndarray | None = None,
    *,
    fit_intercept: bool = False,
) -> Result:
    r"""Solve ``(K + lam S^{-1}) alpha = y``, the stationary point of weighted kernel ridge.

    The system is symmetrised with the square roots of the weights,
    ``(S^{1/2} K S^{1/2} + lam I) beta = S^{1/2} y`` and ``alpha = S^{1/2} beta``, so a weight of
    zero gives a coefficient of zero. Targets that share a regulariser share a factorisation.

    Parameters
    ----------
    K : ndarray or tensor of shape (n, n)
        Gram matrix, symmetric positive semidefinite.
    Y : ndarray or tensor of shape (n,) or (n, t)
    lam : float or ndarray of shape (t,)
        Positive regulariser, one for all targets or one each.
    sample_weight : ndarray of shape (n,), optional
    fit_intercept : bool
        Whether ``(K + lam S^{-1}) alpha + b = y`` is solved, with ``sum_i alpha_i = 0``.

    Returns
    -------
    Result
        ``value`` is ``alpha`` of shape (n, t); ``gap`` is `relative_gradient`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the shifted matrix is not positive definite in floating point; `solve_eigh` handles it.

    Examples
    --------
    >>> import numpy as np
    >>> solve_cholesky(np.array([[1.0]]), np.array([3.0]), lam=2.0).value
    array([[1.]])

    References
    ----------
    Saunders, Gammerman and Vovk (1998), "Ridge regression learning algorithm in dual variables".
    """
    monitor = Monitor(tol=ROUNDING_LIMIT)
    Y, lams, weight = as_columns(Y, lam, sample_weight)
    root = weight**0.5
    A = K if sample_weight is None else root[:, None] * K * root
    beta = with_intercept(partial(shifted_solve, A), root, Y, lams, fit_intercept)
    alpha = root[:, None] * beta
    result = certified(monitor, K, alpha, Y, lams, weight, fit_intercept, "cholesky")
    in_memory = isinstance(A, np.ndarray)
    lost = rounding_error_above(A, float(lams.min())) if in_memory else None
    if lost is None or not result.status.ok:
        return result
    advice = (
        f"alpha={lams.min():.3g} is below the rounding error of K, {lost:.1e}, and K + alpha I is "
        "singular to working precision. Predictions may have few correct digits; choose a larger "
        "alpha."
    )
    return replace(result, advice=advice)


def with_intercept(
    solve: Callable[[np.ndarray, np.ndarray], np.ndarray],
    root: np.ndarray,
    Y: np.ndarray,
    lams: np.ndarray,
    fit_intercept: bool,
) -> np.ndarray:
    """``(A + lam I)^{-1} S^{1/2} y`` or, with an intercept, what is orthogonal to ``S^{1/2} 1``.

    ``solve(B, lams)`` solves ``(A + lam_j I) z_j = b_j``.
    """
    if not fit_intercept or not root.any():
        return solve(root[:, None] * Y, lams)
    xp = namespace(Y)
    ones = xp.broadcast_to(root[:, None], Y.shape)
    Z = solve(xp.hstack([root[:, None] * Y, ones]), np.tile(lams, 2))
    of_targets, of_ones = xp.hsplit(Z, 2)
    return of_targets - of_ones * ((root @ of_targets) / (root @ of_ones))


def certified(
    monitor: Monitor,
    K: Any,
    alpha: np.ndarray,
    Y: np.ndarray,
    lams: np.ndarray,
    weight: np.ndarray,
    fit_intercept: bool,
    method: str,
) -> Result:
    """Coefficients with the gradient they leave, for a direct solver."""
    gap = relative_gradient(K, alpha, Y, lams, weight, fit_intercept)
    monitor.record(gap)
    status = Status.EXACT if gap <= ROUNDING_LIMIT else Status.STALLED
    result = monitor.result(alpha, gap, status=status, method=method)
    return result.advised(rounding_advice(float(weight @ K.diagonal()), lams))


def rounding_error_above(A: np.ndarray, lam: float) -> float | None:
    """``sqrt(n) eps ||A||``, where lam is below it and ``A + lam I`` has such a small eigenvalue.

    None otherwise. Entries rounded at random move eigenvalues so far; the smallest one is estimated
    from the Cholesky factor.

    Examples
    --------
    >>> rounding_error_above(np.ones((2, 2)), 5e-16) > 5e-16
    True
    >>> rounding_error_above(np.ones((2, 2)), 1e-3), rounding_error_above(np.eye(2), 1e-30)
    (None, None)
    """
    # No entry of a positive semidefinite matrix is larger than those on its diagonal.
    if lam > float(len(A)) ** 1.5 * EPS * float(A.diagonal().max()):
        return None
    norm = float(np.abs(A).sum(axis=0).max())
    error = float(np.sqrt(len(A))) * EPS * norm
    if lam > error:
        return None
    shifted = A + lam * np.eye(len(A))
    U, _ = factorised(shifted)
    (pocon,) = get_lapack_funcs(("pocon",), (U,))
    reciprocal, _ = pocon(U, norm + lam)
    return error if reciprocal * norm <= 2 * error else None


def shifted_solve(A: np.ndarray, B: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Solve ``(A + lam_j I) z_j = b_j`` for every column j, one factorisation per distinct lam."""
    arrays, solution = backend(A), namespace(A).empty_like(B)
    for value in np.unique(lam):
        shifted = arrays.copy(A)
        shifted.reshape(-1)[:: len(A) + 1] += value
        columns = np.flatnonzero(lam == value)
        solution[:, columns] = arrays.cholesky(shifted)(B[:, columns])
    return solution
