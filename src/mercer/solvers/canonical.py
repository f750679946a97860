"""Regularised canonical correlation of two or more centred Gram matrices.

View v has centred Gram K_v and penalty c_v >= 0. A direction alpha_v gives the variate
z_v = K_v alpha_v, scaled so that its regularised sum of squares is one:

    alpha_v^T (K_v^2 + c_v K_v) alpha_v = 1.

With K_v = U diag(lam) U^T and alpha_v = U (lam (lam + c_v))^(-1/2) a_v that is |a_v| = 1, and

    alpha_v^T K_v K_w alpha_w = a_v^T (B_v^T B_w) a_w,    B_v = U (lam / (lam + c_v))^(1/2),

so once each view is *whitened* to B_v, nothing but products of the B_v is needed: two views take
one singular value decomposition, more take one symmetric eigenproblem, a permutation of the
points permutes the rows of B_v, and leaving a point out is a change of low rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import svds
from sklearn.utils import check_random_state

from mercer.arrays import row_blocks
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.spectral import rounding_floor

#: Above this relative violation the directions are called stalled by rounding.
STALLED_ABOVE = 1e-6


@dataclass(frozen=True)
class Whitening:
    """A centred Gram matrix and its eigenpairs above rounding, K = U diag(lam) U^T.

    Attributes
    ----------
    values : ndarray of shape (r,)
        The eigenvalues lam, decreasing, all positive.
    vectors : ndarray of shape (n, r)
        The unit eigenvectors U.
    gram : ndarray of shape (n, n)
        K itself, against which solutions are checked.
    """

    values: np.ndarray
    vectors: np.ndarray
    gram: np.ndarray = field(repr=False)

    @classmethod
    def from_gram(cls, K: np.ndarray, floor: float = 0.0) -> Whitening:
        """Decompose a centred Gram (n, n).

        Eigenvalues at most ``floor``, or the rounding of an eigendecomposition if that is more,
        are left out: their variates would be noise of the arithmetic, and no jitter hides them.
        """
        K = np.asarray(K, dtype=np.float64)
        values, vectors = scipy.linalg.eigh(K)
        floor = max(floor, rounding_floor(len(K), np.abs(values).max()))
        kept = np.flatnonzero(values > floor)[::-1]
        return cls(values[kept], vectors[:, kept], K)

    @property
    def rank(self) -> int:
        return len(self.values)

    @property
    def trace(self) -> float:
        return float(self.values.sum())

    def whitened(self, penalty: float) -> np.ndarray:
        """B = U (lam / (lam + c))^(1/2), shape (n, r)."""
        return self.vectors * np.sqrt(self.values / (self.values + penalty))

    def directions(self, penalty: float, a: np.ndarray) -> np.ndarray:
        """alpha = U (lam (lam + c))^(-1/2) a for whitened coordinates a of shape (r, k)."""
        return self.vectors @ (a / np.sqrt(self.values * (self.values + penalty))[:, None])


@dataclass(frozen=True)
class CanonicalVariates:
    """Correlations of shape (k,), decreasing, and per view the directions alpha_v (n, k)."""

    correlations: np.ndarray
    directions: tuple[np.ndarray, ...]


def canonical_variates(
    views: Sequence[Whitening], penalties: Sequence[float], n_components: int
) -> Result:
    """Directions of greatest regularised correlation between the views.

    Two views: maximise alpha_1^T K_1 K_2 alpha_2, by the singular values of B_1^T B_2. More:
    Kettenring's MAXVAR, the leading eigenvectors of the matrix of blocks B_v^T B_w (identities
    on the diagonal), eigenvalue mu. The correlation is (mu - 1) / (m - 1) for m views, a weighted
    mean over pairs; for m = 2 both are the same problem and the same number.

    Parameters
    ----------
    views : sequence of Whitening
        At least two, over the same n points.
    penalties : sequence of float
        c_v, one per view.
    n_components : int
        At most the smallest rank of the views is returned.

    Returns
    -------
    Result
        ``value`` is a `CanonicalVariates`. ``gap`` is the largest violation of the stationarity
        condition sum_(w != v) K_v K_w b_w = (mu - 1) (K_v^2 + c_v K_v) b_v, relative to the size
        of K_v^2 + c_v K_v, with b_v the weighted directions and the Gram matrices themselves.

    References
    ----------
    Kettenring, "Canonical analysis of several sets of variables", Biometrika 58 (1971).
    Bach and Jordan, "Kernel independent component analysis", JMLR 3 (2002).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> view = Whitening.from_gram(np.outer(x, x))
    >>> canonical_variates([view, view], [0.0, 0.0], 1).value.correlations.round(6)
    array([1.])
    """
    monitor = Monitor(tol=0.0)
    k = min(n_components, *(view.rank for view in views))
    whitened = [view.whitened(c) for view, c in zip(views, penalties, strict=True)]
    mu, blocks = _leading(whitened, k)
    weighted = [view.directions(c, a) for view, c, a in zip(views, penalties, blocks, strict=True)]
    gap = _violation(views, penalties, weighted, mu)
    # MAXVAR's variates each have unit regularised variance; the norms of the eigenvector's
    # blocks are only the weights with which the views enter.
    signs = _signs(weighted[0])
    directions = [
        alpha * signs / np.maximum(np.linalg.norm(a, axis=0), np.finfo(float).tiny)
        for alpha, a in zip(weighted, blocks, strict=True)
    ]
    correlations = np.minimum((mu - 1.0) / (len(views) - 1), 1.0)
    return monitor.result(
        CanonicalVariates(correlations, tuple(directions)),
        gap,
        status=Status.EXACT if gap <= STALLED_ABOVE else Status.STALLED,
        method="singular values" if len(views) == 2 else f"MAXVAR of {len(views)} views",
    )


def _leading(whitened: list[np.ndarray], k: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The k largest mu and, per view, the blocks (r_v, k) of the unit eigenvectors."""
    if len(whitened) == 2:
        P, s, Qt = scipy.linalg.svd(whitened[0].T @ whitened[1], full_matrices=False)
        return 1.0 + s[:k], [P[:, :k] / np.sqrt(2.0), Qt[:k].T / np.sqrt(2.0)]
    N = _block_matrix(whitened)
    mu, vectors = scipy.linalg.eigh(N, subset_by_index=(len(N) - k, len(N) - 1))
    return mu[::-1], _split(vectors[:, ::-1], whitened)


