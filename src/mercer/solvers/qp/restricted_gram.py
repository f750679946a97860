"""The Gram matrix of some of an operator's points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import as_numpy
from mercer.cached import cached_property
from mercer.operators import DenseGram


class RestrictedGram:
    """The Gram matrix of some of the points of another, an array or an operator."""

    def __init__(self, K: Any, index: np.ndarray):
        self.K = K
        self.index = index
        self.shape = (len(index), len(index))
        self.dtype = K.dtype

    @cached_property
    def part(self) -> Any:
        """An operator of these points alone, where there is one; else None."""
        if isinstance(self.K, np.ndarray):
            return DenseGram(self.K[np.ix_(self.index, self.index)])
        return self.K.part(self.index)

    def forget(self) -> None:
        """Let go of the operator of these points, until it is asked for again."""
        self.__dict__.pop("part", None)

    def diagonal(self) -> np.ndarray:
        return as_numpy(self.K.diagonal())[self.index]

    def rows(self, indices: Any) -> np.ndarray:
        if self.part is not None:
            return self.part.rows(indices)
        return np.asarray(self.K.rows(self.index[indices]))[:, self.index]

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if isinstance(self.K, np.ndarray):
            return self.K[np.ix_(self.index[rows], self.index[columns])]
        if self.part is not None:
            return self.part.block(rows, columns)
        return np.asarray(self.K.block(self.index[rows], self.index[columns]))

    def dense(self) -> np.ndarray:
        return self.rows(slice(None)) if self.part is None else self.part.dense()

    def put(self, rows: np.ndarray, places: np.ndarray, columns: slice, out: np.ndarray) -> None:
        if self.part is not None:
            self.part.put(rows, places, columns, out)
        else:
            out[places, columns] = self.rows(rows)[:, columns]

    def combination(self, indices: np.ndarray, V: np.ndarray) -> np.ndarray:
        if self.part is not None:
            return self.part.combination(indices, V)
        return self.rows(indices).T.astype(np.float64) @ V

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        if self.part is not None:
            return np.asarray(self.part @ v)
        padded = np.zeros((self.K.shape[0], *np.shape(v)[1:]))
        padded[self.index] = v
        return np.asarray(self.K @ padded)[self.index]


def restrict(K: Any, index: np.ndarray) -> Any:
    """K on the points ``index``, as an operator; K itself where those are all.

    Examples
    --------
    >>> import numpy as np
    >>> restrict(np.arange(9.0).reshape(3, 3), np.array([0, 2])).dense()
    array([[0., 2.],
           [6., 8.]])
    """
    if len(index) == K.shape[0] and np.array_equal(index, np.arange(len(index))):
        return K
    if isinstance(K, RestrictedGram):
        return RestrictedGram(K.K, K.index[index])
    return RestrictedGram(K, index)
