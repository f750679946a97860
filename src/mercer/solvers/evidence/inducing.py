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
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy.linalg import LinAlgError, blas

from mercer.arrays import as_dense, n_rows, take_rows, to_float64
from mercer.arrays.memory import row_blocks
from mercer.kernels.kernel import Kernel
from mercer.solvers.evidence.inducing_points import means, pivots
from mercer.solvers.evidence.inducing_sums import BLOCK_BYTES, Sums
from mercer.solvers.evidence.maximisation import LogNormal, maximise
from mercer.solvers.evidence.problem import (
    Covariance,
    Evidence,
    KernelDerivatives,
    Posterior,
)
from mercer.solvers.result import Result, Status

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
    sums : callable
        ``sums(problem, covariance, Z)`` has the bounds ``lower`` and ``upper``, ``gradient`` as
        `Sums` and a ``posterior()``.
    random_state : int
    """

    name = "inducing"

    def __init__(
        self,
        problem: Any,
        n_inducing: int = 512,
        *,
        choose: str = "pivots",
        Z: Any = None,
        sums: Callable[[Any, Covariance, Any], Any] | None = None,
        random_state: int = 0,
    ):
        self.problem, self.choose, self.random_state = problem, choose, random_state
        self.sums: Any = Sums if sums is None else sums
        self.n_inducing = n_inducing if Z is None else n_rows(Z)
        self.Z = self._chosen(problem.covariance) if Z is None else Z

    @property
    def moves(self) -> bool:
        """Whether the gradient by the inducing points is known, so that they can be improved."""
        Z, covariance = take_rows(self.Z, slice(0, 1)), self.problem.covariance
        try:
            cast(KernelDerivatives, covariance).points_contracted(Z, Z, np.ones((1, 1)))
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
            sums = self.sums(self.problem, self.problem.covariance.at(theta), self.Z)
        except LinAlgError:
            return Evidence(-np.inf, np.zeros(len(theta)) if gradient else None)
        slope = sums.gradient()[0] if gradient else None
        return Evidence(sums.lower, slope, lower=sums.lower, upper=sums.upper)

    def improved(
        self,
        theta: np.ndarray,
        *,
        priors: Sequence[LogNormal | None] = (),
        max_iter: int = 100,
        max_time: float | None = None,
    ) -> tuple[InducingEngine, Result]:
        """The engine with inducing points that raise the bound, and theta, found together.

        Parameters
        ----------
        theta : (p,) array to begin with
        priors : LogNormal or None for each entry of theta
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
        positions = Positions(self, len(theta), priors)
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

    def posterior(self, theta: np.ndarray) -> Any:
        """The posterior.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a factorisation fails, or the errors vanish.
        """
        sums = self.sums(self.problem, self.problem.covariance.at(theta), self.Z)
        return sums.posterior() if hasattr(sums, "posterior") else InducingPosterior(sums)


class Positions:
    """theta and inducing points as one vector, in units of like effect on the bound."""

    def __init__(self, engine: InducingEngine, p: int, priors: Sequence[LogNormal | None] = ()):
        self.problem, self.sums, self.p, self.priors = engine.problem, engine.sums, p, priors
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
            sums = self.sums(self.problem, self.problem.covariance.at(theta), Z)
        except LinAlgError:
            return Evidence(-np.inf, np.zeros(len(vector)))
        (slope, moved), value = sums.gradient(by_points=True), sums.lower
        for j, prior in enumerate(self.priors):
            if prior is not None:
                log_density, change = prior.log_density(theta[j])
                value, slope[j] = value + log_density, slope[j] + change
        return Evidence(value, np.concatenate([slope / self.rate, (moved * self.units).ravel()]))


class InducingPosterior(Posterior):
    """f given the targets under the lower bound; ``result.gap`` is upper minus lower bound.

    ``result.value`` has the coefficients of k(x, z) for the inducing points z: (m, t).

    Attributes
    ----------
    Z : inducing points
    """

    def __init__(self, sums: Sums):
        start = time.perf_counter()
        self.sums, self.problem, self.prior, self.Z = sums, sums.problem, sums.covariance, sums.Z
        self.weights, self.of_basis, profile = sums.coefficients
        self.mean_coefficients, self.mean_covariance = profile.beta, np.linalg.inv(profile.A)
        self.evidence = Evidence(sums.lower, lower=sums.lower, upper=sums.upper)
        alpha = sums.pulled(self.weights)
        gap, seconds = sums.upper - sums.lower, time.perf_counter() - start
        method = f"inducing: {len(sums.S)} points"
        self.result = Result(alpha, Status.COMPLETED, gap, 1, seconds, method=method)

    def mean(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        found = np.empty((n_rows(X), self.weights.shape[1]))
        for rows in self._blocks(X):
            some = take_rows(X, rows)
            found[rows] = self._features(some, part) @ self.weights
            if part is None and self.problem.basis is not None:
                found[rows] += self.problem.basis(some) @ self.mean_coefficients
        return found

    def variance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        found = self.prior.own(X) if part is None else np.array(part.diag(X), dtype=float)
        for rows in self._blocks(X):
            Phi, W, M = self._known(take_rows(X, rows), part)
            squares = [np.einsum("ij,ij->i", A, A) for A in (Phi, W, M)]
            found[rows] = np.maximum(found[rows] - squares[0], 0.0) + squares[1] + squares[2]
        return found

    def _blocks(self, X: Any) -> Iterator[slice]:
        return row_blocks(n_rows(X), 8 * len(self.weights), BLOCK_BYTES)

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
