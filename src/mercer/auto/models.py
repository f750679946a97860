"""Estimators that take a raw table and no settings."""

from __future__ import annotations

import time
from contextlib import nullcontext
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_consistent_length, column_or_1d

from mercer._sklearn import Interval, StrOptions, check_n_features, check_y
from mercer.arrays import row_blocks, to_cpu
from mercer.arrays.remote import over_blocks
from mercer.arrays.threads import one_blas_thread
from mercer.auto import combination
from mercer.auto.classes import METRICS, as_model, best_likelihood, best_offsets
from mercer.auto.leave_one_out import best_alpha, least_alpha, left_out, weighed
from mercer.auto.likelihood import fit_likelihood, mean_loss
from mercer.auto.novelty import novelty
from mercer.auto.residuals import intervals, sorted_residuals
from mercer.auto.search import Clock, Search, take
from mercer.auto.table_search import TableSearch
from mercer.auto.targets import Targets
from mercer.estimators import KernelRidge, KernelRidgeCV
from mercer.estimators.fitting import atomic_fit, warn_of_convergence
from mercer.estimators.inputs import require_fitted
from mercer.estimators.labels import (
    check_labels,
    checked_weights,
    refuse_missing_labels,
    refuse_words,
    require_weight,
)
from mercer.estimators.scores import Classifier, Regressor
from mercer.solvers.ridge_problem import float32_is_small
from mercer.tables.coding import TableCoding, as_table
from mercer.tables.leaks import possible_leaks
from mercer.tables.sparse import are_all_equal, sparse_rows, stays_sparse

# Rows up to which the final fit is exact, and centres beyond.
_EXACT = 5000
_CENTRES, _FEWEST_CENTRES = 1500, 20
# Rows that the final regulariser is chosen on, by this factor.
_PATH_ROWS = 1000
_FACTOR = 4.0
# Factorisations that an exact fit takes, and as many of the centres' size for each row.
_FACTORISATIONS = 2
# Classes up to which all rows are left out; of more, those that the regulariser is chosen on.
_LEFT_OUT_CLASSES = 3
# Columns and rows that are examined for leaks of the target.
_LEAK_COLUMNS, _LEAK_ROWS = 3, 1000
# Copies of a table, made dense, that its coding holds at once.
_COPIES = 8
# Multiplications of matrices that one thread has done in a few seconds.
_ONE_THREAD = 2**35


