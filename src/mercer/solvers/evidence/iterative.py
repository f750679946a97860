r"""The evidence by preconditioned conjugate gradients on products that are never stored.

With :math:`C = K + D`, a preconditioner :math:`P = F F^T + D \preceq C` from some columns of K and
vectors w of random signs

.. math::
    \log |C| = \log |P| + E\, w^T \log(P^{-1/2} C P^{-T/2})\, w, \qquad
    \operatorname{tr} C^{-1} \partial C = E\, (C^{-1} b)^T \partial C\, (P^{-1} b), \quad
    b = P^{1/2} w

The solves with b give the logarithms too, by Lanczos quadrature; the trace of P itself is exact
(see `control_variate`). Only what P leaves of C is random, which is what the standard error
reports. For any V, with :math:`r = b - C V`,

.. math::
    V^T b + b^T V - V^T C V \preceq b^T C^{-1} b \preceq V^T b + b^T V - V^T C V + r^T P^{-1} r,

which bounds the evidence together with the bounds on log |C|, and every predictive variance.

References
----------
Gardner, Pleiss, Bindel, Weinberger and Wilson (2018), "GPyTorch: blackbox matrix-matrix Gaussian
process inference with GPU acceleration". Wenger, Pleiss, Hennig, Cunningham and Gardner (2022),
"Preconditioning for scalable Gaussian process hyperparameter optimization". Artemev, Burt and van
der Wilk (2021), "Tighter bounds on the log marginal likelihood of Gaussian process regression using
conjugate gradients".
"""

from __future__ import annotations

import time
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from mercer.arrays import memory_budget, n_rows, take_rows, to_float64
from mercer.arrays.memory import row_blocks
from mercer.cached import cached_property
from mercer.kernels.kernel import Kernel
from mercer.operators import expansion
from mercer.solvers.conjugate_gradients import conjugate_gradients, dots
from mercer.solvers.evidence.control_variate import control_variate
from mercer.solvers.evidence.inducing_points import pivots
from mercer.solvers.evidence.mean_coefficients import Profile, profiled
from mercer.solvers.evidence.problem import Covariance, Evidence, EvidenceProblem, Posterior
from mercer.solvers.evidence.quadrature import Solved, solve_with_logs
from mercer.solvers.evidence.system import System, bounded
from mercer.solvers.result import Monitor, Result, Status

# The preconditioner's rank over sqrt(n): to build it then takes the time of a few products.
RANK = 11
# Random vectors: with one target they make up the columns of one product with half of K.
PROBES = 15
# Points whose variances are solved for at once.
POINTS = 256


