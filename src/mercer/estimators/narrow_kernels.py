"""A warning for kernel objects whose width was left at its default and is far too small."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from mercer.arrays import NUMPY, as_dense, backend, n_rows, take_rows
from mercer.estimators.user_warnings import warn_the_caller
from mercer.kernels import Kernel

# Rows that are compared with all others, of data with at most so many rows.
FEW_ROWS, MOST_ROWS = 10, 50_000
# A kernel is too narrow if half of the rows have no other row with a larger similarity.
NEARLY_ZERO = 1e-6


def warn_if_narrow(kernel: Kernel, X: Any) -> None:
    """Warn if the Gram matrix is nearly the identity, for a kernel of default width.

    Parameters
    ----------
    kernel : Kernel
    X : the training points, (n, d)
    """
    name = _default_width(kernel)
    if name is None or backend(X) is not NUMPY or not FEW_ROWS <= n_rows(X) <= MOST_ROWS:
        return
    rows = np.unique(np.linspace(0, n_rows(X) - 1, FEW_ROWS).astype(int))
    K = np.array(as_dense(kernel(take_rows(X, rows), X)), dtype=float)
    K[np.arange(len(rows)), rows] = 0
    if np.median(K.max(axis=1)) >= NEARLY_ZERO:
        return
    value = getattr(kernel, name)
    warn_the_caller(
        f"the Gram matrix of {kernel!r} is nearly diagonal on X: for most points no other is "
        f"similar, so little can be learnt. {name}={value!r} is the default; choose it by the data "
        f"with {name}='median' or 'scale', or scale X, for example with "
        "sklearn.preprocessing.StandardScaler",
        UserWarning,
    )


def _default_width(kernel: Kernel) -> str | None:
    """The parameter with the width of a stationary kernel, if it has its default value."""
    if not kernel.is_stationary or getattr(kernel, "scales", None) is not None:
        return None
    parameters = inspect.signature(type(kernel)).parameters
    for name in ("gamma", "length_scale"):
        if name in parameters:
            same = getattr(kernel, name) == parameters[name].default
            return name if isinstance(same, bool) and same else None
    return None
