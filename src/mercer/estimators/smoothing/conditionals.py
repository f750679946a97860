"""p(t | x) around a local fit: how the targets of the points in reach are smoothed in t."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.estimators.smoothing.bandwidths import Bandwidth
from mercer.kernels.smoothing.densities import JointDensity
from mercer.kernels.smoothing.window import SmoothingKernel

# Throughout, W (m, n) are weights of training points V (n, d) around queries U (m, d), and targets
# (m, n, k), or (1, n, k) when all queries see the same, are theirs as seen from each query.


@dataclass(frozen=True)
class ProductConditional:
    """p(t | x) = Σ_n w_n(x) k((t - t_n)/h_t) / h_t^k, from f(x, t) = k(x/h) k(t/h_t).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS
    >>> p = ProductConditional(SMOOTHING_KERNELS["tophat"], Bandwidth(np.array([2.0])))
    >>> U, V, W = np.zeros((1, 1)), np.zeros((2, 1)), np.array([[0.5, 0.5]])
    >>> p.density(U, V, W, np.array([[[0.0], [3.0]]]), np.array([[0.0], [1.5]]))
    array([[0.125, 0.25 ]])
    """

    kernel: SmoothingKernel
    bandwidth: Bandwidth

    def variance(self, U: np.ndarray, V: np.ndarray, W: np.ndarray) -> np.ndarray:
        """The variance that smoothing adds to each output, (k,) or (m, k)."""
        h = self.bandwidth.root
        return h**2 * self.kernel.variance(len(h))

    def density(
        self, U: np.ndarray, V: np.ndarray, W: np.ndarray, targets: np.ndarray, T: np.ndarray
    ) -> np.ndarray:
        """p(t | x) for ``T: (q, k)``, shape (m, q)."""
        S = self.bandwidth.shrink(T)

        def components(row: np.ndarray) -> np.ndarray:
            return np.exp(self.kernel.log_pairs(S, self.bandwidth.shrink(row)))

        if len(targets) == 1:
            density = W @ components(targets[0]).T
        else:
            density = np.stack([components(row) @ w for row, w in zip(targets, W, strict=True)])
        return density / np.exp(self.bandwidth.log_volume)

    def quantiles(self, W: np.ndarray, targets: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """t with P(T <= t | x) = q for each of ``levels: (k,)``, one output: shape (m, k).

        ``targets`` are (m, n), or (1, n). By bisection, to the last digits.
        """
        h = float(self.bandwidth.root[0])
        # A quantile lies between the targets, give or take what the kernel's own tail has.
        reach = h * (self.kernel.support if np.isfinite(self.kernel.support) else 40.0)
        low = np.broadcast_to(targets.min(axis=1) - reach, len(W))
        high = np.broadcast_to(targets.max(axis=1) + reach, len(W))
        out = np.empty((len(W), len(levels)))
        for column, q in zip(out.T, levels, strict=True):
            a, b = low.copy(), high.copy()
            for _ in range(60):
                middle = 0.5 * (a + b)
                below = np.sum(W * self.kernel.cdf((middle[:, None] - targets) / h), axis=1) < q
                a, b = np.where(below, middle, a), np.where(below, b, middle)
            column[:] = 0.5 * (a + b)
        return out


@dataclass(frozen=True)
class JointConditional:
    """p(t | x) = Σ_n w_n(x) f(u - u_n, (t - t_n)/h_t) / (h_t g(u - u_n)), for a user's f."""

    joint: JointDensity
    bandwidth: Bandwidth

    def variance(self, U: np.ndarray, V: np.ndarray, W: np.ndarray) -> np.ndarray:
        """The variance that smoothing adds, (m, 1)."""
        differences, g = self._components(U, V, W)
        second = np.divide(self.joint.moment(differences, 2), g, out=np.zeros_like(g), where=g > 0)
        return self.bandwidth.root**2 * (W * second).sum(axis=1, keepdims=True)

    def density(
        self, U: np.ndarray, V: np.ndarray, W: np.ndarray, targets: np.ndarray, T: np.ndarray
    ) -> np.ndarray:
        """p(t | x) for ``T: (q, 1)``, shape (m, q)."""
        differences, g = self._components(U, V, W)
        ratio = np.divide(W, g, out=np.zeros_like(g), where=g > 0)
        density = np.empty((len(U), len(T)))
        for q, t in enumerate(T):
            s = np.broadcast_to((t - targets[..., 0]) / self.bandwidth.root, W.shape)
            density[:, q] = (ratio * self.joint.values(differences, s)).sum(axis=1)
        return density / self.bandwidth.root

    def _components(self, U, V, W):
        """Differences (m, n, d) and g there, (m, n)."""
        differences = U[:, None, :] - V
        g = self.joint.moment(differences, 0)
        # Beyond the reach of f the nearest point has the weight: take f as it is on that point.
        beyond = (g == 0) & (W > 0)
        differences[beyond] = 0
        g[beyond] = self.joint.moment(np.zeros((1, U.shape[1])), 0)
        return differences, g
