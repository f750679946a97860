"""Make an indefinite Gram matrix positive semidefinite, consistently for new points."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh

from mercer.kernels.validity import CLEARLY_NEGATIVE


def is_indefinite(K: np.ndarray) -> bool:
    """Whether K has a clearly negative eigenvalue, found by a Cholesky factorisation that fails."""
    bound = float(np.abs(K).sum(axis=1).max())  # at least the largest eigenvalue
    shifted = np.array(K, dtype=float)
    shifted[np.diag_indices_from(shifted)] += CLEARLY_NEGATIVE * bound
    try:
        cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return True
    return False


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
