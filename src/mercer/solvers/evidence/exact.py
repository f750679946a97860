r"""The evidence by one Cholesky factorisation, and its gradient by the inverse in its place.

With :math:`C = K + D` and :math:`\alpha = C^{-1} y`

.. math::
    \log p(y) = -\tfrac12 y^T \alpha - \tfrac12 \log |C| - \tfrac n2 \log 2\pi, \qquad
    \frac{\partial \log p}{\partial \theta}
        = \tfrac12 \sum_{ij} (\alpha \alpha^T - C^{-1})_{ij} \frac{\partial C_{ij}}{\partial \theta}

K, the factor, the inverse and the weights take turns in one matrix of n by n numbers.

References
----------
Rasmussen and Williams (2006), "Gaussian processes for machine learning", algorithm 2.1, and
section 2.7 for a mean with coefficients.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, get_blas_funcs, get_lapack_funcs, solve_triangular

from mercer import core
from mercer.arrays import memory_budget, n_rows, refuse_beyond_memory, take_rows
from mercer.arrays.factorisation import factorised
from mercer.arrays.lapack import invert_upper
from mercer.kernels.kernel import Kernel
from mercer.solvers.evidence.problem import Covariance, Evidence, EvidenceProblem, Posterior
from mercer.solvers.result import Result, Status

# Backward error per point that rounding explains.
ROUNDING = 1e-14
# Numbers of kernel values between new points and training points that are held at once.
BLOCK = 2**24


class ExactEngine:
    """Evidence and posterior by factorising C.

    Parameters
    ----------
    problem : EvidenceProblem
    """

    name = "exact"

    def __init__(self, problem: EvidenceProblem):
        refuse_beyond_memory(len(problem.Y), 2)
        self.problem = problem

    @property
    def workers(self) -> int:
        """Evaluations at a time that processors and memory allow."""
        if self.problem.covariance.kernel is None:  # a kernel class of the user's
            return 1
        room = memory_budget() // (16 * len(self.problem.Y) ** 2)
        return max(1, min(core.threads(2**40, 1), int(room)))

    def evidence(self, theta: np.ndarray, gradient: bool = True) -> Evidence:
        """log p(Y | theta); -inf with a gradient of zeros where C is not positive definite."""
        covariance = self.problem.covariance.at(theta)
        try:
            factor = Factor(self.problem, covariance)
        except LinAlgError:
            return Evidence(-np.inf, np.zeros(len(theta)) if gradient else None)
        value = factor.log_evidence()
        slope = factor.gradient() if gradient else None
        return Evidence(value, slope, lower=value, upper=value)

    def posterior(self, theta: np.ndarray) -> ExactPosterior:
        """The posterior.

        Raises
        ------
        numpy.linalg.LinAlgError
            If C is not positive definite in floating point.
        """
        return ExactPosterior(self.problem, self.problem.covariance.at(theta))


class Factor:
    """C = U^T U, and the coefficients that follow from it; U is L^T where L is known."""

    def __init__(
        self, problem: EvidenceProblem, covariance: Covariance, L: np.ndarray | None = None
    ):
        self.problem, self.covariance = problem, covariance
        self.U = self._factorised() if L is None else L.T
        H, Y = problem.H, problem.Y
        solved = self.solve(np.hstack([Y, H]))
        self.alpha, self.V = solved[:, : Y.shape[1]], solved[:, Y.shape[1] :]
        self.A = H.T @ self.V  # H^T C^-1 H
        self.beta = np.zeros((0, Y.shape[1]))
        if H.shape[1]:
            self.beta = np.linalg.solve(self.A, H.T @ self.alpha)
            self.alpha = self.alpha - self.V @ self.beta

    def _factorised(self) -> np.ndarray:
        C = self.covariance.gram(self.problem.X)
        C.reshape(-1)[:: len(C) + 1] += self.problem.diagonal(self.covariance)
        if not np.isfinite(C.diagonal()).all():
            raise LinAlgError("the covariance has values that are not finite")
        return factorised(C)[0]

    def solve(self, B: np.ndarray) -> np.ndarray:
        return cho_solve((self.U, False), B, check_finite=False)

    def log_evidence(self) -> float:
        (n, t), q = self.problem.Y.shape, self.problem.H.shape[1]
        fit = float(np.vdot(self.problem.Y, self.alpha))
        log_det = 2 * float(np.log(self.U.diagonal()).sum())
        if q:
            log_det += float(np.linalg.slogdet(self.A)[1])
        return -0.5 * (fit + t * (log_det + (n - q) * np.log(2 * np.pi)))

    def gradient(self) -> np.ndarray:
        """By theta; the inverse takes the factor's place, which is lost."""
        t = self.problem.Y.shape[1]
        W = self.U
        invert_upper(W)
        columns = self.alpha
        if self.A.size:  # the coefficients' part of C^-1
            R = np.linalg.cholesky(self.A).T
            B = solve_triangular(R, self.V.T, trans="T", lower=False).T
            columns = np.hstack([self.alpha, np.sqrt(t) * B])
        (syrk,) = get_blas_funcs(("syrk",), (W,))
        W = syrk(1.0, columns, beta=-float(t), c=W, lower=0, overwrite_c=1)
        # Of W and C the sum over all entries follows from alpha^T C alpha and tr C^-1 C.
        (n, t), q = self.problem.Y.shape, len(self.A)
        own = W.diagonal() @ self.problem.diagonal(self.covariance)
        total = float(np.vdot(self.problem.Y, self.alpha)) - t * (n - q) - float(own)
        return 0.5 * self.covariance.contracted(self.problem.X, W.T, total)


