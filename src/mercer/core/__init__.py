"""The native module, chosen by what the machine runs, and its NumPy twin.

``MERCER_ISA`` forces a level: ``baseline``, ``x86-64-v3``, ``x86-64-v4``, or ``python``, the twin.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from mercer.core.programs import Kind, Leaf, Op, Program, Source
from mercer.core.reference import (
    boosting,
    descent,
    graphs,
    krylov,
    online,
    sequences,
    smoothing,
    sparse,
    suffixes,
    tables,
    trees,
    working_sets,
)
from mercer.core.reference import interpreter as reference

# Threads are started for no fewer Gaussian pairs than this: two of them take 70 us to start, in
# which one thread computes some 40,000 pairs of ten features (two AVX-512 cores).
ONE_THREAD_UP_TO_PAIRS = 2**17
FEATURES_OF_EXP = 16  # an exponential takes the time of some 16 features
NUMBERS_IN_CACHE = 2**18  # numbers that are read faster by one thread than others are started
# Up to so many variables all are in one working set; beyond, the most it is made larger for, as in
# working_sets.hpp.
ONE_SET_UP_TO_VARIABLES, LARGEST_WORKING_SET = 1000, 1024
MODULES = {"baseline": "_baseline", "x86-64-v3": "_v3", "x86-64-v4": "_v4"}

__all__ = [
    "LARGEST_WORKING_SET",
    "MODULES",
    "Kind",
    "Leaf",
    "Op",
    "Program",
    "Source",
    "boosting_routines",
    "coordinate_descent",
    "graph_routines",
    "krylov_steps",
    "learner",
    "level",
    "pairs",
    "sequence_routines",
    "smoother",
    "solver",
    "sparse_routines",
    "suffix_routines",
    "symmetric_times",
    "symmetry",
    "table",
    "tall_times",
    "threads",
    "tree_routines",
    "working_set_size",
]


@cache
def level() -> str:
    """The instruction-set level in use, or "python" where there is no native module."""
    asked = os.environ.get("MERCER_ISA")
    if asked is not None and asked not in (*MODULES, "python"):
        raise ImportError(f"MERCER_ISA={asked!r}; expected one of {[*MODULES, 'python']}")
    if asked == "python":
        return "python"
    try:
        highest = importlib.import_module("mercer.core._baseline").machine_level()
    except ImportError:
        if asked is not None:
            raise
        warnings.warn(
            "mercer's native module is not installed, so everything runs in NumPy, several times "
            "slower; reinstall mercer with a C++20 compiler at hand",
            RuntimeWarning,
            stacklevel=2,
        )
        return "python"
    order = list(MODULES)
    if asked is not None and order.index(asked) > order.index(highest):
        raise ImportError(f"MERCER_ISA={asked}: this machine runs {highest} at most")
    built = [name for name in order if find_spec(f"mercer.core.{MODULES[name]}")]
    if asked is not None and asked not in built:
        raise ImportError(
            f"MERCER_ISA={asked}: built for {built} alone; to build for every level, install with "
            "--config-settings=cmake.define.MERCER_LEVELS=all"
        )
    return asked or [name for name in built if order.index(name) <= order.index(highest)][-1]


@cache
def _native() -> ModuleType | None:
    return (
        None if level() == "python" else importlib.import_module(f"mercer.core.{MODULES[level()]}")
    )


def solver() -> Any:
    """``Problem`` and ``advance`` of `core.reference.working_sets`: native, or the twin."""
    return _native() or working_sets


def working_set_size(n: int) -> int:
    """Variables at a time: all of few, then so many that rows, rounds and steps cost alike."""
    if n <= ONE_SET_UP_TO_VARIABLES:
        return max(n, 2)
    return int(min(max(2.5 * n**0.5, 64), LARGEST_WORKING_SET))


def table(width: int) -> Any:
    """A `mercer.core.reference.tables.KeyTable`, native or the twin."""
    return (_native() or tables).KeyTable(width)


def coordinate_descent(*arguments: Any) -> Any:
    """A `mercer.core.reference.descent.CoordinateDescent`, native or the twin."""
    return (_native() or descent).CoordinateDescent(*arguments)


def boosting_routines() -> Any:
    """What has the functions of `mercer.core.reference.boosting`: native, or the twin."""
    return _native() or boosting


def sequence_routines() -> Any:
    """What has the functions of `mercer.core.reference.sequences`: native, or the twin."""
    return _native() or sequences


def suffix_routines() -> Any:
    """What has the classes of `mercer.core.reference.suffixes`: native, or the twin."""
    return _native() or suffixes


def learner() -> Any:
    """What has ``visit`` of `mercer.core.reference.online`: the native module, or the twin."""
    return _native() or online


def graph_routines() -> Any:
    """What has the functions of `mercer.core.reference.graphs`: native, or the twin."""
    return _native() or graphs


def tree_routines() -> Any:
    """What has the functions of `mercer.core.reference.trees`: native, or the twin."""
    return _native() or trees


def sparse_routines() -> Any:
    """What has the functions of `mercer.core.reference.sparse`: native, or the twin."""
    return _native() or sparse


def smoother() -> Any:
    """What has the routines of `mercer.core.reference.smoothing`: native, or the twin."""
    return _native() or smoothing


def threads(n_pairs: int, n_features: int) -> int:
    """Threads for so much work: ``OMP_NUM_THREADS`` if set, else the cores we may run on.

    None besides the calling one where the work would be done before another had started.
    """
    if n_pairs * (FEATURES_OF_EXP + n_features) < ONE_THREAD_UP_TO_PAIRS * FEATURES_OF_EXP:
        return 0
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads_to_read(A: np.ndarray) -> int:
    """Threads for one pass over a matrix; none besides the calling one where it is in cache."""
    return 0 if A.size < NUMBERS_IN_CACHE else threads(A.size, 0)


def symmetry(K: np.ndarray) -> tuple[float, float]:
    """The largest ``|K_ij - K_ji|`` and the largest ``|K_ij|`` of a square matrix of floats.

    Both are infinite where an entry is infinite or not a number.

    Examples
    --------
    >>> import numpy as np
    >>> symmetry(np.array([[1.0, 2.0], [-3.0, 1.0]]))
    (5.0, 3.0)
    """
    native = _native()
    if native is None or not K.flags.c_contiguous:
        if not np.isfinite(K).all():
            return np.inf, np.inf
        return float(np.abs(K - K.T).max(initial=0.0)), float(np.abs(K).max(initial=0.0))
    return native.symmetry(K, _threads_to_read(K))


def symmetric_times(K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """``K @ V`` in float64 for a stored symmetric K and a V of few columns.

    Only the half of K above the diagonal is read, once, which is all that such a product costs.

    Examples
    --------
    >>> import numpy as np
    >>> symmetric_times(np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones((2, 1)))
    array([[3.],
           [4.]])
    """
    native = _native()
    V = np.ascontiguousarray(V, dtype=K.dtype)
    if native is None or not K.flags.c_contiguous:
        return np.asarray(K @ V, dtype=np.float64)
    return native.symmetric_times(K, V, _threads_to_read(K))


def krylov_steps(
    K: np.ndarray,
    basis: np.ndarray,
    T: np.ndarray,
    size: int,
    width: int,
    steps: int,
    centred: bool,
) -> tuple[int, np.ndarray]:
    """Steps of block Lanczos on a stored symmetric K, as `core.reference.krylov` says."""
    native = _native()
    if native is None or not K.flags.c_contiguous:
        return krylov.krylov_steps(K, basis, T, size, width, steps, centred)
    return native.krylov_steps(K, basis, T, size, width, steps, centred, _threads_to_read(K))


def tall_times(A: np.ndarray, B: np.ndarray, transposed: bool = False) -> np.ndarray:
    """``A @ B``, or ``A.T @ B``, for a tall C-ordered A in float64 and a B of few columns.

    Threads of BLAS, which wait busily for more to do, would get in the way of the core's.

    Examples
    --------
    >>> import numpy as np
    >>> tall_times(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), transposed=True)
    array([[11.]])
    """
    native = _native()
    if native is None or not A.flags.c_contiguous:
        return (A.T if transposed else A) @ B
    B = np.ascontiguousarray(B, dtype=np.float64)
    return native.tall_times(A, B, transposed, _threads_to_read(A))


def pairs(
    program: Program,
    leaves: Sequence[Leaf],
    row_terms: Sequence[np.ndarray],
    column_terms: Sequence[np.ndarray],
    n: int,
    m: int,
    dtype: Any,
) -> Any:
    """An expression over n times m pairs, to be asked for its Gram matrix, products, reductions.

    Parameters
    ----------
    program : Program
    leaves : the statistics, one per leading register
    row_terms, column_terms : arrays of shape (n,) and (m,)
    n, m : int
    dtype : float32 or float64
        Of all arrays, and of the arithmetic.
    """
    native = _native()
    if native is None:
        return reference.Pairs(program, leaves, row_terms, column_terms, n, m, dtype)
    kind = native.Pairs32 if np.dtype(dtype) == np.float32 else native.Pairs64
    arguments = [(int(leaf.kind), *leaf[1:]) for leaf in leaves]
    return kind(
        program.operations,
        program.constants,
        program.registers,
        program.result,
        arguments,
        list(row_terms),
        list(column_terms),
        n,
        m,
    )