def _block_matrix(whitened: list[np.ndarray]) -> np.ndarray:
    """N: blocks B_v^T B_w off the diagonal, identities on it."""
    B = np.hstack(whitened)
    N = B.T @ B
    for rows in _offsets(whitened):
        N[rows, rows] = np.eye(rows.stop - rows.start)
    return N


def _offsets(whitened: list[np.ndarray]) -> list[slice]:
    ends = np.cumsum([B.shape[1] for B in whitened])
    return [slice(int(end) - B.shape[1], int(end)) for end, B in zip(ends, whitened, strict=True)]


def _split(vectors: np.ndarray, whitened: list[np.ndarray]) -> list[np.ndarray]:
    return [vectors[rows] for rows in _offsets(whitened)]


def _signs(alpha: np.ndarray) -> np.ndarray:
    """The sign of each column's entry of largest size, so that components do not flip."""
    largest = np.take_along_axis(alpha, np.abs(alpha).argmax(axis=0)[None], axis=0)[0]
    return np.where(largest < 0, -1.0, 1.0)


def _violation(
    views: Sequence[Whitening],
    penalties: Sequence[float],
    weighted: list[np.ndarray],
    mu: np.ndarray,
) -> float:
    if len(mu) == 0:
        return 0.0
    variates = [view.gram @ b for view, b in zip(views, weighted, strict=True)]
    total = sum(variates)
    worst = 0.0
    for view, c, b, z in zip(views, penalties, weighted, variates, strict=True):
        residual = view.gram @ (total - z - (mu - 1.0) * (z + c * b))
        size = np.sqrt(view.values[0] * (view.values[0] + c))
        worst = max(worst, float(np.linalg.norm(residual, axis=0).max() / size))
    return worst


