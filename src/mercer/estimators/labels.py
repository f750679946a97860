"""Targets: class labels as signs, and weights per class and sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from mercer._sklearn import check_sample_weight
from mercer.arrays import DROP, as_numpy, is_missing, is_number, n_rows, refuse_masked, to_cpu
from mercer.estimators.inputs import validate_training

# The classifier for the same problem as each of these regressors.
CLASSIFIERS = {
    "AutoKernelRegressor": "AutoKernelClassifier",
    "KernelMachineRegressor": "KernelMachineClassifier",
    "KernelRidge": "KernelRidgeClassifier",
    "KernelRidgeCV": "KernelRidgeClassifier",
    "LocalLinearRegressor": "NadarayaWatsonClassifier",
    "NadarayaWatsonRegressor": "NadarayaWatsonClassifier",
    "NuSVR": "NuSVC",
    "SVR": "SVC",
}


def validate_supervised(estimator: Any, X: Any, y: Any, **check: Any) -> tuple[Any, np.ndarray]:
    """Training points and their targets, checked; ``y`` may not be missing."""
    require_targets(estimator, y)
    if check.get("y_numeric"):
        refuse_words(estimator, y)
    else:
        refuse_missing_labels(y)
    X, y = validate_training(estimator, X, to_cpu(y), **check)
    # None among objects is made a number after scikit-learn has looked.
    if check.get("y_numeric") and y.dtype.kind == "f" and np.any(missing := np.isnan(y)):
        raise ValueError(
            f"y has a missing value at row {np.argwhere(missing)[0][0]}; leave out the rows "
            "without a target"
        )
    return X, y


def require_targets(estimator: Any, y: Any) -> None:
    """Raise a ValueError where there is no y."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; pass "
            "one target per sample"
        )


def refuse_words(estimator: Any, y: Any) -> None:
    """Raise a ValueError that names the first word among targets that are to be numbers, if any."""
    refuse_masked(y, "y", DROP)
    targets = np.asarray(to_cpu(y))
    words = targets.astype(object) if targets.dtype.kind in "OUST" else np.empty(0)
    for place, target in np.ndenumerate(words):
        if isinstance(target, str | bytes) and not is_number(target):
            name = type(estimator).__name__
            raise ValueError(
                f"y holds {target!r} at row {place[0]}, which is not a number; {name} estimates "
                f"numbers, and {CLASSIFIERS.get(name, 'a classifier')} predicts classes"
            )


def refuse_missing_labels(y: Any) -> None:
    """Raise a ValueError that names the first row without a label, if any."""
    refuse_masked(y, "y", DROP)
    labels = np.asarray(to_cpu(y))
    if labels.dtype.kind in "US" and isinstance(y, list | tuple):
        labels = y  # NumPy makes a text of NaN among texts
    elif labels.dtype.kind not in "OmM" or not labels.ndim:
        return
    for row, label in enumerate(labels):
        if is_missing(label):
            raise ValueError(
                f"y has no label at row {row} but {label!r}; leave out the rows without one"
            )


def check_labels(y: np.ndarray) -> None:
    """scikit-learn's check of classes, (n,); where objects of several types are, it is said."""
    for row, label in enumerate(y if y.dtype.kind == "O" else ()):
        if isinstance(label, str) != isinstance(y[0], str):
            raise ValueError(
                f"y has labels of several types, {y[0]!r} at row 0 and {label!r} at row {row}; "
                "make them one, for example with y.astype(str)"
            )
    check_classification_targets(y)


def class_labels(estimator: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct classes, sorted, and each label's position among them."""
    if y.dtype.kind not in "biuU":
        check_labels(y)
    classes, codes = np.unique(y, return_inverse=True)
    if 2 * len(classes) > len(y):  # which scikit-learn warns of
        check_labels(y)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only, {classes.tolist()[0]!r}; {type(estimator).__name__} needs "
            "samples of at least two classes"
        )
    return classes, codes


