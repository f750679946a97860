"""What is made of the data before a support vector machine is trained, and what comes out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer import kernels as K
from mercer.arrays import is_single, memory_budget, n_rows
from mercer.estimators.labels import weights_of
from mercer.estimators.svm.forms import Form
from mercer.operators import GramOperator
from mercer.solvers.result import Budget, Result

# Up to so many points a kernel in float32 saves no time.
FEW_POINTS = 1024
# Kernels of sparse points with more than this fraction of non-zeros are faster from dense points.
DENSE_FROM = 0.01
NOT_FINITE = "The dual coefficients or intercepts are not finite:"


class Task(NamedTuple):
    """One function to learn: its points among all, their targets, and what each weighs."""

    index: np.ndarray
    targets: np.ndarray
    weight: np.ndarray

    def without(self, position: int) -> Task:
        """The same task without one of its points."""
        return Task(*(np.delete(part, position) for part in self))


class Training(NamedTuple):
    """The data made ready to be solved, once for all values of C and all held-out points.

    ``codes`` are the points' classes by number, zeros for machines without classes. The tasks, and
    the Gram matrix they are solved on, have the points in the given ``order``: class by
    class, so that the points of a pair of classes are two runs of every row.
    """

    X: Any
    y: np.ndarray
    codes: np.ndarray
    order: np.ndarray
    kernel: K.Kernel
    tasks: Any  # a sequence of Task
    limits: Budget

    def as_given(self, values: np.ndarray) -> np.ndarray:
        """Values of the points in order, (n, c), as X has them."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


class Solved(NamedTuple):
    """Every task as a quadratic program on one Gram matrix, and its solution."""

    operator: GramOperator
    forms: list[Form]
    results: list[Result]


def end_points(result: Result) -> list[np.ndarray]:
    """The variables of every problem solved, where it ended."""
    value = result.value
    return [solution.a for solution in (value if isinstance(value, tuple) else (value,))]


def refuse_overflow(X: Any) -> None:
    """Raise a ValueError where the squared length of a point may exceed what float64 holds."""
    if not (isinstance(X, np.ndarray) or sp.issparse(X)) or X.dtype.kind != "f":
        return
    largest = float(abs(X).max())
    if largest > np.sqrt(np.finfo(np.float64).max / X.shape[1]):
        raise ValueError(
            f"{NOT_FINITE} X has values of {largest:.1e}, whose squares exceed what float64 holds; "
            "scale X, for example with sklearn.preprocessing.StandardScaler"
        )


def positive_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Weights of shape (n,), one where none are given; as in LIBSVM some must be positive."""
    if sample_weight is None:
        return np.ones(n_rows(X))
    weight = weights_of(sample_weight, X, allow_all_zero_weights=True)
    if not np.any(weight > 0):
        raise ValueError(
            "Invalid input - all samples have zero or negative weights: sample_weight is at most "
            f"{weight.max():g}; give some samples a positive weight"
        )
    return weight


def are_few(n: int) -> bool:
    """Whether kernels of n points in float64 take no longer than in float32."""
    return n <= FEW_POINTS


def may_be_single(X: Any) -> bool:
    """Whether X is a dense array of float32 of many points."""
    return isinstance(X, np.ndarray) and is_single(X) and not are_few(len(X))


def is_function(kernel: Any) -> bool:
    """Whether the parameter is a function of the user's."""
    return callable(kernel) and not isinstance(kernel, K.Kernel)


def in_fastest_form(X: Any, kernel: Any) -> Any:
    """X for the kernel: dense where sparse points have so many entries that it is faster.

    A function of the user's sees what the user gave.
    """
    if not sp.issparse(X) or is_function(kernel):
        return X
    n, d = X.shape
    few = X.nnz <= DENSE_FROM * n * d or X.dtype.itemsize * n * d > memory_budget()
    return X if few else X.toarray()


def sparse_like(points: Any, array: np.ndarray) -> Any:
    """The array in the sparse form of the points, where they are sparse, as in scikit-learn."""
    return type(points)(array) if sp.issparse(points) else array.copy()
