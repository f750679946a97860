"""Finite feature maps: transformers whose inner products are a kernel, to rounding.

They travel through the algebra: a sum concatenates, a product takes the tensor product, a power
takes monomials, scaling and normalisation multiply. A map refuses to build something larger than
the memory budget before it starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array, as_dense, as_vectors, memory_budget, n_rows
from mercer.kernels.structured import ExplicitKernel, vectorize


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """phi with phi(x)·phi(z) = k(x, z). Subclasses write `width` and `embed`, some `learn`."""

    n_features_out_: int | None

    def width(self, X: Any) -> int | None:
        """How many features the map gives on points like X; None where only fitting tells."""
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

    def transform(self, X: Any) -> Array:
        check_is_fitted(self)
        width = self.width(X)
        if width is not None and not self.is_sparse(X):
            refuse_oversized(n_rows(X), width)
        return self.embed(X)

    @property
    def _n_features_out(self) -> int | None:
        return self.n_features_out_


def refuse_oversized(n: int, width: int) -> None:
    """Raise a MemoryError before n rows of this many features are built, if they do not fit."""
    needed = n * width * 8
    if needed > memory_budget():
        raise MemoryError(
            f"the feature map has {width:,} features, {needed / 2**20:,.0f} MiB for {n:,} points, "
            f"over the budget of {memory_budget() / 2**20:,.0f} MiB; use the kernel itself, "
            "approximate_map, or raise sklearn.set_config(working_memory=...)"
        )


class IdentityMap(FeatureMap):
    """x itself, the map of the linear kernel."""

    def width(self, X: Any) -> int:
        return as_vectors(X).shape[1]

    def embed(self, X: Any) -> Array:
        return as_vectors(X)


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
    coefficients : (p + 1,) non-negative a_0, ..., a_p
    inner : FeatureMap or None
        Where the x of the formula comes from; None for the points themselves.
    """

    def __init__(self, coefficients: np.ndarray, inner: FeatureMap | None = None):
        self.coefficients = coefficients
        self.inner = inner

    def _degrees(self) -> list[int]:
        return [int(q) for q in np.flatnonzero(self.coefficients)]

    def _inner(self) -> FeatureMap:
        return IdentityMap() if self.inner is None else self.inner

    def learn(self, X: Any) -> None:
        self.inner_ = self._inner().fit(X)

    def width(self, X: Any) -> int | None:
        inner = self.inner_ if hasattr(self, "inner_") else self._inner()
        d = inner.width(X)
        if d is None:
            return None
        return sum(math.comb(d + q - 1, q) for q in self._degrees())

    def is_sparse(self, X: Any) -> bool:
        return self._inner().is_sparse(X)

    def embed(self, X: Any) -> Array:
        F = self.inner_.transform(X)
        blocks = []
        for q in self._degrees():
            weights = math.sqrt(self.coefficients[q]) * np.sqrt(_multinomials(F.shape[1], q))
            if q == 0:
                block = np.ones((n_rows(F), 1))
                blocks.append((sp.csr_array(block) if sp.issparse(F) else block) * weights[0])
                continue
            block = PolynomialFeatures((q, q), include_bias=False).fit_transform(F)
            blocks.append(_scale_columns(block, weights))
        return _beside(blocks)


def _multinomials(d: int, q: int) -> np.ndarray:
    """q! / Π e_j! for each monomial of degree q in d variables, in scikit-learn's order."""
    if q == 0:
        return np.ones(1)
    count = math.comb(d + q - 1, q)
    chosen = np.fromiter(
        (j for combination in combinations_with_replacement(range(d), q) for j in combination),
        dtype=np.int64,
        count=count * q,
    ).reshape(count, q)
    # Walking along a sorted combination, the t-th repetition of a variable divides by t.
    result = np.full(count, float(math.factorial(q)))
    run = np.ones(count)
    for t in range(1, q):
        run = np.where(chosen[:, t] == chosen[:, t - 1], run + 1, 1.0)
        result /= run
    return result


