"""Which form of the Gram operator to use: decided here, by size and budget, and reported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import backend, is_plain, memory_budget, n_rows
from mercer.arrays.libraries import to_native
from mercer.arrays.torch_state import computing
from mercer.expressions import PairMatrix, TensorPairMatrix, small_gram
from mercer.expressions.tensors import refuse_tensors
from mercer.kernels.budget import quantity
from mercer.kernels.domains import REALS
from mercer.kernels.feature_maps import FeatureMap
from mercer.kernels.kernel import Kernel, NoFiniteFeatureMap
from mercer.kernels.vector_kernel import VectorKernel
from mercer.operators.gram import DenseGram, FeatureGram, GramOperator, TiledGram
from mercer.operators.tensors import tensor_gram

# Explicit features win when there are this many times fewer of them than points.
POINTS_PER_FEATURE = 4
# So few entries are computed at once sooner than some of them one after the other.
STORED = 2**20


def gram_operator(
    kernel: Kernel, X: Any, Y: Any = None, store: bool = True, precision: str = "fp16x3"
) -> GramOperator:
    """The Gram operator of a kernel on X and Y.

    Parameters
    ----------
    kernel : Kernel
    X : n points
    Y : m points, or None for X itself
    store : bool
        Whether the matrix may be stored, beyond STORED entries of formulas that the core computes;
        False where only some rows are going to be asked for.
    precision : "fp16x3", "tf32x3" or "tf32", default="fp16x3"
        Of float32 tensors on a GPU: the first two have float32's accuracy, the second for points
        of any size; "tf32" keeps ten bits of each number.

    Returns
    -------
    GramOperator
        Stored when it fits scikit-learn's ``working_memory`` (on a GPU, what is free there), kept
        as explicit features when those are few (not of tensors), recomputed in tiles otherwise;
        ``reason`` says which and why.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> gram(K.RBF(), [[0.0], [1.0]]).reason
    'stored: 0.0 MiB fit the budget of 1024 MiB'
    """
    if not isinstance(kernel, Kernel):
        shown = repr(kernel) if isinstance(kernel, str) else f"a {type(kernel).__name__}"
        raise TypeError(f"kernel must be a mercer kernel, as kernels.RBF() is; got {shown}")
    if is_plain(X) and Y is None and isinstance(kernel, VectorKernel) and not kernel.tensors():
        operator = _small(kernel, X)
        if operator is not None:
            return operator
    X, Y = to_native(X), to_native(Y)
    on_tensors = "torch" in (backend(X).executor, backend(Y).executor)
    if getattr(kernel, "is_precomputed", False):
        if on_tensors:
            raise TypeError(
                "X is a tensor, and Precomputed() takes a matrix that is an array; multiply by the "
                "tensor itself, or pass X.cpu().numpy()"
            )
        return DenseGram(kernel(X, Y), "precomputed")
    if on_tensors:
        pairs = TensorPairMatrix(kernel.expression(), X, Y, precision, kernel.tensors())
        return tensor_gram(pairs, store)
    refuse_tensors(kernel.tensors(), X)
    pairs_of = partial(PairMatrix, kernel.expression(), X, Y)
    operator = _chosen(kernel, X, Y, store, pairs_of)
    operator.pairs_of = pairs_of
    return operator


# Within `kernels` and estimators it is computed exactly already.
gram = computing(gram_operator)
gram.__name__ = gram.__qualname__ = "gram"


def _small(kernel: VectorKernel, X: np.ndarray) -> GramOperator | None:
    """The stored matrix of few plain points, if the kernel has a short way to it."""
    if len(X) ** 2 > min(STORED, memory_budget() // 8):
        return None
    e = kernel.expression()
    K = small_gram(e, X, checked=kernel.domain is REALS)
    if K is None:
        return None
    operator = DenseGram(K, _fits(8 * K.size))
    operator.pairs_of = partial(PairMatrix, e, X, None)
    return operator


def _fits(size: int) -> str:
    return f"stored: {size / 2**20:.1f} MiB fit the budget of {memory_budget() / 2**20:.0f} MiB"


def expansion(kernel: Kernel, X: Any, Y: Any, V: Any) -> Any:
    """f(X) for the functions ``f_c = Σ_j V_jc k(·, y_j)``: ``gram(kernel, X, Y) @ V``, asked once.

    Every entry of the Gram matrix is read once, so it is never stored: tiles are computed and
    summed, or V is summed over explicit features where those are few.

    Parameters
    ----------
    kernel : Kernel
    X : n points
    Y : m points
    V : (m,) or (m, c) array or tensor

    Returns
    -------
    (n,) or (n, c) array or tensor

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels as K
    >>> expansion(K.Linear(), [[2.0]], [[1.0], [3.0]], np.array([1.0, 1.0]))
    array([8.])
    """
    if getattr(kernel, "is_precomputed", False) or backend(X).executor == "torch":
        return gram(kernel, X, Y, store=False) @ V
    features = _feature_gram(kernel, X, Y)
    if features is not None:
        return features @ V
    return TiledGram(PairMatrix(kernel.expression(), X, Y)) @ V


def _chosen(
    kernel: Kernel, X: Any, Y: Any, store: bool, pairs_of: Callable[[], PairMatrix]
) -> GramOperator:
    features = _feature_gram(kernel, X, Y)
    if features is not None:
        return features
    pairs = pairs_of()
    n, m = pairs.shape
    mib, budget = n * m * 8 / 2**20, memory_budget() / 2**20
    if not store and n * m > STORED and pairs.native:
        return TiledGram(pairs, "recomputed in tiles: not all of it is needed")
    if mib <= budget:
        return DenseGram(pairs.gram(), _fits(8 * n * m))
    reason = f"recomputed in tiles: {mib:.0f} MiB exceed the budget of {budget:.0f} MiB"
    return TiledGram(pairs, reason)


def _feature_gram(kernel: Kernel, X: Any, Y: Any) -> FeatureGram | None:
    """The operator by explicit features, where these are few or sparse; else None."""
    right = X if Y is None else Y
    n, m = n_rows(X), n_rows(right)
    mib, budget = n * m * 8 / 2**20, memory_budget() / 2**20
    phi, reason = None, ""
    if mib > budget:  # where they are sparse, features are worth a pass, however many
        phi, reason = _sparse_feature_map(kernel, right)
    if phi is None:
        phi, reason = small_feature_map(kernel, right, min(n, m), look=mib > budget)
    if phi is not None:
        # How many entries of sparse features are not zero shows only when they are asked for.
        with suppress(MemoryError):
            G = phi.mapped(right)
            F = G if Y is None else phi.mapped(X)
            if not sp.issparse(G) or POINTS_PER_FEATURE * (F.nnz + G.nnz) <= n * m:
                return FeatureGram(F, G, f"explicit features: {reason}")
    return None


def _sparse_feature_map(kernel: Kernel, X: Any) -> tuple[FeatureMap | None, str]:
    """The kernel's feature map, fitted on X, where its features are sparse, however many."""
    try:
        phi = kernel.feature_map()
        if not phi.is_sparse(X):
            return None, "no sparse feature map"
        return phi.fit(X), "few entries are not zero"
    except (NoFiniteFeatureMap, MemoryError, ValueError):
        return None, "no finite feature map"


def small_feature_map(
    kernel: Kernel, X: Any, n: int, look: bool = True
) -> tuple[FeatureMap | None, str]:
    """The kernel's feature map, fitted on X, if it is small compared with n points; and why.

    Parameters
    ----------
    kernel : Kernel
    X : points to fit the map on
    n : int
        The number of points to compare the number of features with.
    look : bool
        Whether a map that lists what it finds, whose size only a pass over X shows, is tried.
    """
    try:
        phi = kernel.feature_map()
        width = phi.width(X)
        if width is None:
            width = phi.fit(X).n_features_out_ if look else None
    except (NoFiniteFeatureMap, MemoryError, ValueError):
        return None, "no finite feature map"
    if width is None:
        return None, "the number of features is not known beforehand"
    if POINTS_PER_FEATURE * width > n:
        return None, f"{quantity(width)} features are not few compared with {n} points"
    if not phi.is_sparse(X) and 8 * n_rows(X) * width > memory_budget():
        return None, f"{n_rows(X)} points in {width} features exceed the memory budget"
    return phi.fit(X), f"{width} features are few compared with {n} points"