def leading_correlation(whitened: Sequence[np.ndarray]) -> float:
    """The largest regularised correlation alone, without its directions."""
    if len(whitened) == 2:
        return _spectral_norm(whitened[0].T @ whitened[1])
    N = _block_matrix(list(whitened))
    mu = scipy.linalg.eigvalsh(N, subset_by_index=(len(N) - 1, len(N) - 1))[0]
    return float((mu - 1.0) / (len(whitened) - 1))


def _spectral_norm(M: np.ndarray) -> float:
    if min(M.shape) <= 100:
        return float(np.linalg.norm(M, 2))
    # A full decomposition for one number would be most of the cost of a permutation test.
    start = np.ones(min(M.shape))
    return float(svds(M, k=1, v0=start, return_singular_vectors=False)[0])


def permuted_correlations(
    whitened: Sequence[np.ndarray], n_permutations: int, random_state: Any = None
) -> np.ndarray:
    """The leading correlation with the rows of every view but the first permuted at random.

    Permuting points permutes a whitened view's rows, so each draw costs one product and one
    leading singular value; no Gram matrix is decomposed again.
    """
    rng = check_random_state(random_state)
    first, *others = whitened
    null = np.empty(n_permutations)
    for i in range(n_permutations):
        null[i] = leading_correlation([first, *(B[rng.permutation(len(B))] for B in others)])
    return null


def leave_one_out_correlation(views: Sequence[Whitening], penalties: Sequence[float]) -> float:
    """Correlation of first canonical variates, each point's predicted from all the others.

    Removing point i, with whitened rows e_v = B_v[i] and g = n / (n - 1), changes the pencil
    (N, I) of the whitened problem to

        N - g E 1 1^T E^T,    I - g E E^T,    E = [e_1 ... e_m] (block columns),

    so the largest eigenvalue mu without point i is the largest at which the m-by-m matrix
    T(mu) = (g H)^-1 - E^T (N - mu)^-1 E is singular, H = 1 1^T - mu. Its null vector y gives the
    direction (N - mu)^-1 E y. One eigendecomposition therefore serves all n points exactly. The
    penalties are held at their values for all points.

    Parameters
    ----------
    views : sequence of Whitening
        At least two, over the same n >= 3 points.
    penalties : sequence of float
        c_v > 0, one per view.

    Returns
    -------
    float
        Mean over pairs of views of sum_i z_vi z_wi / (|z_v| |z_w|), z_vi the variate of point i
        under the fit without it, centred by the mean of the others.

    References
    ----------
    Leurgans, Moyeed, Silverman, "Canonical correlation analysis when the data are curves",
    JRSS B 55 (1993), for the criterion.
    """
    whitened = [view.whitened(c) for view, c in zip(views, penalties, strict=True)]
    nu, vectors = _all_eigenpairs(whitened)
    parts = _split(vectors, whitened)
    g = len(whitened[0]) / (len(whitened[0]) - 1)
    scores = []
    for rows in row_blocks(len(whitened[0]), bytes_per_row=8 * (len(views) + 3) * len(nu)):
        # E: (rows, m, R), the points' whitened rows in the eigenbasis of N.
        E = np.stack([B[rows] @ V for B, V in zip(whitened, parts, strict=True)], axis=1)
        scores.append(_held_out_variates(_largest_roots(nu, E, g), nu, E, g, parts))
    return _mean_cosine(np.vstack(scores))


