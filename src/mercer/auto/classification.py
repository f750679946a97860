"""Classification of a raw table, with no settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.utils.validation import column_or_1d

from mercer._sklearn import StrOptions, check_y
from mercer.arrays.remote import over_blocks
from mercer.arrays.threads import one_blas_thread
from mercer.auto import combination
from mercer.auto.automatic import FACTORISATIONS, PATH_ROWS, AutoKernel
from mercer.auto.classes import METRICS, as_model, best_likelihood, best_offsets
from mercer.auto.likelihood import fit_likelihood, mean_loss
from mercer.auto.rows import required_target, table_of_rows, times_class_weight, weighted_rows
from mercer.auto.search import LOGISTIC, Search
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.labels import (
    check_labels,
    checked_weights,
    refuse_missing_labels,
    require_weight,
)
from mercer.estimators.scores import Classifier
from mercer.tables.sparse import are_all_equal

# Classes up to which all rows have leave-one-out scores; of more, those that the regulariser is
# chosen on.
_LEFT_OUT_CLASSES = 3


class AutoKernelClassifier(Classifier, AutoKernel):
    r"""Kernel logistic regression with everything found from the data.

    .. math:: \min_f \sum_i -\log p_{y_i}(x_i) + \tfrac{\alpha}{2} \|f\|^2,
              \qquad p = \mathrm{softmax}(f)

    The kernel is that of `AutoKernelRegressor` for indicators of the classes. The regulariser has
    the least leave-one-out loss on some 1000 rows. Probabilities are calibrated by one factor on
    leave-one-out scores. Beyond 5000 rows, ridge regression on indicators and centres takes
    the place of logistic regression.

    Parameters
    ----------
    quality, max_time, random_state
        As in `AutoKernelRegressor`.
    metric : {"log_loss", "auc", "accuracy", "balanced_accuracy", "f1"}, default="log_loss"
        What `predict` should do best: "balanced_accuracy" and "f1" move the threshold between the
        classes, by leave-one-out probabilities. Probabilities do not depend on it.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of their rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    kernel_, alpha_, coding_, model_, partitions_, weights_, report_
        As in `AutoKernelRegressor`; compare ``report_["leave_one_out_accuracy"]`` with
        the share of the largest class, ``report_["baseline_accuracy"]``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mercer.auto import AutoKernelClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = AutoKernelClassifier().fit(X, y)
    >>> model.report_["leave_one_out_accuracy"] > 0.97
    True
    """

    _parameter_constraints: dict = {
        **AutoKernel._parameter_constraints,
        "metric": [StrOptions(set(METRICS))],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        quality: str = "best",
        max_time: float | None = None,
        metric: str = "log_loss",
        class_weight: Any = None,
        random_state: Any = 0,
    ):
        self.quality = quality
        self.max_time = max_time
        self.metric = metric
        self.class_weight = class_weight
        self.random_state = random_state

    @atomic_fit
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        callback: Callable[[dict[str, Any]], Any] | None = None,
    ) -> AutoKernelClassifier:
        """Choose and fit.

        Parameters
        ----------
        X : DataFrame, array, sparse matrix, list of rows, or list of strings or graphs
        y : array of shape (n,)
            Labels.
        sample_weight : float or array of shape (n,), optional
            Weights of the rows in the search and in the final fit; rows of weight zero are left
            out. Columns are scaled without weights.
        groups : array of shape (n,), optional
            Rows of a group, such as the visits of a patient, share a fold where target means of
            categories are cross-fitted, and where partitions are boosted.
        callback : callable, optional
            Called after each stage with a dict of its name (``stage``), its error, the ``best``
            error so far and the ``seconds`` gone by. True ends the search: the final fit is that
            of the best kernel so far.
        """
        refuse_missing_labels(y)
        y = column_or_1d(required_target(y), warn=True)
        if y.dtype.kind == "f":
            y = check_y(y, estimator=self)
        check_labels(y)
        X = table_of_rows(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_.tolist()[0]!r}; a classifier needs at least two "
                "classes"
            )
        weight = checked_weights(sample_weight, X)
        if weight is not None:
            require_weight(self.classes_, codes, weight)
        weight = times_class_weight(self.class_weight, self.classes_, codes, weight)
        X, codes, weight, groups = weighted_rows(X, codes, weight, groups)
        targets = np.eye(len(self.classes_))[codes]
        shares = np.average(targets, axis=0, weights=weight)
        columns = slice(1, None) if len(shares) == 2 else slice(None)
        self.shares_ = shares[columns]
        Y = targets[:, columns] - self.shares_
        search = self._search(X, Y, weight, groups, callback)
        points = search.all_points()
        self.loss_, all_codes, all_weight, rows = "squared", codes, weight, np.arange(len(codes))
        if self._centres(search) is None and not are_all_equal(points):
            self.loss_ = "logistic"
            left_out, rows = self._fit_likelihood(search, points, codes, weight)
            codes, targets = codes[rows], targets[rows]
            weight = None if weight is None else weight[rows]
        else:
            left_out = self._fit_squares(search, Y, weight) + self.shares_
        scores = self._by_class(left_out)
        self.steepness_ = _steepness(scores, codes, weight)
        scores *= self.steepness_
        self._fit_partitions(search, all_codes, True, all_weight, groups)
        ablation: dict[str, float] = {}
        if self.partitions_ is not None:
            scores, known, ablation = self._combined(scores, rows, all_codes, all_weight)
            codes, targets = codes[known], targets[known]
            weight = None if weight is None else weight[known]
        chances = softmax(scores, axis=1)
        self._report(search, chances[:, columns], targets[:, columns], weight, ablation)
        self.offsets_ = best_offsets(self.metric, chances, codes, weight)
        self._name_columns(search, X, all_codes, "classification")
        right = (scores + self.offsets_).argmax(axis=1) == codes
        accuracy = float(np.average(right, weights=weight))
        self.report_["leave_one_out_accuracy"] = accuracy
        self.report_["left_one_out_accuracy"] = accuracy  # the name of the key before
        self.report_["baseline_accuracy"] = float(shares.max())
        return self

    def _fit_likelihood(
        self, search: Search, points: Any, codes: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Logistic regression on all rows; returns leave-one-out scores, and their rows."""
        began, C, n = time.perf_counter(), len(self.classes_), len(codes)
        K = np.asarray(self.kernel_(points)).astype(np.float32 if n > PATH_ROWS else np.float64)
        rows = np.sort(search.rows(PATH_ROWS))

        def report(lam: float, loss: float) -> None:
            name = f"{LOGISTIC}, alpha {lam:.3g}, {'all' if len(rows) == n else len(rows)} rows"
            search.note(name, self.coding_, loss)
            if search.is_late(FACTORISATIONS * len(rows) ** 3):
                raise TimeoutError

        part = K if len(rows) == n else K[np.ix_(rows, rows)].astype(np.float64)
        with one_blas_thread():
            weights = None if weight is None else weight[rows]
            lam, found = best_likelihood(part, codes[rows], C, weights, report)
        exact = C <= _LEFT_OUT_CLASSES or len(rows) == n
        left_out = found.left_out
        if len(rows) < n:
            coef = np.zeros((n, found.coef.shape[1]))
            coef[rows] = found.coef
            begin = coef, found.intercept
            found = fit_likelihood(K, codes, C, lam, weight, leave_out=exact, begin=begin)
        if exact and len(rows) < n:
            left_out, rows = found.left_out, np.arange(n)
            loss = mean_loss(left_out, codes, weight)
            search.note(f"{LOGISTIC}, alpha {lam:.3g}, all rows", self.coding_, loss)
        self.alpha_ = lam
        self.model_ = as_model(self.kernel_, points, found, codes, lam, weight, began)
        return left_out, rows

    def _by_class(self, scores: np.ndarray) -> np.ndarray:
        """Scores of every class, (n, n_classes)."""
        if scores.shape[1] > 1:
            return scores
        if self.loss_ == "logistic":
            return np.hstack([-scores / 2, scores / 2])
        return np.hstack([1 - scores, scores])

    def _combined(
        self, scores: np.ndarray, rows: np.ndarray, codes: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
        """Weights of both parts; scores of rows that both left out, which of ``rows`` they are, and
        what each part alone errs."""
        left_out, self.partitions_.left_out_ = self.partitions_.left_out_[rows], None
        known = np.flatnonzero(np.isfinite(left_out[:, 0]))
        parts = [scores[known], _wide(left_out[known])]
        codes = codes[rows][known]
        weight = None if weight is None else weight[rows][known]
        steepness = _steepness(parts[1], codes, weight)
        self.weights_ = combination.weights_for_classes(
            [parts[0], steepness * parts[1]], codes, weight
        ) * np.array([1.0, steepness])
        combined = self.weights_[0] * parts[0] + self.weights_[1] * parts[1]

        def error(F: np.ndarray) -> float:
            return float(
                np.average(-log_softmax(F, axis=1)[np.arange(len(F)), codes], weights=weight)
            )

        alone = {"kernel": parts[0], "partitions": steepness * parts[1]}
        return combined, known, combination.ablation(alone, combined, error)

    def _class_scores(self, X: Any) -> np.ndarray:
        """Logarithms of probabilities of all classes, up to a constant, (n, n_classes)."""
        scores, more = self._scores(X)
        scores = self._by_class(scores if self.loss_ == "logistic" else scores + self.shares_)
        scores = self.steepness_ * scores
        if more is None:
            return scores
        return self.weights_[0] * scores + self.weights_[1] * _wide(more)

    @over_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes, (n, n_classes); of two classes one, positive for the second."""
        scores = (self._class_scores(X) + self.offsets_) / self.steepness_
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @over_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, (n, n_classes)."""
        return softmax(self._class_scores(X), axis=1)

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest score."""
        scores = self._class_scores(X) + self.offsets_
        return self.classes_[scores.argmax(axis=1)]


def _wide(scores: np.ndarray) -> np.ndarray:
    """Scores of every class from those of partitions, (n, n_classes)."""
    return np.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores


def _steepness(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> float:
    """The factor on scores that makes the classes likeliest.

    Each row is taken to be of its class with probability 1 - 1/(n + 2), in the manner of Platt
    (1999): otherwise scores that separate all classes would make every probability 0 or 1.
    """
    n, classes = scores.shape
    odd = 1 / (n + 2)
    right = scores[np.arange(n), codes]
    right = (1 - odd) * right + odd * (scores.sum(axis=1) - right) / (classes - 1)

    def loss(logarithm: float) -> float:
        factor = np.exp(logarithm)
        losses = logsumexp(factor * scores, axis=1) - factor * right
        return float(np.average(losses, weights=weight))

    found = minimize_scalar(loss, bounds=(np.log(0.01), np.log(100.0)), method="bounded")
    return float(np.exp(found.x))
