"""One view of the points a `KernelCCA` sees: its kernel, its points and its projection."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mercer.estimators.inputs import (
    expand,
    takes_vectors,
    training_gram,
    validate_training,
)
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.operators import CentredGram, GramOperator
from mercer.solvers.canonical import Whitening
from mercer.solvers.spectral import centred_projection, rounding_floor


class KernelView(BaseEstimator):
    """One view of a `KernelCCA`: its kernel, its training points and its projection.

    Parameters are those of `KernelCCA`, for this view.

    Attributes
    ----------
    kernel_ : Kernel
    X_fit_ : the training points of the view
    dual_coef_ : ndarray of shape (n_samples, n_components)
    offset_ : ndarray of shape (n_components,)
        The variates of x are ``kernel_(x, X_fit_) @ dual_coef_ - offset_``.
    """

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
            return np.asarray(X).ndim == 1
        return isinstance(X, list | tuple) and not any(hasattr(x, "__len__") for x in X)

    def as_column(self, X: Any) -> Any:
        """X, a vector made a column; scikit-learn allows that of targets, not of a first view."""
        return np.asarray(X).reshape(-1, 1) if self.is_vector(X) else X

    def remember(self, X: Any) -> None:
        """Check the training points, keep them, and settle the kernel."""
        self.X_fit_ = validate_training(self, X, ensure_min_samples=2)
        self.kernel_ = resolve_kernel(self, self.X_fit_)

    def training_gram(self) -> GramOperator:
        """The Gram operator of the training points."""
        return training_gram(self, self.X_fit_, self.kernel_)

    def project_onto(self, alpha: np.ndarray, K: GramOperator) -> None:
        """Keep the directions alpha (n, k) in the form that applies to new points."""
        coef, self.offset_ = centred_projection(CentredGram(K).column_means, alpha)
        self.dual_coef_ = K.carry(coef)

    def variates(self, X: Any) -> np.ndarray:
        """The canonical variates of new points, shape (n_queries, n_components)."""
        return expand(self, X, self.dual_coef_) - self.offset_


def decompose(K: Any, name: str) -> Whitening:
    """The eigenpairs above rounding of a training Gram operator, centred."""
    floor = rounding_floor(K.shape[0], np.max(np.abs(K.diagonal())), K.dtype)
    view = Whitening.from_gram(CentredGram(K).dense(), floor)
    if view.rank == 0:
        raise ValueError(
            f"{name} is constant under its kernel: its centred Gram is zero, so nothing can "
            "correlate with it; remove it or choose another kernel"
        )
    return view


def second_view(Y: Any, y: Any) -> Any:
    if Y is not None and y is not None:
        raise TypeError("Y and y are two names of one argument; pass one of them")
    return y if Y is None else Y


def view_name(v: int) -> str:
    return ("X", "Y")[v] if v < 2 else f"view {v}"
