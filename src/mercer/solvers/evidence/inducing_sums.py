"""Sums over all points from which the bounds by inducing points and their gradients follow.

The notation is that of `inducing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_solve

from mercer.arrays import take_rows
from mercer.arrays.factorisation import factorised
from mercer.arrays.memory import row_blocks
from mercer.cached import cached_property
from mercer.solvers.evidence.mean_coefficients import Profile, profiled
from mercer.solvers.evidence.problem import Covariance, EvidenceProblem, KernelDerivatives
from mercer.solvers.evidence.whitening import JITTER, whitening

# Bytes of the kernel between a block of points and the inducing points.
BLOCK_BYTES = 2**25


class Block(NamedTuple):
    """Some points: K = k(X, Z) (b, m), R = [Y, H] (b, t + q), the errors' variances D (b,)."""

    rows: slice
    X: Any
    K: np.ndarray
    R: np.ndarray
    D: np.ndarray


class Sums:
    """Sums over all points, and the bounds that follow.

    Attributes
    ----------
    S : (m, m) array, Phi^T D^-1 Phi
    c : (m, t + q) array, Phi^T D^-1 R
    G : (t + q, t + q) array, R^T D^-1 R
    log_errors : float, log |D|
    known : (n,) array, the diagonal of Q
    excess : float, tr D^-1 (K - Q)
    """

    def __init__(self, problem: EvidenceProblem, covariance: Covariance, Z: Any):
        self.problem, self.Z = problem, Z
        self.covariance = cast(KernelDerivatives, covariance)
        self.U, self.inverse = whitening(covariance, Z)
        m, q, (_, t) = len(self.U), problem.H.shape[1], problem.Y.shape
        self.S, self.c, self.G = np.zeros((m, m)), np.zeros((m, t + q)), np.zeros((t + q, t + q))
        self.log_errors = self.excess = 0.0
        self.known = np.empty(len(problem.Y))
        for block in self._blocks():
            self._add(block)
        if not np.isfinite(self.excess + self.log_errors):
            raise LinAlgError("the covariance has values that are not finite")

    def _blocks(self) -> Iterator[Block]:
        problem, n = self.problem, len(self.problem.Y)
        for rows in row_blocks(n, 8 * len(self.U), BLOCK_BYTES):
            X = take_rows(problem.X, rows)
            D = problem.noise[rows] + self.covariance.errors(X)
            if not np.all(D > 0):
                raise LinAlgError("inducing points need errors of positive variance")
            R = np.hstack([problem.Y[rows], problem.H[rows]])
            yield Block(rows, X, self.covariance.gram(X, self.Z), R, D)

    def features(self, K: np.ndarray) -> np.ndarray:
        """Phi for the kernel K between some points and Z, (b, m), which is overwritten."""
        return blas.dtrmm(1.0, self.inverse, K.T, trans_a=1, overwrite_b=1).T

    def _add(self, block: Block) -> None:
        rows, X, K, R, D = block
        Phi = self.features(K)
        self.known[rows] = np.einsum("ij,ij->i", Phi, Phi)
        left = np.maximum(self.covariance.own(X) - self.known[rows], 0.0)
        self.excess += float((left / D).sum())
        self.log_errors += float(np.log(D).sum())
        root = np.sqrt(D)[:, None]
        scaled, R = Phi / root, R / root
        self.S += scaled.T @ scaled
        self.c += scaled.T @ R
        self.G += R.T @ R

    @cached_property
    def B(self) -> tuple[np.ndarray, bool]:
        """The factor of I + S."""
        return self._shifted(1.0)

    def _shifted(self, c: float) -> tuple[np.ndarray, bool]:
        return factorised(self.S + c * np.eye(len(self.S)))

    def profile(self, c: float = 1.0) -> Profile:
        """For R^T (Q + c D)^-1 R."""
        factor = self.B if c == 1.0 else self._shifted(c)
        M = (self.G - self.c.T @ cho_solve(factor, self.c)) / c
        return profiled(M, self.problem.Y.shape[1])

    @property
    def log_det(self) -> float:
        """log |Q + D|."""
        return self.log_errors + 2 * float(np.log(self.B[0].diagonal()).sum())

    @cached_property
    def lower(self) -> float:
        shape = self.problem.Y.shape
        return self.profile().log_evidence(shape, self.log_det) - 0.5 * shape[1] * self.excess

    @cached_property
    def upper(self) -> float:
        return self.profile(1.0 + self.excess).log_evidence(self.problem.Y.shape, self.log_det)

    @cached_property
    def coefficients(self) -> tuple[np.ndarray, np.ndarray, Profile]:
        """Of Phi in the posterior mean, (m, t), in that of the basis, (m, q), and the profile."""
        profile, t = self.profile(), self.problem.Y.shape[1]
        solved = cho_solve(self.B, self.c)
        return solved[:, :t] - solved[:, t:] @ profile.beta, solved[:, t:], profile

    # With alpha = C^-1 (Y - H beta), V = C^-1 H and E = (alpha alpha^T + t D^-1 - t C^-1
    # + t V A^-1 V^T) / 2 for C = Q + D, the bound changes by <E, dQ> through Q, which is
    # <2 E Phi U^-T, dK_nm> - <U^-1 Phi^T E Phi U^-T, dK_mm>.

    def gradient(self, by_points: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Of the lower bound, by theta and, if asked for, by the inducing points: (p,), (m, d)."""
        t, m = self.problem.Y.shape[1], len(self.S)
        a, v, profile = self.coefficients
        inverse = cho_solve(self.B, np.eye(m))
        root = np.linalg.cholesky(np.linalg.inv(profile.A)) * np.sqrt(t)
        low = np.hstack([a, v @ root])
        inner = _Inner(profile, root, self.pulled(low), t * self._between(np.eye(m) - inverse))
        found = np.zeros(len(self.covariance.theta))
        moved = np.zeros(np.shape(self.Z) if by_points else 0)
        for block in self._blocks():
            W, of_block = self._of_block(block, inner)
            found += of_block + self.covariance.cross_contracted(block.X, self.Z, W)
            if by_points:
                moved += self.covariance.points_contracted(block.X, self.Z, W)
        W = self._between(t * (self.S - np.eye(m) + inverse) + low @ low.T)
        W *= -0.5
        W.reshape(-1)[:: m + 1] *= 1 + JITTER
        found += self.covariance.cross_contracted(self.Z, None, W)
        if by_points:
            moved += 2 * self.covariance.points_contracted(self.Z, self.Z, W)
        return found, moved

    def pulled(self, V: np.ndarray) -> np.ndarray:
        """U^-1 V."""
        return blas.dtrmm(1.0, self.inverse, V)

    def _between(self, A: np.ndarray) -> np.ndarray:
        """U^-1 A U^-T for a symmetric A."""
        return np.ascontiguousarray(self.pulled(self.pulled(A).T))

    def _of_block(self, block: Block, inner: _Inner) -> tuple[np.ndarray, np.ndarray]:
        """The weights of K_nm, and the gradient through k(x, x) and the errors."""
        rows, X, K, R, D = block
        profile, root, outer, middle = inner
        t = self.problem.Y.shape[1]
        # alpha, and V A^-1/2.
        columns = np.hstack([R[:, :t] - R[:, t:] @ profile.beta, R[:, t:] @ root])
        columns = (columns - K @ outer) / D[:, None]
        W = K @ middle
        known = t * self.known[rows] - np.einsum("ij,ij->i", W, K)  # t phi B^-1 phi
        left = t * np.maximum(self.covariance.own(X) - self.known[rows], 0.0)
        W /= D[:, None]
        W += columns @ outer.T
        by_errors = (columns**2).sum(1) + (known + left - t * D) / D**2
        found = self.covariance.own_contracted(X, -0.5 * t / D)
        return W, found + self.covariance.errors_contracted(X, 0.5 * by_errors)


class _Inner(NamedTuple):
    """What all blocks share: see `Sums.gradient`."""

    profile: Profile
    root: np.ndarray
    outer: np.ndarray
    middle: np.ndarray
