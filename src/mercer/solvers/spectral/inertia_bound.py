"""A lower bound of the cost of k-means in feature space, from eigenvalues."""

from __future__ import annotations

import numpy as np

from mercer.operators import GramOperator, ScaledGram
from mercer.solvers.spectral.eigenpairs import leading_eigenpairs

# Relative accuracy of the eigenvalues; their residuals are added, so that the bound holds.
BOUND_ACCURACY = 1e-3


def inertia_bound(K: GramOperator, weight: np.ndarray, k: int, random_state: int = 0) -> float:
    r"""A bound below the inertia of every partition into k clusters.

    .. math:: \sum_i w_i K_{ii} - u^\top A u - \sum_{j < k} \lambda_j(P A P), \qquad
              A = W^{1/2} K W^{1/2}, \quad u \propto w^{1/2}, \quad P = I - uu^\top,

    since an inertia is the trace of A minus that on a space of k dimensions that contains u.
    Eigenvalues are increased by their residuals, so that the bound holds.

    References
    ----------
    Ding and He, "K-means clustering via principal component analysis", ICML 2004.
    """
    scale = np.sqrt(weight)
    u = scale / np.linalg.norm(scale)
    diagonal, K = np.asarray(K.diagonal(), dtype=np.float64), K.double()
    mean = float((scale * u) @ np.asarray(K @ (scale * u), dtype=np.float64))
    total = float(weight @ diagonal) - mean
    if k == 1 or total <= 0:
        return max(total, 0.0)
    pairs = leading_eigenpairs(
        ScaledGram(K, scale, u), k - 1, tol=BOUND_ACCURACY, random_state=random_state
    ).value
    most = np.sum(np.maximum(pairs.values + pairs.residuals, 0.0))
    if len(pairs.values) < k - 1:
        return 0.0
    return max(total - float(most), 0.0)
