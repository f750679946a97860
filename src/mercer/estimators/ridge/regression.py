"""Kernel ridge regression."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils.metaestimators import available_if

from mercer._sklearn import CallbackSupportMixin, StrOptions
from mercer.arrays.remote import over_blocks
from mercer.estimators.centres import Centres
from mercer.estimators.chunks import split_chunks
from mercer.estimators.constraints import KERNEL, NON_NEGATIVE, POSITIVE, at_least
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, require_fitted, takes_vectors
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import checked_weights, validate_supervised
from mercer.estimators.ridge.engine import (
    SOLVERS,
    evaluate,
    fit_on_moments,
    fit_ridge,
    last_coefficients,
    store,
    with_more_points,
)
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


class KernelRidge(CallbackSupportMixin, MultiOutputMixin, Regressor, BaseEstimator):
    r"""Kernel ridge regression.

    .. math::
        \min_w \tfrac12 \sum_i s_i \left(y_i - \langle w, \varphi(x_i) \rangle\right)^2
               + \tfrac12 \alpha \lVert w \rVert^2

    With :math:`w = \sum_i a_i \varphi(x_i)` and unit weights :math:`s` the solution is
    :math:`a = (K + \alpha I)^{-1} y`, as in scikit-learn's class of this name.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1
        Regulariser, one for all targets or one each. With 0 the least squares solution of
        minimum norm is returned, with a warning if the data leave it undetermined.
    kernel : str, Kernel or callable, default="linear"
        A kernel object, a name ("linear", "poly", "rbf", "laplacian", "precomputed", ...) or a
        function of two rows.
    gamma : float, "scale", "auto" or None, default=None
        For named kernels that have one; None and "auto" are 1 / n_features, "scale" is
        1 / (n_features * variance of X).
    degree : int, default=3
        For "poly"; a whole number.
    coef0 : float, default=1
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    fit_intercept : bool, default=False
        Whether to fit a constant that is not penalised; this equals centring features and targets
        on their weighted means.
    solver : {"auto", "cholesky", "eigh", "primal", "pcg", "nystrom", "gd"}, default="auto"
        "cholesky" factorises the n by n system; "eigh" decomposes it and copes with alpha = 0;
        "primal" solves for the weights of the kernel's explicit feature map; "pcg" solves the same
        system by preconditioned conjugate gradients, from products with a Gram matrix that is not
        stored; "nystrom" minimises over functions ``sum_j c_j k(x, z_j)`` of a few centres z, in a
        few passes over the points and memory that does not grow with them; "gd" descends as
        ``a <- a - 2 step_size (K a - y + alpha a)`` from zero. "auto" takes "nystrom" when
        n_centers is given, "primal" when the kernel has a finite map with few features beside the
        number of points, else "cholesky" while the Gram matrix fits scikit-learn's
        ``working_memory`` ("eigh" when alpha is below the rounding error of K or there are many
        different ones), beyond it "pcg" up to 100,000 points, and "nystrom" for more; thousands of
        float32 points with float32 targets go to "pcg" where that is faster;
        ``result_.method`` says which and why.
    n_centers : int or None, default=None
        Number of centres of "nystrom", 4 sqrt(n) if None; or the rank of the preconditioner of
        "pcg", 11 sqrt(n) if None; both less where memory demands it.
    centers : {"pivoted", "uniform"} or array-like of shape (n_centers, n_features), \
