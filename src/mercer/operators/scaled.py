"""A Gram operator between two diagonal matrices."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator

from mercer.operators.gram import GramOperator


class ScaledGram(LinearOperator):
    r"""S K S with S = diag(s); with a unit vector u, (I - uuᵀ) S K S (I - uuᵀ).

    Parameters
    ----------
    gram : GramOperator of shape (n, n)
    scale : (n,) array
        The diagonal of S.
    without : (n,) array or None
        The unit vector u, which is then mapped to zero.

    Examples
    --------
    >>> from mercer.operators import DenseGram
    >>> scaled = ScaledGram(DenseGram(np.ones((2, 2))), np.array([1.0, 3.0]))
    >>> (scaled @ np.eye(2)).tolist()
    [[1.0, 3.0], [3.0, 9.0]]
    """

    def __init__(self, gram: GramOperator, scale: np.ndarray, without: np.ndarray | None = None):
        super().__init__(gram.dtype, gram.shape)
        self.gram, self.scale, self.without = gram, scale, without

    def double(self) -> ScaledGram:
        """The same in float64 arithmetic."""
        return ScaledGram(self.gram.double(), self.scale, self.without)

    def _projected(self, V: np.ndarray) -> np.ndarray:
        return V if self.without is None else V - np.outer(self.without, self.without @ V)

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        scale = self.scale[:, None]
        return self._projected(scale * np.asarray(self.gram @ (scale * self._projected(V))))

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._matmat(v.reshape(-1, 1))[:, 0]

    def _adjoint(self) -> ScaledGram:
        return self

    _transpose = _adjoint
