r"""A lower bound on the evidence of labels by inducing points, for many points.

Labels :math:`s_i \in \{-1, 1\}` have probability :math:`\sigma(s_i f_i)`. For a normal distribution
q of the values u at the inducing points

.. math::
    \log p(s) \ge \sum_i E_q \log \sigma(s_i f_i) - \operatorname{KL}(q(u) \,\|\, p(u)).

At the best q each factor acts as a normal density of a target :math:`y_i` with an error of variance
:math:`1 / \omega_i`, a site. With :math:`g_i = E_q\, s_i \sigma(-s_i f_i)`

.. math::
    \omega_i = E_q\, \sigma'(f_i), \qquad \omega_i y_i = \omega_i E_q f_i + g_i .

They are found by iterating this, a step of natural gradients of length one, with Anderson's
extrapolation of the last few steps; steps are halved where the bound would fall. The gradient by
hyperparameters and inducing points is then that of Titsias' bound for the targets y.

References
----------
Khan and Lin (2017), "Conjugate-computation variational inference". Adam, Chang, Khan and Solin
(2021), "Dual parameterization of sparse variational Gaussian processes". Walker and Ni (2011),
"Anderson acceleration for fixed-point iterations".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_solve, lapack

from mercer.arrays import memory_budget, n_rows, take_rows
from mercer.arrays.lapack import factorise_upper
from mercer.arrays.memory import row_blocks
from mercer.cached import cached_property
from mercer.solvers.evidence.inducing import InducingPosterior
from mercer.solvers.evidence.inducing_sums import BLOCK_BYTES, Sums
from mercer.solvers.evidence.logistic import logistic_moments
from mercer.solvers.evidence.problem import Covariance, Evidence, EvidenceProblem, LabelProblem
from mercer.solvers.evidence.whitening import whitening
from mercer.solvers.result import Result, Status

# The sites are found when a step raises the bound by no more than this part of it.
TOLERANCE = 1e-9
# Steps that are extrapolated from.
STEPS = 6
# The shortest part of a step that is tried.
SHORTEST = 2.0**-20
# The least precision of a site; less is nothing next to the prior.
FAINT = 1e-12


class Sites(NamedTuple):
    """Normal factors in place of the labels': omega, and omega times y, each (n,)."""

    precision: np.ndarray
    shift: np.ndarray

    def moved(self, other: Sites, step: float) -> Sites:
        pairs = zip(self, other, strict=True)
        return Sites(*((1 - step) * a + step * b for a, b in pairs))

    @property
    def vector(self) -> np.ndarray:
        """Logarithms of omega, and omega times y, one after the other."""
        return np.concatenate([np.log(self.precision), self.shift])

    @classmethod
    def of(cls, vector: np.ndarray) -> Sites:
        """From the `vector`, within what the logistic function allows."""
        log_precision, shift = np.split(vector, 2)
        return cls(np.exp(np.clip(log_precision, np.log(FAINT), np.log(0.25))), shift)


class LabelBounds:
    """Makes a `LabelBound` for any hyperparameters and inducing points.

    Each begins with the sites of the one before.

    Parameters
    ----------
    max_iter : int
        Steps for the sites.
    """

    def __init__(self, max_iter: int = 100):
        self.max_iter, self.last = max_iter, None

    def __call__(self, problem: LabelProblem, covariance: Covariance, Z: Any) -> LabelBound:
        found = LabelBound(problem, covariance, Z, self.last, self.max_iter)
        self.last = found.sites
        return found


