"""Newton's method for smooth losses on a dense Gram matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.risk import Machine, Risk, RiskLoss, best_intercept


def newton(
    K: np.ndarray,
    y: np.ndarray,
    loss: RiskLoss,
    lam: float,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-8,
    max_iter: int | None = 100,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``L(y, K alpha + b) + 1/2 lam alpha^T K alpha`` for a convex, smooth, pointwise L.

    With slopes g and curvatures h of the loss at the predictions f, a Newton step solves
    ``lam alpha + H (K alpha + b) = H f - g`` with ``sum(alpha) = 0``: a weighted ridge problem,
    factorised over the points that curve. The step along it is found by bisection.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, symmetric positive semidefinite.
    y : ndarray of shape (n,)
    loss : Loss
        With ``curvature``; see `mercer.estimators.losses`.
    lam : float
        Regulariser, positive.
    fit_intercept : bool
    tol : float
        Stop when the gap is at most this.
    max_iter, max_time, report
        See `Monitor`.

    Returns
    -------
    Result
        ``value`` is a `Machine`; ``gap`` is the relative duality gap of `Risk.gap`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.losses import Logistic
    >>> machine = newton(np.eye(2), np.array([1.0, -1.0]), Logistic(), 1.0).value
    >>> machine.alpha.round(4)
    array([ 0.4011, -0.4011])

    References
    ----------
    Chapelle (2007), "Training a support vector machine in the primal".
    """
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    K = np.asarray(K, dtype=np.float64)
    risk = Risk(K, y, loss, lam, fit_intercept)
    alpha, f = np.zeros(len(y)), np.zeros(len(y))
    b = best_intercept(loss, y, f) if fit_intercept else 0.0
    f = f + b
    start = risk.gradient_norm(alpha, f)
    gap, status = risk.gap(alpha, f, start), None
    if gap <= tol:
        return monitor.result(Machine(alpha, b), gap, status=Status.CONVERGED, method="newton")
    while True:
        new_alpha, new_b = _newton_point(risk, f, b)
        step = _line_search(risk, alpha, f, new_alpha - alpha, new_b - b)
        if not step:
            status = Status.CONVERGED if gap <= tol else Status.STALLED
            break
        alpha = alpha + step * (new_alpha - alpha)
        b = b + step * (new_b - b)
        f = K @ alpha + b
        gap = risk.gap(alpha, f, start)
        if monitor.record(gap):
            break
    return monitor.result(Machine(alpha, float(b)), gap, status=status, method="newton")


def _newton_point(risk: Risk, f: np.ndarray, b: float) -> tuple[np.ndarray, float]:
    """Where the quadratic model of the objective at predictions f has its minimum."""
    K, lam = risk.K, risk.lam
    g = risk.loss.gradient(risk.y, f)
    h = risk.loss.curvature(risk.y, f)
    assert h is not None
    # Where nothing curves, a trace of curvature keeps the bias determined and the step downhill.
    h = np.maximum(h, 0.0)
    if risk.fit_intercept and h.sum() <= 1e-10 * len(h):
        h = np.full_like(h, 1e-6)
    curved = np.flatnonzero(h > 0)
    root = np.sqrt(h[curved])
    v = h * f - g
    B = K[np.ix_(curved, curved)] * np.outer(root, root)
    B[np.diag_indices_from(B)] += lam
    factor = cho_factor(B, lower=True, overwrite_a=True)
    pushed = cho_solve(factor, root * (K[curved] @ v) / lam)
    if risk.fit_intercept:
        unit = cho_solve(factor, root)
        b = (v.sum() / lam - root @ pushed) / (root @ unit)
        pushed = pushed + b * unit
    alpha = v / lam
    alpha[curved] -= root * pushed
    return alpha, float(b)


def _line_search(
    risk: Risk, alpha: np.ndarray, f: np.ndarray, d_alpha: np.ndarray, d_b: float
) -> float:
    """A step at which the slope along the direction has shrunk tenfold, by bisection.

    Along a line the objective is convex and costs O(n), next to nothing beside a factorisation,
    so the step may be sought with care; near the minimum the first one tried, 1, is it. Zero where
    rounding hides any decrease.
    """
    lam, y, loss = risk.lam, risk.y, risk.loss
    d_ridge = risk.K @ d_alpha
    d_f = d_ridge + d_b
    linear, quadratic = lam * float(alpha @ d_ridge), lam * float(d_alpha @ d_ridge)

    def slope(step: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            along = float(loss.gradient(y, f + step * d_f) @ d_f)
        # Past the range of floating point the loss is rising.
        return along + linear + step * quadratic if np.isfinite(along) else np.inf

    first = slope(0.0)
    if not first < 0:
        return 0.0
    low, high, step = 0.0, np.inf, 1.0
    for _ in range(60):
        now = slope(step)
        if abs(now) <= 0.1 * abs(first):
            break
        low, high = (step, high) if now < 0 else (low, step)
        step = 2.0 * step if np.isinf(high) else 0.5 * (low + high)
    with np.errstate(over="ignore", invalid="ignore"):
        change = loss.value(y, f + step * d_f) - loss.value(y, f)
    change += step * linear + 0.5 * step**2 * quadratic
    return step if change < 0 else 0.0