class IterativeEngine:
    """Evidence with a standard error, and a posterior whose variances have bounds.

    Parameters
    ----------
    problem : EvidenceProblem
        With errors: known noise, noise that is learnt, or white noise in the kernel.
    rank : int, optional
        Of the preconditioner; None is 11 sqrt(n), or what the memory budget allows. Its columns
        are chosen once, for the problem's hyperparameters.
    n_probes : int
        Random vectors; the standard error falls with their root.
    tol : float
        For the evidence, of the residual relative to the right-hand side, in the norm of P^-1.
    posterior_tol : float
        For the dual coefficients of the posterior, of the residual relative to the targets.
    variance_tol : float
        Bounds on predictive variances are to be this close, in units of k(x, x).
    max_iter : int
        Products at most.
    random_state : int
    """

    name = "iterative"

    def __init__(
        self,
        problem: EvidenceProblem,
        *,
        rank: int | None = None,
        n_probes: int = PROBES,
        tol: float = 1e-2,
        posterior_tol: float = 1e-6,
        variance_tol: float = 1e-3,
        max_iter: int = 1000,
        random_state: int = 0,
    ):
        self.problem, self.rank, self.n_probes = problem, rank, n_probes
        self.tol, self.posterior_tol, self.variance_tol = tol, posterior_tol, variance_tol
        self.max_iter, self.random_state = max_iter, random_state
        self.at = self._chosen(problem.covariance)

    def rechosen(self, theta: np.ndarray) -> IterativeEngine:
        """The engine with the preconditioner's columns chosen at theta."""
        other = copy(self)
        other.at = self._chosen(self.problem.covariance.at(theta))
        return other

    def _chosen(self, covariance: Covariance) -> np.ndarray:
        n, rank = len(self.problem.Y), self.rank
        if rank is None:
            rank = int(min(np.ceil(RANK * np.sqrt(n)), memory_budget() / (8.0 * n)))
        return pivots(covariance, self.problem.X, max(1, min(rank, n)), self.random_state)

    def system(self, covariance: Covariance) -> System:
        return System(self.problem, covariance, take_rows(self.problem.X, self.at))

    def evidence(self, theta: np.ndarray, gradient: bool = True) -> Evidence:
        """An estimate of log p(Y | theta) with its standard error, between bounds that hold.

        -inf with a gradient of zeros where the preconditioner has no factor or the errors vanish.
        """
        try:
            system = self.system(self.problem.covariance.at(theta))
        except LinAlgError:
            return Evidence(-np.inf, np.zeros(len(theta)) if gradient else None)
        probed = self._probed(system)
        return probed.evidence(gradient)

    def _probed(self, system: System) -> Probed:
        rng = np.random.default_rng(self.random_state)
        signs = 2.0 * rng.integers(0, 2, (len(system.D), self.n_probes)) - 1
        b = system.P.rooted(signs)
        B = np.hstack([system.R, b])
        goal = self.tol**2 * dots(B, system.P.solve(B))
        solved = solve_with_logs(system.quick_product, system.P.solve, B, goal, self.max_iter)
        return Probed(system, b, solved)

    def posterior(self, theta: np.ndarray) -> IterativePosterior:
        """The posterior.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the preconditioner has no factor, or the errors vanish.
        """
        return IterativePosterior(self, self.problem.covariance.at(theta))


class Probed:
    """The solves for targets, basis and probes, and the evidence that follows."""

    def __init__(self, system: System, b: np.ndarray, solved: Solved):
        self.system, self.b, self.q = system, b, system.R.shape[1] - system.t
        count = system.R.shape[1]
        self.V, self.C_b = solved.X[:, :count], solved.X[:, count:]
        self.logs, self.n_iter = solved.logs[count:], solved.n_iter
        self.bounds = bounded(system, system.R, self.V)

    def evidence(self, gradient: bool) -> Evidence:
        system, P, low, slack = self.system, self.system.P, *self.bounds
        shape, t = system.problem.Y.shape, system.t
        least, most = profiled(low, t), profiled(low + slack, t)
        value = least.log_evidence(shape, P.log_det + float(self.logs.mean()))
        spread = float(self.logs.std(ddof=1)) if len(self.logs) > 1 else np.inf
        return Evidence(
            value,
            self.gradient(least) if gradient else None,
            standard_error=0.5 * t * spread / np.sqrt(len(self.logs)),
            lower=most.log_evidence(shape, P.log_det + P.log_det_slack),
            upper=least.log_evidence(shape, P.log_det),
        )

    def gradient(self, profile: Profile) -> np.ndarray:
        """An estimate by the same probes."""
        system, t = self.system, self.system.t
        alpha = self.V[:, :t] - self.V[:, t:] @ profile.beta
        columns = alpha
        if self.q:
            root = np.linalg.cholesky(np.linalg.inv(profile.A)) * np.sqrt(t)
            columns = np.hstack([alpha, self.V[:, t:] @ root])
        weight, u = -t / len(self.logs), system.P.solve(self.b)
        U, V = np.hstack([columns, weight * self.C_b]), np.hstack([columns, u])
        found = system.covariance.gradient(system.problem.X, U, V)
        return 0.5 * (found - t * control_variate(system, u))


