"""Regularised canonical correlation of two or more centred Gram matrices.

View v has centred Gram K_v and penalty c_v >= 0. A direction alpha_v gives the variate
z_v = K_v alpha_v, scaled so that its regularised sum of squares is one:

    alpha_v^T (K_v^2 + c_v K_v) alpha_v = 1.

With K_v = U diag(lam) U^T and alpha_v = U (lam (lam + c_v))^(-1/2) a_v that is |a_v| = 1, and

    alpha_v^T K_v K_w alpha_w = a_v^T (B_v^T B_w) a_w,    B_v = U (lam / (lam + c_v))^(1/2),

so once each view is *whitened* to B_v, nothing but products of the B_v is needed: two views take
one singular value decomposition, more take one symmetric eigenproblem, a permutation of the
points permutes the rows of B_v, and leaving a point out is a change of low rank. Where a factor F
of low rank is near enough, K_v = F F^T + E, the eigenpairs are those of F F^T, and the trace of E
bounds what the correlations lose by it. Matrices with a row for each point stay where they are,
which may be a device; what is made of their products is on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import svds
from sklearn.utils import check_random_state

from mercer.arrays import as_numpy, backend, like, product
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.spectral.block_krylov import EXTRA, block_krylov, column_norms
from mercer.solvers.spectral.centring import rounding_floor
from mercer.solvers.spectral.eigenpairs import largest_eigenpairs, signs

#: Up to this many rows or columns all singular values are computed.
SMALL = 200

#: Correlations that differ by no more are equal but for rounding.
TIE = 1e-9

#: Above this relative violation the directions are called stalled by rounding.
STALLED_ABOVE = 1e-6


@dataclass(frozen=True)
class Factors:
    """A matrix that is a product of others, known by its products alone."""

    factors: tuple[Any, ...]

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        for A in reversed(self.factors):
            V = product(A, V)
        return V


@dataclass(frozen=True)
class WhitenedView:
    """A centred Gram matrix and its eigenpairs above rounding, K = U diag(lam) U^T + E.

    Attributes
    ----------
    values : ndarray of shape (r,)
        The eigenvalues lam, decreasing, all positive.
    vectors : ndarray or tensor of shape (n, r)
        The unit eigenvectors U.
    gram : Factors
        K itself or, where a factor stands for it, K - E: what solutions are checked against.
    left : float
        The trace of the positive semidefinite E that a factor leaves out, or more; else zero.
    """

    values: np.ndarray
    vectors: Any
    gram: Any = field(repr=False)
    left: float = 0.0

    @classmethod
    def from_gram(cls, K: Any, floor: float = 0.0) -> WhitenedView:
        """Decompose a centred Gram (n, n).

        Eigenvalues at most ``floor``, or the rounding of an eigendecomposition if that is more,
        are left out: their variates would be noise of the arithmetic, and no jitter hides them.
        """
        K = backend(K).asarray(K, np.float64)
        values, vectors = backend(K).eigh(K)
        floor = max(floor, rounding_floor(len(K), np.abs(values).max()))
        kept = np.flatnonzero(values > floor)[::-1].copy()
        return cls(values[kept], vectors[:, kept], Factors((K,)))

    @classmethod
    def from_factor(cls, F: Any, left: float, floor: float = 0.0) -> WhitenedView:
        """Decompose F F^T for a centred factor F (n, r).

        By F^T F: the rounding of its small eigenvalues matters little compared with a penalty,
        since a whitened view is F (F^T F + c)^(-1/2) up to a rotation, whatever they are.
        """
        values, Q = np.linalg.eigh(_crossed(F, F))
        kept = np.flatnonzero(values > max(floor, rounding_floor(len(F), values[-1])))[::-1]
        values = values[kept]
        vectors = F @ like(Q[:, kept] / np.sqrt(values), F)
        return cls(values, vectors, Factors((F, F.T)), left)

    @property
    def rank(self) -> int:
        return len(self.values)

    @property
    def trace(self) -> float:
        return float(self.values.sum()) + self.left

    def shrinkage(self, penalty: float) -> np.ndarray:
        """(lam / (lam + c))^(1/2), shape (r,)."""
        return np.sqrt(self.values / (self.values + penalty))

    def whitened(self, penalty: float) -> Any:
        """B = U (lam / (lam + c))^(1/2), shape (n, r)."""
        return self.vectors * like(self.shrinkage(penalty), self.vectors)

    def loss(self, penalty: float) -> float:
        """A bound on the largest eigenvalue that B B^T lacks compared with that of K itself.

        x / (x + c) is operator concave and zero at zero, so no more than at the trace of E.
        """
        return self.left / (self.left + penalty) if self.left > 0 else 0.0

    def directions(self, penalty: float, a: np.ndarray) -> np.ndarray:
        """alpha = U (lam (lam + c))^(-1/2) a for whitened coordinates a of shape (r, k)."""
        size = np.sqrt(self.values) * np.sqrt(self.values + penalty)  # their product can underflow
        return product(self.vectors, a / size[:, None])


@dataclass(frozen=True)
class CanonicalVariates:
    """Correlations of shape (k,), decreasing, and per view the directions alpha_v (n, k)."""

    correlations: np.ndarray
    directions: tuple[np.ndarray, ...]


def canonical_variates(
    views: Sequence[WhitenedView], penalties: Sequence[float], n_components: int
) -> Result:
    """Directions of greatest regularised correlation between the views.

    Two views: maximise alpha_1^T K_1 K_2 alpha_2, by the singular values of B_1^T B_2. More:
    Kettenring's MAXVAR, the leading eigenvectors of the matrix of blocks B_v^T B_w (identities
    on the diagonal), eigenvalue mu. The correlation is (mu - 1) / (m - 1) for m views, a weighted
    mean over pairs; for m = 2 both are the same problem and the same number.

    Parameters
    ----------
    views : sequence of WhitenedView
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
        ``bound``, where factors stand for them: how much larger than found the correlations of the
        Gram matrices can be, under the same penalties. They are no smaller for two views; for more
        the bound is both ways.

    References
    ----------
    Kettenring, "Canonical analysis of several sets of variables", Biometrika 58 (1971).
    Bach and Jordan, "Kernel independent component analysis", JMLR 3 (2002).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> view = WhitenedView.from_gram(np.outer(x, x))
    >>> canonical_variates([view, view], [0.0, 0.0], 1).value.correlations.round(6)
    array([1.])
    """
    monitor = Monitor(tol=0.0)
    k = min(n_components, *(view.rank for view in views))
    mu, blocks = _leading(views, penalties, k)
    weighted = [view.directions(c, a) for view, c, a in zip(views, penalties, blocks, strict=True)]
    gap = _violation(views, penalties, weighted, mu)
    # MAXVAR's variates each have unit regularised variance; the norms of the eigenvector's
    # blocks are only the weights with which the views enter.
    turned = signs(weighted[0])
    directions = [
        alpha * turned / np.maximum(np.linalg.norm(a, axis=0), np.finfo(float).tiny)
        for alpha, a in zip(weighted, blocks, strict=True)
    ]
    correlations = np.minimum((mu - 1.0) / (len(views) - 1), 1.0)
    result = monitor.result(
        CanonicalVariates(correlations, tuple(directions)),
        gap,
        status=Status.EXACT if gap <= STALLED_ABOVE else Status.STALLED,
        method="singular values" if len(views) == 2 else f"MAXVAR of {len(views)} views",
    )
    losses = [view.loss(c) for view, c in zip(views, penalties, strict=True)]
    return replace(result, bound=_bound(correlations, losses)) if any(losses) else result


def _bound(correlations: np.ndarray, losses: list[float]) -> float:
    if len(losses) > 2:  # square roots of matrices differ by at most the root of the difference
        return float(min(2 * np.sqrt(max(losses)), 1.0))
    # Squares are eigenvalues of P^(1/2) Q P^(1/2) for P = B_1 B_1^T and Q = B_2 B_2^T below 1.
    upper = np.minimum(np.sqrt(correlations**2 + sum(losses)), 1.0)
    return float(np.max(upper - correlations, initial=0.0))


def _leading(
    views: Sequence[WhitenedView], penalties: Sequence[float], k: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The k largest mu and, per view, the blocks (r_v, k) of the unit eigenvectors."""
    U = [view.vectors for view in views]
    N = _shrunk(products_of_views(U), views, penalties)
    if len(views) == 2:
        P, s, Q = _leading_singular(N, k)
        return 1.0 + s, [P / np.sqrt(2.0), Q / np.sqrt(2.0)]
    mu, vectors = largest_eigenpairs(N, k)
    return mu[::-1], split_by_view(vectors[:, ::-1], U)


