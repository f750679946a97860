"""One view of the points a `KernelCCA` sees: its kernel, its points and its projection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator

from mercer.arrays import (
    as_numpy,
    backend,
    like,
    n_rows,
    product,
    refuse_beyond_memory,
    refuse_masked,
    take_rows,
    to_device_of,
    to_float64,
)
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.inputs import (
    is_precomputed,
    takes_vectors,
    validate_query,
    validate_training,
)
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.training_gram import training_gram
from mercer.operators import CentredGram, GramOperator, TensorGram, expansion
from mercer.solvers.pivoted_cholesky import LowRank, randomly_pivoted_cholesky
from mercer.solvers.spectral.canonical import WhitenedView
from mercer.solvers.spectral.centring import centred_projection, rounding_floor

# Points up to which the whole Gram matrix is decomposed at once.
DECOMPOSED_UP_TO_POINTS = 500
# Points up to which it is decomposed where no factor of a third of the rank is accurate enough.
DENSE_UP_TO_POINTS = 5000
# The largest rank of a factor of more points.
LARGEST_RANK = 2000
# Matrices that a decomposition holds; and those with a row for each point that a factor may need.
MATRICES, FACTORS = {"native": 3, "torch": 6}, 8


class KernelView(BaseEstimator):
    """One view of a `KernelCCA`: its kernel, its training points and its projection.

    Parameters are those of `KernelCCA`, for this view.

    Attributes
    ----------
    kernel_ : Kernel
    X_fit_ : the training points of the view
    pivots_ : ndarray of shape (n_pivots,) or None
        Of which training points variates are combinations; None for all of them.
    dual_coef_ : ndarray or tensor of shape (n_pivots or n_samples, n_components)
    offset_ : ndarray or tensor of shape (n_components,)
        The variates of x are ``kernel_(x, X_fit_[pivots_]) @ dual_coef_ - offset_``.
    """

    _arrays = ArraySupport(tensors="everywhere")

    def __init__(
        self,
        kernel="rbf",
        *,
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        indefinite="error",
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.indefinite = indefinite

    def is_vector(self, X: Any) -> bool:
        """Whether X is a vector of numbers, as a target is: one column, not n objects."""
        if not takes_vectors(self.kernel):
            return False
        if hasattr(X, "__array__"):
            return backend(X).asarray(X).ndim == 1
        return isinstance(X, list | tuple) and not any(hasattr(x, "__len__") for x in X)

    def as_column(self, X: Any) -> Any:
        """X, a vector made a column; scikit-learn allows that of targets, not of a first view."""
        if not self.is_vector(X):
            return X
        refuse_masked(X)
        return backend(X).asarray(X).reshape(-1, 1)

    def remember(self, X: Any) -> None:
        """Check the training points, keep them, and settle the kernel."""
        self.X_fit_ = validate_training(self, X, ensure_min_samples=2)
        self.kernel_ = resolve_kernel(self, self.X_fit_)

    def decompose(self, name: str, solver: str, tol: float, max_rank: int | None) -> Decomposition:
        """The eigenpairs of the centred Gram of the training points, or of a factor of it.

        Parameters
        ----------
        name : str
            What errors call the view.
        solver, tol, max_rank : as of `KernelCCA`
        """
        n = n_rows(self.X_fit_)
        rank = self._rank(n, solver, max_rank)
        found = None
        if rank > 0:
            # In float32 the rounding of K would be taken for its rank.
            K = training_gram(self, to_float64(self.X_fit_), self.kernel_, store=False)
            diagonal = K.diagonal()
            trace_tol = tol * float(diagonal.sum())
            low = randomly_pivoted_cholesky(K.rows, diagonal, rank, trace_tol=trace_tol)
            enough = low.trace_left <= trace_tol
            if enough or solver == "low_rank" or n > DENSE_UP_TO_POINTS:
                found = Factored(low, K)
        found = found or self._whole()
        if found.whitening.rank == 0:
            raise ValueError(
                f"{name} is constant under its kernel: its centred Gram is zero, so nothing can "
                "correlate with it; remove it or choose another kernel"
            )
        return found

    def _whole(self) -> Whole:
        X = self.X_fit_
        refuse_beyond_memory(n_rows(X), MATRICES[backend(X).executor], X)
        return Whole(training_gram(self, to_float64(X), self.kernel_))

    def _rank(self, n: int, solver: str, max_rank: int | None) -> int:
        """Up to which rank to look for a factor; zero for none."""
        whole = self.kernel_.validity.status != "valid" or n <= DECOMPOSED_UP_TO_POINTS
        if solver == "dense" or (solver == "auto" and whole):
            return 0
        if max_rank is not None:
            return min(max_rank, n)
        if solver == "auto" and n <= DENSE_UP_TO_POINTS:
            return n // 3
        free = backend(self.X_fit_).free_memory(self.X_fit_)
        most = LARGEST_RANK if free is None else max(1, free // (8 * n * FACTORS))
        return min(n, LARGEST_RANK, most)

    def project_onto(self, alpha: np.ndarray, found: Decomposition) -> None:
        """Keep the directions alpha (n, k) in the form that applies to new points."""
        self.dual_coef_, self.offset_, self.pivots_ = found.projection(alpha)
        if self.pivots_ is not None and is_precomputed(self.kernel):
            coef = np.zeros((n_rows(self.X_fit_), alpha.shape[1]))
            coef[self.pivots_] = self.dual_coef_
            self.dual_coef_, self.pivots_ = coef, None
        wide = to_float64(take_rows(self.X_fit_, slice(1)))  # for large terms cancel
        self.dual_coef_, self.offset_ = (
            to_device_of(a, wide) for a in (self.dual_coef_, self.offset_)
        )

    def variates(self, X: Any) -> np.ndarray:
        """The canonical variates of new points, shape (n_queries, n_components)."""
        X, points = validate_query(self, X), self.X_fit_
        if self.pivots_ is not None:
            points = take_rows(points, self.pivots_)
        values = expansion(self.kernel_, to_float64(X), to_float64(points), self.dual_coef_)
        return to_device_of(values - self.offset_, X)


# Messages of scikit-learn name the class of an estimator, which users know as this one.
KernelView.__name__ = "KernelCCA"


class Decomposition(Protocol):
    """A whitened view, and how directions found in it are carried to new points."""

    @property
    def whitening(self) -> WhitenedView: ...

    def projection(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Coefficients, offset, and the training points they belong to (None for all)."""
        ...


