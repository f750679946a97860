"""The Gram operator to train on: finite, symmetric, and positive semidefinite."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import kernels as K
from mercer.arrays import (
    as_dense,
    as_numpy,
    memory_budget,
    n_rows,
    namespace,
    refuse_beyond_memory,
    refuse_tensors,
    take_rows,
    to_cpu,
)
from mercer.core import symmetry
from mercer.estimators.inputs import is_precomputed
from mercer.kernels import Kernel
from mercer.kernels.given import asymmetry_allowed, refuse_asymmetric
from mercer.kernels.validity import Counterexample, shrink
from mercer.operators import (
    CorrectedGram,
    DenseGram,
    GramOperator,
    corrected,
    first_indefinite,
    gram_operator,
)

# Whether a kernel of unknown validity is positive semidefinite is decided on at most this many
# points, by a Cholesky factor that takes a tenth of a millisecond. From 128 points on, OpenBLAS
# shares it out over threads, which then stay busy for a while and slow down what follows.
MOST_JUDGED = 120
# Relative rounding error of kernel values that a user's function returns.
FUNCTION_EPS = float(np.finfo(np.float32).eps)


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
        operator = _stored_function(kernel, X) or gram_operator(kernel, X, store=store)
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


def stored(operator: GramOperator) -> np.ndarray:
    """The whole Gram matrix for a dense solver, or a MemoryError that says what else to do."""
    refuse_beyond_memory(operator.shape[0])
    return np.asarray(as_numpy(operator.dense()), dtype=np.float64)


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


def _refusal(estimator: Any, kernel: Kernel, found: Counterexample | None) -> str:
    shown = f" For example, {found}" if found is not None else ""
    return (
        f"kernel={kernel!r} is not positive semidefinite, and {type(estimator).__name__} needs a "
        "valid kernel. Choose another, or set indefinite='clip', 'flip' or 'shift' to correct the "
        f"Gram matrix.{shown}"
    )
