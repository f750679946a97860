"""One object per array library: NumPy, and torch on any device. `backend(X)` is that of X.

Arrays of other libraries are converted to one of these at the door (`libraries`). What an estimator
or a solver wants to know of its arrays is a method here; it does not ask which library they belong
to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays.libraries import is_tensor
from mercer.arrays.numpy_backend import Backend
from mercer.arrays.torch_backend import TorchBackend

Array = Any  # a NumPy array, a SciPy CSR array or a torch tensor

NUMPY, TORCH = Backend(), TorchBackend()
_BY_TYPE: dict[type, Backend] = {np.ndarray: NUMPY}


def backend(X: Any) -> Backend:
    """The object that computes with X's library, where X is."""
    return _BY_TYPE.get(type(X)) or _found(X)


def _found(X: Any) -> Backend:
    if not is_tensor(X):
        return NUMPY
    return _BY_TYPE.setdefault(type(X), TORCH)


# The methods most asked for, as functions.


def namespace(X: Any) -> Any:
    """The library that X's functions come from: NumPy, or torch."""
    return backend(X).xp


def like(values: Any, X: Any, dtype: Any = None) -> Any:
    """Numbers as an array of X's library and device, and of its dtype unless another is given."""
    return backend(X).like(values, X, dtype)


def to_device_of(values: Any, X: Any) -> Any:
    """Numbers as a tensor where X is one, of its dtype and device; else on the host."""
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
