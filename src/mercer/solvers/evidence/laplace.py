r"""Laplace's approximation of the evidence of labels, with a logistic likelihood.

Labels :math:`s_i \in \{-1, 1\}` have probability :math:`\sigma(s_i f_i)`. With the mode
:math:`\hat f = K a`, where :math:`a = \nabla \log p(s | \hat f)`, the weights
:math:`W = -\nabla^2 \log p(s | \hat f)` and :math:`B = I + W^{1/2} K W^{1/2}`,

.. math::
    \log q(s) = -\tfrac12 a^T \hat f + \log p(s | \hat f) - \tfrac12 \log |B|

References
----------
Rasmussen and Williams (2006), "Gaussian processes for machine learning", algorithms 3.1, 3.2 and
5.1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, solve_triangular
from scipy.special import expit

from mercer.arrays import n_rows, refuse_beyond_memory, take_rows
from mercer.arrays.factorisation import factorised
from mercer.arrays.lapack import invert_upper
from mercer.solvers.evidence.exact import BLOCK, lower_triangle
from mercer.solvers.evidence.problem import Covariance, Evidence, LabelProblem
from mercer.solvers.result import Result, Status

# The mode is found when no dual coefficient, all of which are between -1 and 1, is further off.
TOLERANCE = 1e-10
# The shortest part of a Newton step that is tried.
SHORTEST = 2.0**-30


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of f, with what follows from it.

    Attributes
    ----------
    K : (n, n) array
    a, f, pi, root : (n,) arrays
        Coefficients, mode, probabilities of the positive class, and W^{1/2}.
    U : (n, n) array, upper triangular with B = U^T U
    gap : float
        The largest error of a stationary a.
    n_iter : int
    """

    K: np.ndarray
    a: np.ndarray
    f: np.ndarray
    pi: np.ndarray
    root: np.ndarray
    U: np.ndarray
    gap: float
    n_iter: int