class IterativePosterior(Posterior):
    """f given the targets; ``result.gap`` is the residual relative to the targets.

    `variance` and `covariance` are certain upper bounds, and `variance_bounds` gives both sides.
    """

    def __init__(self, engine: IterativeEngine, covariance: Covariance):
        start = time.perf_counter()
        self.engine, self.problem, self.prior = engine, engine.problem, covariance
        system = self.system
        probed = engine._probed(system)
        V, monitor, stalled = self._refined(system.R, np.ascontiguousarray(probed.V))
        probed.V, probed.bounds = V, bounded(system, system.R, V)
        self.evidence = probed.evidence(gradient=False)
        profile, t = profiled(probed.bounds.low, system.t), system.t
        self.of_basis = V[:, t:]
        self.alpha = V[:, :t] - self.of_basis @ profile.beta
        self.mean_coefficients, self.mean_covariance = profile.beta, np.linalg.inv(profile.A)
        status = Status.STALLED if stalled else monitor.status
        method = f"iterative: preconditioner of rank {system.P.G.shape[1]}"
        result = monitor.result(self.alpha, self._residual(), status=status, method=method)
        steps, seconds = result.n_iter + probed.n_iter, time.perf_counter() - start
        self.result: Result = replace(result, n_iter=steps, seconds=seconds)

    @cached_property
    def system(self) -> System:
        """C with its preconditioner, which a model file leaves out."""
        return self.engine.system(self.prior)

    def solve(self, B: np.ndarray) -> np.ndarray:
        """C^-1 B, to the tolerance of the dual coefficients."""
        return self._refined(B, np.zeros_like(B))[0]

    def _refined(self, B: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, Monitor, bool]:
        """V to C^-1 B within the tolerance, in place."""
        engine, system = self.engine, self.system
        monitor = Monitor(tol=engine.posterior_tol, max_iter=engine.max_iter)
        _, stalled = conjugate_gradients(
            lambda A, columns: B[:, columns] - system.product(A),
            lambda A, columns: system.product(A),
            lambda A, columns: system.P.solve(A),
            B,
            V,
            monitor,
            None if system.quick is system.K else lambda A, columns: system.quick_product(A),
        )
        return V, monitor, stalled

    def _residual(self) -> float:
        """|C alpha + H beta - y| / |y|, the largest over targets."""
        Y = self.problem.Y
        left = Y - self.problem.H @ self.mean_coefficients - self.system.product(self.alpha)
        sizes = np.linalg.norm(Y, axis=0)
        return float(np.max(np.linalg.norm(left, axis=0) / np.where(sizes > 0, sizes, 1.0)))

    def mean(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        kernel = self.prior.kernel if part is None else part
        assert kernel is not None
        found = np.asarray(expansion(kernel, to_float64(X), to_float64(self.problem.X), self.alpha))
        if part is None and self.problem.basis is not None:
            found = found + self.problem.basis(X) @ self.mean_coefficients
        return found

    def variance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        return self.variance_bounds(X, part)[1]

    def variance_bounds(self, X: Any, part: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds on var f(X), each (m,), apart from the basis' coefficients.

        Parameters
        ----------
        X : m points
        part : Kernel, optional
        """
        found = np.empty((2, 0))
        for rows in row_blocks(n_rows(X), 1, POINTS):
            some = take_rows(X, rows)
            own = self.prior.own(some) if part is None else np.array(part.diag(some), dtype=float)
            low, slack, M = self._known(some, own, part)
            upper = own - low.diagonal()
            here = np.maximum([upper - slack.diagonal(), upper], 0.0) + (M**2).sum(1)
            found = np.hstack([found, here])
        return found[0], found[1]

    def covariance(self, X: Any, part: Kernel | None = None) -> np.ndarray:
        own = self.prior.gram(X) if part is None else np.array(part(X), dtype=float)
        low, _, M = self._known(X, own.diagonal(), part)
        found = own - low + M @ M.T
        np.fill_diagonal(found, np.maximum(found.diagonal(), 0.0))
        return found

    def _known(self, X: Any, own: np.ndarray, part: Kernel | None) -> tuple[np.ndarray, ...]:
        """Bounds on the variance of f(X) that the targets explain, and the share of the mean."""
        system, engine = self.system, self.engine
        if part is None:
            cross = self.prior.gram(self.problem.X, X)
        else:
            cross = np.asarray(part(self.problem.X, X), dtype=float)
        goal = engine.variance_tol * own
        V, *_ = solve_with_logs(system.quick_product, system.P.solve, cross, goal, engine.max_iter)
        bounds = bounded(system, cross, V)
        M = np.zeros((len(own), 0))
        if len(self.mean_coefficients):
            M = -cross.T @ self.of_basis
            if part is None and self.problem.basis is not None:
                M += self.problem.basis(X)
            M = M @ np.linalg.cholesky(self.mean_covariance)
        return *bounds, M