class Whole:
    """All of a Gram matrix, centred and decomposed."""

    def __init__(self, K: GramOperator):
        self.K, self.centred = K, CentredGram(K)
        floor = rounding_floor(K.shape[0], float(abs(K.diagonal()).max()), K.dtype)
        if isinstance(K, TensorGram):
            rows = K.dense() - like(self.centred.column_means, K.diagonal())
            dense = rows - rows.mean(1)[:, None]
        else:
            refuse_beyond_memory(K.shape[0])
            dense = self.centred.dense()
        self.whitening = WhitenedView.from_gram(dense, floor)

    def projection(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        coef, offset = centred_projection(self.centred.column_means, alpha)
        return self.K.extend_coefficients(coef), offset, None


class Factored:
    """F F^T in place of K, with features k(x, Z) L^-T of new points, Z the pivots, L = F[Z]."""

    def __init__(self, low: LowRank, K: GramOperator):
        self.pivots, self.L = low.pivots, as_numpy(low.factor[low.pivots])
        mean = low.factor.mean(0)
        self.mean, self.factor = as_numpy(mean), low.factor - mean
        floor = rounding_floor(K.shape[0], float(abs(K.diagonal()).max()), K.dtype)
        # What is rounding at every single point counts as nothing; together it is this at most.
        left = low.trace_left + K.shape[0] * floor
        if len(low.pivots) == 0:
            self.whitening = WhitenedView(np.zeros(0), np.zeros((K.shape[0], 0)), None)
            return
        self.whitening = WhitenedView.from_factor(self.factor, left, floor)

    def projection(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        w = product(self.factor.T, alpha)
        coef = scipy.linalg.solve_triangular(self.L, w, lower=True, trans="T")
        return coef, self.mean @ w, self.pivots


def second_view(Y: Any, y: Any) -> Any:
    if Y is not None and y is not None:
        raise TypeError("Y and y are two names of one argument; pass one of them")
    return y if Y is None else Y


def view_name(v: int) -> str:
    return ("X", "Y")[v] if v < 2 else f"view {v}"


@contextmanager
def errors_name_view(v: int) -> Iterator[None]:
    """Errors about "X", which is what estimators call their points, name this view instead."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if v and error.args and isinstance(error.args[0], str):
            message, name = error.args[0], view_name(v)
            message = f"{name}{message[1:]}" if message[:2] == "X " else f"{name}: {message}"
            error.args = (message, *error.args[1:])
        raise


def in_each(
    views: list[KernelView], data: list[Any], method: Callable[[KernelView, Any], Any]
) -> list[Any]:
    """``method(view, points)`` of each view, vectors after the first made columns."""
    found = []
    for v, (view, points) in enumerate(zip(views, data, strict=True)):
        with errors_name_view(v):
            found.append(method(view, view.as_column(points) if v else points))
    return found
