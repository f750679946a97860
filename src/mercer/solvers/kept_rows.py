"""Rows of a Gram matrix, computed when first asked for and kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.operators import DenseGram
from mercer.solvers.quadratic_program import RestrictedGram

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class KeptRows:
    """The rows that working sets have asked for, shared by all programmes on one Gram matrix.

    Memory is reserved for all rows, and taken for those computed.

    Parameters
    ----------
    K : ndarray or Gram operator of shape (n, n)
        An array is used as it is.

    Attributes
    ----------
    rows : ndarray of shape (n, n)
        The first ones are filled; float32 where K is, else float64.
    slot : int64 ndarray of shape (n,)
        Which of them is the row of each point, -1 for none.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.operators import FeatureGram
    >>> kept = KeptRows(FeatureGram(np.eye(3), np.eye(3)))
    >>> kept.fetch(np.array([2, 2, 0]))
    >>> kept.slot
    array([ 0, -1,  1])
    """

    def __init__(self, K: Any):
        n = K.shape[0]
        K = K.K if isinstance(K, DenseGram) else K
        self.K = K
        if isinstance(K, np.ndarray):
            self.rows = np.ascontiguousarray(K, dtype=_kept_dtype(K))
            self.slot = np.arange(n, dtype=np.int64)
            return
        self.rows = np.empty((n, n), dtype=_kept_dtype(K))
        self.slot = np.full(n, -1, dtype=np.int64)
        self.count = 0

    def fetch(self, points: np.ndarray) -> None:
        """Have the rows of these points."""
        missing = np.unique(points)
        missing = missing[self.slot[missing] < 0]
        if not len(missing):
            return
        stop = self.count + len(missing)
        self.K.fill(missing, self.rows[self.count : stop])
        self.slot[missing] = np.arange(self.count, stop)
        self.count = stop


def origin(K: Any) -> tuple[Any, np.ndarray]:
    """The Gram matrix that K is a part of, and the places of K's points in it."""
    if isinstance(K, RestrictedGram):
        return K.K, np.ascontiguousarray(K.index, dtype=np.int64)
    return K, np.arange(K.shape[0], dtype=np.int64)


def kept_bytes(K: Any) -> int:
    """Bytes that all rows would take, beside those that K itself has."""
    stored = K.K if isinstance(K, DenseGram) else K
    if isinstance(stored, np.ndarray) and stored.flags.c_contiguous and stored.dtype in _FLOATS:
        return 0
    return K.shape[0] ** 2 * _kept_dtype(K).itemsize


def _kept_dtype(K: Any) -> np.dtype:
    return np.dtype(np.float32 if getattr(K, "dtype", None) == np.float32 else np.float64)
