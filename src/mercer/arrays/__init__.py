"""The one module that knows which array library, dtype and device it is dealing with."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.utils.validation import check_array

from mercer._sklearn import is_pandas_na, is_scalar_nan
from mercer.arrays.libraries import is_half, is_tensor, to_native

IMPUTE = "fill it in first, for example with X.filled(np.nan) and sklearn.impute.SimpleImputer"
DROP = "leave out the masked rows"
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
WORTH_ASKING = 2**26  # bytes of a matrix for which a device is asked what it has free
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


def namespace(X: Any) -> Any:
    """The library that X's functions come from: NumPy, or torch."""
    return torch if is_tensor(X) else np


def like(values: Any, X: Any) -> Any:
    """Numbers as an array of X's library, dtype and device."""
    if is_tensor(X):
        values = values if is_tensor(values) else np.require(values, requirements=("C", "W"))
        return torch.as_tensor(values, dtype=X.dtype, device=X.device)
    return np.asarray(values, dtype=X.dtype)


def to_device_of(values: Any, X: Any) -> Any:
    """Numbers as a tensor where X is one, of its dtype and device; else as they are."""
    return like(values, X) if is_tensor(X) else values


def to_float64(X: Any) -> Any:
    """Points with float32 features in float64; others as they are."""
    if is_tensor(X):
        return X.to(torch.float64)
    return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X


def sum_of_squares(A: Any) -> float:
    """Σ a² over all entries of an array of numbers, in double where that is a tensor."""
    if is_tensor(A):
        return float(torch.linalg.vector_norm(A, dtype=torch.float64)) ** 2
    numbers = np.ravel(A, order="K")
    return float(np.einsum("i,i->", numbers, numbers))


def as_numpy(X: Any) -> np.ndarray:
    """X as a NumPy array, in this machine's own memory; half precision as float32."""
    if not is_tensor(X):
        return np.asarray(X)
    X = X.detach().cpu()
    return (X.float() if is_half(X) else X).numpy()


def as_numbers(value: Any) -> Any:
    """A tensor as a number or an array; all else as it is."""
    if not is_tensor(value):
        return value
    return value.item() if value.ndim == 0 else as_numpy(value)


def require_cpu(X: Any, reader: str) -> Any:
    """A tensor in this machine's memory as an array, what is none as it is.

    A tensor elsewhere is refused, by who reads it.
    """
    if not is_tensor(X):
        return X
    if X.device.type != "cpu":
        raise TypeError(
            f"X is a tensor on {X.device}, and {reader} computes in this machine's memory; pass "
            "X.cpu().numpy()"
        )
    return as_numpy(X)


def to_cpu(X: Any) -> Any:
    """X with a tensor brought to this machine's own memory; what is no array as it is."""
    X = to_native(X)
    return as_numpy(X) if is_tensor(X) else X


def dtype_of(X: Any) -> np.dtype:
    """X's dtype by NumPy's name."""
    return np.dtype(str(X.dtype).removeprefix("torch."))


def is_single(X: Any) -> bool:
    """Whether X holds numbers in float32; what is no array does not."""
    return str(getattr(X, "dtype", None)).removeprefix("torch.") == "float32"


def device_budget(device: Any) -> int:
    """Bytes that one temporary may take there: half of what is free, scikit-learn's on the host."""
    if getattr(device, "type", "cpu") != "cuda":
        return memory_budget()
    return _free_on(device) // 2


def _free_on(device: Any) -> int:
    """Bytes free on a GPU, with those that torch keeps for what comes next."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def row_major(A: Any, dtype: Any = None) -> np.ndarray:
    """An array as the core takes it: row by row, aligned; itself if it is so already."""
    if is_tensor(A):
        return A.to(dtype and getattr(torch, np.dtype(dtype).name)).contiguous()
    if type(A) is np.ndarray and A.flags.carray and (dtype is None or A.dtype == dtype):
        return A  # what np.require finds, too, in a tenth of its time
    return np.require(A, dtype, ("C_CONTIGUOUS", "ALIGNED"))


def memory_budget() -> int:
    """Bytes that one temporary may take: scikit-learn's ``working_memory`` setting."""
    return int(sklearn.get_config()["working_memory"] * 2**20)


