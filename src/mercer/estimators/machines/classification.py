"""Kernel machines for classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import CallbackSupportMixin, StrOptions
from mercer.arrays import backend
from mercer.arrays.remote import over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.constraints import CLASS_WEIGHT, KERNEL
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
    SOLUTION,
    classification_loss,
    fit_machines,
    is_logistic,
)
from mercer.estimators.scores import Classifier


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
    >>> from mercer.estimators.machines.classification import KernelMachineClassifier
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
