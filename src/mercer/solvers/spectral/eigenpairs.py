"""The leading eigenpairs of a Gram operator, by LAPACK, Lanczos or a random sketch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.utils import check_random_state

from mercer.arrays import refuse_beyond_memory
from mercer.arrays.threads import blas_threads
from mercer.operators import CentredGram, DenseGram
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.spectral.block_krylov import (
    EXTRA,
    KrylovPairs,
    block_krylov,
    column_norms,
    stored_krylov,
)

#: A sketch is given no tolerance, so this residual decides whether it is called converged.
SKETCH_ACCURACY = 1e-2

#: Residuals that block Lanczos brings about where machine precision is asked for: eigenvalues,
#: whose errors are of the order of their squares, are then right to rounding.
KRYLOV_ACCURACY = 1e-10

#: Components of a stored matrix up to which blocks are narrow, given so many points for each:
#: products with two columns take the core the time that memory takes to be read.
NARROW, NARROW_BLOCK, POINTS_PER_PAIR = 20, 2, 10

#: Entries of a vector that differ by this share are equal but for rounding.
TIE = 1e-6

#: Above this residual a direct or converged answer is not what it claims to be.
STALLED_ABOVE = 1e-5


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues in decreasing order, shape (k,), and unit eigenvectors, shape (n, k).

    An eigenvalue of K lies within ``residuals[j]`` of ``values[j]``.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray


# From this many vectors on, residuals are estimated from so many random projections of them.
MANY_VECTORS, PROJECTIONS = 256, 32


def leading_eigenpairs(
    K: Any,
    n_components: int,
    *,
    method: str = "auto",
    tol: float = 0.0,
    max_iter: int | None = None,
    iterated_power: int | str = "auto",
    random_state: Any = None,
    floor: float = 0.0,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    """The largest eigenvalues of a symmetric operator: K v_j = lam_j v_j, lam_1 >= lam_2 >= ...

    Parameters
    ----------
    K : array or LinearOperator of shape (n, n)
        Symmetric. An operator with a ``dense()`` method is written out by it for "dense"; others
        are applied to the identity. One in float32 whose ``double()`` is in float64 has its pairs
        refined and measured by that: one product, and the eigenvalues' errors are of the order of
        the squares of the residuals.
    n_components : int
        How many pairs; at most n are returned.
    method : {"auto", "dense", "primal", "krylov", "arpack", "randomized"}
        "dense" is LAPACK's eigh, "krylov" block Lanczos on products with many vectors at once,
        "arpack" implicitly restarted Lanczos on one vector at a time, "randomized" subspace
        iteration from a random start, "primal" the singular values of Φ, where K has ``features``
        Φ of shape (n, D). "auto" takes the primal where there are features, fewer than points, and
        block Lanczos when few pairs of many points are asked for; its blocks are narrow for few
        pairs of a matrix that is stored. ARPACK needs ``n_components < n``; otherwise the dense
        method answers in its place, and ``result.method`` says so.
    tol : float
        Relative accuracy of Lanczos; 0 asks for about machine precision.
    max_iter : int or None
        Products with blocks ("krylov", 100 if None, more of them where blocks are narrow) or
        restarts ("arpack", its own limit if None).
    iterated_power : int or "auto"
        Power steps of "randomized".
    random_state : int, RandomState or None
        The starting vectors of "arpack" and "randomized".
    floor : float
        Eigenvalues of K below this are its rounding (`rounding_floor`).
    report : callable, optional
        ``report(products, gap)`` of "krylov"; a true value ends it.

    Returns
    -------
    Result
        ``value`` is an `Eigenpairs`, each vector's largest entry positive (`signs`). ``gap`` is
        max_j ||K v_j - lam_j v_j|| / max(lam_1, floor), measured in float64; ``n_iter`` counts
        products with K (Lanczos) or power steps (sketch). When Lanczos stops early the status is
        ``MAX_ITER`` and only the pairs that converged are returned; ``STALLED`` means that the
        pairs do not belong to K, as where K is not symmetric.

    References
    ----------
    Halko, Martinsson, Tropp, "Finding structure with randomness", SIAM Review 53 (2011).

    Examples
    --------
    >>> import numpy as np
    >>> result = leading_eigenpairs(np.diag([1.0, 5.0, 3.0]), 2)
    >>> result.value.values
    array([5., 3.])
    """
    n = K.shape[0]
    k = min(n_components, n)
    features = getattr(K, "features", None) if method in ("auto", "primal") else None
    solver, reason = _choose(method, n, k, features, stored_matrix(K)[0] is not None)
    monitor = Monitor(tol=tol, max_iter=max_iter)
    status, steps = Status.EXACT, 0
    with blas_threads(n):
        if solver == "primal":
            assert features is not None
            values, vectors = _primal(features, k)
        elif solver == "dense":
            values, vectors = largest_eigenpairs(_dense(K), k)
        elif solver == "krylov":
            found = _blocks(K, k, tol, max_iter, random_state, floor, report)
            values, vectors, steps = found.values, found.vectors, found.products
            status = Status.STOPPED if found.stopped else Status.MAX_ITER
            status = Status.CONVERGED if found.converged else status
        elif solver == "arpack":
            values, vectors, status, steps = _lanczos(K, k, tol, max_iter, random_state)
        else:
            values, vectors, steps = _sketch(K, k, iterated_power, random_state)
        order = np.argsort(values)[::-1]
        values, vectors = values[order], vectors[:, order]
        exact = K.double() if hasattr(K, "double") else K
        if exact is K:
            residuals = residual_norms(K, values, vectors)
        else:
            values, vectors, residuals = _refined(exact, vectors)
    gap = _relative(residuals, values, floor)
    if solver == "randomized":
        # Where all of K is rounding there is nothing to converge to.
        enough = gap <= max(tol, SKETCH_ACCURACY) or values[0] <= floor
        status = Status.CONVERGED if enough else Status.MAX_ITER
    elif status.ok and gap > max(10 * tol, STALLED_ABOVE) and gap * values[0] > floor:
        status = Status.STALLED
    monitor.record(gap, steps)
    pairs = Eigenpairs(values, vectors * signs(vectors), residuals)
    return monitor.result(pairs, gap, status=status, method=reason)


def largest_eigenpairs(A: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues of a symmetric array, increasing, and their vectors, by LAPACK.

    Examples
    --------
    >>> largest_eigenpairs(np.eye(40) - 1 / 40, 3)[0].round(12)
    array([1., 1., 1.])
    """
    n = len(A)
    if 2 * k <= n:
        try:
            values, vectors = scipy.linalg.eigh(A, subset_by_index=(n - k, n - 1))
        except scipy.linalg.LinAlgError:
            values, vectors = np.zeros(0), A[:, :0]
        if len(values) == k:
            return values, vectors
    # Divide and conquer is the faster method for most of them, and the only one where many are
    # equal: the search for some then finds too few or fails.
    values, vectors = scipy.linalg.eigh(A, driver="evd")
    return values[n - k :], vectors[:, n - k :]


