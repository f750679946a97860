"""How far new rows are from the training rows, by the model's own kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import n_rows, row_blocks, take_rows
from mercer.kernels import Kernel

# Training points that distances are calibrated on.
_REFERENCE = 1000


def novelty(kernel: Kernel, points: Any, training: Any) -> np.ndarray:
    r"""The fraction of training points that are closer to another one than a point is to any.

    By the similarity :math:`k(x, z) / \sqrt{k(x, x)\,k(z, z)}`: zero at a training point, and one
    for a point farther from all training points than any of these is from its nearest neighbour.

    Parameters
    ----------
    kernel : Kernel
    points : m points
    training : n points

    Returns
    -------
    (m,) array

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels as K
    >>> novelty(K.RBF(), np.array([[0.0], [9.0]]), np.array([[0.0], [1.0], [3.0]])).tolist()
    [0.0, 1.0]
    """
    n = n_rows(training)
    some = np.unique(np.linspace(0, n - 1, min(n, _REFERENCE)).astype(int))
    known = np.sort(_nearest(kernel, take_rows(training, some), training, some))
    found = _nearest(kernel, points, training)
    return 1 - np.searchsorted(known, found, side="right") / len(known)


def _nearest(kernel: Kernel, A: Any, B: Any, own: np.ndarray | None = None) -> np.ndarray:
    """The largest similarity of each point of A to those of B, but for ``B[own[i]]`` to A[i]."""
    found = np.empty(n_rows(A))
    sizes = _sizes(kernel, B)
    for rows in row_blocks(n_rows(A), 8 * n_rows(B)):
        part = take_rows(A, rows)
        K = np.asarray(kernel(part, B), dtype=float) / sizes / _sizes(kernel, part)[:, None]
        if own is not None:
            K[np.arange(len(K)), own[rows]] = -np.inf
        found[rows] = K.max(axis=1)
    return found


def _sizes(kernel: Kernel, A: Any) -> np.ndarray:
    return np.sqrt(np.maximum(np.asarray(kernel.diag(A), dtype=float), 1e-300))
