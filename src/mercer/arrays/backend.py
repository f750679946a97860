"""One object per array library: NumPy, and torch on any device. `backend(X)` is that of X.

Arrays of other libraries are converted to one of these at the door (`libraries`). What an estimator
or a solver wants to know of its arrays is a method here; it does not ask of which library they are.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, cho_solve, eigh
from sklearn.utils.extmath import row_norms

from mercer.arrays import memory
from mercer.arrays.factorisation import factorised
from mercer.arrays.libraries import is_half, is_tensor, to_native

Array = Any  # a NumPy array, a SciPy CSR array or a torch tensor


class LazyModule:
    """A module that is imported when something of it is first asked for.

    Private names, such as those that pytest and pickle ask any object for, are not of it.
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        if self._name not in sys.modules:
            try:
                importlib.import_module(self._name)
            except ModuleNotFoundError as error:
                missing = f"{attribute} of {self._name}, which is not installed"
                raise AttributeError(missing) from error
        return getattr(sys.modules[self._name], attribute)


torch: Any = LazyModule("torch")


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
        """Numbers as a tensor where X is one, of its dtype and device; else as they are."""
        return values

    def to_float64(self, X: Any) -> Any:
        """Numbers in float32 as float64; others as they are."""
        return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X

    def as_numpy(self, X: Any) -> np.ndarray:
        """X as a NumPy array in this machine's memory; half precision as float32."""
        return np.asarray(X)

    def to_cpu(self, X: Any) -> Any:
        """X with a tensor made an array in this machine's memory; anything else as it is."""
        found = to_native(X)
        return found if found is X else as_numpy(found)

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

    def free_memory(self, X: Any) -> int | None:
        """Bytes free where X is; on the host all that it has, None where it does not say."""
        return memory.physical_memory()

    def budget(self, X: Any) -> int:
        """Bytes that one temporary may take there."""
        return memory.memory_budget()

    # Sums and order statistics.

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

    def transposed_product(self, F: Any, B: Any) -> np.ndarray:
        """Fᵀ B as an array of NumPy's."""
        gemm = blas.sgemm if F.dtype == np.float32 else blas.dgemm
        return gemm(1.0, F.T, B)

    def eigh(self, A: Any, overwrite: bool = False) -> tuple[np.ndarray, Any]:
        """Eigenvalues of a symmetric A, ascending, on the host, and eigenvectors where A is."""
        return eigh(A, overwrite_a=overwrite)


