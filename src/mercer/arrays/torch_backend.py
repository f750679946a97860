"""Computing with tensors of torch's, where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from mercer.arrays import memory
from mercer.arrays.lazy_modules import torch
from mercer.arrays.libraries import is_recorded, is_tensor, tensor_as_numpy
from mercer.arrays.numpy_backend import Backend

WIDENED_BYTES = 2**30  # of rows that are widened to float64 at a time


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

    def accept(self, X: Any, reader: str) -> Any:
        return X

    def to_float64(self, X: Any) -> Any:
        return X.to(torch.float64)

    def as_numpy(self, X: Any) -> np.ndarray:
        return tensor_as_numpy(X)

    to_cpu = as_numpy

    def dense(self, X: Any) -> Any:
        return X

    def row_major(self, A: Any, dtype: Any = None) -> Any:
        return A.to(dtype and _torch_dtype(dtype)).contiguous()

    def copy(self, A: Any) -> Any:
        return A.clone()

    def shares_memory(self, A: Any, tensor: Any) -> bool:
        return A.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()

    def apply(self, function: Callable[[Any], Any], A: Any) -> Any:
        return function(A) if is_recorded(A) else self.like(function(self.as_numpy(A)), A)

    def join(self, parts: tuple[Any, ...]) -> Any:
        return torch.cat(parts)

    def place(self, X: Any) -> str:
        return str(X.device)

    def device_type(self, X: Any) -> str:
        return X.device.type

    def note(self, X: Any) -> str:
        return f"tensors on {X.device}"

    def refuse(self, what: str, error: type[Exception]) -> None:
        raise error(f"{what} is not available for tensors; pass X.cpu().numpy()")

    def brings(self, X: Any, centres: Any) -> bool:
        if is_tensor(X):
            return X.device.type == "cpu" != centres.device.type
        return not sp.issparse(X)

    def free_memory(self, X: Any) -> int | None:
        return _free_on(X.device) if X.device.type == "cuda" else memory.physical_memory()

    def budget(self, X: Any) -> int:
        return device_budget(X.device)

    def room(self, X: Any) -> int:
        return device_budget(X.device) if X.device.type == "cuda" else super().room(X)

    def sum_of_squares(self, A: Any) -> float:
        return float(torch.linalg.vector_norm(A, dtype=torch.float64)) ** 2

    def cumsum(self, A: Any) -> Any:
        if torch.are_deterministic_algorithms_enabled():  # torch's own is not, on a GPU
            return self.like(np.cumsum(self.as_numpy(A)), A)
        return torch.cumsum(A, 0)

    def middle_row(self, X: Any) -> Any:
        # Sorted: torch's own median is not deterministic on a GPU.
        return torch.sort(X.detach(), dim=0).values[(len(X) - 1) // 2]

    def variance(self, X: Any, weight: Any = None) -> float:
        X = self.to_float64(X)
        if weight is None or not weight.any():
            return float(X.var(correction=0))
        return super().variance(X, self.like(weight, X))

    def sort_rows(self, A: Any) -> Any:
        return A.sort(1).values

    def class_probabilities(self, scores: Any, log: bool = False) -> Any:
        if scores.ndim == 1:
            scores = torch.stack([0 * scores, scores], 1)
        return scores.log_softmax(1) if log else scores.softmax(1)

    def row_sums(self, X: Any) -> Any:
        return X.sum(1)

    def row_norms(self, X: Any) -> Any:
        return torch.linalg.vector_norm(X, dim=1)

    def squared_row_norms(self, X: Any) -> Any:
        out = X.new_empty(X.shape[0])
        for rows in memory.row_blocks(X.shape[0], 8 * X.shape[1], WIDENED_BYTES):
            out[rows] = torch.sum(X[rows].to(torch.float64) ** 2, 1)
        return out

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

    def lower_half(self, A: Any, offset: int) -> Any:
        found = A.tril(offset)
        found.diagonal(offset).mul_(0.5)
        return found

    def sum_of_products(self, A: Any, B: Any) -> Any:
        return (A * B).sum()

    def absolute(self, A: Any) -> Any:
        return A.abs_()

    def inner_products(self, F: Any) -> Any:
        return F.T @ F

    def add_inner_products(self, total: Any, F: Any) -> Any:
        total += F.T @ F
        return total

    def scaled_inner_products(self, F: Any, root: Any, single: bool) -> Any:
        scaled = F * self.like(root, F)
        scaled = scaled.float() if single else scaled
        return (scaled.T @ scaled).double()

    def solve_rows(self, L: np.ndarray, X: Any) -> Any:
        inverse = solve_triangular(L, np.eye(len(L)), lower=True)
        return X @ self.like(inverse.T, X)

    def transposed_product(self, F: Any, B: Any) -> np.ndarray:
        return self.as_numpy(F.T @ B)

    def eigh(self, A: Any, overwrite: bool = False) -> tuple[np.ndarray, Any]:
        values, vectors = torch.linalg.eigh(A)
        return self.as_numpy(values), vectors


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