def _choose(
    method: str, n: int, k: int, features: np.ndarray | None, stored: bool
) -> tuple[str, str]:
    if features is not None and (method == "primal" or features.shape[1] < n):
        why = f"{features.shape[1]} features of {n} points"
        return "primal", f"singular values of explicit features ({why})"
    if method == "primal":
        raise ValueError(
            "the primal needs explicit features, few compared with the points, which this kernel "
            "does not have"
        )
    if method == "auto":
        few = n > 200 and k < max(10, n // 50)
        few = few or (stored and n >= 200 and k <= min(NARROW, n // POINTS_PER_PAIR))
        method = "krylov" if few else "dense"
        why = f"chosen for {k} components of {n} points"
    else:
        why = "as asked"
    if method == "arpack" and k >= n:
        return "dense", f"eigh (Lanczos finds fewer than n = {n} components)"
    names = {
        "dense": "eigh",
        "krylov": "block Lanczos",
        "arpack": "Lanczos",
        "randomized": "randomised subspace iteration",
    }
    return method, f"{names[method]} ({why})"


def _dense(K: Any) -> np.ndarray:
    if isinstance(K, np.ndarray):
        return np.asarray(K, dtype=np.float64)
    refuse_beyond_memory(K.shape[0])
    full = K.dense() if hasattr(K, "dense") else K @ np.eye(K.shape[0])
    return np.asarray(full, dtype=np.float64)


def _apply(K: Any, V: np.ndarray) -> np.ndarray:
    return np.asarray(K @ V, dtype=np.float64)


class _Products(LinearOperator):
    """K v in float64, counted: a float32 Gram must not make ARPACK iterate in float32."""

    def __init__(self, K: Any):
        super().__init__(np.dtype(np.float64), K.shape)
        self.K = K
        self.count = 0

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        self.count += 1
        return _apply(self.K, v.ravel())


def _blocks(
    K: Any,
    k: int,
    tol: float,
    max_iter: int | None,
    random_state: Any,
    floor: float,
    report: Callable[[int, float], bool | None] | None,
) -> KrylovPairs:
    n, random = K.shape[0], check_random_state(random_state)
    tol = max(tol, KRYLOV_ACCURACY)
    matrix, centred = stored_matrix(K)
    if matrix is not None and k <= NARROW:
        free = max_iter is None and report is None
        width = NARROW_BLOCK if free else k + k % 2  # a stopped search has k pairs, too
        # As many directions are searched as the wide blocks would.
        most = 100 * (k + EXTRA) // width if max_iter is None else max_iter
        found = stored_krylov(
            matrix,
            random.normal(size=(n, width)),
            k,
            tol=tol,
            floor=floor,
            centred=centred,
            max_products=most,
            report=report,
        )
        if found is not None:
            return found
    return block_krylov(
        lambda V: _apply(K, V),
        random.normal(size=(n, min(n, k + EXTRA))),
        k,
        tol=tol,
        floor=floor,
        max_products=100 if max_iter is None else max_iter,
        report=report,
    )


def stored_matrix(K: Any) -> tuple[np.ndarray | None, bool]:
    """The symmetric matrix that K is, if it is stored in float64, and whether it is centred."""
    centred = isinstance(K, CentredGram) and K.training is None
    stored = K.gram if centred else K
    stored = stored.K if isinstance(stored, DenseGram) else stored
    plain = isinstance(stored, np.ndarray) and stored.dtype == np.float64
    return (stored if plain and stored.flags.c_contiguous else None), centred


def _lanczos(
    K: Any, k: int, tol: float, max_iter: int | None, random_state: Any
) -> tuple[np.ndarray, np.ndarray, Status, int]:
    n = K.shape[0]
    products = _Products(K)
    v0 = check_random_state(random_state).uniform(-1.0, 1.0, n)
    if not np.any(products @ v0):
        # ARPACK rejects the zero operator; any orthonormal vectors are its eigenvectors.
        return np.zeros(k), np.eye(n, k), Status.EXACT, products.count
    try:
        values, vectors = eigsh(products, k, which="LA", tol=tol, maxiter=max_iter, v0=v0)
    except ArpackNoConvergence as stopped:
        if len(stopped.eigenvalues) == 0:
            raise
        return stopped.eigenvalues, stopped.eigenvectors, Status.MAX_ITER, products.count
    return values, vectors, Status.CONVERGED, products.count


def _sketch(
    K: Any, k: int, iterated_power: int | str, random_state: Any
) -> tuple[np.ndarray, np.ndarray, int]:
    n = K.shape[0]
    if iterated_power == "auto":
        iterated_power = 7 if k < 0.1 * n else 4
    # Ten directions more than asked for make the range finder reliable (Halko et al., 4.2).
    Q = check_random_state(random_state).normal(size=(n, min(n, k + 10)))
    steps = int(iterated_power) + 1
    for _ in range(steps):
        Q, _ = scipy.linalg.qr(_apply(K, Q), mode="economic")
    small = Q.T @ _apply(K, Q)
    values, rotation = scipy.linalg.eigh((small + small.T) / 2)
    return values[-k:], Q @ rotation[:, -k:], steps


def _primal(Phi: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """By the singular values of Φ, whose squares are the eigenvalues of Φ Φᵀ; the others are 0."""
    Q, R = scipy.linalg.qr(Phi, mode="economic")
    U, s, _ = scipy.linalg.svd(R, full_matrices=False)
    values, V = s[:k] ** 2, Q @ U[:, :k]
    return np.append(values, np.zeros(k - len(values))), completed(V, k)


def completed(V: np.ndarray, k: int) -> np.ndarray:
    """Orthonormal columns V, of which there are at most k, and any further ones up to k.

    Examples
    --------
    >>> V = completed(np.eye(3)[:, :1], 3)
    >>> np.allclose(V.T @ V, np.eye(3))
    True
    """
    rest = np.random.RandomState(0).normal(size=(len(V), k - V.shape[1]))
    for _ in range(2):
        rest = scipy.linalg.qr(rest - V @ (V.T @ rest), mode="economic")[0]
    return np.hstack([V, rest])


def _refined(K: Any, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best pairs in the span of nearly orthonormal vectors, with their residuals."""
    V = scipy.linalg.qr(vectors, mode="economic")[0]
    image = _apply(K, V)
    small = V.T @ image
    values, rotation = scipy.linalg.eigh((small + small.T) / 2)
    values, rotation = values[::-1], rotation[:, ::-1]
    V = V @ rotation
    return values, V, column_norms(image @ rotation - V * values)


def residual_norms(K: Any, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """‖K v_j - λ_j v_j‖ for each j, in float64.

    Of many vectors, whose product with K would take as long as finding them, it is estimated: for a
    random vector g of signs the mean of (gᵀr)² is ‖r‖², and the mean over PROJECTIONS of them is
    within a quarter or so of that.
    """
    if len(values) == 0:
        return np.zeros(0)
    if len(values) > MANY_VECTORS:
        G = np.random.RandomState(0).choice([-1.0, 1.0], size=(len(vectors), PROJECTIONS))
        seen = _apply(K, G).T @ vectors - (G.T @ vectors) * values
        return column_norms(seen) / PROJECTIONS**0.5
    return column_norms(_apply(K, vectors) - vectors * values)


def _relative(residuals: np.ndarray, values: np.ndarray, floor: float) -> float:
    worst = float(residuals.max(initial=0.0))
    scale = max(float(np.abs(values).max(initial=0.0)), floor)
    return worst / scale if scale > 0 else worst


def signs(vectors: np.ndarray) -> np.ndarray:
    """1 or -1 for each column, so that times it the entry of largest size is positive.

    Of entries as large but for rounding the first decides: symmetric points have pairs of them.

    Examples
    --------
    >>> signs(np.array([[-0.6, 0.8], [0.6 + 1e-15, 0.6]]))
    array([-1.,  1.])
    """
    sizes = np.abs(vectors)
    first = np.argmax(sizes >= (1 - TIE) * sizes.max(axis=0, initial=0.0), axis=0)
    return np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
