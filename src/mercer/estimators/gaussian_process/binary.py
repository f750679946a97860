"""Gaussian process models of two classes; models of more classes consist of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from sklearn.utils import check_random_state

from mercer.arrays import n_rows
from mercer.arrays.threads import ONE_THREAD_CHOLESKY, blas_threads
from mercer.estimators.gaussian_process.covariances import checked_priors, kernel_at
from mercer.estimators.gaussian_process.engine import (
    joint_result,
    learned,
    starting_points,
    warn_of_bounds,
)
from mercer.solvers.evidence import inducing_search
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.label_bound import LabelBounds
from mercer.solvers.evidence.laplace import LaplaceEngine
from mercer.solvers.evidence.logistic import mean_logistic
from mercer.solvers.evidence.problem import Covariance, LabelProblem
from mercer.solvers.result import Result

# Points up to which "auto" factorises a matrix of all pairs, a few times for each evidence.
EXACT_AT_MOST = 3000
N_INDUCING = 256


class BinaryModel:
    """The model of two classes.

    Attributes
    ----------
    kernel_ : kernel object
    posterior : LaplacePosterior or LabelPosterior
    X_train_, y_train_ : points, and labels 0 and 1
    pi_, W_sr_, L_, f_cached : as scikit-learn's; L_ only of Laplace's approximation
    log_marginal_likelihood_value_ : float
    result_ : Result
    """

    def __init__(self, estimator: Any, template: Any, covariance: Covariance, X: Any, code: Any):
        self.template, self.max_iter = template, estimator.max_iter_predict
        problem = LabelProblem(covariance, X, np.where(code == 1, 1.0, -1.0))
        name, reason = _engine_name(estimator, n_rows(X))
        try:
            if name == "exact":
                engine: Any = LaplaceEngine(problem, self.max_iter, _coefficients(estimator, code))
                priors = checked_priors(estimator.priors, covariance.names)
                with blas_threads(n_rows(X), ONE_THREAD_CHOLESKY):
                    search = learned(estimator, engine.evidence, covariance, priors=priors)
            else:
                engine, search = _inducing(estimator, problem, self.max_iter)
            self.posterior = engine.posterior(search.value)
        except LinAlgError as error:
            raise LinAlgError(
                f"The kernel, {kernel_at(template, covariance)}, has values too large for the "
                "search for the mode; set narrower bounds, or standardise the features"
            ) from error
        self.result_ = joint_result(self.posterior.result, search, reason)
        self.kernel_ = kernel_at(template, self.posterior.prior)
        self.X_train_, self.y_train_ = X, (code == 1).astype(int)
        self.log_marginal_likelihood_value_ = self.posterior.evidence.value

    @property
    def pi_(self) -> np.ndarray:
        return self.posterior.pi

    @property
    def W_sr_(self) -> np.ndarray:
        return self.posterior.root

    @property
    def L_(self) -> np.ndarray:
        return self.posterior.L

    def log_marginal_likelihood(
        self, theta: Any, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """The evidence at theta."""
        problem, Z = self.posterior.problem, getattr(self.posterior, "Z", None)
        if Z is None:
            engine: Any = LaplaceEngine(problem, self.max_iter, self.posterior.alpha)
        else:
            engine = InducingEngine(problem, Z=Z, sums=LabelBounds(self.max_iter))
        found = engine.evidence(theta, gradient=eval_gradient)
        if not clone_kernel:
            self.kernel_ = kernel_at(self.template, problem.covariance.at(theta))
        value = np.float64(found.value)
        return (value, found.gradient) if eval_gradient else value

    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.posterior.mean(X), self.posterior.variance(X)

    def probability(self, X: Any) -> np.ndarray:
        """Of the positive class: (m,)."""
        return mean_logistic(*self.latent_mean_and_variance(X))


def _engine_name(estimator: Any, n: int) -> tuple[str, str]:
    """The engine, and why it was chosen."""
    if estimator.engine != "auto":
        return estimator.engine, ""
    if estimator.n_inducing is not None:
        return "inducing", "n_inducing is given"
    return ("exact" if n <= EXACT_AT_MOST else "inducing"), f"{n} points"


def _inducing(
    estimator: Any, problem: LabelProblem, max_iter: int
) -> tuple[InducingEngine, Result]:
    """The engine with inducing points, and the search."""
    covariance, n = problem.covariance, n_rows(problem.X)
    if covariance.kernel is None or covariance.errors(problem.X).any():
        raise ValueError(
            "engine='inducing' needs a kernel of this library or one with a counterpart here, and "
            "no white noise; use engine='exact'"
        )
    m = min(estimator.n_inducing or N_INDUCING, n)
    seed = int(check_random_state(estimator.random_state or 0).randint(2**31 - 1))
    priors = checked_priors(estimator.priors, covariance.names)
    sums, theta = LabelBounds(max_iter), covariance.theta
    if isinstance(estimator.optimizer, str) and len(theta):
        starts = starting_points(estimator, covariance, estimator.n_restarts_optimizer)
        engine, search = inducing_search.search(
            problem,
            m,
            sums=sums,
            exact=LaplaceEngine,
            starts=starts,
            priors=priors,
            max_time=estimator.max_time,
            random_state=seed,
        )
        warn_of_bounds(search.value, covariance.bounds, covariance.names, ())
        return engine, search
    engine = InducingEngine(problem, m, sums=sums, random_state=seed)
    return engine, learned(estimator, engine.evidence, covariance, priors=priors)


def _coefficients(estimator: Any, code: np.ndarray) -> np.ndarray | None:
    """Those of the last fit, for a warm start with as many points of two classes."""
    models = getattr(estimator, "estimators_", [])
    if not estimator.warm_start or len(models) != 1:
        return None
    last = models[0].posterior.alpha
    return last if last.shape == code.shape else None
