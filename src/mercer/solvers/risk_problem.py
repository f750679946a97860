"""Regularised risk over a Gram matrix: its value, its best bias, and how far from its minimum.

    J(alpha, b) = L(y, K alpha + b) + 1/2 lam alpha^T K alpha

Its Fenchel dual is ``max_u -L*(y, u) - u^T K u / (2 lam)``, with ``sum(u) = 0`` where there is a
bias; at the optimum ``alpha = -u / lam`` and ``u`` is the gradient of L at the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer.arrays.remote import numbers
from mercer.solvers.losses import Loss


class Machine(NamedTuple):
    """The function ``f(x) = sum_i alpha_i k(x_i, x) + b``."""

    alpha: np.ndarray
    intercept: float


@dataclass(frozen=True)
class Risk:
    """The problem of minimising J over ``alpha``, and over ``b`` if there is a bias.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, symmetric positive semidefinite.
    y : ndarray of shape (n,)
    loss : Loss
    lam : float
        Regulariser, positive.
    fit_intercept : bool
    """

    K: np.ndarray
    y: np.ndarray
    loss: Loss
    lam: float
    fit_intercept: bool

    def gap(self, alpha: np.ndarray, f: np.ndarray) -> float:
        """How far from optimal: the duality gap relative to the objective's size.

        Parameters
        ----------
        alpha : ndarray of shape (n,)
        f : ndarray of shape (n,)
            Predictions, bias included.

        Returns
        -------
        float
            ``(J - dual) / scale`` with the scale the larger of the two objectives' sizes and the
            better of the dual points ``-lam alpha`` and the gradient of L; where the conjugate is
            unknown, that of `first_order`.
        """
        candidates = (self.loss.gradient(self.y, f), -self.lam * alpha)
        bounds = [self.bounds(alpha, f, u) for u in candidates]
        known = [max(upper - lower, 0.0) / scale for upper, lower, scale in filter(None, bounds)]
        return min(known) if known else self.first_order(alpha, f)

    def first_order(self, alpha: np.ndarray, f: np.ndarray) -> float:
        """The duality gap at the gradient g of a convex L, where ``L + L* = g·f`` needs no L*.

        That is ``1/(2 lam) ||lam w + sum_i g_i phi(x_i)||^2``, plus what a bias that differs by the
        largest prediction could still gain.
        """
        g = self.loss.gradient(self.y, f)
        r = g + self.lam * alpha
        gap = 0.5 / self.lam * max(float(r @ (self.K @ r)), 0.0)
        norm = 0.5 * self.lam * max(float(alpha @ (self.K @ alpha)), 0.0)
        return relative_gap(gap, g, f, abs(self.loss.value(self.y, f)) + norm, self.fit_intercept)

    def bounds(
        self, alpha: np.ndarray, f: np.ndarray, u: np.ndarray
    ) -> tuple[float, float, float] | None:
        """J at alpha, the dual at u, and the size of what they are sums of.

        The minimum of J lies between the first two. None where the conjugate is unknown.
        """
        u = balanced(u) if self.fit_intercept else u
        conjugate = self.loss.conjugate(self.y, u)
        if conjugate is None:
            return None
        value = self.loss.value(self.y, f)
        norm = 0.5 * self.lam * max(float(alpha @ (self.K @ alpha)), 0.0)
        dual_norm = 0.5 / self.lam * max(float(u @ (self.K @ u)), 0.0)
        size = abs(value) + norm
        if np.isfinite(conjugate):
            size = max(size, abs(conjugate) + dual_norm)
        return value + norm, -conjugate - dual_norm, size or 1.0


def relative_gap(
    gap: float, g: np.ndarray, f: np.ndarray, size: float, fit_intercept: bool
) -> float:
    """A first-order gap over the size of the objective, with what the bias may still gain."""
    slack = np.sum(np.abs(np.sum(g, axis=0))) if fit_intercept else 0.0
    slack, largest = numbers(slack, np.max(np.abs(f)) if len(f) else 0.0)
    return (gap + slack * (1.0 + largest)) / (size or 1.0)


def balanced(u: np.ndarray) -> np.ndarray:
    """Shrink the heavier side of ``u`` until it sums to zero.

    Shrinking towards zero stays in the domain of any convex conjugate that zero belongs to,
    which is that of every loss bounded below.

    Examples
    --------
    >>> import numpy as np
    >>> balanced(np.array([1.0, 1.0, -1.0]))
    array([ 0.5,  0.5, -1. ])
    """
    above, below = shares(np.maximum(u, 0.0).sum(), -np.minimum(u, 0.0).sum())
    return u * np.where(u > 0, above, below)


def shares(positive: float, negative: float) -> tuple[float, float]:
    """What sides of these sizes are multiplied by to have the same."""
    larger = max(positive, negative, np.finfo(np.float64).tiny)
    return negative / larger, positive / larger


def best_intercept(loss: Loss, y: np.ndarray, f: np.ndarray) -> float:
    """The b that minimises ``L(y, f + b)`` for a convex L: the middle one where there are many.

    Found by bisection on the sign of the derivative, to the last bit.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.losses import Absolute
    >>> best_intercept(Absolute(), np.array([0.0, 1.0, 5.0]), np.zeros(3))
    1.0
    """

    def slope(b: float) -> float:
        return float(np.sum(loss.gradient(y, f + b)))

    # Far out on either side the derivative may be finite only up to some size of b.
    reach = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        while slope(-reach) > 0 or slope(reach) < 0:
            reach *= 2.0
            if reach > 1e100:
                return 0.0
        lowest = _bisect(lambda b: slope(b) >= 0, -reach, reach)
        highest = -_bisect(lambda b: slope(-b) <= 0, -reach, reach)
    return 0.5 * (lowest + highest)


def _bisect(test: Any, low: float, high: float) -> float:
    """The smallest b in ``[low, high]`` with ``test(b)``, which stays true once it is."""
    if test(low):
        return low
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        if test(middle):
            high = middle
        else:
            low = middle
