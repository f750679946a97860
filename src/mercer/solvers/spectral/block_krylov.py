"""Leading eigenpairs from products with blocks of vectors: every entry of K serves many columns.

Small problems in between are left to NumPy: SciPy brings a BLAS of its own, whose idle threads take
time from the products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.core import krylov_steps

# Directions in addition to those asked for, which let the last ones converge as fast as the others.
EXTRA = 6
# Blocks kept before the basis is reduced to what matters.
BLOCKS = 16
# Directions this small compared with what K makes of unit vectors are rounding.
LOST = 1e-13
# Squared lengths below which directions of unit vectors are too near to others to be orthogonalised
# at once.
SOUND = 1e-8
# Of a stored matrix: rows of the basis before it is reduced, at least, by blocks and by pairs; and
# block steps before the first look at the residuals, which takes longer than some steps.
STORED_ROWS, STORED_BLOCKS, STORED_PAIRS, FIRST_LOOK = 96, 16, 8, 12
# Eigenvalues that differ by this share of the largest may be equal.
EQUAL = 1e-7


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
    stopped : bool
        Whether the search was asked to end.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    converged: bool
    products: int
    stopped: bool = False


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
        ``report(products, gap)``, the gap the largest residual over the largest eigenvalue; a true
        value ends the search.

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
    Q = _orthonormal(start, start[:, :0], 0.0)
    width, products, size = Q.shape[1], 0, 0
    room = max(BLOCKS * width, 2 * k + 2 * width)
    basis = np.empty((len(start), room), order="F")
    T = np.zeros((room, room))  # basis^T K basis
    while True:
        new = slice(size, size + Q.shape[1])
        basis[:, new] = Q
        rest = apply(Q)
        products, size = products + 1, new.stop
        V = basis[:, :size]
        T[:size, new] = V.T @ rest
        T[new, :size] = T[:size, new].T
        rest = rest - V @ T[:size, new]
        values, rotation = np.linalg.eigh(T[:size, :size])
        values, rotation = values[::-1], rotation[:, ::-1]
        # K V y - λ V y has no part inside the basis, and outside it only of the last block.
        residuals = column_norms(rest @ rotation[new, :k])
        worst = float(residuals.max(initial=0.0))
        scale = float(np.abs(values[:k]).max(initial=0.0))
        converged = worst <= max(tol * scale, floor)
        stopped = report is not None and bool(report(products, worst / scale if scale else worst))
        if converged or stopped or products >= max_products:
            break
        Q = _orthonormal(rest, V, LOST * float(np.abs(T[:size, new]).max()))
        if Q.shape[1] == 0:  # the basis holds everything
            converged = True
            break
        if size + width > room:
            kept = 2 * width
            basis[:, :kept] = V @ rotation[:, :kept]
            T[:] = 0
            T[range(kept), range(kept)] = values[:kept]
            size = kept
    vectors = V @ rotation[:, :k]
    return KrylovPairs(values[:k], vectors, residuals, bool(converged), products, stopped)


def stored_krylov(
    K: np.ndarray,
    start: np.ndarray,
    k: int,
    *,
    tol: float,
    floor: float = 0.0,
    centred: bool = False,
    max_products: int = 100,
    report: Callable[[int, float], bool | None] | None = None,
) -> KrylovPairs | None:
    """`block_krylov` for a stored matrix and narrow blocks, whose steps are the core's.

    Blocks of b vectors find at most b eigenvectors of one eigenvalue. None where there may be more
    among the k, and where the blocks lose rank, as those of a matrix of low rank do.

    Parameters
    ----------
    K : (n, n) array of float64
    start : (n, b) array
    centred : bool
        Whether the means of rows and columns are subtracted from K.
    k, tol, floor, max_products, report
        As in `block_krylov`.

    Examples
    --------
    >>> K = np.diag(np.arange(200.0))
    >>> start = np.random.default_rng(0).normal(size=(200, 2))
    >>> stored_krylov(K, start, 2, tol=1e-10).values.round(8)
    array([199., 198.])
    """
    n, width = start.shape
    room = max(STORED_ROWS, STORED_BLOCKS * width, STORED_PAIRS * k)
    if room > n:
        return None
    Q = _orthonormal(start - start.mean(axis=0) if centred else start, start[:, :0], 0.0)
    if Q.shape[1] < width:
        return None
    basis, T = np.empty((room, n)), np.zeros((room, room))
    basis[:width] = Q.T
    size, products, steps, before = width, 0, FIRST_LOOK, (0, 1.0)
    while True:
        steps = 1 if report is not None else steps
        steps = min(steps, (room - size) // width, max_products - products)
        taken, rest = krylov_steps(K, basis, T, size, width, steps, centred)
        if taken < steps:
            return None
        products, size = products + steps, size + steps * width
        m = size - width  # rows of the basis that K was multiplied with
        values, rotation = np.linalg.eigh(T[:m, :m])
        values, rotation = values[::-1], rotation[:, ::-1]
        residuals = column_norms(rest @ rotation[m - width : m, :k])
        worst = float(residuals.max()) if m >= k else np.inf
        scale = float(np.abs(values[:k]).max())
        share, enough = worst / scale if scale else worst, max(tol * scale, floor)
        converged = worst <= enough
        stopped = report is not None and bool(report(products, share))
        if converged or stopped or products >= max_products:
            break
        # Residuals fall from step to step, by more and more: half of the steps that are left by
        # what they fell so far.
        fall = np.log(before[1] / share) / (products - before[0])
        left = np.log(worst / enough) / fall if fall > 0 else np.inf
        steps = max(1, int(min(np.ceil(left / 2), FIRST_LOOK)))
        before = (products, share) if m >= k else before
        if size + width > room:
            kept = min(max(2 * width, k + EXTRA), m)
            last = basis[m:size].copy()
            basis[:kept] = rotation[:, :kept].T @ basis[:m]
            basis[kept : kept + width] = last
            T[:] = 0
            T[range(kept), range(kept)] = values[:kept]
            size = kept + width
    equal = values[: max(k - width, 0)] - values[width - 1 : max(k, width) - 1] <= EQUAL * scale
    if np.any(equal) or m < k:
        return None
    vectors = (rotation[:, :k].T @ basis[:m]).T
    return KrylovPairs(values[:k], vectors, residuals, bool(converged), products, stopped)


def column_norms(V: np.ndarray) -> np.ndarray:
    """The lengths of the columns, also where squares of their entries underflow.

    Examples
    --------
    >>> column_norms(np.array([[3e-200], [4e-200]]))
    array([5.e-200])
    """
    largest = np.abs(V).max(initial=0.0) or 1.0
    return np.linalg.norm(V / largest, axis=0) * largest


def _orthonormal(rest: np.ndarray, V: np.ndarray, least: float) -> np.ndarray:
    """Orthonormal columns that span those of ``rest`` and are orthogonal to V.

    By Gram matrices, which is sooner than a factorisation of long columns. What ``rest`` still has
    of V is rounding, and removed once it is no longer small compared with short columns. Directions
    much shorter than others are left for another round; those below ``least`` are rounding.
    """
    found = rest[:, :0]
    while found.shape[1] < rest.shape[1]:
        sizes = column_norms(rest)
        Q = _turned(rest[:, sizes > least] / sizes[sizes > least], SOUND)
        for basis in (V, found):
            Q = Q - basis @ (basis.T @ Q)
        Q = _turned(Q, 0.25)
        if Q.shape[1] == 0:
            break
        found = np.hstack([found, Q])
        rest = rest - Q @ (Q.T @ rest)
    return found


def _turned(V: np.ndarray, least: float) -> np.ndarray:
    """V turned to orthonormal columns; those with a squared length below ``least`` are left out."""
    values, U = np.linalg.eigh(V.T @ V)
    kept = values > least
    return V @ (U[:, kept] / np.sqrt(values[kept]))
