"""Routines of LAPACK in place, during which other threads of Python run.

SciPy's wrappers of the same routines hold Python's lock while they compute.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.linalg import cython_lapack

_PREFIXES = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


def factorise_upper(A: np.ndarray) -> bool:
    """Put U of ``A = U^T U`` into A's upper triangle; False if A is not positive definite.

    Parameters
    ----------
    A : (n, n) array
        In column order, float32 or float64; below the diagonal it is neither read nor written.

    Examples
    --------
    >>> A = np.asfortranarray([[4.0, 2.0], [0.0, 5.0]])
    >>> factorise_upper(A), A.tolist()
    (True, [[2.0, 1.0], [0.0, 2.0]])
    """
    return _called("potrf", A)


def invert_upper(U: np.ndarray) -> bool:
    """Put the upper triangle of the inverse of ``U^T U`` in U's place; False if U is singular.

    Examples
    --------
    >>> U = np.asfortranarray([[2.0, 1.0], [0.0, 2.0]])
    >>> invert_upper(U), U.tolist()
    (True, [[0.3125, -0.125], [0.0, 0.25]])
    """
    return _called("potri", U)


def _called(name: str, A: np.ndarray) -> bool:
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not (A.flags.f_contiguous and A.flags.writeable):
        raise ValueError("expected a square array in column order that may be overwritten")
    n, failed, upper = ctypes.c_int(len(A)), ctypes.c_int(0), ctypes.c_char(b"U")
    lead = ctypes.c_int(max(1, len(A)))
    at = ctypes.byref
    _routine(_PREFIXES[A.dtype] + name)(at(upper), at(n), A.ctypes.data, at(lead), at(failed))
    return failed.value == 0


@cache
def _routine(name: str) -> Callable[..., None]:
    """The routine that SciPy offers to Cython."""
    capsule, api = cython_lapack.__pyx_capi__[name], ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    five = [ctypes.c_void_p] * 5
    return ctypes.CFUNCTYPE(None, *five)(pointer_of(capsule, name_of(capsule)))