def _leading_singular(M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The k largest singular values, with both sides' vectors as columns."""
    if min(M.shape) > SMALL and k <= min(M.shape) // 20:
        start = check_random_state(0).normal(size=(M.shape[1], k + EXTRA))
        found = block_krylov(lambda V: M.T @ (M @ V), start, k, tol=1e-14, max_products=60)
        image = M @ found.vectors
        s = np.linalg.norm(image, axis=0)
        if found.converged and s[-1] > 1e-4 * s[0]:
            return image / s, s, found.vectors
    P, s, Qt = scipy.linalg.svd(M, full_matrices=False)
    return P[:, :k], s[:k], Qt[:k].T


def _crossed(A: Any, B: Any) -> np.ndarray:
    """A^T B of two matrices with a row for each point."""
    return as_numpy(A.T @ like(B, A))


def products_of_views(B: list[Any]) -> np.ndarray:
    """B_1^T B_2 of two views; of more, N: blocks B_v^T B_w, identities on the diagonal."""
    if len(B) == 2:
        return _crossed(*B)
    N = np.eye(sum(A.shape[1] for A in B))
    places = _offsets(B)
    for v, w in combinations(range(len(B)), 2):
        block = _crossed(B[v], B[w])
        N[places[v], places[w]], N[places[w], places[v]] = block, block.T
    return N


def _shrunk(N: np.ndarray, views: Sequence[WhitenedView], penalties: Sequence[float]) -> np.ndarray:
    """What the products of the eigenvectors become for whitened views."""
    shrinkage = [view.shrinkage(c) for view, c in zip(views, penalties, strict=True)]
    if len(views) == 2:
        return shrinkage[0][:, None] * N * shrinkage[1]
    scale = np.concatenate(shrinkage)
    scaled = scale[:, None] * N * scale
    np.fill_diagonal(scaled, 1.0)
    return scaled


def _offsets(whitened: list[Any]) -> list[slice]:
    ends = np.cumsum([B.shape[1] for B in whitened])
    return [slice(int(end) - B.shape[1], int(end)) for end, B in zip(ends, whitened, strict=True)]


def split_by_view(vectors: np.ndarray, whitened: list[Any]) -> list[np.ndarray]:
    return [vectors[rows] for rows in _offsets(whitened)]


def _violation(
    views: Sequence[WhitenedView],
    penalties: Sequence[float],
    weighted: list[np.ndarray],
    mu: np.ndarray,
) -> float:
    if len(mu) == 0:
        return 0.0
    variates = [view.gram @ b for view, b in zip(views, weighted, strict=True)]
    total = sum(variates)
    worst = []
    for view, c, b, z in zip(views, penalties, weighted, variates, strict=True):
        residual = view.gram @ (total - z - (mu - 1.0) * (z + c * b))
        size = np.sqrt(view.values[0]) * np.sqrt(view.values[0] + c)
        worst.append(column_norms(residual / size).max())
    return float(np.max(worst))


def leading_correlations(
    views: Sequence[WhitenedView],
    penalties: Sequence[Sequence[float]],
    orders: Sequence[np.ndarray | slice] | None = None,
) -> np.ndarray:
    """The largest regularised correlation for each choice of penalties, without its directions.

    Parameters
    ----------
    views : sequence of WhitenedView
    penalties : (p, m) numbers
        The penalties c_v of the m views, p times.
    orders : sequence of permutations
        In which order the points of each view are taken; as they are by default.
    """
    orders = orders or [slice(None)] * len(views)
    U = [view.vectors[order] for view, order in zip(views, orders, strict=True)]
    N, found = products_of_views(U), []
    for chosen in penalties:
        scaled = _shrunk(N, views, chosen)
        if len(views) == 2:
            found.append(_spectral_norm(scaled))
            continue
        mu = np.linalg.eigvalsh(scaled)[-1]
        found.append((mu - 1.0) / (len(views) - 1))
    return np.array(found)


def _spectral_norm(M: np.ndarray) -> float:
    if min(M.shape) <= 100:
        return float(np.linalg.norm(M, 2))
    # A full decomposition for one number would be most of the cost of a permutation test.
    start = np.ones(min(M.shape))
    return float(svds(M, k=1, v0=start, return_singular_vectors=False)[0])


def permuted_correlations(
    views: Sequence[WhitenedView],
    penalties: Sequence[Sequence[float]],
    n_permutations: int,
    random_state: Any = None,
) -> np.ndarray:
    """The leading correlations with the points of every view but the first permuted at random.

    Permuting points permutes the rows of eigenvectors, so each draw costs one product and one
    leading singular value per choice of penalties; no Gram matrix is decomposed again. The shape is
    (n_permutations, p), arguments are those of `leading_correlations`.
    """
    rng = check_random_state(random_state)
    null = np.empty((n_permutations, len(penalties)))
    for row in null:
        others = [rng.permutation(len(view.vectors)) for view in views[1:]]
        row[:] = leading_correlations(views, penalties, [slice(None), *others])
    return null


def best_pvalue(observed: np.ndarray, null: np.ndarray) -> float:
    """The p-value of the best of p statistics, each compared with its own null distribution.

    With one statistic (b + 1) / (m + 1), b of m draws being as large. With more, the least of such
    p-values is found for what was observed and for every draw in its place; all are alike under the
    null hypothesis, so the rank of the first among them is an exact p-value.

    Parameters
    ----------
    observed : (p,) array
    null : (m, p) array

    References
    ----------
    Westfall and Young, "Resampling-based multiple testing" (1993).

    Examples
    --------
    >>> best_pvalue(np.array([3.0, 1.0]), np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 0.0]]))
    0.5
    """
    every = np.vstack([observed, null])
    # Draws that change nothing must count as ties whatever their rounding.
    as_large = [len(every) - np.searchsorted(np.sort(column), column - TIE) for column in every.T]
    least = np.min(as_large, axis=0)
    return float(np.mean(least <= least[0]))


def column_correlations(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Pearson's correlation of each column of A with that of B, zero where one is constant."""
    A, B = A - A.mean(axis=0), B - B.mean(axis=0)
    sizes = np.linalg.norm(A, axis=0) * np.linalg.norm(B, axis=0)
    return np.sum(A * B, axis=0) / np.where(sizes > 0, sizes, 1.0)
