r"""A lower bound on the evidence of labels by inducing points, for many points.

Labels :math:`s_i \in \{-1, 1\}` have probability :math:`\sigma(s_i f_i)`. For a normal distribution
q of the values u at the inducing points

.. math::
    \log p(s) \ge \sum_i E_q \log \sigma(s_i f_i) - \operatorname{KL}(q(u) \,\|\, p(u)).

At the best q each factor acts as a normal density of a target :math:`y_i` with an error of variance
:math:`1 / \omega_i`, a site. With :math:`g_i = E_q\, s_i \sigma(-s_i f_i)`

.. math::
    \omega_i = E_q\, \sigma'(f_i), \qquad \omega_i y_i = \omega_i E_q f_i + g_i .

They are found by iterating this, a step of natural gradients of length one, halved where the bound
would fall. The gradient by hyperparameters and inducing points is then that of Titsias' bound for
the targets y.

References
----------
Khan and Lin (2017), "Conjugate-computation variational inference". Adam, Chang, Khan and Solin
(2021), "Dual parameterization of sparse variational Gaussian processes".
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from mercer.arrays import n_rows
from mercer.solvers.evidence.inducing import InducingPosterior
from mercer.solvers.evidence.inducing_sums import Sums
from mercer.solvers.evidence.logistic import logistic_moments
from mercer.solvers.evidence.problem import Covariance, Evidence, EvidenceProblem, LabelProblem
from mercer.solvers.result import Result, Status

# The sites are found when a step raises the bound by no more than this part of it.
TOLERANCE = 1e-9
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
    sums : Sums, of the targets that the sites stand for
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
        self.sites = start or Sites(np.full(len(problem.s), 0.25), 0.5 * problem.s)
        self.lower, best, better = self._at(self.sites)
        self.gap, self.n_iter, self.ahead = np.inf, 0, True
        while self.ahead and self.n_iter < max_iter:
            before, step, self.ahead = self.lower, 1.0, False
            while step >= SHORTEST and not self.ahead:
                sites = self.sites.moved(better, step)
                lower, sums, then = self._at(sites)
                self.ahead = lower >= before - TOLERANCE * abs(before)
                step /= 2
            if self.ahead:
                self.sites, self.lower, best, better = sites, lower, sums, then
                self.gap, self.n_iter = abs(lower - before), self.n_iter + 1
                if self.gap <= TOLERANCE * (1 + abs(before)):
                    break
        self.sums, self.seconds = best, time.perf_counter() - begin

    def _at(self, sites: Sites) -> tuple[float, Sums, Sites]:
        """The bound, the sums, and the sites of the distribution that these sites give."""
        s, (precision, shift) = self.problem.s, sites
        targets = (shift / precision)[:, None]
        equal = EvidenceProblem(self.covariance, self.problem.X, targets, 1 / precision)
        sums = Sums(equal, self.covariance, self.Z)
        (mean, variance), weights = sums.marginals(), sums.coefficients[0]
        mean = mean[:, 0]
        moments = logistic_moments(-s * mean, variance)
        upper, _ = sums.B
        inverse, _ = lapack.dtrtri(np.triu(upper))
        m, log_det = len(upper), 2 * float(np.log(upper.diagonal()).sum())
        divergence = 0.5 * (np.vdot(inverse, inverse) - m + np.vdot(weights, weights) + log_det)
        lower = float((moments.log + s * mean).sum() - divergence)
        precision = np.maximum(moments.slope, FAINT)
        return lower, sums, Sites(precision, precision * mean + s * moments.value)

    def gradient(self, by_points: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """By theta and, if asked for, by the inducing points: (p,), (m, d)."""
        return self.sums.gradient(by_points)

    def posterior(self) -> LabelPosterior:
        return LabelPosterior(self)


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
