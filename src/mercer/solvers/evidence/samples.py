r"""Samples from a posterior: jointly at some points, or as functions of any point.

A function drawn from the prior, conditioned on the targets, is drawn from the posterior:

.. math::
    f(x) = \tilde f(x) + k(x, X)\, C^{-1} (y - \tilde f(X) - \tilde e), \qquad
    \tilde f \sim GP(0, k), \quad \tilde e \sim N(0, D),

and :math:`\tilde f` is a sum of random Fourier features, or of those that the kernel has.

References
----------
Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth (2021), "Pathwise conditioning of Gaussian
processes", JMLR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.linalg import blas, cho_solve, lapack, solve_triangular

from mercer.arrays import n_rows
from mercer.kernels.algebra import linear_combination
from mercer.kernels.kernel import Kernel, NoFiniteFeatureMap
from mercer.operators import expansion
from mercer.solvers.evidence.exact import ExactPosterior
from mercer.solvers.evidence.inducing import InducingPosterior
from mercer.solvers.evidence.iterative import IterativePosterior
from mercer.solvers.evidence.problem import Posterior
from mercer.solvers.evidence.whitening import JITTER

# Features of a sample from the prior.
FEATURES = 4096


def joint_samples(
    posterior: Posterior, X: Any, n_samples: int = 1, random_state: int = 0
) -> np.ndarray:
    """Samples of f at some points, from its covariance there: (m, t, n_samples).

    Parameters
    ----------
    posterior : Posterior
    X : m points
    n_samples : int
    random_state : int
    """
    mean, rng = posterior.mean(X), np.random.default_rng(random_state)
    root = covariance_root(posterior.covariance(X))
    draws = rng.standard_normal((root.shape[1], mean.shape[1] * n_samples))
    return mean[:, :, None] + (root @ draws).reshape(*mean.shape, n_samples)


def covariance_root(A: np.ndarray) -> np.ndarray:
    """R with ``R R^T = A``, by a Cholesky factorisation that ends where the rest is rounding.

    Parameters
    ----------
    A : (m, m) array
        Positive semidefinite up to rounding.

    Returns
    -------
    R : (m, r) array

    Examples
    --------
    >>> import numpy as np
    >>> covariance_root(np.ones((2, 2))).tolist()
    [[1.0], [1.0]]
    """
    floor = len(A) * np.finfo(float).eps * max(float(A.diagonal().max(initial=0.0)), 0.0)
    L, order, rank, _ = lapack.dpstrf(A, tol=floor, lower=1)
    if A.shape[0] and A.diagonal().max() <= 0:
        rank = 0
    root = np.empty((len(A), rank))
    root[order - 1] = np.tril(L)[:, :rank]
    return root


@dataclass(frozen=True, eq=False)
class Features:
    """A function ``phi(x) W`` with random weights W, of which the kernel is k(x, z) = E f(x) f(z).

    Attributes
    ----------
    maps : fitted transformers, whose features stand side by side
    scales : a factor for each of them
    W : (number of features, t) array
    """

    maps: Sequence[Any]
    scales: Sequence[float]
    W: np.ndarray

    def __call__(self, X: Any) -> np.ndarray:
        """f(X): (m, t)."""
        found, start = np.zeros((n_rows(X), self.W.shape[1])), 0
        for phi, scale in zip(self.maps, self.scales, strict=True):
            F = phi.transform(X)
            found += scale * np.asarray(F @ self.W[start : start + F.shape[1]])
            start += F.shape[1]
        return found


@dataclass(frozen=True, eq=False)
class Sample:
    """One function from the posterior: ``sample(X)`` is f(X), (m, t), at any points.

    Attributes
    ----------
    prior : Features
        The function before the targets were seen.
    kernel : Kernel
    points : those that the correction is a sum over
    coefficients : (n, t) array
    basis : callable or None
    beta : (q, t) array
    """

    prior: Features
    kernel: Kernel
    points: Any
    coefficients: np.ndarray
    basis: Any = None
    beta: np.ndarray | None = None

    def __call__(self, X: Any) -> np.ndarray:
        found = self.prior(X) + expansion(self.kernel, X, self.points, self.coefficients)
        return found if self.basis is None else found + self.basis(X) @ self.beta


def function_samples(
    posterior: Posterior,
    n_samples: int = 1,
    *,
    n_features: int = FEATURES,
    random_state: int = 0,
) -> list[Sample]:
    """Samples that are functions, each with random features of its own.

    Parameters
    ----------
    posterior : Posterior of one of the engines
    n_samples : int
    n_features : int
        Of the prior: its covariance has an error of order ``n_features ** -0.5`` in each sample,
        and none on average.
    random_state : int

    Raises
    ------
    TypeError
        If a term of the kernel is not stationary and has no features either.
    """
    rng = np.random.default_rng(random_state)
    problem, kernel = posterior.problem, _kernel(posterior)
    t = problem.Y.shape[1]
    priors = [prior_sample(kernel, problem.X, t, n_features, rng) for _ in range(n_samples)]
    return conditioned(posterior, priors, rng)


def prior_sample(
    kernel: Kernel, X: Any, t: int, n_features: int, rng: np.random.Generator
) -> Features:
    """t functions from the prior with the same features.

    Parameters
    ----------
    kernel : Kernel
    X : points of the kind that the functions are of
    t : int
    n_features : int
        At most, of the terms that are stationary.
    rng : Generator
    """
    terms = linear_combination(kernel)
    stationary = [term for term in terms if term.kernel.is_stationary]
    count = n_features // (2 * max(1, len(stationary))) * 2
    maps, scales, width = [], [], 0
    for term in terms:
        if term.kernel.is_stationary:
            seed = int(rng.integers(2**31))
            phi = term.kernel.approximate_map(max(2, count), "fourier", seed)
        else:
            phi = _own_features(term.kernel)
        phi = phi.fit(X)
        maps.append(phi)
        scales.append(float(term.factor) ** 0.5)
        width += phi.transform(X[:1]).shape[1]
    return Features(maps, scales, rng.standard_normal((width, t)))


def _kernel(posterior: Posterior) -> Kernel:
    kernel = posterior.prior.kernel
    if kernel is None:
        raise TypeError("samples that are functions need a kernel; Gram matrices are not enough")
    return kernel


def _own_features(kernel: Kernel) -> Any:
    try:
        return kernel.feature_map()
    except NoFiniteFeatureMap as error:
        raise TypeError(
            f"samples that are functions need terms that are stationary or have finitely many "
            f"features, and {kernel!r} has neither; draw samples at given points instead"
        ) from error


@singledispatch
def conditioned(
    posterior: Posterior, priors: Sequence[Features], rng: np.random.Generator
) -> list[Sample]:
    """Functions from the posterior, from functions of the prior."""
    raise TypeError(f"no samples that are functions are known for {type(posterior).__name__}")


@conditioned.register
def _(
    posterior: ExactPosterior, priors: Sequence[Features], rng: np.random.Generator
) -> list[Sample]:
    left = _differences(posterior, priors, rng)
    solved = cho_solve((posterior.L, True), left, check_finite=False)
    return _corrected(posterior, priors, left, solved, posterior.V)


@conditioned.register
def _(
    posterior: IterativePosterior, priors: Sequence[Features], rng: np.random.Generator
) -> list[Sample]:
    left = _differences(posterior, priors, rng)
    return _corrected(posterior, priors, left, posterior.solve(left), posterior.of_basis)


@conditioned.register
def _(
    posterior: InducingPosterior, priors: Sequence[Features], rng: np.random.Generator
) -> list[Sample]:
    """The functions' values at the inducing points are drawn anew."""
    sums, Z, basis = posterior.sums, posterior.Z, posterior.problem.basis
    (m, t), s = posterior.weights.shape, len(priors)
    draws = rng.standard_normal((m, t * s))
    whitened = blas.dtrsm(1.0, sums.B[0], draws)  # of covariance B^-1
    beta = np.repeat(posterior.mean_coefficients, s, axis=1)
    if len(beta):
        moved = np.linalg.cholesky(posterior.mean_covariance) @ rng.standard_normal(beta.shape)
        beta, whitened = beta + moved, whitened - posterior.of_basis @ moved
    whitened += np.repeat(posterior.weights, s, axis=1)
    values = _stacked([prior(Z) for prior in priors])
    noise = np.sqrt(JITTER * posterior.prior.own(Z))[:, None] * rng.standard_normal(values.shape)
    prior_whitened = solve_triangular(sums.U, values + noise, trans="T")
    coefficients = blas.dtrmm(1.0, sums.inverse, whitened - prior_whitened)
    first = Sample(priors[0], _kernel(posterior), Z, coefficients, basis)
    return _each(first, priors, coefficients, beta)


