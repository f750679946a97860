"""Support vector regression, and outlier detection by a one-class support vector machine."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from mercer.arrays import as_numpy, n_rows, to_device_of
from mercer.arrays.remote import over_blocks
from mercer.estimators.constraints import NON_NEGATIVE, POSITIVE
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import validate_training
from mercer.estimators.intervals import PredictionIntervals
from mercer.estimators.scores import Regressor
from mercer.estimators.svm.engine import PARAMETERS, PENALTY, SHARE, SupportVectorMachine
from mercer.estimators.svm.forms import Expansion, Form, epsilon_svr, nu_svr, one_class
from mercer.estimators.svm.path import (
    LeaveOneOut,
    RegularisationPath,
    leave_one_out,
    regularisation_path,
)
from mercer.estimators.svm.training import Training
from mercer.estimators.svm.values import function_values

_HAIR = 1e-11


class SVR(PredictionIntervals, Regressor, SupportVectorMachine):
    r"""Support vector regression with the epsilon-insensitive loss.

    .. math:: \min_{w, b} \; \tfrac12 \lVert w \rVert^2
              + C \sum_i \max(0, \lvert y_i - f(x_i) \rvert - \varepsilon), \qquad
              f(x) = \langle w, \varphi(x) \rangle + b

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol
        As in `SVC`.
    C : float, default=1.0
        Regularisation parameter; larger C means less regularisation. With ``inf`` no error may
        exceed epsilon.
    epsilon : float, default=0.1
        Half-width of the tube; smaller errors have no loss.
    shrinking, cache_size, verbose, max_iter, fit_intercept, solver, max_time, warm_start, \
indefinite
        As in `SVC`.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors: the points on the tube or outside it.
    support_vectors_ : ndarray of shape (n_SV, n_features), or list of objects
    n_support_ : ndarray of shape (1,)
    dual_coef_ : ndarray of shape (1, n_SV), sparse if X is
    intercept_ : ndarray of shape (1,)
    coef_ : ndarray of shape (1, n_features)
        For the linear kernel.
    dual_gap_ : float
        Duality gap divided by max(1, abs(objective)), computed at the end.
    margin_ : float
        1 / ‖w‖.
    result_ : Result
        The solver's result: its gap, number of steps and status.
    kernel_, fit_status_, n_iter_, shape_fit_
        As in `SVC`; ``n_iter_`` is a number.

    References
    ----------
    Smola and Schölkopf (2004), "A tutorial on support vector regression".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.svm import SVR
    >>> X = np.arange(5.0)[:, None]
    >>> SVR(kernel="linear", C=np.inf, epsilon=0.5).fit(X, 2 * X[:, 0]).predict([[2.0]]).round(6)
    array([4.])
    """

    _parameter_constraints: dict = {**PARAMETERS, "C": [PENALTY], "epsilon": [NON_NEGATIVE]}

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: Any = False,
        max_iter: int = -1,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_time: float | None = None,
        warm_start: bool = False,
        indefinite: str = "error",
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_time = max_time
        self.warm_start = warm_start
        self.indefinite = indefinite

    def path(
        self,
        X: Any,
        y: Any,
        Cs: Any,
        *,
        sample_weight: Any = None,
        validation: Any = None,
        cv: Any = None,
    ) -> RegularisationPath:
        """Fit for several values of C in ascending order, on one Gram matrix; see `SVC.path`."""
        return regularisation_path(self, X, y, Cs, sample_weight, validation, cv)

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any = None) -> LeaveOneOut:
        """Predict each point from the model fitted to all others; see `SVC.leave_one_out`.

        ``values`` and ``predictions`` are equal.
        """
        return leave_one_out(self, X, y, sample_weight)

    def _form(self, gram_matrix: Any, targets: np.ndarray, weight: np.ndarray) -> Form:
        return epsilon_svr(
            gram_matrix, targets, self.epsilon, self._penalties(weight), self.fit_intercept
        )

    def _infeasible(self) -> str:
        C, other = self._hard()
        return (
            f"{C} asks for a function within epsilon={self.epsilon!r} of every target, and the "
            f"kernel has none; use {other}, a larger epsilon, or a richer kernel"
        )

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """f at each point of X, shape (m,)."""
        return function_values(self, X)[:, 0]


class NuSVR(Regressor, SupportVectorMachine):
    r"""Support vector regression with a bound nu on the fraction of points outside the tube.

    .. math:: \min_{w, b, \varepsilon} \; \tfrac12 \lVert w \rVert^2 + C \Bigl(\nu n \varepsilon
              + \sum_i \max(0, \lvert y_i - f(x_i) \rvert - \varepsilon) \Bigr)

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: an upper bound on the fraction of points outside the tube and a lower bound on
        the fraction of support vectors.
    C : float, default=1.0
        Regularisation parameter, finite; larger C means less regularisation.
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter, fit_intercept, \
solver, max_time, warm_start, indefinite
        As in `SVC`.

    Attributes
    ----------
    epsilon_ : float
        Half-width of the tube, determined by nu.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, dual_gap_, margin_, \
