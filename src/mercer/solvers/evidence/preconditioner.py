r"""A preconditioner of low rank and a diagonal, with its root and its determinant.

With F of shape (n, r), :math:`G = D^{-1/2} F` and :math:`G^T G = V \Lambda V^T`

.. math::
    P = F F^T + D = D^{1/2} (I + G G^T) D^{1/2}, \qquad
    f(I + G G^T) = f(1) I + G \left( V \frac{f(1 + \Lambda) - f(1)}{\Lambda} V^T \right) G^T

where the quotients for :math:`f(z) = 1/z` and :math:`\sqrt z` are numbers that no division by a
small eigenvalue spoils. Where F comes from a Nyström approximation of K, P is at most
:math:`C = K + D` in the order of positive semidefinite matrices, so that

.. math::
    \log |P| \le \log |C| \le \log |P| + n \log (1 + \tfrac1n \operatorname{tr} D^{-1} (K - F F^T))
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, blas

from mercer.solvers.evidence.problem import Covariance
from mercer.solvers.evidence.whitening import whitening


class Preconditioner:
    """``P = F F^T + D``, whose arrays are F's to overwrite.

    Parameters
    ----------
    F : (n, r) array
    D : (n,) array, positive
    left : (n,) array, optional
        The diagonal of K - F F^T.
    inverse : (r, r) array, optional
        U^-1 where F is k(X, Z) U^-1 for a few points Z.
    """

    def __init__(
        self,
        F: np.ndarray,
        D: np.ndarray,
        left: np.ndarray | None = None,
        inverse: np.ndarray | None = None,
    ):
        self.inverse: Any = inverse
        self.root = np.sqrt(D)[:, None]
        F /= self.root
        values, V = np.linalg.eigh(F.T @ F)
        values = np.maximum(values, 0.0)
        self.G = F
        self.of_inverse = (V * (-1 / (1 + values))) @ V.T
        self.of_root = (V * (1 / (1 + np.sqrt(1 + values)))) @ V.T
        self.log_det = float(np.log(D).sum() + np.log1p(values).sum())
        excess = 0.0 if left is None else float((np.maximum(left, 0.0) / D).sum())
        self.log_det_slack = len(D) * float(np.log1p(excess / len(D)))

    def solve(self, R: np.ndarray) -> np.ndarray:
        """P^-1 R."""
        R = R / self.root
        return (R + self._low(self.of_inverse, R)) / self.root

    def rooted(self, W: np.ndarray) -> np.ndarray:
        """P^1/2 W, for one square root: its product with its transpose is P."""
        return self.root * (W + self._low(self.of_root, W))

    def _low(self, inner: np.ndarray, R: np.ndarray) -> np.ndarray:
        return self.G @ (inner @ (self.G.T @ R))


def of_points(covariance: Covariance, X: Any, Z: Any, D: np.ndarray) -> Preconditioner:
    """The preconditioner whose F F^T is the approximation of K by a few points Z.

    Parameters
    ----------
    covariance : Covariance
    X : n points
    Z : r points
    D : (n,) array

    Raises
    ------
    numpy.linalg.LinAlgError
    """
    if not (np.isfinite(D).all() and np.all(D > 0)):
        raise LinAlgError("conjugate gradients need errors of positive variance")
    _, inverse = whitening(covariance, Z)
    K = covariance.gram(X, Z)
    F = blas.dtrmm(1.0, inverse, K.T, trans_a=1, overwrite_b=1).T
    left = covariance.own(X) - np.einsum("ij,ij->i", F, F)
    return Preconditioner(F, D, left, inverse)