def physical_memory() -> int | None:
    """Bytes of memory this machine has for us, or None where the system does not say."""
    limits = [_address_space(), _container(), _windows_memory()]
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((limit for limit in limits if limit is not None), default=None)


def _address_space() -> int | None:
    """Bytes of addresses that this process may have (``ulimit -v``), or None for no limit."""
    try:
        resource = importlib.import_module("resource")
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    except (ImportError, OSError, ValueError):  # another system than Unix
        return None
    return None if limit == resource.RLIM_INFINITY else int(limit)


@functools.cache
def _container() -> int | None:
    """Bytes of memory that the container may have that this process is in, or None."""
    for path in CONTAINER_LIMITS:
        try:
            with open(path) as file:
                return int(file.read())  # or "max"
        except (OSError, ValueError):
            continue
    return None


def _windows_memory() -> int | None:
    """Bytes of memory as Windows reports them, or None elsewhere."""
    kernel32 = getattr(getattr(ctypes, "windll", None), "kernel32", None)
    kilobytes = ctypes.c_ulonglong()
    if kernel32 is None or not kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes)):
        return None
    return 1024 * kilobytes.value


def free_memory(X: Any) -> int | None:
    """Bytes that are free where X is; on the host all that there are, None where none is told."""
    on_device = is_tensor(X) and X.device.type == "cuda"
    return _free_on(X.device) if on_device else physical_memory()


def refuse_beyond_memory(n: int, matrices: int = 3, X: Any = None) -> None:
    """Raise a MemoryError where this many n x n matrices exceed the memory where X is."""
    needed, present = matrices * 8 * n**2, free_memory(X)
    if present is not None and needed > present:
        where = f"{X.device} has" if is_tensor(X) else "this machine has"
        raise MemoryError(
            f"a dense solver for n = {n:,} points needs {needed // 2**20:,} MiB ({matrices} "
            f"matrices of {n:,} x {n:,}), and {where} {present // 2**20:,} MiB; fit on "
            "fewer points, on features that approximate the kernel (a pipeline that begins with "
            "kernel.approximate_map(1000)), or on a larger machine"
        )


def refuse_matrix(n: int, m: int, dtype: np.dtype, X: Any) -> None:
    """Raise a MemoryError where an n x m matrix exceeds the memory where X is."""
    needed = n * m * dtype.itemsize
    if needed < WORTH_ASKING:
        return
    present = free_memory(X)
    if present is not None and needed > present:
        where = X.device if is_tensor(X) else "this machine"
        raise MemoryError(
            f"a Gram matrix of {n:,} x {m:,} in {dtype} needs {needed // 2**20:,} MiB, and {where} "
            f"has {present // 2**20:,} MiB; ask for products, gram(kernel, X, Y, store=False) @ V, "
            "or for some rows at a time"
        )


def product(A: Any, B: np.ndarray) -> np.ndarray:
    """A B for a matrix A, wherever that is, and an array B: an array."""
    return as_numpy(A @ like(B, A))


def copy_of(A: Any) -> Any:
    """A's numbers in memory of their own."""
    return A.clone() if is_tensor(A) else A.copy()


def tensor_factor(A: Any) -> Callable[[Any], Any]:
    """B -> A⁻¹ B for a positive definite tensor A, by a Cholesky factorisation where A is."""
    L, failed = torch.linalg.cholesky_ex(A)
    if int(failed):
        raise np.linalg.LinAlgError("the matrix is not positive definite after rounding")
    return lambda B: torch.cholesky_solve(B, L)


