"""Kernel ridge regression and classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Hidden, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.constraints import CLASS_WEIGHT, KERNEL, NON_NEGATIVE, POSITIVE, at_least
from mercer.estimators.fitting import fitting
from mercer.estimators.inputs import input_tags
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import (
    checked_weights,
    class_labels,
    class_weights,
    labelled,
    most_likely,
    signed_targets,
)
from mercer.estimators.ridge_solution import LATER_SOLVERS, SOLVERS, evaluate, fit_ridge, store

SOLVER: dict = {
    "alpha": [NON_NEGATIVE, "array-like"],
    "solver": [StrOptions(SOLVERS), Hidden(StrOptions(set(LATER_SOLVERS)))],
    "n_centers": [at_least(1), None],
    "step_size": [POSITIVE, None],
    "max_iter": [at_least(1), None],
    "tol": [NON_NEGATIVE],
    "keep_path": ["boolean"],
}


class KernelRidge(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Kernel ridge regression.

    .. math::
        \min_w \tfrac12 \sum_i s_i \left(y_i - \langle w, \varphi(x_i) \rangle\right)^2
               + \tfrac12 \alpha \lVert w \rVert^2

    With :math:`w = \sum_i a_i \varphi(x_i)` and unit weights :math:`s` the solution is
    :math:`a = (K + \alpha I)^{-1} y`, as in scikit-learn's class of this name. There is no
    intercept: centre y (`sklearn.compose.TransformedTargetRegressor`) or use the kernel ``k + 1``.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1
        Regulariser, one for all targets or one each. With 0 the least squares solution of
        minimum norm is returned, with a warning if the data leave it undetermined.
    kernel : str, Kernel or callable, default="linear"
        A kernel object, a name ("linear", "poly", "rbf", "laplacian", "precomputed", ...) or a
        function of two rows.
    gamma : float, "scale", "auto" or None, default=None
        For named kernels that have one; None and "auto" are 1 / n_features, "scale" is
        1 / (n_features * variance of X).
    degree : int, default=3
        For "poly"; a whole number.
    coef0 : float, default=1
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    solver : {"auto", "cholesky", "eigh", "primal", "gd", "pcg", "nystrom"}, default="auto"
        "cholesky" factorises the n by n system; "eigh" decomposes it and copes with alpha = 0;
        "primal" solves for the weights of the kernel's explicit feature map; "gd" descends as
        ``a <- a - 2 step_size (K a - y + alpha a)`` from zero. "auto" takes "primal" when the
        kernel has a finite map with few features beside the number of points, else "eigh" when
        alpha is lost in rounding, else "cholesky"; ``result_.method`` says which and why. "pcg"
        and "nystrom" come with a later release.
    n_centers : int or None, default=None
        Number of centres of "nystrom".
    step_size : float or None, default=None
        Step of "gd"; None takes half of the largest stable one,
        ``1 / (largest eigenvalue of K + alpha)``.
    max_iter : int or None, default=None
        Steps of "gd", 1000 if None.
    tol : float, default=1e-6
        Relative gradient at which "gd" stops early; 0 takes every step.
    keep_path : bool, default=False
        Whether to keep the coefficients of every step of "gd" in ``path_``.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" adds to the diagonal of the training points alone; new points are seen
        through the kernel as it is.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        The coefficients a.
    coef_ : ndarray of shape (n_features_of_map,) or (n_features_of_map, n_targets), or None
        The weights w, where the fit was made in the primal.
    feature_map_ : FeatureMap or None
        The map that goes with ``coef_``.
    path_ : ndarray of shape (n_steps + 1, ...), only with ``keep_path``
        The coefficients before the first and after each step of "gd".
    X_fit_ : the training points.
    kernel_ : Kernel
        The kernel used.
    n_iter_ : int
        Steps taken; 1 for direct solvers.
    result_ : Result
        ``gap`` is the norm of the objective's gradient at w relative to the one at zero.

    References
    ----------
    Saunders, Gammerman and Vovk (1998), "Ridge regression learning algorithm in dual variables".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mercer.estimators.ridge import KernelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidge(alpha=0.1, kernel="rbf", gamma=3.0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.56
    >>> model.result_.method
    'cholesky: no finite feature map'
    """

    _parameter_constraints: dict = {**KERNEL, **SOLVER}

    def __init__(
        self,
        alpha: Any = 1,
        *,
        kernel: Any = "linear",
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        solver: str = "auto",
        n_centers: int | None = None,
        step_size: float | None = None,
        max_iter: int | None = None,
        tol: float = 1e-6,
        keep_path: bool = False,
        indefinite: str = "error",
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.solver = solver
        self.n_centers = n_centers
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.keep_path = keep_path
        self.indefinite = indefinite

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidge:
        """Fit the regression.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights s of the squared errors, not negative.

        Returns
        -------
        self : KernelRidge
        """
        X, y = labelled(self, X, y, multi_output=True, y_numeric=True)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        fit = fit_ridge(self, X, np.asarray(y, dtype=np.float64), weight)
        store(self, X, fit, flat=y.ndim == 1)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects
            For a precomputed kernel, its values between the m points and the training points.

        Returns
        -------
        ndarray of shape (m,) or (m, n_targets)
        """
        check_is_fitted(self)
        return evaluate(self, X)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


class KernelRidgeClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    r"""Classification by kernel ridge regression on targets -1 and +1, one machine per class.

    .. math::
        \min_w \tfrac12 \sum_i s_i \left(y_i - \langle w, \varphi(x_i) \rangle\right)^2
               + \tfrac12 \alpha \lVert w \rVert^2, \qquad y_i \in \{-1, +1\}

    Two classes take one machine, more take one per class that shares the factorisation; the
    class of the largest score is predicted. Scores are least squares fits, not probabilities, and
    have no intercept; the kernel ``k + 1`` adds one.

    Parameters
    ----------
    alpha, kernel, gamma, degree, coef0, kernel_params, solver, n_centers, step_size, max_iter, \
tol, keep_path
        As in `KernelRidge`; the kernel is "rbf" and gamma "scale" by default.
    class_weight : dict, "balanced" or None, default=None
        Weight per class; "balanced" makes them inversely proportional to the class sizes.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" adds to the diagonal of the training points alone; new points are seen
        through the kernel as it is.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
    coef_, feature_map_, X_fit_, kernel_, n_iter_, result_
        As in `KernelRidge`.

    References
    ----------
    Rifkin, Yeo and Poggio (2003), "Regularized least-squares classification".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.estimators.ridge import KernelRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> round(KernelRidgeClassifier(alpha=0.1).fit(X, y).score(X, y), 2)
    0.99
    """

    _parameter_constraints: dict = {
        **KERNEL,
        **SOLVER,
        **CLASS_WEIGHT,
        "alpha": [NON_NEGATIVE],
    }

    def __init__(
        self,
        alpha: float = 1,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        solver: str = "auto",
        n_centers: int | None = None,
        step_size: float | None = None,
        max_iter: int | None = None,
        tol: float = 1e-6,
        keep_path: bool = False,
        class_weight: Any = None,
        indefinite: str = "error",
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.solver = solver
        self.n_centers = n_centers
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.keep_path = keep_path
        self.class_weight = class_weight
        self.indefinite = indefinite

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidgeClassifier:
        """Fit one machine per class, or one for two classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : float or array-like of shape (n_samples,), optional

        Returns
        -------
        self : KernelRidgeClassifier
        """
        X, y = labelled(self, X, y)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        self.classes_, codes = class_labels(self, y)
        weight = class_weights(self.class_weight, y, weight)
        fit = fit_ridge(self, X, signed_targets(codes, len(self.classes_)), weight)
        store(self, X, fit, flat=len(self.classes_) == 2)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of shape (m,) for two classes, positive for the later, else (m, n_classes)."""
        check_is_fitted(self)
        return evaluate(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest score, shape (m,)."""
        scores = self.decision_function(X)
        return most_likely(self.classes_, scores)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())
