"""L-BFGS for any loss and any norm penalty, in an orthonormal basis of the span of the data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.losses import Loss
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.risk.feature_span import FeatureSpan, Solution, certified
from mercer.solvers.risk_problem import Machine, Risk


class _Stop(Exception):
    """Raised by the monitor inside SciPy's loop."""


def lbfgs(
    K: np.ndarray,
    y: np.ndarray,
    loss: Loss,
    lam: float,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-8,
    max_iter: int | None = 10_000,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``L(y, <w, phi(x_1)> + b, ...) + R(||w||)`` over the span of the data.

    By the representer theorem no w outside the span does better while R does not decrease. With
    ``K = V diag(s) V^T`` the coordinates of w in an orthonormal basis of the span are
    ``c = diag(s)^{1/2} V^T alpha``: predictions are ``V diag(s)^{1/2} c + b`` and
    ``||w|| = ||c||``. R is the loss's own ``penalty`` if it has one, else ``1/2 lam ||w||^2``.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, symmetric positive semidefinite.
    y : ndarray of shape (n,)
    loss : Loss
        See `mercer.solvers.losses`; differentiable, and convex if the minimum is to be global.
    lam : float
        Regulariser, unused where the loss has a penalty.
    fit_intercept : bool
    tol : float
        Stop when the norm of the gradient is at most this share of the one at zero.
    max_iter, max_time, report
        See `Monitor`.

    Returns
    -------
    Result
        ``value`` is a `Machine`; ``gap`` is the relative duality gap of `Risk.gap`, or where the
        penalty is the loss's own the norm of the gradient relative to the one at zero.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.losses import Squared
    >>> machine = lbfgs(np.eye(2), np.array([2.0, 4.0]), Squared(), 1.0, fit_intercept=False).value
    >>> machine.alpha.round(6)
    array([1., 2.])

    References
    ----------
    Liu and Nocedal (1989), "On the limited memory BFGS method for large scale optimization".
    """
    system = Eigensystem(np.asarray(K, dtype=np.float64))
    kept = system.values > system.cutoff
    V, scale = system.vectors[:, kept], np.sqrt(system.values[kept])
    span = FeatureSpan.of(V * scale, fit_intercept)
    result = span_lbfgs(
        span, y, loss, lam, tol=tol, max_iter=max_iter, max_time=max_time, report=report
    )
    z = result.value.z
    alpha, b = V @ (z[: span.r] / scale), float(z[-1]) if fit_intercept else 0.0
    gap = result.gap
    if loss.penalty is None:
        gap = min(gap, Risk(K, y, loss, lam, fit_intercept).gap(alpha, span.predict(z)))
    status = Status.CONVERGED if gap <= tol and not result.status.ok else result.status
    return replace(result, value=Machine(alpha, b), gap=gap, status=status)


def span_lbfgs(
    span: FeatureSpan,
    y: np.ndarray,
    loss: Loss,
    lam: float,
    *,
    tol: float = 1e-8,
    max_iter: int | None = 10_000,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    """The same over features: ``value`` is a `Solution`."""
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    penalty = _penalty(loss, lam)

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        f = span.predict(z)
        value, slope = penalty(z[: span.r])
        gradient = span.gather(loss.gradient(y, f))
        gradient[: span.r] += slope
        return loss.value(y, f) + value, gradient

    z = np.zeros(span.p)
    start = float(np.linalg.norm(objective(z)[1]))

    def watch(intermediate_result: Any) -> None:
        nonlocal z
        z = np.array(intermediate_result.x)
        size = float(np.linalg.norm(objective(z)[1]))
        if monitor.record(size / start):
            raise _Stop

    if start > 0:
        options = {"maxiter": 10**9, "maxfun": 10**9, "ftol": 0.0, "gtol": 0.0, "maxcor": 30}
        with contextlib.suppress(_Stop):
            minimize(objective, z, jac=True, method="L-BFGS-B", callback=watch, options=options)
    gap = float(np.linalg.norm(objective(z)[1])) / start if start > 0 else 0.0
    found = Solution(z)
    # A certificate of optimality is worth more than a small gradient, where there is one.
    if loss.penalty is None:
        at = certified(span, y, loss, z, span.predict(z))
        gap, found = at.gap(lam), at.solution(lam)
    status = monitor.status or (Status.CONVERGED if gap <= tol else Status.STALLED)
    return monitor.result(found, gap, status=status, method="l-bfgs")


def _penalty(loss: Loss, lam: float) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """R and its gradient as functions of the coordinates c, whose norm is that of w."""
    if loss.penalty is None:
        return lambda c: (0.5 * lam * float(c @ c), lam * c)

    def own(c: np.ndarray) -> tuple[float, np.ndarray]:
        norm = float(np.linalg.norm(c))
        direction = c / norm if norm > 0 else c
        return float(loss.penalty(norm)), float(loss.penalty_slope(norm)) * direction

    return own
