"""The Gram matrix as an operator: products, rows and a diagonal, however it is kept."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from mercer.arrays import Array, as_dense, as_numpy, memory_budget, row_blocks
from mercer.arrays.libraries import is_foreign, to_input_type, to_native
from mercer.cached import cached_property
from mercer.core import symmetric_times
from mercer.expressions import PairMatrix, Sum, gradient, is_summable

# From this many columns on, a product spends its time on these, where BLAS is fastest: it is taken
# some rows at a time, which hold so many bytes.
MANY_COLUMNS, BLOCK_BYTES = 256, 2**23
# Columns up to which half of a symmetric matrix is read sooner than BLAS reads all of it.
HALVED = 16
# Explicit features per feature of a point, and beyond that in all, from which on the formula gives
# a row of K sooner than the features do.
ROW_FACTOR, ROW_FEATURES = 2, 32
# Points widened to float64 at a time.
WIDENED = 8192


class GramOperator(LinearOperator):
    """K = (k(x_i, y_j)), shape (n, m).

    Subclasses give products, rows and the diagonal. ``reason`` says why this form was chosen;
    ``pairs_of``, where the operator comes from a kernel, gives the kernel over the points.

    Users need ``@``, `diagonal`, `rows`, `dense`, `derivative` and `gradient`. Solvers ask for more
    where a form has a quicker way than these: `block` and `put` compute some columns of some rows,
    into memory that is there (caches of rows); `combination` reads few columns; a
    `symmetric_product` half the pairs; a `normal_product` each pair once for K and its transpose;
    `part` keeps what is known of the points; `single` and `double` choose the precision of a
    product; `features` gives the factor of small rank; `extend_coefficients` takes coefficients of
    a corrected matrix to new points.
    """

    pairs_of: Callable[[], PairMatrix] | None = None

    def __init__(self, shape: tuple[int, int], dtype: Any, reason: str = ""):
        super().__init__(np.dtype(dtype), shape)
        self.reason = reason

    def __matmul__(self, V: Any) -> Any:
        """K V, of the library of V."""
        if is_foreign(V):
            return to_input_type(self @ to_native(V), V)
        return super().__matmul__(V)

    def diagonal(self) -> np.ndarray:
        """K_ii, shape (n,)."""
        raise NotImplementedError

    def rows(self, indices: Any) -> np.ndarray:
        """K[indices] for a slice, positions, a mask or, of shape (m,), one position."""
        if isinstance(indices, Integral):
            return self._rows(np.array([indices]))[0]
        if not isinstance(indices, slice):
            indices = np.asarray(indices)
            indices = np.flatnonzero(indices) if indices.dtype == bool else indices.astype(np.intp)
        return self._rows(indices)

    def _rows(self, indices: slice | np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def dense(self) -> np.ndarray:
        """The whole matrix."""
        return self.rows(slice(None))

    def derivative(self, path: str, index: int | None = None) -> GramOperator:
        """∂K/∂θ as an operator that is never stored, so that ``@ V`` is (∂K/∂θ) V.

        Parameters
        ----------
        path : str
            A hyperparameter of the kernel, as in ``kernel.get_params()``.
        index : int or None
            Which entry of a vector, such as ``scales``; None moves all of them at once.
        """
        pairs = self._pairs().derivative(path, index)
        name = path if index is None else f"{path}[{index}]"
        return TiledGram(pairs, f"derivative by {name}, recomputed in tiles")

    def gradient(self, U: Any, V: Any) -> dict[str, float | np.ndarray]:
        """Σ_c u_cᵀ (∂K/∂θ) v_c for every hyperparameter θ of the kernel; K is never stored.

        A number takes one pass over the pairs, and so do all the scales of features together where
        the kernel sees them through squared distances or dot products.

        Parameters
        ----------
        U : (n,) or (n, c) array, or tensor where the points are
        V : (m,) or (m, c) array, or tensor

        Returns
        -------
        dict
            For every path a number, or an array of shape (d,) for a vector of d scales.
        """
        return gradient(self._pairs(), U, V)

    def _pairs(self) -> PairMatrix:
        if self.pairs_of is None:
            raise TypeError(
                "this Gram operator was made from numbers, and what they depend on is not known; "
                "derivatives need mercer.gram(kernel, X)"
            )
        return self.pairs_of()

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """K[rows, columns] for two arrays of positions."""
        return self.rows(rows)[:, columns]

    def put(self, rows: np.ndarray, places: np.ndarray, columns: slice, out: np.ndarray) -> None:
        """Put K[rows, columns] into out[places, columns]."""
        out[places, columns] = self.rows(rows)[:, columns]

    def combination(self, indices: np.ndarray, V: np.ndarray) -> np.ndarray:
        """K[:, indices] @ V in float64, for a symmetric K."""
        return self.rows(indices).T.astype(np.float64) @ V

    def symmetric_product(self, V: np.ndarray) -> np.ndarray:
        """K V, for a symmetric K."""
        return self @ V

    def normal_product(
        self, V: np.ndarray, targets: np.ndarray | None = None, weight: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Kᵀ S (T - K V) of shape (m, c), and the column sums of S (T - K V).

        Parameters
        ----------
        V : (m, c) array
        targets : (n, c) array of T, or None for K V in place of T - K V
        weight : (n,) array of the diagonal of S, or None for ones
        """
        R = self @ V if targets is None else targets - self @ V
        if weight is not None:
            R *= weight[:, None]
        return self.T @ R, R.sum(axis=0)

    def part(self, index: np.ndarray) -> GramOperator | None:
        """The operator of some of the points, where it need not ask that of all; else None."""
        return None

    def single(self) -> GramOperator:
        """The same in float32 arithmetic where the values are recomputed, else itself."""
        return self

    def double(self) -> GramOperator:
        """The same in float64 arithmetic where the values are recomputed, else itself."""
        return self

    @property
    def features(self) -> np.ndarray | None:
        """Φ(X) where K = Φ(X) Φ(X)ᵀ is known by it and it is small enough to be written out."""
        return None

    def extend_coefficients(self, alpha: np.ndarray) -> np.ndarray:
        """beta with f(x) = k(x, X) @ beta at new points, from the alpha found with K."""
        return alpha

    def _rmatmat(self, V: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _adjoint(self) -> LinearOperator:
        return LinearOperator(
            dtype=self.dtype,  # pyright: ignore[reportCallIssue]
            shape=self.shape[::-1],
            matvec=self._rmatmat,
            matmat=self._rmatmat,
            rmatvec=self._matmat,
            rmatmat=self._matmat,
        )

    _transpose = _adjoint

    def _rmatvec(self, v: np.ndarray) -> np.ndarray:
        return self._rmatmat(v)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._matmat(v)


class DenseGram(GramOperator):
    """A stored matrix."""

    def __init__(self, K: np.ndarray, reason: str = "given as a matrix"):
        super().__init__(K.shape, K.dtype, reason)
        self.K = K

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        return self.K @ V

    def _rmatmat(self, V: np.ndarray) -> np.ndarray:
        return self.K.T @ V

    def symmetric_product(self, V: np.ndarray) -> np.ndarray:
        few = np.ndim(V) == 2 and V.shape[1] <= HALVED
        if few and self.K.dtype == V.dtype == np.float64:
            return symmetric_times(self.K, V)
        # With few columns the sooner of the two for BLAS; in float32, K is not widened.
        product = (V.T.astype(self.K.dtype, copy=False) @ self.K).T
        return product.astype(np.result_type(V, self.K), copy=False)

    def double(self) -> GramOperator:
        if self.dtype == np.float64:
            return self
        if self.pairs_of is None:
            return DenseGram(self.K.astype(np.float64), self.reason)
        return DoubleGram(self._pairs())

    def diagonal(self) -> np.ndarray:
        return np.diagonal(self.K).copy()

    def _rows(self, indices: Any) -> np.ndarray:
        return self.K[indices]

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if not self.K.flags.c_contiguous:
            return self.K[np.ix_(rows, columns)]
        places = rows[:, None] * self.shape[1] + columns  # sooner than by np.ix_
        return self.K.reshape(-1).take(places)

    def dense(self) -> np.ndarray:
        return self.K


class CorrectedGram(DenseGram):
    """A stored matrix made positive semidefinite, and the P that carries coefficients over.

    Parameters
    ----------
    K : (n, n) array
    P : (n, n) array or None
        Coefficients alpha found with K predict as ``P @ alpha``; None where they do as they are.
    reason : str
    """

    def __init__(self, K: np.ndarray, P: np.ndarray | None, reason: str = "corrected"):
        super().__init__(K, reason)
        self.P = P

    def extend_coefficients(self, alpha: np.ndarray) -> np.ndarray:
        return alpha if self.P is None else self.P @ alpha


class TiledGram(GramOperator):
    """Recomputed block by block at every product; never stored.

    Products of float32 tiles are summed in float64 across tiles.
    """

    def __init__(self, pairs: PairMatrix, reason: str = "recomputed in tiles"):
        super().__init__(pairs.shape, pairs.dtype, reason)
        self.pairs = pairs

    def _pairs(self) -> PairMatrix:
        return self.pairs

    def single(self) -> GramOperator:
        pairs = self.pairs.like(self.pairs.formula, np.float32)
        return TiledGram(pairs, f"{self.reason}, in float32")

    def double(self) -> GramOperator:
        return self if self.dtype == np.float64 else DoubleGram(self.pairs)

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        return _real_and_imaginary(V, self._product)

    def _product(self, V: np.ndarray) -> np.ndarray:
        if is_summable(self.pairs.formula):
            X, Y = self.pairs.raw
            return Sum(self.pairs.formula, Y, V)(X)
        if V.shape[1] > MANY_COLUMNS:
            out = np.empty((self.shape[0], V.shape[1]))
            for rows in row_blocks(self.shape[0], 8 * self.shape[1], BLOCK_BYTES):
                out[rows] = self.pairs.block(rows, slice(None)) @ V
            return out
        return self.pairs.products(V, np.zeros((self.shape[0], 0)))[0]

    def _rmatmat(self, V: np.ndarray) -> np.ndarray:
        nothing = np.zeros((self.shape[1], 0))
        return _real_and_imaginary(V, lambda A: self.pairs.products(nothing, A)[1])

    def diagonal(self) -> np.ndarray:
        return self.pairs.diagonal()

    def _rows(self, indices: Any) -> np.ndarray:
        return self.pairs.block(indices, slice(None))

    def dense(self) -> np.ndarray:
        return self.pairs.gram()

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.pairs.block(rows, columns)

    def put(self, rows: np.ndarray, places: np.ndarray, columns: slice, out: np.ndarray) -> None:
        self.pairs.put(rows, places, columns, out)

    def combination(self, indices: np.ndarray, V: np.ndarray) -> np.ndarray:
        if not len(indices):
            return np.zeros((self.shape[0], *V.shape[1:]))
        columns = self.pairs.combination(indices, np.reshape(V, (len(V), -1)))
        return columns.reshape(len(columns), *V.shape[1:])

    def normal_product(
        self, V: np.ndarray, targets: np.ndarray | None = None, weight: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        fused = self.pairs.normal_product(V, targets, weight)
        return super().normal_product(V, targets, weight) if fused is None else fused

    def part(self, index: np.ndarray) -> GramOperator | None:
        return TiledGram(self.pairs.part(index), self.reason) if self.pairs.symmetric else None


class DoubleGram(GramOperator):
    """Products in float64 for points in float32, only some of which are widened at a time.

    Parameters
    ----------
    pairs : PairMatrix of the points with themselves
    """

    def __init__(self, pairs: PairMatrix):
        super().__init__(pairs.shape, np.float64, "recomputed in tiles, in float64")
        self.pairs = pairs

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        V = np.asarray(V, dtype=np.float64)
        columns = V.reshape(len(V), -1)
        out, nothing = np.zeros(columns.shape), columns[:, :0]
        blocks = [slice(i, min(i + WIDENED, len(V))) for i in range(0, len(V), WIDENED)]
        for i, rows in enumerate(blocks):
            out[rows] += self.pairs.double(rows, rows).products(columns[rows], nothing[rows])[0]
            for others in blocks[i + 1 :]:
                block = self.pairs.double(rows, others)
                here, there = block.products(columns[others], columns[rows])
                out[rows] += here
                out[others] += there
        return out.reshape(V.shape)


class FeatureGram(GramOperator):
    """Φ(X) Φ(Y)ᵀ for explicit features, dense or sparse."""

    def __init__(self, left: Array, right: Array, reason: str = "explicit features"):
        super().__init__((left.shape[0], right.shape[0]), np.result_type(left, right), reason)
        self.left = left
        self.right = right

    @property
    def features(self) -> np.ndarray | None:
        if self.left is not self.right or 8 * np.prod(self.left.shape) > memory_budget():
            return None
        return np.asarray(as_dense(self.left), dtype=np.float64)

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        return self.left @ (self.right.T @ V)

    def _rmatmat(self, V: np.ndarray) -> np.ndarray:
        return self.right @ (self.left.T @ V)

    def diagonal(self) -> np.ndarray:
        if sp.issparse(self.left):
            return np.asarray(self.left.multiply(self.right).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", self.left, self.right)

    @cached_property
    def _formula(self) -> PairMatrix | None:
        """The formula over the points, where that takes less time per entry than the features."""
        if self.pairs_of is None or sp.issparse(self.left):
            return None
        pairs = self.pairs_of()
        least = ROW_FACTOR * np.shape(pairs.raw[0])[-1] + ROW_FEATURES if pairs.native else np.inf
        return pairs if self.left.shape[1] > least and pairs.dtype == self.dtype else None

    def _rows(self, indices: Any) -> np.ndarray:
        return self.block(indices, slice(None))

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        if self._formula is not None:
            return self._formula.block(rows, columns)
        return as_dense(self.left[rows] @ self.right[columns].T)

    def put(self, rows: np.ndarray, places: np.ndarray, columns: slice, out: np.ndarray) -> None:
        if self._formula is not None:
            self._formula.put(rows, places, columns, out)
        else:
            out[places, columns] = self.block(rows, columns)

    def combination(self, indices: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.asarray(self.left @ (self.right[indices].T @ V), dtype=np.float64)

    def part(self, index: np.ndarray) -> GramOperator | None:
        return FeatureGram(self.left[index], self.right[index], self.reason)


class CentredGram(GramOperator):
    """The Gram matrix of features centred on their mean over the training points.

    Parameters
    ----------
    gram : GramOperator
        K of the training points, (n, n), or of new points with them, (q, n).
    training : CentredGram or None
        The centred Gram of the training points, for new points.
    """

    def __init__(self, gram: GramOperator, training: CentredGram | None = None):
        super().__init__(gram.shape, np.float64, f"centred; {gram.reason}")
        self.gram = gram
        self.training = training

    @cached_property
    def row_means(self) -> np.ndarray:
        m = self.gram.shape[1]
        return self.gram @ np.full(m, 1 / m)

    @property
    def column_means(self) -> np.ndarray:
        return self.row_means if self.training is None else self.training.column_means

    @cached_property
    def grand_mean(self) -> float:
        return float(self.column_means.mean())

    def double(self) -> CentredGram:
        exact = self.gram.double()
        return self if exact is self.gram else CentredGram(exact, self.training)

    @property
    def features(self) -> np.ndarray | None:
        """Explicit features of the training points, centred, (n, D); None where there are none."""
        features = self.gram.features
        return features if features is None else features - features.mean(axis=0)

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        if self.training is None:
            product = self.gram.symmetric_product(V - V.mean(axis=0))
            return product - product.mean(axis=0)
        return self._centred(self.gram @ V, V, self.row_means, self.column_means)

    def _rmatmat(self, V: np.ndarray) -> np.ndarray:
        if self.training is None:
            return self._matmat(V)
        return self._centred(self.gram.T @ V, V, self.column_means, self.row_means)

    def _centred(
        self, product: np.ndarray, V: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> np.ndarray:
        """A product with V from that of K, whose means over its columns and rows are given."""
        total = V.sum(axis=0)
        shift = np.multiply.outer(left, total)
        return product - shift - right @ V + self.grand_mean * total

    def derivative(self, path: str, index: int | None = None) -> GramOperator:
        training = None if self.training is None else self.training.derivative(path, index)
        assert training is None or isinstance(training, CentredGram)
        return CentredGram(self.gram.derivative(path, index), training)

    def gradient(self, U: np.ndarray, V: np.ndarray) -> dict[str, float | np.ndarray]:
        U, V = np.asarray(U, dtype=float), np.asarray(V, dtype=float)
        pulled = V - V.mean(axis=0)
        if self.training is None:
            return self.gram.gradient(U - U.mean(axis=0), pulled)
        mean = np.ones((len(V), *U.shape[1:])) * U.sum(axis=0) / len(V)
        new, old = self.gram.gradient(U, pulled), self.training.gram.gradient(mean, pulled)
        return {path: new[path] - old[path] for path in new}

    def diagonal(self) -> np.ndarray:
        if isinstance(getattr(self.gram, "left", None), np.ndarray):
            features = self.features
            if features is not None:  # centred first, so that no large mean is subtracted
                return np.einsum("ij,ij->i", features, features)
        n = min(self.shape)
        own = as_numpy(self.gram.diagonal()).astype(float)[:n]
        return own - self.row_means[:n] - self.column_means[:n] + self.grand_mean

    def _rows(self, indices: Any) -> np.ndarray:
        # The rounding of the means, the same all along a row, goes with what is subtracted last.
        rows = as_numpy(self.gram.rows(indices)) - self.column_means
        return rows - rows.mean(axis=1, keepdims=True)


def _real_and_imaginary(V: np.ndarray, multiply: Callable[[np.ndarray], Any]) -> np.ndarray:
    """A real operator's product with a vector or matrix, which may be complex."""
    columns = np.reshape(V, (len(V), -1))
    out = multiply(np.real(columns))
    if np.iscomplexobj(V):
        out = out + 1j * multiply(np.imag(columns))
    return out.reshape(len(out), *V.shape[1:])
