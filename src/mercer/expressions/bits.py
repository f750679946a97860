"""Points whose features are 0 or 1, as the bits of words."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import Array, row_blocks

# With fewer features, or of sparse points with more than so many and so many times what a point has
# on average, other ways are as fast.
FEWEST_FEATURES = 64
ALWAYS, SPARSEST = 2048, 48
# Rows that are looked at before all others, and bytes that are packed at a time.
FIRST = 16
BLOCK_BYTES = 2**22


def bits_of_both(F: Array, G: Array, dtype: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Two sets of points as bits, or None where these are not all 0 or 1, or not worth it.

    Words of the size of a number of the dtype, seen as such numbers: shape (n, words).
    """
    if not all(_may_be_bits(A) for A in (F, G)):
        return None
    if not all(_is_binary(A) for A in ((F,) if F is G else (F, G))):
        return None
    left = _packed(F, np.dtype(dtype))
    return left, left if F is G else _packed(G, np.dtype(dtype))


def _may_be_bits(A: Any) -> bool:
    """A quick necessary condition: enough features, and first rows of 0 and 1."""
    if sp.issparse(A) and A.ndim == 2:
        few = A.shape[1] <= ALWAYS or A.shape[1] * A.shape[0] <= SPARSEST * A.nnz
        return A.shape[1] >= FEWEST_FEATURES and A.format == "csr" and few
    if not isinstance(A, np.ndarray) or A.ndim != 2 or A.shape[1] < FEWEST_FEATURES:
        return False
    return A.dtype.kind in "fiub" and _zeros_and_ones(A[:FIRST])


def _is_binary(A: Array) -> bool:
    if sp.issparse(A):
        if not np.all(A.data == 1):
            return False
        return (A if A.has_sorted_indices else A.sorted_indices()).has_canonical_format
    return all(_zeros_and_ones(A[rows]) for rows in _blocks(A))


def _zeros_and_ones(A: np.ndarray) -> bool:
    return bool(np.all((A == 0) | (A == 1)))


def _packed(A: Array, dtype: np.dtype) -> np.ndarray:
    words = -(-A.shape[1] // (8 * dtype.itemsize))
    out = np.zeros((A.shape[0], words * dtype.itemsize), dtype=np.uint8)
    for rows in _blocks(A):
        if sp.issparse(A):
            _set_bits(out[rows], A.indptr[rows.start : rows.stop + 1], A.indices)
        else:
            packed = np.packbits(A[rows] != 0, axis=1)
            out[rows, : packed.shape[1]] = packed
    return out.view(dtype)


def _set_bits(out: np.ndarray, starts: np.ndarray, indices: np.ndarray) -> None:
    """Set the bits of some rows whose entries, all different, begin at ``starts``."""
    indices = indices[starts[0] : starts[-1]]
    places = np.repeat(np.arange(len(out)) * out.shape[1], np.diff(starts)) + indices // 8
    np.add.at(out.reshape(-1), places, np.uint8(128) >> (indices % 8).astype(np.uint8))


def _blocks(A: Array) -> Any:
    entries = A.nnz / max(1, A.shape[0]) if sp.issparse(A) else A.shape[1]
    return row_blocks(A.shape[0], entries * A.dtype.itemsize, BLOCK_BYTES)
