"""Mean functions: what a Gaussian process has for a mean, up to coefficients with a flat prior."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import qr

from mercer.arrays import as_dense, as_numpy, n_rows

MEANS = {"zero", "constant", "linear"}
# A feature whose part orthogonal to the others is smaller than this, relatively, adds nothing.
INDEPENDENT = 1e-10


class MeanBasis:
    """The columns 1, and x - centre for a linear mean, at any points.

    Parameters
    ----------
    kind : {"constant", "linear"}
    X : the training points

    Examples
    --------
    >>> import numpy as np
    >>> MeanBasis("linear", np.array([[0.0], [2.0], [4.0]]))(np.array([[3.0]]))
    array([[1., 1.]])
    """

    def __init__(self, kind: str, X: Any):
        self.kind = kind
        if kind == "constant":
            return
        values = self._numbers(X)
        self.centre = values.mean(axis=0)
        centred = values - self.centre
        _, R, order = qr(centred, mode="economic", pivoting=True)
        sizes = np.abs(np.diagonal(R))
        rank = int(np.count_nonzero(sizes > INDEPENDENT * max(np.abs(values).max(), 1e-300)))
        self.features = np.sort(order[: min(rank, max(len(values) - 2, 0))])

    def __call__(self, X: Any) -> np.ndarray:
        ones = np.ones((n_rows(X), 1))
        if self.kind == "constant":
            return ones
        return np.hstack([ones, (self._numbers(X) - self.centre)[:, self.features]])

    def _numbers(self, X: Any) -> np.ndarray:
        if len(getattr(X, "shape", ())) != 2:
            raise ValueError(
                "mean='linear' needs points that are rows of numbers; for other objects choose "
                "'constant' or 'zero'"
            )
        return np.asarray(as_numpy(as_dense(X)), dtype=np.float64)


def mean_basis(kind: str, X: Any) -> MeanBasis | None:
    """The basis of a kind of mean; None for a mean of zero."""
    return None if kind == "zero" else MeanBasis(kind, X)
