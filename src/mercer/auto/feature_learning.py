"""Learned metrics: kernel ridge regression alternated with its average gradient outer product."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer import kernels as K
from mercer._sklearn import Interval
from mercer.auto.leave_one_out import best_alpha, weighed
from mercer.estimators import KernelRidge
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.labels import checked_weights
from mercer.estimators.scores import Regressor

# Points that the median distance is taken of.
_MEDIAN_ROWS = 500
# The factor between regularisation parameters that are compared.
_FACTOR = 10.0


class RecursiveFeatureMachine(Regressor, TransformerMixin, BaseEstimator):
    r"""Kernel ridge regression in a metric learnt from its own gradients.

    .. math:: k(x, z) = \exp\bigl(-\sqrt{(x - z)^\top M (x - z)} / L\bigr), \qquad
              M \propto \frac1n \sum_i \nabla f(x_i)\, \nabla f(x_i)^\top

    Begins with the identity as M. Each round fits f with the current M, with L the median distance
    and the regularisation parameter of least leave-one-out error, and then replaces M by the
    average gradient outer product of f. The round of least leave-one-out error is kept.

    Parameters
    ----------
    n_rounds : int, default=4
        Metrics that are compared, the identity among them.
    diagonal : bool, default=False
        Whether M is diagonal: one scale per feature.
    bandwidth : float, default=1.0
        L in units of the median distance.

    Attributes
    ----------
    learned_metric_ : ndarray of shape (d, d)
        M, with trace d.
    loo_errors_ : ndarray of shape (n_rounds,)
        Mean squared leave-one-out errors, averaged over targets.
    loo_predictions_ : ndarray of shape (n,) or (n, n_targets)
        Of the round that is kept.
    alpha_ : float
    model_ : KernelRidge
        On the points that `transform` gives.

    References
    ----------
    Radhakrishnan, Beaglehole, Pandit and Belkin (2024), "Mechanism for feature learning in neural
    networks and backpropagation-free machine learning models".

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> model = RecursiveFeatureMachine().fit(X, np.sin(X[:, 0] + X[:, 1]))
    >>> model.learned_metric_.diagonal().argsort()[-2:].tolist() in ([0, 1], [1, 0])
    True
    >>> bool(model.loo_errors_[-1] < model.loo_errors_[0])
    True
    """

    _parameter_constraints: dict = {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "diagonal": ["boolean"],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, n_rounds: int = 4, diagonal: bool = False, bandwidth: float = 1.0):
        self.n_rounds = n_rounds
        self.diagonal = diagonal
        self.bandwidth = bandwidth

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RecursiveFeatureMachine:
        """Learn the metric, and fit the function.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, n_targets)
            Numbers; indicators of classes are numbers too.
        sample_weight : float or array of shape (n,), optional
            Weights in the fit, the errors and the metric.
        """
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        weight = checked_weights(sample_weight, X)
        if weight is not None:
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
            weight = weight / weight.mean()
        y = np.asarray(y, dtype=np.float64)
        Y = y.reshape(len(y), -1)
        self.offset_ = np.average(Y, axis=0, weights=weight)
        centred = Y - self.offset_
        roots = None if weight is None else np.sqrt(weight)
        targets = centred if roots is None else roots[:, None] * centred
        M, alpha, best, errors = np.eye(X.shape[1]), None, None, []
        for _ in range(self.n_rounds):
            Z = X @ _root(M)
            L = self.bandwidth * _median_distance(Z)
            kernel = K.Exponential(1 / L)
            G = np.asarray(kernel(Z), dtype=np.float64)
            error, alpha, residual = best_alpha(weighed(G, roots), targets, alpha, _FACTOR)
            errors.append(error)
            if error <= min(errors):
                best = M, alpha, kernel, residual
            model = KernelRidge(alpha=alpha, kernel=kernel).fit(Z, centred, weight)
            coef = np.asarray(model.dual_coef_).reshape(len(Z), -1)
            M = self._metric(X, Z, M, G, coef, L, weight)
        self.loo_errors_ = np.array(errors)
        if best is None:
            raise ValueError("no round has a finite leave-one-out error; scale X and y first")
        self.learned_metric_, self.alpha_, kernel, residual = best
        residual = residual if roots is None else residual / roots[:, None]
        self.loo_predictions_ = (Y - residual).reshape(y.shape)
        Z = X @ _root(self.learned_metric_)
        self.model_ = KernelRidge(alpha=self.alpha_, kernel=kernel)
        self.model_.fit(Z, centred.reshape(y.shape), weight)
        return self

    def _metric(
        self,
        X: np.ndarray,
        Z: np.ndarray,
        M: np.ndarray,
        G: np.ndarray,
        coef: np.ndarray,
        L: float,
        weight: np.ndarray | None,
    ) -> np.ndarray:
        """The average gradient outer product, with trace d; M again where f is constant."""
        squares = np.einsum("ij,ij->i", Z, Z)
        R = np.sqrt(np.maximum(squares[:, None] + squares - 2 * Z @ Z.T, 0))
        near = 1e-7 * max(float(np.sqrt(squares.max())), 1e-300)
        # The gradient of exp(-r/L) by x is -exp(-r/L) M (x - z) / (L r); at r = 0 it has none.
        S = np.where(near < R, G / (L * np.where(near < R, R, 1.0)), 0.0)
        found = np.zeros_like(M)
        for a in coef.T:
            W = S * a
            gradients = (W @ X - W.sum(axis=1)[:, None] * X) @ M
            found += gradients.T @ (gradients if weight is None else weight[:, None] * gradients)
        found = np.diag(found.diagonal()) if self.diagonal else (found + found.T) / 2
        trace = np.trace(found)
        return found * (len(M) / trace) if trace > 0 and np.isfinite(trace) else M

    def transform(self, X: Any) -> np.ndarray:
        """Points whose Euclidean distance is that of the metric, X M^{1/2}."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return X @ _root(self.learned_metric_)

    def predict(self, X: Any) -> np.ndarray:
        """Values of f."""
        points = self.transform(X)
        found = np.asarray(self.model_.predict(points))
        return found + (self.offset_ if found.ndim > 1 else self.offset_[0])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``direction0``, ``direction1``, ..."""
        check_is_fitted(self)
        return np.array([f"direction{k}" for k in range(self.n_features_in_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _root(M: np.ndarray) -> np.ndarray:
    """The symmetric root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def _median_distance(Z: np.ndarray) -> float:
    some = Z[:: max(len(Z) // _MEDIAN_ROWS, 1)]
    squares = np.einsum("ij,ij->i", some, some)
    D = np.sqrt(np.maximum(squares[:, None] + squares - 2 * some @ some.T, 0))
    median = float(np.median(D[np.triu_indices(len(D), 1)]))
    return median if median > 0 else 1.0
