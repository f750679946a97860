"""The functions of a support vector machine at new points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import (
    as_vectors,
    backend,
    is_single,
    is_tensor,
    like,
    n_rows,
    take_rows,
    to_cpu,
    to_float64,
)
from mercer.arrays.libraries import is_recorded
from mercer.estimators.decision_values import expansion_of_tensor
from mercer.estimators.inputs import is_precomputed, require_fitted, validate_query
from mercer.estimators.prediction_cache import cached_sum, has_fast_sum, packed_sums
from mercer.estimators.svm.training import in_fastest_form, is_function
from mercer.operators import expansion

# Of a given matrix all columns are multiplied, most by zero, if one in so many is needed: to copy
# columns takes longer.
COLUMNS_PER_SUPPORT_VECTOR = 4
# Kernel values of float32 points that are computed in float64 without asking for their rounding.
DOUBLE_AT_MOST = 2**17
# Values that a user's function of two sets of points is asked for in one call.
VALUES_PER_CALL = 2**21


def function_values(machine: Any, X: Any) -> Any:
    """Every function at the points of X, (m, n_functions)."""
    values = _of_plain_rows(machine, X)
    if values is not None:
        return values + to_cpu(machine.intercept_)
    require_fitted(machine)
    given, X = X, validate_query(machine, X)
    if is_recorded(given) and not is_precomputed(machine.kernel):
        X = as_vectors(given)
    return _of_tensors(machine, X) if is_tensor(X) else _of_arrays(machine, X)


def _of_plain_rows(machine: Any, X: Any) -> np.ndarray | None:
    """The functions without intercepts at rows of plain numbers; None for anything else."""
    points = vars(machine).get("support_vectors_")
    if type(points) is not np.ndarray or not len(points) or machine._sums_by_class():
        return None
    if is_single(X) and type(X) is np.ndarray and X.ndim == 2:
        if not is_single(points) or len(X) * len(points) > DOUBLE_AT_MOST:
            return None
        X = to_float64(X)
    return packed_sums(machine, X, points, machine._columns())


def _of_tensors(machine: Any, X: Any) -> Any:
    level = like(machine.intercept_, X)
    if not len(machine.support_):
        return X[:, :0].sum(1)[:, None] + level
    exact = X
    if not _single_is_enough(machine, X.detach()):
        exact, level = to_float64(X), to_float64(level)
    points, coef = machine.support_vectors_, machine._columns()
    return like(expansion_of_tensor(machine.kernel_, exact, points, coef) + level, X)


def _of_arrays(machine: Any, X: Any) -> np.ndarray:
    intercept = to_cpu(machine.intercept_)
    if is_precomputed(machine.kernel):
        values = machine._summed(lambda some, V: _given_product(X, machine.support_[some], V))
    elif not len(machine.support_):
        values = np.zeros((n_rows(X), len(intercept)))
    else:
        values = _from_points(machine, X)
    return np.asarray(values, dtype=np.float64) + intercept


def _from_points(machine: Any, X: Any) -> np.ndarray:
    """The functions without intercepts, from kernel values of X and the support vectors."""
    points, kernel = _points(machine), machine.kernel_
    if is_function(machine.kernel) and n_rows(X) * n_rows(points) <= VALUES_PER_CALL:
        if not _single_is_enough(machine, X):
            X, points = to_float64(X), to_float64(points)
        return machine._summed(lambda some, V: kernel.block(X, take_rows(points, some)) @ V)
    if has_fast_sum(kernel) and (kept := cached_sum(machine, points, machine._columns())):
        return kept(X)
    if not _single_is_enough(machine, X):
        X, points = to_float64(X), to_float64(points)
    X, points = (in_fastest_form(P, machine.kernel) for P in (X, points))
    return machine._summed(lambda some, V: expansion(kernel, X, take_rows(points, some), V))


def _points(machine: Any) -> Any:
    """The support vectors as they are computed with: on the host, or a tensor that stays."""
    points = machine.support_vectors_
    return points if machine._arrays.backend(points) is backend(points) else to_cpu(points)


def _single_is_enough(machine: Any, X: Any) -> bool:
    """Whether kernel values in float32 give f to within ``tol``: roundings of many signs."""
    points = _points(machine)
    if not (is_single(X) and is_single(points)):
        return False
    ends = [float(machine.kernel_.diag(P).max()) for P in (X, points)]
    largest = np.sqrt(ends[0] * ends[1])
    rounding = 16 * np.finfo(np.float32).eps * largest * machine._largest_norm()
    return bool(rounding <= machine.tol)


def _given_product(K: Any, columns: np.ndarray, V: np.ndarray) -> np.ndarray:
    """``K[:, columns] @ V`` of a large given matrix."""
    if sp.issparse(K) or COLUMNS_PER_SUPPORT_VECTOR * len(columns) < K.shape[1]:
        return K[:, columns] @ V
    everywhere = np.zeros((K.shape[1], V.shape[1]), dtype=K.dtype)
    everywhere[columns] = V
    return K @ everywhere
