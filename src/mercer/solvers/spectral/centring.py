"""What centring and rounding do to the eigenpairs of a Gram matrix."""

from __future__ import annotations

from typing import Any

import numpy as np


def rounding_floor(n: int, magnitude: float, dtype: Any = np.float64) -> float:
    """Size below which an eigenvalue of an (n, n) Gram cannot be distinguished from rounding.

    4 n eps magnitude, for entries of size at most ``magnitude``: each is rounded, and centring
    subtracts row means whose own rounding is the same along a whole row. For a centred Gram the
    magnitude is that of the entries *before* centring, since subtracting large means leaves their
    rounding behind.

    Examples
    --------
    >>> rounding_floor(100, 1.0) < 1e-13
    True
    """
    return 4 * n * float(np.finfo(dtype).eps) * float(magnitude)


def centred_projection(means: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and offset that project new points without forming a centred cross-Gram.

    For the means (n,) of the columns of K and alpha of shape (n, k) returns ``coef`` (n, k) and
    ``offset`` (k,) with

        k(x, X) @ coef - offset = <phi(x) - m, phi(X) - m> @ alpha,

    m the mean of the feature vectors of X: centring alpha cancels the terms constant along X.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [4.0]])
    >>> coef, offset = centred_projection((X @ X.T).mean(axis=0), np.array([[1.0], [0.0]]))
    >>> np.array([[3.0]]) @ X.T @ coef - offset  # (3 - 2) * (0 - 2)
    array([[-2.]])
    """
    coef = alpha - alpha.mean(axis=0)
    return coef, means @ coef
