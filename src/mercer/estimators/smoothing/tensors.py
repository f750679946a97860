"""Local means and lines over points that are tensors, without a matrix of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import (
    as_numpy,
    device_budget,
    like,
    median_row,
    namespace,
    row_blocks,
    to_float64,
)
from mercer.estimators.smoothing.local_fits import LocalMoments
from mercer.expressions import Point, View, exp, over
from mercer.kernels.smoothing.window import FormulaKernel, SmoothingKernel

EPS = float(np.finfo(np.float64).eps)
# Where a point has all but this power of the rounding error of the weight at itself, the others are
# summed by themselves.
ALONE = 1 / 3
# Rounding of second moments may be this part of the spread of the points in reach.
LOST = 1e-9


class TensorMeans:
    """Σ_n w_n(u) y_n with w_n(u) = a_n k(u - v_n) / Σ_m a_m k(u - v_m), in the log domain.

    Parameters
    ----------
    kernel : SmoothingKernel that is positive everywhere, so that weights never are 0/0
    V : (n, d) tensor of points on the kernel's scale
    mass : (n,) array of a_n
    Y : (n, k) array
    """

    def __init__(self, kernel: SmoothingKernel, V: Any, mass: np.ndarray, Y: np.ndarray):
        log_k = kernel.log_formula(V.shape[1]) if isinstance(kernel, FormulaKernel) else None
        if log_k is None:
            raise ValueError(
                f"kernel={kernel!r} is not available for tensors, since it is zero far away; use "
                "'gaussian' or 'exponential', or pass X.cpu().numpy()"
            )
        self.log_k, self.V, self.mass, self.Y = log_k, V, mass, Y

    def around(self, U: Any = None) -> Any:
        """The means at each row of ``U: (m, d)``, or those of the others at each point: (m, k)."""
        return self._left_out() if U is None else self._means(U)[0]

    def _means(self, U: Any) -> tuple[Any, Any]:
        log_sum = over(self.log_k, U, self.V).log_sum_exp(np.log(self.mass))
        weights = exp(self.log_k - Point(lambda points: log_sum, View(), 0))
        columns = self.mass[:, None] * np.column_stack([self.Y, np.ones(len(self.Y))])
        sums = over(weights, U, self.V).products(columns, np.zeros((len(U), 0)))[0]
        return sums[:, :-1] / sums[:, -1:], log_sum

    def _left_out(self) -> Any:
        """The means at each point, one unit of its own mass taken away, in float64, (n, k)."""
        means, log_sum = self._means(self.V)
        xp, Y = namespace(self.V), like(self.Y, means)
        own = like(np.minimum(self.mass, 1), means) * xp.exp(-log_sum)
        rest = 1 - own
        found = (means - own[:, None] * Y) / rest[:, None]
        alone = xp.nonzero(rest < xp.finfo(self.V.dtype).eps ** ALONE)[:, 0]
        log_mass = like(np.log(self.mass), means)
        less = like(np.maximum(self.mass - 1, 0), means)
        pairs = over(self.log_k, self.V)
        for part in row_blocks(len(alone), 32 * len(self.V), device_budget(self.V.device)):
            rows = alone[part]
            values = to_float64(pairs.block(rows, slice(None))) + log_mass
            values[xp.arange(len(rows), device=rows.device), rows] = xp.log(less[rows])
            found[rows] = xp.softmax(values, 1) @ Y
        return found


def tensor_lines(
    kernel: SmoothingKernel, V: Any, mass: np.ndarray, Y: np.ndarray, U: Any = None
) -> LocalMoments:
    """Local lines around each row of ``U: (m, d)``, or those of the others around each point.

    Means of v, v vᵀ and v yᵀ are found where the points are, about their middle; what follows from
    them for each query, on the host. Where moving them to the query takes too many of their
    digits, fits are called flat.

    Parameters
    ----------
    kernel, V, mass, Y : as of `TensorMeans`, the points in double
    U : (m, d) tensor or None
    """
    V, U, means = _moments(kernel, V, mass, Y, U)
    points, means = as_numpy(V), as_numpy(means)
    u, (d, c) = points if U is None else as_numpy(U), (V.shape[1], Y.shape[1])
    a, b = np.tril_indices(d)
    of_y, of_v, of_vv, of_vy = np.split(means, np.cumsum([c, d, len(a)]), axis=1)
    # Seen from the query: of D = v - u, D Dᵀ and D yᵀ.
    seen = of_vv - u[:, a] * of_v[:, b] - u[:, b] * of_v[:, a] + u[:, a] * u[:, b]
    crossed = of_vy - (u[:, :, None] * of_y[:, None]).reshape(len(u), -1)
    log_sum = np.where(np.isnan(of_y[:, 0]), -np.inf, 0.0)
    moments = np.hstack([of_y, of_v - u, seen, crossed])
    fits = LocalMoments((u, points), Y, log_sum, moments, True, 1, None)
    squares = of_vv[:, a == b]
    spread = squares - of_v**2
    fits.flat |= np.any(EPS * (squares + u**2) > LOST * np.maximum(spread, 0.0), axis=1)
    return fits


def recorded_lines(kernel: SmoothingKernel, V: Any, mass: np.ndarray, Y: np.ndarray, U: Any) -> Any:
    """The values of `tensor_lines` as torch records them, (m, c): ȳ + (u - v̄)ᵀ S⁻¹ C.

    S and C are the covariances of v with itself and with y. They are NaN where S is singular.
    """
    V, U, means = _moments(kernel, V, mass, Y, U)
    xp, (d, c) = namespace(V), (V.shape[1], Y.shape[1])
    a, b = np.tril_indices(d)
    of_y, of_v, of_vv, of_vy = xp.split(means, [c, d, len(a), c * d], 1)
    place = np.zeros((d, d), dtype=np.int64)
    place[a, b] = place[b, a] = np.arange(len(a))
    S = of_vv[:, place.ravel()].reshape(-1, d, d) - of_v[:, :, None] * of_v[:, None]
    C = of_vy.reshape(-1, d, c) - of_v[:, :, None] * of_y[:, None]
    slope, failed = xp.linalg.solve_ex(S, C)
    values = of_y + ((U - of_v)[:, :, None] * slope).sum(1)
    return xp.where(failed[:, None] == 0, values, xp.nan)


def _moments(
    kernel: SmoothingKernel, V: Any, mass: np.ndarray, Y: np.ndarray, U: Any
) -> tuple[Any, Any, Any]:
    """Points and queries about their middle, and means of y, v, v vᵀ and v yᵀ around each query."""
    middle = median_row(V)
    V, U = V - middle, None if U is None else U - middle
    points = as_numpy(V)
    a, b = np.tril_indices(V.shape[1])
    crossed = (points[:, :, None] * Y[:, None]).reshape(len(points), -1)
    columns = np.hstack([Y, points, points[:, a] * points[:, b], crossed])
    return V, U, TensorMeans(kernel, V, mass, columns).around(U)
