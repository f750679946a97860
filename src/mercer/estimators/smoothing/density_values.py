"""Values of a fitted density on a grid, and standard errors at points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import row_blocks
from mercer.estimators.smoothing.mixtures import LARGEST_GRID
from mercer.kernels.smoothing.densities import quiet_log


def density_on_grid(
    density: Any, n_points: Any, low: Any, high: Any
) -> tuple[list[np.ndarray], np.ndarray]:
    """`KernelDensity.grid` of a fitted density."""
    d, mixture, box = density.n_features_in_, density._mixture(), density._box()
    shape = np.broadcast_to(np.asarray(n_points, dtype=np.int64), d).copy()
    if shape.min() < 2 or np.prod(shape, dtype=float) > LARGEST_GRID:
        raise ValueError(
            f"n_points={n_points!r} in {d} features; expected at least 2 along each, and no "
            f"more than {LARGEST_GRID:,} altogether"
        )
    margin = (
        4 * _deviation_of_kernel(density) * (1 if mixture.local is None else mixture.local.max())
    )
    ends = [
        np.maximum(density.X_fit_.min(axis=0) - margin, box.low) if low is None else low,
        np.minimum(density.X_fit_.max(axis=0) + margin, box.high) if high is None else high,
    ]
    first, last = (np.broadcast_to(np.asarray(end, dtype=float), d) for end in ends)
    if not np.all(first < last):
        raise ValueError(f"low={first} must be below high={last}")
    axes = [np.linspace(a, b, count) for a, b, count in zip(first, last, shape, strict=True)]
    if box.is_bounded or mixture.local is not None or mixture.refusal("table") is not None:
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
        return axes, density.pdf(mesh).reshape(tuple(shape))
    return axes, mixture.on_grid(first, last, shape)


def _deviation_of_kernel(density: Any) -> np.ndarray:
    """A standard deviation of the kernel along each feature."""
    root = density._map().root
    width = np.sqrt((root**2).sum(axis=1)) if root.ndim == 2 else root
    return width * np.sqrt(density.kernel_.variance(density.n_features_in_))


def standard_errors(density: Any, X: np.ndarray) -> np.ndarray:
    """`KernelDensity.standard_error` at checked points."""
    log_mean, log_square = _two_moments(density, X)
    reached = np.isfinite(log_mean)
    excess = np.expm1(log_square[reached] - 2 * log_mean[reached])
    # Of one point, or equal ones, nothing is left but rounding.
    excess[excess < 1e-14 * (1 + np.abs(log_mean[reached]))] = 0
    se = np.zeros(len(log_mean))
    se[reached] = np.exp(log_mean[reached]) * np.sqrt(excess)
    return np.where(
        density._box().contains(X), se * np.sqrt(np.sum(density.sample_weight_**2)), 0.0
    )


def _two_moments(density: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log Σ w k and log Σ w k² at each row, reflections counted into k."""
    mixture, box = density._mixture(), density._box()
    if not box.is_bounded:
        return mixture.log_moment(X, 1), mixture.log_moment(X, 2)
    images = box.images(X, density._reach())
    means, squares = np.empty((2, len(X)))
    for rows in row_blocks(len(X), 64.0 * len(density.X_fit_)):
        k = np.zeros((len(X[rows]), len(density.X_fit_)))
        for image in images:
            k += mixture.components(image[rows])
        means[rows], squares[rows] = k @ density.sample_weight_, k**2 @ density.sample_weight_
    return quiet_log(means), quiet_log(squares)
