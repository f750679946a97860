"""Pair statistics: the numbers about two points that vector kernels are functions of.

Each is a function of ``X: (n, d)`` and ``Y: (m, d)``, dense or CSR, and returns ``(n, m)``. Dense
points go to the core, whose NumPy twin `core.reference.interpreter` has the formulas. What the
interpreter needs to know about one stands in the table `STATISTICS` at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from mercer import core
from mercer.arrays import (
    Array,
    as_dense,
    backend,
    is_tensor,
    like,
    namespace,
    row_blocks,
    row_major,
)
from mercer.cached import cached_property
from mercer.core import Kind, Leaf, Program
from mercer.core.reference.interpreter import EXACT_FEATURES, NEAR
from mercer.expressions.bits import bits_of_both
from mercer.expressions.sparse_rows import sparse_products

Tangents = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
GATHER_BYTES = 2**26
# Sparse rows from which on the core's tables of them pay, and as many columns as they take.
SPARSE_ROWS, MOST_COLUMNS = 16, 2**31 - 1
CENTRE_ROWS = 512
# Features up to which an executor takes distances from differences of the points as they are, so
# that they need not be centred.
DIFFERENCES_UP_TO = {"native": EXACT_FEATURES, "torch": 0}
DIAGONAL_ROWS = 32  # of a block that is computed for its diagonal
# Points that another statistic is computed from as well stay where they are, so that one pass over
# the features serves both, unless their squared distance from the origin is so many times their
# own spread: the squared norms, whose rounding a distance inherits, grow by 1 + FAR at most.
FAR = 1.5
# What is counted, of points whose features are 0 or 1.
COUNTED = {
    Kind.DOT: Kind.COMMON,
    Kind.MINSUM: Kind.COMMON,
    Kind.SQDIST: Kind.DIFFERENT,
    Kind.L1: Kind.DIFFERENT,
}
_AS_IT_IS = Program(np.empty((0, 5), dtype=np.int32), np.empty((0, 2)), registers=1, result=0)


def dot(X: Array, Y: Array) -> np.ndarray:
    """x·z."""
    if _are_of_core(X, Y):
        return sparse_products(X, Y)
    dtype = np.result_type(X.dtype, Y.dtype)
    X, Y = (A.astype(dtype, copy=False) for A in (X, Y))
    return np.asarray(safe_sparse_dot(X, Y.T, dense_output=True))


def _are_of_core(X: Array, Y: Array) -> bool:
    """Whether products of sparse rows are left to the core, whose result is dense at once.

    Its tables have an entry for each column, as SciPy's do.
    """
    return all(
        sp.issparse(A)
        and A.format == "csr"
        and A.dtype == np.float64
        and A.shape[0] >= SPARSE_ROWS
        and A.shape[1] <= MOST_COLUMNS
        for A in (X, Y)
    )


def sqdist(X: Array, Y: Array) -> np.ndarray:
    """‖x - z‖², careful where points nearly coincide."""
    return _sqdist_block(*_centred(X, Y))


def l1(X: Array, Y: Array) -> np.ndarray:
    """Σ |x_j - z_j|."""
    return _dense_block(Kind.L1, X, Y)


def minsum(X: Array, Y: Array) -> np.ndarray:
    """Σ min(x_j, z_j)."""
    return _dense_block(Kind.MINSUM, X, Y)


def chi2(X: Array, Y: Array) -> np.ndarray:
    """Σ (x_j - z_j)² / (x_j + z_j) with 0/0 = 0, for non-negative points."""
    return _dense_block(Kind.CHI2, X, Y)


def conjunction(X: Array, Y: Array) -> np.ndarray:
    """Π (1 + x_j z_j)."""
    return _dense_block(Kind.CONJUNCTION, X, Y)


def _dense_block(kind: Kind, X: Array, Y: Array) -> np.ndarray:
    X, Y = as_dense(X), as_dense(Y)
    dtype = np.result_type(X, Y)
    X, Y = row_major(X, dtype), row_major(Y, dtype)
    return _by_core(Leaf(kind, X, Y, X, Y))


def minsum_tangent(x: np.ndarray, dx: np.ndarray, z: np.ndarray, dz: np.ndarray) -> np.ndarray:
    """d min(x, z) as x and z move; where they meet, the mean of both."""
    return np.where(x == z, (dx + dz) / 2, np.where(x < z, dx, dz))


def chi2_tangent(x: np.ndarray, dx: np.ndarray, z: np.ndarray, dz: np.ndarray) -> np.ndarray:
    """d (x - z)² / (x + z) as x and z move."""
    total = x + z
    q = np.divide(x - z, total, out=np.zeros_like(total), where=total != 0)
    return (2 * q - q * q) * dx - (2 * q + q * q) * dz


def _summed(slope: Tangents) -> Tangents:
    """The tangent of a sum over features, on arrays whose last axis they are."""

    def tangent(X: np.ndarray, dX: np.ndarray, Z: np.ndarray, dZ: np.ndarray) -> np.ndarray:
        total = np.zeros(np.broadcast_shapes(X.shape, Z.shape)[:-1], dtype=np.result_type(X, Z))
        for k in np.flatnonzero(_moves(dX) | _moves(dZ)):
            total += slope(X[..., k], dX[..., k], Z[..., k], dZ[..., k])
        return total

    return tangent


def conjunction_tangent(X: np.ndarray, dX: np.ndarray, Z: np.ndarray, dZ: np.ndarray) -> np.ndarray:
    """d Π (1 + x_j z_j) by the product rule, which needs no division by a factor."""
    shape = np.broadcast_shapes(X.shape, Z.shape)[:-1]
    product = np.ones(shape, dtype=np.result_type(X, Z))
    change = np.zeros_like(product)
    for k in range(X.shape[-1]):
        x, dx, z, dz = (A[..., k] for A in (X, dX, Z, dZ))
        factor = 1 + x * z
        change = change * factor + product * (dx * z + x * dz)
        product *= factor
    return change


def _moves(change: np.ndarray) -> np.ndarray:
    """Which features move at all."""
    return np.any(change, axis=tuple(range(change.ndim - 1)))


def _by_core(leaf: Leaf) -> np.ndarray:
    """The statistic itself, from the core."""
    n, m = len(leaf.X), len(leaf.Y)
    out = np.empty((n, m), dtype=leaf.X.dtype)
    core.pairs(_AS_IT_IS, [leaf], [], [], n, m, out.dtype).gram(
        out, False, core.threads(n * m, leaf.X.shape[1])
    )
    return out


@dataclass(frozen=True)
class _Centred:
    """Points moved by one vector, which distances do not see but rounding does.

    The points as given are kept as well: moving a point costs it digits, and where two points
    nearly coincide those are the ones that count. ``origin`` is None for points that stay.
    """

    given: Array
    origin: Any = None

    @cached_property
    def moved(self) -> Array:
        return self.given if self.origin is None else self.given - self.origin

    @property
    def shape(self) -> tuple[int, ...]:
        return self.given.shape

    def __getitem__(self, rows: Any) -> _Centred:
        return _Centred(self.given[rows], self.origin)


def _centred(F: Array, G: Array, shared: bool = False) -> tuple[_Centred, _Centred]:
    exact = F.shape[1] <= DIFFERENCES_UP_TO[backend(F).executor]
    if sp.issparse(F) or sp.issparse(G) or exact:
        return _Centred(F), _Centred(G)
    some = _some(G)
    origin = centre(some)
    if shared and origin @ origin <= FAR * backend(some).middle_row(_lengths(some - origin)):
        return _Centred(F), _Centred(G)
    right = _Centred(G, origin)
    return (right if F is G else _Centred(F, origin)), right


def centre(G: Any) -> Any:
    """The median of some rows: one far point would draw the mean away from all the others."""
    return backend(G).middle_row(_some(G))


def _some(G: Any) -> Any:
    return G[:: max(1, -(-len(G) // CENTRE_ROWS))]


def _sqdist_leaf(F: _Centred, G: _Centred, dtype: Any) -> Leaf:
    moved, given = (
        [row_major(a, dtype) for a in pair] for pair in ((F.moved, G.moved), (F.given, G.given))
    )
    with np.errstate(over="ignore"):  # such pairs are computed from differences
        norms = [_squared_norms(A) for A in moved]
    return Leaf(Kind.SQDIST, *moved, *given, *norms)


def _squared_norms(A: np.ndarray) -> np.ndarray:
    """‖x‖² to the last digit or so; einsum's plain sum of many features would lose some."""
    if not isinstance(A, np.ndarray):
        return _lengths(A)
    if A.dtype == np.float64:
        return np.vecdot(A, A)
    return np.einsum("ij,ij->i", A, A, dtype=float).astype(A.dtype)


