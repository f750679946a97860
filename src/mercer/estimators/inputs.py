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
    memory_budget,
    n_rows,
    namespace,
    refuse_beyond_memory,
    refuse_dates,
    refuse_masked,
    refuse_missing,
    refuse_tensors,
    refuse_text,
    take_rows,
    to_cpu,
)
from mercer.core import symmetry
from mercer.estimators.array_support import array_support
from mercer.estimators.kernel_parameter import refuse_unknown
from mercer.kernels import Kernel
from mercer.kernels.given import asymmetry_allowed, refuse_asymmetric
from mercer.kernels.validity import Counterexample, shrink
from mercer.operators import (
    CorrectedGram,
    DenseGram,
    GramOperator,
    corrected,
    first_indefinite,
    gram,
)

INDEFINITE = {"error", "clip", "flip", "shift"}
# Whether a kernel of unknown validity is positive semidefinite is decided on at most this many
# points, by a Cholesky factor that takes a tenth of a millisecond. From 128 points on, OpenBLAS
# shares it out over threads, which then stay busy for a while and slow down what follows.
MOST_JUDGED = 120
# Relative rounding error of kernel values that a user's function returns.
FUNCTION_EPS = float(np.finfo(np.float32).eps)


def validate_training(estimator: Any, X: Any, y: Any = None, **check: Any) -> Any:
    """X, or (X, y), checked for fit as the estimator's kernel needs it.

    Numbers for vector kernels, names and functions; a square, symmetric matrix for a precomputed
    kernel; any collection of objects for the others. ``check`` goes to
    `sklearn.utils.validation.validate_data` (``multi_output``, ``y_numeric``). Tensors stay where
    they are as far as the estimator's `ArraySupport` says; their y comes to the host.
    """
    if estimator.kernel is not None:
        refuse_unknown(estimator.kernel)
    if is_tensor(X):
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


def training_gram(estimator: Any, X: Any, kernel: Kernel, store: bool = True) -> GramOperator:
    """The Gram operator to train on; its ``extend_coefficients`` takes coefficients to new points.

    An indefinite kernel is refused, or corrected as ``estimator.indefinite`` says. A kernel of
    unknown validity counts as one if its Gram on the points, or on MOST_JUDGED of them, has a
    clearly negative eigenvalue. ``store`` is as for `gram`.
    """
    method = estimator.indefinite
    validity = kernel.validity
    if is_precomputed(kernel):  # checked as X, and large: not read again
        operator: GramOperator = DenseGram(as_dense(X), "precomputed")
    else:
        operator = _stored_function(kernel, X) or gram(kernel, X, store=store)
    if validity.status == "valid":
        # No value of such a kernel is beyond those of the points with themselves.
        refuse_non_finite(operator.diagonal(), kernel)
        return operator
    if not is_precomputed(kernel):  # whose numbers are checked as X
        _refuse_unusable(operator, kernel)
    found = validity.counterexample
    if validity.status == "unknown":
        found = _counterexample(operator, X, is_precomputed(kernel))
        if found is None:
            return operator
    if method == "error":
        raise ValueError(_refusal(estimator, kernel, found))
    refuse_tensors(X, f"indefinite={method!r}", ValueError)
    fixed, P = corrected(stored(operator), method)
    return CorrectedGram(fixed, P, f"{method} of the negative eigenvalues; {operator.reason}")


def _stored_function(kernel: Kernel, X: Any) -> DenseGram | None:
    """The Gram matrix that a user's function of two sets of points returns, if it may be stored."""
    n = n_rows(X)
    if type(kernel) is not K.FromFunction or kernel.pairwise or 8 * n**2 > memory_budget():
        return None
    return DenseGram(kernel.block(X, X), "stored: as the function returns it")


def _refuse_unusable(operator: GramOperator, kernel: Kernel) -> None:
    """Raise a ValueError where the training Gram matrix is not finite, or not symmetric."""
    K = operator.dense() if isinstance(operator, DenseGram) else operator.diagonal()
    if K.ndim == 1:
        return refuse_non_finite(K, kernel)
    gap, largest = symmetry(K)
    if largest == np.inf:
        refuse_non_finite(K, kernel)
    # A function of the user's may compute in float32.
    elif gap > asymmetry_allowed(largest, FUNCTION_EPS * largest):
        refuse_asymmetric(K, FUNCTION_EPS * np.abs(K).max(keepdims=True))
    return None


