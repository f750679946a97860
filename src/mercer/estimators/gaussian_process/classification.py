"""Gaussian process classification by Laplace's approximation, or with inducing points."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import StrOptions, one_vs_rest_scores
from mercer.arrays import take_rows
from mercer.arrays.remote import over_blocks
from mercer.estimators.constraints import POSITIVE, at_least
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.gaussian_process.binary import BinaryModel
from mercer.estimators.gaussian_process.covariances import (
    kernel_object,
    make_covariance,
    refuse_compound,
)
from mercer.estimators.gaussian_process.engine import OPTIMIZER, described
from mercer.estimators.gaussian_process.sklearn_kernels import is_sklearn_kernel
from mercer.estimators.gaussian_process.training import copied
from mercer.estimators.inputs import input_tags, validate_query
from mercer.estimators.labels import class_labels, validate_supervised
from mercer.estimators.scores import Classifier
from mercer.solvers.result import Result


class GaussianProcessClassifier(Classifier, BaseEstimator):
    r"""Gaussian process classification, with hyperparameters of maximum evidence.

    .. math::
        p(s | f) = \prod_i \sigma(s_i f(x_i)), \qquad f \sim \mathrm{GP}(0, k)

    The posterior of f is approximated by the normal distribution at its mode (Laplace), or for many
    points by the normal distribution of f at a few inducing points with the highest lower bound of
    the evidence. Probabilities are means of :math:`\sigma(f)` under it, integrated to rounding. The
    class has the parameters, methods and attributes of scikit-learn's class of this name, and takes
    its kernel objects too.

    Parameters
    ----------
    kernel : Kernel, str, callable, scikit-learn kernel or None, default=None
        As in `GaussianProcessRegressor`. None is scikit-learn's default, a Gaussian kernel with
        fixed hyperparameters.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        How the evidence is maximised; None keeps the hyperparameters.
    n_restarts_optimizer : int, default=0
        Further runs from random hyperparameters, log-uniform within the bounds.
    max_iter_predict : int, default=100
        Maximum number of Newton steps for the mode, or of steps for the normal factors that stand
        for the labels of "inducing".
    warm_start : bool, default=False
        Whether the first search for the mode starts from that of the last fit.
    copy_X_train : bool, default=True
        Whether to copy the training points.
    random_state : int, RandomState instance or None, default=None
        Random seed of the restarts.
    multi_class : {"one_vs_rest", "one_vs_one"}, default="one_vs_rest"
        Models of more than two classes: one per class, or one per pair of classes, which gives no
        probabilities.
    n_jobs : int or None, default=None
        Number of these models that are fitted in parallel.
    bounds, priors : dict or None, default=None
        As in `GaussianProcessRegressor`.
    engine : {"auto", "exact", "inducing"}, default="auto"
        - "exact" is Laplace's approximation from the covariance of all points.
        - "inducing" maximises a lower bound of the evidence over the distribution of f at a few
          points, their positions and the hyperparameters. Its time grows in proportion to the
          number of training points.
        - "auto" is "exact" up to 3,000 points, and "inducing" beyond or if ``n_inducing`` is given.
          ``result_.method`` reports the choice.
    n_inducing : int or None, default=None
        Number of points of "inducing"; None is 256.
    max_time : float or None, default=None
        Time limit of each search in seconds, checked after each step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_classes_ : int
    estimators_ : list of the models of two classes
    base_estimator_ : the only model, or for more classes this object
    kernel_ : kernel object
        The kernel with the hyperparameters found. For more classes a list of them, or
        scikit-learn's ``CompoundKernel`` if ``kernel`` is one of its objects.
    hyperparameters_ : dict, or list of them
        Name and value of each hyperparameter found.
    X_train_, y_train_ : training points and class numbers
    log_marginal_likelihood_value_ : float
        The evidence, for "inducing" its lower bound; for more classes the mean over the models.
    result_ : Result
        ``gap`` is the largest error of a dual coefficient at the mode, or for "inducing" what the
        last step added to the bound, the worst over models.

    References
    ----------
    Rasmussen and Williams (2006), "Gaussian processes for machine learning", chapter 3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import kernels as K
    >>> from mercer.estimators.gaussian_process.classification import GaussianProcessClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianProcessClassifier(1.0 * K.RBF()).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    >>> model.predict_proba(X[:1]).round(1)
    array([[0.8, 0. , 0.1]])
    """

    _parameter_constraints: dict = {
        **OPTIMIZER,
        "max_iter_predict": [at_least(1)],
        "warm_start": ["boolean"],
        "multi_class": [StrOptions({"one_vs_rest", "one_vs_one"})],
        "n_jobs": [int, None],
        "bounds": [dict, None],
        "priors": [dict, None],
        "engine": [StrOptions({"auto", "exact", "inducing"})],
        "n_inducing": [at_least(1), None],
        "max_time": [POSITIVE, None],
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_iter_predict: int = 100,
        warm_start: bool = False,
        copy_X_train: bool = True,
        random_state: Any = None,
        multi_class: str = "one_vs_rest",
        n_jobs: int | None = None,
        bounds: dict[str, Any] | None = None,
        priors: dict[str, Any] | None = None,
        engine: str = "auto",
        n_inducing: int | None = None,
        max_time: float | None = None,
    ):
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.random_state = random_state
        self.multi_class = multi_class
        self.n_jobs = n_jobs
        self.bounds = bounds
        self.priors = priors
        self.engine = engine
        self.n_inducing = n_inducing
        self.max_time = max_time

    @atomic_fit
    def fit(self, X: Any, y: Any) -> GaussianProcessClassifier:
        """Learn the hyperparameters, and find the mode of f.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : GaussianProcessClassifier
        """
        refuse_compound(self.kernel)
        X, y = validate_supervised(self, X, y)
        classes, codes = class_labels(self, y)
        X = copied(X) if self.copy_X_train else X
        template = kernel_object(self.kernel, X, fixed_default=True)
        if len(classes) == 2:
            models = [self._model(template, X, codes)]
        elif self.multi_class == "one_vs_rest":
            models = self._several(
                template, ((X, (codes == c).astype(int)) for c in range(len(classes)))
            )
        else:
            pairs = (np.flatnonzero((codes == a) | (codes == b)) for a, b in _pairs(len(classes)))
            labels = zip(pairs, _pairs(len(classes)), strict=True)
            models = self._several(
                template, ((take_rows(X, rows), codes[rows] == b) for rows, (_, b) in labels)
            )
        self.classes_, self.n_classes_ = classes, len(classes)
        self.estimators_, self.X_train_, self.y_train_ = models, X, codes
        self.log_marginal_likelihood_value_ = float(
            np.mean([model.log_marginal_likelihood_value_ for model in models])
        )
        self.result_ = _worst([model.result_ for model in models])
        return self

    def _model(self, template: Any, X: Any, code: np.ndarray) -> BinaryModel:
        covariance = make_covariance(template, X, bounds=self.bounds)
        return BinaryModel(self, template, covariance, X, np.asarray(code, dtype=int))

    def _several(self, template: Any, problems: Any) -> list[BinaryModel]:
        work = (delayed(self._model)(template, X, code) for X, code in problems)
        return list(Parallel(n_jobs=self.n_jobs, prefer="threads")(work))

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of new points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects

        Returns
        -------
        ndarray of shape (m,)
        """
        X = self._query(X)
        if self.n_classes_ == 2:
            positive = self.estimators_[0].posterior.mean(X) > 0
            return self.classes_[positive.astype(int)]
        scores = np.stack([model.probability(X) for model in self.estimators_], axis=1)
        if self.multi_class == "one_vs_one":
            scores = one_vs_rest_scores(scores >= 0.5, scores, self.n_classes_)
        return self.classes_[np.argmax(scores, axis=1)]

    @over_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class at new points.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects

        Returns
        -------
        ndarray of shape (m, n_classes)
        """
        X = self._query(X)
        if self.n_classes_ > 2 and self.multi_class == "one_vs_one":
            raise ValueError(
                "one_vs_one multi-class mode does not support predicting probability estimates. "
                "Use one_vs_rest mode instead."
            )
        found = np.stack([model.probability(X) for model in self.estimators_], axis=1)
        if self.n_classes_ == 2:
            return np.hstack([1 - found, found])
        return found / found.sum(axis=1, keepdims=True)

    @over_blocks
    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at new points, for two classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects

        Returns
        -------
        mean, variance : ndarrays of shape (m,)
        """
        X = self._query(X)
        if self.n_classes_ > 2:
            raise ValueError(
                "Returning the mean and variance of the latent function f is only supported for "
                f"binary classification, received {self.n_classes_} classes."
            )
        return self.estimators_[0].latent_mean_and_variance(X)

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """The evidence at theta, without priors; for more than two classes the mean over models.

        Parameters
        ----------
        theta : array-like of shape (p,) or (n_models * p,), optional
            Logarithms of the hyperparameters, for all models or for each; by default those found.
        eval_gradient : bool, default=False
            Whether to return the gradient too; theta must then be given. For two classes.
        clone_kernel : bool, default=True
            If False, ``kernel_`` is changed to theta.

        Returns
        -------
        float, or float and ndarray of shape (p,)
        """
        check_is_fitted(self, "estimators_")
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        theta, models = np.asarray(theta, dtype=float), self.estimators_
        if len(models) == 1:
            return models[0].log_marginal_likelihood(theta, eval_gradient, clone_kernel)
        if eval_gradient:
            raise NotImplementedError(
                "Gradient of log-marginal-likelihood not implemented for multi-class GPC."
            )
        p = len(models[0].posterior.prior.theta)
        if len(theta) not in (p, p * len(models)):
            raise ValueError(
                f"Shape of theta must be either {p} or {p * len(models)}. Obtained theta with "
                f"shape {len(theta)}."
            )
        each = np.tile(theta, len(models)) if len(theta) == p else theta
        parts = zip(models, np.reshape(each, (len(models), p)), strict=True)
        values = [model.log_marginal_likelihood(at, False, clone_kernel) for model, at in parts]
        return np.mean(values)

    @property
    def kernel_(self) -> Any:
        kernels = [model.kernel_ for model in self.estimators_]
        if len(kernels) == 1:
            return kernels[0]
        if not is_sklearn_kernel(kernels[0]):
            return kernels
        from sklearn.gaussian_process.kernels import CompoundKernel

        return CompoundKernel(kernels)

    @property
    def hyperparameters_(self) -> Any:
        found = [described(model.posterior.prior) for model in self.estimators_]
        return found[0] if len(found) == 1 else found

    @property
    def base_estimator_(self) -> Any:
        return self.estimators_[0] if len(self.estimators_) == 1 else self

    def _query(self, X: Any) -> Any:
        check_is_fitted(self, "estimators_")
        return validate_query(self, X)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


def _pairs(n_classes: int) -> list[tuple[int, int]]:
    return list(combinations(range(n_classes), 2))


def _worst(results: list[Result]) -> Result:
    """One result of several models: of one that is not ok, if there is one."""
    chosen = max(results, key=lambda result: (not result.status.ok, result.gap))
    if len(results) == 1:
        return chosen
    return replace(
        chosen,
        value=None,
        gap=max(result.gap for result in results),
        n_iter=sum(result.n_iter for result in results),
        seconds=sum(result.seconds for result in results),
        method=f"{len(results)} models, of which the worst: {chosen.method}",
    )