def _lengths(A: Array) -> Any:
    """‖x‖² of each row."""
    return backend(A).squared_row_norms(A)


def _sqdist_block(F: _Centred, G: _Centred) -> np.ndarray:
    X, Y = F.moved, G.moved
    if not sp.issparse(X) and not sp.issparse(Y):
        return _by_core(_sqdist_leaf(F, G, np.result_type(X, Y)))
    size = _sqdist_magnitude(F, G)
    with np.errstate(over="ignore", invalid="ignore"):  # such pairs are computed again
        distances = size - 2 * dot(X, Y)
        rows, columns = np.nonzero(~(distances > NEAR[distances.dtype] * size))
        for block in row_blocks(len(rows), _bytes_per_row(X, Y), GATHER_BYTES):
            i, j = rows[block], columns[block]
            difference = sp.csr_array(F.given[i] - G.given[j])
            distances[i, j] = row_norms(difference, squared=True)
    return distances


def _bytes_per_row(X: Array, Y: Array) -> float:
    """Bytes of the difference of two rows, of which one at least is sparse."""
    if sp.issparse(X) and sp.issparse(Y):
        return sum(12 * (A.nnz / max(1, A.shape[0]) + 1) for A in (X, Y))
    return 8 * X.shape[1]


def _sqdist_magnitude(F: _Centred, G: _Centred) -> np.ndarray:
    """‖x‖² + ‖z‖² of the centred points, whose last digits are those of their distance."""
    with np.errstate(over="ignore"):
        return row_norms(F.moved, squared=True)[:, None] + row_norms(G.moved, squared=True)


