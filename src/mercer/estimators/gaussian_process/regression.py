"""Gaussian process regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import StrOptions
from mercer.arrays.remote import is_collection, over_blocks
from mercer.estimators.constraints import NON_NEGATIVE, POSITIVE, at_least
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.gaussian_process import prediction
from mercer.estimators.gaussian_process.answers import (
    FunctionSample,
    LeaveOneOut,
    Part,
    leave_one_out_of,
    parts_of,
)
from mercer.estimators.gaussian_process.attributes import set_attributes
from mercer.estimators.gaussian_process.covariances import kernel_at, refuse_compound
from mercer.estimators.gaussian_process.engine import ENGINES, OPTIMIZER, joint_result
from mercer.estimators.gaussian_process.mean import MEANS
from mercer.estimators.gaussian_process.posteriors import evidence_at, extended, learned_posterior
from mercer.estimators.gaussian_process.sampling import gaussian_samples
from mercer.estimators.gaussian_process.training import check_count, copied, normalised
from mercer.estimators.inputs import input_tags, takes_vectors, validate_query
from mercer.estimators.labels import validate_supervised
from mercer.estimators.scores import Regressor
from mercer.solvers.evidence.samples import function_samples


class GaussianProcessRegressor(MultiOutputMixin, Regressor, BaseEstimator):
    r"""Gaussian process regression, with hyperparameters of maximum evidence.

    .. math::
        y = h(x)^T \beta + f(x) + \varepsilon, \qquad f \sim \mathrm{GP}(0, k), \qquad
        \log p(y) = -\tfrac12 y^T C^{-1} y - \tfrac12 \log |C| - \tfrac n2 \log 2\pi

    with :math:`C = K + \mathrm{diag}(\text{noise})`. The mean of f given y is that of
    `KernelRidge` with alpha equal to the noise. The class has the parameters, methods and
    attributes of scikit-learn's class of this name, and takes its kernel objects too.

    Parameters
    ----------
    kernel : Kernel, str, callable, scikit-learn kernel or None, default=None
        A kernel of this library, in which every positive number is a hyperparameter (write
        ``1.0 * RBF()`` for an amplitude that is learnt); a name or a function of two rows, which
        gets an amplitude; or a kernel object of scikit-learn's, whose bounds and fixed parameters
        are respected. None is scikit-learn's default, ``ConstantKernel() * RBF()``.
    alpha : float or array-like of shape (n_samples,), default=1e-10
        Known variance of the noise of the training targets, which the predicted variance does not
        include.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        How the evidence is maximised; None keeps the hyperparameters. A callable is as
        scikit-learn's: ``optimizer(obj_func, initial_theta, bounds)`` returns theta and minimum.
    n_restarts_optimizer : int, default=0
        Further runs from random hyperparameters, log-uniform within the bounds.
    normalize_y : bool, default=False
        Whether to subtract the mean of y and divide by its standard deviation. The kernel, alpha
        and noise then are of the normalised targets.
    copy_X_train : bool, default=True
        Whether to copy the training points.
    n_targets : int or None, default=None
        Number of targets of samples from the prior, before `fit`.
    random_state : int, RandomState instance or None, default=None
        Random seed of the restarts.
    noise : "auto", "learn" or float, default="auto"
        Variance of the noise of all targets. It is part of the predicted variance, as that of a
        ``WhiteKernel``. "learn" makes it a hyperparameter; "auto" does so for kernels of this
        library, names and functions, and is 0 for scikit-learn's kernels.
    mean : {"zero", "constant", "linear"}, default="zero"
        The mean function; its coefficients have a flat prior, and their uncertainty is part of the
        predicted variance.
    bounds : dict or None, default=None
        From names of hyperparameters, such as ``"right__gamma"`` or ``"noise"``, to ``(low, high)``
        or "fixed". Others have ``(1e-5, 1e5)``, the noise (1e-6, 10) times the variance of y.
    priors : dict or None, default=None
        From names of hyperparameters to ``(median, spread)`` of log-normal priors, whose log
        density is added to the evidence in the search.
    engine : {"auto", "exact", "iterative", "inducing"}, default="auto"
        - "exact" factorises C.
        - "iterative" estimates the evidence by conjugate gradients and random probes, without
          storing C.
        - "inducing" maximises a lower bound of the evidence, from the values of f at a few points.
        - "auto" is "exact" up to 6,000 points, "iterative" up to 30,000, and "inducing" beyond or
          if ``n_inducing`` is given. ``result_.method`` reports the choice.
    n_inducing : int or None, default=None
        Number of points of "inducing"; None is 512.
    max_time : float or None, default=None
        Time limit of the search in seconds, checked after each step.

    Attributes
    ----------
    kernel_ : kernel object
        The kernel with the hyperparameters found; of scikit-learn's classes if ``kernel`` is.
    noise_ : float
        Variance of the noise, on the scale of ``y_train_``.
    hyperparameters_ : dict
        Name and value of each hyperparameter found.
    X_train_, y_train_ : training points and (normalised) targets
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Dual coefficients, of the training points or of the inducing points.
    L_ : ndarray of shape (n_samples, n_samples)
        Lower Cholesky factor of C; only with the exact engine.
    log_marginal_likelihood_value_ : float
        The evidence, summed over targets; for "inducing" its lower bound.
    evidence_ : Evidence
        The same with its standard error and bounds.
    posterior_ : Posterior
        Mean and covariance of f, also of the parts of a sum.
    mean_coef_, mean_coef_std_ : ndarrays of shape (q,) or (q, n_targets)
        Coefficients of the mean with their standard deviations: the level at the centre of the
        training points, then the slopes. Empty for a mean of zero.
    result_ : Result
        ``gap`` is the relative residual of the dual coefficients, or for "inducing" the distance
        of the bounds of the evidence; ``method`` reports the engine and why the search stopped.

    References
    ----------
    Rasmussen and Williams (2006), "Gaussian processes for machine learning", chapters 2 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels as K
    >>> from mercer.estimators.gaussian_process.regression import GaussianProcessRegressor
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> model = GaussianProcessRegressor(1.0 * K.RBF()).fit(x, y)
    >>> mean, std = model.predict([[1.0], [20.0]], return_std=True)
    >>> abs(mean).round(1), std.round(1)
    (array([0.9, 0. ]), array([0.1, 0.8]))
    """

    _parameter_constraints: dict = {
        **OPTIMIZER,
        "alpha": [NON_NEGATIVE, "array-like"],
        "normalize_y": ["boolean"],
        "n_targets": [at_least(1), None],
        "noise": [StrOptions({"auto", "learn"}), NON_NEGATIVE],
        "mean": [StrOptions(MEANS)],
        "bounds": [dict, None],
        "priors": [dict, None],
        "engine": [StrOptions(ENGINES)],
        "n_inducing": [at_least(1), None],
        "max_time": [POSITIVE, None],
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        alpha: Any = 1e-10,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        normalize_y: bool = False,
        copy_X_train: bool = True,
        n_targets: int | None = None,
        random_state: Any = None,
        noise: Any = "auto",
        mean: str = "zero",
        bounds: Mapping[str, Any] | None = None,
        priors: Mapping[str, Any] | None = None,
        engine: str = "auto",
        n_inducing: int | None = None,
        max_time: float | None = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.normalize_y = normalize_y
        self.copy_X_train = copy_X_train
        self.n_targets = n_targets
        self.random_state = random_state
        self.noise = noise
        self.mean = mean
        self.bounds = bounds
        self.priors = priors
        self.engine = engine
        self.n_inducing = n_inducing
        self.max_time = max_time

    @atomic_fit
    def fit(self, X: Any, y: Any) -> GaussianProcessRegressor:
        """Learn the hyperparameters, and condition on the targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
        y : array-like of shape (n_samples,) or (n_samples, n_targets)

        Returns
        -------
        self : GaussianProcessRegressor
        """
        refuse_compound(self.kernel)
        X, y = validate_supervised(self, X, y, multi_output=True, y_numeric=True)
        check_count(y, self.n_targets)
        X = copied(X) if self.copy_X_train else X
        y = np.asarray(y, dtype=np.float64)
        Y, self._y_train_mean, self._y_train_std = normalised(y, self.normalize_y)
        self._flat = y.ndim == 1
        posterior, search, reason = learned_posterior(self, X, Y)
        set_attributes(self, posterior)
        self.result_ = joint_result(posterior.result, search, reason)
        return self

    @atomic_fit
    def partial_fit(self, X: Any, y: Any, alpha: Any = None) -> GaussianProcessRegressor:
        """Add training points at the hyperparameters found so far; the first call is `fit`.

        The Cholesky factor is extended, which takes as many operations as the new rows have
        numbers times n. The normalisation of y stays that of `fit`.

        Parameters
        ----------
        X : more points
        y : their targets
        alpha : float or array-like, optional
            Their known noise; the default is the parameter alpha, which then must be one number.

        Returns
        -------
        self : GaussianProcessRegressor
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        alpha = self.alpha if alpha is None else alpha
        known = {"reset": False} if takes_vectors(self.kernel) else {}
        X, y = validate_supervised(self, X, y, multi_output=True, y_numeric=True, **known)
        posterior = extended(self, self._exact("partial_fit"), X, y, alpha)
        set_attributes(self, posterior)
        self.result_ = replace(posterior.result, method="exact: the Cholesky factor was extended")
        return self

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = True,
    ) -> Any:
        """The mean at new points, and how uncertain it is; before `fit` that of the prior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects
        return_std : bool, default=False
            Whether to return the standard deviation of each prediction.
        return_cov : bool, default=False
            Whether to return the covariance of all predictions.
        include_noise : bool, default=True
            Whether these are of new targets, with noise that is a hyperparameter or given as
            ``noise``, or of the function.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_targets)
        std : ndarray of shape (m,) or (m, n_targets), only with ``return_std``
        cov : ndarray of shape (m, m) or (m, m, n_targets), only with ``return_cov``
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if return_cov and is_collection(X):
            raise ValueError(
                "return_cov is of all pairs of points, and X is a Dask collection; pass an array, "
                "or return_std"
            )
        return self._predicted(X, return_std, return_cov, include_noise)

    @over_blocks
    def _predicted(self, X: Any, return_std: bool, return_cov: bool, include_noise: bool) -> Any:
        X = validate_query(self, X)
        of = prediction.of_posterior if hasattr(self, "posterior_") else prediction.of_prior
        return of(self, X, return_std, return_cov, include_noise)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Samples of the targets at new points; before `fit` from the prior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        ndarray of shape (m, n_samples) or (m, n_targets, n_samples)
        """
        mean, cov = self.predict(X, return_cov=True)
        return gaussian_samples(mean, cov, n_samples, check_random_state(random_state))

    def sample_functions(self, n_samples: int = 1, random_state: int = 0) -> list[FunctionSample]:
        """Functions from the posterior of f, each to be evaluated at any points.

        A function from the prior, of random Fourier features or the features of the kernel, is
        conditioned on the targets (Matheron's rule). Its cost at m points grows as m.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, default=0

        Returns
        -------
        list of callables from points (m, n_features) to values (m,) or (m, n_targets)
        """
        check_is_fitted(self, "posterior_")
        drawn = function_samples(self.posterior_, n_samples, random_state=random_state)
        return [FunctionSample(self, sample) for sample in drawn]

    def predict_parts(self, X: Any) -> list[Part]:
        """The prediction as a sum of parts, one for each term of the kernel.

        With a kernel k1 + k2 the function is the sum of independent functions with covariances k1
        and k2. Given the targets each has a posterior of its own. The means add up to the
        prediction, less the mean function; the variances do not, since the parts are dependent.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects

        Returns
        -------
        list of Part, in the order of the kernel
        """
        check_is_fitted(self, "posterior_")
        return parts_of(self, validate_query(self, X))

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """The evidence at theta, without priors.

        Parameters
        ----------
        theta : array-like of shape (p,), optional
            Logarithms of the hyperparameters, in the order of ``hyperparameters_``; by default
            those found.
        eval_gradient : bool, default=False
            Whether to return the gradient too; theta must then be given.
        clone_kernel : bool, default=True
            If False, ``kernel_`` is changed to theta.

        Returns
        -------
        float, or float and ndarray of shape (p,)
        """
        check_is_fitted(self, "posterior_")
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        found, covariance = evidence_at(self, np.asarray(theta, dtype=float), eval_gradient)
        if not clone_kernel:
            self.kernel_ = kernel_at(self._template, covariance)
        value = np.float64(found.value)  # which scikit-learn returns
        return (value, found.gradient) if eval_gradient else value

    def leave_one_out(self) -> LeaveOneOut:
        """What the hyperparameters found predict for each training target from all others.

        In closed form, from the inverse of C.

        Returns
        -------
        LeaveOneOut
            Mean, standard deviation and log density of each target, with its noise.
        """
        check_is_fitted(self, "posterior_")
        return leave_one_out_of(self, self._exact("leave_one_out"))

    def _exact(self, method: str) -> Any:
        if not hasattr(self.posterior_, "L"):
            raise ValueError(f"{method} needs engine='exact'; this model was fitted otherwise")
        return self.posterior_

    def __sklearn_tags__(self) -> Any:
        tags = input_tags(self, super().__sklearn_tags__())
        tags.requires_fit = False
        return tags
