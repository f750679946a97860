"""What a model on sequences, graphs or sets predicts with, kept from one call to the next."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from mercer.expressions import Sum, is_summable
from mercer.kernels import Kernel


class _Kept(NamedTuple):
    written: str
    points: Any
    coef: np.ndarray
    sum: Sum


# Beside the models and not in them: a model is pickled, saved and compared without what can be
# made again from the rest of it.
_kept: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()


def may_keep_sum(kernel: Kernel) -> bool:
    """Whether the kernel has a better way to sums over points than the Gram matrix."""
    return not kernel.domain.is_vectors and is_summable(kernel.expression())


def kept_sum(model: Any, points: Any, coef: np.ndarray) -> Sum | None:
    """x -> Σ_j k(x, p_j) coef_j, for the kernel of a fitted model.

    None where the kernel has no better way to it than the Gram matrix.

    Parameters
    ----------
    model : fitted estimator with ``kernel_``
    points : m points
    coef : (m, c) array
    """
    kernel: Kernel = model.kernel_
    if not may_keep_sum(kernel):
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
