"""The kernelised perceptron."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from mercer._sklearn import check_first_classes
from mercer.arrays import memory_budget, n_rows, take_rows
from mercer.arrays.remote import over_blocks
from mercer.estimators.constraints import KERNEL, at_least
from mercer.estimators.decision_values import decision_values
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, is_precomputed, validate_query
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import (
    class_labels,
    most_likely,
    refuse_missing_labels,
    signed_targets,
    validate_supervised,
)
from mercer.estimators.scores import Classifier
from mercer.estimators.training_gram import training_gram
from mercer.operators import CorrectedGram, DenseGram, GramOperator, TiledGram, expansion
from mercer.solvers.online.perceptron import PerceptronState, perceptron

# More entries than these take longer to store than to compute again where they are asked for.
STORED = 2**25


class KernelPerceptron(Classifier, BaseEstimator):
    r"""The perceptron with kernels.

    Points are visited in random order, ``n_epochs`` times. Point n is a mistake if

    .. math:: y_n \Bigl( \sum_i \alpha_i k(x_i, x_n) + b \Bigr) \le 0,

    so a score of zero is a mistake. Each mistake updates
    :math:`\alpha_n \leftarrow \alpha_n + y_n`, :math:`b \leftarrow b + y_n`. With more than two
    classes there is one perceptron per class, against the rest, with the same order of points.

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
    n_epochs : int, default=10
        Passes over the data. Without ``average``, training stops after an epoch without mistakes.
    average : bool, default=False
        Whether to predict with the mean of the coefficients over all steps, which varies less than
        the last ones.
    budget : int or None, default=None
        Maximum number of support points; beyond it, the oldest is dropped. Cannot be combined with
        ``average``, whose mean includes all of them.
    shuffle : bool, default=True
        Whether to visit the points in random order, in each epoch
        ``check_random_state(random_state).permutation(n)``, or in the order given.
    random_state : int, RandomState or None, default=0
        Random seed for the orders.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_support,) or (n_support, n_classes)
        Coefficients of the support points; integers unless averaged.
    intercept_ : float or ndarray of shape (n_classes,)
    X_fit_ : the support points (all training points for a precomputed kernel).
    support_ : ndarray of shape (n_support,)
        Positions of the support points in the training data, in the order of ``X_fit_``; -1 for
        points of earlier calls of `partial_fit`.
    mistakes_ : ndarray of shape (k,), or list of n_classes such
        Indices of the mistakes in the last fit, in order.
    n_mistakes_ : int
        Number of mistakes over all classes and calls.
    kernel_ : Kernel
        The kernel used.
    result_ : Result
        ``history`` is the fraction of mistakes in each epoch, ``gap`` that in the last.

    References
    ----------
    Freund and Schapire (1999), "Large margin classification using the perceptron algorithm".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels as K
    >>> from mercer.estimators.online.perceptron import KernelPerceptron
    >>> X = np.arange(-10.0, 11.0)[:, None]
    >>> y = np.abs(X[:, 0]) > 2
    >>> KernelPerceptron(K.RBF(gamma=0.5), random_state=0).fit(X, y).score(X, y)
    1.0
    """

    _parameter_constraints: dict = {
        **KERNEL,
        "n_epochs": [at_least(1)],
        "average": ["boolean"],
        "budget": [at_least(1), None],
        "shuffle": ["boolean"],
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
        n_epochs: int = 10,
        average: bool = False,
        budget: int | None = None,
        shuffle: bool = True,
        random_state: Any = 0,
        indefinite: str = "error",
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_epochs = n_epochs
        self.average = average
        self.budget = budget
        self.shuffle = shuffle
        self.random_state = random_state
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any) -> KernelPerceptron:
        """Fit from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : KernelPerceptron
        """
        X, y = validate_supervised(self, X, y)
        self.kernel_ = resolve_kernel(self, X)
        self.classes_, codes = class_labels(self, y)
        operator: GramOperator | None = None
        if is_precomputed(self.kernel) or self.kernel_.validity.status != "valid":
            operator = training_gram(self, X, self.kernel_, store=False)
        if not isinstance(operator, DenseGram):
            operator = self._by_formula(X)
        self.result_ = perceptron(
            operator,
            signed_targets(codes, len(self.classes_)),
            self._orders(n_rows(X), self.n_epochs),
            budget=self._checked_budget(),
            stop_when_separated=not self.average,
        )
        self.n_mistakes_ = 0
        self._store(X, np.arange(n_rows(X)), self.result_.value, operator)
        return self

    @atomic_fit
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> KernelPerceptron:
        """Visit these points once, starting from the current model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All classes; required in the first call.

        Returns
        -------
        self : KernelPerceptron
        """
        if is_precomputed(self.kernel):
            raise ValueError(
                "partial_fit needs the kernel between old and new points, which a precomputed "
                "matrix does not have; use fit, or a kernel object"
            )
        first = not hasattr(self, "dual_coef_")
        if first:
            X, y = validate_supervised(self, X, y)
        else:
            refuse_missing_labels(y)
            X, y = validate_query(self, X), column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        check_first_classes(self, classes)
        codes = _codes(self.classes_, y)
        if first:
            self.kernel_ = resolve_kernel(self, X)
            self.n_mistakes_ = 0
        points = X if first else _stack(self.X_fit_, X)
        self._refuse_correction(points)
        start, scores = None if first else self._state, None
        if start is not None:
            scores = expansion(self.kernel_, X, self.X_fit_, start.coef) + start.intercept
        # Without a budget nothing that is known already changes.
        operator = self._by_formula(X, points if self.budget is not None else X)
        self.result_ = perceptron(
            operator,
            signed_targets(codes, len(self.classes_)),
            self._orders(n_rows(X), 1),
            budget=self._checked_budget(),
            start=start,
            scores=scores,
        )
        known = n_rows(points) - n_rows(X)
        positions = np.concatenate([np.full(known, -1), np.arange(n_rows(X))])
        self._store(points, positions, self.result_.value, operator)
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

    def _by_formula(self, X: Any, points: Any = None) -> GramOperator:
        """The Gram operator of points, by default X, with X, from the kernel's own formula.

        Explicit features speed up products, not rows, and round where the formula may be exact: a
        score of zero, which is a mistake, would not come out as zero.
        """
        same = points is None or points is X
        n, m = n_rows(X), n_rows(X if same else points)
        pairs = self.kernel_.over(X if same else points, None if same else X)
        asked = m if self.budget is None else self.budget * self.n_epochs
        pays = asked >= m and n * m <= STORED
        if 8 * n * m <= memory_budget() and (pays or not pairs.native):
            return DenseGram(pairs.gram())
        return TiledGram(pairs)

    def _orders(self, n: int, epochs: int) -> Any:
        rng = check_random_state(self.random_state)
        for _ in range(epochs):
            yield rng.permutation(n) if self.shuffle else np.arange(n)

    def _checked_budget(self) -> int | None:
        if self.budget is not None and self.average:
            raise ValueError(
                f"budget={self.budget} and average=True: an average keeps a share of every point "
                "it forgets; set one of them only"
            )
        return self.budget

    def _refuse_correction(self, points: Any) -> None:
        if self.kernel_.validity.status == "valid":
            return
        corrected_before = getattr(self, "_state", True) is None
        operator = training_gram(self, points, self.kernel_)
        if corrected_before or isinstance(operator, CorrectedGram):
            raise ValueError(
                f"kernel={self.kernel_!r} is not positive semidefinite, and partial_fit cannot "
                "correct it from some of the points; use fit"
            )

    def _store(
        self,
        points: Any,
        positions: np.ndarray,
        state: PerceptronState,
        operator: GramOperator,
    ) -> None:
        """Set the attributes, keeping the support points only where the kernel allows."""
        coef, intercept = state.averaged() if self.average else (state.coef, state.intercept)
        binary = len(self.classes_) == 2
        is_corrected = isinstance(operator, CorrectedGram)
        self._state = None if is_corrected else state.trimmed()
        if is_corrected or is_precomputed(self.kernel):
            self.X_fit_ = points
            coef = operator.extend_coefficients(coef)
        else:
            self.X_fit_ = take_rows(points, state.support)
            coef = coef[state.support]
        self.support_ = positions[state.support]
        self.dual_coef_ = coef[:, 0] if binary else coef
        self.intercept_ = float(intercept[0]) if binary else intercept
        where, which = state.mistakes.T
        machines = range(state.coef.shape[1])
        self.mistakes_ = where if binary else [where[which == machine] for machine in machines]
        self.n_mistakes_ += len(where)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


def _codes(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    if len(classes) < 2:
        raise ValueError(
            f"classes has one class only, {classes.tolist()[0]!r}; KernelPerceptron needs at least "
            "two"
        )
    unknown = ~np.isin(y, classes)
    if np.any(unknown):
        raise ValueError(
            f"y has the label {y[unknown][0]!r}, which is not among classes={classes!r}; give all "
            "classes in the first call of partial_fit"
        )
    return np.searchsorted(classes, y)


def _stack(A: Any, B: Any) -> Any:
    """The points of A, then those of B, in their own form."""
    if sp.issparse(A) or sp.issparse(B):
        return sp.vstack([sp.csr_array(A), sp.csr_array(B)], format="csr")
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray):
        return np.concatenate([A, B])
    if hasattr(A, "iloc") and hasattr(B, "iloc"):
        import pandas as pd

        return pd.concat([A, B], ignore_index=True)
    return [*A, *B]
