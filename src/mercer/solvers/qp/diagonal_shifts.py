"""Systems with one Gram matrix and ever new diagonals, by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from mercer.arrays.factorisation import factorised
from mercer.core import symmetric_times, tall_times
from mercer.solvers.pivoted_cholesky import randomly_pivoted_cholesky

# The largest rank of the preconditioner: as a fraction of the points, and altogether.
_RANK_PER_POINT = 0.2
_LARGEST_RANK = 400
# Ratio of a diagonal to that of K from which its point is treated separately.
_ISOLATING_DIAGONAL = 100.0
# The first rank, which doubles whenever a solve takes more steps than this.
_FIRST_RANK = 100
_FEW_STEPS = 6
# Steps after which the preconditioner is considered useless.
_MOST_STEPS = 60
# Factor of the tolerance where few steps are enough.
_TOL_FACTOR_IF_FEW_STEPS = 1e-3

Solve = Callable[[np.ndarray, float], np.ndarray]


class DiagonalShifts:
    r"""``(K + diag(d)) X = B`` for one K and many d.

    The system of an interior-point method has a d of about one size at first, relative to which the
    small eigenvalues of K do not count: there the preconditioner is a Nyström approximation of K
    plus the diagonal of what it leaves. At the end d is tiny for the free points and huge for all
    others: there it is the factor of the free points' block, and the diagonal for the others.
    In the first case products with K are taken in float32, whose rounding moves a direction by much
    less than the tolerance does. One system takes some n² operations instead of n³.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semidefinite.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.ones((3, 3)) + np.eye(3)
    >>> x = DiagonalShifts(K).at(np.ones(3))(np.array([[5.0], [5.0], [5.0]]), 1e-6)
    >>> x.ravel().round(4)
    array([1., 1., 1.])

    References
    ----------
    Frangella, Tropp and Udell (2023), "Randomized Nyström preconditioning".
    """

    def __init__(self, K: np.ndarray):
        n = len(K)
        self.K = K
        self.scale = scale = float(K.diagonal().max()) or 1.0
        self.single = (K / scale).astype(np.float32)
        rank = max(1, min(_LARGEST_RANK, int(_RANK_PER_POINT * n)))
        # The first columns of the factor are the pivots' that say most.
        factor = randomly_pivoted_cholesky(lambda chosen: K[chosen], K.diagonal(), rank).factor
        self.features = np.ascontiguousarray(factor)
        self.width = min(_FIRST_RANK, factor.shape[1])
        self.alone = _ISOLATING_DIAGONAL * scale

    def at(self, d: np.ndarray) -> Solve:
        """A function of B, (n, c), and a tolerance that solves the system with this diagonal.

        It raises a LinAlgError where that takes too many steps.
        """
        free = np.flatnonzero(d < self.alone)
        few = 2 * len(free) <= len(d)
        precondition = self._blocks(d, free) if few else self._sketched(d)
        product = (
            self._product(self.K, 1.0, d) if few else self._product(self.single, self.scale, d)
        )

        def solve(B: np.ndarray, tol: float) -> np.ndarray:
            finer = _TOL_FACTOR_IF_FEW_STEPS * tol if few else tol
            X, steps = _conjugate_gradients(product, precondition, B, finer)
            if steps > _FEW_STEPS and not few:
                self.width = min(2 * self.width, self.features.shape[1])
            return X

        return solve

    def _product(
        self, K: np.ndarray, scale: float, d: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        def product(V: np.ndarray) -> np.ndarray:
            # One scale per column keeps float32 away from its limits.
            size = np.maximum(np.abs(V).max(axis=0), 1e-300)
            return symmetric_times(K, V / size) * (scale * size) + d[:, None] * V

        return product

    def _blocks(self, d: np.ndarray, free: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        block = self.K[np.ix_(free, free)]
        block.flat[:: len(free) + 1] += d[free]
        factor = factorised(block) if len(free) else None
        own = (d + self.K.diagonal())[:, None]

        def precondition(R: np.ndarray) -> np.ndarray:
            out = R / own
            if factor is not None:
                out[free] = cho_solve(factor, R[free], check_finite=False)
            return out

        return precondition

    def _sketched(self, d: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        features = self.features[:, : self.width]
        left = self.K.diagonal() - np.einsum("ij,ij->i", features, features)
        own = (d + np.maximum(left, 0.0))[:, None]
        weighted = features / own
        root = features / np.sqrt(own)
        inner = root.T @ root
        inner.flat[:: len(inner) + 1] += 1.0
        # All by NumPy: SciPy brings a BLAS of its own, and the idle threads of two are in the way.
        whitening = np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(inner)))

        def precondition(R: np.ndarray) -> np.ndarray:
            white = tall_times(whitening, tall_times(weighted, R, transposed=True))
            inside = tall_times(whitening, white, transposed=True)
            return R / own - tall_times(weighted, inside)

        return precondition


def _conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray],
    precondition: Callable[[np.ndarray], np.ndarray],
    B: np.ndarray,
    tol: float,
) -> tuple[np.ndarray, int]:
    """Each column on its own, until all residuals are small in the preconditioner's norm; steps."""
    X, R = np.zeros_like(B), B.copy()
    Z = precondition(R)
    P = Z.copy()
    rho = np.sum(R * Z, axis=0)
    goal = tol**2 * rho
    for steps in range(_MOST_STEPS):
        if np.all(rho <= goal):
            return X, steps
        if not np.all(np.isfinite(rho)):
            break
        Q = product(P)
        step = np.divide(rho, np.sum(P * Q, axis=0), out=np.zeros_like(rho), where=rho > goal)
        X += step * P
        R -= step * Q
        Z = precondition(R)
        before, rho = rho, np.sum(R * Z, axis=0)
        P = Z + np.divide(rho, before, out=np.zeros_like(rho), where=before > 0) * P
    raise LinAlgError("the preconditioner is of no use")