result_, kernel_, fit_status_, n_iter_, shape_fit_
        As in `SVR`.

    References
    ----------
    Schölkopf, Smola, Williamson and Bartlett (2000), "New support vector algorithms".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.svm import NuSVR
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = NuSVR(nu=0.3, C=10).fit(X, np.sin(X[:, 0]))
    >>> bool((np.abs(model.predict(X) - np.sin(X[:, 0])) > model.epsilon_ + 2e-3).mean() <= 0.3)
    True
    """

    _parameter_constraints: dict = {**PARAMETERS, "C": [POSITIVE], "nu": [SHARE]}

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float = 200,
        verbose: Any = False,
        max_iter: int = -1,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_time: float | None = None,
        warm_start: bool = False,
        indefinite: str = "error",
    ):
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_time = max_time
        self.warm_start = warm_start
        self.indefinite = indefinite

    def _form(self, gram_matrix: Any, targets: np.ndarray, weight: np.ndarray) -> Form:
        return nu_svr(gram_matrix, targets, self.nu, self._penalties(weight), self.fit_intercept)

    def _set_coefficients(
        self, training: Training, found: np.ndarray, applied: np.ndarray, models: list[Expansion]
    ) -> None:
        super()._set_coefficients(training, found, applied, models)
        self.epsilon_ = -models[0].width

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """f at each point of X, shape (m,)."""
        return function_values(self, X)[:, 0]


class OneClassSVM(OutlierMixin, SupportVectorMachine):
    r"""Outlier detection: a region with most of the data, where f is positive.

    .. math:: \min_{w, \rho} \; \tfrac12 \lVert w \rVert^2 - \nu n \rho
              + \sum_i \max(0, \rho - \langle w, \varphi(x_i) \rangle), \qquad
              f(x) = \langle w, \varphi(x) \rangle - \rho

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: an upper bound on the fraction of training points outside and a lower bound on
        the fraction of support vectors.
    fit_intercept : bool, default=True
        Must be True: the region is where ``<w, phi(x)>`` exceeds the offset rho.
    kernel, degree, gamma, coef0, tol, shrinking, cache_size, verbose, max_iter, solver, max_time, \
warm_start, indefinite
        As in `SVC`.

    Attributes
    ----------
    offset_ : ndarray of shape (1,)
        The offset rho: f = ``score_samples`` - ``offset_``.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, dual_gap_, margin_, \
result_, kernel_, fit_status_, n_iter_, shape_fit_
        As in `SVR`.

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson (2001), "Estimating the support of a
    high-dimensional distribution".

    Examples
    --------
    >>> from mercer.estimators.svm import OneClassSVM
    >>> machine = OneClassSVM(gamma=2.0, nu=0.4).fit([[0.0], [0.4], [0.5], [0.6], [1.0]])
    >>> machine.predict([[-1.0], [0.5], [2.0]])
    array([-1,  1, -1])
    """

    _parameter_constraints: dict = {**PARAMETERS, "nu": [SHARE]}

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: Any = False,
        max_iter: int = -1,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_time: float | None = None,
        warm_start: bool = False,
        indefinite: str = "error",
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_time = max_time
        self.warm_start = warm_start
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the region.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the points; points of zero or negative weight are dropped.

        Returns
        -------
        self
        """
        if not self.fit_intercept:
            raise ValueError(
                "fit_intercept=False leaves OneClassSVM without the offset that bounds its region; "
                "expected True"
            )
        return self._train(self._training(X, None, sample_weight))

    def _checked(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        X = validate_training(self, X)
        return X, np.zeros(n_rows(X))

    def _set_coefficients(
        self, training: Training, found: np.ndarray, applied: np.ndarray, models: list[Expansion]
    ) -> None:
        super()._set_coefficients(training, found, applied, models)
        # A hair below rho, so that points on the boundary are inside however their f is rounded.
        self.offset_ = -self.intercept_ * (1 - _HAIR * np.sign(-self.intercept_))
        self.intercept_ = -self.offset_

    def _form(self, gram_matrix: Any, targets: np.ndarray, weight: np.ndarray) -> Form:
        return one_class(gram_matrix, self.nu, weight)

    @over_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """f at each point of X, shape (m,): positive inside, negative outside."""
        return function_values(self, X)[:, 0]

    @over_blocks
    def score_samples(self, X: Any) -> np.ndarray:
        """``<w, phi(x)>``, which is f plus the offset, shape (m,)."""
        values = self.decision_function(X)
        return values + to_device_of(self.offset_, values)

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """+1 for points inside or on the boundary, -1 for points outside, shape (m,).

        Many training points lie exactly on the boundary; in scikit-learn's class, rounding decides
        about them.
        """
        return np.where(as_numpy(self.decision_function(X)) >= 0, 1, -1)
