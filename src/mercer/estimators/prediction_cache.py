"""What a fitted model predicts with, prepared by the first call and kept for the next ones."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from mercer.arrays import FLOATS, memory_budget, to_float64
from mercer.expressions import PackedPoints, Sum, is_summable, packed_points
from mercer.kernels import Kernel
from mercer.kernels.domains import REALS
from mercer.kernels.kernel import plain_key
from mercer.operators import POINTS_PER_FEATURE, small_feature_map

# Points are packed and cached with the model if that takes no more than one part of the memory
# budget in so many, and functions are summed over them if they are no more than so many.
PACKINGS_PER_BUDGET, MOST_PACKED_FUNCTIONS = 8, 256
# Entries of a Gram matrix for which the memory budget is not asked.
ALWAYS_ENTRIES = 2**17


class _Kept(NamedTuple):
    written: str
    points: Any
    coef: np.ndarray
    sum: Sum


# Beside the models and not in them: a model is pickled, saved and compared without what can be
# made again from the rest of it.
_kept: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()


class _Packed(NamedTuple):
    key: tuple
    points: Any
    sums: PackedPoints | None  # None where points are not kept
    always: bool  # also for many queries, for which explicit features may be the better way


_packed: WeakKeyDictionary[Any, _Packed] = WeakKeyDictionary()


def drop_cache(model: Any) -> None:
    """Let go of what is kept for a model, which is fitted again."""
    _kept.pop(model, None)
    _packed.pop(model, None)


def packed_sums(model: Any, X: Any, points: Any, coef: np.ndarray) -> np.ndarray | None:
    """Σ_j k(x, p_j) coef_j for a fitted model and plain rows X, with points that are packed once.

    None where this is not the way: X is not an array of finite numbers in float64 as wide as the
    points of the fit, without names there; the kernel is not one that the core computes alone; or
    explicit features may be faster.

    Parameters
    ----------
    model : fitted estimator with ``kernel_``
    points : (m, d) array; another one, or another kernel, is packed anew
    coef : (m, c) array, which may change from call to call
    """
    if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2:
        return None
    own = vars(model)
    named = "feature_names_in_" in own or own.get("n_features_in_") != X.shape[1]
    if named or not X.size or not np.isfinite(X.sum()):
        return None  # for scikit-learn's checks
    kernel = own["kernel_"]
    kept, key = _packed.get(model), plain_key(vars(kernel), type(kernel)) or kernel.key()
    if kept is None or kept.points is not points or kept.key != key:
        kept = _packed[model] = _pack(kernel, key, points)
    few = kept.always or len(X) < POINTS_PER_FEATURE
    if kept.sums is None or not few or coef.shape[1] > MOST_PACKED_FUNCTIONS:
        return None
    entries = len(X) * len(points)
    if entries > ALWAYS_ENTRIES and 8 * entries > memory_budget():
        return None
    return kept.sums(X, coef, kernel.domain is REALS)


def _pack(kernel: Kernel, key: tuple, points: Any) -> _Packed:
    plain = type(points) is np.ndarray and points.dtype in FLOATS and points.ndim == 2
    plain = plain and points.size > 0 and PACKINGS_PER_BUDGET * 8 * points.size <= memory_budget()
    if not plain or not kernel.domain.is_vectors or getattr(kernel, "is_precomputed", False):
        return _Packed(key, points, None, False)
    sums = packed_points(kernel.expression(), to_float64(points))
    always = small_feature_map(kernel, points, len(points), look=False)[0] is None
    return _Packed(key, points, sums, always)


def has_fast_sum(kernel: Kernel) -> bool:
    """Whether the kernel has a better way to sums over points than the Gram matrix."""
    return not kernel.domain.is_vectors and is_summable(kernel.expression())


def cached_sum(model: Any, points: Any, coef: np.ndarray) -> Sum | None:
    """x -> Σ_j k(x, p_j) coef_j, for the kernel of a fitted model.

    None where the kernel has no better way to it than the Gram matrix.

    Parameters
    ----------
    model : fitted estimator with ``kernel_``
    points : m points
    coef : (m, c) array
    """
    kernel: Kernel = model.kernel_
    if not has_fast_sum(kernel):
        return None
    e = kernel.expression()
    kept = _kept.get(model)
    if (
        kept is None
        or kept.points is not points
        or kept.written != repr(kernel)
        or not np.array_equal(kept.coef, coef)
    ):
        kept = _Kept(repr(kernel), points, coef.copy(), Sum(e, points, coef))
        _kept[model] = kept
    return kept.sum
