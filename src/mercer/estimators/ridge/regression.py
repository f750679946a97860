"""Kernel ridge regression."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils.metaestimators import available_if

from mercer._sklearn import CallbackSupportMixin, StrOptions
from mercer.arrays.remote import over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.centres import centres_of
from mercer.estimators.chunks import split_chunks
from mercer.estimators.constraints import KERNEL, NON_NEGATIVE, POSITIVE, at_least
from mercer.estimators.decision_values import decision_values
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, require_fitted, takes_vectors
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import checked_weights, validate_supervised
from mercer.estimators.ridge.chunks import fit_on_moments, with_more_points
from mercer.estimators.ridge.engine import SOLVERS, fit_ridge, last_coefficients, store
from mercer.estimators.ridge.uncertainty import RidgeUncertainty
from mercer.estimators.scores import Regressor

SOLVER: dict = {
    "alpha": [NON_NEGATIVE, "array-like"],
    "solver": [StrOptions(SOLVERS)],
    "fit_intercept": ["boolean"],
    "n_centers": [at_least(1), None],
    "centers": [StrOptions({"pivoted", "uniform"}), "array-like", list],
    "step_size": [POSITIVE, None],
    "max_iter": [at_least(1), None],
    "max_time": [POSITIVE, None],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "tol": [NON_NEGATIVE],
    "keep_path": ["boolean"],
}


class KernelRidge(
    CallbackSupportMixin, RidgeUncertainty, MultiOutputMixin, Regressor, BaseEstimator
):
    r"""Kernel ridge regression.

    .. math::
        \min_w \tfrac12 \sum_i s_i \left(y_i - \langle w, \varphi(x_i) \rangle\right)^2
               + \tfrac12 \alpha \lVert w \rVert^2

    With :math:`w = \sum_i a_i \varphi(x_i)` and unit weights :math:`s` the solution is
    :math:`a = (K + \alpha I)^{-1} y`, as in scikit-learn's class of this name.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1
        Regularisation parameter, one for all targets or one each; larger alpha means more
        regularisation. 0 gives the least squares solution of minimum norm, with a warning if the
        data do not determine it.
    kernel : str, Kernel or callable, default="linear"
        A kernel object, a name ("linear", "poly", "rbf", "laplacian", "precomputed", ...) or a
        function of two rows.
    gamma : float, "scale", "auto" or None, default=None
        For named kernels with this parameter. None and "auto" are 1 / n_features, "scale" is
        1 / (n_features * variance of X).
    degree : int, default=3
        For "poly"; an integer.
    coef0 : float, default=1
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    fit_intercept : bool, default=False
        Whether to fit an unpenalised constant, which is equivalent to centring features and targets
        at their weighted means.
    solver : {"auto", "cholesky", "eigh", "primal", "pcg", "nystrom", "gd"}, default="auto"
        - "cholesky" factorises the n by n system.
        - "eigh" decomposes it, which also works for alpha = 0 and for many values of alpha.
        - "primal" solves for the weights of the kernel's explicit feature map.
        - "pcg" solves the n by n system by preconditioned conjugate gradients, without storing the
          Gram matrix.
        - "nystrom" minimises over functions ``sum_j c_j k(x, z_j)`` of a few centres z, in a few
          passes over the points. Memory does not grow with the number of points.
        - "gd" is gradient descent, ``a <- a - 2 step_size (K a - y + alpha a)``, from zero.
        - "auto" is "nystrom" if ``n_centers`` is given, and "primal" if the kernel has a finite
          feature map with few features compared with the number of points. Otherwise it is
          "cholesky" if the Gram matrix fits scikit-learn's ``working_memory`` ("eigh" if alpha is
          below the rounding error of K or has many values), else "pcg" up to 100,000 points and
          "nystrom" beyond. From 6,000 float32 points with float32 targets it is "pcg" if that is
          faster. ``result_.method`` reports the choice and its reason.
    n_centers : int or None, default=None
        Number of centres of "nystrom", 4 sqrt(n) by default, or rank of the preconditioner of
        "pcg", 11 sqrt(n) by default; both defaults are smaller if memory requires it.
    centers : {"pivoted", "uniform"} or array-like of shape (n_centers, n_features), \