class TorchBackend(Backend):
    """Tensors of torch's, where they are."""

    xp = torch
    executor = "torch"

    def asarray(self, values: Any, dtype: Any = None) -> Any:
        return values if dtype is None else values.to(_torch_dtype(dtype))

    def like(self, values: Any, X: Any, dtype: Any = None) -> Any:
        if not is_tensor(values):
            values = np.require(values, requirements=("C", "W"))
        dtype = X.dtype if dtype is None else _torch_dtype(dtype)
        return torch.as_tensor(values, dtype=dtype, device=X.device)

    def to_device_of(self, values: Any, X: Any) -> Any:
        return self.like(values, X)

    def to_float64(self, X: Any) -> Any:
        return X.to(torch.float64)

    def as_numpy(self, X: Any) -> np.ndarray:
        X = X.detach().cpu()
        return (X.float() if is_half(X) else X).numpy()

    to_cpu = as_numpy

    def dense(self, X: Any) -> Any:
        return X

    def row_major(self, A: Any, dtype: Any = None) -> Any:
        return A.to(dtype and _torch_dtype(dtype)).contiguous()

    def copy(self, A: Any) -> Any:
        return A.clone()

    def join(self, parts: tuple[Any, ...]) -> Any:
        return torch.cat(parts)

    def place(self, X: Any) -> str:
        return str(X.device)

    def free_memory(self, X: Any) -> int | None:
        return _free_on(X.device) if X.device.type == "cuda" else memory.physical_memory()

    def budget(self, X: Any) -> int:
        return device_budget(X.device)

    def sum_of_squares(self, A: Any) -> float:
        return float(torch.linalg.vector_norm(A, dtype=torch.float64)) ** 2

    def cumsum(self, A: Any) -> Any:
        if torch.are_deterministic_algorithms_enabled():  # torch's own is not, on a GPU
            return self.like(np.cumsum(self.as_numpy(A)), A)
        return torch.cumsum(A, 0)

    def middle_row(self, X: Any) -> Any:
        # Sorted: torch's own median is not deterministic on a GPU.
        return torch.sort(X.detach(), dim=0).values[(len(X) - 1) // 2]

    def row_sums(self, X: Any) -> Any:
        return X.sum(1)

    def row_norms(self, X: Any) -> Any:
        return torch.linalg.vector_norm(X, dim=1)

    def row_maxima(self, X: Any) -> Any:
        return X.abs().amax(1)

    def scale_rows(self, X: Any, factors: Any) -> Any:
        return X * self.like(factors, X)[:, None]

    def scale_columns(self, X: Any, factors: Any) -> Any:
        return X * self.like(factors, X)

    def powers_of_two(self, exponents: Any) -> Any:
        return torch.exp2(exponents.to(torch.float64))

    def cholesky(self, A: Any) -> Callable[[Any], Any]:
        L, failed = torch.linalg.cholesky_ex(A)
        if int(failed):
            raise np.linalg.LinAlgError("the matrix is not positive definite after rounding")
        return lambda B: torch.cholesky_solve(B, L)

    def inner_products(self, F: Any) -> Any:
        return F.T @ F

    def add_inner_products(self, total: Any, F: Any) -> Any:
        total += F.T @ F
        return total

    def transposed_product(self, F: Any, B: Any) -> np.ndarray:
        return self.as_numpy(F.T @ B)

    def eigh(self, A: Any, overwrite: bool = False) -> tuple[np.ndarray, Any]:
        values, vectors = torch.linalg.eigh(A)
        return self.as_numpy(values), vectors


NUMPY, TORCH = Backend(), TorchBackend()
_BY_TYPE: dict[type, Backend] = {np.ndarray: NUMPY}


def backend(X: Any) -> Backend:
    """The object that computes with X's library, where X is."""
    return _BY_TYPE.get(type(X)) or _found(X)


def _found(X: Any) -> Backend:
    if not is_tensor(X):
        return NUMPY
    return _BY_TYPE.setdefault(type(X), TORCH)


def _torch_dtype(dtype: Any) -> Any:
    return getattr(torch, np.dtype(dtype).name)


def device_budget(device: Any) -> int:
    """Bytes that one temporary may take there: half of what is free, scikit-learn's on the host."""
    if getattr(device, "type", "cpu") != "cuda":
        return memory.memory_budget()
    return _free_on(device) // 2


def _free_on(device: Any) -> int:
    """Bytes free on a GPU, with those that torch keeps for what comes next."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


# The methods most asked for, as functions.


def namespace(X: Any) -> Any:
    """The library that X's functions come from: NumPy, or torch."""
    return backend(X).xp


def like(values: Any, X: Any, dtype: Any = None) -> Any:
    """Numbers as an array of X's library and device, and of its dtype unless another is given."""
    return backend(X).like(values, X, dtype)


def to_device_of(values: Any, X: Any) -> Any:
    """Numbers as a tensor where X is one, of its dtype and device; else as they are."""
    return backend(X).to_device_of(values, X)


def to_float64(X: Any) -> Any:
    """Points with float32 features in float64; others as they are."""
    return backend(X).to_float64(X)


def as_numpy(X: Any) -> np.ndarray:
    """X as a NumPy array, in this machine's own memory; half precision as float32."""
    return backend(X).as_numpy(X)


def to_cpu(X: Any) -> Any:
    """X with a tensor brought to this machine's own memory; what is no array as it is."""
    return backend(X).to_cpu(X)


def as_dense(X: Any) -> Any:
    """X as a dense array."""
    return backend(X).dense(X)


def row_major(A: Any, dtype: Any = None) -> Any:
    """An array as the core takes it: row by row, aligned; itself if it is so already."""
    return backend(A).row_major(A, dtype)


def product(A: Any, B: np.ndarray) -> np.ndarray:
    """A B for a matrix A, wherever that is, and an array B: an array."""
    return as_numpy(A @ like(B, A))


def as_numbers(value: Any) -> Any:
    """A tensor as a number or an array; all else as it is."""
    if not is_tensor(value):
        return value
    return value.item() if value.ndim == 0 else as_numpy(value)


def dtype_of(X: Any) -> np.dtype:
    """X's dtype by NumPy's name."""
    return np.dtype(str(X.dtype).removeprefix("torch."))


def is_single(X: Any) -> bool:
    """Whether X holds numbers in float32; what is no array does not."""
    return str(getattr(X, "dtype", None)).removeprefix("torch.") == "float32"


def median_row(X: Any) -> Any:
    """The median of some five hundred rows: far points do not draw it away, as they do a mean."""
    return backend(X).middle_row(X[:: max(1, len(X) // 512)])


def n_rows(X: Any) -> int:
    """How many objects X holds, whatever it is."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take_rows(X: Any, indices: Any) -> Any:
    """The objects of X at these positions, in X's own form."""
    if hasattr(X, "iloc"):
        return X.iloc[indices]
    if hasattr(X, "shape") or isinstance(indices, slice):
        return X[indices]
    return [X[i] for i in indices]