class ConjunctionMap(FeatureMap):
    """All 2^d products of distinct features: Π_{j in S} x_j for every subset S."""

    def width(self, X: Any) -> int:
        return 2 ** int(as_vectors(X).shape[1])

    def is_sparse(self, X: Any) -> bool:
        return False

    def embed(self, X: Any) -> np.ndarray:
        X = as_dense(as_vectors(X))
        out = np.ones((len(X), 1), dtype=X.dtype)
        for x in X.T:
            out = np.hstack([out, out * x[:, None]])
        return out


class UnaryMap(FeatureMap):
    """The map of Σ min(x_j, z_j) on non-negative integers: x_j ones, then zeros, per feature."""

    def learn(self, X: Any) -> None:
        self.largest_ = self._integers(X).max(axis=0)

    def width(self, X: Any) -> int | None:
        return int(self.largest_.sum()) if hasattr(self, "largest_") else None

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

    @staticmethod
    def _integers(X: Any) -> np.ndarray:
        X = as_dense(as_vectors(X))
        if not np.all((X >= 0) & (np.floor(X) == X)):
            raise ValueError(
                "the feature map of Min() is finite on non-negative integers only; use the kernel "
                "itself, or approximate_map(method='nystrom')"
            )
        return X.astype(np.int64)


class VocabularyMap(FeatureMap):
    """Sparse features of structured objects; the vocabulary is learnt from the objects seen.

    Parameters
    ----------
    kernel : ExplicitKernel
    """

    def __init__(self, kernel: ExplicitKernel):
        self.kernel = kernel

    def _named(self, X: Any) -> list[dict]:
        self.kernel.check_parameters()
        objects = self.kernel.parse_objects(self.kernel.domain.check(X, "X"))
        return [self.kernel.features(x) for x in objects]

    def learn(self, X: Any) -> None:
        self.vocabulary_: dict = {}
        vectorize(self._named(X), self.vocabulary_, grow=True)

    def width(self, X: Any) -> int | None:
        return max(1, len(self.vocabulary_)) if hasattr(self, "vocabulary_") else None

    def is_sparse(self, X: Any) -> bool:
        return True

    def embed(self, X: Any) -> sp.csr_array:
        return vectorize(self._named(X), self.vocabulary_, grow=False)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        check_is_fitted(self)
        return np.array([str(name) for name in self.vocabulary_], dtype=object)


class _PairOfMaps(FeatureMap):
    def __init__(self, left: FeatureMap, right: FeatureMap):
        self.left = left
        self.right = right

    def learn(self, X: Any) -> None:
        self.left_, self.right_ = self.left.fit(X), self.right.fit(X)

    def _widths(self, X: Any) -> tuple[int, int] | None:
        widths = self.left.width(X), self.right.width(X)
        return None if None in widths else widths  # type: ignore[return-value]

    def is_sparse(self, X: Any) -> bool:
        return self.left.is_sparse(X) or self.right.is_sparse(X)


class SumMap(_PairOfMaps):
    """The two maps side by side."""

    def width(self, X: Any) -> int | None:
        widths = self._widths(X)
        return None if widths is None else sum(widths)

    def embed(self, X: Any) -> Array:
        return _beside([self.left_.transform(X), self.right_.transform(X)])


class ProductMap(_PairOfMaps):
    """The tensor product of the two maps."""

    def width(self, X: Any) -> int | None:
        widths = self._widths(X)
        return None if widths is None else math.prod(widths)

    def embed(self, X: Any) -> Array:
        A, B = self.left_.transform(X), self.right_.transform(X)
        if sp.issparse(A) or sp.issparse(B):
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
        F, f = self.inner.transform(X), self.factor(X)
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
        return self.inner.transform(self.function(X))


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
        return self.rows_[np.asarray(X, dtype=np.intp).ravel()]


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


def _scale_columns(block: Array, weights: np.ndarray) -> Array:
    return sp.csr_array(block @ sp.diags_array(weights)) if sp.issparse(block) else block * weights


def _beside(blocks: list) -> Array:
    if any(sp.issparse(b) for b in blocks):
        return sp.csr_array(sp.hstack(blocks))
    return np.hstack(blocks)
