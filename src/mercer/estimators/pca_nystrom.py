"""Principal components in the span of a few centres, by passes over the points."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import n_rows
from mercer.estimators.ridge_nystrom import Centres
from mercer.operators import CorrectedGram
from mercer.solvers.nystrom import accumulated
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge import EPS
from mercer.solvers.spectral import Eigenpairs, largest_eigenpairs, signs


@dataclass(frozen=True)
class NystromComponents:
    """Eigenpairs of the centred Nyström approximation, and how they are had at new points.

    Attributes
    ----------
    result : Result
        Its ``value`` is an `Eigenpairs`, the residuals bounds.
    points : the points that components are expanded in: the centres, or for a matrix all points
    projection : (m, k) array
        The components of x are ``k(x, points) @ projection - offset``.
    offset : (k,) array
    mean_coef : (m,) array
        The mean of the points in feature space, projected on the span of the centres.
    mean_similarity : float
        Its squared length.
    trace : float
        Of the Gram matrix, centred by that mean.
    corrected : bool
        Whether the Gram matrix is one made positive semidefinite.
    """

    result: Result
    points: Any
    projection: np.ndarray
    offset: np.ndarray
    mean_coef: np.ndarray
    mean_similarity: float
    trace: float
    corrected: bool


def nystrom_components(estimator: Any, X: Any, k: int | None) -> NystromComponents:
    r"""The k leading eigenpairs of :math:`H K_{nM} K_{MM}^{-1} K_{Mn} H`.

    With features :math:`\Phi = K_{nM} W` of the points, :math:`\hat K = \Phi \Phi^\top`; their
    covariance is summed in one pass, and a second gives the eigenvectors. Since
    :math:`E = K - \hat K` is positive semidefinite, with :math:`t = \mathrm{tr}\, E`

    .. math:: \hat\lambda_j \le \lambda_j \le \hat\lambda_j + t, \qquad
              \|H K H v_j - \hat\lambda_j v_j\| = \|H E H v_j\| \le t,

    and t takes the diagonals alone. It is what is certified, with the rounding of the features
    beside it, and often far from sharp.

    Parameters
    ----------
    estimator : with ``kernel_``, ``n_centers`` and ``random_state``
    X : n points
    k : int or None for all that are not rounding

    References
    ----------
    Williams and Seeger, "Using the Nyström method to speed up kernel machines", NIPS 13 (2001).
    """
    monitor = Monitor(tol=0.0)
    settings = copy(estimator)
    settings.centers = "pivoted"
    settings.n_centers = None if settings.n_centers is None else min(settings.n_centers, n_rows(X))
    centres = Centres(settings, X)
    n, W = n_rows(X), centres.whitening.W
    nothing = np.zeros((n, 0))
    moments = accumulated(centres.blocks(X, nothing, None), centres.whitening, 0)
    covariance, _, _ = moments.system(fit_intercept=True)
    k = len(covariance) if k is None else min(k, len(covariance))
    values, U = largest_eigenpairs(covariance, k)
    values, U = np.maximum(values[::-1], 0.0), U[:, ::-1]
    mean = moments.sums / n
    scores = np.vstack([b.gram @ (W @ U) for b in centres.blocks(X, nothing, None, dense=False)])
    scores -= scores.mean(axis=0)
    sizes = np.linalg.norm(scores, axis=0)
    vectors = scores / np.where(sizes > 0, sizes, 1.0)
    vectors, U = vectors * signs(vectors), U * signs(vectors)
    points, coef = centres.expansion(X, W @ np.column_stack([U, mean]))
    grand_mean = float(mean @ mean)
    trace = _trace(centres, X)
    left = max(trace - float(np.trace(moments.features)), 0.0)
    spread = np.sqrt(n) * EPS * np.linalg.norm(W) * trace / n * values[0]
    residuals = left + spread / np.sqrt(np.maximum(values, np.finfo(float).tiny))
    monitor.record(left, 2)
    words = f"Nyström, {len(W)} centres: every eigenvalue is at most {left:.3g} above"
    return NystromComponents(
        monitor.result(
            Eigenpairs(values, vectors, residuals),
            left / values[0] if values[0] > 0 else 0.0,
            status=Status.COMPLETED,
            method=words,
        ),
        points,
        coef[:, :k],
        mean @ U,
        coef[:, k],
        grand_mean,
        trace - n * grand_mean,
        isinstance(centres.operator, CorrectedGram),
    )


def _trace(centres: Centres, X: Any) -> float:
    diagonal = centres.kernel.diag(X) if centres.operator is None else centres.operator.diagonal()
    return float(np.sum(diagonal, dtype=np.float64))
