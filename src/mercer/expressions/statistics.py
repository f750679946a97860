"""Pair statistics: the numbers about two points that vector kernels are functions of.

Each is a function of ``X: (n, d)`` and ``Y: (m, d)``, dense or CSR, and returns ``(n, m)``. What
the interpreter needs to know about one (how to prepare its inputs, its diagonal, its directional
derivative) stands in the table `STATISTICS` at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from mercer.arrays import Array, as_dense, row_blocks

# Below this many features squared distances are summed from differences, without cancellation.
EXACT_FEATURES = 4
# From dot products, sqdist has an absolute error of a few eps * (|x|^2 + |z|^2); where it is
# smaller than this fraction of the norms, it is recomputed from differences.
NEAR = {np.dtype(np.float64): 1e-4, np.dtype(np.float32): 1e-2}
# Beyond this share of such pairs a block is summed from differences as a whole.
MANY_NEAR = 1 / 8
GATHER_BYTES = 2**26
CENTRE_ROWS = 512


def dot(X: Array, Y: Array) -> np.ndarray:
    """x·z."""
    return np.asarray(safe_sparse_dot(X, Y.T, dense_output=True))


def sqdist(X: Array, Y: Array) -> np.ndarray:
    """‖x - z‖², careful where points nearly coincide."""
    return _sqdist_block(*_centred(X, Y))


@dataclass(frozen=True)
class _Centred:
    """Points moved by one vector, which distances do not see but rounding does.

    The points as given are kept beside them: moving a point costs it digits, and where two points
    nearly coincide those are the ones that count.
    """

    moved: Array
    given: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.given.shape

    def __getitem__(self, rows: Any) -> _Centred:
        return _Centred(self.moved[rows], self.given[rows])


def _centred(F: Array, G: Array) -> tuple[_Centred, _Centred]:
    if sp.issparse(F) or sp.issparse(G) or F.shape[1] <= EXACT_FEATURES:
        return _Centred(F, F), _Centred(G, G)
    # The median of some rows: one far point would draw the mean away from all the others.
    centre = np.median(G[:: max(1, len(G) // CENTRE_ROWS)], axis=0)
    right = _Centred(G - centre, G)
    return (right if F is G else _Centred(F - centre, F)), right


def _sqdist_block(F: _Centred, G: _Centred) -> np.ndarray:
    X, Y = F.moved, G.moved
    sparse = sp.issparse(X) or sp.issparse(Y)
    with np.errstate(over="ignore", invalid="ignore"):  # such pairs are computed again
        if not sparse and X.shape[1] <= EXACT_FEATURES:
            return _over_features(X, Y, _add_squared_difference)
        size = _sqdist_magnitude(F, G)
        distances = size - 2 * dot(X, Y)
        near = ~(distances > NEAR[distances.dtype] * size)
        if not sparse and np.count_nonzero(near) > MANY_NEAR * near.size:
            return cdist(F.given, G.given, "sqeuclidean").astype(distances.dtype, copy=False)
        rows, columns = np.nonzero(near)
        for block in row_blocks(len(rows), X.shape[1] * distances.itemsize, GATHER_BYTES):
            i, j = rows[block], columns[block]
            difference = F.given[i] - G.given[j]
            distances[i, j] = row_norms(
                difference if isinstance(difference, np.ndarray) else sp.csr_array(difference),
                squared=True,
            )
        return distances


def _sqdist_magnitude(F: _Centred, G: _Centred) -> np.ndarray:
    """‖x‖² + ‖z‖² of the centred points, whose last digits are those of their distance."""
    return row_norms(F.moved, squared=True)[:, None] + row_norms(G.moved, squared=True)


def l1(X: Array, Y: Array) -> np.ndarray:
    """Σ |x_j - z_j|."""
    return cdist(as_dense(X), as_dense(Y), "cityblock").astype(np.result_type(X, Y), copy=False)


def minsum(X: Array, Y: Array) -> np.ndarray:
    """Σ min(x_j, z_j)."""
    return _over_features(X, Y, lambda out, x, z: np.add(out, np.minimum(x, z), out=out))


def chi2(X: Array, Y: Array) -> np.ndarray:
    """Σ (x_j - z_j)² / (x_j + z_j) with 0/0 = 0, for non-negative points."""
    return _over_features(X, Y, _add_chi2)


def conjunction(X: Array, Y: Array) -> np.ndarray:
    """Π (1 + x_j z_j)."""
    return _over_features(X, Y, _multiply_conjunct, start=1.0)


def _over_features(X: Array, Y: Array, update: Callable, start: float = 0.0) -> np.ndarray:
    X, Y = as_dense(X), as_dense(Y)
    out = np.full((X.shape[0], Y.shape[0]), start, dtype=np.result_type(X, Y))
    for x, z in zip(X.T, Y.T, strict=True):
        update(out, x[:, None], z)
    return out


def _add_squared_difference(out: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
    difference = x - z
    difference *= difference
    out += difference


def _add_chi2(out: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
    difference, total = x - z, x + z
    total[total == 0] = 1
    # The quotient before the second product, so that tiny and huge entries survive.
    out += difference / total * difference


def _multiply_conjunct(out: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
    out *= 1 + x * z


# Directional derivatives. F, G are the points as the statistic sees them, dF, dG how they change
# with a parameter; only features that change are passed.


def _dot_tangent(F: Array, G: Array, dF: Array, dG: Array) -> np.ndarray:
    return dF @ G.T + F @ dG.T


def _sqdist_tangent(F: Array, G: Array, dF: Array, dG: Array) -> np.ndarray:
    return _tangent_over_features(F, G, dF, dG, lambda x, z, dx, dz: 2 * (x - z) * (dx - dz))


def _l1_tangent(F: Array, G: Array, dF: Array, dG: Array) -> np.ndarray:
    return _tangent_over_features(F, G, dF, dG, lambda x, z, dx, dz: np.sign(x - z) * (dx - dz))


def _tangent_over_features(
    F: Array, G: Array, dF: Array, dG: Array, term: Callable[..., np.ndarray]
) -> np.ndarray:
    out = np.zeros((F.shape[0], G.shape[0]), dtype=np.result_type(F, G))
    for x, z, dx, dz in zip(F.T, G.T, dF.T, dG.T, strict=True):
        out += term(x[:, None], z, dx[:, None], dz)
    return out


@dataclass(frozen=True)
class PairStatistic:
    """A pair statistic and what the interpreter needs to know about it.

    Attributes
    ----------
    name : str
    block : callable
        ``block(F, G) -> (n, m)``.
    diagonal : callable
        ``diagonal(F) -> (n,)``, the statistic of each point with itself.
    prepare : callable
        ``prepare(F, G) -> (F, G)``, applied once before blocks are asked for.
    tangent : callable or None
        ``tangent(F, G, dF, dG) -> (n, m)``, the directional derivative.
    vanishes : bool
        Whether the statistic of a point with itself is always zero.
    magnitude : callable or None
        ``magnitude(F, G) -> (n, m)``, the size of the terms the statistic is summed from, which
        is what its rounding goes by; None where that is the size of the statistic itself.
    """

    name: str
    block: Callable[[Any, Any], np.ndarray]
    diagonal: Callable[[Any], np.ndarray]
    prepare: Callable[[Any, Any], tuple[Any, Any]] = lambda F, G: (F, G)
    tangent: Callable[[Any, Any, Any, Any], np.ndarray] | None = None
    vanishes: bool = False
    magnitude: Callable[[Any, Any], np.ndarray] | None = None

    def __str__(self) -> str:
        return self.name


def _zeros(F: Array) -> np.ndarray:
    return np.zeros(F.shape[0], dtype=F.dtype)


def _sum(F: Array) -> np.ndarray:
    return np.asarray(F.sum(axis=1)).ravel()


def _conjunction_diagonal(F: Array) -> np.ndarray:
    return np.prod(1 + np.square(as_dense(F)), axis=1)


STATISTICS = {
    s.name: s
    for s in (
        PairStatistic(
            "dot",
            dot,
            lambda F: row_norms(F, squared=True),
            tangent=_dot_tangent,
            magnitude=lambda F, G: dot(abs(F), abs(G)),
        ),
        PairStatistic(
            "sqdist",
            _sqdist_block,
            _zeros,
            _centred,
            _sqdist_tangent,
            vanishes=True,
            magnitude=_sqdist_magnitude,
        ),
        PairStatistic("l1", l1, _zeros, tangent=_l1_tangent, vanishes=True),
        PairStatistic("minsum", minsum, _sum),
        PairStatistic("chi2", chi2, _zeros, vanishes=True),
        PairStatistic(
            "conjunction",
            conjunction,
            _conjunction_diagonal,
            magnitude=lambda F, G: conjunction(abs(F), abs(G)),
        ),
    )
}