def row_blocks(n: int, bytes_per_row: float, budget: float | None = None) -> Iterator[slice]:
    """Slices that cover ``range(n)``, each of as many rows as fit the budget, at least one."""
    budget = memory_budget() if budget is None else budget
    step = max(1, int(budget // max(1.0, bytes_per_row)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def n_rows(X: Any) -> int:
    """How many objects X holds, whatever it is."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take_rows(X: Any, indices: Any) -> Any:
    """The objects of X at these positions, in X's own form."""
    if hasattr(X, "iloc"):
        return X.iloc[indices]
    if hasattr(X, "shape"):
        return X[indices]
    if isinstance(indices, slice):
        return X[indices]
    return [X[i] for i in indices]


def joined(*parts: Any) -> Any:
    """The objects of each in turn, all of one form."""
    first = parts[0]
    if hasattr(first, "iloc"):
        return importlib.import_module("pandas").concat(parts)
    if is_tensor(first):
        return torch.cat(parts)
    if sp.issparse(first):
        return sp.vstack(parts, format="csr")
    return np.concatenate(parts) if hasattr(first, "shape") else [x for part in parts for x in part]


def median_row(X: Any) -> Any:
    """The median of some five hundred rows: far points do not draw it away, as they do a mean."""
    return middle_row(X[:: max(1, len(X) // 512)])


def middle_row(X: Any) -> Any:
    """The median of each column; of tensors the lower of two, and no slope goes through it."""
    if not is_tensor(X):
        return np.median(X, axis=0)
    # Sorted: torch's own median is not deterministic on a GPU.
    return torch.sort(X.detach(), dim=0).values[(len(X) - 1) // 2]


def running_sum(A: Any) -> Any:
    """Sums of the first entries of a vector."""
    if is_tensor(A) and not torch.are_deterministic_algorithms_enabled():
        return torch.cumsum(A, 0)
    return like(np.cumsum(as_numpy(A)), A)  # torch's own is not deterministic on a GPU


def as_dense(X: Array) -> Any:
    """X as a dense array."""
    if is_tensor(X):
        return X
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def is_plain(X: Any) -> bool:
    """Whether X is a matrix of finite floating-point numbers as it is, and needs no other look."""
    plain = type(X) is np.ndarray and X.dtype in FLOATS and X.ndim == 2 and X.size
    return bool(plain and np.isfinite(X.sum()))


def as_vectors(X: Any, name: str = "X") -> Array:
    """Points in R^d as a finite float array of shape (n, d).

    float32 stays float32, everything else becomes float64; sparse input becomes CSR; tensors stay
    tensors where they are.

    Examples
    --------
    >>> as_vectors([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    if is_tensor(X):
        return _tensor_of_vectors(X, name)
    if is_plain(X):
        return X
    refuse_masked(X, name)
    columns = list(getattr(X, "columns", ())) or None
    if not hasattr(X, "ndim") and isinstance(X, str | bytes):
        raise TypeError(
            f"{name} is a single {type(X).__name__}; expected an array of numbers of shape (n, d)"
        )
    if getattr(getattr(X, "dtype", None), "kind", "O") in "mM":
        raise TypeError(f"{name} holds dates or durations; turn them into numbers first")
    try:
        array = check_array(
            X, accept_sparse="csr", dtype=(np.float64, np.float32), ensure_all_finite=False
        )
    except (TypeError, ValueError, OverflowError) as error:
        refuse_dates(X, name)
        refuse_text(X, name)
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} is not an array of numbers of shape (n, d): {error}") from error
    if sp.issparse(array) and not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    refuse_non_finite(array, name, columns)
    return array


def _tensor_of_vectors(X: Any, name: str) -> Any:
    if X.is_complex() or X.layout != torch.strided:
        raise TypeError(f"{name} is a complex or sparse tensor; expected real numbers, all stored")
    if X.ndim != 2 or not X.numel():
        raise ValueError(
            f"{name} is not an array of numbers of shape (n, d): it is a tensor of shape "
            f"{tuple(X.shape)}"
        )
    if not torch.is_grad_enabled():
        X = X.detach()
    if X.dtype not in (torch.float32, torch.float64):
        X = X.to(torch.float32 if is_half(X) else torch.float64)
    refuse_non_finite(X.detach(), name)
    return X


def refuse_masked(values: Any, name: str = "X", advice: str = IMPUTE) -> None:
    """Raise a ValueError that names the first masked entry of an array of numpy.ma, if any."""
    if not np.ma.is_masked(values):
        return
    where = np.argwhere(np.ma.getmaskarray(values))[0]
    place = f"row {where[0]}" if len(where) else "its only entry"
    place += f", column {where[1]}" if len(where) > 1 else ""
    raise ValueError(f"{name} is masked at {place}, and masks are not read; {advice}")


def refuse_dates(X: Any, name: str = "X") -> None:
    """Raise a TypeError that names the first column of dates or durations of a table, if any."""
    for column in getattr(X, "columns", ()):
        values = X[column]
        if (getattr(values.dtype, "kind", None) or np.asarray(values).dtype.kind) in "mM":
            raise TypeError(
                f"{name} holds dates or durations in column {column!r}; turn them into numbers "
                "first, for example into days since the earliest"
            ) from None


def refuse_text(X: Any, name: str = "X") -> None:
    """Raise a ValueError that names the first text in place of a number, if there is one."""
    cells, columns = np.asarray(X, dtype=object), list(getattr(X, "columns", ()))
    for where, value in np.ndenumerate(cells):
        # Numbers in quotes are read as numbers where they stand in columns.
        if isinstance(value, str | bytes) and not (cells.ndim == 2 and is_number(value)):
            place = f"row {where[0]}" if where else "its only entry"
            advice = "a kernel on strings takes it as it is, for example kernels.Spectrum(3)"
            if len(where) == 2:
                column = columns[where[1]] if columns else where[1]
                place += f", column {column!r}"
                advice = (
                    "encode the column, for example with sklearn.preprocessing.OneHotEncoder, or "
                    f"read it with a kernel on strings: kernels.Spectrum(3).on({column!r})"
                )
            shown = f"{value[:30]!r}{'...' if len(value) > 30 else ''}"
            raise ValueError(
                f"{name} has the text {shown} at {place}, where a kernel on vectors needs a "
                f"number; {advice}"
            ) from None


def is_number(text: str | bytes) -> bool:
    """Whether a text is one that ``float`` reads."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_missing(value: Any) -> bool:
    """Whether a value among objects stands for none: None, NaN, pandas' NA or NumPy's NaT."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return value is None or is_pandas_na(value) or is_scalar_nan(value)


def refuse_missing(X: Any, name: str = "X") -> None:
    """`refuse_non_finite` for what scikit-learn turned down: with the names of its columns."""
    try:
        array = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False)
    except (TypeError, ValueError):
        return  # something else is wrong
    refuse_non_finite(array, name, list(getattr(X, "columns", ())) or None)


def refuse_non_finite(X: Array, name: str = "X", columns: list | None = None) -> None:
    """Raise a ValueError that names the first missing or infinite entry of X, if there is one."""
    values, xp = X.data if sp.issparse(X) else X, namespace(X)
    if xp.isfinite(values.sum()):
        return
    bad = ~xp.isfinite(values)
    if not bad.any():
        return
    if sp.issparse(X):
        coo = X.tocoo()
        where = int(np.flatnonzero(~np.isfinite(coo.data))[0])
        row, column, value = coo.row[where], coo.col[where], coo.data[where]
    else:
        row, column = (int(i) for i in xp.argwhere(bad)[0])
        value = float(X[row, column])
    label = repr(columns[column]) if columns else str(column)
    if np.isnan(value):
        raise ValueError(
            f"{name} has a missing value (NaN) at row {row}, column {label}; impute it first, "
            "for example with sklearn.impute.SimpleImputer"
        )
    raise ValueError(
        f"{name} has an infinite value at row {row}, column {label}; remove or clip it first"
    )
