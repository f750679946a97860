"""Sums over the columns of two sparse matrices, for all pairs of their rows, by the core."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mercer import core


def sparse_products(A: sp.csr_array, B: sp.csr_array) -> np.ndarray:
    """Σ_u a_u b_u for all rows a and b."""
    return _sparse_gram(A, B, minimum=False)


def sparse_minima(A: sp.csr_array, B: sp.csr_array) -> np.ndarray:
    """Σ_u min(a_u, b_u) for all rows a and b, of numbers that are not negative."""
    return _sparse_gram(A, B, minimum=True)


def _sparse_gram(A: sp.csr_array, B: sp.csr_array, minimum: bool) -> np.ndarray:
    left = _compressed(A)
    right = left if A is B else _compressed(B)
    threads = core.threads(A.shape[0] * B.shape[0], A.nnz // max(1, A.shape[0]))
    return core.sparse_routines().sparse_gram(*left, *right, A.shape[1], minimum, A is B, threads)


def _compressed(A: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where rows start, columns and values, in the types of the core."""
    return (
        A.indptr.astype(np.int64, copy=False),
        A.indices.astype(np.int32, copy=False),
        A.data.astype(np.float64, copy=False),
    )
