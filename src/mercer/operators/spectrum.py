"""Make an indefinite Gram matrix positive semidefinite, consistently for new points."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf

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
    eigenvalues, U = eigh(K)
    if method == "shift":
        return K + max(0.0, -float(eigenvalues[0])) * np.eye(len(K)), None
    if method == "clip":
        signs = (eigenvalues > 0).astype(float)
    elif method == "flip":
        signs = np.sign(eigenvalues)
    else:
        raise ValueError(f"indefinite={method!r}; expected 'error', 'clip', 'flip' or 'shift'")
    P = (U * signs) @ U.T
    fixed = (U * (eigenvalues * signs)) @ U.T
    return (fixed + fixed.T) / 2, P