def refuse_non_finite(values: Any, kernel: Kernel) -> None:
    """Raise a ValueError where values of the kernel, (n, n) or (n,) of the diagonal, overflow."""
    if bool(namespace(values).isfinite(values).all()):
        return
    values = as_numpy(values)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        i, j = wrong[0][0], wrong[0][-1]
        raise ValueError(
            f"kernel={kernel!r} has the value {values[tuple(wrong[0])]} between training points "
            f"{i} and {j}; scale X, for example with sklearn.preprocessing.StandardScaler, or mend "
            "the kernel"
        )


def comes_to_centres(estimator: Any, X: Any) -> bool:
    """Whether points of the host are brought to centres that were given as a tensor."""
    centres: Any = getattr(estimator, "centers", None)
    library = backend(centres)
    return library.brings(X, centres) and library is backend(estimator.X_fit_)


def validated(estimator: Any, X: Any, *y: Any, **check: Any) -> Any:
    """scikit-learn's `validate_data`; a text, a date or a gap in X is named with its place."""
    refuse_masked(X)
    try:
        return validate_data(estimator, X, *y, **check)
    except TypeError:
        refuse_dates(X)
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


def stored(operator: GramOperator) -> np.ndarray:
    """The whole Gram matrix for a dense solver, or a MemoryError that says what else to do."""
    refuse_beyond_memory(operator.shape[0])
    return np.asarray(as_numpy(operator.dense()), dtype=np.float64)


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


def refuse_indefinite_among(
    estimator: Any,
    operator: GramOperator,
    X: Any,
    kernel: Kernel,
    chosen: np.ndarray,
    rows: np.ndarray,
) -> None:
    """Raise a ValueError where a kernel of unknown validity is indefinite on the chosen points.

    For a model that depends on these points alone; of many, MOST_JUDGED are looked at. They are
    ``chosen`` in the operator, and ``rows`` in X.
    """
    judged_whole = operator.shape[0] <= MOST_JUDGED
    if judged_whole or estimator.indefinite != "error" or kernel.validity.status != "unknown":
        return
    if len(chosen) > MOST_JUDGED:
        some = spread_evenly(len(chosen), MOST_JUDGED)
        chosen, rows = chosen[some], rows[some]
    found = _counterexample_among(operator, chosen, X, rows, is_precomputed(kernel))
    if found is not None:
        raise ValueError(_refusal(estimator, kernel, found))


def _counterexample(operator: GramOperator, X: Any, as_indices: bool) -> Counterexample | None:
    """Few points whose Gram matrix is indefinite, where that of the points looked at is."""
    chosen = _part(operator)
    return _counterexample_among(operator, chosen, X, chosen, as_indices)


def _counterexample_among(
    operator: GramOperator, chosen: np.ndarray, X: Any, rows: np.ndarray, as_indices: bool
) -> Counterexample | None:
    """Few of the chosen points whose Gram matrix is indefinite, where that of all of them is.

    Points of a precomputed matrix are given by their indices.
    """
    whole = len(chosen) == operator.shape[0]
    part = as_numpy(operator.dense() if whole else operator.block(chosen, chosen))
    n = first_indefinite(part)
    if n == 0:
        return None
    few, first = part[:n, :n].astype(np.float64), rows[:n]
    points = first if as_indices else to_cpu(take_rows(X, first))
    return shrink(points, few, np.finfo(np.float64).eps * np.abs(few))


def _part(operator: GramOperator) -> np.ndarray:
    """All points or, of many, those that show soonest whether a matrix is indefinite.

    A matrix is no less indefinite than its parts. Half of these points are spread evenly over all;
    the others are those nearest to one of them, among which a valid kernel has small eigenvalues
    and so hides negative ones least.
    """
    n = operator.shape[0]
    if n <= MOST_JUDGED:
        return np.arange(n)
    half = MOST_JUDGED // 2
    spread = spread_evenly(n, half)
    nearness = as_numpy(operator.rows(spread[:1]))[0].astype(np.float64)
    nearness[spread] = -np.inf
    near = np.argpartition(-nearness, half)[:half]
    return np.sort(np.concatenate([spread, near]))


def spread_evenly(n: int, size: int) -> np.ndarray:
    """``size`` of n indices, at equal distances."""
    return np.arange(size) * n // size


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


def _refusal(estimator: Any, kernel: Kernel, found: Counterexample | None) -> str:
    shown = f" For example, {found}" if found is not None else ""
    return (
        f"kernel={kernel!r} is not positive semidefinite, and {type(estimator).__name__} needs a "
        "valid kernel. Choose another, or set indefinite='clip', 'flip' or 'shift' to correct the "
        f"Gram matrix.{shown}"
    )