default="pivoted"
        How "nystrom" chooses centres: by randomly pivoted Cholesky among five times as many
        random points, uniformly at random, or as given. If they are a tensor on a device, all
        computations run there, and points in host memory are copied to it in blocks.
    step_size : float or None, default=None
        Step of "gd". None is half of the largest stable step, which is
        ``1 / (largest eigenvalue of K + alpha)``.
    max_iter : int or None, default=None
        Maximum number of steps of "gd" and "pcg" (None: 1000) or passes of "nystrom" (None: 100).
    max_time : float or None, default=None
        Time limit in seconds of "pcg" and "nystrom", after which they stop with a warning. It is
        checked between iterations or passes, not during the computation of the preconditioner or
        the choice of centres. Other solvers ignore it.
    tol : float, default=1e-6
        Relative gradient at which "gd" and "nystrom" stop, or relative residual at which "pcg"
        stops. With 0 "gd" takes all ``max_iter`` steps.
    warm_start : bool, default=False
        Whether "pcg" starts from the coefficients of the last fit, if it had as many points.
    random_state : int, RandomState instance or None, default=0
        Random seed for the pivots of "pcg" and the centres of "nystrom".
    keep_path : bool, default=False
        Whether to store the coefficients of every step of "gd" in ``path_``.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        The coefficients a of ``X_fit_``.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant, zero without ``fit_intercept``.
    error_bound_ : float or ndarray of shape (n_targets,), or None
        For "pcg" and "nystrom" a bound B on the distance from the exact solution in the norm of the
        reproducing kernel Hilbert space: ``|f - f_exact|(x) <= sqrt(k(x, x)) B`` without the
        intercept. None for other solvers, or if computing it would take much longer than the fit.
    coef_ : ndarray of shape (n_features_of_map,) or (n_features_of_map, n_targets), or None
        The weights w of a fit in the primal.
    feature_map_ : FeatureMap or None
        The feature map of ``coef_``.
    path_ : ndarray of shape (n_steps + 1, ...), only with ``keep_path``
        The coefficients before the first and after each step of "gd".
    X_fit_ : the training points, or the centres of "nystrom".
    centres_, moments_ : only with "nystrom"
        Sums over the points, updated by `partial_fit`.
    kernel_ : Kernel
        The kernel used.
    n_iter_ : int
        Steps taken; 1 for direct solvers.
    result_ : Result
        ``gap`` is the norm of the gradient of the objective at w relative to that at zero; for
        "pcg" the norm of the residual relative to that of the targets. ``bound`` is the largest
        ``error_bound_``.

    References
    ----------
    Saunders, Gammerman and Vovk (1998), "Ridge regression learning algorithm in dual variables".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mercer.estimators.ridge.regression import KernelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidge(alpha=0.1, kernel="rbf", gamma=3.0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.56
    >>> model.result_.method
    'cholesky: no finite feature map'
    """

    moments_: Any
    _arrays = ArraySupport(tensors="everywhere")
    _parameter_constraints: dict = {**KERNEL, **SOLVER}

    def __init__(
        self,
        alpha: Any = 1,
        *,
        kernel: Any = "linear",
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        fit_intercept: bool = False,
        solver: str = "auto",
        n_centers: int | None = None,
        centers: Any = "pivoted",
        step_size: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = 0,
        keep_path: bool = False,
        indefinite: str = "error",
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.step_size = step_size
        self.max_iter = max_iter
        self.max_time = max_time
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.keep_path = keep_path
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidge:
        """Fit the regression.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights s of the squared errors, non-negative.

        Returns
        -------
        self : KernelRidge
        """
        X, y = validate_supervised(self, X, y, multi_output=True, y_numeric=True)
        weight = checked_weights(sample_weight, X)
        self._weight = weight
        self.kernel_ = resolve_kernel(self, X, weight)
        fit = fit_ridge(self, X, y, weight, last_coefficients(self, y.size))
        store(self, X, fit, flat=y.ndim == 1)
        return self

    @available_if(lambda self: self.solver == "nystrom")
    @atomic_fit
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidge:
        """Add training points; only with ``solver="nystrom"``.

        The first call chooses the centres among its points, unless ``centers`` is an array. Every
        call adds to sums of fixed size, so a loop over chunks gives the same model as `fit` on all
        points with these centres. After `fit` its centres are used, unless it was so large that its
        sums are estimates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Additional training points.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), optional

        Returns
        -------
        self : KernelRidge
        """
        self._add(X, y, sample_weight)
        return self._solve_sums()

    @available_if(lambda self: self.solver == "nystrom")
    @atomic_fit
    def fit_chunks(
        self, chunks: Iterable[Any], *, target: Any = None, sample_weight: str | None = None
    ) -> KernelRidge:
        """Fit from chunks of points in one pass; only with ``solver="nystrom"``.

        The centres are chosen in the first chunk, unless ``centers`` is an array. The model is that
        of `fit` on all points with these centres, in the memory of one chunk.

        Parameters
        ----------
        chunks : iterable
            Tuples ``(X, y)`` or ``(X, y, sample_weight)``; or tables, for example
            ``pandas.read_csv(..., chunksize=...)`` or
            ``pyarrow.parquet.ParquetFile(...).iter_batches()``.
        target : str or list of str, optional
            The target columns of tables; all others are features.
        sample_weight : str, optional
            The column of weights in tables.

        Returns
        -------
        self : KernelRidge
        """
        if hasattr(self, "moments_"):
            del self.centres_, self.moments_
        for X, y, weight in split_chunks(chunks, target, sample_weight):
            self._add(X, y, weight)
        if not hasattr(self, "moments_"):
            raise ValueError("chunks is empty; expected at least one chunk")
        return self._solve_sums()

    def _add(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Add points to the sums; the first choose the centres."""
        first = not hasattr(self, "moments_")
        known = {} if first or not takes_vectors(self.kernel) else {"reset": False}
        X, y = validate_supervised(self, X, y, multi_output=True, y_numeric=True, **known)
        weight = checked_weights(sample_weight, X)
        if first:
            self.kernel_ = resolve_kernel(self, X, weight)
            self.centres_, self.moments_ = centres_of(self, X, weight), None
        self._flat = y.ndim == 1
        y = np.asarray(y, dtype=np.float64)
        self.moments_ = with_more_points(self.centres_, self.moments_, X, y, weight)

    def _solve_sums(self) -> KernelRidge:
        store(self, None, fit_on_moments(self, self.centres_, self.moments_), flat=self._flat)
        return self

    @over_blocks
    def predict(self, X: Any, return_std: bool = False, noise: float | None = None) -> Any:
        """Predict the targets of new points.

        The standard deviation of a new target is that of a Gaussian process with the covariance
        ``(noise / alpha) k`` and errors of variance ``noise / s``, with s the sample weight, here
        1. Its mean is the ridge regression.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects
            New points; for a precomputed kernel, its values between them and the training points.
        return_std : bool, default=False
            Whether to return standard deviations too; for fits to at most 5,000 points.
        noise : float or None, default=None
            Variance of the errors; None estimates it by maximum likelihood, for each target.

        Returns
        -------
        predictions : ndarray of shape (m,) or (m, n_targets)
        std : ndarray of the same shape, only with ``return_std``
        """
        require_fitted(self)
        found = decision_values(self, X)
        return (found, self._deviations(X, noise)) if return_std else found

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())
