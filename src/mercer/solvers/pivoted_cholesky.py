"""A low-rank factor of a Gram matrix from columns chosen at random by what is left of each.

All of it is left to NumPy: SciPy brings a BLAS of its own, and the idle threads of one take time
from those of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mercer.arrays import as_numpy, backend, like, namespace, to_float64
from mercer.solvers.ridge_problem import EPS

# Candidates drawn together; each block is one product with the factor so far.
BLOCK = 128


class LowRank(NamedTuple):
    """``F F^T``, at most K in the order of positive semidefinite matrices.

    Attributes
    ----------
    pivots : ndarray of shape (r,)
        The columns of K that ``F F^T`` reproduces, in the order of choice.
    factor : ndarray of shape (n, r)
    trace_left : float
        The trace of ``K - F F^T``, which is at least its largest eigenvalue.
    """

    pivots: np.ndarray
    factor: np.ndarray
    trace_left: float


def randomly_pivoted_cholesky(
    rows: Callable[[np.ndarray], np.ndarray],
    diagonal: np.ndarray,
    rank: int,
    *,
    trace_tol: float = 0.0,
    random_state: np.random.RandomState | int = 0,
    block: int = BLOCK,
) -> LowRank:
    r"""Choose pivots with probability proportional to the diagonal of what is left of K.

    Candidates are drawn in blocks and each is kept with the probability that the pivots kept
    before it in the block leave it, so that the choice has the same law as one by one. Only the
    candidates' rows of K are asked for.

    Parameters
    ----------
    rows : callable
        ``rows(indices)`` gives ``K[indices]``, shape (b, n).
    diagonal : ndarray or tensor of shape (n,)
        Where all of the work is done.
    rank : int
        Number of pivots at most.
    trace_tol : float
        Stop when the trace of what is left is at most this.
    random_state : RandomState or int
    block : int

    References
    ----------
    Chen, Epperly, Tropp and Webber (2025), "Randomly pivoted Cholesky", CPAM. Epperly, Tropp and
    Webber (2024), "Embrace rejection: kernel matrix approximation by accelerated randomly pivoted
    Cholesky".

    Examples
    --------
    >>> import numpy as np
    >>> K = np.diag([4.0, 0.0, 1.0])
    >>> low = randomly_pivoted_cholesky(lambda i: K[i], K.diagonal(), rank=3)
    >>> sorted(low.pivots.tolist()), low.trace_left
    ([0, 2], 0.0)
    """
    if not isinstance(random_state, np.random.RandomState):
        random_state = np.random.RandomState(random_state)
    n, xp = len(diagonal), namespace(diagonal)
    rank = min(rank, n)
    left = xp.clip(1.0 * to_float64(diagonal), 0.0, None)
    floor = n * EPS * float(left.max()) if n else 0.0
    left[left <= floor] = 0.0
    T = xp.empty((rank, n), dtype=left.dtype, device=left.device)  # F^T
    pivots: list[int] = []
    while len(pivots) < rank and left.sum() > trace_tol:
        k, below = len(pivots), backend(left).cumsum(left)
        heights = like(random_state.uniform(size=block), left) * below[-1]
        drawn = xp.clip(xp.searchsorted(below, heights, side="right"), 0, n - 1)
        K = like(rows(drawn), left)
        known = T[:k, drawn]
        rest = as_numpy(K[:, drawn] - known.T @ known)
        left[drawn[rest.diagonal() <= floor]] = 0.0
        kept, L = _accepted(rest, as_numpy(left[drawn]), floor, random_state)
        kept, L = kept[: rank - k], L[: rank - k, : rank - k]
        stop = k + len(kept)
        new = T[k:stop]
        new[:] = K[kept]
        new -= known[:, kept].T @ T[:k]
        _solve_lower(like(L, left), new)
        pivots.extend(as_numpy(drawn)[kept])
        left -= xp.einsum("ij,ij->j", new, new)
        left[left <= floor] = 0.0
        left[drawn[kept]] = 0.0
    r = len(pivots)
    return LowRank(np.array(pivots, dtype=np.intp), T[:r].T, float(left.sum()))


def _accepted(
    rest: np.ndarray, before: np.ndarray, floor: float, random_state: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Which candidates to keep, and the Cholesky factor of what is left of K among them.

    ``rest`` is overwritten by what is left when those kept are gone.
    """
    chance = random_state.uniform(size=len(rest)) * before
    kept: list[int] = []
    columns = np.zeros((len(rest), len(rest)))
    for i in range(len(rest)):
        if rest[i, i] <= max(chance[i], floor):
            continue
        column = rest[:, i] / np.sqrt(rest[i, i])
        column[kept] = 0.0
        columns[:, len(kept)] = column
        kept.append(i)
        rest -= np.outer(column, column)
    chosen = np.array(kept, dtype=np.intp)
    return chosen, columns[chosen, : len(kept)]


def _solve_lower(L: np.ndarray, B: np.ndarray, step: int = 16) -> None:
    """``B = L^{-1} B`` in place: forward substitution, a few rows at a time."""
    for first in range(0, len(L), step):
        here = slice(first, first + step)
        B[here] -= L[here, :first] @ B[:first]
        B[here] = namespace(L).linalg.inv(L[here, here]) @ B[here]