def signed_targets(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Targets -1 and +1: one column for two classes (+1 the later), else one column per class.

    Examples
    --------
    >>> import numpy as np
    >>> signed_targets(np.array([0, 1, 1]), 2).ravel()
    array([-1.,  1.,  1.])
    """
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)


def most_likely(classes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The class of the largest score; with one score per point, its sign decides."""
    scores = as_numpy(scores)
    if scores.ndim == 1:
        return classes[(scores > 0).astype(np.intp)]
    return classes[np.argmax(scores, axis=1)]


def nearest_probabilities(scores: np.ndarray) -> np.ndarray:
    """The points of the simplex nearest to (1 + scores) / 2, (n, n_classes).

    Scores of shape (n,) are those of the second of two classes. The nearest point is
    ``max(p - t, 0)`` with the t for which it sums to one.

    Examples
    --------
    >>> nearest_probabilities(np.array([[0.6, 0.2, -1.5]])).round(2).tolist()
    [[0.6, 0.4, 0.0]]
    """
    scores = np.asarray(scores, dtype=np.result_type(scores, np.float32))
    if scores.ndim == 1:
        second = np.clip((1 + scores) / 2, 0, 1)
        return np.column_stack([1 - second, second])
    p = (1 + scores) / 2
    ordered = -np.sort(-p, axis=1)
    counts = np.arange(1, p.shape[1] + 1)
    excess = (np.cumsum(ordered, axis=1) - 1) / counts
    last = np.sum(ordered > excess, axis=1) - 1
    found = np.maximum(p - excess[np.arange(len(p)), last][:, None], 0)
    return found / found.sum(axis=1, keepdims=True)


def weights_of(sample_weight: Any, X: Any, **check: Any) -> np.ndarray:
    """Weights as a float64 array of shape (n,), by scikit-learn's checks."""
    if _is_plain_weight(sample_weight, n_rows(X)):
        return sample_weight  # what scikit-learn would find, too
    refuse_masked(sample_weight, "sample_weight", DROP)
    # These want something with a length and a dtype, which a list of trees lacks.
    stand_in = np.empty((n_rows(X), 0))
    return check_sample_weight(to_cpu(sample_weight), stand_in, dtype=np.float64, **check)


def _is_plain_weight(weight: Any, n: int) -> bool:
    """Whether these are n positive, finite numbers in a plain array."""
    plain = type(weight) is np.ndarray and weight.dtype == np.float64 and weight.shape == (n,)
    return plain and n > 0 and weight.min() > 0 and weight.max() < np.inf


def checked_weights(sample_weight: Any, X: Any, *, may_be_zero: bool = False) -> np.ndarray | None:
    """Sample weights as a float64 array of shape (n,), finite and not negative, or None.

    They may not all be zero, unless it is said that they may.
    """
    if sample_weight is None:
        return None
    weight = weights_of(
        sample_weight, X, ensure_non_negative=True, allow_all_zero_weights=may_be_zero
    )
    with np.errstate(over="ignore"):
        if not np.isfinite(weight.sum()):
            raise ValueError(
                f"sample_weight sums to more than the largest number, with a weight of "
                f"{weight.max():.3g}; give smaller weights"
            )
    return weight


def weight_unit(weight: np.ndarray) -> float:
    """A power of two near the largest weight: dividing by it rounds nothing.

    Where only ratios of weights matter, dividing by it keeps sums and squares within float64.

    Examples
    --------
    >>> weight_unit(np.array([0.5, 1.0])), weight_unit(np.array([3.0, 5.0]))
    (1.0, 4.0)
    """
    return float(np.ldexp(1.0, int(np.frexp(np.max(weight))[1]) - 1))


def class_weights(
    class_weight: Any, y: np.ndarray, sample_weight: np.ndarray | None
) -> np.ndarray | None:
    """Weights per sample times weights per class, or None where there are neither.

    "balanced" gives all classes the same total weight, so that a sample of weight two counts as
    two samples.

    Examples
    --------
    >>> import numpy as np
    >>> class_weights("balanced", np.array([0, 0, 1]), np.array([1.0, 2.0, 1.0]))
    array([0.66666667, 1.33333333, 2.        ])
    """
    if class_weight is None:
        return sample_weight
    if sample_weight is None:
        return compute_sample_weight(class_weight, y)
    if class_weight != "balanced":
        return compute_sample_weight(class_weight, y) * sample_weight
    classes, codes = np.unique(y, return_inverse=True)
    totals = np.bincount(codes, weights=sample_weight)
    # A class of no weight has no balance to be brought to.
    share = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    return sample_weight * (sample_weight.sum() / len(classes) * share)[codes]


def require_weight(classes: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> None:
    """Raise a ValueError that names a class whose samples all have weight zero, if there is one."""
    totals = np.bincount(codes, weights=weight, minlength=len(classes))
    if np.any(totals == 0):
        empty = classes.tolist()[int(np.flatnonzero(totals == 0)[0])]
        raise ValueError(
            f"all samples of class {empty!r} have weight zero; drop the class, or weigh it"
        )