def _all_eigenpairs(whitened: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Every eigenpair of N; for two views 1 +- s from the singular values s."""
    if len(whitened) != 2:
        nu, vectors = scipy.linalg.eigh(_block_matrix(whitened))
        return nu, vectors
    P, s, Qt = scipy.linalg.svd(whitened[0].T @ whitened[1], full_matrices=True)
    k, Q = len(s), Qt.T
    half = np.sqrt(0.5)
    upper = np.hstack([P[:, :k] * half, P[:, :k] * half, P[:, k:], np.zeros((len(P), len(Q) - k))])
    lower = np.hstack([Q[:, :k] * half, -Q[:, :k] * half, np.zeros((len(Q), len(P) - k)), Q[:, k:]])
    nu = np.concatenate([1.0 + s, 1.0 - s, np.ones(len(P) + len(Q) - 2 * k)])
    return nu, np.vstack([upper, lower])


def _secular(mu: np.ndarray, nu: np.ndarray, E: np.ndarray, g: float) -> np.ndarray:
    """T(mu_i) for every point i, shape (n, m, m)."""
    m = E.shape[1]
    resolvent = 1.0 / _away_from_zero(nu - mu[:, None])
    inner = (E * resolvent[:, None]) @ E.transpose(0, 2, 1)
    inverse_H = 1.0 / (mu * _away_from_zero(m - mu))[:, None, None] - np.eye(m) / mu[:, None, None]
    return inverse_H / g - inner


def _away_from_zero(x: np.ndarray) -> np.ndarray:
    """x, a fresh difference of numbers near one, with zeros moved to half their rounding."""
    x[x == 0.0] = np.finfo(float).epsneg
    return x


def _largest_roots(nu: np.ndarray, E: np.ndarray, g: float) -> np.ndarray:
    """Bisection on the number of eigenvalues above mu, which Sylvester's law of inertia counts.

    Exactly one eigenvalue of H is positive for 1 < mu < m, hence the -1.
    """
    n, m, _ = E.shape
    low, high = np.ones(n), np.full(n, float(m))
    for _ in range(44):
        mu = (low + high) / 2
        positive = (np.linalg.eigvalsh(_secular(mu, nu, E, g)) > 0).sum(axis=1)
        above = (nu > mu[:, None]).sum(axis=1) + positive - 1
        low, high = np.where(above > 0, mu, low), np.where(above > 0, high, mu)
    return (low + high) / 2


def _nearest_zero(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each symmetric matrix the eigenvalue of least size, and its eigenvector."""
    values, vectors = np.linalg.eigh(T)
    least = np.abs(values).argmin(axis=1)[:, None]
    value = np.take_along_axis(values, least, axis=1)[:, 0]
    return value, np.take_along_axis(vectors, least[:, None], axis=2)[:, :, 0]


def _held_out_variates(
    mu: np.ndarray, nu: np.ndarray, E: np.ndarray, g: float, parts: list[np.ndarray]
) -> np.ndarray:
    """z_vi, shape (n, m), with each direction scaled to unit regularised variance."""
    remainder, y = _nearest_zero(_secular(mu, nu, E, g))
    direction = np.einsum("nvr,nv->nr", E, y) / _away_from_zero(nu - mu[:, None])
    size = np.maximum(np.linalg.norm(direction, axis=1), np.finfo(float).tiny)
    direction /= size[:, None]
    scores = np.einsum("nvr,nr->nv", E, direction)
    # remainder / size^2 is a Newton step, near zero at a root. Where it is not, mu is a pole of
    # T: the direction stayed as it was, since the point lies at zero along it.
    scores[np.abs(remainder) > 1e-10 * size**2] = 0.0
    for v, V in enumerate(parts):
        size = np.sum((direction @ V.T) ** 2, axis=1) - g * scores[:, v] ** 2
        scores[:, v] /= np.sqrt(np.maximum(size, np.finfo(float).eps))
    return scores


def _mean_cosine(scores: np.ndarray) -> float:
    norms = np.linalg.norm(scores, axis=0)
    cosines = scores.T @ scores / np.maximum(np.outer(norms, norms), np.finfo(float).tiny)
    m = scores.shape[1]
    return float(cosines[np.triu_indices(m, k=1)].mean())
