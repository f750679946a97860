"""Machines with a piecewise linear loss, by the quadratic program that is their dual."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.solvers.losses import BoxLoss
from mercer.solvers.qp.interior_point import interior_point
from mercer.solvers.qp.quadratic_program import QuadraticProgram
from mercer.solvers.qp.support_vectors import solve_program
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.risk_problem import Machine, Risk, best_intercept

# So few variables interior points are done with at once.
SMALL = 500


def piecewise_linear_dual(
    K: np.ndarray,
    y: np.ndarray,
    loss: BoxLoss,
    lam: float,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``L(y, K alpha + b) + 1/2 lam alpha^T K alpha`` for a piecewise linear L.

    With ``L = sum_i max over lo_i <= t <= hi_i of t (y_i - f_i) - tube |t|`` the dual is

        min_alpha 1/2 alpha^T K alpha - y^T alpha + tube ||alpha||_1,
        lo <= lam alpha <= hi,    sum(alpha) = 0 if there is a bias.

    A positive tube splits each coefficient into a positive and a negative part. Beyond a few
    hundred points working sets come first, and interior points finish what they leave.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, symmetric positive semidefinite.
    y : ndarray of shape (n,)
    loss : BoxLoss
        With ``box(y)`` and ``tube``; see `mercer.solvers.losses`.
    lam : float
        Regulariser, positive.
    fit_intercept : bool
    tol : float
        The relative duality gap at which the answer counts as converged.
    max_iter : int, optional
        Steps of interior points, which are then the only ones; 100 of them if None.
    max_time, report
        See `Monitor`.

    Returns
    -------
    Result
        ``value`` is a `Machine`; ``gap`` is the relative duality gap of `Risk.gap`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.losses import Hinge
    >>> x = np.array([-2.0, 2.0])
    >>> machine = piecewise_linear_dual(np.outer(x, x), np.array([-1.0, 1.0]), Hinge(), 0.1).value
    >>> machine.alpha.round(6), abs(round(machine.intercept, 6))
    (array([-0.125,  0.125]), 0.0)

    References
    ----------
    Schölkopf and Smola (2002), "Learning with Kernels", chapters 7 and 9.
    """
    monitor = Monitor(tol=tol)
    K = np.asarray(K, dtype=np.float64)
    risk = Risk(K, y, loss, lam, fit_intercept)
    alpha = np.zeros(len(y))
    b = best_intercept(loss, y, alpha) if fit_intercept else 0.0
    gap = risk.gap(alpha, alpha + b)
    if gap == 0.0:
        return monitor.result(Machine(alpha, b), gap, status=Status.EXACT, method="bias alone")
    lo, hi = loss.box(y)
    # A point of no weight has no room to move.
    used = np.flatnonzero(hi > lo)
    # The problem in units of y, whatever they are.
    size = float(np.max(np.abs(y))) or 1.0
    box, tube = (lo / lam / size, hi / lam / size), loss.tube / size
    program = _program(K, y / size, used, *box, tube, fit_intercept)
    found: list[Result] = []
    if max_iter is None and len(used) > SMALL:
        spread = float(np.mean(np.abs(y - np.median(y)))) / size or 1.0
        found.append(solve_program(program, tol=tol * spread, max_time=max_time, report=report))
    while True:
        if found:
            alpha[used] = size * found[-1].value.coefficients
            alpha = np.clip(alpha, lo / lam, hi / lam)
            f = K @ alpha
            b = best_intercept(loss, y, f) if fit_intercept else 0.0
            gap = risk.gap(alpha, f + b)
            stopped = found[-1].status in (Status.MAX_TIME, Status.STOPPED)
            if gap <= tol or stopped or found[-1].method.startswith("interior"):
                break
        left = None if max_time is None else max(max_time - monitor.seconds, 0.0)
        found.append(interior_point(program, max_iter=max_iter, max_time=left, report=report))
    monitor.history = [gap for inner in found for gap in inner.history]
    monitor.n_iter, status = sum(inner.n_iter for inner in found), found[-1].status
    if gap <= tol:
        status = Status.CONVERGED
    elif status.ok:
        status = Status.STALLED
    method = f"{', then '.join(inner.method for inner in found)} (box dual)"
    return monitor.result(Machine(alpha, b), gap, status=status, method=method)


def _program(
    K: np.ndarray,
    y: np.ndarray,
    used: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    tube: float,
    fit_intercept: bool,
) -> QuadraticProgram:
    K, y, lo, hi = K[np.ix_(used, used)], y[used], lo[used], hi[used]
    if tube > 0:
        none = np.zeros_like(y)
        p = np.concatenate([tube - y, -tube - y])
        lo, hi = np.concatenate([none, lo]), np.concatenate([hi, none])
    else:
        p = -y
    if not fit_intercept:
        return QuadraticProgram(K, p, lo, hi)
    return QuadraticProgram(
        K, p, lo, hi, groups=np.zeros(len(p), dtype=np.intp), totals=np.zeros(1)
    )
