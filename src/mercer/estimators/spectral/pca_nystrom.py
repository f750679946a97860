"""Principal components in the span of a few centres, by passes over the points."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import n_rows
from mercer.arrays.remote import is_remote
from mercer.estimators.centres import Centres, centres_of
from mercer.operators import CorrectedGram
from mercer.solvers.nystrom.sums import Block, Totals, accumulated, summed
from mercer.solvers.nystrom.whitening import CentreWhitening
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import EPS
from mercer.solvers.spectral.eigenpairs import TIE, Eigenpairs, completed, largest_eigenpairs, signs


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


def nystrom_components(estimator: Any, X: Any, k: int | None, floor: float) -> NystromComponents:
    r"""The k leading eigenpairs of :math:`H K_{nM} K_{MM}^{-1} K_{Mn} H`.

    With features :math:`\Phi = K_{nM} W` of the points, :math:`\hat K = \Phi \Phi^\top`; their
    covariance is summed in one pass, and a second gives the eigenvectors. Since
    :math:`E = K - \hat K` is positive semidefinite, with :math:`t = \mathrm{tr}\, E`

    .. math:: \hat\lambda_j \le \lambda_j \le \hat\lambda_j + t, \qquad
              \|H K H v_j - \hat\lambda_j v_j\| = \|H E H v_j\| \le t,

    and t takes the diagonals alone. It is what is certified, with the rounding of the
    features, and it is often far from sharp.

    Parameters
    ----------
    estimator : with ``kernel_``, ``n_centers`` and ``random_state``
    X : n points
    k : int or None for all that are not rounding
    floor : float
        Eigenvalues below this are rounding, and set to zero.

    References
    ----------
    Williams and Seeger, "Using the Nyström method to speed up kernel machines", NIPS 13 (2001).
    """
    monitor = Monitor(tol=0.0)
    settings = copy(estimator)
    settings.centers = "pivoted"
    settings.n_centers = None if settings.n_centers is None else min(settings.n_centers, n_rows(X))
    centres = centres_of(settings, X)
    n, W = n_rows(X), centres.whitening.W
    nothing = np.zeros((n, 0))
    moments = accumulated(centres.blocks(X, nothing, None), centres.whitening, 0)
    covariance, _, _ = moments.system(fit_intercept=True)
    values, U = largest_eigenpairs(covariance, min(k or n, len(covariance)))
    values, U = values[::-1], U[:, ::-1]
    r = int(np.sum(values > floor))
    k = r if k is None else min(k, n)
    # Beyond the rank there are zeros, with vectors that are none of the features'.
    values = np.append(values[:r], np.zeros(k - r))
    U = np.hstack([U[:, :r], np.zeros((len(U), k - r))])
    mean = moments.sums / n
    blocks = centres.blocks(X, nothing, None, dense=False)
    if is_remote(X):  # remote points, and their components with them
        found = summed(blocks, centres.whitening, _LargestScores(W @ U, mean @ U))
        vectors, U = np.zeros((0, k)), U * np.where(found.scores < 0, -1.0, 1.0)
    else:
        scores = np.vstack([block.gram @ (W @ U[:, :r]) for block in blocks])
        scores -= scores.mean(axis=0)
        vectors = completed(scores / np.linalg.norm(scores, axis=0), k)
        vectors, U = vectors * signs(vectors), U * signs(vectors)
    points, coef = centres.expansion(X, W @ np.column_stack([U, mean]))
    grand_mean = float(mean @ mean)
    trace = _trace(centres, X)
    left = max(trace - float(np.trace(moments.features)), 0.0)
    largest = float(values.max(initial=0.0))
    spread = np.sqrt(n) * EPS * np.linalg.norm(W) * trace / n * largest
    residuals = np.full(k, left + floor)
    residuals[:r] = left + spread / np.sqrt(values[:r])
    monitor.record(left, 2)
    words = f"Nyström, {len(W)} centres: every eigenvalue is at most {left:.3g} above"
    return NystromComponents(
        monitor.result(
            Eigenpairs(values, vectors, residuals),
            left / largest if largest > 0 else 0.0,
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


class Largest(Totals):
    """Scores of largest size, the first of those that are as large but for rounding: (k,)."""

    def __init__(self, scores: np.ndarray):
        self.scores = scores

    def merged(self, other: Largest, sign: int = 1) -> Largest:
        larger = (1 - TIE) * np.abs(other.scores) > np.abs(self.scores)
        return Largest(np.where(larger, other.scores, self.scores))


@dataclass(frozen=True)
class _LargestScores:
    """The largest of ``K coef - offset``, whose signs give the direction of the components."""

    coef: np.ndarray
    offset: np.ndarray

    def start(self, whitening: CentreWhitening) -> Largest:
        return Largest(np.zeros(len(self.offset)))

    def add(self, totals: Largest, block: Block, whitening: CentreWhitening) -> None:
        scores = block.gram @ self.coef - self.offset
        first = np.argmax(np.abs(scores) >= (1 - TIE) * np.abs(scores).max(axis=0), axis=0)
        largest = Largest(scores[first, np.arange(len(first))])
        totals.scores = totals.merged(largest).scores


def _trace(centres: Centres, X: Any) -> float:
    if is_remote(X):
        return X.trace(centres.kernel)
    diagonal = centres.kernel.diag(X) if centres.operator is None else centres.operator.diagonal()
    return float(np.sum(diagonal, dtype=np.float64))
