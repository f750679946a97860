"""A regression target as it is and as its logarithm, combined by leave-one-out predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from mercer.tables.coding import mean_and_spread

# Logarithms are tried for targets that are never negative and whose median is below this share of
# the middle between the 1% and 99% quantiles.
_SKEWED = 0.9
# Zeros are moved by this share of the mean before their logarithm is taken.
_SHIFT = 0.1
# A part with less weight is dropped.
_LEAST_WEIGHT = 0.02


@dataclass(frozen=True)
class Targets:
    """Targets y (n, t), standardised; one that is skewed is learnt as its logarithm too.

    Predictions are then ``a f + b exp(g)`` from regressions f on y and g on ``log(y + shift)``.

    Parameters
    ----------
    mean, scale : (t,) arrays
    log : (6,) array or None
        Shift, mean, scale and largest value of the logarithm, and the weights a and b.
    """

    mean: np.ndarray
    scale: np.ndarray
    log: np.ndarray | None = None

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray | None) -> Targets:
        """Scales from targets (n, t) and weights (n,)."""
        mean, spread = mean_and_spread(y, weight)
        plain = cls(mean, np.where(spread > 0, spread, 1.0))
        if y.shape[1] > 1 or not is_skewed(y[:, 0]):
            return plain
        shift = 0.0 if y.min() > 0 else _SHIFT * float(y.mean())
        logs = np.log(y + shift)
        mean, spread = mean_and_spread(logs, weight)
        if not spread[0] > 0:
            return plain
        log = np.array([shift, mean[0], spread[0], logs.max(), 1.0, 0.0])
        return replace(plain, log=log)

    def standardised(self, y: np.ndarray) -> np.ndarray:
        """The targets to learn, (n, t), or (n, 2) with the logarithm."""
        T = (y - self.mean) / self.scale
        if self.log is None:
            return T
        shift, mean, scale = self.log[:3]
        return np.hstack([T, (np.log(y + shift) - mean) / scale])

    def _both(self, T: np.ndarray) -> np.ndarray:
        """What predictions of the two learnt targets are in the units of y, (n, 2)."""
        assert self.log is not None
        shift, mean, scale, most = self.log[:4]
        plain = T[:, 0] * self.scale + self.mean
        return np.stack([plain, np.exp(np.minimum(T[:, 1] * scale + mean, most)) - shift], axis=1)

    def combined(self, left_out: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Targets:
        """The same with weights by non-negative least squares on leave-one-out predictions."""
        if self.log is None:
            return self
        roots = np.ones(len(y)) if weight is None else np.sqrt(weight)
        factors = roots / self.scale
        found, _ = nnls(self._both(left_out) * factors[:, None], y[:, 0] * factors)
        if not found.sum() > 0:
            return self
        found[found < _LEAST_WEIGHT * found.sum()] = 0.0
        return replace(self, log=np.append(self.log[:4], found))

    def predictions(self, T: np.ndarray) -> np.ndarray:
        """Predictions (n, t) in the units of y."""
        if self.log is None:
            return T * self.scale + self.mean
        return self._both(T) @ self.log[4:, None]


def is_skewed(y: np.ndarray) -> bool:
    """Whether numbers that are not negative have a long tail above.

    Examples
    --------
    >>> import numpy as np
    >>> is_skewed(np.arange(9.0)), is_skewed(np.exp(np.arange(9.0)))
    (False, True)
    """
    if y.min() < 0 or y.max() <= 0:
        return False
    low, middle, high = np.quantile(y, [0.01, 0.5, 0.99])
    return bool(middle < _SKEWED * (low + (high - low) / 2))
