"""Newton's method for smooth losses over features."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from mercer.solvers.losses import Loss, PointwiseLoss
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.risk.feature_span import FeatureSpan, certified
from mercer.solvers.risk.newton import NEAR, PATH_START, along, step_along

# float32 curvatures serve where the regulariser is at least this share of their sum.
SINGLE = 1e-6


def span_newton(
    span: FeatureSpan,
    y: np.ndarray,
    loss: Loss,
    lam: float,
    *,
    tol: float = 1e-8,
    max_iter: int | None = 100,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
    start: np.ndarray | None = None,
) -> Result:
    r"""Minimise ``L(y, Phi w + b) + 1/2 lam ||w||^2`` for a convex, smooth, pointwise L.

    A step solves ``(Phi^T H Phi + lam I) d = -gradient`` with the curvatures H of the loss, of the
    size of the features, from one pass over the points; its length is found by bisection. A small
    ``lam`` is approached from a larger one.

    Parameters
    ----------
    span : FeatureSpan
    y : ndarray of shape (n,)
    loss : Loss
        With ``curvature``; see `mercer.solvers.losses`.
    lam : float
        Regulariser, positive.
    tol, max_iter, max_time, report
        See `Monitor`.
    start : ndarray of shape (p,), optional
        Coordinates to begin with, near enough to go for ``lam`` at once.

    Returns
    -------
    Result
        ``value`` is a `Solution`; ``gap`` is the relative duality gap of its `Certificate`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.losses import Squared
    >>> span = FeatureSpan.of(np.array([[1.0], [2.0]]), fit_intercept=False)
    >>> span_newton(span, np.array([1.0, 2.0]), Squared(), 5.0).value.z
    array([0.5])
    """
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    z = np.zeros(span.p) if start is None else start
    if start is None and span.fit_intercept:
        z[-1] = span.intercept(loss, y)
    f = span.predict(z)
    at, status = certified(span, y, loss, z, f), None
    gap = at.gap(lam)
    if gap <= tol:
        return monitor.result(at.solution(lam), gap, status=Status.CONVERGED, method="newton")
    now = lam
    if start is None:
        now = max(lam, PATH_START * span.squares(np.ones_like(f)) / span.n)
    while True:
        h = loss.curvature(y, f)
        assert h is not None
        h = np.maximum(h, 0.0)
        # Where nothing curves, a trace of it keeps the bias determined and the step downhill.
        if span.fit_intercept and at.curved <= 1e-10 * span.n:
            h = np.full_like(h, 1e-6)
        penalty = span.penalties(now)
        # A step from curvatures in float32 ends nearly where it should, unless lam is lost in them.
        single = SINGLE * span.squares(h) <= now
        d = -span.newton_step(h, penalty, at.slopes + penalty * z, single)
        linear, quadratic = float(penalty @ (z * d)), float(penalty @ d**2)
        step = searched(span, loss, y, f, d, linear, quadratic)
        if not step and now == lam:
            status = Status.STALLED
            break
        if step:
            z = z + step * d
            f = span.predict(z)
            at = certified(span, y, loss, z, f)
            gap = at.gap(lam)
            if monitor.record(gap):
                break
        if now > lam and (not step or at.gap(now) <= NEAR):
            now = max(lam, 0.1 * now)
    return monitor.result(at.solution(lam), gap, status=status, method="newton")


def searched(
    span: FeatureSpan,
    loss: Loss,
    y: np.ndarray,
    f: np.ndarray,
    d: np.ndarray,
    linear: float,
    quadratic: float,
) -> float:
    """The step from predictions f along coordinates d; see `step_along`."""
    d_f = span.predict(d)
    return step_along(
        lambda steps: span.total(partial(along, steps=steps), loss, y, f, d_f),
        linear,
        quadratic,
        span.moves if isinstance(loss, PointwiseLoss) else 0,
    )
