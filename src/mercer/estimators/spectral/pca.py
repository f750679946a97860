"""Kernel principal component analysis."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted

from mercer._sklearn import CallbackSupportMixin, StrOptions
from mercer.arrays import backend, dtype_of, refuse_masked, refuse_tensors, to_device_of, to_float64
from mercer.arrays.libraries import to_input_type
from mercer.arrays.remote import is_collection, over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.constraints import KERNEL, NON_NEGATIVE, at_least
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, is_precomputed, validate_query, validate_training
from mercer.estimators.kernel_parameter import resolve_gamma, resolve_kernel
from mercer.estimators.prediction_cache import cached_sum
from mercer.estimators.spectral.pca_engine import (
    fit_components_on_centres,
    fit_exactly,
    float_type,
    learn_pre_images,
)
from mercer.estimators.spectral.pre_images import nearest_images, refuse_no_images
from mercer.estimators.training_gram import training_gram
from mercer.kernels import Kernel
from mercer.operators import CentredGram, expansion


class KernelPCA(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    r"""Principal components in a kernel's feature space.

    With the centred Gram matrix :math:`\tilde K = HKH`, :math:`H = I - \frac1n 11^\top`, and its
    eigenpairs :math:`\tilde K v_j = \lambda_j v_j`, component j of a point x is

    .. math:: \frac{1}{\sqrt{\lambda_j}} \sum_i v_{ij} \, \langle \varphi(x) - \bar\varphi,
              \varphi(x_i) - \bar\varphi \rangle,

    the coordinate of :math:`\varphi(x) - \bar\varphi` along the j-th principal direction, where
    :math:`\bar\varphi` is the mean of the training points.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components. None keeps all with a non-zero eigenvalue.
    kernel : str, Kernel or callable, default="linear"
        A kernel object, a name ("linear", "poly", "rbf", "sigmoid", "cosine", "precomputed", ...)
        or a function of two rows.
    gamma : float or None, default=None
        For named kernels with this parameter; None is 1 / n_features.
    degree : float, default=3
        For "poly".
    coef0 : float, default=1
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    alpha : float, default=1.0
        Regularisation parameter of the regression in `inverse_transform`.
    fit_inverse_transform : bool, default=False
        Whether to prepare `inverse_transform`.
    pre_image : {"ridge", "fixed_point"}, default="ridge"
        How `inverse_transform` finds pre-images. "ridge" is kernel ridge regression from components
        to points, with the same kernel. "fixed_point", for kernels of the distance, finds the point
        with the nearest image in feature space, starting from the result of the regression. With a
        small gamma the regression at ``alpha=1`` predicts nearly the mean of the data for all
        points; then reduce alpha or use "fixed_point".
    eigen_solver : str, default="auto"
        - "dense": LAPACK on the whole matrix.
        - "primal": LAPACK on explicit features.
        - "krylov", "arpack": block Lanczos or Lanczos on products with the Gram matrix, which need
          not be stored.
        - "randomized": a random sketch.
        - "nystrom": the components in the span of a few centres, for very many points.
        - "auto": exact. It is "primal" if there are at most a quarter as many features as points,
          "krylov" for few components of more than 200 points, else "dense". ``result_.method``
          reports the choice.
    n_centers : int or None, default=None
        Number of centres of "nystrom", chosen by randomly pivoted Cholesky; None is
        :math:`4 \sqrt n`.
    tol : float, default=0
        Tolerance of "krylov" and "arpack"; 0 is about machine precision.
    max_iter : int or None, default=None
        Maximum number of products of "krylov" or restarts of "arpack".
    iterated_power : int or "auto", default="auto"
        Power steps of "randomized".
    remove_zero_eig : bool, default=False
        Whether to drop components with eigenvalue zero also if ``n_components`` is given.
    random_state : int, RandomState or None, default=0
        Random seed for the starting vectors of "krylov", "arpack" and "randomized", and for the
        centres of "nystrom".
    copy_X : bool, default=True
        Whether ``X_fit_`` is a copy of the training points.
    n_jobs : int or None, default=None
        Accepted for compatibility with scikit-learn and ignored; computations use the threads of
        the native core and of BLAS.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the centred Gram matrix, decreasing; those below rounding error are zero.
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        Unit eigenvectors, each with its largest entry positive; of shape (0, n_components) for a
        Dask collection.
    explained_variance_ : ndarray of shape (n_components,)
        ``eigenvalues_ / (n_samples - 1)``: the variance of each component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        ``eigenvalues_`` divided by the exact trace of the centred Gram matrix: fractions of the
        total variance, however few components are computed. With "nystrom" the matrix is centred
        by the mean of the approximation.
    residuals_ : ndarray of shape (n_components,)
        :math:`\|\tilde K v_j - \lambda_j v_j\|`, computed in float64, plus the rounding of
        ``eigenvalues_[j]`` to float32 or to zero: an eigenvalue lies within ``residuals_[j]`` of
        ``eigenvalues_[j]``. With "nystrom" a bound: the exact eigenvalue lies between
        ``eigenvalues_[j]`` and ``eigenvalues_[j] + residuals_[j]``.
    dual_coef_ : ndarray of shape (n_expansion, n_features)
        Coefficients of the pre-image regression, with ``fit_inverse_transform``.
    X_transformed_fit_ : ndarray of shape (n_expansion, n_components)
        Components of ``X_fit_``, with ``fit_inverse_transform``.
    X_fit_ : the points of the coefficients: the training points, or the centres of "nystrom".
    projection_, projection_offset_ : ndarrays of shape (n_expansion, n_components), (n_components,)
        The components of x are ``k(x, X_fit_) @ projection_ - projection_offset_``.
    mean_coef_ : ndarray of shape (n_expansion,)
        Coefficients of the mean :math:`\bar\varphi` over ``X_fit_``.
    mean_similarity_ : float
        :math:`\|\bar\varphi\|^2`.
    corrected_ : bool
        Whether the Gram matrix was corrected as ``indefinite`` requires.
    kernel_ : Kernel
        The kernel used.
    gamma_ : float
        Its gamma; for a named kernel without gamma, the value of the parameter ``gamma``.
    result_ : Result
        The solver's result; ``gap`` is the largest relative residual
        :math:`\|\tilde K v_j - \lambda_j v_j\| / \lambda_1`.

    References
    ----------
    Schölkopf, Smola, Müller, "Nonlinear component analysis as a kernel eigenvalue problem",
    Neural Computation 10 (1998). Bakır, Weston, Schölkopf, "Learning to find pre-images",
    NIPS 16 (2004).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.estimators.spectral.pca import KernelPCA
    >>> X, _ = load_iris(return_X_y=True)
    >>> pca = KernelPCA(n_components=2, kernel="rbf", gamma=0.1).fit(X)
    >>> pca.transform(X).shape
    (150, 2)
    >>> pca.explained_variance_ratio_.round(2)
    array([0.68, 0.18])
    """

    _arrays = ArraySupport(tensors="everywhere")
    _parameter_constraints: dict = {
        **KERNEL,
        "n_components": [at_least(1), None],
        "alpha": [NON_NEGATIVE],
        "fit_inverse_transform": ["boolean"],
        "pre_image": [StrOptions({"ridge", "fixed_point"})],
        "eigen_solver": [
            StrOptions({"auto", "dense", "primal", "krylov", "arpack", "randomized", "nystrom"})
        ],
        "n_centers": [at_least(1), None],
        "tol": [NON_NEGATIVE],
        "max_iter": [at_least(1), None],
        "iterated_power": [at_least(0), StrOptions({"auto"})],
        "remove_zero_eig": ["boolean"],
        "random_state": ["random_state"],
        "copy_X": ["boolean"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        n_components=None,
        *,
        kernel="linear",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        alpha=1.0,
        fit_inverse_transform=False,
        pre_image="ridge",
        eigen_solver="auto",
        tol=0,
        max_iter=None,
        iterated_power="auto",
        n_centers=None,
        remove_zero_eig=False,
        random_state=0,
        copy_X=True,
        n_jobs=None,
        indefinite="error",
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.pre_image = pre_image
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.n_centers = n_centers
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any = None) -> KernelPCA:
        """Compute the components.

        Parameters
        ----------
        X : the training points, of a type the kernel accepts: an array or sparse matrix of shape
            (n_samples, n_features), a list of objects, or a square Gram matrix for "precomputed".
        y : ignored

        Returns
        -------
        self
        """
        if self.fit_inverse_transform and is_precomputed(self.kernel):
            raise ValueError(
                "Cannot fit_inverse_transform with a precomputed kernel: pre-images are points, "
                "and only their Gram is known; pass the points and a kernel"
            )
        X = validate_training(self, X, copy=self.copy_X)
        for name, value in (("fit_inverse_transform", True), ("eigen_solver", "nystrom")):
            if getattr(self, name) == value:
                refuse_tensors(X, f"{name}={value!r}", ValueError)
        self.kernel_ = resolve_kernel(self, X)
        if self.fit_inverse_transform:
            refuse_no_images(self.kernel_, X, self.pre_image)
        if self.eigen_solver == "nystrom":
            fit_components_on_centres(self, X)
        else:
            self.X_fit_ = X
            fit_exactly(self, CentredGram(training_gram(self, X, self.kernel_)))
        if self.fit_inverse_transform:
            learn_pre_images(self, self.X_fit_)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> np.ndarray:
        """Compute the components and return those of the training points.

        Parameters
        ----------
        X : the training points, as for `fit`
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        fitted = self.fit(X, **params)
        if is_collection(X):
            return fitted.transform(X)
        return to_input_type(fitted._training_components(), X)

    def _training_components(self) -> np.ndarray:
        return self.eigenvectors_ * self.eigenvalues_**0.5

    @over_blocks
    def transform(self, X: Any) -> np.ndarray:
        """The components of new points.

        Parameters
        ----------
        X : points of the kind given to `fit`; for "precomputed" the kernel between them and the
            training points, shape (n_queries, n_samples).

        Returns
        -------
        ndarray of shape (n_queries, n_components)
        """
        check_is_fitted(self)
        return self._components(validate_query(self, X))

    def _components(self, X: Any) -> np.ndarray:
        kept = cached_sum(self, self.X_fit_, self.projection_)
        if kept is not None:
            return kept(X) - self.projection_offset_
        components = expansion(self.kernel_, X, self.X_fit_, self.projection_)
        components = components - self.projection_offset_
        dtype = np.result_type(float_type(X), dtype_of(self.eigenvectors_))
        return backend(components).asarray(components, dtype)

    @over_blocks
    def reconstruction_error(self, X: Any) -> np.ndarray:
        r"""Squared distance in feature space from the span of the components.

        .. math:: \|\varphi(x) - \bar\varphi\|^2 - \sum_j c_j(x)^2,

        with the components :math:`c_j`. It is large for points unlike the training points.

        Parameters
        ----------
        X : points of the kind given to `fit`

        Returns
        -------
        ndarray of shape (n_queries,)

        References
        ----------
        Hoffmann, "Kernel PCA for novelty detection", Pattern Recognition 40 (2007).
        """
        check_is_fitted(self)
        if is_precomputed(self.kernel):
            raise ValueError(
                "reconstruction_error needs k(x, x) of new points, which a precomputed matrix does "
                "not hold; fit on points with a kernel"
            )
        if self.corrected_:
            raise ValueError(
                f"reconstruction_error needs k(x, x), and indefinite={self.indefinite!r} corrected "
                "the Gram matrix of the training points alone; fit with a valid kernel"
            )
        X = validate_query(self, X)
        components = to_float64(self.transform(X))
        to_mean = expansion(self.kernel_, X, self.X_fit_, self.mean_coef_)
        total = self.kernel_.diag(X) - 2 * to_mean + self.mean_similarity_
        return to_device_of((total - (components**2).sum(1)).clip(0.0, None), X)

    @over_blocks
    def inverse_transform(self, X: Any) -> np.ndarray:
        """Approximate points with the components in the rows of X.

        The default is kernel ridge regression from components to training points, without an
        intercept.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_components)

        Returns
        -------
        ndarray of shape (n_queries, n_features)
        """
        check_is_fitted(self)
        if not self.fit_inverse_transform:
            raise NotFittedError(
                "fit_inverse_transform was False when this KernelPCA was fitted, so no inverse "
                "was learned; set it to True and fit again"
            )
        refuse_masked(X)
        X = check_array(X, dtype=(np.float64, np.float32), accept_sparse="csr")
        points = expansion(self.kernel_, X, self.X_transformed_fit_, self.dual_coef_)
        if self.pre_image == "ridge":
            return points
        coef = X @ self.projection_.T + self.mean_coef_
        found = nearest_images(self.kernel_, self.X_fit_, coef, points)
        return found.astype(points.dtype, copy=False)

    @property
    def gamma_(self) -> float:
        """The kernel's gamma; for a named kernel without gamma, the value of the parameter."""
        kernel: Any = self.kernel_
        if hasattr(kernel, "gamma") or isinstance(self.kernel, Kernel):
            return kernel.gamma
        return resolve_gamma(self, self.X_fit_)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_tags__(self):
        tags = input_tags(self, super().__sklearn_tags__())
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
