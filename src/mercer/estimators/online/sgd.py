"""Stochastic gradient descent for support vector machines with kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import n_rows
from mercer.arrays.remote import over_blocks
from mercer.estimators.constraints import KERNEL, POSITIVE, at_least
from mercer.estimators.decision_values import expansion_at
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import (
    checked_weights,
    class_labels,
    most_likely,
    require_weight,
    signed_targets,
    validate_supervised,
)
from mercer.estimators.scores import Classifier
from mercer.estimators.training_gram import training_gram
from mercer.solvers.online.sgd import kernel_sgd


class KernelSGDClassifier(Classifier, BaseEstimator):
    r"""The soft-margin support vector machine without bias, by stochastic gradient descent.

    .. math:: \min_w \; \tfrac{\alpha}{2} \lVert w \rVert^2
              + \frac1m \sum_i \max(0,\, 1 - y_i \langle w, \varphi(x_i) \rangle)

    From :math:`\beta = 0`, step t = 1, ..., T uses :math:`a^{(t)} = \beta / (\alpha t)`, draws i
    with replacement, and adds :math:`y_i` to :math:`\beta_i` if
    :math:`y_i \sum_j a^{(t)}_j k(x_j, x_i) < 1`. The result is the mean of
    :math:`a^{(1)}, \dots, a^{(T)}`. With more than two classes there is one problem per class,
    against the rest, with the same draws. `SVC` with C = 1 / (alpha m) and no intercept solves the
    same problem to its tolerance. With sample weights the mean of the losses is weighted, and
    points are drawn in proportion to their weights.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        A kernel object, a name ("linear", "poly", "rbf", "laplacian", "precomputed", ...) or a
        function of two rows.
    gamma : float, "scale", "auto" or None, default="scale"
        For named kernels with this parameter. "scale" is 1 / (n_features * variance of X), None
        and "auto" are 1 / n_features.
    degree : float, default=3
        For "poly".
    coef0 : float, default=1
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    alpha : float, default=0.01
        Regularisation parameter, lambda in the textbook.
    n_iter : int, default=10000
        Number of steps T.
    average : bool, default=True
        Whether to return the mean of the iterates or the last one.
    random_state : int, RandomState or None, default=0
        Random seed for the draws, ``check_random_state(random_state).randint(m, size=n_iter)``.
        With sample weights, ``random_sample(n_iter)`` chooses points by their cumulative weights.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
    X_fit_ : the training points.
    kernel_ : Kernel
        The kernel used.
    result_ : Result
        ``gap`` is the duality gap of the objective above, the largest over classes.

    References
    ----------
    Shalev-Shwartz and Ben-David (2014), "Understanding Machine Learning", section 16.3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.estimators.online.sgd import KernelSGDClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelSGDClassifier(alpha=0.001, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _parameter_constraints: dict = {
        **KERNEL,
        "alpha": [POSITIVE],
        "n_iter": [at_least(1)],
        "average": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        alpha: float = 0.01,
        n_iter: int = 10_000,
        average: bool = True,
        random_state: Any = 0,
        indefinite: str = "error",
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.n_iter = n_iter
        self.average = average
        self.random_state = random_state
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelSGDClassifier:
        """Fit from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights of the losses. A point of weight 2 is drawn as often as two points of weight 1;
            a point of weight 0 is never drawn.

        Returns
        -------
        self : KernelSGDClassifier
        """
        X, y = validate_supervised(self, X, y)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        self.classes_, codes = class_labels(self, y)
        rng, share = check_random_state(self.random_state), None
        if weight is None:
            draws = rng.randint(n_rows(X), size=self.n_iter)
        else:
            require_weight(self.classes_, codes, weight)
            share = weight / weight.sum()
            draws = _draws(weight, rng.random_sample(self.n_iter))
        operator = training_gram(self, X, self.kernel_, store=False)
        targets = signed_targets(codes, len(self.classes_))
        self.result_ = kernel_sgd(
            operator, targets, self.alpha, draws, average=self.average, share=share
        )
        coef = operator.extend_coefficients(self.result_.value)
        self.dual_coef_ = coef[:, 0] if len(self.classes_) == 2 else coef
        self.X_fit_ = X
        return self

    @over_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, (m,) for two classes, positive for ``classes_[1]``, else (m, n_classes)."""
        check_is_fitted(self)
        return expansion_at(self, X, self.dual_coef_)

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest score, shape (m,)."""
        scores = self.decision_function(X)
        return most_likely(self.classes_, scores)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


def _draws(weight: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The points at these places of the weights laid end to end, the whole length being 1.

    Examples
    --------
    >>> import numpy as np
    >>> _draws(np.array([1.0, 0.0, 3.0]), np.array([0.0, 0.2, 0.25, 0.9]))
    array([0, 0, 2, 2])
    """
    ends = np.cumsum(weight)
    found = np.searchsorted(ends, places * ends[-1], side="right")
    return np.minimum(found, np.flatnonzero(weight)[-1])
