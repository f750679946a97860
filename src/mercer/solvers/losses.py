r"""Losses of kernel machines: what is lost by predictions f where the truth is y.

A machine minimises ``L(y, f) + R(||w||)`` over functions ``f = <w, phi(.)> + b``. L sees the
whole vector of predictions at once, so any function of it will do (`Loss`); most are sums over
points (`PointwiseLoss`), and those with corners are written by their slopes alone (`BoxLoss`).

To add a loss, write a class like its neighbours below: its equation, and one line each for value,
slope, curvature and conjugate. Classifiers pass labels -1 and +1 as ``y``; a positive ``f`` means
+1.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from scipy.special import expit, xlogy

from mercer.arrays import namespace


class Loss:
    """A function L(y, f) of all predictions, to be written by the user or a subclass below.

    ``value`` and ``gradient`` are required. With a ``curvature`` Newton's method applies; with a
    ``conjugate`` the fit reports a duality gap, otherwise the norm of the gradient.

    To regularise by something other than ``1/2 alpha ||w||^2``, also define

    - ``penalty(norm) -> float``: a nondecreasing function R of ``||w||``, and
    - ``penalty_slope(norm) -> float``: its derivative.

    The machine's ``alpha`` is then not used.

    Examples
    --------
    The largest squared error, softened, as the loss of all predictions together:

    >>> import numpy as np
    >>> class SoftMaximum(Loss):
    ...     def value(self, y, f):
    ...         return float(np.log(np.sum(np.exp((y - f) ** 2))))
    ...
    ...     def gradient(self, y, f):
    ...         share = np.exp((y - f) ** 2)
    ...         return share / share.sum() * 2 * (f - y)
    >>> SoftMaximum().gradient(np.array([1.0, 1.0]), np.array([1.0, 0.0])).round(3)
    array([ 0.   , -1.462])

    References
    ----------
    Schölkopf, Herbrich and Smola (2001), "A generalized representer theorem".
    """

    # Set to methods of (norm) by a loss that brings its own regulariser.
    penalty: Any = None
    penalty_slope: Any = None

    def value(self, y: np.ndarray, f: np.ndarray) -> float:
        """L(y, f) for targets and predictions of shape (n,)."""
        raise NotImplementedError(f"{type(self).__name__} must define value(y, f)")

    def gradient(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """The derivative of L with respect to each prediction, shape (n,)."""
        raise NotImplementedError(f"{type(self).__name__} must define gradient(y, f)")

    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        """Second derivatives of a loss that is a sum over points, shape (n,), or None."""
        return None

    def conjugate(self, y: np.ndarray, u: np.ndarray) -> float | None:
        """``sup_f u·f - L(y, f)``, infinite outside its domain, or None where unknown."""
        return None

    def response(self, f: np.ndarray) -> np.ndarray:
        """The prediction on the scale of y: the inverse link, by default f itself."""
        return f

    def check_targets(self, y: np.ndarray) -> None:
        """Raise a ValueError that says what is wrong with y, if anything is."""


def check_derivative(loss: Loss, y: np.ndarray) -> None:
    """Raise a ValueError where a loss of the user's has a gradient that is not its value's.

    Along some lines its slope is compared with differences; one that agrees is enough, since there
    may be corners and places where the loss is infinite.
    """
    if type(loss).__module__.partition(".")[0] == "mercer":
        return
    rng, step = np.random.default_rng(0), 1e-3 * (np.std(y) or 1.0)
    wrong = ""
    for _ in range(5):
        f = 300 * step * rng.normal(size=len(y))
        line = np.sign(loss.gradient(y, f)) + 0.5 * rng.normal(size=len(y))
        ends = [float(loss.value(y, f + side * step * line)) for side in (-1, 1)]
        stated, found = float(loss.gradient(y, f) @ line), (ends[1] - ends[0]) / (2 * step)
        if np.isfinite(stated + found):
            lost = 1e-12 * max(map(abs, ends)) / step
            if abs(stated - found) <= 0.1 * max(abs(stated), abs(found)) + lost:
                return
            wrong = f"it says {stated:.3g} along a line on which the loss changes by {found:.3g}"
    name = type(loss).__name__
    if wrong:
        raise ValueError(f"the gradient (or slopes) of {name} is not that of its value: {wrong}")
    raise ValueError(f"{name} has no finite value and gradient at predictions next to zero")


class PointwiseLoss(Loss):
    """A loss ``sum_i s_i l(y_i, f_i)`` with weights s; subclasses write l and its derivatives.

    They define ``values``, ``slopes``, ``curvatures`` and ``conjugates``, each from arrays of
    shape (n,) to an array of shape (n,).
    """

    _weight: Any = None

    def weighted(self, sample_weight: np.ndarray | None) -> Self:
        """The same loss with these weights per point."""
        other = copy.copy(self)
        other._weight = sample_weight
        return other

    def value(self, y: np.ndarray, f: np.ndarray) -> float:
        values = self.values(y, f)
        return np.sum(values if self._weight is None else self._weight * values)

    def gradient(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        slopes = self.slopes(y, f)
        return slopes if self._weight is None else self._weight * slopes

    def curvature(self, y: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        curvatures = self.curvatures(y, f)
        if curvatures is None or self._weight is None:
            return curvatures
        return self._weight * curvatures

    def conjugate(self, y: np.ndarray, u: np.ndarray) -> float | None:
        if self._weight is None:
            conjugates = self.conjugates(y, u)
            return None if conjugates is None else np.sum(conjugates)
        # (s l)* (u) = s l*(u / s), and a point of no weight must have u = 0.
        s = self._weight
        divisor = np.where(s > 0, s, 1.0)
        conjugates = self.conjugates(y, u / divisor)
        if conjugates is None:
            return None
        nothing = np.where(u == 0, 0.0, np.inf)
        return np.sum(np.where(s > 0, divisor * conjugates, nothing))

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define values(y, f)")

    def slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define slopes(y, f)")

    def curvatures(self, y: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        return None

    def conjugates(self, y: np.ndarray, u: np.ndarray) -> np.ndarray | None:
        return None


class BoxLoss(PointwiseLoss):
    r"""Piecewise linear: ``l = max over lo <= t <= hi of t (y - f) - tube |t|``.

    That is ``hi max(0, r - tube) - lo max(0, -r - tube)`` with ``r = y - f``. The dual of its
    machine is a quadratic program over the box.
    """

    tube: float = 0.0

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The box ``lo <= 0 <= hi`` for each point, before weights."""
        raise NotImplementedError(f"{type(self).__name__} must define bounds(y)")

    def box(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The box for each point, weights included."""
        lo, hi = self.bounds(y)
        weight = 1.0 if self._weight is None else self._weight
        return weight * lo, weight * hi

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        lo, hi = self.bounds(y)
        r = y - f
        return hi * np.maximum(0.0, r - self.tube) - lo * np.maximum(0.0, -r - self.tube)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        lo, hi = self.bounds(y)
        r = y - f
        return -np.where(r > self.tube, hi, 0.0) - np.where(-r > self.tube, lo, 0.0)

    def conjugates(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        lo, hi = self.bounds(y)
        # A hair of tolerance: u = -lam alpha comes out of a product and may round across an edge.
        inside = (-u >= lo - 1e-12) & (-u <= hi + 1e-12)
        return np.where(inside, y * u + self.tube * np.abs(u), np.inf)


class Hinge(BoxLoss):
    """max(0, 1 - y f): the support vector machine's."""

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum(y, 0.0), np.maximum(y, 0.0)


class Absolute(BoxLoss):
    """|y - f|: predicts the median."""

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return -np.ones_like(y), np.ones_like(y)


class EpsilonInsensitive(BoxLoss):
    """max(0, |y - f| - epsilon): support vector regression's."""

    def __init__(self, epsilon: float = 0.1):
        self.tube = epsilon

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return -np.ones_like(y), np.ones_like(y)


class Quantile(BoxLoss):
    """q max(0, y - f) + (1 - q) max(0, f - y): predicts the quantile at level q."""

    def __init__(self, quantile: float = 0.5):
        self.quantile = quantile

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full_like(y, self.quantile - 1.0), np.full_like(y, self.quantile)


class SquaredHinge(PointwiseLoss):
    """max(0, 1 - y f)^2, without a half."""

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - y * f) ** 2

    def slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return -2.0 * y * np.maximum(0.0, 1.0 - y * f)

    def curvatures(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.where(y * f < 1.0, 2.0, 0.0)

    def conjugates(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        v = -y * u
        return np.where(v >= 0, v**2 / 4.0 - v, np.inf)


class Logistic(PointwiseLoss):
    """log(1 + exp(-y f)): P(y = 1 | f) = 1 / (1 + exp(-f))."""

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -y * f)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return -y * expit(-y * f)

    def curvatures(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return expit(f) * expit(-f)

    def conjugates(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        v = -y * u
        inside = (v >= 0) & (v <= 1)
        w = np.where(inside, v, 0.5)
        return np.where(inside, xlogy(w, w) + xlogy(1.0 - w, 1.0 - w), np.inf)


class Squared(PointwiseLoss):
    """(y - f)^2 / 2: predicts the mean; the machine equals kernel ridge."""

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return 0.5 * (y - f) ** 2

    def slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return f - y

    def curvatures(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.ones_like(f)

    def conjugates(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return 0.5 * u**2 + y * u


class Huber(PointwiseLoss):
    """r^2 / 2 for |r| <= delta, delta (|r| - delta / 2) beyond, with r = y - f."""

    def __init__(self, delta: float = 1.35):
        self.delta = delta

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        r = np.abs(y - f)
        inner = np.minimum(r, self.delta)
        return inner * (r - 0.5 * inner)

    def slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.clip(f - y, -self.delta, self.delta)

    def curvatures(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.where(np.abs(y - f) <= self.delta, 1.0, 0.0)

    def conjugates(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return np.where(np.abs(u) <= self.delta * (1 + 1e-12), 0.5 * u**2 + y * u, np.inf)


class Poisson(PointwiseLoss):
    """exp(f) - y f: counts with mean exp(f), the log link; y must not be negative."""

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.exp(f) - y * f

    def slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.exp(f) - y

    def curvatures(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.exp(f)

    def conjugates(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        v = u + y
        return np.where(v >= 0, xlogy(np.maximum(v, 0.0), np.maximum(v, 0.0)) - v, np.inf)

    def response(self, f: Any) -> Any:
        return namespace(f).exp(f)

    def check_targets(self, y: np.ndarray) -> None:
        if np.any(y < 0):
            lowest = float(y.min())
            raise ValueError(
                f"y has a negative value, {lowest:.6g}; loss='poisson' needs counts or other "
                "non-negative targets"
            )
