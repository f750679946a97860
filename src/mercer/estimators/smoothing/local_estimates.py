"""The local fits of a smoother: over points that are arrays, and over tensors."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from mercer.arrays import as_numpy, is_tensor, like, to_float64
from mercer.arrays.libraries import is_recorded
from mercer.cached import cached_property
from mercer.estimators.smoothing.local_fits import LocalFits
from mercer.estimators.smoothing.neighbourhoods import Neighbourhoods, leave_one_out
from mercer.estimators.smoothing.tensors import TensorMeans, recorded_lines, tensor_lines

# Pairs of a query and a point from which sums are taken by the core, without storing weights.
MANY_PAIRS = 2**16


class LocalEstimates(Protocol):
    """Local fits with a smoother's kernel, bandwidth and training points.

    Attributes
    ----------
    searches_all : bool
        Whether the search for a bandwidth may end on all points, which is done on the host.
    """

    searches_all: bool

    def around(self, X: Any, Y: np.ndarray) -> Any:
        """The local fit of ``Y: (n, k)`` around each row of ``X: (m, d)``, (m, k)."""
        ...

    def left_out(self, Y: np.ndarray) -> np.ndarray:
        """The prediction of each row of ``Y: (n, k)`` by the others, (n, k)."""
        ...


def local_estimates(smoother: Any) -> LocalEstimates:
    """The implementation for the smoother's training points."""
    return TensorEstimates(smoother) if is_tensor(smoother.X_fit_) else ArrayEstimates(smoother)


def is_fused(smoother: Any, m: int) -> bool:
    """Whether m queries go through the core, without a matrix of weights."""
    n, d = smoother.X_fit_.shape
    return m * n >= MANY_PAIRS and LocalFits.serve(smoother.kernel_, d)


class ArrayEstimates:
    """By the core, or from weights that are stored, some queries at a time."""

    searches_all = True

    def __init__(self, smoother: Any):
        self.smoother = smoother

    @cached_property
    def near(self) -> Neighbourhoods:
        return self.smoother._neighbourhoods()

    def around(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        if not is_fused(self.smoother, len(X)):
            return self._by_weights(X, Y)
        moments = self._fits(Y).at(self.near.bandwidth.shrink(X))
        mean = moments.value
        careful = np.flatnonzero(moments.flat | ~np.isfinite(moments.log_sum))
        if len(careful):
            mean[careful] = self._by_weights(X[careful], Y)
        return mean

    def left_out(self, Y: np.ndarray) -> np.ndarray:
        if is_fused(self.smoother, len(Y)):
            moments = self._fits(Y).at()
            if not moments.flat.any():
                return moments.value
        return leave_one_out(self.near, Y, self.smoother._local_fit)

    def _fits(self, Y: np.ndarray) -> LocalFits:
        near, smoother = self.near, self.smoother
        return LocalFits(near.V, near.mass, Y, smoother._slopes, smoother._lines)

    def _by_weights(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        V = self.near.sites
        blocks = self.near.blocks(X, floats_per_pair=4 * (X.shape[1] + Y.shape[1]))
        return np.concatenate([self.smoother._local_fit(W, U, V, Y)[0] for _, U, W in blocks])


class TensorEstimates:
    """By products on the tensors' device; lines where points hardly spread, on the host."""

    searches_all = False  # there may be too many points for the host

    def __init__(self, smoother: Any):
        self.smoother, self.kernel = smoother, smoother.kernel_
        self.points, self.mass = smoother.X_fit_, smoother.sample_weight_

    def shrink(self, X: Any) -> Any:
        """Points on the kernel's scale."""
        return self.smoother._scaling().shrink(X)

    def around(self, X: Any, Y: np.ndarray) -> Any:
        return like(self._fits(as_numpy(Y), X), X)

    def left_out(self, Y: np.ndarray) -> np.ndarray:
        return as_numpy(self._fits(Y))

    def _fits(self, Y: np.ndarray, X: Any = None) -> Any:
        """The fit of Y around each query or, by the others, around each point: (m, k)."""
        if not self.smoother._is_linear:
            means = TensorMeans(self.kernel, self.shrink(self.points), self.mass, Y)
            return means.around(None if X is None else self.shrink(X))
        points, X = to_float64(self.points), None if X is None else to_float64(X)
        around = None if X is None else self.shrink(X)
        given = self.kernel, self.shrink(points), self.mass, Y, around
        fits = tensor_lines(*given)
        careful, near = np.flatnonzero(fits.flat), self._on_host(points)
        at, chosen = (None, careful) if X is None else (as_numpy(X)[careful], None)
        for rows, U, W in near.blocks(at, 4 * (points.shape[1] + Y.shape[1]), chosen):
            fits.value[careful[rows]] = self.smoother._local_fit(W, U, near.sites, Y)[0]
        if not is_recorded(X):
            return fits.value
        if len(careful):
            raise RuntimeError(
                f"X requires a gradient, and the training points in reach of row {careful[0]} "
                "hardly spread, so that the local line has none there; use a larger bandwidth, or "
                "pass X.detach()"
            )
        lines = recorded_lines(*given)
        return like(fits.value, lines) + lines - lines.detach()

    def _on_host(self, points: Any) -> Neighbourhoods:
        return self.smoother._around(as_numpy(points))
