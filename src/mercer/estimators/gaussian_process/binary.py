"""One binary Gaussian process of a classifier, with scikit-learn's attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from mercer.estimators.gaussian_process.covariances import checked_priors, kernel_at
from mercer.estimators.gaussian_process.engine import joint_result, learned
from mercer.solvers.evidence.laplace import LabelProblem, LaplaceEngine, mean_logistic
from mercer.solvers.evidence.problem import Covariance


class BinaryModel:
    """The model of two classes.

    Attributes
    ----------
    kernel_ : kernel object
    posterior : LaplacePosterior
    X_train_, y_train_ : points, and labels 0 and 1
    pi_, W_sr_, L_, f_cached : as scikit-learn's
    log_marginal_likelihood_value_ : float
    result_ : Result
    """

    def __init__(self, estimator: Any, template: Any, covariance: Covariance, X: Any, code: Any):
        self.template, self.max_iter = template, estimator.max_iter_predict
        problem = LabelProblem(covariance, X, np.where(code == 1, 1.0, -1.0))
        engine = LaplaceEngine(problem, self.max_iter, _coefficients(estimator, code))
        priors = checked_priors(estimator.priors, covariance.names)
        search = learned(estimator, engine.evidence, covariance, priors=priors)
        try:
            self.posterior = engine.posterior(search.value)
        except LinAlgError as error:
            raise LinAlgError(
                f"The kernel, {kernel_at(template, covariance)}, has values too large for the "
                "search for the mode; set narrower bounds, or standardise the features"
            ) from error
        self.result_ = joint_result(self.posterior.result, search)
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
        problem = self.posterior.problem
        engine = LaplaceEngine(problem, self.max_iter, self.posterior.alpha)
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


def _coefficients(estimator: Any, code: np.ndarray) -> np.ndarray | None:
    """Those of the last fit, for a warm start with as many points of two classes."""
    models = getattr(estimator, "estimators_", [])
    if not estimator.warm_start or len(models) != 1:
        return None
    last = models[0].posterior.alpha
    return last if last.shape == code.shape else None
