"""Factors of symmetric matrices that are tensors, computed where those are."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import LazyModule, as_numpy, like

torch: Any = LazyModule("torch")

# Pivots between two updates of all that is left.
BLOCK = 128


def upper_factor(K: Any) -> Any:
    """The upper triangular U with ``K = U^T U``, or None where K is not positive definite."""
    L, failed = torch.linalg.cholesky_ex(K)
    return None if int(failed) else L.T.contiguous()


def triangular_inverse(upper: Any) -> Any:
    """``U^{-1}`` of an upper triangular tensor."""
    one = torch.eye(len(upper), dtype=upper.dtype, device=upper.device)
    return torch.linalg.solve_triangular(upper, one, upper=True)


def triangular_product(upper: Any, V: np.ndarray, transposed: bool = False) -> np.ndarray:
    """``U^{-1} V`` or ``U^{-T} V`` for an array V (r, t), solved where U is."""
    A = upper.T if transposed else upper
    solution = torch.linalg.solve_triangular(A, like(V, upper), upper=not transposed)
    return as_numpy(solution)


def pivoted_factor(K: Any, floor: float, block: int = BLOCK) -> tuple[Any, np.ndarray]:
    r"""Cholesky with the largest pivot first, to where all that is left is at most ``floor``.

    Parameters
    ----------
    K : tensor of shape (n, n)
        Symmetric positive semidefinite up to rounding.
    floor : float
    block : int
        The host looks at pivots so many at a time.

    Returns
    -------
    U : tensor of shape (r, r)
        Upper triangular, with ``U^T U = K[order][:, order]``.
    order : ndarray of shape (r,)
        The pivots as chosen.

    References
    ----------
    Higham (2002), "Accuracy and stability of numerical algorithms", section 10.3.
    """
    n, left, rank = len(K), K.clone(), 0
    rows = torch.zeros_like(K)  # of U, their columns in K's order
    order = torch.zeros(n, dtype=torch.int64, device=K.device)
    while rank < n:
        diagonal, new = left.diagonal().clone(), rows[rank : rank + block]
        chosen, pivots = order[rank : rank + block], []
        for i in range(len(new)):
            at = torch.argmax(diagonal, 0, keepdim=True)  # which the host does not wait for
            chosen[i : i + 1] = at
            pivots.append(diagonal[at])
            row = (left[at] - new[:i, at].T @ new[:i]) * torch.rsqrt(pivots[-1])
            new[i] = row[0]
            diagonal -= new[i] ** 2
            diagonal.index_fill_(0, at, -torch.inf)
        small = np.flatnonzero(~(as_numpy(torch.cat(pivots)) > floor))
        found = int(small[0]) if len(small) else len(new)
        rank += found
        if found < len(new):
            break
        left -= new.T @ new
        left[chosen] = 0.0
        left[:, chosen] = 0.0
        left.diagonal()[order[:rank]] = -torch.inf
    order = order[:rank]
    return torch.triu(rows[:rank, order]), as_numpy(order)
