"""The door of every kernel estimator: points are checked, and their Gram made fit to train on."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from mercer import kernels as K
from mercer._sklearn import check_feature_names, check_n_features, check_y
from mercer.arrays import (
    FLOATS,
    NUMPY,
    Backend,
    as_dense,
    as_numpy,
    as_vectors,
    backend,
    is_plain,
    is_tensor,
    n_rows,
    refuse_dates,
    refuse_masked,
    refuse_missing,
    refuse_objects,
    refuse_text,
)
from mercer.core import symmetry
from mercer.estimators.array_support import array_support
from mercer.estimators.kernel_parameter import refuse_unknown
from mercer.kernels import Kernel
from mercer.kernels.given import asymmetry_allowed, refuse_asymmetric

INDEFINITE = {"error", "clip", "flip", "shift"}


def validate_training(estimator: Any, X: Any, y: Any = None, **check: Any) -> Any:
    """X, or (X, y), checked for fit as the estimator's kernel needs it.

    Numbers for vector kernels, names and functions; a square, symmetric matrix for a precomputed
    kernel; any collection of objects for the others. ``check`` goes to
    `sklearn.utils.validation.validate_data` (``multi_output``, ``y_numeric``). Tensors stay where
    they are as far as the estimator's `ArraySupport` says; their y comes to the host.
    """
    if estimator.kernel is not None:
        refuse_unknown(estimator.kernel)
    if type(X) is not np.ndarray and is_tensor(X):
        found = _backend(estimator, X).accept(X, type(estimator).__name__)
        y = None if y is None else as_numpy(y)
        train = _tensors if found is X else validate_training
        return train(estimator, found, y, **check)
    if _reads_vectors(estimator, X):
        given = (X,) if y is None else (X, y)
        precomputed = is_precomputed(estimator.kernel)
        plain = _is_gram(X) if precomputed else is_plain(X)
        simple = check.keys() <= {"y_numeric", "multi_output", "copy"}
        if plain and simple and _is_plain_target(y, len(X)):
            _remember_width(estimator, X)  # scikit-learn's checks would find the same, later
            X = X.copy() if check.get("copy") else X
            return X if y is None else (X, y)
        checked = _vectors(estimator, *given, **check)
        if precomputed:
            _require_gram(checked if y is None else checked[0])
        return checked
    X = _collection(estimator, X, reset=True)
    if y is None:
        return X
    y = check_y(y, estimator=estimator, **check)
    check_consistent_length(X, y)
    return X, y


def _is_plain_target(y: Any, n: int) -> bool:
    """Whether y is absent, or n finite numbers or words in a plain array."""
    if y is None:
        return True
    if type(y) is not np.ndarray or y.shape != (n,) or y.dtype.kind not in "biufU":
        return False
    return y.dtype.kind != "f" or bool(np.isfinite(y.sum()))


def _is_gram(X: Any) -> bool:
    """Whether X is a plain square array of finite numbers that is symmetric up to rounding."""
    plain = type(X) is np.ndarray and X.dtype in FLOATS and X.ndim == 2 and X.flags.c_contiguous
    if not plain or X.shape[0] != X.shape[1] or not X.size:
        return False
    gap, largest = symmetry(X)
    return largest < np.inf and gap <= asymmetry_allowed(largest, np.finfo(X.dtype).eps * largest)


def _remember_width(estimator: Any, X: np.ndarray) -> None:
    """What scikit-learn keeps of training points without names."""
    estimator.n_features_in_ = X.shape[1]
    vars(estimator).pop("feature_names_in_", None)


def require_fitted(estimator: Any) -> None:
    """scikit-learn's `check_is_fitted`, which asks for all tags first, where it may fail."""
    if "kernel_" not in vars(estimator):
        check_is_fitted(estimator)


def validate_query(estimator: Any, X: Any) -> Any:
    """X checked for predict, against what the estimator was fitted on."""
    fitted: Any = getattr(estimator, "X_fit_", getattr(estimator, "support_vectors_", None))
    library = _backend(estimator, X)
    if library is not _backend(estimator, fitted) and not comes_to_centres(estimator, X):
        raise TypeError(_of_another_kind(estimator, fitted, X))
    X = library.accept(X, type(estimator).__name__)
    if is_tensor(X):
        return tensor_of_points(estimator, X, reset=False)
    known = getattr(estimator, "n_features_in_", None), hasattr(estimator, "feature_names_in_")
    if is_plain(X) and known == (X.shape[1], False) and takes_vectors(estimator.kernel):
        return X  # what scikit-learn would find, too
    if _reads_vectors(estimator, X):
        return _vectors(estimator, X, reset=False)
    return _collection(estimator, X, reset=False)


def query_points(estimator: Any, X: Any) -> Any:
    """Rows of numbers checked for predict by an estimator that has no kernel between points."""
    library = backend(estimator.X_fit_)
    X = library.accept(X, type(estimator).__name__)
    if backend(X) is not library:
        raise TypeError(_of_another_kind(estimator, estimator.X_fit_, X))
    return points_in_double(estimator, X, reset=False)


def points_in_double(estimator: Any, X: Any, reset: bool) -> Any:
    """Rows of numbers, checked: arrays in float64, tensors as they are."""
    if is_tensor(X):
        return tensor_of_points(estimator, X, reset)
    return validated(estimator, X, dtype=np.float64, order="C", reset=reset)