default="pivoted"
        How "nystrom" finds its centres: by randomly pivoted Cholesky among five times as many
        random points, at random, or as given. Given as a tensor on a device, they have all
        computed there, and points of the host brought to them in blocks.
    step_size : float or None, default=None
        Step of "gd"; None takes half of the largest stable one,
        ``1 / (largest eigenvalue of K + alpha)``.
    max_iter : int or None, default=None
        Steps of "gd" and "pcg", 1000 if None; passes of "nystrom", 100 if None.
    max_time : float or None, default=None
        Seconds after which "pcg" and "nystrom" stop where they are, with a warning; looked at
        between iterations or passes, not while "pcg" makes its preconditioner or "nystrom" finds
        its centres. The other solvers take no notice of it.
    tol : float, default=1e-6
        Relative gradient at which "gd" and "nystrom" stop, 0 takes every step; relative residual
        at which "pcg" stops.
    warm_start : bool, default=False
        Whether "pcg" goes on from the coefficients of the last fit, to the same number of points.
    random_state : int, RandomState instance or None, default=0
        Of the pivots of "pcg" and the centres of "nystrom"; the same at every fit by default.
    keep_path : bool, default=False
        Whether to keep the coefficients of every step of "gd" in ``path_``.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" adds to the diagonal of the training points alone; new points are seen
        through the kernel as it is.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        The coefficients a; with "nystrom" those of the centres, which are ``X_fit_``.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant, zero without ``fit_intercept``.
    error_bound_ : float or ndarray of shape (n_targets,), or None
        For "pcg" and "nystrom" a proven bound B on the distance from the exact solution in the
        kernel's space, so that ``|f - f_exact|(x) <= sqrt(k(x, x)) B`` up to the intercept; None
        where it would take much longer than the fit, and for other solvers.
    coef_ : ndarray of shape (n_features_of_map,) or (n_features_of_map, n_targets), or None
        The weights w, where the fit was made in the primal.
    feature_map_ : FeatureMap or None
        The map that goes with ``coef_``.
    path_ : ndarray of shape (n_steps + 1, ...), only with ``keep_path``
        The coefficients before the first and after each step of "gd".
    X_fit_ : the training points, or the centres of "nystrom".
    centres_, moments_ : only with "nystrom"
        Sums over the points, which `partial_fit` adds to.
    kernel_ : Kernel
        The kernel used.
    n_iter_ : int
        Steps taken; 1 for direct solvers.
    result_ : Result
        ``gap`` is the norm of the objective's gradient at w relative to the one at zero, for
        "pcg" the norm of the residual relative to the targets'; ``bound`` is the largest
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
    _takes_tensors = True
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
            Weights s of the squared errors, not negative.

        Returns
        -------
        self : KernelRidge
        """
        X, y = validate_supervised(self, X, y, multi_output=True, y_numeric=True)
        weight = checked_weights(sample_weight, X)
        self.kernel_ = resolve_kernel(self, X, weight)
        fit = fit_ridge(self, X, y, weight, last_coefficients(self, y.size))
        store(self, X, fit, flat=y.ndim == 1)
        return self

    @available_if(lambda self: self.solver == "nystrom")
    @atomic_fit
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidge:
        """Learn from more points; only with ``solver="nystrom"``.

        The first call chooses the centres, among its points unless ``centers`` has them, and every
        call adds to sums whose size does not grow, so that a loop over chunks fits what `fit` on
        all of them would with the same centres. After a `fit` its centres stay, unless it was so
        large that its sums are estimates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Some training points.
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
        """Fit points that come in chunks, each seen once; only with ``solver="nystrom"``.

        The centres are chosen among the first chunk, unless ``centers`` has them. Then this fits
        what `fit` on all chunks together would, in memory for one of them.

        Parameters
        ----------
        chunks : iterable
            Of tuples ``(X, y)`` or ``(X, y, sample_weight)``; or of tables, as
            ``pandas.read_csv(..., chunksize=...)`` and
            ``pyarrow.parquet.ParquetFile(...).iter_batches()`` give.
        target : str or list of str, optional
            The columns of tables that are predicted; all others are features.
        sample_weight : str, optional
            The column of tables that has weights.

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
            self.centres_, self.moments_ = Centres(self, X, weight), None
        self._flat = y.ndim == 1
        y = np.asarray(y, dtype=np.float64)
        self.moments_ = with_more_points(self.centres_, self.moments_, X, y, weight)

    def _solve_sums(self) -> KernelRidge:
        store(self, None, fit_on_moments(self, self.centres_, self.moments_), flat=self._flat)
        return self

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predict.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features), or list of objects
            For a precomputed kernel, its values between the m points and the training points.

        Returns
        -------
        ndarray of shape (m,) or (m, n_targets)
        """
        require_fitted(self)
        return evaluate(self, X)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())
