"""Prediction intervals from leave-one-out residuals of training rows with similar predictions."""

from __future__ import annotations

import numpy as np

from mercer.arrays import row_blocks

# Training rows whose residuals an interval is from: at least so many, and this fraction of all.
_FEWEST_RESIDUALS, _FRACTION_OF_ROWS = 200, 0.1


def sorted_residuals(left_out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Leave-one-out predictions and residuals, (t, 2, n), in the order of the predictions.

    Parameters
    ----------
    left_out, y : (n, t) arrays
    """
    order = np.argsort(left_out, axis=0, kind="stable")
    predicted = np.take_along_axis(left_out, order, axis=0)
    residual = np.take_along_axis(y - left_out, order, axis=0)
    return np.stack([predicted.T, residual.T], axis=1)


def intervals(predicted: np.ndarray, known: np.ndarray, coverage: float) -> np.ndarray:
    """Lower and upper ends (2, m) about predictions (m,), each missed by half of what remains.

    Parameters
    ----------
    predicted : (m,) array
    known : (2, n) array
        Of one target, as `sorted_residuals` makes them.
    coverage : float

    Examples
    --------
    >>> import numpy as np
    >>> known = np.stack([np.zeros(199), np.arange(-99.0, 100.0)])
    >>> intervals(np.array([5.0]), known, 0.9).ravel().tolist()
    [-85.0, 95.0]
    """
    n = known.shape[1]
    k = min(n, max(_FEWEST_RESIDUALS, int(_FRACTION_OF_ROWS * n)))
    # The rank of an end among k residuals and a new one.
    rank = int(np.ceil((1 + coverage) / 2 * (k + 1) - 1e-9))
    if rank > k:
        return np.stack([np.full(len(predicted), -np.inf), np.full(len(predicted), np.inf)])
    place = np.searchsorted(known[0], predicted)
    first = np.clip(place - k // 2, 0, n - k)
    starts, which = np.unique(first, return_inverse=True)
    ends = np.empty((2, len(starts)))
    for rows in row_blocks(len(starts), 8 * k):
        window = known[1][starts[rows, None] + np.arange(k)]
        window.partition([k - rank, rank - 1], axis=1)
        ends[:, rows] = window[:, [k - rank, rank - 1]].T
    return predicted + ends[:, which]
