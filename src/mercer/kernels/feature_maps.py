"""Finite feature maps: transformers whose inner products are a kernel, to rounding.

They travel through the algebra: a sum concatenates, a product takes the tensor product, a power
takes monomials, scaling and normalisation multiply. A map refuses to build something larger than
the memory budget before it starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array, as_dense, as_vectors, n_rows
from mercer.arrays.remote import over_blocks
from mercer.kernels.budget import BYTES_PER_ENTRY, quantity, refuse_oversized
from mercer.kernels.domains import INDICES
from mercer.kernels.monomials import dense_monomials, n_sparse_monomials, sparse_monomials

LARGEST_DEGREE = 10_000
INSTEAD = "use the kernel itself or approximate_map"


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """phi with phi(x)·phi(z) = k(x, z). Subclasses write `width` and `embed`, some `learn`."""

    n_features_out_: int | None

    def width(self, X: Any) -> int | None:
        """How many features the map gives on points like X; None where only fitting shows it."""
        raise NotImplementedError

    def embed(self, X: Any) -> Array:
        """phi(X), dense or CSR, shape (n, width)."""
        raise NotImplementedError

    def learn(self, X: Any) -> None:
        """What the map needs to know from the points it is fitted on: a vocabulary, a maximum."""

    def is_sparse(self, X: Any) -> bool:
        """Whether phi(X) is sparse."""
        return sp.issparse(X)

    def fit(self, X: Any, y: Any = None) -> FeatureMap:
        self.learn(X)
        self.n_features_out_ = self.width(X)
        return self

    @over_blocks
    def transform(self, X: Any) -> Array:
        return self.mapped(X)

    def mapped(self, X: Any) -> Array:
        """phi(X) as an array, whatever container scikit-learn is set to give."""
        check_is_fitted(self)
        width = self.width(X)
        if width is not None:
            self._refuse_wide(X, width)
        return self.embed(X)

    def _refuse_wide(self, X: Any, width: int) -> None:
        if not self.is_sparse(X):
            what = f"the feature map has {quantity(width)} features for {n_rows(X):,} points"
            refuse_oversized(8 * n_rows(X) * width, what, INSTEAD)
        elif width > np.iinfo(np.int64).max:
            raise MemoryError(
                f"the feature map has {quantity(width)} features, more than a sparse matrix can "
                f"number; {INSTEAD}"
            )

    @property
    def _n_features_out(self) -> int | None:
        return self.n_features_out_


def refuse_entries(n_entries: int) -> None:
    """Raise a MemoryError before sparse features with this many entries are built."""
    what = f"the feature map has {quantity(n_entries)} entries that are not zero"
    refuse_oversized(BYTES_PER_ENTRY * n_entries, what, INSTEAD)


class _VectorMap(FeatureMap):
    """A map of points in R^d, with the d it was fitted on."""

    def learn(self, X: Any) -> None:
        self.n_features_in_ = as_vectors(X).shape[1]

    def points(self, X: Any) -> Array:
        X = as_vectors(X)
        expected = getattr(self, "n_features_in_", X.shape[1])
        if X.shape[1] != expected:
            raise ValueError(
                f"X has {X.shape[1]} features; the feature map was fitted on {expected}"
            )
        return X


class IdentityMap(_VectorMap):
    """x itself, the map of the linear kernel."""

    def width(self, X: Any) -> int:
        return self.points(X).shape[1]

    def embed(self, X: Any) -> Array:
        return self.points(X)


class FunctionMap(FeatureMap):
    """A function of the points given by the user."""

    def __init__(self, function: Callable[[Any], Any]):
        self.function = function

    def width(self, X: Any) -> int:
        return self.embed(X[:1] if hasattr(X, "__getitem__") else X).shape[1]

    def embed(self, X: Any) -> Array:
        return as_vectors(self.function(X), "the function's output")


class ConstantMap(FeatureMap):
    """sqrt(value), one feature."""

    def __init__(self, value: float):
        self.value = value

    def width(self, X: Any) -> int:
        return 1

    def embed(self, X: Any) -> np.ndarray:
        return np.full((n_rows(X), 1), math.sqrt(self.value))


class MonomialMap(FeatureMap):
    r"""Monomials with the weights of :math:`\sum_q a_q (x \cdot z)^q`.

    The feature of the exponents :math:`e`, with :math:`|e| = q`, is
    :math:`\sqrt{a_q\, q! / \prod_j e_j!}\; \prod_j x_j^{e_j}`.

    Parameters
    ----------
    log_coefficients : dict
        log a_q for every degree q with a_q > 0. Binomials and factorials leave float64 soon, their
        logarithms do not.
    inner : FeatureMap or None
        Where the x of the formula comes from; None for the points themselves.
    """

    def __init__(self, log_coefficients: dict[int, float], inner: FeatureMap | None = None):
        self.log_coefficients = log_coefficients
        self.inner = inner

    def _inner(self) -> FeatureMap:
        return IdentityMap() if self.inner is None else self.inner

    def learn(self, X: Any) -> None:
        self.inner_ = self._inner().fit(X)

    def width(self, X: Any) -> int | None:
        inner = self.inner_ if hasattr(self, "inner_") else self._inner()
        d = inner.width(X)
        if d is None:
            return None
        return sum(math.comb(d + q - 1, q) for q in self.log_coefficients)

    def is_sparse(self, X: Any) -> bool:
        return self._inner().is_sparse(X)

    def embed(self, X: Any) -> Array:
        F, wanted = self.inner_.mapped(X), self.log_coefficients
        if not wanted:
            return np.zeros((n_rows(F), 0))
        if sp.issparse(F):
            refuse_entries(n_sparse_monomials(F, wanted))
        monomials: Iterator[Array] = (sparse_monomials if sp.issparse(F) else dense_monomials)(F)
        degrees = zip(range(max(wanted) + 1), monomials, strict=False)
        return _beside([math.exp(wanted[q] / 2) * M for q, M in degrees if q in wanted])


def refuse_degree(degree: int) -> None:
    """Raise a MemoryError for a degree whose monomials, built one by one, nobody would wait for."""
    if degree > LARGEST_DEGREE:
        raise MemoryError(
            f"the feature map has monomials of degree {quantity(degree)}, above {LARGEST_DEGREE:,};"
            f" {INSTEAD}"
        )


class ConjunctionMap(_VectorMap):
    """All 2^d products of distinct features: Π_{j in S} x_j for every subset S."""

    def width(self, X: Any) -> int:
        return 2 ** int(self.points(X).shape[1])

    def is_sparse(self, X: Any) -> bool:
        return False

    def embed(self, X: Any) -> np.ndarray:
        X = as_dense(self.points(X))
        out = np.ones((len(X), 1), dtype=X.dtype)
        for x in X.T:
            out = np.hstack([out, out * x[:, None]])
        return out


class UnaryMap(_VectorMap):
    """The map of Σ min(x_j, z_j) on non-negative integers: x_j ones, then zeros, per feature."""

    def learn(self, X: Any) -> None:
        super().learn(X)
        self.largest_: list[int] = self._integers(X).max(axis=0).tolist()

    def width(self, X: Any) -> int | None:
        return sum(self.largest_) if hasattr(self, "largest_") else None

    def is_sparse(self, X: Any) -> bool:
        return False

    def embed(self, X: Any) -> np.ndarray:
        # Units beyond what was seen in fit meet only zeros there, and are left out.
        X = self._integers(X)
        return np.hstack(
            [
                (x[:, None] >= np.arange(1, top + 1)).astype(float)
                for x, top in zip(X.T, self.largest_, strict=True)
            ]
        )

    def _integers(self, X: Any) -> np.ndarray:
        X = as_dense(self.points(X))
        # Beyond 2^53 not every integer is a float, and one unit more is lost.
        bad = (X < 0) | (X > 2**53) | (np.floor(X) != X)
        if np.any(bad):
            raise ValueError(
                f"X has the value {X[bad][0]:g}; the feature map of Min() is finite on integers "
                "from 0 to 2^53 only; use the kernel itself, or approximate_map(method='nystrom')"
            )
        return X.astype(np.int64)


class _PairOfMaps(FeatureMap):
    def __init__(self, left: FeatureMap, right: FeatureMap):
        self.left = left
        self.right = right

    def learn(self, X: Any) -> None:
        self.left_, self.right_ = self.left.fit(X), self.right.fit(X)

    def _widths(self, X: Any) -> tuple[int, int] | None:
        left, right = self.left.width(X), self.right.width(X)
        return None if left is None or right is None else (left, right)

    def is_sparse(self, X: Any) -> bool:
        return self.left.is_sparse(X) or self.right.is_sparse(X)


class SumMap(_PairOfMaps):
    """The two maps side by side."""

    def width(self, X: Any) -> int | None:
        widths = self._widths(X)
        return None if widths is None else sum(widths)

    def embed(self, X: Any) -> Array:
        return _beside([self.left_.mapped(X), self.right_.mapped(X)])


class ProductMap(_PairOfMaps):
    """The tensor product of the two maps."""

    def width(self, X: Any) -> int | None:
        widths = self._widths(X)
        return None if widths is None else math.prod(widths)

    def embed(self, X: Any) -> Array:
        A, B = self.left_.mapped(X), self.right_.mapped(X)
        if sp.issparse(A) or sp.issparse(B):
            refuse_entries(int(_row_counts(A) @ _row_counts(B)))
            return sparse_row_products(sp.csr_array(A), sp.csr_array(B))
        return (A[:, :, None] * B[:, None, :]).reshape(n_rows(A), -1)


class RescaledMap(FeatureMap):
    """f(x) phi(x)."""

    def __init__(self, inner: FeatureMap, factor: Callable[[Any], np.ndarray]):
        self.inner = inner
        self.factor = factor

    def learn(self, X: Any) -> None:
        self.inner.fit(X)

    def width(self, X: Any) -> int | None:
        return self.inner.width(X)

    def is_sparse(self, X: Any) -> bool:
        return self.inner.is_sparse(X)

    def embed(self, X: Any) -> Array:
        F, f = self.inner.mapped(X), self.factor(X)
        return (sp.diags_array(f) @ F).tocsr() if sp.issparse(F) else F * f[:, None]


class ComposedMap(FeatureMap):
    """phi(g(x))."""

    def __init__(self, function: Callable[[Any], Any], inner: FeatureMap):
        self.function = function
        self.inner = inner

    def learn(self, X: Any) -> None:
        self.inner.fit(self.function(X))

    def width(self, X: Any) -> int | None:
        return self.inner.width(self.function(X))

    def is_sparse(self, X: Any) -> bool:
        return self.inner.is_sparse(self.function(X))

    def embed(self, X: Any) -> Array:
        return self.inner.mapped(self.function(X))


class MatrixMap(FeatureMap):
    """Rows of Φ with A = ΦΦᵀ, for a positive semidefinite matrix A on its indices."""

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix

    def learn(self, X: Any) -> None:
        eigenvalues, vectors = np.linalg.eigh(self.matrix)
        positive = eigenvalues > len(eigenvalues) * np.finfo(float).eps * eigenvalues.max()
        self.rows_ = vectors[:, positive] * np.sqrt(eigenvalues[positive])

    def width(self, X: Any) -> int:
        return self.rows_.shape[1] if hasattr(self, "rows_") else len(self.matrix)

    def embed(self, X: Any) -> np.ndarray:
        indices = INDICES.check(X, "X")
        if np.any((indices < 0) | (indices >= len(self.rows_))):
            raise ValueError(
                f"X has an index outside 0..{len(self.rows_) - 1}, the rows of the matrix"
            )
        return self.rows_[indices]


def sparse_row_products(A: sp.csr_array, B: sp.csr_array) -> sp.csr_array:
    """Row by row, the tensor product of two sparse matrices."""
    a, b = np.diff(A.indptr), np.diff(B.indptr)
    counts = a * b
    row = np.repeat(np.arange(A.shape[0]), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    i = A.indptr[row] + within // b[row]
    j = B.indptr[row] + within % b[row]
    indices = A.indices[i].astype(np.int64) * B.shape[1] + B.indices[j]
    starts = np.concatenate([[0], np.cumsum(counts)])
    return sp.csr_array(
        (A.data[i] * B.data[j], indices, starts), shape=(A.shape[0], A.shape[1] * B.shape[1])
    )


def _row_counts(F: Array) -> np.ndarray:
    """How many entries of each row are stored."""
    return np.diff(F.indptr).astype(np.int64) if sp.issparse(F) else np.full(n_rows(F), F.shape[1])


def _beside(blocks: list) -> Array:
    if any(sp.issparse(b) for b in blocks):
        return sp.csr_array(sp.hstack(blocks))
    return np.hstack(blocks)
