"""Classification by kernel ridge regression."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import CallbackSupportMixin
from mercer.arrays import as_numpy, to_device_of
from mercer.arrays.remote import over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.centres import centres_of
from mercer.estimators.chunks import split_chunks
from mercer.estimators.constraints import CLASS_WEIGHT, KERNEL, NON_NEGATIVE
from mercer.estimators.decision_values import decision_values
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, takes_vectors
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import (
    check_labels,
    checked_weights,
    class_labels,
    class_weights,
    most_likely,
    nearest_probabilities,
    signed_targets,
    validate_supervised,
)
from mercer.estimators.ridge.chunks import fit_on_moments, with_more_points
from mercer.estimators.ridge.engine import fit_ridge, last_coefficients, store
from mercer.estimators.ridge.regression import SOLVER
from mercer.estimators.scores import Classifier


class KernelRidgeClassifier(CallbackSupportMixin, Classifier, BaseEstimator):
    r"""Classification by kernel ridge regression on targets -1 and +1.

    .. math::
        \min_w \tfrac12 \sum_i s_i \left(y_i - \langle w, \varphi(x_i) \rangle\right)^2
               + \tfrac12 \alpha \lVert w \rVert^2, \qquad y_i \in \{-1, +1\}

    Two classes need one regression. More classes need one each, against the rest, with a shared
    factorisation, and the class with the largest score is predicted. `predict_proba` turns scores
    into probabilities, which are not calibrated.

    Parameters
    ----------
    alpha, kernel, gamma, degree, coef0, kernel_params, fit_intercept, solver, n_centers, \
centers, step_size, max_iter, max_time, tol, warm_start, random_state, keep_path
        As in `KernelRidge`; the kernel is "rbf" and gamma "scale" by default.
    class_weight : dict, "balanced" or None, default=None
        Weight per class; "balanced" weights are inversely proportional to the class sizes.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
    intercept_, error_bound_, coef_, feature_map_, X_fit_, centres_, moments_, kernel_, n_iter_, \
result_
        As in `KernelRidge`.

    References
    ----------
    Rifkin, Yeo and Poggio (2003), "Regularized least-squares classification".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.estimators.ridge.classification import KernelRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> round(KernelRidgeClassifier(alpha=0.1).fit(X, y).score(X, y), 2)
    0.99
    """

    moments_: Any
    _arrays = ArraySupport(tensors="everywhere")
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
        fit_intercept: bool = False,
        solver: str = "auto",
        n_centers: int | None = None,
        centers: Any = "pivoted",
        step_size: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = 0,
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
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.step_size = step_size
        self.max_iter = max_iter
        self.max_time = max_time
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.keep_path = keep_path
        self.class_weight = class_weight
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidgeClassifier:
        """Fit one regression per class, or one for two classes.

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
        X, y = validate_supervised(self, X, y)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        self.classes_, codes = class_labels(self, y)
        weight = class_weights(self.class_weight, y, weight)
        targets = signed_targets(codes, len(self.classes_))
        fit = fit_ridge(self, X, targets, weight, last_coefficients(self, targets.size))
        store(self, X, fit, flat=len(self.classes_) == 2)
        return self

    @available_if(lambda self: self.solver == "nystrom")
    @atomic_fit
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> KernelRidgeClassifier:
        """Add training points, as in `KernelRidge.partial_fit`; only with ``solver="nystrom"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Additional training points.
        y : array-like of shape (n_samples,)
            Class labels; later calls may have new ones.
        classes : array-like, optional
            All classes; needed if the first points have only one.
        sample_weight : float or array-like of shape (n_samples,), optional

        Returns
        -------
        self : KernelRidgeClassifier
        """
        self._add(X, y, sample_weight, classes)
        return self._solve_sums()

    @available_if(lambda self: self.solver == "nystrom")
    @atomic_fit
    def fit_chunks(
        self, chunks: Iterable[Any], *, target: Any = None, sample_weight: str | None = None
    ) -> KernelRidgeClassifier:
        """Fit from chunks of points in one pass, as in `KernelRidge.fit_chunks`.

        Parameters
        ----------
        chunks : iterable
            Tuples ``(X, y)`` or ``(X, y, sample_weight)``, or tables.
        target : str, optional
            The column of labels in tables; all others are features.
        sample_weight : str, optional
            The column of weights in tables.

        Returns
        -------
        self : KernelRidgeClassifier
        """
        if hasattr(self, "moments_"):
            del self.centres_, self.moments_, self.classes_
        for X, y, weight in split_chunks(chunks, target, sample_weight):
            self._add(X, y, weight)
        if not hasattr(self, "moments_"):
            raise ValueError("chunks is empty; expected at least one chunk")
        return self._solve_sums()

    def _add(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> None:
        """Add points to the sums, which have a target per class; the first choose the centres."""
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all the points at once; give a dict of weights"
            )
        first = not hasattr(self, "moments_")
        known = {} if first or not takes_vectors(self.kernel) else {"reset": False}
        X, y = validate_supervised(self, X, y, **known)
        check_labels(y)
        weight = checked_weights(sample_weight, X)
        if self.class_weight is not None:
            # Some points need not have all the classes that scikit-learn's function looks for.
            each = np.array([self.class_weight.get(label, 1.0) for label in y.tolist()])
            weight = each if weight is None else each * weight
        if first:
            self.kernel_ = resolve_kernel(self, X, weight)
            self.centres_, self.moments_ = centres_of(self, X, weight), None
            self.classes_ = np.unique(y if classes is None else classes)
        elif len(self.classes_) == 2 and len(self.moments_.squares) == 1:
            # `fit` keeps the target of the later class only; the other's is its negative.
            both = self.moments_.of_targets([0, 0])
            both.cross[:, 0] *= -1
            both.target_sums[0] *= -1
            self.moments_ = both
        new = np.setdiff1d(y, self.classes_)
        if classes is not None and len(new):
            raise ValueError(f"y has the label {new.tolist()[0]!r}, which is not among classes")
        self.classes_ = np.union1d(self.classes_, new)
        for place in np.searchsorted(self.classes_, new):  # rising, so that each is the last place
            self.moments_ = self.moments_.with_target(int(place))
        targets = np.where(y[:, None] == self.classes_, 1.0, -1.0)
        self.moments_ = with_more_points(self.centres_, self.moments_, X, targets, weight)

    def _solve_sums(self) -> KernelRidgeClassifier:
        moments, k = self.moments_, len(self.classes_)
        if k < 2:
            raise ValueError(
                f"y has one class only so far, {self.classes_.tolist()[0]!r}; name all of them "
                "with partial_fit(..., classes=...), or begin with points of two"
            )
        fit = fit_on_moments(self, self.centres_, moments.of_targets([1]) if k == 2 else moments)
        store(self, None, fit, flat=k == 2)
        self.moments_ = moments
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

    @over_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        r"""Probabilities of shape (m, n_classes): the nearest to (1 + f) / 2 with sum one.

        A score f estimates :math:`2 P(\text{class} \mid x) - 1`, which minimises the expected
        squared error. The regulariser moves scores towards zero, and probabilities towards equal
        ones; for calibrated probabilities use scikit-learn's ``CalibratedClassifierCV``.
        """
        scores = self.decision_function(X)
        found = nearest_probabilities(as_numpy(scores))
        return to_device_of(found, scores)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())