class LaplaceEngine:
    """Evidence and posterior by Laplace's approximation; every search begins at the last mode.

    Parameters
    ----------
    problem : LabelProblem
    max_iter : int
        Newton steps for each mode.
    start : (n,) array of dual coefficients, or None for zeros
    """

    name = "laplace"

    def __init__(self, problem: LabelProblem, max_iter: int = 100, start: Any = None):
        refuse_beyond_memory(len(problem.s), 3)
        self.problem, self.max_iter = problem, max_iter
        self.a = np.zeros(len(problem.s)) if start is None else np.asarray(start, dtype=float)

    def evidence(self, theta: np.ndarray, gradient: bool = True) -> Evidence:
        """log q(s | theta); -inf with a gradient of zeros where B cannot be factorised."""
        covariance = self.problem.covariance.at(theta)
        try:
            mode = self.mode(covariance)
        except LinAlgError:
            return Evidence(-np.inf, np.zeros(len(theta)) if gradient else None)
        value = self.log_evidence(mode)
        return Evidence(value, self._gradient(covariance, mode) if gradient else None)

    def posterior(self, theta: np.ndarray) -> LaplacePosterior:
        return LaplacePosterior(self, self.problem.covariance.at(theta))

    def mode(self, covariance: Covariance) -> Mode:
        """Newton's method for a = grad log p(K a), with steps halved until log p - a'Ka/2 rises."""
        K, s = covariance.gram(self.problem.X), self.problem.s
        K[np.diag_indices_from(K)] += covariance.errors(self.problem.X)
        if not np.isfinite(K.diagonal()).all():
            raise LinAlgError("the covariance has values that are not finite")
        a = self.a
        f = K @ a
        if self._objective(a, f) < self._objective(0 * a, 0 * f):  # the mode of another scale
            a, f = np.zeros_like(a), np.zeros_like(f)
        n_iter, ahead = 0, True
        while True:
            pi = expit(f)
            root, target = np.sqrt(pi * (1 - pi)), 0.5 * (1 + s) - pi
            U = self._factor(K, root)
            gap = float(np.max(np.abs(a - target)))
            if gap <= TOLERANCE or n_iter >= self.max_iter or not ahead:
                break
            b = root**2 * f + target
            step = b - root * cho_solve((U, False), root * (K @ b), check_finite=False) - a
            a, f, ahead = self._moved(a, f, step, K @ step)
            n_iter += 1
        self.a = a
        return Mode(K, a, f, pi, root, U, gap, n_iter)

    def _factor(self, K: np.ndarray, root: np.ndarray) -> np.ndarray:
        B = root[:, None] * K
        B *= root
        B[np.diag_indices_from(B)] += 1.0
        return factorised(B)[0]

    def _moved(
        self, a: np.ndarray, f: np.ndarray, step: np.ndarray, change: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """a and f after as much of the step as raises the objective; False if that is none."""
        before, t = self._objective(a, f), 1.0
        while t >= SHORTEST:
            moved, at = a + t * step, f + t * change
            if self._objective(moved, at) >= before - 1e-12 * abs(before):
                return moved, at, True
            t /= 2
        return a, f, False

    def _objective(self, a: np.ndarray, f: np.ndarray) -> float:
        return float(-0.5 * a @ f - np.logaddexp(0.0, -self.problem.s * f).sum())

    def log_evidence(self, mode: Mode) -> float:
        return self._objective(mode.a, mode.f) - float(np.log(mode.U.diagonal()).sum())

    def _gradient(self, covariance: Covariance, mode: Mode) -> np.ndarray:
        """By theta: the explicit part, and that by way of the mode, in one matrix of weights."""
        invert_upper(mode.U)
        R = mode.U.T  # whose lower half is B^-1
        own = R.diagonal().copy()
        # -1/2 var(f_i) d^3 log p / d f_i^3, where var(f_i) = (1 - own_i) / W_i.
        third = -0.5 * (1 - own) * (1 - 2 * mode.pi)
        R *= mode.root[:, None]
        R *= mode.root
        strict = np.tril(R, -1)
        v = mode.K @ third
        u = third - strict @ v - strict.T @ v - R.diagonal() * v
        del strict
        R *= -0.5
        for left, right in ((0.5 * mode.a, mode.a), (0.5 * u, mode.a), (0.5 * mode.a, u)):
            R += np.outer(left, right)
        return covariance.contracted(self.problem.X, R)


class LaplacePosterior:
    """f given the labels; ``result.gap`` is the largest error of a dual coefficient.

    Attributes
    ----------
    alpha : (n,) array
        Dual coefficients a.
    pi, root : (n,) arrays
        Probabilities of the positive class at the points, and W^{1/2}.
    L : (n, n) array, lower triangular with B = L L^T
    """

    def __init__(self, engine: LaplaceEngine, covariance: Covariance):
        start = time.perf_counter()
        self.problem, self.prior = engine.problem, covariance
        mode = engine.mode(covariance)
        self.alpha, self.pi, self.root = mode.a, mode.pi, mode.root
        self.evidence = Evidence(engine.log_evidence(mode))
        self.L = lower_triangle(mode.U.T)
        status = Status.CONVERGED
        if mode.gap > np.sqrt(TOLERANCE):
            status = Status.MAX_ITER if mode.n_iter >= engine.max_iter else Status.STALLED
        seconds = time.perf_counter() - start
        method = "Laplace's approximation: Newton's method"
        advice = "" if status.ok else "raise max_iter_predict, or standardise the features"
        self.result = Result(
            self.alpha, status, mode.gap, mode.n_iter, seconds, method=method, advice=advice
        )

    def mean(self, X: Any) -> np.ndarray:
        """E f(X): (m,)."""
        found = np.empty(n_rows(X))
        for rows in self._blocks(X):
            found[rows] = self.prior.gram(take_rows(X, rows), self.problem.X) @ self.alpha
        return found

    def variance(self, X: Any) -> np.ndarray:
        """var f(X): (m,), never negative."""
        found = self.prior.own(X) + self.prior.errors(X)
        for rows in self._blocks(X):
            cross = self.prior.gram(take_rows(X, rows), self.problem.X)
            W = solve_triangular(self.L, (cross * self.root).T, lower=True, check_finite=False)
            found[rows] -= np.einsum("ij,ij->j", W, W)
        return np.maximum(found, 0.0)

    def _blocks(self, X: Any) -> Iterator[slice]:
        height = max(1, BLOCK // len(self.alpha))
        for start in range(0, n_rows(X), height):
            yield slice(start, min(start + height, n_rows(X)))
