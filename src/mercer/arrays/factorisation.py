"""Cholesky factors of large matrices, a block of rows at a time."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from mercer.arrays.lapack import factorise_upper

# LAPACK factors at most so many rows at once: OpenBLAS with several threads crashes beyond 14,000.
BLOCK = 8192


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
    >>> from scipy.linalg import cho_solve
    >>> cho_solve(factorised(np.array([[4.0, 2.0], [2.0, 5.0]])), np.array([6.0, 7.0]))
    array([1., 1.])
    """
    if len(A) <= block and A.flags.c_contiguous:
        if not factorise_upper(A.T):
            raise LinAlgError("the matrix is not positive definite after rounding")
        return A.T, False
    for start in range(0, len(A), block):
        stop = min(start + block, len(A))
        done, panel = slice(0, start), A[start:, start:stop]
        if start:
            panel -= A[start:, done] @ A[start:stop, done].T
        L = cholesky(panel[: stop - start], lower=True)
        panel[: stop - start] = L
        panel[stop - start :] = solve_triangular(L, panel[stop - start :].T, lower=True).T
    return A.T, False
