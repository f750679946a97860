"""Σ_ij W_ij ∂K_ij/∂θ for every hyperparameter θ, for weights W that are stored or of low rank.

K and its derivatives are computed tile by tile and never stored; of a symmetric K on and below the
diagonal. Where scales act on squared distances or dot products, one tile of G = ∂K/∂D serves all d
of them: with M = W ∘ G the sum by the scale of feature k is ``Σ M_ij (x_ik - z_jk)²``, a product of
M with Z.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import as_dense, as_numpy, backend, like, namespace, row_major, to_float64
from mercer.expressions.derivative import derivative, moved, partial
from mercer.expressions.interpreter import PairMatrix
from mercer.expressions.nodes import (
    ZERO,
    Constant,
    Diagonal,
    Expression,
    Statistic,
    Tangent,
    multiply,
)
from mercer.expressions.statistics import centre
from mercer.expressions.views import Check, Scale

# Numbers of a tile, and its most columns: W's and the derivative's stay in cache between the passes
# over them.
TILE, WIDEST = 2**17, 2**10
# The same of tensors, where a tile is to keep a device busy.
TENSOR_TILE, TENSOR_WIDEST = 2**24, 2**12


class Outer:
    """The weights ``W_ij = Σ_c u_ic v_jc``, computed tile by tile.

    Parameters
    ----------
    U : (n, c) array or tensor
    V : (m, c) array or tensor
    symmetric : bool
        Whether the symmetric part of W stands for W, as is right for a symmetric K.
    """

    def __init__(self, U: Any, V: Any, symmetric: bool):
        if symmetric and U is not V:
            hstack = namespace(U).hstack
            U, V = 0.5 * hstack([U, V]), hstack([V, U])
        self.U, self.V = row_major(U), row_major(V.T)
        self.room = np.empty(0)

    def __getitem__(self, places: tuple[slice, slice]) -> Any:
        rows, columns = places
        U, V = self.U[rows], self.V[:, columns]
        if not isinstance(U, np.ndarray):
            return U @ V
        self.room, tile = _taken(self.room, len(U), V.shape[1])
        return np.matmul(U, V, out=tile)


def contracted(
    pairs: PairMatrix, W: Any, paths: Collection[str] | None = None
) -> dict[str, float | np.ndarray]:
    """Σ_ij W_ij ∂K_ij/∂θ for every hyperparameter θ of the expression.

    Parameters
    ----------
    pairs : PairMatrix
    W : (n, m) float64 array or tensor, or Outer
        Where K is of n points with themselves, it is symmetric, and only its half on and below the
        diagonal is read.
    paths : collection of str, optional
        Of the hyperparameters that are asked for; None for all.

    Returns
    -------
    dict
        For each path a number, or an array of shape (d,) for a vector of d scales.
    """
    sizes = pairs.formula.parameters()
    sizes = sizes if paths is None else {path: sizes[path] for path in sizes if path in paths}
    sums = [*_single_sums(pairs, sizes), *_joint_sums(pairs, sizes)]
    for tile, rows, columns in _tiles(pairs, W):
        for each in sums:
            each.add(tile, rows, columns)
    found: dict[str, float | np.ndarray] = {}
    for path, size in sizes.items():
        found[path] = 0.0 if size is None else np.zeros(size)
    lost: list[_Single] = []
    for each in sums:
        if isinstance(each, _Single):
            _put(found, each)
        else:
            value, unsure = each.total()
            found[each.path] += value
            lost += [_Single(pairs, each.slope(j), each.path, int(j)) for j in unsure]
    for tile, rows, columns in _tiles(pairs, W) if lost else ():
        for each in lost:
            each.add(tile, rows, columns)
    for each in lost:
        _put(found, each)
    return found


def points_contracted(pairs: PairMatrix, W: np.ndarray | Outer) -> np.ndarray | None:
    """Σ_i W_ij ∂k(x_i, z_j)/∂z_j for each of the points z_j on the right: (m, d).

    None for kernels that are not functions of squared distances and dot products of the points, of
    which each feature may have a scale.

    Parameters
    ----------
    pairs : PairMatrix of two sets of points, dense vectors
    W : (n, m) float64 array, or Outer
    """
    e = pairs.expression
    leaves: list[Any] = [node for node in dict.fromkeys(e.walk()) if not list(node.children())]
    leaves = [node for node in leaves if not isinstance(node, Constant)]
    if any(map(sp.issparse, pairs.raw)) or not all(map(_is_of_scaled_points, leaves)):
        return None
    sums = [
        _Points(pairs, leaf, partial(e, leaf)) for leaf in leaves if isinstance(leaf, Statistic)
    ]
    for tile, rows, columns in _tiles(pairs, W):
        for each in sums:
            each.add(tile, rows, columns)
    return sum((each.total() for each in sums), np.zeros(np.shape(pairs.raw[1])))


def _is_of_scaled_points(leaf: Expression) -> bool:
    if not isinstance(leaf, Statistic) or leaf.kind.name not in ("dot", "sqdist"):
        return False
    return all(isinstance(step, Check | Scale) for step in leaf.view.steps)


def is_joint(pairs: PairMatrix) -> bool:
    """Whether all the scales of a vector are one sum, for which no features are made dense."""
    if not pairs.native or any(map(sp.issparse, pairs.raw)):
        return False
    paths = [path for path, size in pairs.formula.parameters().items() if size is not None]
    return all(_moves_features(leaf, path) for path in paths for leaf in _leaves(pairs, path))


def _put(found: dict[str, float | np.ndarray], each: _Single) -> None:
    if each.index is None:
        found[each.path] += float(each.sum)
    else:
        np.asarray(found[each.path])[each.index] += float(each.sum)


def _tiles(pairs: PairMatrix, W: Any) -> Iterator[tuple[Any, slice, slice]]:
    """W's tiles; of a symmetric one below the diagonal, with half the diagonal.

    So that the sum over W is twice theirs.
    """
    n, m = pairs.shape
    of_tensors = not _is_of_arrays(pairs)
    most, widest = (TENSOR_TILE, TENSOR_WIDEST) if of_tensors else (TILE, WIDEST)
    height = max(16, most // max(min(m, widest), 1))
    for start in range(0, n, height):
        rows = slice(start, min(start + height, n))
        end = rows.stop if pairs.symmetric else m
        for left in range(0, end, widest):
            columns = slice(left, min(left + widest, end))
            tile = (
                like(W[rows, columns], pairs.raw[0], np.float64) if of_tensors else W[rows, columns]
            )
            if pairs.symmetric and columns.stop > start:
                tile = backend(tile).lower_half(tile, start - left)
            yield tile, rows, columns


def _is_of_arrays(pairs: PairMatrix) -> bool:
    return backend(pairs.raw[0]).executor != "torch"


def _taken(room: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Room for a tile, the same as before if it is large enough, and the tile's part of it."""
    if len(room) < height * width:
        room = np.empty(height * width)
    return room, room[: height * width].reshape(height, width)


