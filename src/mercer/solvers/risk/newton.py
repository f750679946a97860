"""Newton's method for smooth losses on a dense Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, lstsq

from mercer.arrays.factorisation import factorised
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.losses import Loss
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.risk_problem import Machine, Risk, best_intercept

# The path starts at this share of the mean of K's diagonal, and goes on where the gap is this.
PATH_START, NEAR = 1e-2, 0.1
# A rise this small compared with the loss may be none.
ROUNDING = 1e-14


def newton(
    K: np.ndarray,
    y: np.ndarray,
    loss: Loss,
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
    factorised over the points that curve. The step along it is found by bisection, and a small
    ``lam`` is approached from a larger one.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, symmetric positive semidefinite.
    y : ndarray of shape (n,)
    loss : Loss
        With ``curvature``; see `mercer.solvers.losses`.
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
    >>> from mercer.solvers.losses import Logistic
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
    gap, status = risk.gap(alpha, f), None
    if gap <= tol:
        return monitor.result(Machine(alpha, b), gap, status=Status.CONVERGED, method="newton")
    # Few points curve alike on both sides of a long step; along a path of regularisers, steps are
    # short.
    now = replace(risk, lam=max(lam, PATH_START * np.trace(K) / len(y)))
    target = _Target()
    while True:
        over_points = target.basis is None
        new_alpha, new_b = target(now, f, b)
        if over_points and target.basis is not None:
            # What K takes to zero only adds to the rounding of K alpha.
            V = target.basis[0]
            alpha = V @ (V.T @ alpha)
            f = K @ alpha + b
            gap = risk.gap(alpha, f)
        step = _line_search(now, alpha, f, new_alpha - alpha, new_b - b)
        if not step and now.lam == lam:
            status = Status.STALLED
            break
        if step:
            alpha = alpha + step * (new_alpha - alpha)
            b = b + step * (new_b - b)
            f = K @ alpha + b
            gap = risk.gap(alpha, f)
            if monitor.record(gap):
                break
        if not step or now.gap(alpha, f) <= NEAR:
            now = replace(now, lam=max(lam, 0.1 * now.lam))
    return monitor.result(Machine(alpha, float(b)), gap, status=status, method="newton")


class _Target:
    """Where the quadratic model of the objective at given predictions has its minimum.

    Sought over the points while ``lam`` is above the rounding error of K, then in an orthonormal
    basis of their span, where large and small eigenvalues of K do not meet in one sum.
    """

    def __init__(self):
        self.basis: tuple[np.ndarray, np.ndarray] | None = None

    def __call__(self, risk: Risk, f: np.ndarray, b: float) -> tuple[np.ndarray, float]:
        g = risk.loss.gradient(risk.y, f)
        h = risk.loss.curvature(risk.y, f)
        assert h is not None
        # Where nothing curves, a trace of it keeps the bias determined and the step downhill.
        h = np.maximum(h, 0.0)
        if risk.fit_intercept and h.sum() <= 1e-10 * len(h):
            h = np.full_like(h, 1e-6)
        if self.basis is None:
            try:
                return _over_points(risk, h, h * f - g, b)
            except LinAlgError:
                system = Eigensystem(risk.K)
                kept = system.values > system.cutoff
                self.basis = system.vectors[:, kept], np.sqrt(system.values[kept])
        return _in_span(risk, *self.basis, h, h * f - g)


def _in_span(
    risk: Risk, V: np.ndarray, scale: np.ndarray, h: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, float]:
    """The same for coordinates c of w, ``f = V diag(scale) c + b`` and ``||w|| = ||c||``."""
    Z = np.column_stack([V * scale, np.ones(len(v))]) if risk.fit_intercept else V * scale
    A = (Z.T * h) @ Z
    A[np.arange(len(scale)), np.arange(len(scale))] += risk.lam
    # Unit diagonal: the spread of the eigenvalues leaves the condition of A.
    size = 1.0 / np.sqrt(np.diagonal(A))
    z = size * lstsq(A * np.outer(size, size), size * (Z.T @ v), lapack_driver="gelsy")[0]
    c = z[: len(scale)]
    return V @ (c / scale), float(z[-1]) if risk.fit_intercept else 0.0


def _over_points(risk: Risk, h: np.ndarray, v: np.ndarray, b: float) -> tuple[np.ndarray, float]:
    K, lam = risk.K, risk.lam
    curved = np.flatnonzero(h > 0)
    root = np.sqrt(h[curved])
    B = K[np.ix_(curved, curved)] * np.outer(root, root)
    B[np.diag_indices_from(B)] += lam
    factor = factorised(B)
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
    d_ridge = risk.K @ d_alpha
    linear, quadratic = risk.lam * float(alpha @ d_ridge), risk.lam * float(d_alpha @ d_ridge)
    d_f = d_ridge + d_b
    return step_along(
        lambda steps: along(risk.loss, risk.y, f, d_f, steps=steps), linear, quadratic
    )


def along(
    loss: Loss, y: np.ndarray, f: np.ndarray, d_f: np.ndarray, steps: Sequence[float]
) -> list[float]:
    """The slopes of the loss along a direction at each step, and then its values."""
    with np.errstate(over="ignore", invalid="ignore"):
        ahead = [f + step * d_f for step in steps]
        slopes = [np.sum(loss.gradient(y, there) * d_f) for there in ahead]
        return [*slopes, *(loss.value(y, there) for there in ahead)]


def step_along(
    sums: Callable[[Sequence[float]], Sequence[float]],
    linear: float,
    quadratic: float,
    moves: int = 0,
) -> float:
    """A step at which the slope along the direction has shrunk tenfold, by bisection.

    The objective along it is ``L(y, f + step d_f) + step linear + 1/2 step^2 quadratic``, which is
    convex and costs O(n), next to nothing compared with a factorisation, so the step may be sought
    with care; near the minimum the first one tried, 1, is it. Zero where rounding hides any
    decrease.

    Parameters
    ----------
    sums : function
        From steps to slopes of the loss and then values, as `along`.
    linear, quadratic : float
    moves : int
        So many moves of the search are foreseen each time: no step comes out differently, but
        ``sums`` is asked less often, for up to ``2^(moves + 1)`` steps at a time.
    """
    known: dict[float, tuple[float, float]] = {}

    def look(steps: Sequence[float]) -> None:
        found = sums(steps)
        for step, slope, value in zip(steps, found, found[len(steps) :], strict=False):
            # Past the range of floating point the loss is rising.
            total = slope + linear + step * quadratic if np.isfinite(slope) else np.inf
            known[step] = float(total), float(value)

    look([0.0, 1.0])
    first, here = known[0.0]
    if not first < 0:
        return 0.0
    low, high, step = 0.0, np.inf, 1.0
    now, value = known[step]
    for _ in range(60):
        change = value - here + step * linear + 0.5 * step**2 * quadratic
        # A gentle slope can lie far beyond the minimum, and higher than the start.
        if abs(now) <= 0.1 * abs(first) and change <= ROUNDING * abs(here):
            break
        low, high = (step, high) if now < 0 else (low, step)
        step = _between(low, high)
        if step not in known:
            look(_foreseen(low, high, moves))
        now, value = known[step]
    change = value - here + step * linear + 0.5 * step**2 * quadratic
    return step if change < 0 else 0.0


def _between(low: float, high: float) -> float:
    return 2.0 * low if np.isinf(high) else 0.5 * (low + high)


def _foreseen(low: float, high: float, moves: int) -> list[float]:
    """The step between bounds, and all that so many moves may lead to from there."""
    step = _between(low, high)
    if not moves:
        return [step]
    return [step, *_foreseen(low, step, moves - 1), *_foreseen(step, high, moves - 1)]
