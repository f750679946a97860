"""The coefficients of the mean's basis, integrated out under a flat prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Profile(NamedTuple):
    """What is left of ``R^T C^{-1} R`` for ``R = [Y, H]`` when beta is integrated out.

    Attributes
    ----------
    fit : float
        ``Y^T C^{-1} (Y - H beta)``, summed over targets.
    log_det : float
        ``log |H^T C^{-1} H|``, 0 without a basis.
    beta : (q, t) array
    A : (q, q) array, H^T C^{-1} H
    """

    fit: float
    log_det: float
    beta: np.ndarray
    A: np.ndarray

    def log_evidence(self, shape: tuple[int, int], log_det: float) -> float:
        """log p(Y) for Y of a shape (n, t) and ``log |C|``."""
        n, t = shape
        free = n - len(self.A)
        return -0.5 * (self.fit + t * (log_det + self.log_det + free * np.log(2 * np.pi)))


def profiled(M: np.ndarray, t: int) -> Profile:
    """The profile of a matrix ``R^T C^{-1} R``, (t + q, t + q).

    A matrix that is smaller in the order of positive semidefinite ones has a smaller fit and log
    determinant, so that bounds on the one give bounds on the others.

    Examples
    --------
    >>> import numpy as np
    >>> profiled(np.array([[5.0, 2.0], [2.0, 1.0]]), t=1).fit
    1.0
    """
    A, B = M[t:, t:], M[t:, :t]
    beta = np.linalg.solve(A, B) if len(A) else B
    log_det = float(np.linalg.slogdet(A)[1]) if len(A) else 0.0
    return Profile(float(np.trace(M[:t, :t]) - np.vdot(B, beta)), log_det, beta, A)
