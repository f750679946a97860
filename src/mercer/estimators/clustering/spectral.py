"""Spectral clustering on any kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state

from mercer.arrays import n_rows
from mercer.estimators.clustering.engine import LARGEST_SEED
from mercer.estimators.constraints import KERNEL, NON_NEGATIVE, at_least
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, validate_training
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.training_gram import training_gram
from mercer.solvers.spectral.laplacian import laplacian_embedding


class KernelSpectralClustering(ClusterMixin, BaseEstimator):
    r"""Spectral clustering: k-means on eigenvectors of the normalised Laplacian of a kernel.

    .. math:: L = I - D^{-1/2} K D^{-1/2}, \qquad D = \mathrm{diag}(K 1)

    The rows of the eigenvectors with the k smallest eigenvalues are scaled to unit length and
    clustered by k-means. The Laplacian is never formed: Lanczos takes products with K, which is
    recomputed in tiles where it does not fit in memory.

    Parameters
    ----------
    n_clusters : int, default=8
    kernel : str, Kernel or callable, default="rbf"
        With non-negative values. A kernel object, a name ("rbf", "laplacian", "precomputed", ...)
        or a function of two rows.
    gamma : float, "scale", "auto" or None, default="scale"
        For named kernels with this parameter. "scale" is 1 / (n_features * variance of X), None
        and "auto" are 1 / n_features.
    degree : float, default=3
        For "poly".
    coef0 : float, default=1
        For "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    n_components : int or None, default=None
        Number of eigenvectors; None is ``n_clusters``.
    n_init : int, default=10
        Number of starts of k-means.
    tol : float, default=1e-6
        Relative accuracy of the eigenvectors.
    random_state : int, RandomState or None, default=0
        Random seed for Lanczos and k-means.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
    eigenvalues_ : ndarray of shape (n_components,)
        The smallest eigenvalues of L. A gap after the k-th suggests k clusters.
    embedding_ : ndarray of shape (n_samples, n_components)
        Eigenvectors of L with rows of unit length.
    kernel_ : Kernel
        The kernel used.
    result_ : Result
        Of the eigenvalue solver.

    References
    ----------
    Ng, Jordan and Weiss, "On spectral clustering: analysis and an algorithm", NIPS 14 (2001).

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelSpectralClustering
    >>> X, y = make_circles(200, factor=0.4, noise=0.03, random_state=0)
    >>> labels = KernelSpectralClustering(2, gamma=30.0).fit_predict(X)
    >>> bool((labels == y).all() or (labels != y).all())
    True
    """

    _parameter_constraints: dict = {
        **KERNEL,
        "n_clusters": [at_least(1)],
        "n_components": [at_least(1), None],
        "n_init": [at_least(1)],
        "tol": [NON_NEGATIVE],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        n_components: int | None = None,
        n_init: int = 10,
        tol: float = 1e-6,
        random_state: Any = 0,
        indefinite: str = "error",
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.n_init = n_init
        self.tol = tol
        self.random_state = random_state
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any = None) -> KernelSpectralClustering:
        """Find clusters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : ignored

        Returns
        -------
        self : KernelSpectralClustering
        """
        from sklearn.cluster import KMeans  # slow to import

        X = validate_training(self, X)
        n, k = n_rows(X), self.n_components or self.n_clusters
        if n < max(self.n_clusters, k):
            raise ValueError(
                f"n_clusters={self.n_clusters} with {k} components and X has n_samples={n}; "
                "choose fewer clusters"
            )
        self.kernel_ = resolve_kernel(self, X)
        rng = check_random_state(self.random_state)
        K = training_gram(self, X, self.kernel_)
        found = laplacian_embedding(K, k, tol=self.tol, random_state=rng.randint(LARGEST_SEED))
        vectors = found.value.vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        self.embedding_ = vectors / np.where(lengths > 0, lengths, 1.0)
        self.eigenvalues_ = found.value.values
        model = KMeans(self.n_clusters, n_init=self.n_init, random_state=rng.randint(LARGEST_SEED))
        self.labels_ = model.fit(self.embedding_).labels_
        self.result_ = replace(found, value=None)
        return self

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())
