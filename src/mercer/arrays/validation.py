"""Points that are vectors: checked, and brought to one form; what cannot be is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from mercer._sklearn import is_pandas_na, is_scalar_nan
from mercer.arrays.backend import NUMPY, Array, backend, namespace
from mercer.arrays.lazy_modules import torch
from mercer.arrays.libraries import is_half, is_tensor

IMPUTE = "fill it in first, for example with X.filled(np.nan) and sklearn.impute.SimpleImputer"
DROP = "leave out the masked rows"
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
WORTH_ASKING = 2**26  # bytes of a matrix for which a device is asked what it has free


def refuse_beyond_memory(n: int, matrices: int = 3, X: Any = None) -> None:
    """Raise a MemoryError where this many n x n matrices exceed the memory where X is."""
    needed, present = matrices * 8 * n**2, backend(X).free_memory(X)
    if present is not None and needed > present:
        raise MemoryError(
            f"a dense solver for n = {n:,} points needs {needed // 2**20:,} MiB ({matrices} "
            f"matrices of {n:,} x {n:,}), and {backend(X).place(X)} has {present // 2**20:,} MiB; "
            "fit on fewer points, on features that approximate the kernel (a pipeline that begins "
            "with kernel.approximate_map(1000)), or on a larger machine"
        )


def refuse_matrix(n: int, m: int, dtype: np.dtype, X: Any) -> None:
    """Raise a MemoryError where an n x m matrix exceeds the memory where X is."""
    needed = n * m * dtype.itemsize
    if needed < WORTH_ASKING:
        return
    present = backend(X).free_memory(X)
    if present is not None and needed > present:
        raise MemoryError(
            f"a Gram matrix of {n:,} x {m:,} in {dtype} needs {needed // 2**20:,} MiB, and "
            f"{backend(X).place(X)} has {present // 2**20:,} MiB; ask for products, "
            "gram(kernel, X, Y, store=False) @ V, or for some rows at a time"
        )


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
    if is_plain(X):
        return X
    if is_tensor(X):
        return _tensor_of_vectors(X, name)
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
        refuse_objects(X, name)
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


def refuse_objects(X: Any, name: str = "X") -> None:
    """Raise a TypeError that names the first object in place of a number, if there is one."""
    if sp.issparse(X):
        return
    for where, value in np.ndenumerate(np.asarray(X, dtype=object)):
        if value is not None and not hasattr(type(value), "__float__"):
            place = f"row {where[0]}" if where else "its only entry"
            raise TypeError(
                f"{name} has an object of type {type(value).__name__} at {place}, and a kernel on "
                "vectors reads numbers: the argument must be a string or a number; for objects of "
                "your own pass a function of two of them, kernels.FromFunction(f)"
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


def require_cpu(X: Any, reader: str) -> Any:
    """A tensor in this machine's memory as an array, what is none as it is.

    A tensor on a device is refused, by who reads it.
    """
    return NUMPY.accept(X, reader)


def refuse_tensors(X: Any, what: str, error: type[Exception] = TypeError) -> None:
    """Raise an error where X is a tensor, and something is available for arrays alone."""
    backend(X).refuse(what, error)
