"""Nadaraya and Watson's means over points that are tensors, without a matrix of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import beside, device_budget, doubled, namespace, row_blocks
from mercer.expressions import Point, View, exp, over
from mercer.kernels.smoothing import FormulaKernel, SmoothingKernel

# Where a point has all but this power of the rounding error of the weight at itself, the others are
# summed by themselves.
ALONE = 1 / 3


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
                f"kernel={kernel!r} is not there for tensors, since it is zero far away; use "
                "'gaussian' or 'exponential', or pass X.cpu().numpy()"
            )
        self.log_k, self.V, self.mass, self.Y = log_k, V, mass, Y

    def at(self, U: Any) -> Any:
        """The means at each row of ``U: (m, d)``, in float64, (m, k)."""
        return self._means(U)[0]

    def _means(self, U: Any) -> tuple[Any, Any]:
        log_sum = over(self.log_k, U, self.V).log_sum_exp(np.log(self.mass))
        weights = exp(self.log_k - Point(lambda points: log_sum, View(), 0))
        columns = self.mass[:, None] * np.column_stack([self.Y, np.ones(len(self.Y))])
        sums = over(weights, U, self.V).products(columns, np.zeros((len(U), 0)))[0]
        return sums[:, :-1] / sums[:, -1:], log_sum

    def left_out(self) -> Any:
        """The means at each point, one unit of its own mass taken away, in float64, (n, k)."""
        means, log_sum = self._means(self.V)
        xp, Y = namespace(self.V), beside(self.Y, means)
        own = beside(np.minimum(self.mass, 1), means) * xp.exp(-log_sum)
        rest = 1 - own
        found = (means - own[:, None] * Y) / rest[:, None]
        alone = xp.nonzero(rest < xp.finfo(self.V.dtype).eps ** ALONE)[:, 0]
        log_mass = beside(np.log(self.mass), means)
        less = beside(np.maximum(self.mass - 1, 0), means)
        pairs = over(self.log_k, self.V)
        for part in row_blocks(len(alone), 32 * len(self.V), device_budget(self.V.device)):
            rows = alone[part]
            values = doubled(pairs.block(rows, slice(None))) + log_mass
            values[xp.arange(len(rows), device=rows.device), rows] = xp.log(less[rows])
            found[rows] = xp.softmax(values, 1) @ Y
        return found
