"""Which form of the Gram operator to use: decided here, by size and budget, and reported."""

from __future__ import annotations

from typing import Any

from mercer.arrays import memory_budget, n_rows
from mercer.kernels.feature_maps import FeatureMap
from mercer.kernels.kernel import Kernel, NoFiniteFeatureMap
from mercer.operators.gram import DenseGram, FeatureGram, GramOperator, TiledGram

# Explicit features win when there are this many times fewer of them than points.
FEATURES_PAY = 4


def gram(kernel: Kernel, X: Any, Y: Any = None) -> GramOperator:
    """The Gram operator of a kernel on X and Y.

    Parameters
    ----------
    kernel : Kernel
    X : n points
    Y : m points, or None for X itself

    Returns
    -------
    GramOperator
        Stored when it fits scikit-learn's ``working_memory``, kept as explicit features when those
        are few, recomputed in tiles otherwise; ``reason`` says which and why.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> gram(K.RBF(), [[0.0], [1.0]]).reason
    'stored: 0.0 MiB fit the budget of 1024 MiB'
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a mercer kernel; got {kernel!r}")
    if getattr(kernel, "is_precomputed", False):
        return DenseGram(kernel(X, Y), "precomputed")
    n, m = n_rows(X), n_rows(X if Y is None else Y)
    mib, budget = n * m * 8 / 2**20, memory_budget() / 2**20
    features = small_feature_map(kernel, X, min(n, m))
    if features is not None:
        right = features.fit_transform(X if Y is None else Y)
        left = right if Y is None else features.transform(X)
        return FeatureGram(left, right, f"explicit features: {left.shape[1]} for {n} points")
    if mib <= budget:
        reason = f"stored: {mib:.1f} MiB fit the budget of {budget:.0f} MiB"
        return DenseGram(kernel(X, Y), reason)
    reason = f"recomputed in tiles: {mib:.0f} MiB exceed the budget of {budget:.0f} MiB"
    return TiledGram(kernel.over(X, Y), reason)


def small_feature_map(kernel: Kernel, X: Any, n: int) -> FeatureMap | None:
    """The kernel's feature map, where it is small beside n points; None where it is not."""
    try:
        features = kernel.feature_map()
        width = features.width(X)
    except (NoFiniteFeatureMap, ValueError):
        return None
    if width is None or width * FEATURES_PAY > n:
        return None
    return features