@dataclass(frozen=True)
class PairStatistic:
    """A pair statistic and what the interpreter needs to know about it.

    Attributes
    ----------
    name : str
    block : callable
        ``block(F, G) -> (n, m)``, for points that the core does not take.
    diagonal : callable
        ``diagonal(F) -> (n,)``, the statistic of each point with itself.
    prepare : callable
        ``prepare(F, G) -> (F, G)``, applied once before blocks are asked for.
    prepare_shared : callable or None
        The same for points that the expression has another statistic of, if that is different.
    native : Kind or None
        The core's own statistic, for dense points.
    tangent : Kind or None
        The core's statistic that gives the directional derivative, up to ``tangent_factor``.
    tangents : callable or None
        ``tangents(X, dX, Z, dZ)``, that derivative in NumPy for arrays that broadcast, with the
        features on the last axis; where the core has none.
    vanishes : bool
        Whether the statistic of a point with itself is always zero.
    is_kernel : bool
        Whether the statistic is positive semidefinite on the points it takes.
    whole : bool
        Whether ``block`` takes any number of points, and what it returns is in float64 and
        symmetric for G = F, to the last bit unless a user's function computes it.
    shares : bool
        Whether ``block`` may return an array of the user's, which must not be changed.
    summed : callable or None
        ``summed(G, V)``, a function from F to the block times V, (n, c), where there is a way that
        does not look at every pair; F and G are not prepared.
    magnitude : callable or None
        ``magnitude(F, G) -> (n, m)``, the size of the terms the statistic is summed from, which
        is what its rounding goes by; None where that is the size of the statistic itself.
    """

    name: str
    block: Callable[[Any, Any], np.ndarray]
    diagonal: Callable[[Any], np.ndarray]
    prepare: Callable[[Any, Any], tuple[Any, Any]] = lambda F, G: (F, G)
    prepare_shared: Callable[[Any, Any], tuple[Any, Any]] | None = None
    native: Kind | None = None
    tangent: Kind | None = None
    tangent_factor: float = 1.0
    tangents: Tangents | None = None
    vanishes: bool = False
    is_kernel: bool = False
    whole: bool = False
    shares: bool = False
    summed: Callable[[Any, np.ndarray], Callable[[Any], np.ndarray]] | None = None
    magnitude: Callable[[Any, Any], np.ndarray] | None = None

    def __str__(self) -> str:
        return self.name

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Those of the table are pickled by name, and stay the same objects.
        if STATISTICS.get(self.name) is self:
            return _named, (self.name,)
        return super().__reduce_ex__(protocol)

    def leaf(self, F: Any, G: Any, dtype: Any, by_bits: bool = True) -> Leaf | None:
        """The statistic of prepared points for the core, or None where it does not take them.

        ``by_bits`` where points whose features are 0 or 1 may be passed as bits.
        """
        if self.native is None:
            return None
        if by_bits and self.native in COUNTED:
            given = (F.given, G.given) if isinstance(F, _Centred) else (F, G)
            packed = bits_of_both(*given, dtype)
            if packed is not None:
                return Leaf(COUNTED[self.native], *packed, *packed)
        if isinstance(F, _Centred):
            if sp.issparse(F.given) or sp.issparse(G.given):
                return None
            return _sqdist_leaf(F, G, dtype)
        if sp.issparse(F) or sp.issparse(G):
            return None
        X, Y = row_major(F, dtype), row_major(G, dtype)
        return Leaf(self.native, X, Y, X, Y)


