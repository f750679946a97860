r"""Titsias' bound on the evidence: inducing points, and sums over all points in passes.

With m inducing points, :math:`K_{mm} = U^T U`, features :math:`\Phi = K_{nm} U^{-1}`, the
approximation :math:`Q = \Phi \Phi^T \preceq K` and the errors' variances D

.. math::
    \log N(y; 0, Q + D) - \tfrac12 \operatorname{tr} D^{-1} (K - Q)
    \le \log p(y) \le
    \log N(y; 0, Q + c D) + \tfrac12 \log |Q + cD| - \tfrac12 \log |Q + D|,

where :math:`c = 1 + \operatorname{tr} D^{-1} (K - Q)`, since :math:`Q + D \preceq K + D \preceq
Q + cD`. Everything follows from :math:`S = \Phi^T D^{-1} \Phi` and :math:`\Phi^T D^{-1} y`, sums
over the points that are taken a block at a time; the gradient takes a second pass.

References
----------
Titsias (2009), "Variational learning of inducing variables in sparse Gaussian processes";
Titsias (2014), "Variational inference for Gaussian and determinantal point processes", for the
upper bound, here with one D for each point. Burt, Rasmussen and van der Wilk (2020), "Convergence
of sparse variational inference in Gaussian processes regression", for the choice of the points.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_solve, lapack

from mercer.arrays import as_dense, n_rows, take_rows, to_float64
from mercer.arrays.factorisation import factorised
from mercer.arrays.memory import row_blocks
from mercer.cached import cached_property
from mercer.kernels.kernel import Kernel
from mercer.solvers.evidence.inducing_points import means, pivots
from mercer.solvers.evidence.maximisation import maximise
from mercer.solvers.evidence.mean_coefficients import Profile, profiled
from mercer.solvers.evidence.problem import (
    Covariance,
    Evidence,
    EvidenceProblem,
    KernelDerivatives,
    Posterior,
)
from mercer.solvers.result import Result, Status

# Noise of the inducing variables relative to their variances. The bound holds with it as well.
JITTER = 1e-8
# Bytes of the kernel between a block of points and the inducing points.
BLOCK_BYTES = 2**25
CHOICES = {"pivots": pivots, "means": means}


class InducingEngine:
    """Lower and upper bounds on the evidence, and the posterior of the lower one.

    Parameters
    ----------
    problem : EvidenceProblem
        With errors: known noise, noise that is learnt, or white noise in the kernel.
    n_inducing : int
    choose : "pivots" (some of the points, by randomly pivoted Cholesky) or "means" (by k-means)
    Z : points, optional
        Inducing points to take in place of those chosen.
    random_state : int
    """

    name = "inducing"

    def __init__(
        self,
        problem: EvidenceProblem,
        n_inducing: int = 512,
        *,
        choose: str = "pivots",
        Z: Any = None,
        random_state: int = 0,
    ):
        self.problem, self.choose, self.random_state = problem, choose, random_state
        self.n_inducing = n_inducing if Z is None else n_rows(Z)
        self.Z = self._chosen(problem.covariance) if Z is None else Z

    @property
    def moves(self) -> bool:
        """Whether the gradient by the inducing points is known, so that they can be improved."""
        Z = take_rows(self.Z, slice(0, 1))
        try:
            self.problem.covariance.points_contracted(Z, Z, np.ones((1, 1)))
        except TypeError:
            return False
        return True

    def rechosen(self, theta: np.ndarray) -> InducingEngine:
        """The engine with inducing points chosen at theta."""
        other = copy(self)
        other.Z = self._chosen(self.problem.covariance.at(theta))
        return other

    def _chosen(self, covariance: Covariance) -> Any:
        found = CHOICES[self.choose](covariance, self.problem.X, self.n_inducing, self.random_state)
        return take_rows(self.problem.X, found) if found.ndim == 1 else found

    def evidence(self, theta: np.ndarray, gradient: bool = True) -> Evidence:
        """The lower bound and its gradient; ``upper`` is the upper bound.

        -inf with a gradient of zeros where a factorisation fails or the errors vanish.
        """
        try:
            sums = Sums(self.problem, self.problem.covariance.at(theta), self.Z)
        except LinAlgError:
            return Evidence(-np.inf, np.zeros(len(theta)) if gradient else None)
        slope = sums.gradient()[0] if gradient else None
        return Evidence(sums.lower, slope, lower=sums.lower, upper=sums.upper)

    def improved(
        self, theta: np.ndarray, *, max_iter: int = 100, max_time: float | None = None
    ) -> tuple[InducingEngine, Result]:
        """The engine with inducing points that raise the bound, and theta, found together.

        Parameters
        ----------
        theta : (p,) array to begin with
        max_iter : int
        max_time : float, optional
            Seconds.

        Returns
        -------
        engine : InducingEngine
        result : Result of `maximisation.maximise`
            ``value`` is theta.

        Raises
        ------
        TypeError
            If the kernel is no function of squared distances and dot products of dense vectors.
        """
        positions = Positions(self, len(theta))
        low_high = np.full((positions.size, 2), (-np.inf, np.inf))
        low_high[: len(theta)] = self.problem.covariance.bounds * positions.rate
        result = maximise(
            positions.evidence,
            [positions.start(theta)],
            low_high,
            max_iter=max_iter,
            max_time=max_time,
        )
        other = copy(self)
        theta, other.Z = positions.parts(result.value)
        return other, replace(result, value=theta)

    def posterior(self, theta: np.ndarray) -> InducingPosterior:
        """The posterior.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a factorisation fails, or the errors vanish.
        """
        return InducingPosterior(self.problem, self.problem.covariance.at(theta), self.Z)


class Positions:
    """theta and inducing points as one vector, in units of like effect on the bound."""

    def __init__(self, engine: InducingEngine, p: int):
        self.problem, self.p = engine.problem, p
        self.Z = np.array(to_float64(as_dense(engine.Z)))
        self.units = self.Z.std(0)
        self.units[self.units == 0] = 1.0
        self.rate = len(self.Z) ** 0.5  # theta moves all points at once
        self.size = p + self.Z.size

    def start(self, theta: np.ndarray) -> np.ndarray:
        return np.concatenate([theta * self.rate, (self.Z / self.units).ravel()])

    def parts(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Z = vector[self.p :].reshape(self.Z.shape) * self.units
        return vector[: self.p] / self.rate, Z

    def evidence(self, vector: np.ndarray, gradient: bool = True) -> Evidence:
        theta, Z = self.parts(vector)
        try:
            sums = Sums(self.problem, self.problem.covariance.at(theta), Z)
        except LinAlgError:
            return Evidence(-np.inf, np.zeros(len(vector)))
        slope, moved = sums.gradient(by_points=True)
        slope = np.concatenate([slope / self.rate, (moved * self.units).ravel()])
        return Evidence(sums.lower, slope)


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
        K = covariance.gram(Z)
        K.reshape(-1)[:: len(K) + 1] *= 1 + JITTER
        self.U = _upper(K)
        self.inverse = np.asfortranarray(lapack.dtrtri(self.U)[0])
        m, q, (_, t) = len(K), problem.H.shape[1], problem.Y.shape
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


def _upper(K: np.ndarray) -> np.ndarray:
    """U with K = U^T U, in column order and with zeros below the diagonal."""
    if not np.isfinite(K).all():
        raise LinAlgError("the covariance has values that are not finite")
    return np.asfortranarray(np.triu(factorised(K)[0]))


class InducingPosterior(Posterior):
    """f given the targets under the lower bound; ``result.gap`` is upper minus lower bound.

    ``result.value`` has the coefficients of k(x, z) for the inducing points z: (m, t).

    Attributes
    ----------
    Z : inducing points
    """

    def __init__(self, problem: EvidenceProblem, covariance: Covariance, Z: Any):
        start = time.perf_counter()
        self.problem, self.prior, self.Z = problem, covariance, Z
        sums = self.sums = Sums(problem, covariance, Z)
        self.weights, self.of_basis, profile = sums.coefficients
        self.mean_coefficients, self.mean_covariance = profile.beta, np.linalg.inv(profile.A)
        self.evidence = Evidence(sums.lower, lower=sums.lower, upper=sums.upper)
        alpha = sums.pulled(self.weights)
        gap, seconds = sums.upper - sums.lower, time.perf_counter() - start
        method = f"inducing: {len(sums.S)} points"
        self.result = Result(alpha, Status.COMPLETED, gap, 1, seconds, method=method)

    def mean(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        found = self._features(X, part) @ self.weights
        if part is None and self.problem.basis is not None:
            found += self.problem.basis(X) @ self.mean_coefficients
        return found

    def variance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        own = self.prior.own(X) if part is None else np.array(part.diag(X), dtype=float)
        Phi, W, M = self._known(X, part)
        squares = [np.einsum("ij,ij->i", A, A) for A in (Phi, W, M)]
        return np.maximum(np.maximum(own - squares[0], 0.0) + squares[1] + squares[2], 0.0)

    def covariance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        own = self.prior.gram(X) if part is None else np.array(part(X), dtype=float)
        Phi, W, M = self._known(X, part)
        found = own - Phi @ Phi.T + W @ W.T + M @ M.T
        np.fill_diagonal(found, self.variance(X, part))
        return found

    def _features(self, X: Any, part: Kernel | None) -> np.ndarray:
        if part is None:
            return self.sums.features(self.prior.gram(X, self.Z))
        return self.sums.features(np.array(part(X, self.Z), dtype=float, order="C"))

    def _known(self, X: Any, part: Kernel | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Phi, its product with B^-1/2, and what the mean's coefficients add."""
        Phi = self._features(X, part)
        upper, _ = self.sums.B
        W = blas.dtrsm(1.0, upper, Phi.T, trans_a=1).T
        if not self.of_basis.size:
            return Phi, W, Phi[:, :0]
        left = -Phi @ self.of_basis
        if part is None and self.problem.basis is not None:
            left += self.problem.basis(X)
        return Phi, W, left @ np.linalg.cholesky(self.mean_covariance)
