"""Rows of a Gram matrix, computed when first asked for and kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.operators import DenseGram, FeatureGram, TiledGram
from mercer.solvers.qp.restricted_gram import RestrictedGram

# Columns that a run has on average, at least.
_SHORTEST = 64
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class CachedRows:
    """The rows that working sets have asked for, shared by all problems on one Gram matrix.

    Memory is reserved for all rows, and taken for those computed. Of a row, only the runs of
    columns are computed that belong to the points of a problem that asks: with a problem per
    pair of classes and the points class by class, less than half of most rows.

    Parameters
    ----------
    K : ndarray or Gram operator of shape (n, n)
        An array is used as it is.
    parts : sequence of int64 arrays
        The columns of each problem.

    Attributes
    ----------
    rows : ndarray of shape (n, n)
        The first ones are filled; float32 where K is, else float64.
    slots : list of int64 ndarrays of shape (n,)
        For each problem, which of them is the row of each point, -1 for none.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.operators import FeatureGram
    >>> kept = CachedRows(FeatureGram(np.eye(3), np.eye(3)), [np.arange(3), np.arange(2)])
    >>> kept.fetch([(0, np.array([2, 2, 0]))])
    >>> kept.slots
    [array([ 0, -1,  1]), array([-1, -1, -1])]
    """

    def __init__(self, K: Any, parts: Sequence[np.ndarray]):
        n = K.shape[0]
        K = K.K if isinstance(K, DenseGram) else K
        self.K = K
        if isinstance(K, np.ndarray):
            self.rows = np.ascontiguousarray(K, dtype=_kept_dtype(K))
            self.slots = [np.arange(n, dtype=np.int64)] * len(parts)
            return
        self.rows = np.empty((n, n), dtype=_kept_dtype(K))
        self.slots = [np.full(n, -1, dtype=np.int64) for _ in parts]
        self.place = np.full(n, -1, dtype=np.int64)
        self.count = 0
        in_runs = isinstance(K, TiledGram | FeatureGram)
        self.runs, self.takes = _runs(parts, n) if in_runs else _whole(parts, n)
        self.have = np.zeros((n, len(self.runs)), dtype=bool)

    def fetch(self, needed: Sequence[tuple[int, np.ndarray]]) -> None:
        """Have rows for problems, given by number: each as far as its columns go."""
        wanted = np.zeros_like(self.have)
        for program, points in needed:
            wanted[points] |= self.takes[program]
        wanted &= ~self.have
        missing = np.flatnonzero(wanted.any(axis=1))
        if 2 * np.count_nonzero(wanted) > self.have.size and isinstance(self.K, TiledGram):
            self._fill()
            return
        new = missing[self.place[missing] < 0]
        first, self.count = self.count, self.count + len(new)
        self.place[new] = np.arange(first, self.count)
        for run, asked in zip(self.runs, wanted.T, strict=True):
            points = np.flatnonzero(asked)
            if len(points):
                self.K.put(points, self.place[points], run, self.rows)
        self.have |= wanted
        for program, points in needed:
            self.slots[program][points] = self.place[points]

    def _fill(self) -> None:
        """Have all rows: half of them take as long as all, one half of which is mirrored."""
        self.rows = np.empty((0, 0))
        self.rows = self.K.dense()
        self.slots[:] = [np.arange(len(self.rows), dtype=np.int64)] * len(self.slots)
        self.have[:] = True


def _whole(parts: Sequence[np.ndarray], n: int) -> tuple[list[slice], np.ndarray]:
    return [slice(0, n)], np.ones((len(parts), 1), dtype=bool)


def _runs(parts: Sequence[np.ndarray], n: int) -> tuple[list[slice], np.ndarray]:
    """Runs of columns that the same problems take, and which problem takes which.

    One run of all columns where they are too short to be worth a pass of their own.

    Examples
    --------
    >>> runs, takes = _runs([np.arange(0, 200), np.arange(100, 300)], 300)
    >>> runs, takes.tolist()
    ([slice(0, 100, None), slice(100, 200, None), slice(200, 300, None)], [[True, True, False], \
[False, True, True]])
    """
    takes = np.zeros((len(parts), n), dtype=bool)
    for part, taken in zip(parts, takes, strict=True):
        taken[part] = True
    ends = np.flatnonzero(np.any(takes[:, 1:] != takes[:, :-1], axis=0)) + 1
    starts, stops = [0, *ends.tolist()], [*ends.tolist(), n]
    if len(starts) * _SHORTEST > n:
        return _whole(parts, n)
    return [slice(i, j) for i, j in zip(starts, stops, strict=True)], takes[:, starts]


def origin(K: Any) -> tuple[Any, np.ndarray]:
    """The Gram matrix that K is a part of, and the places of K's points in it."""
    if isinstance(K, RestrictedGram):
        return K.K, np.ascontiguousarray(K.index, dtype=np.int64)
    return K, np.arange(K.shape[0], dtype=np.int64)


def cache_bytes(K: Any) -> int:
    """Bytes that all rows would take, in addition to those of K itself."""
    stored = K.K if isinstance(K, DenseGram) else K
    if isinstance(stored, np.ndarray) and stored.flags.c_contiguous and stored.dtype in _FLOATS:
        return 0
    return K.shape[0] ** 2 * _kept_dtype(K).itemsize


def _kept_dtype(K: Any) -> np.dtype:
    return np.dtype(np.float32 if getattr(K, "dtype", None) == np.float32 else np.float64)
