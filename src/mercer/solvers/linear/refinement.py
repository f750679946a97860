"""Kernel ridge by a float32 factorisation whose answer is refined to float64 accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from mercer.arrays.factorisation import factorised
from mercer.operators import DenseGram, GramOperator
from mercer.solvers.linear.cholesky import certified, with_intercept
from mercer.solvers.result import Monitor, Result
from mercer.solvers.ridge_problem import EPS, ROUNDING_LIMIT, as_columns, float32_is_small

# A factorisation in float64 leaves a residual of about so many roundings of the matrix.
ROUNDINGS = 4


def solve_refined(
    K: GramOperator,
    Y: np.ndarray,
    lam: float | np.ndarray,
    sample_weight: np.ndarray | None = None,
    *,
    fit_intercept: bool = False,
) -> Result:
    r"""Solve ``(K + lam S^{-1}) alpha = y`` as `solve_cholesky` does, in half the time and memory.

    The matrix is stored and factorised in float32. With its factor, :math:`z \leftarrow z +
    (L L^T)^{-1} (b - A z)` with residuals in float64 goes on until they are as small as a
    factorisation in float64 would leave them.

    Parameters
    ----------
    K : GramOperator of shape (n, n)
        Symmetric positive semidefinite; products in float64 and a float32 copy are taken.
    Y, lam, sample_weight, fit_intercept
        As for `solve_cholesky`.

    Returns
    -------
    Result
        ``value`` is ``alpha`` of shape (n, t); ``gap`` is `relative_gradient`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If lam is too small compared with the matrix for float32; `solve_cholesky` may do.

    References
    ----------
    Higham (2002), "Accuracy and stability of numerical algorithms", chapter 12.

    Examples
    --------
    >>> from mercer import gram, kernels
    >>> K = gram(kernels.Linear(), [[1.0], [2.0]])
    >>> solve_refined(K, [3.0, 4.0], lam=1.0).value.ravel().round(3).tolist()
    [1.167, 0.333]
    """
    monitor = Monitor(tol=ROUNDING_LIMIT)
    Y, lams, weight = as_columns(Y, lam, sample_weight)
    root = np.sqrt(weight)
    largest = float(np.max(weight * K.diagonal(), initial=0.0))
    if not float32_is_small(len(Y), largest, float(lams.min())):
        raise LinAlgError("the regulariser is too small for float32")

    def product(V: np.ndarray) -> np.ndarray:
        return root[:, None] * (K @ (root[:, None] * V))

    def matrix() -> np.ndarray:
        # The operator's own matrix must stay as it is; others are made anew.
        copy = True if isinstance(K, DenseGram) else None
        A = np.array(K.single().dense(), dtype=np.float32, order="C", copy=copy)
        if sample_weight is not None:
            A *= root.astype(np.float32)[:, None]
            A *= root.astype(np.float32)
        return A

    def solve(B: np.ndarray, lams: np.ndarray) -> np.ndarray:
        solution = np.empty_like(B)
        for value in np.unique(lams):
            columns = lams == value
            solution[:, columns] = _refined(product, matrix(), B[:, columns], value)
        return solution

    alpha = root[:, None] * with_intercept(solve, root, Y, lams, fit_intercept)
    method = "cholesky in float32, refined to float64"
    return certified(monitor, K, alpha, Y, lams, weight, fit_intercept, method)


def _refined(
    product: Callable[[np.ndarray], np.ndarray], A: np.ndarray, B: np.ndarray, lam: float
) -> np.ndarray:
    """``(A + lam I)^{-1} B`` for ``product(V) = A V``; the float32 matrix A is overwritten."""
    np.fill_diagonal(A, A.diagonal() + np.float32(lam))
    rounding = ROUNDINGS * EPS * float(np.linalg.norm(A.ravel()))
    factor: Any = factorised(A)

    def correction(R: np.ndarray, size: np.ndarray) -> np.ndarray:
        unit = np.where(size > 0, size, 1.0)  # at unit length nothing underflows
        return unit * cho_solve(factor, (R / unit).astype(np.float32), check_finite=False)

    X, R, last = np.zeros_like(B), B, np.inf
    target = np.linalg.norm(B, axis=0)
    while True:
        size = np.linalg.norm(R, axis=0)
        left = ~(size <= rounding * np.linalg.norm(X, axis=0))  # also where numbers have run out
        if not left.any():
            return X + correction(R, size)
        now = float(np.max(size[left] / target[left]))
        if not now <= 0.5 * last:
            raise LinAlgError("the float32 factor does not contract")
        last = now
        X = X + correction(R, size)
        R = B - product(X) - lam * X
