r"""Kernel logistic regression with approximate leave-one-out scores.

Minimises :math:`\sum_i s_i \ell(y_i, f(x_i)) + \tfrac\lambda2 \|f\|^2` over functions
:math:`f = \sum_i a_i k(x_i, \cdot) + b` with an intercept b that is not penalised. Leave-one-out
scores come from one Newton step: at the minimum, f solves a weighted least-squares problem with
working responses :math:`z = f + W^{-1} s (y - p)`, whose leave-one-out scores are
:math:`z_i - a_i / [(K + \lambda W^{-1})^{-1}]_{ii}`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, get_lapack_funcs
from scipy.special import expit
from scipy.special import logsumexp as log_sum
from scipy.special import softmax as probabilities

# Newton steps, and steps of L-BFGS with its history.
_NEWTON, _STEPS, _HISTORY = 12, 100, 10
# The decrease of the mean loss, and the relative gradient, at which the iterations stop.
_DECREASE, _GRADIENT = 5e-5, 1e-3
# The part of the gradient that may be left where leave-one-out scores are computed.
_INEXACT = 0.1
# The least curvature of a row, relative to its weight: working responses stay finite.
_LEAST_CURVATURE = 1e-6


class Scores(NamedTuple):
    """Coefficients (n, c), intercepts (c,), scores (n, c) and leave-one-out scores (n, c).

    Leave-one-out scores are infinite where the iterations ended too far from the minimum.
    """

    coef: np.ndarray
    intercept: np.ndarray
    scores: np.ndarray
    left_out: np.ndarray


def mean_loss(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The mean negative log-likelihood of scores (n, 1) for two classes, (n, C) for more."""
    if scores.shape[1] == 1:
        losses = np.logaddexp(0, scores[:, 0]) - codes * scores[:, 0]
    else:
        losses = log_sum(scores, axis=1) - scores[np.arange(len(codes)), codes]
    return float(np.average(losses, weights=weight))


def fit_likelihood(
    K: np.ndarray,
    codes: np.ndarray,
    C: int,
    lam: float,
    weight: np.ndarray | None = None,
    leave_out: bool = True,
    begin: tuple[np.ndarray, np.ndarray] | None = None,
) -> Scores:
    """Fit C classes, given as integers; for two classes the scores are those of the second.

    Parameters
    ----------
    K : (n, n) array
        The Gram matrix, in float32 or float64, as the factorisations will be.
    codes : (n,) array of int
    C : int
    lam : float
    weight : (n,) array, optional
    leave_out : bool, default=True
        Whether leave-one-out scores are wanted of more than two classes, which take a
        factorisation for each class; without, they are infinite.
    begin : tuple of coefficients (n, c) and intercepts (c,), optional
        A function to begin with, such as that of a part of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> fit_likelihood(np.eye(4), np.array([0, 1, 0, 1]), 2, 1.0).scores.ravel().round(2).tolist()
    [-0.4, 0.4, -0.4, 0.4]
    """
    weight = np.ones(len(codes)) if weight is None else weight
    if C == 2:
        return _binary(K, codes, lam, weight, begin)
    return _softmax(K, codes, C, lam, weight, leave_out, begin)