class ExactPosterior(Posterior):
    """f given the targets, from the factor of C; ``result.gap`` is the relative residual.

    Attributes
    ----------
    alpha : (n, t) array
    L : (n, n) array, lower triangular with C = L L^T
    """

    def __init__(
        self, problem: EvidenceProblem, covariance: Covariance, L: np.ndarray | None = None
    ):
        start = time.perf_counter()
        self.problem, self.prior = problem, covariance
        factor = Factor(problem, covariance, L)
        self.alpha, self.V, self.A = factor.alpha, factor.V, factor.A
        self.mean_coefficients = factor.beta
        self.mean_covariance = np.linalg.inv(factor.A)
        value = factor.log_evidence()
        self.evidence = Evidence(value, lower=value, upper=value)
        self.L = lower_triangle(factor.U.T)
        gap, error = self._residual()
        status = Status.EXACT if error <= len(self.alpha) * ROUNDING else Status.STALLED
        seconds = time.perf_counter() - start
        self.result = Result(self.alpha, status, gap, 1, seconds, method="exact: Cholesky")

    def _residual(self) -> tuple[float, float]:
        """|y - H beta - C alpha| relative to |y|, and to what rounding may make of it.

        The largest over targets.
        """
        Y = self.problem.Y - self.problem.H @ self.mean_coefficients
        left = np.linalg.norm(Y - self.L @ (self.L.T @ self.alpha), axis=0)
        sizes = np.linalg.norm(Y, axis=0)
        known = sizes + np.vdot(self.L, self.L) * np.linalg.norm(self.alpha, axis=0)
        relative, backward = (
            np.max(np.divide(left, size, out=np.zeros_like(left), where=size > 0))
            for size in (sizes, known)
        )
        return float(relative), float(backward)

    def extended(self, X: Any, more: Any, Y: np.ndarray, noise: np.ndarray) -> ExactPosterior:
        """With more points, at the same hyperparameters, from the factor so far.

        Parameters
        ----------
        X : all points, the new ones last
        more : the new points
        Y, noise : (n + m, t) and (n + m,) arrays, of all points
        """
        old, n = self.problem, len(self.alpha)
        problem = EvidenceProblem(self.prior, X, Y, noise, old.basis)
        B = solve_triangular(self.L, self.prior.gram(old.X, more), lower=True, check_finite=False)
        C = self.prior.gram(more) - B.T @ B
        C[np.diag_indices_from(C)] += problem.diagonal(self.prior)[n:]
        U, _ = factorised(np.ascontiguousarray(C))
        L = np.zeros((len(Y), len(Y)))
        L[:n, :n], L[n:, :n], L[n:, n:] = self.L, B.T, lower_triangle(U.T)
        return ExactPosterior(problem, self.prior, L)

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n, t) and variance (n,) of each target given all others, with its error.

        With P the inverse of C, less what the coefficients of the mean take from it, target i has
        the mean y_i - alpha_i / P_ii and the variance 1 / P_ii.
        """
        (potri,) = get_lapack_funcs(("potri",), (self.L,))
        inverse, _ = potri(self.L.T, lower=0)
        P = inverse.diagonal().copy()
        if self.A.size:
            P -= np.einsum("ij,jk,ik->i", self.V, self.mean_covariance, self.V)
        P = np.maximum(P, np.finfo(np.float64).tiny)
        return self.problem.Y - self.alpha / P[:, None], 1 / P

    def mean(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        found = np.empty((n_rows(X), self.alpha.shape[1]))
        for rows in self._blocks(X):
            some = take_rows(X, rows)
            found[rows] = self._cross(some, part) @ self.alpha
            if part is None and self.problem.basis is not None:
                found[rows] += self.problem.basis(some) @ self.mean_coefficients
        return found

    def variance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        found = self.prior.own(X) if part is None else np.array(part.diag(X), dtype=float)
        for rows in self._blocks(X):
            W, M = self._whitened(take_rows(X, rows), part)
            found[rows] += np.einsum("ij,ij->j", M, M) - np.einsum("ij,ij->j", W, W)
        return np.maximum(found, 0.0)

    def covariance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        own = self.prior.gram(X) if part is None else np.array(part(X), dtype=float)
        W, M = self._whitened(X, part)
        found = own - W.T @ W + M.T @ M
        np.fill_diagonal(found, np.maximum(found.diagonal(), 0.0))
        return found

    def _blocks(self, X: Any) -> Iterator[slice]:
        height = max(1, BLOCK // len(self.alpha))
        for start in range(0, n_rows(X), height):
            yield slice(start, min(start + height, n_rows(X)))

    def _cross(self, X: Any, part: Kernel | None) -> np.ndarray:
        if part is None:
            return self.prior.gram(X, self.problem.X)
        return np.asarray(part(X, self.problem.X), dtype=float)

    def _whitened(self, X: Any, part: Kernel | None) -> tuple[np.ndarray, np.ndarray]:
        """L^-1 k(X_train, X), (n, m), and what the mean's coefficients add to the variance."""
        cross = self._cross(X, part)
        W = solve_triangular(self.L, cross.T, lower=True, check_finite=False)
        if not self.A.size:
            return W, np.zeros((0, cross.shape[0]))
        basis = np.zeros((cross.shape[0], len(self.A)))
        if part is None and self.problem.basis is not None:
            basis = self.problem.basis(X)
        left = basis - cross @ self.V
        return W, np.linalg.solve(np.linalg.cholesky(self.A), left.T)


def lower_triangle(L: np.ndarray) -> np.ndarray:
    """L with zeros above its diagonal, in its own place."""
    for i, row in enumerate(L):
        row[i + 1 :] = 0.0
    return L