def tensor_of_points(estimator: Any, X: Any, reset: bool) -> Any:
    """A tensor of points checked where it is; its width is remembered, or compared."""
    X = as_vectors(X)
    check_feature_names(estimator, X, reset=reset)
    check_n_features(estimator, X, reset=reset)
    return X


def _of_another_kind(estimator: Any, fitted: Any, X: Any) -> str:
    was = _backend(estimator, fitted).note(fitted) or "arrays in memory"
    return (
        f"X is a {type(X).__name__} and {type(estimator).__name__} was fitted on {was}; pass "
        "points of the same kind"
    )


def comes_to_centres(estimator: Any, X: Any) -> bool:
    """Whether points of the host are brought to centres that were given as a tensor."""
    centres: Any = getattr(estimator, "centers", None)
    library = backend(centres)
    return library.brings(X, centres) and library is backend(estimator.X_fit_)


def validated(estimator: Any, X: Any, *y: Any, **check: Any) -> Any:
    """scikit-learn's `validate_data`; what is no number in X is named with its place."""
    refuse_masked(X)
    try:
        return validate_data(estimator, X, *y, **check)
    except TypeError:
        refuse_dates(X)
        refuse_objects(X)
        raise
    except ValueError:
        refuse_text(X)
        refuse_missing(X)
        raise


def input_tags(estimator: Any, tags: Any) -> Any:
    """scikit-learn's tags, as the estimator's kernel makes them."""
    kernel = estimator.kernel
    tags.input_tags.pairwise = is_precomputed(kernel)
    tags.input_tags.sparse = takes_vectors(kernel) and not callable(kernel)
    if not takes_vectors(kernel):
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
    if isinstance(kernel, Kernel):
        tags.input_tags.sparse = kernel.domain.is_vectors
        tags.input_tags.positive_only = kernel.domain.name.startswith("non-negative")
        tags.input_tags.string = not kernel.domain.is_vectors
        tags.input_tags.two_d_array = kernel.domain.is_vectors
    return tags


def is_precomputed(kernel: Any) -> bool:
    return kernel == "precomputed" if isinstance(kernel, str) else isinstance(kernel, K.Precomputed)


def takes_vectors(kernel: Any) -> bool:
    """Whether the kernel's points are rows of a numeric array."""
    if isinstance(kernel, Kernel):
        return kernel.domain.is_vectors
    return bool(getattr(kernel, "requires_vector_input", True))  # which scikit-learn's have


def _reads_vectors(estimator: Any, X: Any) -> bool:
    """Whether X is to be rows of numbers: a function of two sets of points takes what it can."""
    kernel = estimator.kernel
    whole = callable(kernel) and array_support(estimator).function_of == "sets"
    if isinstance(kernel, Kernel) or not whole or sp.issparse(X):
        return takes_vectors(kernel)
    try:
        return np.asarray(X).dtype.kind in "biuf"
    except ValueError:  # objects of different lengths
        return False


def _vectors(estimator: Any, X: Any, *y: Any, **check: Any) -> Any:
    """Rows of numbers, dense or sparse, in their precision."""
    return validated(estimator, X, *y, accept_sparse="csr", dtype=(np.float64, np.float32), **check)


def _backend(estimator: Any, X: Any) -> Backend:
    """What the estimator computes with points X with; a given matrix is an array."""
    return NUMPY if is_precomputed(estimator.kernel) else array_support(estimator).backend(X)


def _tensors(estimator: Any, X: Any, y: Any, **check: Any) -> Any:
    """A training tensor checked where it is, and y, which is on the host."""
    check.pop("copy", None)
    if not isinstance(estimator.kernel, Kernel) and callable(estimator.kernel):
        raise TypeError("kernel is a function of arrays; with tensors pass a kernel object")
    X = tensor_of_points(estimator, X, reset=check.pop("reset", True))
    least = check.pop("ensure_min_samples", 1)
    if len(X) < least:
        raise ValueError(f"X has {len(X)} samples; {type(estimator).__name__} needs {least}")
    if y is None:
        return X
    y = check_y(y, estimator=estimator, **check)
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} samples and y has {len(y)}; expected as many")
    return X, y


def _collection(estimator: Any, X: Any, reset: bool) -> Any:
    """Objects of any kind, at least one; the width of a table is remembered and compared."""
    if isinstance(X, str | bytes) or not (hasattr(X, "__len__") or hasattr(X, "shape")):
        raise TypeError(f"X is a single {type(X).__name__}; expected one object per sample")
    refuse_masked(X)
    if n_rows(X) == 0:
        raise ValueError("X is empty; expected at least one sample")
    if len(getattr(X, "shape", ())) == 2:
        check_feature_names(estimator, X, reset=reset)
        check_n_features(estimator, X, reset=reset)
    return X


def _require_gram(X: Any) -> None:
    """Raise a ValueError where a precomputed training matrix is not square and symmetric."""
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} "
            "matrix: pass the Gram matrix of the training points with themselves."
        )
    K = as_dense(X)
    if _is_gram(K):
        return
    refuse_asymmetric(K, np.finfo(K.dtype).eps * np.abs(K).max(keepdims=True))