def _differences(
    posterior: Posterior, priors: Sequence[Features], rng: np.random.Generator
) -> np.ndarray:
    """Targets less functions of the prior and errors at the points: (n, t * samples)."""
    problem = posterior.problem
    values = _stacked([prior(problem.X) for prior in priors])
    D = problem.diagonal(posterior.prior)
    errors = np.sqrt(D)[:, None] * rng.standard_normal(values.shape)
    return np.repeat(problem.Y, len(priors), axis=1) - values - errors


def _corrected(
    posterior: Posterior,
    priors: Sequence[Features],
    left: np.ndarray,
    solved: np.ndarray,
    of_basis: np.ndarray,
) -> list[Sample]:
    """From ``C^-1`` of the differences to the functions; the basis takes its part of them."""
    problem = posterior.problem
    beta = np.zeros((0, left.shape[1]))
    if of_basis.shape[1]:
        beta = np.linalg.solve(problem.H.T @ of_basis, of_basis.T @ left)
        solved = solved - of_basis @ beta
    first = Sample(priors[0], _kernel(posterior), problem.X, solved, problem.basis)
    return _each(first, priors, solved, beta)


def _stacked(values: list[np.ndarray]) -> np.ndarray:
    """The samples' values, target by target: (n, t * samples)."""
    return np.stack(values, axis=2).reshape(len(values[0]), -1)


def _each(
    first: Sample, priors: Sequence[Features], coefficients: np.ndarray, beta: np.ndarray
) -> list[Sample]:
    s = len(priors)
    by_sample = [(coefficients[:, i::s], beta[:, i::s]) for i in range(s)]
    return [
        replace(first, prior=prior, coefficients=np.ascontiguousarray(own), beta=level)
        for prior, (own, level) in zip(priors, by_sample, strict=True)
    ]
