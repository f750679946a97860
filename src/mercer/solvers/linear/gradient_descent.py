"""Kernel ridge by plain gradient descent on the weights, carried out on dual coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import (
    as_columns,
    gradient_ratio,
    relative_gradient,
    weighted_mean,
)

# Gradients of this size against the first one can only come from an unstable step.
_BLOWN_UP = 1e8


def gradient_descent(
    K: Any,
    Y: np.ndarray,
    lam: float | np.ndarray,
    sample_weight: np.ndarray | None = None,
    *,
    fit_intercept: bool = False,
    step_size: float | None = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
    path: list[np.ndarray] | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Descend from zero: ``alpha <- alpha - 2 step (s (K alpha - y) + lam alpha)``.

    This is ``w <- w - step * grad(sum_i s_i (y_i - <w, phi(x_i)>)^2 + lam ||w||^2)`` written in
    dual coefficients. It is stable for steps below ``1 / (largest eigenvalue + lam)``.

    Parameters
    ----------
    K : array or Gram operator of shape (n, n)
        Symmetric positive semidefinite; only products are taken.
    Y : ndarray of shape (n,) or (n, t)
    lam : float or ndarray of shape (t,)
        Regulariser, zero allowed.
    sample_weight : ndarray of shape (n,), optional
    fit_intercept : bool
        Whether an intercept takes its best value before every step.
    step_size : float, optional
        Half of the largest stable step if None.
    max_iter : int
        Number of steps at most.
    tol : float
        Stop when the gap is at most this; zero takes all the steps.
    path : list, optional
        Receives a copy of ``alpha`` before the first step and after every step.
    report : callable, optional
        ``report(n_iter, gap)``; a true return value stops the descent.

    Returns
    -------
    Result
        ``value`` is ``alpha`` of shape (n, t); ``gap`` and ``history`` hold the norm of the
        gradient in feature space relative to the one at zero, the worst over targets. The status
        is ``DIVERGED`` if that norm grew, which no stable step can make it do.

    Examples
    --------
    >>> import numpy as np
    >>> gradient_descent(np.eye(2), np.array([1.0, 2.0]), 0.0, step_size=0.5).value.ravel()
    array([1., 2.])

    References
    ----------
    Yao, Rosasco and Caponnetto (2007), "On early stopping in gradient descent learning".
    """
    monitor = Monitor(tol=tol, max_iter=max_iter, report=report)
    Y, lams, weight = as_columns(Y, lam, sample_weight)
    step = step_size
    if step is None:
        step = 0.5 * largest_stable_step(K, float(np.max(lams)), weight)
    alpha = np.zeros_like(Y)
    residual = Y.copy()
    start, lowest, diverged = None, np.inf, False
    while True:
        if path is not None:
            path.append(alpha.copy())
        if fit_intercept:
            residual = residual - weighted_mean(residual, weight)
        descent = weight[:, None] * residual - lams * alpha
        response = K @ descent
        size = np.einsum("ij,ij->j", descent, response)
        start = size if start is None else start
        gap = gradient_ratio(size, start) if np.all(np.isfinite(size)) else np.inf
        lowest = min(lowest, gap)
        # With a stable step every eigencomponent shrinks, so growth beyond rounding is proof.
        diverged = not np.isfinite(gap) or gap > 1.01 * lowest + 1e-9
        blown_up = not np.isfinite(gap) or gap > _BLOWN_UP
        if blown_up or monitor.record(gap, steps=int(len(monitor.history) > 0)):
            break
        alpha = alpha + 2.0 * step * descent
        residual = residual - 2.0 * step * response
    if not diverged:
        gap = relative_gradient(K, alpha, Y, lams, weight, fit_intercept)
    status = Status.DIVERGED if diverged else None
    return monitor.result(alpha, gap, status=status, method=f"gradient descent (step {step:.3g})")


def largest_stable_step(K: Any, lam: float, weight: np.ndarray | None = None) -> float:
    """The bound ``1 / (largest eigenvalue of S^{1/2} K S^{1/2} + lam)`` on a stable step.

    Examples
    --------
    >>> import numpy as np
    >>> round(largest_stable_step(np.diag([1.0, 3.0]), lam=1.0), 6)
    0.25
    """
    n = K.shape[0]
    root = np.ones(n) if weight is None else np.sqrt(weight)
    # Power iteration from a fixed start, so that the answer is the same every time; its Rayleigh
    # quotients rise to the eigenvalue even where the eigenvector is slow to settle.
    v = 1.0 + np.modf(np.arange(1, n + 1) * 0.6180339887498949)[0]
    top, before = 0.0, -1.0
    for _ in range(500):
        if top <= before * (1.0 + 1e-7):
            break
        v = v / np.linalg.norm(v)
        image = root * np.ravel(K @ (root * v))
        before, top = top, float(v @ image)
        if not np.any(image):
            break
        v = image
    largest = max(top, 0.0) + lam
    return 1.0 / largest if largest > 0 else 1.0
