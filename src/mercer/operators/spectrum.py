"""Make an indefinite Gram matrix positive semidefinite, consistently for new points."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, eigvalsh
from scipy.linalg.lapack import dpotrf

from mercer.arrays.threads import blas_threads
from mercer.kernels.validity import CLEARLY_NEGATIVE


def is_indefinite(K: np.ndarray) -> bool:
    """Whether K has a clearly negative eigenvalue."""
    return first_indefinite(K) > 0


def first_indefinite(K: np.ndarray) -> int:
    """How many first rows and columns of K have a clearly negative eigenvalue; 0 if K has none.

    A Cholesky factorisation goes through them in order and fails where it meets the eigenvalue.
    """
    bound = float(np.abs(K).sum(axis=1).max())  # at least the largest eigenvalue
    shifted = np.array(K, dtype=float, order="C")
    shifted.reshape(-1)[:: len(K) + 1] += CLEARLY_NEGATIVE * bound
    # The transpose of a symmetric matrix in C order is itself in the order that LAPACK reads.
    return int(dpotrf(shifted.T, lower=True, overwrite_a=True)[1])


def corrected(K: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray | None]:
    """A positive semidefinite matrix near K, and the P that carries coefficients to new points.

    Parameters
    ----------
    K : (n, n) symmetric
    method : "clip" (negative eigenvalues to zero), "flip" (to their absolute value), "shift" (add
        the least multiple of the identity)

    Returns
    -------
    K' : (n, n)
    P : (n, n) or None
        K' = K P for "clip" and "flip", so f(x) = k(x, X) P alpha for new points x. None for
        "shift", which changes only the diagonal of the training Gram.
    """
    if method not in ("clip", "flip", "shift"):
        raise ValueError(f"indefinite={method!r}; expected 'error', 'clip', 'flip' or 'shift'")
    with blas_threads(len(K)):
        if method == "shift":
            least = float(eigvalsh(K, subset_by_index=(0, 0))[0])
            return K + max(0.0, -least) * np.eye(len(K)), None
        eigenvalues, U = eigh(K, driver="evd")
        # The negative part alone: K' = K - c U diag(lam) U^T and P = I - c U U^T.
        n_negative = int(np.count_nonzero(eigenvalues < 0))
        U, negative = U[:, :n_negative], eigenvalues[:n_negative]
        c = 1.0 if method == "clip" else 2.0
        P = -c * (U @ U.T)
        P.flat[:: len(K) + 1] += 1.0
        root = U * np.sqrt(-negative)
        fixed = K + c * (root @ root.T)
    return fixed, P
