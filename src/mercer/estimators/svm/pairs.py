"""One binary problem per pair of classes, on one Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import StrOptions, one_vs_rest_scores
from mercer.arrays import as_dense, as_numpy, is_tensor, like, refuse_tensors, to_cpu
from mercer.arrays.remote import over_blocks
from mercer.estimators.constraints import CLASS_WEIGHT
from mercer.estimators.fitting import atomic_fit, warn_the_caller
from mercer.estimators.inputs import is_precomputed, require_fitted, validate_query
from mercer.estimators.labels import class_labels, validate_supervised
from mercer.estimators.scores import Classifier
from mercer.estimators.svm.engine import PARAMETERS, SupportVectorMachine
from mercer.estimators.svm.forms import Expansion
from mercer.estimators.svm.layout import pairwise_columns
from mercer.estimators.svm.training import Task, Training
from mercer.estimators.svm.values import function_values
from mercer.operators import GramOperator
from mercer.solvers.qp.class_pairs import ClassPairs
from mercer.solvers.result import Result

CLASSIFICATION: dict = {
    **PARAMETERS,
    **CLASS_WEIGHT,
    "probability": ["boolean", StrOptions({"deprecated"})],
    "decision_function_shape": [StrOptions({"ovr", "ovo"})],
    "break_ties": ["boolean"],
    "random_state": ["random_state"],
}

# From this many classes on, predictions sum over the support vectors of one class at a time:
# n_classes - 1 functions of each in place of one per pair.
MANY_CLASSES = 6


class PairTasks(Sequence):
    """One task per pair of classes, made when it is asked for.

    Parameters
    ----------
    weight : ndarray of shape (n,)
        Of all points.
    members : list of int arrays
        The places of the points of each class, in order.

    Examples
    --------
    >>> import numpy as np
    >>> tasks = PairTasks(np.array([1.0, 2.0, 3.0]), [np.array([0]), np.array([1]), np.array([2])])
    >>> len(tasks), tasks[1].index, tasks[1].targets
    (3, array([0, 2]), array([ 1., -1.]))
    """

    def __init__(self, weight: np.ndarray, members: list[np.ndarray]):
        self.weight, self.members = weight, members
        self.pairs = list(combinations(range(len(members)), 2))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, pair: Any) -> Any:
        i, j = self.pairs[pair]
        index = np.concatenate([self.members[i], self.members[j]])
        sign = np.ones(len(index))
        sign[len(self.members[i]) :] = -1.0
        if len(self.pairs) == 1:  # all points in their own order
            in_order = np.argsort(index)
            index, sign = index[in_order], sign[in_order]
        return Task(index, sign, self.weight[index])


class PairwiseMachine(Classifier, SupportVectorMachine):
    """Base of the two classifiers: one machine per pair of classes, which vote."""

    _refusal_of_one_class = "Invalid input"

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model: one binary problem per pair of classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C; points of zero or negative weight are dropped.

        Returns
        -------
        self
        """
        for name in ("calibrated_", "tie_order_"):
            self.__dict__.pop(name, None)
        if self.probability != "deprecated":
            name = type(self).__name__
            warn_the_caller(
                "The `probability` parameter is deprecated, as in scikit-learn 1.9, and goes when "
                f"its own does: use CalibratedClassifierCV({name}(), ensemble=False)",
                FutureWarning,
            )
        training = self._training(X, y, sample_weight)
        if self.probability is True:
            what = "probability=True (as KernelMachineClassifier has probabilities)"
            refuse_tensors(training.X, what, ValueError)
        self._train(training)
        if self.probability is True:
            self.calibrated_ = self._calibrate(training.X, training.y, sample_weight)
        return self

    def _checked(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        return validate_supervised(self, X, y)

    def _tasks(self, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        self.classes_, codes = class_labels(self, y)
        k = len(self.classes_)
        self.class_weight_ = np.ones(k)
        if self.class_weight is not None:
            self.class_weight_ = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        self._require_classes(codes, weight)
        weight = weight * self.class_weight_[codes]
        order = np.argsort(codes, kind="stable")
        if k == 2 or is_precomputed(self.kernel):  # where runs of columns save nothing
            order, by_class = np.arange(len(codes)), order
        else:
            weight, by_class = weight[order], np.arange(len(codes))
        ends = np.searchsorted(codes[order][by_class], np.arange(1, k))
        members = [some[weight[some] > 0] for some in np.split(by_class, ends)]
        return codes, order, PairTasks(weight, members)

    def _train(self, training: Training) -> Self:
        self.__dict__.pop("pair_coef_", None)
        solved = self._solve_all_pairs(training)
        if solved is None:
            return super()._train(training)
        operator, found = solved
        sign = -1.0 if len(self.classes_) == 2 else 1.0
        layout = found.layout
        support = np.flatnonzero(np.any(layout, axis=0))
        points = training.order[np.concatenate(training.tasks.members)[support]]
        levels = -sign * found.multipliers + 0.0
        with np.errstate(divide="ignore"):
            margins = 1 / np.sqrt(found.squared_norms)
        dual = sign * layout[:, support]
        self._set_layout(training, points, dual, levels, margins)
        self._refuse_indefinite_support(training, operator)
        if len(self.classes_) < MANY_CLASSES:
            two = len(self.classes_) == 2
            self.pair_coef_ = dual.T.copy() if two else pairwise_columns(dual, self.n_support_)
        self._set_result(found.result)
        self.n_iter_ = found.n_iter.astype(np.int32)
        return self

    def _solve_all_pairs(self, training: Training) -> tuple[GramOperator, ClassPairs] | None:
        """All pairs solved at once where they are many and small; else None."""
        return None

    def _require_classes(self, codes: np.ndarray, weight: np.ndarray) -> None:
        """Raise a ValueError where weights leave a class without samples, or make no sense."""
        classes = self.classes_.tolist()
        for label, value in zip(classes, self.class_weight_.tolist(), strict=True):
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
                f"{self._refusal_of_one_class} - all samples with positive weights belong to the "
                f"same class, {classes[np.argmax(present)]!r}; give samples of another class a "
                "positive weight"
            )
        raise ValueError(
            f"no sample of class {classes[np.argmin(present)]!r} has a positive weight; drop the "
            "class, or weigh it"
        )

    def _set_coefficients(
        self, training: Training, found: np.ndarray, applied: np.ndarray, models: list[Expansion]
    ) -> None:
        super()._set_coefficients(training, found, applied, models)
        sign = -1.0 if len(self.classes_) == 2 else 1.0
        self.pair_coef_ = sign * applied[self.support_]

    @property
    def pair_coef_(self) -> np.ndarray:
        """Coefficients of every pair's function over the support points, (n_SV, n_pairs)."""
        kept = self.__dict__.get("pair_coef_")
        if kept is not None:
            return kept
        if not hasattr(self, "dual_coef_"):
            raise AttributeError("pair_coef_ is there once the model is fitted")
        return pairwise_columns(as_dense(self.dual_coef_), self.n_support_)

    @pair_coef_.setter
    def pair_coef_(self, columns: Any) -> None:
        self.__dict__["pair_coef_"] = columns

    def _set_results(self, results: list[Result]) -> None:
        super()._set_results(results)
        self.n_iter_ = np.array([result.n_iter for result in results], dtype=np.int32)

    def _calibrate(self, X: Any, y: np.ndarray, sample_weight: Any) -> Any:
        """Platt's probabilities, from five folds, in the way scikit-learn now recommends."""
        from sklearn.calibration import CalibratedClassifierCV  # slow to import
        from sklearn.model_selection import StratifiedKFold

        labels, counts = np.unique(y, return_counts=True)
        everything = np.arange(len(y))
        cv: Any = [(everything, everything)]
        if counts.min() > 1:
            folds = min(5, int(counts.min()))
            cv = StratifiedKFold(folds, shuffle=True, random_state=self.random_state)
        else:
            warn_the_caller(
                f"class {labels.tolist()[np.argmin(counts)]!r} has one sample, too few to hold any "
                "out: probabilities are calibrated on the training points, and too sure",
                UserWarning,
            )
        plain = clone(self).set_params(probability="deprecated")
        return CalibratedClassifierCV(plain, cv=cv, ensemble=False).fit(
            X, y, sample_weight=sample_weight
        )

    def _columns(self) -> np.ndarray:
        return to_cpu(self.pair_coef_)

    @property
    def _by_class(self) -> bool:
        """Whether LIBSVM's layout is what is computed with: n_classes - 1 functions per point."""
        return len(self.classes_) >= MANY_CLASSES and "pair_coef_" not in self.__dict__

    def _sums_by_class(self) -> bool:
        return self._by_class

    def _summed(self, product: Callable[[slice, np.ndarray], np.ndarray]) -> np.ndarray:
        if not self._by_class:
            return super()._summed(product)
        layout, ends = as_dense(self.dual_coef_), np.cumsum(self.n_support_)
        members = [slice(end - size, end) for end, size in zip(ends, self.n_support_, strict=True)]
        sums = [product(some, layout[:, some].T) for some in members]
        pairs = combinations(range(len(members)), 2)
        return np.stack([sums[i][:, j - 1] + sums[j][:, i] for i, j in pairs], axis=1)

    def _largest_norm(self) -> float:
        if not self._by_class:
            return super()._largest_norm()
        ends = np.cumsum(self.n_support_)[:-1]
        squares = [np.sum(part**2, axis=1) for part in np.split(as_dense(self.dual_coef_), ends, 1)]
        pairs = combinations(range(len(squares)), 2)
        return float(np.sqrt(max(squares[i][j - 1] + squares[j][i] for i, j in pairs)))

    @over_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values f(x): the signed distance from the boundary in units of the margin.

        Parameters
        ----------
        X : points, or for a precomputed kernel its values between them and the training points

        Returns
        -------
        ndarray
            Of shape (m,) for two classes, positive for ``classes_[1]``. For more, of shape
            (m, n_classes): votes, with ties broken by the values; or with
            ``decision_function_shape="ovo"`` of shape (m, n_classes * (n_classes - 1) / 2),
            positive for the first class of the pair.
        """
        return self._shaped(function_values(self, X))

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """The class with most votes, shape (m,); of ties the first, unless ``break_ties``."""
        require_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return self._elected(as_numpy(function_values(self, X)))

    def _shaped(self, values: Any) -> Any:
        """From the values of all pairs, (m, n_pairs), to those of `decision_function`."""
        if len(self.classes_) == 2:
            return values[:, 0]
        if self.decision_function_shape == "ovo":
            return values
        if not is_tensor(values):
            return one_vs_rest_scores(values < 0, -values, len(self.classes_))
        # The same for a tensor: votes, with ties broken by sums of values.
        k = len(self.classes_)
        sides = np.zeros((values.shape[1], k))
        for column, (i, j) in enumerate(combinations(range(k), 2)):
            sides[column, i], sides[column, j] = 1, -1
        sides, signs = like(sides, values), 1 - 2 * like(values < 0, values)
        votes, confidence = (signs @ sides + (k - 1)) / 2, values @ sides
        return votes + confidence / (3 * (confidence.abs() + 1))

    def _elected(self, values: np.ndarray) -> np.ndarray:
        """From the values of all pairs, (m, n_pairs), to classes."""
        k = len(self.classes_)
        if k == 2:
            return self.classes_[(values[:, 0] >= 0).astype(np.intp)]
        if self.break_ties:
            return self.classes_[np.argmax(self._shaped(values), axis=1)]
        votes = np.zeros((len(values), k))
        for column, (i, j) in enumerate(combinations(range(k), 2)):
            wins = values[:, column] > 0
            votes[:, i] += wins
            votes[:, j] += ~wins
        # A machine read from a file of LIBSVM's breaks ties in the order of that file.
        order = getattr(self, "tie_order_", np.arange(k))
        return self.classes_[order[np.argmax(votes[:, order], axis=1)]]

    @available_if(lambda self: _has_probabilities(self))
    @over_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities of shape (m, n_classes), with ``probability=True``."""
        check_is_fitted(self)
        if not hasattr(self, "calibrated_"):
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False; fit again"
            )
        # The machines of the folds were fitted on checked points, which have no names.
        return self.calibrated_.predict_proba(validate_query(self, X))

    @available_if(lambda self: _has_probabilities(self))
    @over_blocks
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of `predict_proba`, shape (m, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.log(as_numpy(self.predict_proba(X)))


def _has_probabilities(machine: PairwiseMachine) -> bool:
    if machine.probability is not True:
        raise AttributeError("predict_proba is only available with probability=True")
    return True