def _factor(A: np.ndarray) -> np.ndarray:
    """U with UᵀU = A, which is overwritten."""
    (potrf,) = get_lapack_funcs(("potrf",), (A,))
    U, failed = potrf(A.T, lower=0, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("the matrix is not positive definite after rounding")
    return U


def _inverse_diagonal(U: np.ndarray) -> np.ndarray:
    """The diagonal of (UᵀU)⁻¹; U is overwritten."""
    (trtri,) = get_lapack_funcs(("trtri",), (U,))
    inverse, _ = trtri(U, lower=0, overwrite_c=1)
    return np.einsum("ij,ij->i", inverse, inverse).astype(np.float64)


def _binary(
    K: np.ndarray,
    y: np.ndarray,
    lam: float,
    weight: np.ndarray,
    begin: tuple[np.ndarray, np.ndarray] | None,
) -> Scores:
    """Newton's method with step halving, each step a weighted least-squares problem."""
    n, dtype = len(y), K.dtype
    share = np.average(y, weights=weight)
    a, Ka, b = np.zeros(n), np.zeros(n), float(np.log(share / (1 - share)))
    if begin is not None:
        a, b = begin[0][:, 0], float(begin[1][0])
        Ka = (K @ a.astype(dtype)).astype(np.float64)
    value = np.inf
    U = root = np.empty(0, dtype)
    for _ in range(_NEWTON):
        f = Ka + b
        before, value = value, _binary_value(f, y, a, Ka, lam, weight)
        if before - value < _DECREASE * weight.sum():
            break
        p = expit(f)
        W = np.maximum(weight * p * (1 - p), _LEAST_CURVATURE * weight)
        z, root = f + weight * (y - p) / W, np.sqrt(W)
        r = root.astype(dtype)
        A = r[:, None] * K * r
        A.flat[:: n + 1] += lam
        U = _factor(A)
        right = np.stack([root * z, root], axis=1).astype(dtype)
        found = root[:, None] * cho_solve((U, False), right, check_finite=False)
        b_new = found[:, 0].sum() / found[:, 1].sum()
        a_new = found[:, 0] - b_new * found[:, 1]
        Ka_new = (K @ a_new.astype(dtype)).astype(np.float64)
        step = 1.0
        while step > 1e-3 and not (
            _binary_value(
                Ka + step * (Ka_new - Ka) + b + step * (b_new - b),
                y,
                a + step * (a_new - a),
                Ka + step * (Ka_new - Ka),
                lam,
                weight,
            )
            <= value
        ):
            step /= 2
        a, Ka, b = a + step * (a_new - a), Ka + step * (Ka_new - Ka), b + step * (b_new - b)
    f = Ka + b
    p = expit(f)
    W = np.maximum(weight * p * (1 - p), _LEAST_CURVATURE * weight)
    # The diagonal is that of the last step's factor, whose curvatures are within rounding of W.
    diagonal = root**2 * _inverse_diagonal(U)
    gradient = weight * (y - p)
    left_out = f + gradient / W - gradient / lam / diagonal
    return Scores(a[:, None], np.array([b]), f[:, None], left_out[:, None])


def _binary_value(
    f: np.ndarray, y: np.ndarray, a: np.ndarray, Ka: np.ndarray, lam: float, weight: np.ndarray
) -> float:
    return float(weight @ (np.logaddexp(0, f) - y * f) + 0.5 * lam * (a @ Ka))


def _softmax(
    K: np.ndarray,
    codes: np.ndarray,
    C: int,
    lam: float,
    weight: np.ndarray,
    leave_out: bool,
    begin: tuple[np.ndarray, np.ndarray] | None,
) -> Scores:
    """L-BFGS in the kernel's space, begun with (c K + λ)⁻¹ for a typical curvature c.

    The intercept is the logarithm of the shares, and a constant part of the kernel moves it.
    """
    n = len(codes)
    targets = np.eye(C)[codes]
    shares = np.average(targets, axis=0, weights=weight)
    offset = np.log(shares) - np.log(shares).mean()
    problem = _Softmax(K + K.dtype.type(1.0), targets, offset, lam, weight)
    A = problem.K * K.dtype.type(problem.curvature)
    A.flat[:: n + 1] += lam
    U = _factor(A)
    a = Ka = np.zeros((n, C))
    # The gradient that convergence is relative to is that of the shares alone.
    first = float(np.vdot(*problem.gradient(a, Ka)))
    if begin is not None:
        a = begin[0]
        Ka = (problem.K @ a.astype(K.dtype)).astype(np.float64)
    value, last = problem.value(a, Ka), None
    history: list[tuple] = []
    for _ in range(_STEPS):
        g, Kg = problem.gradient(a, Ka)
        size = np.vdot(g, Kg)
        first = max(first, size)
        if size <= _GRADIENT**2 * first:
            break
        if last is not None:
            s, Ks, y, Ky = a - last[0], Ka - last[1], g - last[2], Kg - last[3]
            if (product := np.vdot(y, Ks)) > 1e-12 * first:
                history = [*history[1 - _HISTORY :], (s, Ks, y, Ky, product)]
        last = (a, Ka, g, Kg)
        d, Kd = problem.direction(g, Kg, history, U)
        slope, step = np.vdot(g, Kd), 1.0
        while step > 1e-4:
            moved = a - step * d, Ka - step * Kd
            after = problem.value(*moved)
            if after <= value - 1e-4 * step * slope:
                break
            step /= 2
        else:
            break
        (a, Ka), value = moved, after
    scores = Ka + offset
    left_out = problem.left_out(a, scores) if leave_out else np.full_like(scores, np.inf)
    return Scores(a, offset + a.sum(axis=0), scores, left_out)


class _Softmax:
    """The penalised loss at coefficients a (n, C), with products Ka that are known."""

    def __init__(
        self,
        K: np.ndarray,
        targets: np.ndarray,
        offset: np.ndarray,
        lam: float,
        weight: np.ndarray,
    ):
        self.K, self.targets, self.offset, self.lam = K, targets, offset, lam
        self.weight = weight[:, None]
        shares = np.average(targets, axis=0, weights=weight)
        self.curvature = float(weight.mean() * np.mean(shares * (1 - shares)))

    def value(self, a: np.ndarray, Ka: np.ndarray) -> float:
        f = Ka + self.offset
        losses = log_sum(f, axis=1) - np.sum(self.targets * f, axis=1)
        return float(self.weight[:, 0] @ losses + 0.5 * self.lam * np.vdot(a, Ka))

    def gradient(self, a: np.ndarray, Ka: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the gradient in the kernel's space, and K times them."""
        r = self.weight * (probabilities(Ka + self.offset, axis=1) - self.targets)
        Kr = (self.K @ r.astype(self.K.dtype)).astype(np.float64)
        return self.lam * a + r, self.lam * Ka + Kr

    def direction(
        self, g: np.ndarray, Kg: np.ndarray, history: list[tuple], U: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The two loops of L-BFGS, with inner products aᵀKb."""
        q, Kq, factors = g.copy(), Kg.copy(), []
        for s, _, y, Ky, product in reversed(history):
            t = np.vdot(s, Kq) / product
            q, Kq = q - t * y, Kq - t * Ky
            factors.append(t)
        d = cho_solve((U, False), q.astype(self.K.dtype), check_finite=False).astype(np.float64)
        Kd = (q - self.lam * d) / self.curvature
        for (s, Ks, y, _, product), t in zip(history, reversed(factors), strict=True):
            r = t - np.vdot(y, Kd) / product
            d, Kd = d + r * s, Kd + r * Ks
        return d, Kd

    def left_out(self, a: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Scores after one Newton step for each class, whose curvatures are those at the minimum.

        Infinite where a is not the minimum: then nothing is known of them.
        """
        p = probabilities(f, axis=1)
        W = self.weight * np.maximum(p * (1 - p), _LEAST_CURVATURE)
        gradient = self.weight * (self.targets - p)
        if np.linalg.norm(gradient - self.lam * a) > _INEXACT * np.linalg.norm(gradient):
            return np.full_like(f, np.inf)
        roots = np.sqrt(W)
        D = [root**2 * self._diagonal(root.astype(self.K.dtype)) for root in roots.T]
        return f + gradient / W - a / np.stack(D, axis=1)

    def _diagonal(self, root: np.ndarray) -> np.ndarray:
        """The diagonal of (W½ K W½ + λI)⁻¹."""
        A = root[:, None] * self.K * root
        A.flat[:: len(A) + 1] += self.K.dtype.type(self.lam)
        return _inverse_diagonal(_factor(A))
