"""A few of the points, or means of them, that stand for all."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import as_dense, memory_budget, n_rows, take_rows, to_float64
from mercer.solvers.evidence.problem import Covariance
from mercer.solvers.pivoted_cholesky import randomly_pivoted_cholesky

# Rows that k-means looks at, for each of its means.
ROWS_PER_MEAN = 100


def pivots(covariance: Covariance, X: Any, m: int, random_state: int = 0) -> np.ndarray:
    """Positions of m of the points, each chosen by what the others leave of its variance.

    Where the factor would exceed the memory budget, they are chosen among random rows.

    Parameters
    ----------
    covariance : Covariance
        At the hyperparameters to choose for.
    X : n points
    m : int
        Fewer come where all of the variance is used up before.
    random_state : int

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels as K
    >>> from mercer.solvers.evidence.covariance import of_kernel
    >>> X = np.array([[0.0], [0.0], [9.0]])  # the first two are equal
    >>> X[pivots(of_kernel(K.RBF(), ()), X, 3)].ravel().tolist()
    [0.0, 9.0]
    """
    rng, n = np.random.RandomState(random_state), n_rows(X)
    most = max(m, int(memory_budget() // (16 * m)))
    among = np.arange(n) if n <= most else np.sort(rng.permutation(n)[:most])
    points = X if n <= most else take_rows(X, among)
    chosen = randomly_pivoted_cholesky(
        lambda rows: covariance.gram(take_rows(points, rows), points),
        covariance.own(points),
        m,
        random_state=rng,
    )
    return np.sort(among[chosen.pivots])


def means(covariance: Covariance, X: Any, m: int, random_state: int = 0) -> np.ndarray:
    """m means of the points, which are vectors, by Lloyd's algorithm: (m, d).

    Distances are in units of the features' standard deviations.
    """
    from sklearn.cluster import KMeans  # slow to import

    rng, n = np.random.RandomState(random_state), n_rows(X)
    among = np.sort(rng.permutation(n)[: ROWS_PER_MEAN * m])
    rows = to_float64(as_dense(take_rows(X, among)))
    units = rows.std(0)
    units[units == 0] = 1.0
    found = KMeans(min(m, len(rows)), n_init=1, random_state=rng).fit(rows / units)
    return found.cluster_centers_ * units
