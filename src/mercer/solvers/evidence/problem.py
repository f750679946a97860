"""What every engine for Gaussian processes is given, and what it gives back.

The model is ``y = H beta + f(X) + e`` with ``f ~ GP(0, k_theta)``, independent errors ``e`` and a
flat prior on ``beta``. An engine is made for a problem and then asked for the evidence at many
``theta``, and once for the posterior::

    engine = ExactEngine(problem)
    engine.evidence(theta)             # log p(y | theta) and its gradient by theta
    engine.posterior(theta).mean(Xs)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from mercer.arrays import take_rows
from mercer.expressions.contraction import Outer
from mercer.kernels.kernel import Kernel
from mercer.solvers.result import Result


class Covariance(Protocol):
    """``cov(y_i, y_j) = k(x_i, x_j) + [i = j] s(x_i)`` for hyperparameters theta, logarithms.

    Attributes
    ----------
    theta : (p,) array, logarithms of the hyperparameters
    bounds : (p, 2) array, of theta
    names : tuple of str, one for each entry of theta
    kernel : Kernel or None
        k at theta. None where only Gram matrices are known, which the exact engine alone takes.
    """

    @property
    def theta(self) -> np.ndarray: ...

    @property
    def bounds(self) -> np.ndarray: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def kernel(self) -> Kernel | None: ...

    def at(self, theta: np.ndarray) -> Covariance:
        """The same with other hyperparameters."""
        ...

    def gram(self, X: Any, Y: Any = None) -> np.ndarray:
        """k between all pairs: (n, m), in C order and the caller's to overwrite."""
        ...

    def own(self, X: Any) -> np.ndarray:
        """k(x, x) for each x: (n,)."""
        ...

    def errors(self, X: Any) -> np.ndarray:
        """The variances s(x): (n,), zero where there is no noise to learn."""
        ...

    def gradient(self, X: Any, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """``Σ_c u_cᵀ (∂C/∂theta_j) v_c`` for each j: (p,), with U and V of shape (n, c)."""
        ...

    def contracted(self, X: Any, W: np.ndarray, total: float | None = None) -> np.ndarray:
        """``Σ_ij W_ij ∂C_ij/∂theta_j`` for each j: (p,), W symmetric, its lower half read.

        ``total`` is ``Σ_ij W_ij k(x_i, x_j)`` where that is known, which saves a pass for a factor.
        """
        ...


class KernelDerivatives(Covariance, Protocol):
    """A covariance whose kernel has derivatives between two sets of points."""

    def cross_contracted(self, X: Any, Z: Any, W: np.ndarray | Outer) -> np.ndarray:
        """``Σ_ij W_ij ∂k(x_i, z_j)/∂theta`` for each theta: (p,), without errors.

        With Z None the points are X on both sides, W symmetric, and its lower half read.
        """
        ...

    def points_contracted(self, X: Any, Z: Any, W: np.ndarray) -> np.ndarray:
        """``Σ_i W_ij ∂k(x_i, z_j)/∂z_j``: (m, d); a TypeError where it is not known."""
        ...

    def own_contracted(self, X: Any, weight: np.ndarray) -> np.ndarray:
        """``Σ_i weight_i ∂k(x_i, x_i)/∂theta`` for each theta: (p,)."""
        ...

    def errors_contracted(self, X: Any, weight: np.ndarray) -> np.ndarray:
        """``Σ_i weight_i ∂s(x_i)/∂theta`` for each theta: (p,)."""
        ...


@dataclass(frozen=True, eq=False)
class EvidenceProblem:
    """Points, targets, known noise and the mean's basis.

    Attributes
    ----------
    covariance : Covariance
        At the hyperparameters to begin with.
    X : points, checked: array, sparse matrix or list of objects
    Y : (n, t) float64 array
    noise : (n,) float64 array
        Known variances of the errors, which come on top of ``covariance.errors(X)``.
    basis : callable or None
        ``basis(X)`` is H of shape (n, q); None for a mean of zero.
    """

    covariance: Covariance
    X: Any
    Y: np.ndarray
    noise: np.ndarray
    basis: Callable[[Any], np.ndarray] | None = None

    @cached_property
    def H(self) -> np.ndarray:
        """The basis at the points: (n, q), q = 0 for a mean of zero."""
        return np.empty((len(self.Y), 0)) if self.basis is None else self.basis(self.X)

    def diagonal(self, covariance: Covariance) -> np.ndarray:
        """All that is added to the diagonal of the Gram matrix: (n,)."""
        return self.noise + covariance.errors(self.X)

    def some(self, rows: np.ndarray) -> EvidenceProblem:
        """The problem of some of the points."""
        X = take_rows(self.X, rows)
        return replace(self, X=X, Y=self.Y[rows], noise=self.noise[rows])


@dataclass(frozen=True, eq=False)
class LabelProblem:
    """Points with labels of two classes.

    Attributes
    ----------
    covariance : Covariance
        At the hyperparameters to begin with.
    X : points
    s : (n,) float64 array of -1 and 1
    """

    covariance: Covariance
    X: Any
    s: np.ndarray

    def some(self, rows: np.ndarray) -> LabelProblem:
        """The problem of some of the points."""
        return replace(self, X=take_rows(self.X, rows), s=self.s[rows])


@dataclass(frozen=True)
class Evidence:
    """log p(Y | theta), summed over targets, and how well it is known.

    Attributes
    ----------
    value : float
    gradient : (p,) array or None
        By theta.
    standard_error : float
        Of an estimate by random probes; 0 where there are none.
    lower, upper : float
        Bounds that hold for certain (-inf and inf where there are none); both equal to ``value``
        up to rounding for the exact engine.
    """

    value: float
    gradient: np.ndarray | None = None
    standard_error: float = 0.0
    lower: float = -np.inf
    upper: float = np.inf


class Posterior(ABC):
    """f given the targets, at one theta.

    ``part`` is a kernel whose sum with others is k: then the posterior is that of this summand
    alone, without the mean's basis.

    Attributes
    ----------
    problem : EvidenceProblem
    prior : Covariance
        At the theta of the posterior.
    evidence : Evidence
    result : Result
        ``value`` has the dual coefficients alpha, (n, t); ``gap`` certifies them as the engine's
        docstring says.
    mean_coefficients, mean_covariance : (q, t) and (q, q) arrays
        Of beta; for a target with error variances in units of its own see the estimator.
    """

    problem: EvidenceProblem
    prior: Covariance
    evidence: Evidence
    result: Result
    mean_coefficients: np.ndarray
    mean_covariance: np.ndarray

    @abstractmethod
    def mean(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        """E f(X): (m, t)."""

    @abstractmethod
    def variance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        """var f(X), without the errors': (m,), never negative."""

    @abstractmethod
    def covariance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        """cov f(X), without the errors': (m, m)."""


class Engine(Protocol):
    """A way to compute evidence and posterior; made as ``Engine(problem, ...)``.

    Attributes
    ----------
    name : str
        "exact", "iterative" or "inducing".
    """

    name: str

    def evidence(self, theta: np.ndarray, gradient: bool = True) -> Evidence: ...

    def posterior(self, theta: np.ndarray) -> Posterior: ...
