"""Leading eigenpairs from products with blocks of vectors: every entry of K serves many columns.

Small problems in between are left to NumPy: SciPy brings a BLAS of its own, whose idle threads take
time from the products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Directions beside those asked for, which let the last ones converge as fast as the others.
EXTRA = 8
# Blocks kept before the basis is reduced to what matters.
BLOCKS = 8
# A direction this small beside what it was before orthogonalisation is rounding.
LOST = 1e-10


@dataclass(frozen=True)
class KrylovPairs:
    """What `block_krylov` found.

    Attributes
    ----------
    values : (k,) eigenvalues, decreasing
    vectors : (n, k) orthonormal
    residuals : (k,) ‖K v_j - λ_j v_j‖, which bounds the distance to an eigenvalue of K
    converged : bool
    products : int
        Blocks that K was multiplied with.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    converged: bool
    products: int


def block_krylov(
    apply: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    k: int,
    *,
    tol: float,
    floor: float = 0.0,
    max_products: int = 100,
    report: Callable[[int, float], bool | None] | None = None,
) -> KrylovPairs:
    r"""The k largest eigenvalues of a symmetric operator, by block Lanczos with thick restarts.

    The basis spans a block of vectors, K times them, K² times them, ...; the best approximations
    in it (Rayleigh and Ritz) come with their residuals, since K times the basis is kept. All
    directions are orthogonalised against all others.

    Parameters
    ----------
    apply : callable
        V of shape (n, b) to K V.
    start : (n, b) array with b >= k
        The first block; the nearer to the eigenvectors the better.
    k : int
    tol : float
        Residuals are brought below tol times the largest eigenvalue.
    floor : float
        Residuals below this are rounding.
    max_products : int
    report : callable, optional
        ``report(products, residual)``; a true value ends the search.

    References
    ----------
    Golub and Underwood, "The block Lanczos method for computing eigenvalues" (1977); Musco and
    Musco, "Randomized block Krylov methods for stronger and faster approximate singular value
    decomposition", NIPS 2015.

    Examples
    --------
    >>> K = np.diag(np.arange(50.0))
    >>> found = block_krylov(lambda V: K @ V, np.random.default_rng(0).normal(size=(50, 6)), 2,
    ...                      tol=1e-10)
    >>> found.values.round(8)
    array([49., 48.])
    """
    n = len(start)
    Q = _orthonormal(start, start[:, :0])
    width, products, size = Q.shape[1], 0, 0
    room = max((BLOCKS + 1) * width, 2 * k + width)
    basis, images = (np.empty((n, room), order="F") for _ in range(2))
    while True:
        new = slice(size, size + Q.shape[1])
        basis[:, new], images[:, new] = Q, apply(Q)
        products, size = products + 1, new.stop
        small = basis[:, :size].T @ images[:, :size]
        values, rotation = np.linalg.eigh((small + small.T) / 2)
        values, rotation = values[::-1], rotation[:, ::-1]
        vectors = basis[:, :size] @ rotation[:, :k]
        residuals = np.linalg.norm(
            images[:, :size] @ rotation[:, :k] - vectors * values[:k], axis=0
        )
        worst = float(residuals.max(initial=0.0))
        converged = worst <= max(tol * float(np.abs(values[:k]).max(initial=0.0)), floor)
        stopped = report is not None and report(products, worst)
        if converged or stopped or products >= max_products:
            break
        Q = _orthonormal(images[:, new], basis[:, :size])
        if Q.shape[1] == 0:  # the basis holds everything that K reaches
            converged = True
            break
        if size + 2 * width > room:
            # Beside the best approximations only Q is needed: it holds what K adds to them.
            kept = rotation[:, : 2 * width]
            basis[:, : 2 * width] = basis[:, :size] @ kept
            images[:, : 2 * width] = images[:, :size] @ kept
            size = 2 * width
    return KrylovPairs(values[:k], vectors, residuals, bool(converged), products)


def _orthonormal(V: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what V has beside a given one, without directions of rounding."""
    least = LOST * float(np.linalg.norm(V, axis=0).max(initial=0.0))
    V = V - basis @ (basis.T @ V)
    sizes = np.linalg.norm(V, axis=0)
    V = _turned(V[:, sizes > least] / sizes[sizes > least], LOST)
    # Once more, which removes the rounding of the first time.
    return _turned(V - basis @ (basis.T @ V), 0.25)


def _turned(V: np.ndarray, least: float) -> np.ndarray:
    """V turned to orthonormal columns, by its Gram matrix; those with less than this are left."""
    values, U = np.linalg.eigh(V.T @ V)
    kept = values > least
    return V @ (U[:, kept] / np.sqrt(values[kept]))
