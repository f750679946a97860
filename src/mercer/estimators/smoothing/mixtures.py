"""Sums of kernels around points, and the ways to evaluate them: exactly, by a tree, on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfftn, next_fast_len, rfftn
from scipy.interpolate import RegularGridInterpolator

from mercer import core
from mercer.arrays import backend, median_row, row_major
from mercer.estimators.smoothing.bandwidths import Bandwidth
from mercer.expressions import PairMatrix
from mercer.kernels.smoothing.densities import quiet_log
from mercer.kernels.smoothing.window import FormulaKernel, RadialKernel, SmoothingKernel

METHODS = ("auto", "exact", "tree", "grid")
# Pairs from which a tree is worth building, for compact kernels and within a tolerance, and the
# number of features up to which boxes are small compared with the distances between them.
TREE_PAIRS, TREE_FEATURES = 2**20, 6
# Points of the largest grid, features it may have, and what a point of it costs in pairs.
GRID_POINTS, GRID_FEATURES, PAIRS_OF_A_GRID_POINT = 2**23, 3, 64
# Points of a grid that the user asks for, with what is around it.
LARGEST_GRID = 2**26
# sup |∂²k/∂u²| / k(0), of the kernels that have second derivatives.
CURVATURE = {"Gaussian": 1.0, "Biweight": 8.0, "Triweight": 6.0}
# Sums below this may have lost terms to underflow.
TINY = 1e-290


@dataclass(frozen=True)
class Mixture:
    """p(x) = Σ_n w_n k(R⁻¹ (x - x_n) / s_n) / (s_n^d |R|).

    Attributes
    ----------
    kernel : SmoothingKernel
    bandwidth : Bandwidth
    X : ndarray of shape (n, d)
    weight : ndarray of shape (n,)
        w_n > 0, summing to one.
    local : ndarray of shape (n,) or None
        s_n, how much wider each point's kernel is; all one if None.
    """

    kernel: SmoothingKernel
    bandwidth: Bandwidth
    X: np.ndarray
    weight: np.ndarray
    local: np.ndarray | None = None

    @property
    def d(self) -> int:
        return self.X.shape[1]

    def log_moment(self, X: np.ndarray, power: int = 1) -> np.ndarray:
        """log Σ_n w_n (k_n(x))^power at each row of ``X: (m, d)``, without approximation."""
        U, V = self._scaled(X)
        log_weight = np.log(self.weight)
        if self.local is not None:
            log_weight = log_weight - power * self.d * np.log(self.local)
        sums = self.kernel.log_sums(U, V, log_weight, (power,), self.local)[0]
        return sums - power * self.bandwidth.log_volume

    def log_density(
        self, X: np.ndarray, method: str = "exact", rtol: float = 0.0, atol: float = 0.0
    ) -> np.ndarray:
        """log p(x) at each row of ``X: (m, d)``, with p(x) within atol + rtol p(x)."""
        if method == "auto":
            method = self._choice(X, rtol, atol)
        if method == "tree":
            return self._by_tree(X, rtol, atol)
        if method == "grid":
            return self._by_grid(X, atol)
        return self.log_moment(X)

    def components(self, X: np.ndarray) -> np.ndarray:
        """k_n(x) at each row of ``X: (m, d)``, shape (m, n)."""
        local = np.ones(len(self.X)) if self.local is None else self.local
        u = self.bandwidth.shrink((X[:, None] - self.X).reshape(-1, self.d))
        u = u / np.tile(local, len(X))[:, None]
        log_k = self.kernel.log_pairs(u, np.zeros((1, self.d))).reshape(len(X), -1)
        return np.exp(log_k - self.bandwidth.log_volume - self.d * np.log(local))

    def sample(self, n: int, rng: np.random.RandomState) -> np.ndarray:
        """Draws from p, (n, d): a point by weight, moved by a draw from its kernel."""
        at = rng.choice(len(self.X), size=n, p=self.weight)
        steps = self.bandwidth.stretch(self.kernel.sample(n, self.d, rng))
        return self.X[at] + (steps if self.local is None else steps * self.local[at, None])

    def _scaled(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Queries and points on the kernel's scale."""
        if not self.kernel.radial:  # what lies on an edge must not be moved
            return self.bandwidth.shrink(X), self.bandwidth.shrink(self.X)
        # Differences do not see a common shift, but their rounding does.
        centre = median_row(self.X)
        return self.bandwidth.shrink(X - centre), self.bandwidth.shrink(self.X - centre)

    @property
    def _peak(self) -> float:
        """The highest value of the kernel, on its own scale."""
        origin = np.zeros((1, self.d))
        return float(np.exp(self.kernel.log_pairs(origin, origin)[0, 0]))

    # Choosing.

    def _choice(self, X: np.ndarray, rtol: float, atol: float) -> str:
        pairs = len(X) * len(self.X)
        if pairs < TREE_PAIRS or self.refusal("tree") is not None:
            return "exact"
        if atol > 0 and self.refusal("grid") is None:
            shape = self._grid_shape(self._scaled(X)[1], atol)
            if shape is not None and np.prod(shape, dtype=float) * PAIRS_OF_A_GRID_POINT < pairs:
                return "grid"
        compact = np.isfinite(self.kernel.support)
        if self.d <= TREE_FEATURES and (compact or rtol > 0 or atol > 0):
            return "tree"
        return "exact"

    def refusal(self, method: str) -> str | None:
        """Why a method cannot be used, or None where it can."""
        if method in ("tree", "grid") and (note := backend(self.X).note(self.X)):
            return f"it needs arrays in memory, and the points are {note}"
        if method == "tree" and not isinstance(self.kernel, RadialKernel):
            return f"a tree needs a radial kernel, and {self.kernel!r} is not"
        if method == "table" and not isinstance(self.kernel, FormulaKernel):
            return f"{self.kernel!r} is a function of the user's"
        if method in ("tree", "grid") and self.local is not None:
            return "every point has a bandwidth of its own"
        if method == "grid" and self.d > GRID_FEATURES:
            return f"a grid of {self.d} features is too large; {GRID_FEATURES} at most"
        if method == "grid" and type(self.kernel).__name__ not in CURVATURE:
            return f"{self.kernel!r} has edges, which a grid cannot follow to a tolerance"
        return None

    # By a tree.

    def _by_tree(self, X: np.ndarray, rtol: float, atol: float) -> np.ndarray:
        assert isinstance(self.kernel, FormulaKernel)
        log_unit = self.kernel.log_normaliser(self.d) + self.bandwidth.log_volume
        pairs = PairMatrix(self.kernel.formula(self.d), *self._scaled(X))
        sums = pairs.tree_sums(self.weight, rtol, atol * np.exp(log_unit))
        log_p = quiet_log(sums) - log_unit
        lost = np.flatnonzero(sums < TINY)
        if len(lost) and not np.isfinite(self.kernel.support):
            log_p[lost] = self.log_moment(X[lost])
        return log_p

    # On a grid.

    def _grid_step(self, atol: float) -> tuple[float, float]:
        """Spacing and margin of a grid on the kernel's scale that keeps ``atol``.

        Sharing a point out among the corners of its cell changes p by at most
        Σ_k δ²/8 sup|∂_k² k|, and so does reading p off between corners. A tenth of the tolerance
        is left for the tails that are cut off and for rounding.
        """
        limit = atol * np.exp(self.bandwidth.log_volume) / self._peak
        curvature = CURVATURE[type(self.kernel).__name__]
        step = np.sqrt(0.9 * limit * 4 / (self.d * curvature))
        reach = min(self.kernel.support, np.sqrt(2 * np.log(max(20 / limit, 2.0))))
        return float(min(step, 0.5)), float(reach)

    def _grid_shape(self, V: np.ndarray, atol: float) -> np.ndarray | None:
        step, reach = self._grid_step(atol)
        sides = np.ptp(V, axis=0) + 2 * reach
        shape = np.ceil(sides / step) + 2
        fits = np.prod(2 * shape) <= GRID_POINTS and atol > 0
        rounding = 1e-13 * self._peak < atol * np.exp(self.bandwidth.log_volume)
        return shape.astype(np.int64) if fits and rounding else None

    def _by_grid(self, X: np.ndarray, atol: float) -> np.ndarray:
        U, V = self._scaled(X)
        step, reach = self._grid_step(atol)
        shape = self._grid_shape(V, atol)
        if shape is None:
            raise ValueError(
                f"method='grid' keeps atol={atol:g} on a grid of more than {GRID_POINTS:,} points, "
                "or not at all; raise atol, or use method='tree' or 'exact'"
            )
        low, steps = V.min(axis=0) - reach, np.full(self.d, step)

        def values(u: np.ndarray) -> np.ndarray:
            return np.exp(self.kernel.log_pairs(u, np.zeros((1, self.d)))[:, 0])

        span = np.full(self.d, int(np.ceil(reach / step)) + 1)
        p = binned_convolution(V, self.weight, low, steps, shape, values, span)
        axes = [low_k + step * np.arange(count) for low_k, count in zip(low, shape, strict=True)]
        read = RegularGridInterpolator(axes, p, bounds_error=False, fill_value=0.0)
        found = read(U) / np.exp(self.bandwidth.log_volume)
        log_p = quiet_log(np.maximum(found, 0))
        # Where p is no larger than its tolerance its logarithm would say nothing.
        small = np.flatnonzero(found <= atol)
        if len(small):
            log_p[small] = self.log_moment(X[small])
        return log_p

    def on_grid(self, low: np.ndarray, high: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """p on a grid of points over a box, by linear binning and a fast Fourier transform."""
        steps = (high - low) / (shape - 1)
        reach = self.kernel.support
        if not np.isfinite(reach):
            reach = 9.0 if type(self.kernel).__name__ == "Gaussian" else 45.0
        root = self.bandwidth.root
        width = np.sqrt((root**2).sum(axis=1)) if self.bandwidth.is_matrix else root
        reach = reach * width
        # The box and as much around it as there are points that reach in.
        lowest, highest = self.X.min(axis=0), self.X.max(axis=0)
        before = np.ceil(np.clip(low - lowest, 0, reach) / steps)
        after = np.ceil(np.clip(highest - high, 0, reach) / steps)
        points, whole = np.prod(shape, dtype=float), np.prod(shape + before + after)
        pairs = len(self.X) * points
        if whole > LARGEST_GRID or max(4 * points, pairs / PAIRS_OF_A_GRID_POINT) < whole:
            axes = [np.linspace(a, b, k) for a, b, k in zip(low, high, shape, strict=True)]
            mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.d)
            return np.exp(self.log_moment(mesh)).reshape(tuple(shape))
        before, after = before.astype(np.int64), after.astype(np.int64)
        first, last = low - before * steps, high + after * steps
        X, weight = self.X, self.weight
        if np.any(lowest < first) or np.any(highest > last):
            inside = np.all((first <= X) & (last >= X), axis=1)
            X, weight = X[inside], weight[inside]
        if not len(X):
            return np.zeros(tuple(shape))

        def values(x: np.ndarray) -> np.ndarray:
            u = self.bandwidth.shrink(x)
            return np.exp(self.kernel.log_pairs(u, np.zeros((1, self.d)))[:, 0])

        span = np.ceil(reach / steps).astype(np.int64)
        p = binned_convolution(X, weight, first, steps, shape + before + after, values, span)
        p = p[tuple(slice(k, k + count) for k, count in zip(before, shape, strict=True))]
        return np.maximum(p, 0) / np.exp(self.bandwidth.log_volume)


