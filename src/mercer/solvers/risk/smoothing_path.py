"""Piecewise linear losses over features by Newton's method, their corners rounded less and less."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.arrays.remote import numbers
from mercer.solvers.losses import BoxLoss, PointwiseLoss
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import EPS
from mercer.solvers.risk.feature_span import FeatureSpan, Solution, certified
from mercer.solvers.risk.span_newton import span_newton

# At first the loss is as good as quadratic: few of the mean residual's slopes are at their bounds.
START = 10.0
# The rounding of corners shrinks by so much from one minimum to the next, each found
# to this share of the gap that the last one had.
SHRINK, SHARE = 0.1, 1e-2
# So many minima in a row that do not halve the gap are taken as the work of rounding, near the end.
PATIENCE, NEARLY_THERE = 3, 1e-3


class Rounded(PointwiseLoss):
    r"""``max over lo <= t <= hi of t (y - f) - tube |t| - 1/2 mu t^2``: a `BoxLoss` made smooth.

    It lies below the loss itself by ``1/2 mu t^2`` at most, and its slopes are dual points of both.
    """

    def __init__(self, loss: BoxLoss, mu: float):
        self.loss, self.mu, self._weight = loss.weighted(None), mu, loss._weight

    def _maximiser(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        (lo, hi), r, tube = self.loss.bounds(y), y - f, self.loss.tube
        above = np.minimum(np.maximum((r - tube) / self.mu, 0.0), hi)
        return above + np.maximum(np.minimum((r + tube) / self.mu, 0.0), lo)

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        t = self._maximiser(y, f)
        return t * (y - f) - self.loss.tube * np.abs(t) - 0.5 * self.mu * t**2

    def slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return -self._maximiser(y, f)

    def curvatures(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        (lo, hi), t = self.loss.bounds(y), self._maximiser(y, f)
        return np.where((t != 0) & (t > lo) & (t < hi), 1.0 / self.mu, 0.0)

    def conjugates(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.loss.conjugates(y, u) + 0.5 * self.mu * u**2


def smoothing_path(
    span: FeatureSpan,
    y: np.ndarray,
    loss: BoxLoss,
    lam: float,
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``L(y, Phi w + b) + 1/2 lam ||w||^2`` for a piecewise linear L.

    Each minimum with corners rounded by mu is where the search for the next begins. The slopes of
    the rounded loss are a dual point of the loss itself, which certifies the machine. Where the
    points are in one memory `piecewise_linear_primal` takes fewer steps; this asks for no more than
    sums over the points.

    Parameters
    ----------
    span : FeatureSpan
    y : ndarray of shape (n,)
    loss : BoxLoss
    lam : float
        Regulariser, positive.
    tol, max_iter, max_time, report
        See `Monitor`; 200 Newton steps at most if ``max_iter`` is None.

    Returns
    -------
    Result
        ``value`` is a `Solution`; ``gap`` is the relative duality gap.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.losses import Absolute
    >>> span = FeatureSpan.of(np.zeros((5, 1)), fit_intercept=True)
    >>> y = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    >>> smoothing_path(span, y, Absolute(), 1.0).value.z.round(3)
    array([0., 3.])

    References
    ----------
    Chapelle (2007), "Training a support vector machine in the primal"; Nesterov (2005), "Smooth
    minimization of non-smooth functions".
    """
    max_iter = 200 if max_iter is None else max_iter
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    z = np.zeros(span.p)
    if span.fit_intercept:
        z[-1] = span.intercept(loss, y)
    (spread,) = numbers(np.mean(np.abs(y - z[span.r :].sum())))
    mu = scale = START * (spread or 1.0)
    gap, best, status = 1.0, (np.inf, Solution(z)), None
    while True:
        rounded = Rounded(loss, mu)
        inner = span_newton(
            span,
            y,
            rounded,
            lam,
            tol=SHARE * gap,
            max_iter=max_iter - monitor.n_iter,
            max_time=None if max_time is None else max_time - monitor.seconds,
            start=z,
        )
        z = inner.value.z
        f = span.predict(z)
        at = certified(span, y, loss, z, f, rounded.gradient(y, f))
        gap = at.gap(lam)
        best = min(best, (gap, at.solution(lam)), key=lambda pair: pair[0])
        if monitor.record(gap, steps=max(inner.n_iter, 1)):
            break
        before = monitor.history[-PATIENCE - 1 :]
        slow = len(before) > PATIENCE and 0.5 * before[0] < best[0] < NEARLY_THERE
        if slow or mu < EPS * scale:
            status = Status.STALLED
            break
        mu *= SHRINK
    gap, found = best
    return monitor.result(found, gap, status=status, method="newton with corners rounded")
