"""Regression of a raw table, with no settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._sklearn import check_y
from mercer.arrays.remote import over_blocks
from mercer.auto import combination
from mercer.auto.automatic import AutoKernel
from mercer.auto.residuals import intervals, sorted_residuals
from mercer.auto.rows import required_target, table_of_rows, weighted_rows
from mercer.auto.targets import Targets
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.labels import refuse_words
from mercer.estimators.scores import Regressor


class AutoKernelRegressor(Regressor, AutoKernel):
    r"""Kernel ridge regression with everything found from the data.

    .. math:: k(x, z) = \exp(-\|x - z\|_{1, v}) + \beta \exp(-\|x - z\|_{2, w}^2)

    The points are a table's columns: values and ranks of numbers, indicators and target means of
    categories (`mercer.tables.coordinates.TableCoordinates`); texts and sequences add string
    kernels. The norms weigh each coordinate. The weights, the amplitude :math:`\beta` and the
    regulariser minimise the leave-one-out squared error on some 900 rows, by its exact gradient,
    and then on as many others. One width for all and the regulariser are chosen on 1500 rows. Up to
    5000 rows the fit is exact, beyond that on centres. A skewed target that is never negative is
    learnt as its logarithm too, and both predictions are combined by their leave-one-out errors.

    A sparse matrix of more than 1000 columns, or more than 8 million entries with the zeros, stays
    sparse unless half of it is stored: its columns are scaled and not moved, a missing value counts
    as zero, all features share a width, and a linear kernel is tried too.

    A list of graphs, in the forms of `kernels.Graph.parse`, takes a normalised kernel on graphs:
    Weisfeiler-Lehman labels of some rounds, or shortest paths, perhaps within a Gaussian.

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
        What was tried, with its error and the seconds gone by; what won; the leave-one-out error of
        the whole, and that of the mean as a baseline, both in units of the targets' variance; the
        columns that are not learnt, and those that may be leaks of the target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mercer.auto import AutoKernelRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = AutoKernelRegressor().fit(X, y)
    >>> bool(model.report_["leave_one_out"] < 0.55 * model.report_["baseline"])
    True
    """

    def __init__(self, quality: str = "best", max_time: float | None = None, random_state: Any = 0):
        self.quality = quality
        self.max_time = max_time
        self.random_state = random_state

    @atomic_fit
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        callback: Callable[[dict[str, Any]], Any] | None = None,
    ) -> AutoKernelRegressor:
        """Choose and fit.

        Parameters
        ----------
        X : DataFrame, array, sparse matrix, list of rows, or list of strings or graphs
        y : array of shape (n,) or (n, n_targets)
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
        refuse_words(self, y)
        y = check_y(required_target(y), multi_output=True, y_numeric=True, estimator=self)
        y = np.asarray(y, dtype=np.float64)
        self.one_target_ = y.ndim == 1
        X, y, weight, groups = weighted_rows(table_of_rows(X, y), y, sample_weight, groups)
        y = y.reshape(len(y), -1)
        targets = Targets.of(y, weight)
        Y = targets.standardised(y)
        search = self._search(X, Y, weight, groups, callback)
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