def _named(name: str) -> PairStatistic:
    return STATISTICS[name]


def _zeros(F: Array) -> np.ndarray:
    return like(np.zeros(F.shape[0]), F)


def _sum(F: Array) -> np.ndarray:
    return backend(F).row_sums(F)


def _conjunction_diagonal(F: Array) -> np.ndarray:
    """Π (1 + x_j²), with the rounding that the core has in a block of pairs."""
    if is_tensor(F):
        return namespace(F).prod(1 + F**2, 1)
    F = as_dense(F)
    out = np.empty(len(F), dtype=F.dtype)
    for start in range(0, len(F), DIAGONAL_ROWS):
        rows = slice(start, start + DIAGONAL_ROWS)
        out[rows] = np.diagonal(conjunction(F[rows], F[rows]))
    return out


STATISTICS: dict[str, PairStatistic] = {
    s.name: s
    for s in (
        PairStatistic(
            "dot",
            dot,
            _lengths,
            native=Kind.DOT,
            tangent=Kind.DOT,
            is_kernel=True,
            magnitude=lambda F, G: dot(abs(F), abs(G)),
        ),
        PairStatistic(
            "sqdist",
            _sqdist_block,
            _zeros,
            prepare=_centred,
            prepare_shared=partial(_centred, shared=True),
            native=Kind.SQDIST,
            tangent=Kind.DIFFERENCE_PRODUCT,
            tangent_factor=2.0,
            vanishes=True,
            magnitude=_sqdist_magnitude,
        ),
        PairStatistic("l1", l1, _zeros, native=Kind.L1, tangent=Kind.SIGN_PRODUCT, vanishes=True),
        PairStatistic(
            "minsum",
            minsum,
            _sum,
            native=Kind.MINSUM,
            tangents=_summed(minsum_tangent),
            is_kernel=True,
        ),
        PairStatistic(
            "chi2",
            chi2,
            _zeros,
            native=Kind.CHI2,
            tangents=_summed(chi2_tangent),
            vanishes=True,
        ),
        PairStatistic(
            "conjunction",
            conjunction,
            _conjunction_diagonal,
            native=Kind.CONJUNCTION,
            tangents=conjunction_tangent,
            is_kernel=True,
            magnitude=lambda F, G: conjunction(abs(F), abs(G)),
        ),
    )
}
