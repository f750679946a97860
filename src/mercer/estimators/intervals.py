"""Prediction intervals without assumptions on the distribution of the errors.

Jackknife+ compares a new target with the training targets, each predicted from the others: with the
leave-one-out residuals R_i and the predictions f_{-i}(x) without point i, the interval goes from a
low quantile of f_{-i}(x) - R_i to a high quantile of f_{-i}(x) + R_i. Where leave-one-out is not
exact, ten folds take the place of the points (CV+), and of many points a fifth is held out
(split-conformal).

References
----------
Barber, Candès, Ramdas and Tibshirani (2021), "Predictive inference with the jackknife+".
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from mercer.arrays import n_rows, row_blocks, take_rows, to_cpu
from mercer.estimators.inputs import is_precomputed
from mercer.estimators.labels import checked_weights

FOLDS = 10
# From so many points on a fifth is held out in place of folds.
SPLIT_FROM = 20_000


class Training(NamedTuple):
    """What a model was fitted to."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


class Held(NamedTuple):
    """Models of parts of the training points, and how far they are from the other points.

    Attributes
    ----------
    models : list of fitted estimators
    rows : list of arrays, the training rows of each, for a precomputed kernel
    owner : (n,) array, the model that has not seen a point
    residuals : (n, t) array, absolute
    weight : (n,) array
    """

    models: list[Any]
    rows: list[np.ndarray]
    owner: np.ndarray
    residuals: np.ndarray
    weight: np.ndarray


# Beside the models and not in them, as a model is saved without its training targets.
_trained: WeakKeyDictionary[Any, Training] = WeakKeyDictionary()
_held: WeakKeyDictionary[Any, Held] = WeakKeyDictionary()


