"""Kernel machines: any loss of the predictions, plus a penalty on the norm of the weights."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.constraints import (
    CLASS_WEIGHT,
    KERNEL,
    NON_NEGATIVE,
    POSITIVE,
    at_least,
)
from mercer.estimators.fitting import fitting
from mercer.estimators.inputs import input_tags
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import (
    checked_weights,
    class_labels,
    class_weights,
    labelled,
    most_likely,
    require_weight,
    signed_targets,
)
from mercer.estimators.losses import Logistic, Loss
from mercer.estimators.machine_solution import (
    CLASSIFICATION,
    REGRESSION,
    fit_machines,
    loss_of,
    scores_of,
)

STOPPING: dict = {
    "alpha": [POSITIVE],
    "fit_intercept": ["boolean"],
    "tol": [POSITIVE],
    "max_iter": [at_least(1), None],
    "max_time": [POSITIVE, None],
}


class KernelMachineClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    r"""Classification with any loss of the scores.

    .. math:: \min_{w, b} \; L(y, f) + \tfrac12 \alpha \lVert w \rVert^2, \qquad
              f_i = \langle w, \varphi(x_i) \rangle + b, \quad y_i \in \{-1, +1\}

    A positive score f means the later of the two classes; more classes take one machine each,
    against the rest, on one shared Gram matrix, and the largest score wins. ``loss="hinge"`` is
    the support vector machine with C = 1 / alpha.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared_hinge"} or Loss, default="logistic"
        log(1 + exp(-y f)), max(0, 1 - y f) or its square, summed over points; or an object of
        `mercer.estimators.losses.Loss`, which sees all scores at once and may bring a penalty
        R(norm of w) of its own in place of the one with alpha.
    alpha : float, default=1.0
        Regulariser, positive.
    kernel : str, Kernel or callable, default="rbf"
        A kernel object, a name ("linear", "poly", "rbf", "laplacian", "precomputed", ...) or a
        function of two rows.
    gamma : float, "scale", "auto" or None, default="scale"
        For named kernels that have one; "scale" is 1 / (n_features * variance of X), None and
        "auto" are 1 / n_features.
    degree : float, default=3
        For "poly".
    coef0 : float, default=0.0
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    fit_intercept : bool, default=True
        Whether there is a bias b, which is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weight per class.
    tol : float, default=1e-6
        Gap at which the solver is done.
    max_iter : int or None, default=None
        Steps of the solver: 100 for Newton and interior points, 10000 for L-BFGS if None.
    max_time : float or None, default=None
        Seconds per machine.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" adds to the diagonal of the training points alone; new points are seen
        through the kernel as it is.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Coefficients a with :math:`w = \sum_i a_i \varphi(x_i)`.
    intercept_ : float or ndarray of shape (n_classes,)
        The bias b.
    X_fit_ : the training points.
    kernel_ : Kernel
        The kernel used.
    n_iter_ : int
        Steps taken, the most over machines.
    result_ : Result
        The worst machine's. ``gap`` is the duality gap relative to the objective, or the norm of
        the gradient relative to the one at zero where the loss's conjugate is not known.

    References
    ----------
    Schölkopf, Herbrich and Smola (2001), "A generalized representer theorem".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.estimators.machines import KernelMachineClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = KernelMachineClassifier("logistic", alpha=0.1).fit(X, y)
    >>> round(machine.score(X, y), 2), machine.predict_proba(X).shape
    (0.97, (150, 3))
    """

    _parameter_constraints: dict = {
        **KERNEL,
        **CLASS_WEIGHT,
        **STOPPING,
        "loss": [StrOptions(set(CLASSIFICATION)), Loss],
    }

    def __init__(
        self,
        loss: Any = "logistic",
        *,
        alpha: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        kernel_params: dict | None = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
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
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.indefinite = indefinite

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelMachineClassifier:
        """Fit one machine for two classes, else one per class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights of the losses, for losses that are sums over points.

        Returns
        -------
        self : KernelMachineClassifier
        """
        X, y = labelled(self, X, y)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        self.classes_, codes = class_labels(self, y)
        weight = class_weights(self.class_weight, y, weight)
        if weight is not None:
            require_weight(self.classes_, codes, weight)
        targets = signed_targets(codes, len(self.classes_))
        fit_machines(self, X, targets, weight, CLASSIFICATION)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of shape (m,) for two classes, positive for the later, else (m, n_classes)."""
        check_is_fitted(self)
        return scores_of(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest score, shape (m,)."""
        scores = self.decision_function(X)
        return most_likely(self.classes_, scores)

    @available_if(lambda self: _is_logistic(self.loss))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of shape (m, n_classes), for the logistic loss.

        With more than two classes the machines' probabilities are divided by their sum.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        probabilities = expit(scores)
        total = probabilities.sum(axis=1, keepdims=True)
        # Where every machine is certain of "no", none is preferred.
        shares = np.full_like(probabilities, 1.0 / len(self.classes_))
        return np.divide(probabilities, total, out=shares, where=total > 0)

    @available_if(lambda self: _is_logistic(self.loss))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of `predict_proba`, shape (m, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


class KernelMachineRegressor(CallbackSupportMixin, RegressorMixin, BaseEstimator):
    r"""Regression with any loss of the predictions.

    .. math:: \min_{w, b} \; L(y, f) + \tfrac12 \alpha \lVert w \rVert^2, \qquad
              f_i = \langle w, \varphi(x_i) \rangle + b

    Parameters
    ----------
    loss : {"squared", "absolute", "epsilon_insensitive", "huber", "quantile", "poisson"} or Loss, \
default="squared"
        A sum over points of r = y - f: half its square (kernel ridge, with a bias), its absolute
        value, that beyond epsilon (support vector regression with C = 1 / alpha), half its square
        up to delta and linear beyond, its pinball loss at ``quantile``; or exp(f) - y f for counts
        with mean exp(f). Or an object of `mercer.estimators.losses.Loss`, which sees all
        predictions at once and may bring a penalty R(norm of w) in place of the one with alpha.
    alpha : float, default=1.0
        Regulariser, positive.
    kernel, gamma, degree, coef0, kernel_params
        As in `KernelMachineClassifier`.
    fit_intercept : bool, default=True
        Whether there is a bias b, which is not penalised.
    epsilon : float, default=0.1
        Half-width of the tube of "epsilon_insensitive".
    delta : float, default=1.35
        Where "huber" turns linear.
    quantile : float, default=0.5
        Level of "quantile", between 0 and 1.
    tol, max_iter, max_time, indefinite
        As in `KernelMachineClassifier`.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,)
    intercept_ : float
    X_fit_, kernel_, n_iter_, result_
        As in `KernelMachineClassifier`.

    References
    ----------
    Takeuchi, Le, Sears and Smola (2006), "Nonparametric quantile estimation".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mercer.estimators.machines import KernelMachineRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> upper = KernelMachineRegressor("quantile", quantile=0.9, alpha=0.01).fit(X, y)
    >>> bool(0.85 < (y <= upper.predict(X)).mean() < 0.95)
    True
    """

    _parameter_constraints: dict = {
        **KERNEL,
        **STOPPING,
        "loss": [StrOptions(set(REGRESSION)), Loss],
        "epsilon": [NON_NEGATIVE],
        "delta": [POSITIVE],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
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
        quantile: float = 0.5,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
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
        self.indefinite = indefinite

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelMachineRegressor:
        """Fit the machine.

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
        X, y = labelled(self, X, y, y_numeric=True)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        targets = np.asarray(y, dtype=np.float64)[:, None]
        fit_machines(self, X, targets, weight, REGRESSION)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict on the scale of y, shape (m,): f itself, or exp(f) for "poisson"."""
        check_is_fitted(self)
        return loss_of(self, REGRESSION).response(scores_of(self, X))

    def __sklearn_tags__(self) -> Any:
        tags = input_tags(self, super().__sklearn_tags__())
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags


def _is_logistic(loss: Any) -> bool:
    return loss == "logistic" if isinstance(loss, str) else isinstance(loss, Logistic)