class _AutoKernel(BaseEstimator):
    """What classification and regression share: search, final path, prediction."""

    _parameter_constraints: dict = {
        "quality": [StrOptions({"best", "fast"})],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state"],
    }

    def _search(self, X: Any, Y: np.ndarray, weight: np.ndarray | None, groups: Any) -> Search:
        """Choose the coding and the kernel for targets (n, t)."""
        clock, random = Clock(self.max_time), check_random_state(self.random_state)
        with one_blas_thread():
            roots = None if weight is None else np.sqrt(weight)
            if sp.issparse(X):
                search = Search(X, Y, clock, random, roots)
            else:
                search = TableSearch(
                    X, Y, clock, random, roots, groups=groups, quality=self.quality
                )
            try:
                search.run()
            except KeyboardInterrupt:
                search.stop()
                warn_of_convergence("the search was interrupted; fitting the best kernel so far")
        self.coding_ = search.coding
        self.n_features_in_ = search.coding.n_features_in_
        if hasattr(search.coding, "feature_names_in_"):
            self.feature_names_in_ = search.coding.feature_names_in_
        self.kernel_ = search.kernel
        search.seed = random.randint(2**31 - 1)
        return search

    def _fit_partitions(
        self,
        search: Search,
        y: np.ndarray,
        is_classes: bool,
        weight: np.ndarray | None,
        groups: Any,
    ) -> None:
        """Boosted partitions of the same points, where they are worth it."""
        self.partitions_, self.weights_ = None, None
        try:
            self.partitions_ = combination.boosted(
                search.coding,
                search.all_points(),
                y,
                is_classes=is_classes,
                weight=weight,
                groups=groups,
                seed=search.seed,
                seconds=search.clock.left(),
                quality=self.quality,
            )
        except KeyboardInterrupt:
            warn_of_convergence("interrupted; the model has no boosted partitions")

    def _centres(self, search: Search) -> int | None:
        """How many centres the final fit is on; None where there is time for an exact one."""
        n = len(search.Y)
        work = search.clock.left() / max(_FACTORISATIONS * search.pace, 1e-300)
        if n <= _EXACT and n**3 <= work:
            return None
        return min(int(np.clip(np.sqrt(work / n), _FEWEST_CENTRES, _CENTRES)), n)

    def _fit_squares(self, search: Search, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Fit by least squares; returns predictions left one out of (n, t)."""
        points, n, centres = search.all_points(), len(Y), self._centres(search)
        if are_all_equal(points):
            return self._fit_nothing(points, Y)
        if centres is None:
            with one_blas_thread() if n <= _PATH_ROWS else nullcontext():
                return self._fit_exactly(points, Y, weight, search)
        with one_blas_thread() if n * centres**2 <= _ONE_THREAD else nullcontext():
            return self._fit_on_centres(points, Y, weight, search.alpha, centres)

    def _report(
        self,
        search: Search,
        predictions: np.ndarray,
        Y: np.ndarray,
        weight: np.ndarray | None,
        ablation: dict[str, float],
    ) -> None:
        """``report_``, with the error of predictions left one out of targets (n, t)."""
        errors = np.mean((predictions - Y) ** 2, axis=1)
        mean = np.average(Y, axis=0, weights=weight)
        self.report_ = {
            "tried": search.tried,
            "ablation": ablation,
            "scaling": self.coding_.scaling,
            "kernel": repr(self.kernel_),
            "alpha": float(self.alpha_),
            "solver": self.model_.result_.method,
            "left_one_out": float(np.average(errors, weights=weight)),
            "baseline": float(np.average(np.mean((Y - mean) ** 2, axis=1), weights=weight)),
            "seconds": search.clock.seconds,
        }

    def _name_columns(self, search: Search, X: Any, y: np.ndarray, task: str) -> None:
        """In the report, the columns that are not learnt and those that may be leaks."""
        names = getattr(self, "feature_names_in_", None)

        def name(column: int) -> str:
            return str(column if names is None else names[column])

        identifiers = getattr(self.coding_, "identifiers_", {})
        self.report_["not_learnt"] = {name(k): why for k, why in identifiers.items()}
        self.report_["possible_leaks"] = leaks = {}
        # A column that gives the answer away moves the kernel more than most.
        columns = np.sort(search.strongest_columns()[:_LEAK_COLUMNS])
        if len(columns) < 2 or y.ndim > 1:
            return
        some = take(X, np.arange(min(len(y), _LEAK_ROWS)))
        if hasattr(some, "iloc"):
            some = some.iloc[:, columns].set_axis(
                [f"column {i}" for i in range(len(columns))], axis=1
            )
        else:
            some = some[:, columns]
        for found, score in possible_leaks(some, y[: some.shape[0]], task).items():
            leaks[name(columns[int(found.split()[-1])])] = score

    def _fit_nothing(self, points: Any, Y: np.ndarray) -> np.ndarray:
        """A table that tells no row from another: the mean."""
        self.alpha_ = 1.0
        points = points if points.shape[1] else np.zeros((len(Y), 1))
        self.model_ = KernelRidge(kernel=self.kernel_).fit(points, 0 * Y)
        return np.zeros_like(Y)

    def _fit_exactly(
        self, points: Any, Y: np.ndarray, weight: np.ndarray | None, search: Search
    ) -> np.ndarray:
        """The regulariser on many rows, from that of the search; all left out at that one."""
        n, clock, targets = len(Y), search.clock, search.Y
        G = weighed(np.asarray(self.kernel_(points), dtype=np.float64), search.roots)
        rows = np.sort(search.rows(_PATH_ROWS))

        def told(alpha: float, error: float) -> None:
            name = f"alpha {alpha:.3g}, {'all' if len(rows) == n else len(rows)} rows"
            search.note(name, self.coding_, error)
            if clock.left() < 2 * _FACTORISATIONS * search.pace * n**3:
                raise TimeoutError

        part = G if len(rows) == n else G[np.ix_(rows, rows)]
        with one_blas_thread():
            error, alpha, residual = best_alpha(part, targets[rows], search.alpha, _FACTOR, told)
        self.alpha_ = max(alpha, least_alpha(G))
        if len(rows) < n or np.isinf(error):
            if float32_is_small(n, float(G.diagonal().max()), self.alpha_):
                G = G.astype(np.float32)
            error, residual = left_out(G, targets, self.alpha_)
            while np.isinf(error) and self.alpha_ < np.trace(G):
                self.alpha_ *= _FACTOR
                error, residual = left_out(G, targets, self.alpha_)
            search.note(f"alpha {self.alpha_:.3g}, all rows", self.coding_, error)
        self.model_ = KernelRidge(alpha=self.alpha_, kernel=self.kernel_).fit(points, Y, weight)
        return Y - (residual if search.roots is None else residual / search.roots[:, None])

    def _fit_on_centres(
        self, points: Any, Y: np.ndarray, weight: np.ndarray | None, alpha: float, n_centers: int
    ) -> np.ndarray:
        self.model_ = KernelRidgeCV(
            alphas=alpha * _FACTOR ** np.arange(-4.0, 4.5),
            kernel=self.kernel_,
            solver="nystrom",
            n_centers=n_centers,
            random_state=0,
        ).fit(points, Y, weight)
        self.alpha_ = self.model_.alpha_
        return np.asarray(self.model_.loo_predictions_).reshape(Y.shape)

    def novelty(self, X: Any) -> np.ndarray:
        """The fraction of training rows that are nearer to another one than each row is to any.

        Near one for rows unlike all of training: predictions for them are extrapolation. By the
        similarity of the kernel, in which columns count as much as they matter.

        Parameters
        ----------
        X : table

        Returns
        -------
        ndarray of shape (m,)
        """
        require_fitted(self)
        points = self.coding_.transform(X, self)
        if not points.shape[1]:
            return np.zeros(points.shape[0])
        return novelty(self.kernel_, points, self.model_.X_fit_)

    def _scores(self, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Scores of the kernel's function, and those of the partitions where there are some."""
        found = self._all_scores(X)
        if self.partitions_ is None:
            return found, None
        columns = found.shape[1] - len(self.partitions_.first_)
        return found[:, :columns], found[:, columns:]

    def _all_scores(self, X: Any) -> np.ndarray:
        require_fitted(self)
        if sp.issparse(X) and isinstance(self.coding_, TableCoding) and X.shape[0]:
            check_n_features(self, X, reset=False)
            X = X.tocsr()
            blocks = row_blocks(X.shape[0], _COPIES * 8 * X.shape[1])
            return np.concatenate([self._scores_of(X[rows].toarray()) for rows in blocks])
        return self._scores_of(X)

    def _scores_of(self, X: Any) -> np.ndarray:
        points = self.coding_.transform(X, self)
        if not points.shape[1]:
            return np.zeros((points.shape[0], self.model_.dual_coef_[0].size))
        found = np.asarray(self.model_.predict(points))
        found = found.reshape(len(found), -1)
        if self.partitions_ is None:
            return found
        more = combination.tree_scores(self.coding_, points, self.partitions_)
        return np.hstack([found, more])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.string = inputs.categorical = inputs.allow_nan = inputs.sparse = True
        return tags


class AutoKernelRegressor(Regressor, _AutoKernel):
    r"""Kernel ridge regression with everything found from the data.

    .. math:: k(x, z) = \exp(-\|x - z\|_{1, v}) + \beta \exp(-\|x - z\|_{2, w}^2)

    The points are a table's columns: values and ranks of numbers, indicators and target means of
    categories (`mercer.tables.coordinates.TableCoordinates`); texts and sequences add string
    kernels. The norms weigh each coordinate. The weights, the amplitude :math:`\beta` and the
    regulariser minimise the squared error left one out on some 900 rows, by its exact gradient, and
    then on as many others. One width for all and the regulariser are chosen on 1500 rows. Up to
    5000 rows the fit is exact, beyond that on centres. A skewed target that is never negative is
    learnt as its logarithm too, and both predictions are combined by those left out.

    A sparse matrix of more than 1000 columns, or more than 8 million entries with the zeros, stays
    sparse unless half of it is stored: its columns are scaled and not moved, a missing value counts
    as zero, all features share a width, and a linear kernel is tried too.

    Parameters
    ----------
    quality : {"best", "fast"}, default="best"
        "fast" learns the scales on 300 rows.
    max_time : float or None, default=None
        Seconds; the search ends after half of them, and where an exact fit would take longer than
        the rest, the fit is on as many centres as there is time for. A few are always taken.
    random_state : int, RandomState or None, default=0
        Draws the rows that the search looks at, and the folds of target means.

    Attributes
    ----------
    kernel_ : Kernel
        On the points that ``coding_`` makes of a table.
    alpha_ : float
    coding_ : TableCoordinates or SparseCoding
    model_ : KernelRidge or KernelRidgeCV
    partitions_ : BoostedPartitions or None
        Trees on the same points.
    weights_ : ndarray of shape (2,) or None
        Of the predictions of ``model_`` and of ``partitions_``.
    report_ : dict
        What was tried, with its error and the seconds gone by; what won; the error left one out of
        the whole, and that of the mean as a baseline, both in units of the targets' variance; the
        columns that are not learnt, and those that may be leaks of the target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mercer.auto import AutoKernelRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = AutoKernelRegressor().fit(X, y)
    >>> bool(model.report_["left_one_out"] < 0.55 * model.report_["baseline"])
    True
    """

    def __init__(self, quality: str = "best", max_time: float | None = None, random_state: Any = 0):
        self.quality = quality
        self.max_time = max_time
        self.random_state = random_state

    @atomic_fit
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> AutoKernelRegressor:
        """Choose and fit.

        Parameters
        ----------
        X : DataFrame, array, sparse matrix or list of rows
        y : array of shape (n,) or (n, n_targets)
        sample_weight : float or array of shape (n,), optional
            Weights of the rows in the search and in the final fit; rows of weight zero are left
            out. Columns are scaled without weights.
        groups : array of shape (n,), optional
            Rows of a group, such as the visits of a patient, share a fold where target means of
            categories are cross-fitted.
        """
        refuse_words(self, y)
        y = check_y(_given(y), multi_output=True, y_numeric=True, estimator=self)
        y = np.asarray(y, dtype=np.float64)
        self.one_target_ = y.ndim == 1
        X, y, weight, groups = _weighted_rows(_rows_of(X, y), y, sample_weight, groups)
        y = y.reshape(len(y), -1)
        targets = Targets.of(y, weight)
        Y = targets.standardised(y)
        search = self._search(X, Y, weight, groups)
        left_out = self._fit_squares(search, Y, weight)
        one = slice(None) if y.shape[1] > 1 else 0
        self.y_mean_, self.y_scale_ = targets.mean[one], targets.scale[one]
        found = targets.combined(left_out, y, weight)
        self.log_target_, self.tree_log_target_ = found.log, None
        predictions = found.predictions(left_out)
        self._fit_partitions(search, Y, False, weight, groups)
        ablation: dict[str, float] = {}
        if self.partitions_ is not None:
            predictions, y, weight, ablation = self._combined(targets, predictions, y, weight)
        self.residuals_ = sorted_residuals(predictions, y)
        self._report(search, predictions / targets.scale, y / targets.scale, weight, ablation)
        self._name_columns(search, X, Y[:, 0] if self.one_target_ else Y, "regression")
        return self

    def _combined(
        self, targets: Targets, kernel: np.ndarray, y: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, dict[str, float]]:
        """Weights of both parts; predictions of rows that both left out, their y and weights, and
        what each part alone errs."""
        left_out, self.partitions_.left_out_ = self.partitions_.left_out_, None
        rows = np.flatnonzero(np.isfinite(left_out[:, 0]))
        left_out, kernel, y = left_out[rows], kernel[rows], y[rows]
        weight = None if weight is None else weight[rows]
        found = targets.combined(left_out, y, weight)
        self.tree_log_target_ = found.log
        parts = [
            (part - targets.mean) / targets.scale for part in (kernel, found.predictions(left_out))
        ]
        Y = (y - targets.mean) / targets.scale
        self.weights_ = combination.weights_for_numbers(parts, Y, weight)
        combined = self.weights_[0] * parts[0] + self.weights_[1] * parts[1]

        def error(F: np.ndarray) -> float:
            return float(np.average(np.mean((F - Y) ** 2, axis=1), weights=weight))

        alone = {"kernel": parts[0], "partitions": parts[1]}
        ablation = combination.ablation(alone, combined, error)
        return combined * targets.scale + targets.mean, y, weight, ablation

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predictions for a table."""
        scores, more = self._scores(X)
        mean, scale = np.atleast_1d(self.y_mean_, self.y_scale_)
        values = Targets(mean, scale, self.log_target_).predictions(scores)
        if more is not None:
            others = Targets(mean, scale, self.tree_log_target_).predictions(more)
            a, b = self.weights_
            values = a * (values - mean) + b * (others - mean) + mean
        return values[:, 0] if self.one_target_ else values

    @over_blocks
    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Intervals for new targets, from leave-one-out residuals of rows predicted alike.

        They have the coverage on average over new rows, whatever the distribution of the errors,
        and are wider where errors are larger among training rows with about the same prediction.

        Parameters
        ----------
        X : table
        coverage : float, default=0.9

        Returns
        -------
        ndarray of shape (2, m) or (2, m, n_targets)
            Lower and upper ends; infinite where there are too few rows for the coverage.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r}; expected a number between 0 and 1")
        predicted = self.predict(X)
        if self.residuals_ is None:
            raise ValueError(
                "this model was saved by an earlier version, without the residuals that intervals "
                "are taken from; fit it again"
            )
        columns = predicted.reshape(len(predicted), -1).T
        pairs = zip(columns, self.residuals_, strict=True)
        found = np.stack([intervals(f, known, coverage) for f, known in pairs], axis=2)
        return found[..., 0] if self.one_target_ else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class AutoKernelClassifier(Classifier, _AutoKernel):
    r"""Kernel logistic regression with everything found from the data.

    .. math:: \min_f \sum_i -\log p_{y_i}(x_i) + \tfrac{\alpha}{2} \|f\|^2,
              \qquad p = \mathrm{softmax}(f)

    The kernel is that of `AutoKernelRegressor` for indicators of the classes. The regulariser has
    the least loss left one out on some 1000 rows. Probabilities are calibrated by one factor on
    scores that are left out. Beyond 5000 rows, ridge regression on indicators and centres takes
    the place of logistic regression.

    Parameters
    ----------
    quality, max_time, random_state
        As in `AutoKernelRegressor`.
    metric : {"log_loss", "auc", "accuracy", "balanced_accuracy", "f1"}, default="log_loss"
        What `predict` should do best: "balanced_accuracy" and "f1" move the threshold between the
        classes, by the probabilities left one out. Probabilities do not depend on it.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, which multiply those of their rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    kernel_, alpha_, coding_, model_, partitions_, weights_, report_
        As in `AutoKernelRegressor`; ``report_["left_one_out_accuracy"]`` beside the share of the
        largest class, ``report_["baseline_accuracy"]``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mercer.auto import AutoKernelClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = AutoKernelClassifier().fit(X, y)
    >>> model.report_["left_one_out_accuracy"] > 0.97
    True
    """

    _parameter_constraints: dict = {
        **_AutoKernel._parameter_constraints,
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
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> AutoKernelClassifier:
        """Choose and fit.

        Parameters
        ----------
        X : DataFrame, array, sparse matrix or list of rows
        y : array of shape (n,)
            Labels.
        sample_weight : float or array of shape (n,), optional
            Weights of the rows in the search and in the final fit; rows of weight zero are left
            out. Columns are scaled without weights.
        groups : array of shape (n,), optional
            Rows of a group, such as the visits of a patient, share a fold where target means of
            categories are cross-fitted.
        """
        refuse_missing_labels(y)
        y = column_or_1d(_given(y), warn=True)
        if y.dtype.kind == "f":
            y = check_y(y, estimator=self)
        check_labels(y)
        X = _rows_of(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_.tolist()[0]!r}; a classifier needs at least two "
                "classes"
            )
        weight = checked_weights(sample_weight, X)
        if weight is not None:
            require_weight(self.classes_, codes, weight)
        weight = _by_classes(self.class_weight, self.classes_, codes, weight)
        X, codes, weight, groups = _weighted_rows(X, codes, weight, groups)
        targets = np.eye(len(self.classes_))[codes]
        shares = np.average(targets, axis=0, weights=weight)
        columns = slice(1, None) if len(shares) == 2 else slice(None)
        self.shares_ = shares[columns]
        Y = targets[:, columns] - self.shares_
        search = self._search(X, Y, weight, groups)
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
        self.report_["left_one_out_accuracy"] = float(np.average(right, weights=weight))
        self.report_["baseline_accuracy"] = float(shares.max())
        return self

    def _fit_likelihood(
        self, search: Search, points: Any, codes: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Logistic regression on all rows; returns scores left out, and of which rows."""
        began, C, n = time.perf_counter(), len(self.classes_), len(codes)
        K = np.asarray(self.kernel_(points)).astype(np.float32 if n > _PATH_ROWS else np.float64)
        rows = np.sort(search.rows(_PATH_ROWS))

        def told(lam: float, loss: float) -> None:
            name = f"logistic loss, alpha {lam:.3g}, {'all' if len(rows) == n else len(rows)} rows"
            search.note(name, self.coding_, loss)
            if search.is_late(_FACTORISATIONS * len(rows) ** 3):
                raise TimeoutError

        part = K if len(rows) == n else K[np.ix_(rows, rows)].astype(np.float64)
        with one_blas_thread():
            weights = None if weight is None else weight[rows]
            lam, found = best_likelihood(part, codes[rows], C, weights, told)
        exact = C <= _LEFT_OUT_CLASSES or len(rows) == n
        left_out = found.left_out
        if len(rows) < n:
            found = fit_likelihood(K, codes, C, lam, weight, leave_out=exact)
        if exact and len(rows) < n:
            left_out, rows = found.left_out, np.arange(n)
            loss = mean_loss(left_out, codes, weight)
            search.note(f"logistic loss, alpha {lam:.3g}, all rows", self.coding_, loss)
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


def _by_classes(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray | None
) -> np.ndarray | None:
    """Weights of rows times those of their classes; None for none."""
    if class_weight is None:
        return weight
    of_rows = compute_sample_weight(class_weight, classes[codes])
    return of_rows if weight is None else of_rows * weight


def _steepness(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> float:
    """The factor on scores that makes the classes likeliest.

    Each row is taken to be of its class with probability 1 - 1/(n + 2), in the manner of Platt
    (1999): scores that tell all classes apart would else make every probability 0 or 1.
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


def _given(y: Any) -> Any:
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    return to_cpu(y)


def _rows_of(X: Any, y: np.ndarray) -> Any:
    """The table, with as many rows as there are targets."""
    table = sparse_rows(X) if stays_sparse(X) else as_table(X)
    check_consistent_length(table, y)
    if len(y) < 2:
        raise ValueError(f"Found array with {len(y)} sample(s) while a minimum of 2 is required.")
    return table


def _weighted_rows(
    X: Any, y: np.ndarray, sample_weight: Any, groups: Any
) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The rows that have weight: their targets, weights of mean 1 and groups; None for none."""
    if groups is not None:
        groups = column_or_1d(to_cpu(groups))
        check_consistent_length(groups, y)
    weight = checked_weights(sample_weight, X)
    if weight is None:
        return X, y, None, groups
    rows = np.flatnonzero(weight)
    if len(rows) < 2:
        raise ValueError(
            f"Found array with {len(rows)} sample(s) of positive weight while a minimum of 2 is "
            "required."
        )
    if len(rows) < len(y):
        X, y, weight = take(X, rows), y[rows], weight[rows]
        groups = None if groups is None else groups[rows]
    return X, y, weight / weight.mean(), groups