def remember_training(model: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Keep what a model was fitted to, for intervals; X may be None to forget it."""
    _held.pop(model, None)
    _trained.pop(model, None)
    for name in ("interval_residuals_", "interval_weight_"):
        vars(model).pop(name, None)
    if X is not None:
        _trained[model] = Training(X, y, sample_weight)


class PredictionIntervals:
    """A regression with intervals for new targets."""

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Intervals that contain a given fraction of new targets, whatever their distribution.

        By jackknife+ from exact leave-one-out residuals for kernel ridge regression on up to 5,000
        points, which takes no further fit. Otherwise the first call fits ten models to nine tenths
        of the training points (CV+), or from 20,000 points on one to four fifths. After
        `calibrate_intervals` the residuals are those of its points. Points count as often as they
        weigh, a new point as the mean weight.

        Parameters
        ----------
        X : new points, as for `predict`
        coverage : float, default=0.9

        Returns
        -------
        ndarray of shape (2, m) or (2, m, n_targets)
            Lower and upper ends; infinite where there are too few points for the coverage.
        """
        check_is_fitted(self)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r}; expected a number between 0 and 1")
        model: Any = self
        scores = getattr(model, "interval_residuals_", None)
        if scores is not None:
            return _around(_columns(model.predict(X)), scores, self.interval_weight_, coverage)
        exact = model._leave_one_out(X, coverage)
        return _by_parts(model, X, coverage) if exact is None else exact

    def calibrate_intervals(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Take the intervals from the residuals of points the model has not seen.

        Parameters
        ----------
        X : points that `fit` was not given
        y : array-like of shape (m,) or (m, n_targets)
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        self
        """
        check_is_fitted(self)
        model: Any = self
        predicted, targets = _columns(model.predict(X)), _columns(y)
        check_consistent_length(predicted, targets)
        weight = checked_weights(sample_weight, X)
        self.interval_residuals_ = np.abs(targets - predicted)
        self.interval_weight_ = np.ones(len(targets)) if weight is None else weight
        return self

    def _leave_one_out(self, X: Any, coverage: float) -> np.ndarray | None:
        """The intervals of jackknife+; None where leave-one-out is not exact."""
        return None


def jackknife_plus(
    centres: np.ndarray, residuals: np.ndarray, weight: np.ndarray, coverage: float
) -> np.ndarray:
    """Lower and upper ends, (2, m), from predictions (m, n) without each of n points.

    Parameters
    ----------
    centres : (m, n) array
    residuals : (n,) array, absolute
    weight : (n,) array
    coverage : float

    Examples
    --------
    >>> import numpy as np
    >>> jackknife_plus(np.zeros((1, 4)), np.arange(4.0), np.ones(4), 0.8)
    array([[-3.],
           [ 3.]])
    """
    lower = -upper_quantile(residuals - centres, weight, coverage)
    return np.stack([lower, upper_quantile(centres + residuals, weight, coverage)])


def upper_quantile(values: np.ndarray, weight: np.ndarray, coverage: float) -> np.ndarray:
    """The least value that, with all below it, has the share ``coverage`` of all weight.

    To which a new point adds its own, the mean weight, at infinity.

    Parameters
    ----------
    values : (m, n) array
    weight : (n,) array
    coverage : float

    Returns
    -------
    (m,) array
    """
    values, weight = values[:, weight > 0], weight[weight > 0]
    n = len(weight)
    if np.all(weight == weight[:1]):
        rank = int(np.ceil(coverage * (n + 1) - 1e-9))
        if rank > n:
            return np.full(len(values), np.inf)
        return np.partition(values, rank - 1, axis=1)[:, rank - 1]
    order = np.argsort(values, axis=1)
    share = np.cumsum(weight[order], axis=1) / (weight.sum() * (1 + 1 / n))
    place = np.sum(share < coverage - 1e-9, axis=1)
    beyond = np.full((len(values), 1), np.inf)
    padded = np.hstack([np.take_along_axis(values, order, axis=1), beyond])
    return padded[np.arange(len(values)), place]


def _around(
    centre: np.ndarray, residuals: np.ndarray, weight: np.ndarray, coverage: float
) -> np.ndarray:
    """The same distance below and above, from residuals (n, t) of points not seen."""
    distance = upper_quantile(residuals.T, weight, coverage)
    return _flat(np.stack([centre - distance, centre + distance]))


def _by_parts(model: Any, X: Any, coverage: float) -> np.ndarray:
    held = _held.get(model)
    if held is None:
        held = _held[model] = _fit_parts(model)
    predicted = [
        _columns(part.predict(X[:, rows] if _is_given(model) else X))
        for part, rows in zip(held.models, held.rows, strict=True)
    ]
    if len(predicted) == 1:
        return _around(predicted[0], held.residuals, held.weight, coverage)
    found = np.empty((2, *predicted[0].shape))
    for t in range(predicted[0].shape[1]):
        each = np.stack([values[:, t] for values in predicted], axis=1)
        for rows in row_blocks(len(each), 32 * len(held.owner)):
            found[:, rows, t] = jackknife_plus(
                each[rows][:, held.owner], held.residuals[:, t], held.weight, coverage
            )
    return _flat(found)


def _fit_parts(model: Any) -> Held:
    """Models of nine tenths of the points each, or of four fifths of many points."""
    known = _trained.get(model)
    if known is None:
        raise ValueError(
            f"{type(model).__name__} was loaded from a file, copied or fitted in parts, and has no "
            "training targets to take intervals from; call calibrate_intervals(X, y) with points "
            "that fit was not given, or fit again"
        )
    X, y, weight = known.X, np.asarray(to_cpu(known.y)), checked_weights(known.weight, known.X)
    n = n_rows(X)
    if n < 2:
        raise ValueError("predict_interval needs at least two training points")
    folds = np.random.default_rng(0).permutation(n) % (5 if n >= SPLIT_FROM else min(FOLDS, n))
    chosen = [0] if n >= SPLIT_FROM else range(folds.max() + 1)
    models, kept = [], []
    residuals = np.zeros((n, 1 if y.ndim == 1 else y.shape[1]))
    for fold in chosen:
        test, train = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        part = clone(model)
        more = {} if weight is None else {"sample_weight": weight[train]}
        part.fit(_some(model, X, train, train), y[train], **more)
        predicted = _columns(part.predict(_some(model, X, test, train)))
        residuals[test] = np.abs(y[test].reshape(len(test), -1) - predicted)
        models.append(part)
        kept.append(train)
    weights = np.ones(n) if weight is None else weight
    seen = np.flatnonzero(np.isin(folds, list(chosen)))
    return Held(models, kept, folds[seen], residuals[seen], weights[seen])


def _some(model: Any, X: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    """Some rows of the points, or of a precomputed matrix with some of its columns."""
    some = take_rows(X, rows)
    return some[:, columns] if _is_given(model) else some


def _is_given(model: Any) -> bool:
    """Whether the kernel is a matrix."""
    return is_precomputed(getattr(model, "kernel", None))


def _columns(values: Any) -> np.ndarray:
    values = np.asarray(to_cpu(values), dtype=np.float64)
    return values.reshape(len(values), -1)


def _flat(found: np.ndarray) -> np.ndarray:
    """Ends (2, m, t) without the last axis, if that is of one target."""
    return found[..., 0] if found.shape[-1] == 1 else found
