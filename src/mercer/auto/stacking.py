"""Regressors averaged by what they predict of rows left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.estimators import KernelRidgeCV
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.labels import checked_weights
from mercer.estimators.scores import Regressor


class LeaveOneOutStacking(Regressor, BaseEstimator):
    r"""A weighted sum of regressors, with weights from their leave-one-out predictions.

    .. math:: f = \bar y + \sum_m w_m (f_m - \bar y), \qquad
              w = \arg\min_{w \ge 0} \sum_i s_i \Bigl(y_i - \bar y
                  - \sum_m w_m (f_m^{-i}(x_i) - \bar y)\Bigr)^2

    The predictions :math:`f_m^{-i}` of each row by a model without it are exact and come with the
    fit, so that nothing is fitted twice.

    Parameters
    ----------
    estimators : list of estimators or None, default=None
        Regressors that have ``loo_predictions_`` when fitted, such as `KernelRidgeCV`,
        `NadarayaWatsonRegressor`, `LocalLinearRegressor` and `RecursiveFeatureMachine`. None is
        `KernelRidgeCV` with a Gaussian and with a Laplacian kernel.

    Attributes
    ----------
    estimators_ : list of fitted estimators
        Those of positive weight.
    weights_ : ndarray of shape (n_estimators,)
        Of all estimators.
    loo_errors_ : ndarray of shape (n_estimators,)
        The mean squared leave-one-out error of each.
    loo_predictions_ : ndarray of shape (n,)
        Of the weighted sum.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(80, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    >>> alphas = np.logspace(-4, 1, 12)
    >>> both = [KernelRidgeCV(alphas, kernel=name) for name in ("rbf", "linear")]
    >>> LeaveOneOutStacking(both).fit(X, y).weights_.round(1).tolist()
    [1.0, 0.0]
    """

    _parameter_constraints: dict = {"estimators": [list, tuple, None]}

    def __init__(self, estimators: Any = None):
        self.estimators = estimators

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LeaveOneOutStacking:
        """Fit all estimators, and their weights.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
        sample_weight : float or array of shape (n,), optional
        """
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=3)
        y, weight = np.asarray(y, dtype=np.float64), checked_weights(sample_weight, X)
        if weight is not None:
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        given = _defaults() if self.estimators is None else list(self.estimators)
        if not given:
            raise ValueError("estimators is empty; pass at least one regressor")
        fitted = [_fitted(one, X, y, weight) for one in given]
        weight = np.ones(len(y)) if weight is None else weight
        self.mean_ = float(np.average(y, weights=weight))
        left_out = np.stack([np.asarray(m.loo_predictions_, dtype=float) for m in fitted], axis=1)
        self.loo_errors_ = np.average((left_out - y[:, None]) ** 2, axis=0, weights=weight)
        roots = np.sqrt(weight)
        self.weights_, _ = nnls(roots[:, None] * (left_out - self.mean_), roots * (y - self.mean_))
        self.estimators_ = [m for m, w in zip(fitted, self.weights_, strict=True) if w > 0]
        self.loo_predictions_ = self.mean_ + (left_out - self.mean_) @ self.weights_
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The weighted sum of predictions."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        found = np.full(len(X), self.mean_)
        for weight, model in zip(self.weights_[self.weights_ > 0], self.estimators_, strict=True):
            found += weight * (np.asarray(model.predict(X)) - self.mean_)
        return found


def _defaults() -> list:
    alphas = np.logspace(-6, 2, 17)
    return [KernelRidgeCV(alphas, kernel=name) for name in ("rbf", "laplacian")]


def _fitted(estimator: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Any:
    model = clone(estimator)
    model = model.fit(X, y) if weight is None else model.fit(X, y, sample_weight=weight)
    if not hasattr(model, "loo_predictions_"):
        raise TypeError(
            f"{type(model).__name__} has no leave-one-out predictions when fitted; use "
            "KernelRidgeCV, NadarayaWatsonRegressor, LocalLinearRegressor or "
            "RecursiveFeatureMachine"
        )
    return model
