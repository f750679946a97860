"""LIBSVM's layout of the coefficients of many classes."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def pairwise_layout(coefficients: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Coefficients of all pairs, (n_SV, n_pairs), in LIBSVM's layout, (n_classes - 1, n_SV).

    Examples
    --------
    >>> import numpy as np
    >>> pairwise_layout(np.array([[1.0, 2.0, 0.0], [-1.0, 0.0, 3.0]]), np.array([0, 1]), 3)
    array([[ 1., -1.],
           [ 2.,  3.]])
    """
    layout = np.zeros((n_classes - 1, len(codes)))
    members = [np.flatnonzero(codes == c) for c in range(n_classes)]
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        layout[j - 1, members[i]] = coefficients[members[i], column]
        layout[i, members[j]] = coefficients[members[j], column]
    return layout


def pairwise_columns(layout: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """The inverse of `pairwise_layout`, for support points in the order of their classes.

    Examples
    --------
    >>> import numpy as np
    >>> pairwise_columns(np.array([[1.0, -1.0], [2.0, 3.0]]), np.array([1, 1, 0]))
    array([[ 1.,  2.,  0.],
           [-1.,  0.,  3.]])
    """
    k, ends = len(n_support), np.concatenate([[0], np.cumsum(n_support)])
    columns = np.zeros((ends[-1], k * (k - 1) // 2))
    for column, (i, j) in enumerate(combinations(range(k), 2)):
        for one, other in ((i, j - 1), (j, i)):
            rows = slice(ends[one], ends[one + 1])
            columns[rows, column] = layout[other, rows]
    return columns
