"""Features of a few points whose inner products are their approximation of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, lapack

from mercer.arrays.factorisation import factorised
from mercer.solvers.evidence.problem import Covariance

# Noise of the functions at the few points relative to their variances: the approximation is at most
# K with it too.
JITTER = 1e-8


def whitening(covariance: Covariance, Z: Any) -> tuple[np.ndarray, np.ndarray]:
    """U with ``U^T U = k(Z, Z)`` and its inverse, upper triangular and in column order: (m, m).

    The features are ``k(X, Z) U^-1``.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the kernel is not positive semidefinite at Z, or not finite.
    """
    K = covariance.gram(Z)
    K.reshape(-1)[:: len(K) + 1] *= 1 + JITTER
    if not np.isfinite(K).all():
        raise LinAlgError("the covariance has values that are not finite")
    U = np.asfortranarray(np.triu(factorised(K)[0]))
    return U, np.asfortranarray(lapack.dtrtri(U)[0])
