"""Features named by short rows of whole numbers, each with a column, in a table of the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import core
from mercer.kernels.vocabulary import sparse_rows


class KeyVocabulary:
    """Rows of `width` numbers of 32 bits, each with a column.

    Examples
    --------
    >>> vocabulary = KeyVocabulary(1)
    >>> keys = np.array([[7], [7], [9]], dtype=np.uint32)
    >>> vocabulary.count(keys, np.array([0, 2, 3]), grow=True).toarray()
    array([[2., 0.],
           [0., 1.]])
    """

    def __init__(self, width: int) -> None:
        self.table = core.table(width)

    def __len__(self) -> int:
        return self.table.size

    def __iter__(self) -> Iterator[Any]:
        keys = self.table.keys()
        return (row.tobytes().hex() for row in keys)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "table": self.table.keys()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        keys = state["table"]
        self.table = core.table(keys.shape[1])
        self.table.count_keys(keys, np.array([0, len(keys)]), True)

    def count(self, keys: np.ndarray, starts: np.ndarray, grow: bool) -> sp.csr_array:
        """How often each key comes in each object.

        Parameters
        ----------
        keys : (N, width) uint32 array
        starts : (n + 1,) int64 array
            The keys of object i are those from starts[i] to starts[i + 1].
        grow : bool
            Whether new keys get a column; else they are left out.
        """
        return sparse_rows(*self.table.count_keys(keys, starts, grow), width=len(self))

    def weigh(
        self, keys: np.ndarray, weights: np.ndarray, starts: np.ndarray, grow: bool
    ) -> sp.csr_array:
        """Rows with these weights; each object has each of its keys once.

        Parameters
        ----------
        keys : (N, width) uint32 array
        weights : (N,) float64 array
        starts : (n + 1,) int64 array
        grow : bool
        """
        found, columns, _ = self.table.count_keys(keys, np.arange(len(keys) + 1), grow)
        known = np.diff(found) > 0
        return sparse_rows(found[starts], columns, weights[known], width=len(self))
