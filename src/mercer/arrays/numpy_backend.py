"""Computing with arrays of NumPy's, sparse ones of SciPy's, and collections of objects."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, cho_solve, eigh, solve_triangular
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.utils.extmath import row_norms

from mercer.arrays import memory
from mercer.arrays.factorisation import factorised
from mercer.arrays.libraries import is_tensor, tensor_as_numpy, to_native

# Rows of a block whose cross products are summed: its factors stay in the fastest caches.
ROWS_AT_ONCE = 2048


class Backend:
    """Arrays of NumPy's, sparse ones of SciPy's, and collections of objects, in memory.

    Attributes
    ----------
    xp : module
        The library's functions.
    executor : "native" or "torch"
        What runs programs for its arrays.
    """

    xp: Any = np
    executor: Literal["native", "torch"] = "native"

    # Conversions.

    def asarray(self, values: Any, dtype: Any = None) -> Any:
        """Values as an array of this library, of a dtype by NumPy's name."""
        return np.asarray(values, dtype)

    def like(self, values: Any, X: Any, dtype: Any = None) -> Any:
        """Numbers as an array of X's device, and of its dtype unless another is given."""
        return np.asarray(values, dtype=X.dtype if dtype is None else dtype)

    def to_device_of(self, values: Any, X: Any) -> Any:
        """Numbers as a tensor where X is one, of its dtype and device; else on the host."""
        return tensor_as_numpy(values) if is_tensor(values) else values

    def accept(self, X: Any, reader: str) -> Any:
        """X as this library computes with it; a TypeError names the reader where it cannot."""
        if not is_tensor(X):
            return X
        if X.device.type != "cpu":
            raise TypeError(
                f"X is a tensor on {X.device}, and {reader} computes in this machine's memory; "
                "pass X.cpu().numpy()"
            )
        return tensor_as_numpy(X)

    def to_float64(self, X: Any) -> Any:
        """Numbers in float32 as float64; others as they are."""
        return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X

    def as_numpy(self, X: Any) -> np.ndarray:
        """X as a NumPy array in this machine's memory; half precision as float32."""
        return np.asarray(X)

    def to_cpu(self, X: Any) -> Any:
        """X with a tensor made an array in this machine's memory; anything else as it is."""
        if type(X) is np.ndarray:
            return X
        found = to_native(X)
        return tensor_as_numpy(found) if is_tensor(found) else found

    def dense(self, X: Any) -> Any:
        """X with all its zeros."""
        return X.toarray() if sp.issparse(X) else np.asarray(X)

    def row_major(self, A: Any, dtype: Any = None) -> Any:
        """A as the core takes it: row by row, aligned; itself if it is so already."""
        if type(A) is np.ndarray and A.flags.carray and (dtype is None or A.dtype == dtype):
            return A  # what np.require finds, too, in a tenth of its time
        return np.require(A, dtype, ("C_CONTIGUOUS", "ALIGNED"))

    def copy(self, A: Any) -> Any:
        """The same numbers in memory of their own."""
        return A.copy()

    def shares_memory(self, A: Any, tensor: Any) -> bool:
        """Whether A has its numbers where a tensor has."""
        in_memory = isinstance(A, np.ndarray) and tensor.device.type == "cpu"
        return in_memory and np.may_share_memory(A, tensor_as_numpy(tensor))

    def apply(self, function: Callable[[Any], Any], A: Any) -> Any:
        """A function of arrays at each entry; one of a recorded tensor is torch's own."""
        return function(A)

    def join(self, parts: tuple[Any, ...]) -> Any:
        """The objects of each part in turn, all of one form."""
        first = parts[0]
        if hasattr(first, "iloc"):
            return importlib.import_module("pandas").concat(parts)
        if sp.issparse(first):
            return sp.vstack(parts, format="csr")
        whole = hasattr(first, "shape")
        return np.concatenate(parts) if whole else [x for part in parts for x in part]

    # Memory.

    def place(self, X: Any) -> str:
        """Where X is, for messages."""
        return "this machine"

    def device_type(self, X: Any) -> str:
        """ "cpu", or what kind of device X is on."""
        return "cpu"

    def note(self, X: Any) -> str:
        """What a report says of where X is computed with: nothing for arrays in memory."""
        return ""

    def refuse(self, what: str, error: type[Exception]) -> None:
        """Raise an error where something is not available for arrays of this library."""

    def brings(self, X: Any, centres: Any) -> bool:
        """Whether points X are brought, in blocks, to the device where the centres are."""
        return False

    def free_memory(self, X: Any) -> int | None:
        """Bytes free where X is; on the host all that it has, None where it does not say."""
        return memory.physical_memory()

    def budget(self, X: Any) -> int:
        """Bytes that one temporary may take there."""
        return memory.memory_budget()

    def room(self, X: Any) -> int:
        """Bytes that numbers may take which are kept for the whole of a fit."""
        return max(memory.memory_budget(), (memory.physical_memory() or 0) // 4)

    # Sums and order statistics.

    def variance(self, X: Any, weight: Any = None) -> float:
        """The variance of all entries of X, each counted as often as its row weighs."""
        if weight is None or not weight.any():
            return float(X.multiply(X).mean() - X.mean() ** 2 if sp.issparse(X) else X.var())
        share = weight / weight.sum()
        centre = float((share @ X).mean())
        if sp.issparse(X):
            return float((share @ X.multiply(X)).mean()) - centre**2
        return float((share @ (X - centre) ** 2).mean())

    def sort_rows(self, A: Any) -> Any:
        """Each row in increasing order."""
        return np.sort(A, axis=1)

    def class_probabilities(self, scores: Any, log: bool = False) -> Any:
        """Softmax of each row of scores (m, k), or its logarithm; scores (m,) belong to two."""
        if scores.ndim == 2:
            return (log_softmax if log else softmax)(scores, axis=1)
        of_two = log_expit if log else expit
        return np.column_stack([of_two(-scores), of_two(scores)])

    def sum_of_squares(self, A: Any) -> float:
        """Σ a² over all entries of an array of numbers; in double for a tensor."""
        numbers = np.ravel(A, order="K")
        return float(np.einsum("i,i->", numbers, numbers))

    def cumsum(self, A: Any) -> Any:
        """Sums of the first entries of a vector, the same in every run."""
        return np.cumsum(A)

    def middle_row(self, X: Any) -> Any:
        """The median of each column, one of the values it has; no slope goes through it."""
        return np.partition(X, len(X) // 2, axis=0)[len(X) // 2]

    # Rows and columns of points, dense or sparse.

    def row_sums(self, X: Any) -> Any:
        return np.asarray(X.sum(axis=1)).ravel()

    def row_norms(self, X: Any) -> Any:
        """‖x‖ of each row."""
        return row_norms(X)

    def squared_row_norms(self, X: Any) -> Any:
        """‖x‖² of each row, the same for any order of memory."""
        return row_norms(X if sp.issparse(X) else self.row_major(X), squared=True)

    def row_maxima(self, X: Any) -> Any:
        """The largest |x_j| of each row, without a copy of the points."""
        most, least = X.max(axis=1), X.min(axis=1)
        if sp.issparse(X):
            most, least = most.toarray().ravel(), least.toarray().ravel()
        return np.maximum(most, -least)

    def scale_rows(self, X: Any, factors: Any) -> Any:
        """Each row times its factor, in X's dtype."""
        factors = factors.astype(X.dtype, copy=False)
        return (sp.diags_array(factors) @ X).tocsr() if sp.issparse(X) else X * factors[:, None]

    def scale_columns(self, X: Any, factors: Any) -> Any:
        """Each column times its factor; float32 stays so where it holds the factors."""
        if np.abs(factors).max() <= np.finfo(X.dtype).max:
            factors = factors.astype(X.dtype)
        return (X @ sp.diags_array(factors)).tocsr() if sp.issparse(X) else X * factors

    def powers_of_two(self, exponents: Any) -> Any:
        """2^e in double."""
        return np.ldexp(1.0, exponents)

    # Linear algebra.

    def cholesky(self, A: Any) -> Callable[[Any], Any]:
        """B -> A⁻¹ B for a positive definite A, which is overwritten."""
        factor = factorised(A)
        return lambda B: cho_solve(factor, B, check_finite=False)

    def lower_half(self, A: Any, offset: int) -> Any:
        """A on and below the diagonal ``j = i + offset``, of which it is half."""
        found = np.tril(A, offset)
        i = np.arange(max(0, -offset), min(len(A), A.shape[1] - offset))
        found[i, i + offset] *= 0.5
        return found

    def sum_of_products(self, A: Any, B: Any) -> Any:
        """Σ A_ij B_ij, a number on the device."""
        return np.einsum("ij,ij", A, B)

    def absolute(self, A: Any) -> Any:
        """The absolute values, in A's place."""
        return np.abs(A, out=A)

    def inner_products(self, F: Any) -> Any:
        """Fᵀ F; half of the products, in the order in which F is kept."""
        upper = blas.dsyrk(1.0, F, trans=1) if F.shape[1] else np.zeros((0, 0))
        return np.triu(upper) + np.triu(upper, 1).T

    def add_inner_products(self, total: Any, F: Any) -> Any:
        """Add Fᵀ F to the upper triangle at least of a total in double, in its place."""
        # From SciPy's BLAS, as products with F: the threads of NumPy's would get in the way.
        if F.dtype == np.float32:
            total += blas.ssyrk(1.0, F.T)
            return total
        return blas.dsyrk(1.0, F.T, beta=1.0, c=total, overwrite_c=1)

    def scaled_inner_products(self, F: Any, root: Any, single: bool) -> Any:
        """``Fᵀ diag(root)² F`` in float64 for root (n, 1); products in float32 if single."""
        n, r = F.shape
        dtype = np.float32 if single else np.float64
        total, room = np.zeros((r, r)), np.empty((min(n, ROWS_AT_ONCE), r), dtype)
        for start in range(0, n, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            scaled = room[: len(F[rows])]
            np.multiply(F[rows], root[rows], out=scaled, casting="same_kind")
            # NumPy's own, since the threads of two libraries get in each other's way.
            total += scaled.T @ scaled
        return total

    def solve_rows(self, L: np.ndarray, X: Any) -> Any:
        """L⁻¹ x for each row x of X and a lower triangular array L."""
        return solve_triangular(L, X.T, lower=True).T

    def transposed_product(self, F: Any, B: Any) -> np.ndarray:
        """Fᵀ B as an array of NumPy's."""
        gemm = blas.sgemm if F.dtype == np.float32 else blas.dgemm
        return gemm(1.0, F.T, B)

    def eigh(self, A: Any, overwrite: bool = False) -> tuple[np.ndarray, Any]:
        """Eigenvalues of a symmetric A, ascending, on the host, and eigenvectors where A is."""
        return eigh(A, overwrite_a=overwrite)
