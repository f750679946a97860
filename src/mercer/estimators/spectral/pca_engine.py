"""From the parameters of kernel PCA to eigenpairs, and the fitted attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import is_single, n_rows, to_device_of
from mercer.arrays.remote import is_remote
from mercer.estimators.progress import reporter
from mercer.estimators.spectral.pca_nystrom import nystrom_components
from mercer.estimators.spectral.pre_images import ridge_images
from mercer.estimators.training_gram import refuse_non_finite
from mercer.operators import CentredGram, CorrectedGram
from mercer.solvers.result import Status
from mercer.solvers.spectral.centring import centred_projection, rounding_floor
from mercer.solvers.spectral.eigenpairs import Eigenpairs, leading_eigenpairs

# Ratios to the largest eigenvalue below which scikit-learn's class calls an eigenvalue zero;
# kept so that the same components survive.
ZERO_RATIO = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-7}
# What follows the points where these are tensors.
TENSORS = (
    "eigenvalues_",
    "eigenvectors_",
    "explained_variance_",
    "explained_variance_ratio_",
    "residuals_",
    "projection_",
    "projection_offset_",
    "mean_coef_",
)


def fit_exactly(pca: Any, centred: CentredGram) -> None:
    K = centred.gram
    n, dtype = K.shape[0], np.dtype(K.dtype)
    floor = rounding_floor(n, float(abs(K.diagonal()).max()), dtype)
    found = leading_eigenpairs(
        centred,
        _wanted(pca, centred),
        method=pca.eigen_solver,
        tol=pca.tol,
        max_iter=pca.max_iter,
        iterated_power=pca.iterated_power,
        random_state=pca.random_state,
        floor=floor,
        report=reporter(pca),
    )
    more = "raise max_iter (or iterated_power of 'randomized'), or use eigen_solver='dense'"
    pca.result_ = found if found.status is Status.STOPPED else found.advised(more)
    total = float(np.sum(centred.diagonal(), dtype=np.float64))
    _set_pairs(pca, pca.result_.value, total, floor, dtype, n)
    # v_j / sqrt(lam_j), zero where lam_j is.
    values = pca.eigenvalues_.astype(np.float64)
    scale = np.zeros_like(values)
    scale[values > 0] = 1.0 / np.sqrt(values[values > 0])
    coef, pca.projection_offset_ = centred_projection(
        centred.column_means, pca.eigenvectors_ * scale
    )
    pca.projection_ = K.extend_coefficients(coef)
    pca.mean_coef_ = K.extend_coefficients(np.full(n, 1 / n))
    pca.mean_similarity_ = centred.grand_mean
    for name in TENSORS:
        setattr(pca, name, to_device_of(getattr(pca, name), pca.X_fit_))
    pca.corrected_ = isinstance(K, CorrectedGram)


def fit_components_on_centres(pca: Any, X: Any) -> None:
    diagonal = X.diagonal(pca.kernel_) if is_remote(X) else pca.kernel_.diag(X)
    refuse_non_finite(diagonal, pca.kernel_)
    floor = rounding_floor(n_rows(X), np.max(np.abs(diagonal)))
    found = nystrom_components(pca, X, pca.n_components, floor)
    pca.result_, pca.X_fit_ = found.result, found.points
    kept = _set_pairs(pca, found.result.value, found.trace, floor, float_type(X), n_rows(X))
    nonzero = pca.eigenvalues_ > 0
    pca.projection_ = found.projection[:, kept] * nonzero
    pca.projection_offset_ = found.offset[kept] * nonzero
    pca.mean_coef_, pca.mean_similarity_ = found.mean_coef, found.mean_similarity
    pca.corrected_ = found.corrected


def _set_pairs(
    pca: Any, pairs: Eigenpairs, total: float, floor: float, dtype: np.dtype, n: int
) -> np.ndarray:
    """Keep the pairs with what follows from them; which ones they are, as a mask.

    ``dtype`` is that of the kernel's values; pairs are kept in that of the points.
    """
    values = pairs.values
    floor = max(floor, ZERO_RATIO[dtype] * float(values.max(initial=0.0)))
    values = np.where(values > floor, values, 0.0)
    kept = np.ones(len(values), dtype=bool)
    if pca.remove_zero_eig or pca.n_components is None:
        kept = values > 0
    values = values[kept]
    pca.explained_variance_ = values / max(n - 1, 1)
    pca.explained_variance_ratio_ = values / total if total > floor else np.zeros_like(values)
    stored = float_type(pca.X_fit_)
    pca.eigenvalues_ = values.astype(stored, copy=False)
    pca.eigenvectors_ = pairs.vectors[:, kept].astype(stored, copy=False)
    pca.residuals_ = pairs.residuals[kept] + np.abs(pairs.values[kept] - pca.eigenvalues_)
    return kept


def _wanted(pca: Any, centred: CentredGram) -> int:
    """How many pairs to ask for; beyond the number of features they are zero."""
    if pca.n_components is not None:
        return pca.n_components
    return min(centred.shape[0], getattr(centred.features, "shape", centred.shape)[1])


def learn_pre_images(pca: Any, X: np.ndarray) -> None:
    components = pca._training_components()
    if pca.eigen_solver == "nystrom" or not len(components):
        components = pca._components(X)
    pca.dual_coef_ = ridge_images(pca.kernel_, components, X, pca.alpha)
    pca.X_transformed_fit_ = components


def float_type(X: Any) -> np.dtype:
    """float32 for an array, sparse matrix or tensor of it, else float64."""
    return np.dtype(np.float32 if is_single(X) else np.float64)
