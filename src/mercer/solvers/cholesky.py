"""Kernel ridge by a Cholesky factorisation of the Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import (
    LinAlgError,
    cho_solve,
    cholesky,
    get_lapack_funcs,
    solve_triangular,
)

from mercer.arrays import copy_of, is_tensor, namespace, tensor_factor
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge import EPS, ROUNDING_LIMIT, as_columns, relative_gradient, rounding_advice

# LAPACK factors at most so many rows at once: OpenBLAS with several threads crashes beyond 14,000.
BLOCK = 8192


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
    lost = None if is_tensor(A) else rounding_error_above(A, float(lams.min()))
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
    solution = namespace(A).empty_like(B)
    for value in np.unique(lam):
        shifted = copy_of(A)
        shifted.reshape(-1)[:: len(A) + 1] += value
        columns = np.flatnonzero(lam == value)
        if is_tensor(A):
            solution[:, columns] = tensor_factor(shifted)(B[:, columns])
        else:
            solution[:, columns] = cho_solve(factorised(shifted), B[:, columns], check_finite=False)
    return solution


def factorised(A: np.ndarray, block: int = BLOCK) -> tuple[np.ndarray, bool]:
    """The Cholesky factor of ``A = L L^T``, column block by column block, in A's place.

    What is returned is for `scipy.linalg.cho_solve`: ``(L^T, False)``, which is in the column
    order LAPACK wants, and below whose diagonal A is left as it was.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric positive definite, in float32 or float64, and overwritten.
    block : int
        Columns per block.

    Raises
    ------
    numpy.linalg.LinAlgError
        If A is not positive definite in floating point.

    Examples
    --------
    >>> import numpy as np
    >>> cho_solve(factorised(np.array([[4.0, 2.0], [2.0, 5.0]])), np.array([6.0, 7.0]))
    array([1., 1.])
    """
    if len(A) <= block and A.flags.c_contiguous:
        (potrf,) = get_lapack_funcs(("potrf",), (A,))
        U, failed = potrf(A.T, lower=0, clean=0, overwrite_a=1)
        if failed:
            raise LinAlgError("the matrix is not positive definite after rounding")
        return U, False
    for start in range(0, len(A), block):
        stop = min(start + block, len(A))
        done, panel = slice(0, start), A[start:, start:stop]
        if start:
            panel -= A[start:, done] @ A[start:stop, done].T
        L = cholesky(panel[: stop - start], lower=True)
        panel[: stop - start] = L
        panel[stop - start :] = solve_triangular(L, panel[stop - start :].T, lower=True).T
    return A.T, False