class _Values:
    """Tiles of an expression, each in the place of the one before."""

    def __init__(self, pairs: PairMatrix, e: Expression):
        self.pairs, self.room = pairs.like(e, np.float64), np.empty(0)
        self.in_place = _is_of_arrays(pairs)

    def tile(self, like: Any, rows: slice, columns: slice) -> Any:
        if not self.in_place:
            return self.pairs.block(rows, columns)
        self.room, tile = _taken(self.room, *like.shape)
        return self.pairs.block(rows, columns, out=tile)


@dataclass
class _Single:
    """One number: Σ of a tile times the derivative's."""

    pairs: PairMatrix
    slope: Expression
    path: str
    index: int | None = None
    sum: Any = 0.0

    def __post_init__(self) -> None:
        self.values = _Values(self.pairs, self.slope)

    def add(self, tile: Any, rows: slice, columns: slice) -> None:
        times = 1 + self.pairs.symmetric
        values = self.values.tile(tile, rows, columns)
        self.sum = self.sum + times * backend(tile).sum_of_products(tile, values)


@dataclass
class _Joint:
    """All entries of a vector that move features of a squared distance or a dot product."""

    pairs: PairMatrix
    leaf: Statistic
    G: Expression
    path: str
    own: np.ndarray
    sums: Any = field(init=False)

    def __post_init__(self) -> None:
        self.values = _Values(self.pairs, self.G)
        self.is_distance = self.leaf.kind.name == "sqdist"
        last = self.leaf.view.steps[-1]
        # A scale that is the last step moves every feature in proportion to itself.
        is_last = isinstance(last, Scale) and last.path == self.path
        self.rates = -1 / np.asarray(last.scales) if is_last else None
        self.X, self.Z = self._moved([self.pairs.points(self.leaf.view, side) for side in (0, 1)])
        if self.rates is not None:
            rates = like(self.rates, self.X)
            self.dX, self.dZ = self.X * rates, self.Z * rates
        else:
            tangent = Tangent(self.leaf, self.path, None)
            self.dX, self.dZ = self._moved([self.pairs.change(tangent, side) for side in (0, 1)])
        self.sums, self.sizes = (like(np.zeros(self.X.shape[1]), self.X) for _ in range(2))

    def _moved(self, points: list[Any]) -> list[Any]:
        """Points of both sides, moved towards the origin where only differences count."""
        X, Z = (to_float64(as_dense(P.tocsc() if sp.issparse(P) else P)) for P in points)
        origin = centre(Z) if self.is_distance else 0.0
        return [X - origin, Z - origin]

    def slope(self, index: int) -> Expression:
        return multiply(self.G, moved(self.leaf, self.path, index))

    def add(self, tile: Any, rows: slice, columns: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # such are summed one by one
            self._add(tile, rows, columns)

    def _add(self, tile: Any, rows: slice, columns: slice) -> None:
        M, times = self.values.tile(tile, rows, columns), 1 + self.pairs.symmetric
        M *= tile
        X, dX, Z, dZ = self.X[rows], self.dX[rows], self.Z[columns], self.dZ[columns]
        if self.rates is not None:  # x dz = dx z
            mixed = 2 * (dX * (M @ Z)).sum(0)
        else:
            mixed = (X * (M @ dZ) + dX * (M @ Z)).sum(0)
        if not self.is_distance:  # Σ M (x dz + dx z)
            self.sums += times * mixed
            return
        # Σ 2 M (x - z)(dx - dz).
        squares, others = X * dX, Z * dZ
        whole = M.sum(1) @ squares + M.sum(0) @ others
        self.sums += 2 * times * (whole - mixed)
        M = backend(M).absolute(M)
        self.sizes += 2 * times * (M.sum(1) @ abs(squares) + M.sum(0) @ abs(others))

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums by entry, and which of them have lost half their digits, left at zero."""
        size = int(self.own.max()) + 1
        found, sizes = np.zeros(size), np.zeros(size)
        np.add.at(found, self.own, as_numpy(self.sums))
        np.add.at(sizes, self.own, as_numpy(self.sizes))
        eps = np.finfo(np.float64).eps
        unsure = np.flatnonzero(~(eps * sizes <= eps**0.5 * np.abs(found)))
        found[unsure] = 0.0
        return found, unsure


class _Points:
    """Σ_i M_ij ∂leaf_ij/∂z_j with ``M = W ∘ G``, for a squared distance or a dot product."""

    def __init__(self, pairs: PairMatrix, leaf: Statistic, G: Expression):
        self.values, self.leaf = _Values(pairs, G), leaf
        self.is_distance = leaf.kind.name == "sqdist"
        X, Z = (to_float64(as_dense(pairs.points(leaf.view, side))) for side in (0, 1))
        origin = centre(Z) if self.is_distance else 0.0
        self.X, self.Z = X - origin, Z - origin
        self.products, self.columns = np.zeros(Z.shape), np.zeros(len(Z))

    def add(self, tile: np.ndarray, rows: slice, columns: slice) -> None:
        M = self.values.tile(tile, rows, columns)
        M *= tile
        self.products[columns] += M.T @ self.X[rows]
        self.columns[columns] += M.sum(0)

    def total(self) -> np.ndarray:
        found = self.products
        if self.is_distance:
            found = 2 * (self.Z * self.columns[:, None] - found)
        for step in self.leaf.view.steps:
            if isinstance(step, Scale):
                found = found / np.asarray(step.scales)
        return found


def _single_sums(pairs: PairMatrix, sizes: Mapping[str, int | None]) -> Iterator[_Single]:
    for path, size in sizes.items():
        if size is None:
            slope = derivative(pairs.formula, path)
            if slope != ZERO:
                yield _Single(pairs, slope, path)


def _joint_sums(pairs: PairMatrix, sizes: Mapping[str, int | None]) -> Iterator[_Single | _Joint]:
    for path, size in sizes.items():
        if size is None:
            continue
        leaves = _leaves(pairs, path)
        if not all(_moves_features(leaf, path) for leaf in leaves):
            for j in range(size):
                yield _Single(pairs, derivative(pairs.formula, path, j), path, j)
            continue
        for leaf in leaves:
            G, own = partial(pairs.expression, leaf), leaf.view.owners(path)
            if G != ZERO:
                yield _Joint(pairs, leaf, G, path, own)


def _leaves(pairs: PairMatrix, path: str) -> list[Any]:
    """The leaves that move with a vector of scales."""
    return [
        leaf
        for leaf in dict.fromkeys(pairs.expression.walk())
        if isinstance(leaf, Statistic | Diagonal) and path in leaf.parameters()
    ]


def _moves_features(leaf: Statistic | Diagonal, path: str) -> bool:
    """Whether each scale moves features of its own, of a squared distance or a dot product."""
    if isinstance(leaf, Diagonal) or leaf.kind.name not in ("dot", "sqdist"):
        return False
    return leaf.view.owners(path) is not None
