"""k-means in feature space: Lloyd's algorithm on a Gram operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.operators import GramOperator
from mercer.solvers.result import Monitor, Result, Status

# Sums over clusters are updated where at most this share of the points moved; else computed anew.
SHARE_UPDATED = 0.25


@dataclass(frozen=True)
class Partition:
    """Clusters of n points.

    Attributes
    ----------
    labels : (n,) array of int
    totals : (k,) array
        The weight of each cluster.
    squared_norms : (k,) array
        Of the means in feature space.
    inertia : float
        The weighted sum of squared distances of points to the mean of their cluster.
    """

    labels: np.ndarray
    totals: np.ndarray
    squared_norms: np.ndarray
    inertia: float

    def means(self, weight: np.ndarray) -> np.ndarray:
        """Coefficients of the means over the points, shape (n, k)."""
        return memberships(self.labels, weight, len(self.totals)) / self.totals


def memberships(labels: np.ndarray, weight: np.ndarray, k: int) -> np.ndarray:
    """The weight of each point in the column of its cluster, shape (n, k)."""
    Z = np.zeros((len(labels), k))
    Z[np.arange(len(labels)), labels] = weight
    return Z


def first_centres(
    K: GramOperator, weight: np.ndarray, k: int, rng: np.random.RandomState
) -> np.ndarray:
    r"""Labels by the nearest of k points drawn by greedy k-means++ in feature space.

    A point is drawn with probability proportional to its weight times its squared distance
    :math:`k(x, x) - 2 k(x, c) + k(c, c)` from the nearest centre drawn so far; of several draws
    the one that reduces the cost most is taken.

    References
    ----------
    Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007.
    """
    diagonal = np.asarray(K.diagonal(), dtype=np.float64)
    draws = 2 + int(np.log(k))
    nearest = np.full(len(diagonal), np.inf)
    labels = np.zeros(len(diagonal), dtype=np.intp)
    for cluster in range(k):
        chances = weight * (np.ones_like(diagonal) if cluster == 0 else nearest)
        if not chances.any():  # fewer different points than clusters
            chances = weight
        among = rng.choice(len(diagonal), 1 if cluster == 0 else draws, p=chances / np.sum(chances))
        rows = np.asarray(K.rows(among), dtype=np.float64)
        distances = np.maximum(diagonal - 2 * rows + diagonal[among][:, None], 0.0)
        best = int(np.argmin(np.minimum(distances, nearest) @ weight))
        closer = distances[best] < nearest
        nearest = np.where(closer, distances[best], nearest)
        labels[closer] = cluster
    return labels


def lloyd(
    K: GramOperator, weight: np.ndarray, labels: np.ndarray, k: int, monitor: Monitor
) -> Result:
    r"""Lloyd's algorithm from given labels, on products with the Gram matrix alone.

    With :math:`S = K Z`, :math:`Z` the weights of points in the columns of their clusters,

    .. math:: \|\varphi(x_i) - c_y\|^2 = K_{ii} - \frac{2 S_{iy}}{W_y} + \frac{1}{W_y^2}
              \sum_{j: y_j = y} w_j S_{jy}

    S is updated by the columns of the points that moved. An empty cluster gets the point that is
    farthest from its mean.

    Parameters
    ----------
    K : GramOperator of shape (n, n)
    weight : (n,) array
    labels : (n,) array of int
    k : int
    monitor : Monitor
        Its gap is the share of weight that moved in a step.

    Returns
    -------
    Result
        ``value`` is a `Partition`; its inertia is computed from a product with all points.
    """
    labels = labels.copy()
    diagonal = np.asarray(K.diagonal(), dtype=np.float64)
    Z = memberships(labels, weight, k)
    sums = np.asarray(K @ Z, dtype=np.float64)
    while True:
        totals = Z.sum(axis=0)
        distances = _squared_distances(diagonal, sums, Z, totals)
        nearest = np.argmin(distances, axis=1)
        _fill_empty(nearest, distances, weight, k)
        moved = np.flatnonzero(nearest != labels)
        labels[moved] = nearest[moved]
        share = float(weight[moved].sum() / weight.sum())
        Z_new = memberships(labels, weight, k)
        if len(moved):
            if len(moved) <= SHARE_UPDATED * len(labels):
                sums += K.combination(moved, Z_new[moved] - Z[moved])
            else:
                sums = np.asarray(K @ Z_new, dtype=np.float64)
            Z = Z_new
        if monitor.record(share) or not len(moved):
            break
    value = _partition(K.double(), diagonal, labels, weight, k)
    status = Status.CONVERGED if not len(moved) else None
    return monitor.result(value, share, status=status, method="Lloyd's algorithm")


def _squared_distances(
    diagonal: np.ndarray, sums: np.ndarray, Z: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """Of points to the means of clusters, (n, k); infinite to an empty cluster."""
    filled = totals > 0
    divisor = np.where(filled, totals, 1.0)
    norms = np.einsum("ij,ij->j", Z, sums) / divisor**2
    distances = diagonal[:, None] - 2 * sums / divisor + norms
    distances[:, ~filled] = np.inf
    return distances


def _fill_empty(labels: np.ndarray, distances: np.ndarray, weight: np.ndarray, k: int) -> None:
    """Give each empty cluster the point that costs most where it is, of clusters of several."""
    counts = np.bincount(labels[weight > 0], minlength=k)
    cost = weight * distances[np.arange(len(labels)), labels]
    for cluster in np.flatnonzero(counts == 0):
        movable = (counts[labels] > 1) & (weight > 0)
        if not movable.any():
            return
        point = int(np.argmax(np.where(movable, cost, -np.inf)))
        counts[labels[point]] -= 1
        labels[point], counts[cluster], cost[point] = cluster, 1, -np.inf


def _partition(
    K: GramOperator, diagonal: np.ndarray, labels: np.ndarray, weight: np.ndarray, k: int
) -> Partition:
    Z = memberships(labels, weight, k)
    totals = Z.sum(axis=0)
    divisor = np.where(totals > 0, totals, 1.0)
    within = np.einsum("ij,ij->j", Z, np.asarray(K @ Z, dtype=np.float64))
    inertia = max(float(weight @ diagonal - np.sum(within / divisor)), 0.0)
    return Partition(labels, divisor, within / divisor**2, inertia)
