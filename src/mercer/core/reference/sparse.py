"""Gram matrices of sparse rows: the NumPy twin of the native routine."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def sparse_gram(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    indptr2: np.ndarray,
    indices2: np.ndarray,
    data2: np.ndarray,
    width: int,
    minimum: bool,
    symmetric: bool,
    threads: int = 0,
) -> np.ndarray:
    """Σ_c x_c y_c, or Σ_c min(x_c, y_c), of the rows of two matrices in compressed form: (n, m).

    Minima are of numbers that are not negative; ``symmetric`` says that both are the same matrix.
    """
    A, B = (
        sp.csr_array((d, i, p), shape=(len(p) - 1, width))
        for p, i, d in ((indptr, indices, data), (indptr2, indices2, data2))
    )
    if not minimum:
        return (A @ B.T).toarray()
    out = np.zeros((A.shape[0], B.shape[0]))
    columns = B.tocsc()
    for i in range(A.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            c = indices[k]
            has = slice(columns.indptr[c], columns.indptr[c + 1])
            out[i, columns.indices[has]] += np.minimum(data[k], columns.data[has])
    return out
