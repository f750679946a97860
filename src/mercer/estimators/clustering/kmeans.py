"""k-means in feature space."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import CallbackSupportMixin, StrOptions
from mercer.arrays import n_rows
from mercer.arrays.remote import over_blocks
from mercer.estimators.clustering.engine import kmeans_exactly, kmeans_on_centres, own_norms
from mercer.estimators.constraints import KERNEL, NON_NEGATIVE, at_least
from mercer.estimators.decision_values import expansion_at
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, validate_query, validate_training
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import checked_weights, weight_unit


class KernelKMeans(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    r"""k-means clustering in a kernel's feature space.

    .. math:: \min_{y_1, \dots, y_n} \sum_i w_i \lVert \varphi(x_i) - c_{y_i} \rVert^2, \qquad
              c_y = \frac{1}{W_y} \sum_{i: y_i = y} w_i \varphi(x_i)

    Lloyd's algorithm needs products with the Gram matrix only, which need not be stored. No
    partition has a lower inertia than ``inertia_bound_``, which follows from the eigenvalues of
    the Gram matrix.

    Parameters
    ----------
    n_clusters : int, default=8
    kernel : str, Kernel or callable, default="rbf"
        A kernel object, a name ("linear", "poly", "rbf", "laplacian", "precomputed", ...) or a
        function of two rows.
    gamma : float, "scale", "auto" or None, default="scale"
        For named kernels with this parameter. "scale" is 1 / (n_features * variance of X), None
        and "auto" are 1 / n_features.
    degree : float, default=3
        For "poly".
    coef0 : float, default=1
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    n_init : int or "auto", default="auto"
        Number of starts by k-means++ in feature space; the best is kept. "auto" is 1.
    max_iter : int, default=300
        Maximum number of steps of each start.
    tol : float, default=0.0
        Stop when at most this share of the weight changed clusters in a step; with ``n_centers``
        and all points at once, when none did.
    n_centers : int or None, default=None
        Approximate feature space by the span of so many training points, chosen by randomly
        pivoted Cholesky, for data too large for products with the whole Gram matrix. The inertia
        is exact for the means found.
    batch_size : int or None, default=None
        With ``n_centers``, update the means by random batches of so many points; None uses all
        points where their features fit in memory.
    random_state : int, RandomState or None, default=0
        Random seed for the starts, centres and batches.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
    inertia_ : float
        The weighted sum of squared distances of the points to the mean of their cluster.
    inertia_bound_ : float or None
        A bound below the inertia of every partition; None with ``n_centers``.
    n_iter_ : int
        Steps of the best start.
    dual_coef_ : ndarray of shape (n_points, n_clusters)
        Coefficients of the means over ``X_fit_``.
    squared_norms_ : ndarray of shape (n_clusters,)
        Squared norms of the means.
    X_fit_ : the points that the means are expanded in.
    kernel_ : Kernel
        The kernel used.
    result_ : Result
        Of the best start; its gap is the share of weight that moved in the last step.

    References
    ----------
    Dhillon, Guan and Kulis, "Kernel k-means, spectral clustering and normalized cuts", KDD 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelKMeans
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> model = KernelKMeans(2, gamma=0.5).fit(X)
    >>> bool(model.labels_[0] == model.labels_[1] != model.labels_[2])
    True
    >>> model.inertia_ >= model.inertia_bound_
    True
    """

    _parameter_constraints: dict = {
        **KERNEL,
        "n_clusters": [at_least(1)],
        "n_init": [at_least(1), StrOptions({"auto"})],
        "max_iter": [at_least(1)],
        "tol": [NON_NEGATIVE],
        "n_centers": [at_least(1), None],
        "batch_size": [at_least(1), None],
        "random_state": ["random_state"],
    }
    # Where centres are chosen: among the points, by pivots.
    centers = "pivoted"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 0.0,
        n_centers: int | None = None,
        batch_size: int | None = None,
        random_state: Any = 0,
        indefinite: str = "error",
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_centers = n_centers
        self.batch_size = batch_size
        self.random_state = random_state
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelKMeans:
        """Find clusters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : ignored
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights of the points in the means and in the inertia.

        Returns
        -------
        self : KernelKMeans
        """
        X = validate_training(self, X)
        n = n_rows(X)
        weight = checked_weights(sample_weight, X)
        if n < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} and X has n_samples={n}; choose at most {n}"
            )
        self.kernel_ = resolve_kernel(self, X, weight)
        weight = np.ones(n) if weight is None else weight
        unit = weight_unit(weight)
        rng = check_random_state(self.random_state)
        fit = kmeans_exactly if self.n_centers is None else kmeans_on_centres
        fit(self, X, weight / unit, rng)
        self.inertia_ *= unit
        if self.inertia_bound_ is not None:
            self.inertia_bound_ *= unit
        self._n_features_out = self.n_clusters
        return self

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """The cluster with the nearest mean, shape (m,)."""
        return np.argmin(self._relative(X), axis=1).astype(np.int32)

    @over_blocks
    def transform(self, X: Any) -> np.ndarray:
        """Distances to the means in feature space, shape (m, n_clusters)."""
        squared = self._relative(X) + self._own(X)[:, None]
        return np.sqrt(np.maximum(squared, 0.0))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted sum of squared distances to the nearest mean."""
        squared = np.maximum(self._relative(X).min(axis=1) + self._own(X), 0.0)
        weight = checked_weights(sample_weight, X)
        return -float(squared.sum() if weight is None else weight @ squared)

    def _relative(self, X: Any) -> np.ndarray:
        """Squared distances to the means, less the squared norm of the point."""
        check_is_fitted(self)
        return self.squared_norms_ - 2 * np.asarray(
            expansion_at(self, X, self.dual_coef_), dtype=np.float64
        )

    def _own(self, X: Any) -> np.ndarray:
        """Squared norms of points in feature space."""
        return own_norms(self, validate_query(self, X))

    def __sklearn_tags__(self) -> Any:
        tags = input_tags(self, super().__sklearn_tags__())
        tags.transformer_tags.preserves_dtype = []
        return tags
