"""One machine per pair of classes, on one Gram matrix; for two classes, one machine."""

from __future__ import annotations

import time
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import take_rows
from mercer.estimators.constraints import CLASS_WEIGHT
from mercer.estimators.fitting import fitting
from mercer.estimators.inputs import is_precomputed
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import class_labels, labelled
from mercer.estimators.svm_forms import Expansion, Form
from mercer.estimators.svm_model import (
    PARAMETERS,
    SupportVectorMachine,
    positive_weights,
)
from mercer.operators import GramOperator
from mercer.solvers.quadratic_program import restrict
from mercer.solvers.result import Result

CLASSIFICATION: dict = {
    **PARAMETERS,
    **CLASS_WEIGHT,
    "probability": ["boolean", StrOptions({"deprecated"})],
    "decision_function_shape": [StrOptions({"ovr", "ovo"})],
    "break_ties": ["boolean"],
    "random_state": ["random_state"],
}


class PairwiseMachine(ClassifierMixin, SupportVectorMachine):
    """Base of the two classifiers: one machine per pair of classes, which vote."""

    def _form(self, gram_matrix: Any, y: np.ndarray, weight: np.ndarray) -> Form:
        raise NotImplementedError

    def _model(self, form: Form, result: Result) -> Expansion:
        return form.expansion(result.value)

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit one machine for two classes, else one per pair of classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Multiplies C; points of zero or negative weight are left out.

        Returns
        -------
        self
        """
        begun = time.perf_counter()
        X, y = labelled(self, X, y)
        classes, codes = class_labels(self, y)
        weight = positive_weights(sample_weight, X)
        per_class = compute_class_weight(self.class_weight, classes=classes, y=y)
        _require_classes(classes, codes, weight, per_class)
        kernel = resolve_kernel(self, X)
        # Class by class, so that the points of a pair are two runs of every row.
        order = np.argsort(codes, kind="stable")
        if is_precomputed(self.kernel) or np.all(order[1:] > order[:-1]):
            order = np.arange(len(codes))
        ordered = X if is_precomputed(self.kernel) else take_rows(X, order)
        present, weights = codes[order], weight[order]
        pairs = list(combinations(range(len(classes)), 2))
        indices = [
            np.flatnonzero(((present == i) | (present == j)) & (weights > 0)) for i, j in pairs
        ]

        def forms_of(operator: GramOperator) -> list[Form]:
            return [
                self._form(
                    restrict(operator, index),
                    np.where(present[index] == i, 1.0, -1.0),
                    weights[index] * per_class[present[index]],
                )
                for (i, _), index in zip(pairs, indices, strict=True)
            ]

        operator, forms, results = self._solve_on(ordered, kernel, forms_of, begun)
        models = [self._model(form, result) for form, result in zip(forms, results, strict=True)]
        found, applied = np.zeros((2, len(codes), len(forms)))
        for column, (index, model) in enumerate(zip(indices, models, strict=True)):
            found[index, column] = model.coefficients
        applied[order] = operator.carry(found)
        found[order] = found.copy()
        self.kernel_, self.classes_, self.class_weight_ = kernel, classes, per_class
        self._keep_pairs(X, codes, found, applied, models)
        self.n_iter_ = np.array([result.n_iter for result in results], dtype=np.int32)
        if self.probability is True:
            self.calibrated_ = self._calibrate(X, y, sample_weight)
        self._close(results)
        return self

    def _keep_pairs(
        self,
        X: Any,
        codes: np.ndarray,
        found: np.ndarray,
        applied: np.ndarray,
        models: list[Expansion],
    ) -> None:
        """Set the attributes in LIBSVM's layout; for two classes f is positive for the later."""
        used = np.any(applied, axis=1) | np.any(found, axis=1)
        k = len(self.classes_)
        members = [np.flatnonzero((codes == c) & used) for c in range(k)]
        support = np.concatenate(members)
        flip = -1.0 if k == 2 else 1.0
        self._keep(X, support)
        self.n_support_ = np.array([len(points) for points in members], dtype=np.int32)
        self.pair_coef_ = flip * applied[support]
        self.dual_coef_ = flip * pairwise_layout(found[support], codes[support], k)
        if k == 2:
            self.dual_coef_ = self.pair_coef_.T.copy()
        # Adding zero turns a flipped zero into a positive one.
        self.intercept_ = flip * np.array([model.intercept for model in models]) + 0.0
        margins = np.array([model.margin for model in models])
        self.margin_ = float(margins[0]) if k == 2 else margins

    def _calibrate(self, X: Any, y: np.ndarray, sample_weight: Any) -> CalibratedClassifierCV:
        """Platt's probabilities, from five folds, in the way scikit-learn now recommends."""
        labels, counts = np.unique(y, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                "probability=True needs two samples of every class, one to fit, one to calibrate; "
                f"class {labels.tolist()[np.argmin(counts)]!r} has one: give more, or leave "
                "probability out"
            )
        folds = min(5, int(counts.min()))
        cv = StratifiedKFold(folds, shuffle=True, random_state=self.random_state)
        plain = clone(self).set_params(probability=False)
        return CalibratedClassifierCV(plain, cv=cv, ensemble=False).fit(
            X, y, sample_weight=sample_weight
        )

    def _pair_values(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._expand(X, self.pair_coef_) + self.intercept_

    def decision_function(self, X: Any) -> np.ndarray:
        """Values of f: how far, in units of the margin, a point lies on a class's side.

        Parameters
        ----------
        X : points, or for a precomputed kernel their kernel with the training points

        Returns
        -------
        ndarray of shape (m,) for two classes, positive for the later; else of shape
        (m, n_classes), votes with ties broken by the values, or with
        ``decision_function_shape="ovo"`` of shape (m, n_classes * (n_classes - 1) / 2), positive
        for the earlier class of the pair.
        """
        values = self._pair_values(X)
        if len(self.classes_) == 2:
            return values[:, 0]
        if self.decision_function_shape == "ovo":
            return values
        return _ovr_decision_function(values < 0, -values, len(self.classes_))

    def predict(self, X: Any) -> np.ndarray:
        """The class with most votes, the earliest of equals unless ``break_ties``; shape (m,)."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        k = len(self.classes_)
        if k > 2 and self.break_ties:
            return self.classes_[np.argmax(self.decision_function(X), axis=1)]
        values = self._pair_values(X)
        if k == 2:
            return self.classes_[(values[:, 0] >= 0).astype(np.intp)]
        votes = np.zeros((len(values), k))
        for column, (i, j) in enumerate(combinations(range(k), 2)):
            wins = values[:, column] > 0
            votes[:, i] += wins
            votes[:, j] += ~wins
        return self.classes_[np.argmax(votes, axis=1)]

    @available_if(lambda self: _has_probabilities(self))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities of shape (m, n_classes), with ``probability=True``."""
        check_is_fitted(self)
        return self.calibrated_.predict_proba(X)

    @available_if(lambda self: _has_probabilities(self))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of `predict_proba`, shape (m, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, one row per pair of classes, for the linear kernel."""
        return self._feature_weights(getattr(self, "pair_coef_", np.empty((0, 1))))


def pairwise_layout(coefficients: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Coefficients of all pairs, (n_SV, n_pairs), in LIBSVM's layout, (n_classes - 1, n_SV).

    Examples
    --------
    >>> import numpy as np
    >>> pairwise_layout(np.array([[1.0, 2.0, 0.0], [-1.0, 0.0, 3.0]]), np.array([0, 1]), 3)
    array([[ 1., -1.],
           [ 2.,  3.]])
    """
    layout = np.zeros((n_classes - 1, len(codes)))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        layout[j - 1, codes == i] = coefficients[codes == i, column]
        layout[i, codes == j] = coefficients[codes == j, column]
    return layout


def _require_classes(
    classes: np.ndarray, codes: np.ndarray, weight: np.ndarray, per_class: np.ndarray
) -> None:
    for label, value in zip(classes.tolist(), per_class.tolist(), strict=True):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(
                f"class_weight gives class {label!r} the weight {value!r}; expected a positive "
                "number: leave out the samples of a class that should not count"
            )
    present = np.bincount(codes[weight > 0], minlength=len(classes)) > 0
    if np.all(present):
        return
    if present.sum() == 1:
        raise ValueError(
            "Invalid input - all samples with positive weights belong to the same class, "
            f"{classes[present][0]!r}; give samples of another class a positive weight"
        )
    raise ValueError(
        f"no sample of class {classes[~present][0]!r} has a positive weight; drop the class, or "
        "weigh it"
    )


def _has_probabilities(machine: PairwiseMachine) -> bool:
    if machine.probability is not True:
        raise AttributeError("predict_proba is only available with probability=True")
    return True