class LabelBound:
    """The bound at the best sites.

    Attributes
    ----------
    sites : Sites
    lower, upper : float
        The bound, and infinity.
    gap : float
        By how much the last step raised the bound.
    n_iter : int
    """

    upper = np.inf

    def __init__(
        self,
        problem: LabelProblem,
        covariance: Covariance,
        Z: Any,
        start: Sites | None = None,
        max_iter: int = 100,
    ):
        begin = time.perf_counter()
        self.problem, self.covariance, self.Z = problem, covariance, Z
        self.features = Features(problem, covariance, Z)
        at = self._at(start or Sites(np.full(len(problem.s), 0.25), 0.5 * problem.s))
        self.gap, self.n_iter, self.ahead = np.inf, 0, True
        past, step = [at], 1.0
        while self.ahead and self.n_iter < max_iter and not self._is_close(self.gap, at.bound):
            then = self._accelerated(past)
            if then is None:
                then, step = self._plain(at, min(1.0, 2 * step))
            self.ahead = then is not None
            if then is not None:
                self.gap, self.n_iter = abs(then.bound - at.bound), self.n_iter + 1
                past, at = [*past[-STEPS:], then], then
        self.sites, self.lower = at.sites, at.bound
        self.seconds = time.perf_counter() - begin

    def _is_close(self, gap: float, bound: float) -> bool:
        return gap <= TOLERANCE * (1 + abs(bound))

    def _accelerated(self, past: list[_State]) -> _State | None:
        """The state after Anderson's extrapolation of the last steps, if the bound rises."""
        if len(past) < 3:
            return None
        x = np.array([each.sites.vector for each in past])
        then = np.array([each.better.vector for each in past])
        left = then - x
        weights = np.linalg.lstsq(np.diff(left, axis=0).T, left[-1], rcond=1e-10)[0]
        found = self._at(Sites.of(then[-1] - weights @ np.diff(then, axis=0)))
        return found if found.bound >= past[-1].bound else None

    def _plain(self, at: _State, step: float) -> tuple[_State | None, float]:
        """The state after a step, halved until the bound does not fall, and its length."""
        while step >= SHORTEST:
            found = self._at(at.sites.moved(at.better, step))
            if found.bound >= at.bound - TOLERANCE * abs(at.bound):
                return found, step
            step /= 2
        return None, step

    def _at(self, sites: Sites) -> _State:
        s = self.problem.s
        upper, weights = self.features.posterior(sites)
        mean, variance = self.features.marginals(upper, weights)
        inverse, _ = lapack.dtrtri(upper)
        m, log_det = len(upper), 2 * float(np.log(upper.diagonal()).sum())
        divergence = 0.5 * (np.vdot(inverse, inverse) - m + weights @ weights + log_det)
        moments = logistic_moments(-s * mean, variance)
        precision = np.maximum(moments.slope, FAINT)
        better = Sites(precision, precision * mean + s * moments.value)
        return _State(sites, better, float((moments.log + s * mean).sum() - divergence))

    @cached_property
    def sums(self) -> Sums:
        """Those of regression for the targets that the sites stand for."""
        targets = (self.sites.shift / self.sites.precision)[:, None]
        equal = EvidenceProblem(self.covariance, self.problem.X, targets, 1 / self.sites.precision)
        return Sums(equal, self.covariance, self.Z)

    def gradient(self, by_points: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """By theta and, if asked for, by the inducing points: (p,), (m, d)."""
        return self.sums.gradient(by_points)

    def posterior(self) -> LabelPosterior:
        return LabelPosterior(self)


class _State(NamedTuple):
    """Sites, those of the distribution that they give, and the bound there."""

    sites: Sites
    better: Sites
    bound: float


class Features:
    """Phi = k(X, Z) U^-1 for all points, stored where it fits the memory.

    Parameters
    ----------
    problem : LabelProblem
    covariance : Covariance
    Z : inducing points
    """

    def __init__(self, problem: LabelProblem, covariance: Covariance, Z: Any):
        self.problem, self.covariance, self.Z = problem, covariance, Z
        _, self.inverse = whitening(covariance, Z)
        self.left = covariance.own(problem.X)
        if not np.isfinite(self.left).all():
            raise LinAlgError("the covariance has values that are not finite")
        self.stored: list[tuple[slice, np.ndarray]] | None = None
        fits = 16.0 * len(self.left) * len(self.inverse) <= memory_budget()
        blocks = list(self._computed()) if fits else self._computed()
        for rows, Phi in blocks:
            self.left[rows] = np.maximum(self.left[rows] - np.einsum("ij,ij->i", Phi, Phi), 0.0)
        if fits:
            self.stored = list(blocks)

    def __iter__(self) -> Iterator[tuple[slice, np.ndarray]]:
        return iter(self._computed() if self.stored is None else self.stored)

    def _computed(self) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in row_blocks(len(self.left), 8 * len(self.inverse), BLOCK_BYTES):
            K = self.covariance.gram(take_rows(self.problem.X, rows), self.Z)
            yield rows, blas.dtrmm(1.0, self.inverse, K.T, trans_a=1, overwrite_b=1).T

    def posterior(self, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
        """R with ``R^T R = I + Phi^T omega Phi``, and the mean of the weights of Phi."""
        m = len(self.inverse)
        B, c = np.asfortranarray(np.eye(m)), np.zeros(m)
        for rows, Phi in self:
            scaled = Phi * np.sqrt(sites.precision[rows])[:, None]
            B = blas.dsyrk(1.0, scaled.T, beta=1.0, c=B, overwrite_c=1)
            c += Phi.T @ sites.shift[rows]
        if not np.isfinite(c).all() or not factorise_upper(B):
            raise LinAlgError("the matrix is not positive definite after rounding")
        upper = np.asfortranarray(np.triu(B))
        return upper, cho_solve((upper, False), c, check_finite=False)

    def marginals(self, upper: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of f at all points: (n,) and (n,)."""
        mean, variance = np.empty_like(self.left), self.left.copy()
        for rows, Phi in self:
            mean[rows] = Phi @ weights
            W = blas.dtrsm(1.0, upper, Phi.T, trans_a=1)
            variance[rows] += np.einsum("ij,ij->j", W, W)
        return mean, variance


class LabelPosterior:
    """f given the labels; ``result.gap`` is by how much the last step raised the bound.

    Attributes
    ----------
    alpha : (m,) array
        Coefficients of k(x, z) for the inducing points z.
    given : InducingPosterior, of the targets that the sites stand for
    pi, root : (n,) arrays
        Mean probabilities of the positive class at the points, and square roots of the sites'
        precisions.
    """

    def __init__(self, bound: LabelBound):
        self.problem, self.prior, self.Z = bound.problem, bound.covariance, bound.Z
        self.given = InducingPosterior(bound.sums)
        self.root = np.sqrt(bound.sites.precision)
        s, mean = self.problem.s, self.given.mean(self.problem.X)[:, 0]
        self.pi = logistic_moments(mean, self.given.variance(self.problem.X)).value
        self.evidence = Evidence(bound.lower, lower=bound.lower)
        self.alpha = self.given.result.value[:, 0]
        done = bound.gap <= np.sqrt(TOLERANCE) * (1 + abs(bound.lower))
        status = Status.CONVERGED if done else Status.MAX_ITER if bound.ahead else Status.STALLED
        self.result = Result(
            self.alpha,
            status,
            bound.gap,
            bound.n_iter,
            bound.seconds,
            method=f"variational: {len(self.alpha)} inducing points for {n_rows(s)} labels",
            advice="" if status.ok else "raise max_iter_predict, or standardise the features",
        )

    def mean(self, X: Any) -> np.ndarray:
        """E f(X): (m,)."""
        return self.given.mean(X)[:, 0]

    def variance(self, X: Any) -> np.ndarray:
        """var f(X): (m,), never negative."""
        return self.given.variance(X)
