"""Multinomial logistic regression over features: one score per class, all of them together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve

from mercer.arrays.factorisation import factorised
from mercer.solvers.losses import Loss, PointwiseLoss
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.risk.feature_span import FeatureSpan, Solution, solve_scaled
from mercer.solvers.risk.span_newton import SINGLE, searched
from mercer.solvers.risk_problem import relative_gap

# A Hessian of at most this size is factorised; a larger one is used in products only.
DENSE = 1200
# Products per Newton step at most.
PRODUCTS = 1000


class Softmax(PointwiseLoss):
    """``sum_i s_i (log sum_c exp f_ic - f_ic at i's class)``, for one-hot targets (n, k)."""

    def values(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.sum((_log_sums(f) - f) * y, axis=1)

    def gradient(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        slopes = _probabilities(f) - y
        return slopes if self._weight is None else self._weight[:, None] * slopes


def _log_sums(f: np.ndarray) -> np.ndarray:
    """``log sum_c exp f_ic``, shape (n, 1)."""
    top = np.max(f, axis=1, keepdims=True)
    return top + np.log(np.sum(np.exp(f - top), axis=1, keepdims=True))


def _probabilities(f: np.ndarray) -> np.ndarray:
    return np.exp(f - _log_sums(f))


def softmax_machine(
    span: FeatureSpan,
    T: np.ndarray,
    lam: float,
    *,
    weight: np.ndarray | None = None,
    tol: float = 1e-8,
    max_iter: int | None = 100,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``-sum_i s_i log p_i(class of i) + 1/2 lam sum_c ||w_c||^2`` by Newton's method.

    Probabilities are ``p_ic = exp(f_ic) / sum_d exp(f_id)`` with ``f = Phi W + b``. Adding the same
    function to all scores changes no probability, and the penalty makes their sum zero. A Newton
    step is solved by a factorisation where the features times the classes are few, else by
    conjugate gradients, preconditioned with one curvature for all classes.

    Parameters
    ----------
    span : FeatureSpan
    T : ndarray of shape (n, k)
        One where the point is of the class, else zero.
    lam : float
        Regulariser, positive.
    weight : ndarray of shape (n,), optional
    tol, max_iter, max_time, report
        See `Monitor`.

    Returns
    -------
    Result
        ``value`` is a `Solution`; ``gap`` is the relative duality gap.

    Examples
    --------
    >>> import numpy as np
    >>> span = FeatureSpan.of(np.eye(3), fit_intercept=False)
    >>> softmax_machine(span, np.eye(3), 1.0).value.z.round(4)[0]
    array([ 0.4897, -0.2448, -0.2448])

    References
    ----------
    Böhning (1992), "Multinomial logistic regression algorithm"; Zhu and Hastie (2005), "Kernel
    logistic regression and the import vector machine".
    """
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    loss = Softmax().weighted(weight)
    s = np.ones_like(T[:, 0]) if weight is None else weight
    z = np.zeros((span.p, T.shape[1]))
    if span.fit_intercept:
        shares = np.log(np.asarray(s @ T))
        z[-1] = shares - shares.mean()
    penalty = span.penalties(lam)[:, None]
    f, status = span.predict(z), None
    g = span.gather(loss.gradient(T, f)) + penalty * z
    first = float(np.linalg.norm(g))
    gap, found = _certified(span, loss, T, lam, z, f, g)
    if gap <= tol:
        return monitor.result(found, gap, status=Status.CONVERGED, method="newton (softmax)")
    while True:
        P = _probabilities(f)
        if span.p * T.shape[1] <= DENSE:
            d = -_by_factor(span, P, s, lam, g)
        else:
            accuracy = float(np.clip(np.linalg.norm(g) / first, 1e-4, 0.1))
            d = -_by_products(span, P, s, lam, g, accuracy)
        d -= d.mean(axis=1, keepdims=True)
        linear, quadratic = float(np.sum(penalty * z * d)), float(np.sum(penalty * d**2))
        step, before = searched(span, loss, T, f, d, linear, quadratic), gap
        # Where rounding hides the decrease of the objective the gap may still show one.
        z = z + (step or 1.0) * d
        f = span.predict(z)
        g = span.gather(loss.gradient(T, f)) + penalty * z
        gap, ahead = _certified(span, loss, T, lam, z, f, g)
        if not step and gap >= before:
            gap, status = before, Status.STALLED
            break
        found = ahead
        if monitor.record(gap):
            break
    return monitor.result(found, gap, status=status, method="newton (softmax)")


def _certified(
    span: FeatureSpan,
    loss: Loss,
    T: np.ndarray,
    lam: float,
    z: np.ndarray,
    f: np.ndarray,
    g: np.ndarray,
) -> tuple[float, Solution]:
    """The relative duality gap at the dual point ``u = s (P - T)``, and its parts.

    Since ``L(f) + L*(u) = u·f`` there, it is ``||lam W + Phi^T u||^2 / (2 lam)``, and the sums of u
    times the biases where they are not quite zero.
    """
    (value,) = span.total(_values, loss, T, f)
    size = float(value) + 0.5 * lam * float(np.sum(span.norms(z)))
    u = loss.gradient(T, f)
    gap = 0.5 / lam * float(np.sum(span.norms(g)))
    relative = relative_gap(gap, u, f, size, span.fit_intercept)
    return relative, Solution(z, u, relative * (size or 1.0))


def _values(loss: Loss, T: np.ndarray, f: np.ndarray) -> list[float]:
    return [loss.value(T, f)]


def _by_factor(
    span: FeatureSpan, P: np.ndarray, s: np.ndarray, lam: float, g: np.ndarray
) -> np.ndarray:
    """The Newton step from the Hessian, whose blocks are ``Phi^T s (p_c [c=d] - p_c p_d) Phi``.

    What is the same for all classes has no curvature but lam's; it is given the mean one of the
    classes, which the sum of the gradient over them, being zero, does not see.
    """
    p, k = g.shape
    H = np.empty((k, p, k, p))
    for c in range(k):
        for d in range(c + 1):
            product = P[:, c] * (1.0 - P[:, c]) if c == d else P[:, c] * P[:, d]
            block = span.curvature(s * product)
            H[c, :, d] = block if c == d else -block
            H[d, :, c] = H[c, :, d]
    H += np.sum([H[c, :, c] for c in range(k)], axis=0)[None, :, None] / k**2
    H = H.reshape(k * p, k * p)
    H[np.diag_indices_from(H)] += np.tile(span.penalties(lam), k)
    return solve_scaled(H, g.T.ravel()).reshape(k, p).T


def _by_products(
    span: FeatureSpan, P: np.ndarray, s: np.ndarray, lam: float, g: np.ndarray, accuracy: float
) -> np.ndarray:
    """The Newton step by conjugate gradients, until the residual is so much smaller than g."""
    penalty = span.penalties(lam)
    h = 0.5 * s * (1.0 - np.sum(P**2, axis=1))
    h = np.maximum(h, 1e-12 * s.max())
    M = span.estimate(h, single=SINGLE * span.squares(h) <= lam)
    M[np.diag_indices_from(M)] += penalty
    factor = factorised(M)

    def multiply(V: np.ndarray) -> np.ndarray:
        A = span.predict(V)
        A = P * (A - np.sum(P * A, axis=1, keepdims=True))
        return span.gather(s[:, None] * A) + penalty[:, None] * V

    x, r = np.zeros_like(g), g.copy()
    q = cho_solve(factor, r)
    d, inner = q, float(np.sum(r * q))
    enough = accuracy**2 * inner
    for _ in range(PRODUCTS):
        Hd = multiply(d)
        bend = float(np.sum(d * Hd))
        if not bend > 0:
            break
        step = inner / bend
        x, r = x + step * d, r - step * Hd
        r -= r.mean(axis=1, keepdims=True)  # what is the same for all classes is rounding
        q = cho_solve(factor, r)
        last, inner = inner, float(np.sum(r * q))
        if inner <= enough:
            break
        d = q + inner / last * d
    return x
