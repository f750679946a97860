"""Sparse rows of many columns as points: scaled so that zeros stay zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import check_feature_names, check_n_features
from mercer.arrays import refuse_non_finite

SPARSE_SCALINGS = ("common", "columns", "rows", "rare")
# Sparse matrices of no more columns and entries, zeros included, are coded as tables: features
# can then have a mean, a scale each, and gaps. So are matrices with half of their entries stored,
# which take less memory dense.
TABLE_COLUMNS, TABLE_ENTRIES = 1000, 2**23
# A column's place is looked up in a table where that has so many entries for each one stored.
_LOOKUP = 4


def stays_sparse(X: Any) -> bool:
    """Whether a matrix is sparse, and too large or too wide to be coded as a table."""
    if not sp.issparse(X) or X.ndim != 2:
        return False
    entries = X.shape[0] * X.shape[1]
    few = entries <= TABLE_ENTRIES and X.shape[1] <= TABLE_COLUMNS
    return not (few or 2 * X.nnz >= entries)


def sparse_rows(X: Any) -> sp.csr_array:
    """X as a CSR matrix of float64 in canonical form, with missing values as zeros."""
    if getattr(X, "dtype", np.dtype(float)).kind == "c":
        raise ValueError("Complex data not supported")
    rows = sp.csr_array(X).astype(np.float64, copy=False)
    if rows.has_canonical_format and rows.data.all() and not np.isnan(rows.data.sum()):
        refuse_non_finite(rows)
        return rows
    rows = rows.copy()  # may be the caller's
    rows.sum_duplicates()
    rows.data[np.isnan(rows.data)] = 0.0
    rows.eliminate_zeros()
    refuse_non_finite(rows)
    return rows


class SparseCoding(TransformerMixin, BaseEstimator):
    r"""Sparse rows as sparse points: columns of training that are not empty, scaled.

    Memory and time go with the entries that are stored. A missing value counts as zero. Columns
    that were empty in training are left out, since nothing can be learnt of them.

    Parameters
    ----------
    scaling : {"common", "columns", "rows", "rare"}, default="common"
        All columns by one factor; each column by its largest absolute value; each row to length
        one, so that dot products are cosines; or each column by
        :math:`1 + \log\frac{1 + n}{1 + n_j}`, with :math:`n_j` of n rows in which it is not zero,
        and then each row to length one, as words of texts are weighted (tf-idf). Rows have mean
        squared length one in all of them.

    Attributes
    ----------
    columns_ : ndarray of shape (n_coordinates,)
        The columns that the coordinates come from.
    factors_ : ndarray of shape (n_coordinates,)

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> X = sp.csr_array([[0.0, 3.0, 0.0, 4.0], [0.0, 0.0, 0.0, 2.0]])
    >>> coding = SparseCoding("rows").fit(X)
    >>> coding.columns_.tolist(), coding.transform(X).toarray().tolist()
    ([1, 3], [[0.6, 0.8], [0.0, 1.0]])
    """

    def __init__(self, scaling: str = "common"):
        self.scaling = scaling

    @property
    def owners_(self) -> np.ndarray:
        """The column that each coordinate comes from."""
        return self.columns_

    def fit(self, X: Any, y: Any = None) -> SparseCoding:
        rows = sparse_rows(X)
        check_n_features(self, rows, reset=True)
        n, width = rows.shape
        # Not np.unique of the entries, which sorts them.
        if width <= _LOOKUP * rows.nnz:
            counts = np.bincount(rows.indices, minlength=width)
            self.columns_ = np.flatnonzero(counts)
            counts = counts[self.columns_]
        else:
            self.columns_, counts = np.unique(rows.indices, return_counts=True)
        self.columns_ = self.columns_.astype(np.int64)
        self.factors_ = np.ones(len(self.columns_))
        if self.scaling == "rare":
            self.factors_ = 1 + np.log((1 + n) / (1 + counts))
        if self.scaling == "columns":
            largest = np.zeros(len(self.columns_))
            np.maximum.at(largest, self._places(rows)[0], np.abs(rows.data))
            self.factors_ = 1 / largest
        if self.scaling in ("common", "columns") and rows.nnz:
            data = rows.data * self.factors_[self._places(rows)[0]]
            largest = np.abs(data).max()
            self.factors_ = self.factors_ / largest
            self.factors_ /= np.sqrt(np.sum((data / largest) ** 2) / n)
        return self

    def _places(self, rows: sp.csr_array) -> tuple[np.ndarray, np.ndarray | None]:
        """Where each entry's column is among the coordinates; which are, None for all."""
        width, count = rows.shape[1], len(self.columns_)
        if width <= _LOOKUP * (rows.nnz + count):
            lookup = np.full(width, -1, dtype=np.int32)
            lookup[self.columns_] = np.arange(count, dtype=np.int32)
            places = lookup[rows.indices]
            known = places >= 0
        else:
            places = np.searchsorted(self.columns_, rows.indices).astype(np.int32)
            known = places < count
            known[known] = self.columns_[places[known]] == rows.indices[known]
        return places, None if known.all() else known

    def transform(self, X: Any, model: Any = None) -> sp.csr_array:
        """The points, a CSR matrix of shape (n, n_coordinates).

        ``model`` is the estimator whose name errors have, by default this one.
        """
        check_is_fitted(self)
        model = self if model is None else model
        check_feature_names(model, X, reset=False)
        check_n_features(model, X, reset=False)
        rows = sparse_rows(X)
        places, known = self._places(rows)
        data, ends = rows.data, rows.indptr
        if known is not None:
            ends = np.append(0, np.cumsum(known))[ends]
            data, places = data[known], places[known]
        data = data * self.factors_[places]
        if self.scaling in ("rows", "rare"):
            data = _of_length_one(data, ends)
        # The columns stay in order.
        points = sp.csr_array((data, places, ends), shape=(rows.shape[0], len(self.columns_)))
        points.has_canonical_format = True
        return points


def _of_length_one(data: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The entries of each row divided by the row's length, in place."""
    sizes = np.diff(ends)
    filled = np.flatnonzero(sizes)
    if not filled.size:
        return data
    starts, sizes = ends[filled], sizes[filled]
    data /= np.repeat(np.maximum.reduceat(np.abs(data), starts), sizes)
    data /= np.repeat(np.sqrt(np.add.reduceat(data**2, starts)), sizes)
    return data


def are_all_equal(points: Any) -> bool:
    """Whether all points, dense or CSR in canonical form, are the same."""
    if not sp.issparse(points):
        return bool(np.all(points == points[:1]))
    sizes = np.diff(points.indptr)
    if np.any(sizes != sizes[0]):
        return False
    shape = (len(sizes), int(sizes[0]))
    indices, data = points.indices.reshape(shape), points.data.reshape(shape)
    return bool(np.all(indices == indices[:1]) and np.all(data == data[:1]))
