"""Nearest class mean in feature space."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import as_numpy, like, namespace, to_device_of
from mercer.arrays.remote import over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.constraints import KERNEL
from mercer.estimators.decision_values import expansion_at
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import (
    checked_weights,
    class_labels,
    require_weight,
    validate_supervised,
)
from mercer.estimators.scores import Classifier
from mercer.estimators.training_gram import training_gram


class KernelCentroidClassifier(Classifier, BaseEstimator):
    r"""Predict the class with the nearest mean in feature space; of ties, the last class.

    .. math:: \lVert \varphi(x) - c_y \rVert^2 = k(x, x) - \frac{2}{m_y} \sum_{i: y_i = y} k(x, x_i)
              + \frac{1}{m_y^2} \sum_{i, j: y_i = y_j = y} k(x_i, x_j)

    For two classes this is the sign of :math:`\langle w, \varphi(x) \rangle + b` with
    :math:`w = c_+ - c_-` and :math:`b = \tfrac12 (\lVert c_- \rVert^2 - \lVert c_+ \rVert^2)`,
    where zero is positive.

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
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_samples, n_classes)
        Column y is the mean of class y: 1 / m_y at its points, or their normalised weights.
    squared_norms_ : ndarray of shape (n_classes,)
        Squared norms of the means.
    intercept_ : float or ndarray of shape (n_classes,)
        For two classes the b above; for more, minus half the squared norm of each mean.
    X_fit_ : the training points.
    kernel_ : Kernel
        The kernel used.

    References
    ----------
    Shawe-Taylor and Cristianini (2004), "Kernel Methods for Pattern Analysis", section 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.clustering.centroid import KernelCentroidClassifier
    >>> X, y = np.array([[0.0], [2.0], [10.0]]), ["low", "low", "high"]
    >>> KernelCentroidClassifier("linear").fit(X, y).predict([[5.0], [6.0]])
    array(['low', 'high'], dtype='<U4')
    """

    _arrays = ArraySupport(tensors="everywhere")
    _parameter_constraints: dict = {**KERNEL}

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        indefinite: str = "error",
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelCentroidClassifier:
        """Compute the class means.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights of the points in the mean of their class.

        Returns
        -------
        self : KernelCentroidClassifier
        """
        X, y = validate_supervised(self, X, y)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        self.classes_, codes = class_labels(self, y)
        weight = np.ones(len(codes)) if weight is None else weight
        require_weight(self.classes_, codes, weight)
        operator = training_gram(self, X, self.kernel_)
        members = np.where(codes[:, None] == np.arange(len(self.classes_)), weight[:, None], 0.0)
        means = to_device_of(members / members.sum(axis=0), X)
        self.squared_norms_ = namespace(X).einsum("ij,ij->j", means, operator @ means)
        self.dual_coef_ = operator.extend_coefficients(means)
        biases = -0.5 * self.squared_norms_
        self.intercept_ = float(biases[1] - biases[0]) if len(biases) == 2 else biases
        self.X_fit_ = X
        return self

    @over_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, shape (m,) for two classes and (m, n_classes) for more.

        ``<w, phi(x)> + b`` for two classes; for more, ``<c_y, phi(x)> - 1/2 ||c_y||^2`` per class,
        which is largest for the nearest mean.
        """
        scores = self._affinities(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """The class of the nearest mean, shape (m,)."""
        scores = as_numpy(self._affinities(X))
        # argmax takes the first of equals; from behind, that is the later class.
        nearest = len(self.classes_) - 1 - np.argmax(scores[:, ::-1], axis=1)
        return self.classes_[nearest]

    def _affinities(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        projections = expansion_at(self, X, self.dual_coef_)
        return projections - like(0.5 * self.squared_norms_, projections)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())
