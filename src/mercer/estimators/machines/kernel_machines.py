"""Kernel machines: any loss, plus a penalty on the norm of the weights."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import CallbackSupportMixin, Interval, StrOptions
from mercer.arrays import as_numpy, backend, to_cpu
from mercer.arrays.remote import over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.constraints import (
    CLASS_WEIGHT,
    KERNEL,
    NON_NEGATIVE,
    POSITIVE,
    at_least,
)
from mercer.estimators.decision_values import decision_values
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import (
    checked_weights,
    class_labels,
    class_weights,
    most_likely,
    require_weight,
    signed_targets,
    validate_supervised,
)
from mercer.estimators.losses import Loss
from mercer.estimators.machines.engine import (
    CLASSIFICATION,
    REGRESSION,
    SOLVERS,
    classification_loss,
    fit_machines,
    has_levels,
    is_logistic,
    regression_losses,
)
from mercer.estimators.scores import Classifier, Regressor

SOLUTION: dict = {
    "alpha": [POSITIVE],
    "fit_intercept": ["boolean"],
    "tol": [POSITIVE],
    "max_iter": [at_least(1), None],
    "max_time": [POSITIVE, None],
    "solver": [StrOptions(SOLVERS)],
    "n_centers": [at_least(1), None],
    "centers": [StrOptions({"pivoted", "uniform"}), "array-like", list],
    "random_state": ["random_state"],
}


class KernelMachineClassifier(CallbackSupportMixin, Classifier, BaseEstimator):
    r"""Classification by minimising any loss plus a penalty.

    .. math:: \min_{w, b} \; L(y, f) + \tfrac12 \alpha \lVert w \rVert^2, \qquad
              f_i = \langle w, \varphi(x_i) \rangle + b, \quad y_i \in \{-1, +1\}

    A positive score f means ``classes_[1]``. With more than two classes, every class has a score
    and the largest wins. With the logistic loss all scores are fitted together (multinomial): the
    probabilities are :math:`p_c = e^{f_c} / \sum_d e^{f_d}`, the loss is
    :math:`-\sum_i \log p_{y_i}`, and the penalty is summed over classes. With other losses each
    class is fitted against the rest, on one shared Gram matrix. ``loss="hinge"`` is the support
    vector machine with C = 1 / alpha.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared_hinge"} or Loss, default="logistic"
        log(1 + exp(-y f)), max(0, 1 - y f) or its square, summed over points; or a custom loss. A
        sum over points derives from `mercer.estimators.losses.PointwiseLoss`. Any other loss
        derives from `mercer.estimators.losses.Loss`: it is a function of all scores, and may define
        its own penalty R(norm of w) instead of the one with alpha.
    alpha : float, default=1.0
        Regularisation parameter, positive; larger alpha means more regularisation.
    kernel : str, Kernel or callable, default="rbf"
        A kernel object, a name ("linear", "poly", "rbf", "laplacian", "precomputed", ...) or a
        function of two rows.
    gamma : float, "scale", "auto" or None, default="scale"
        For named kernels with this parameter. "scale" is 1 / (n_features * variance of X), None
        and "auto" are 1 / n_features.
    degree : float, default=3
        For "poly".
    coef0 : float, default=0.0
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weight per class.
    tol : float, default=1e-6
        Gap at which the solver stops.
    max_iter : int or None, default=None
        Maximum number of solver steps. None is 100 for Newton's and interior-point methods, 200
        for non-smooth losses on centres, and 10000 for L-BFGS.
    max_time : float or None, default=None
        Time limit in seconds for each binary problem, from when the Gram matrix or the features of
        the centres have been computed. It is checked between steps; the solver then stops with a
        warning.
    solver : {"auto", "exact", "nystrom"}, default="auto"
        "exact" expands in all points and factorises the Gram matrix a few times. "nystrom"
        minimises the same objective over the span of a few centres, in passes over the points.
        "auto" is "exact" for up to 5000 points unless ``n_centers`` is given.
    n_centers : int or None, default=None
        Number of centres of "nystrom"; None is 4 sqrt(n).
    centers : {"pivoted", "uniform"} or array-like, default="pivoted"
        How "nystrom" chooses centres: by randomly pivoted Cholesky on a sample, uniformly at
        random, or as given. If they are a tensor on a device, points in host memory are copied to
        it in blocks.
    random_state : int, RandomState or None, default=0
        Random seed for the choice of centres.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_points,) or (n_points, n_classes)
        Coefficients a with :math:`w = \sum_i a_i \varphi(x_i)`.
    intercept_ : float or ndarray of shape (n_classes,)
        The intercept b.
    X_fit_ : the points of the coefficients: all training points, or the centres.
    kernel_ : Kernel
        The kernel used.
    n_iter_ : int
        Number of solver steps; the largest over binary problems.
    result_ : Result
        The result of the binary problem with the largest gap. ``method`` reports the solver and the
        reason for it. ``gap`` is the duality gap relative to the objective, computed in float64 at
        the end, for any convex loss; if the loss defines its own penalty, it is the norm of the
        gradient relative to that at zero. With centres, ``gap`` is that of the problem over their
        span, and ``bound`` bounds the distance from the solution over all points in the norm of the
        reproducing kernel Hilbert space; it is computed only if that is cheap compared with the
        fit.

    References
    ----------
    Schölkopf, Herbrich and Smola (2001), "A generalized representer theorem".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.estimators.machines.kernel_machines import KernelMachineClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = KernelMachineClassifier("logistic", alpha=0.1).fit(X, y)
    >>> round(machine.score(X, y), 2), machine.predict_proba(X).shape
    (0.98, (150, 3))
    """

    _arrays = ArraySupport(tensors="everywhere")
    _parameter_constraints: dict = {
        **KERNEL,
        **CLASS_WEIGHT,
        **SOLUTION,
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
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.random_state = random_state
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelMachineClassifier:
        """Fit one score function for two classes, else one per class.

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
        X, y = validate_supervised(self, X, y)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        self.classes_, codes = class_labels(self, y)
        weight = class_weights(self.class_weight, y, weight)
        if weight is not None:
            require_weight(self.classes_, codes, weight)
        targets = signed_targets(codes, len(self.classes_))
        fit_machines(self, X, targets, [classification_loss(self)], weight)
        return self

    @over_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, (m,) for two classes, positive for ``classes_[1]``, else (m, n_classes)."""
        check_is_fitted(self)
        return decision_values(self, X)

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest score, shape (m,)."""
        scores = self.decision_function(X)
        return most_likely(self.classes_, scores)

    @available_if(lambda self: is_logistic(classification_loss(self)))
    @over_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of shape (m, n_classes), for the logistic loss."""
        scores = self.decision_function(X)
        return backend(scores).class_probabilities(scores)

    @available_if(lambda self: is_logistic(classification_loss(self)))
    @over_blocks
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of `predict_proba`, shape (m, n_classes)."""
        scores = self.decision_function(X)
        return backend(scores).class_probabilities(scores, log=True)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


class KernelMachineRegressor(CallbackSupportMixin, Regressor, BaseEstimator):
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
    >>> from mercer.estimators.machines.kernel_machines import KernelMachineRegressor
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