def binned_convolution(
    X: np.ndarray,
    weight: np.ndarray,
    low: np.ndarray,
    steps: np.ndarray,
    shape: np.ndarray,
    values: Callable[[np.ndarray], np.ndarray],
    span: np.ndarray,
) -> np.ndarray:
    """Σ_n w_n f(x - x_n) on a grid, the points shared out linearly among its corners.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weight : ndarray of shape (n,)
    low, steps, shape : ndarrays of shape (d,)
        The grid's first corner, its spacings and how many points it has along each axis.
    values : callable
        f at differences, ``(q, d) -> (q,)``.
    span : ndarray of shape (d,)
        How many spacings f reaches along each axis.
    """
    equal = weight[0] if weight.min() == weight.max() else None
    bins = (
        core.smoother()
        .bin_linear(
            row_major(X, np.float64),
            None if equal is not None else row_major(weight, np.float64),
            row_major(low, np.float64),
            row_major(steps, np.float64),
            row_major(shape, np.int64),
        )
        .reshape(tuple(shape))
    )
    span = np.minimum(span, shape - 1)
    offsets = np.meshgrid(
        *(np.arange(-k, k + 1) * s for k, s in zip(span, steps, strict=True)), indexing="ij"
    )
    table = values(np.stack(offsets, axis=-1).reshape(-1, len(span))).reshape(2 * span + 1)
    if equal is not None:
        table = table * equal
    # What wraps around falls on the first places, which are cut off.
    size = [next_fast_len(int(n + k), real=True) for n, k in zip(shape, span, strict=True)]
    whole = irfftn(rfftn(bins, size) * rfftn(table, size), size)
    return whole[tuple(slice(k, k + n) for k, n in zip(span, shape, strict=True))]
