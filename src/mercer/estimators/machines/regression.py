"""Kernel machines for regression."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import CallbackSupportMixin, Interval, StrOptions
from mercer.arrays import as_numpy, backend, to_cpu
from mercer.arrays.remote import over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.constraints import KERNEL, NON_NEGATIVE, POSITIVE
from mercer.estimators.decision_values import decision_values
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags
from mercer.estimators.intervals import PredictionIntervals
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import checked_weights, validate_supervised
from mercer.estimators.losses import Loss
from mercer.estimators.machines.engine import (
    REGRESSION,
    SOLUTION,
    fit_machines,
    has_levels,
    regression_losses,
)
from mercer.estimators.scores import Regressor


class KernelMachineRegressor(CallbackSupportMixin, PredictionIntervals, Regressor, BaseEstimator):
    r"""Regression by minimising any loss plus a penalty.

    .. math:: \min_{w, b} \; L(y, f) + \tfrac12 \alpha \lVert w \rVert^2, \qquad
              f_i = \langle w, \varphi(x_i) \rangle + b

    Parameters
    ----------
    loss : {"squared", "absolute", "epsilon_insensitive", "huber", "quantile", "poisson"} or Loss, \
default="squared"
        With r = y - f, summed over points: ½ r² ("squared", kernel ridge with an intercept), \|r\|
        ("absolute"), max(0, \|r\| - epsilon) ("epsilon_insensitive", support vector regression with
        C = 1 / alpha), ½ r² up to delta and linear beyond ("huber"), or the pinball loss at
        ``quantile`` ("quantile"). "poisson" is exp(f) - y f, for counts with mean exp(f). Or a
        custom loss, as in `KernelMachineClassifier`.
    alpha : float, default=1.0
        Regularisation parameter, positive; larger alpha means more regularisation.
    kernel, gamma, degree, coef0, kernel_params
        As in `KernelMachineClassifier`.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised.
    epsilon : float, default=0.1
        Half-width of the tube of "epsilon_insensitive".
    delta : float, default=1.35
        Residual from which "huber" is linear.
    quantile : float or array-like of shape (n_quantiles,), default=0.5
        Level of "quantile", between 0 and 1. Several levels are fitted together under the
        constraint that they do not cross at the training points. At other points, predictions are
        sorted, which never increases the pinball loss.
    tol, max_iter, max_time, solver, n_centers, centers, random_state, indefinite
        As in `KernelMachineClassifier`.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles,)
        The levels in increasing order, for "quantile"; the columns of predictions have this order.
    dual_coef_ : ndarray of shape (n_points,) or (n_points, n_quantiles)
    intercept_ : float or ndarray of shape (n_quantiles,)
    X_fit_, kernel_, n_iter_, result_
        As in `KernelMachineClassifier`.

    References
    ----------
    Takeuchi, Le, Sears and Smola (2006), "Nonparametric quantile estimation".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from mercer.estimators.machines.regression import KernelMachineRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> upper = KernelMachineRegressor("quantile", quantile=0.9, alpha=0.01).fit(X, y)
    >>> bool(0.85 < (y <= upper.predict(X)).mean() < 0.95)
    True
    >>> band = KernelMachineRegressor("quantile", quantile=[0.1, 0.5, 0.9]).fit(X, y).predict(X)
    >>> band.shape, bool((np.diff(band) >= 0).all())
    ((442, 3), True)
    """

    _arrays = ArraySupport(tensors="everywhere")
    _parameter_constraints: dict = {
        **KERNEL,
        **SOLUTION,
        "loss": [StrOptions({*REGRESSION, "quantile"}), Loss],
        "epsilon": [NON_NEGATIVE],
        "delta": [POSITIVE],
        "quantile": [Interval(Real, 0, 1, closed="neither"), "array-like"],
    }

    def __init__(
        self,
        loss: Any = "squared",
        *,
        alpha: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        kernel_params: dict | None = None,
        fit_intercept: bool = True,
        epsilon: float = 0.1,
        delta: float = 1.35,
        quantile: Any = 0.5,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        solver: str = "auto",
        n_centers: int | None = None,
        centers: Any = "pivoted",
        random_state: Any = 0,
        indefinite: str = "error",
    ):
        self.loss = loss
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.epsilon = epsilon
        self.delta = delta
        self.quantile = quantile
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.random_state = random_state
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelMachineRegressor:
        """Fit the regression.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights of the losses, for losses that are sums over points.

        Returns
        -------
        self : KernelMachineRegressor
        """
        X, y = validate_supervised(self, X, y, y_numeric=True)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        if self.loss == "quantile":
            self.quantiles_ = _levels(self.quantile)
        targets = np.asarray(y, dtype=np.float64)[:, None]
        fit_machines(self, X, targets, regression_losses(self), weight)
        return self

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predict on the scale of y: f, or exp(f) for "poisson".

        Shape (m,), or (m, n_quantiles) for a list of quantiles, in increasing order.
        """
        check_is_fitted(self)
        scores = decision_values(self, X)
        if scores.ndim == 2:
            return backend(scores).sort_rows(scores)
        return backend(scores).apply(regression_losses(self)[0].response, scores)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² or, for a list of quantiles, the mean D² pinball score.

        Parameters
        ----------
        X : test points
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
        """
        if not has_levels(self):
            return super().score(X, y, sample_weight)
        y, sample_weight = to_cpu(y), to_cpu(sample_weight)
        columns = zip(self.quantiles_, as_numpy(self.predict(X)).T, strict=True)
        from sklearn.metrics import d2_pinball_score  # slow to import

        scores = [
            d2_pinball_score(y, f, alpha=float(level), sample_weight=sample_weight)
            for level, f in columns
        ]
        return float(np.mean(scores))

    def __sklearn_tags__(self) -> Any:
        tags = input_tags(self, super().__sklearn_tags__())
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags


def _levels(quantile: Any) -> np.ndarray:
    """The levels in increasing order, checked."""
    levels = np.sort(np.atleast_1d(np.asarray(quantile, dtype=np.float64)))
    inside = levels.ndim == 1 and len(levels) > 0 and bool(np.all((levels > 0) & (levels < 1)))
    if not inside or np.any(np.diff(levels) == 0):
        raise ValueError(
            f"quantile={quantile!r}; expected a number between 0 and 1, or a list of different ones"
        )
    return levels
