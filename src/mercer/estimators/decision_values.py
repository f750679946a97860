"""The functions that a fitted estimator has learned, at new points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import (
    as_dense,
    as_numpy,
    as_vectors,
    device_budget,
    like,
    row_blocks,
    to_device_of,
)
from mercer.arrays.libraries import is_recorded
from mercer.estimators.inputs import comes_to_centres, is_precomputed, validate_query
from mercer.estimators.prediction_cache import cached_sum, packed_sums
from mercer.kernels import Kernel
from mercer.operators import expansion, gram, streamed

# Bytes of a block of points that is brought to a device, with all that is made of it.
BLOCK_BYTES = 2**30


def decision_values(estimator: Any, X: Any) -> Any:
    """The fitted functions with their intercepts at new points, shape (m,) or (m, t)."""
    feature_map = getattr(estimator, "feature_map_", None)
    if feature_map is not None:
        mapped = feature_map.mapped(validate_query(estimator, X))
        return np.asarray(mapped @ estimator.coef_) + estimator.intercept_
    values, level = expansion_at(estimator, X, estimator.dual_coef_), estimator.intercept_
    return values + (level if isinstance(level, float) else to_device_of(level, values))


def expansion_at(estimator: Any, X: Any, coef: np.ndarray) -> np.ndarray:
    """The fitted functions ``sum_i coef_i k(x, x_i)`` at new points, shape (m,) or (m, t).

    ``coef`` is (n,) or (n, t), over the training points ``X_fit_``.
    """
    columns = coef.reshape(len(coef), -1)
    if type(columns) is np.ndarray:
        plain = packed_sums(estimator, X, estimator.X_fit_, columns)
        if plain is not None:
            return plain.reshape(-1, *coef.shape[1:])
    given, X = X, validate_query(estimator, X)
    if is_recorded(given) and not is_recorded(X) and not is_precomputed(estimator.kernel):
        return expansion_of_tensor(estimator.kernel_, as_vectors(given), estimator.X_fit_, coef)
    if comes_to_centres(estimator, X):
        return _brought(estimator, X, coef)
    kept = cached_sum(estimator, estimator.X_fit_, columns)
    if kept is not None:
        return kept(X).reshape(-1, *coef.shape[1:])
    return expansion(estimator.kernel_, X, estimator.X_fit_, coef)


def expansion_of_tensor(kernel: Kernel, X: Any, points: Any, coef: Any) -> Any:
    """``sum_i coef_i k(x, x_i)`` at new points that are a tensor, where that is."""
    points, coef = (like(as_dense(A), X) for A in (points, coef))
    return gram(kernel, X, points, store=False) @ coef


def _brought(estimator: Any, X: Any, coef: Any) -> Any:
    """`expand` with points brought to the centres some at a time, and values brought back."""
    points = estimator.X_fit_
    budget = min(BLOCK_BYTES, device_budget(points.device) // 4)
    parts = row_blocks(len(X), 64 * (X.shape[1] + coef[:1].numel() + 4), budget)
    found = [
        as_numpy(expansion(estimator.kernel_, some, points, coef))
        for (some,) in streamed((X,), parts, points.device)
    ]
    return like(np.concatenate(found), X)
