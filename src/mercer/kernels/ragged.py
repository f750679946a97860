"""Many short ranges in one array: the vectorised form of a loop over lists of unequal length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def ragged_arange(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The ranges start, start + 1, ... of the given lengths, one after the other.

    Examples
    --------
    >>> ragged_arange(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)


def weighted_blocks(weights: np.ndarray, limit: float) -> Iterator[slice]:
    """Slices that cover the weights in order, each of at most the limit in all, or of one item.

    Examples
    --------
    >>> list(weighted_blocks(np.array([1, 1, 5, 2]), 3))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    ends = np.cumsum(weights)
    start, done = 0, 0.0
    while start < len(weights):
        stop = max(start + 1, int(np.searchsorted(ends, done + limit, side="right")))
        yield slice(start, stop)
        start, done = stop, float(ends[stop - 1])
