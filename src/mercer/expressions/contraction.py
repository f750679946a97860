"""Σ_ij W_ij ∂K_ij/∂θ for every hyperparameter θ, for weights W that are a stored matrix.

K and its derivatives are computed tile by tile on and below the diagonal, and never stored. Where
scales act on squared distances or dot products, one tile of G = ∂K/∂D serves all d of them: with
M = W ∘ G the sum by the scale of feature k is ``Σ M_ij (x_ik - x_jk)²``, a product of M with X.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from mercer.arrays import as_dense, to_float64
from mercer.expressions.derivative import derivative, moved, partial
from mercer.expressions.interpreter import PairMatrix
from mercer.expressions.nodes import ZERO, Diagonal, Expression, Statistic, Tangent, multiply
from mercer.expressions.statistics import centre
from mercer.expressions.views import Scale

# Numbers of a tile: W's and the derivative's stay in cache between the passes over them.
TILE = 2**17


def contracted(pairs: PairMatrix, W: np.ndarray) -> dict[str, float | np.ndarray]:
    """Σ_ij W_ij ∂K_ij/∂θ for every hyperparameter θ of the expression.

    Parameters
    ----------
    pairs : PairMatrix
        Of n points with themselves.
    W : (n, n) float64 array
        Symmetric; only its half on and below the diagonal is read.

    Returns
    -------
    dict
        For every path a number, or an array of shape (d,) for a vector of d scales.
    """
    sums = [*_single_sums(pairs), *_joint_sums(pairs)]
    for tile, rows, columns in _tiles(W):
        for each in sums:
            each.add(tile, rows, columns)
    found: dict[str, float | np.ndarray] = {}
    for path, size in pairs.formula.parameters().items():
        found[path] = 0.0 if size is None else np.zeros(size)
    lost: list[_Single] = []
    for each in sums:
        if isinstance(each, _Single):
            _put(found, each)
        else:
            value, unsure = each.total()
            found[each.path] += value
            lost += [_Single(pairs, each.slope(j), each.path, int(j)) for j in unsure]
    for tile, rows, columns in _tiles(W) if lost else ():
        for each in lost:
            each.add(tile, rows, columns)
    for each in lost:
        _put(found, each)
    return found


def _put(found: dict[str, float | np.ndarray], each: _Single) -> None:
    if each.index is None:
        found[each.path] += each.sum
    else:
        np.asarray(found[each.path])[each.index] += each.sum


def _tiles(W: np.ndarray) -> Iterator[tuple[np.ndarray, slice, slice]]:
    """W below the diagonal with half its diagonal: so that the sum over W is twice theirs."""
    n = len(W)
    height = max(16, TILE // max(n, 1))
    for start in range(0, n, height):
        stop = min(start + height, n)
        rows, columns = slice(start, stop), slice(0, stop)
        tile = W[rows, columns].copy()
        own = tile[:, rows]
        own[...] = np.tril(own)
        own[np.diag_indices(stop - start)] *= 0.5
        yield tile, rows, columns


@dataclass
class _Single:
    """One number: 2 Σ of a tile times the derivative's."""

    pairs: PairMatrix
    slope: Expression
    path: str
    index: int | None = None
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.values = self.pairs.like(self.slope, np.float64)

    def add(self, tile: np.ndarray, rows: slice, columns: slice) -> None:
        self.sum += 2 * float(np.vdot(tile, self.values.block(rows, columns)))


@dataclass
class _Joint:
    """All entries of a vector that move features of a squared distance or a dot product."""

    pairs: PairMatrix
    leaf: Statistic
    G: Expression
    path: str
    own: np.ndarray
    sums: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.values = self.pairs.like(self.G, np.float64)
        self.is_distance = self.leaf.kind.name == "sqdist"
        last, X = self.leaf.view.steps[-1], self.pairs.points(self.leaf.view, 0)
        X = to_float64(as_dense(X.tocsc() if sp.issparse(X) else X))
        self.X = X - centre(X) if self.is_distance else X
        if isinstance(last, Scale) and last.path == self.path:
            self.dX = self.X * (-1 / np.asarray(last.scales))
        else:
            change = self.pairs.change(Tangent(self.leaf, self.path, None), 0)
            change = to_float64(as_dense(change))
            self.dX = change - centre(change) if self.is_distance else change
        self.sums = np.zeros(self.X.shape[1])
        self.sizes = np.zeros(self.X.shape[1])

    def slope(self, index: int) -> Expression:
        return multiply(self.G, moved(self.leaf, self.path, index))

    def add(self, tile: np.ndarray, rows: slice, columns: slice) -> None:
        M = self.values.block(rows, columns)
        M *= tile
        X, dX, Z, dZ = self.X[rows], self.dX[rows], self.X[columns], self.dX[columns]
        if not self.is_distance:  # Σ M (x dz + dx z)
            self.sums += 2 * np.einsum("ik,ik->k", X, M @ dZ)
            self.sums += 2 * np.einsum("ik,ik->k", dX, M @ Z)
            return
        # Σ 2 M (x - z)(dx - dz), one of them from each half of the matrix.
        of_rows, of_columns = M.sum(1), M.sum(0)
        squares, others = X * dX, Z * dZ
        whole = of_rows @ squares + of_columns @ others
        mixed = np.einsum("ik,ik->k", X, M @ dZ) + np.einsum("ik,ik->k", dX, M @ Z)
        self.sums += 4 * (whole - mixed)
        self.sizes += 4 * (np.abs(of_rows) @ np.abs(squares) + np.abs(of_columns) @ np.abs(others))

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums by entry, and which of them have lost half their digits, left at zero."""
        size = int(self.own.max()) + 1
        found, sizes = np.zeros(size), np.zeros(size)
        np.add.at(found, self.own, self.sums)
        np.add.at(sizes, self.own, self.sizes)
        eps = np.finfo(np.float64).eps
        unsure = np.flatnonzero(~(eps * sizes <= eps**0.5 * np.abs(found)))
        found[unsure] = 0.0
        return found, unsure


def _single_sums(pairs: PairMatrix) -> Iterator[_Single]:
    for path, size in pairs.formula.parameters().items():
        if size is None:
            slope = derivative(pairs.formula, path)
            if slope != ZERO:
                yield _Single(pairs, slope, path)


def _joint_sums(pairs: PairMatrix) -> Iterator[_Single | _Joint]:
    for path, size in pairs.formula.parameters().items():
        if size is None:
            continue
        leaves = [
            leaf
            for leaf in dict.fromkeys(pairs.expression.walk())
            if isinstance(leaf, Statistic | Diagonal) and path in leaf.parameters()
        ]
        joint = [_joint(pairs, leaf, path) for leaf in leaves]
        if all(joint):
            yield from (each for each in joint if each and each.G != ZERO)
            continue
        for j in range(size):
            yield _Single(pairs, derivative(pairs.formula, path, j), path, j)


def _joint(pairs: PairMatrix, leaf: Statistic | Diagonal, path: str) -> _Joint | None:
    """All entries of the vector by way of one leaf; None where that takes one by one."""
    if isinstance(leaf, Diagonal) or leaf.kind.name not in ("dot", "sqdist"):
        return None
    own = leaf.view.owners(path)
    return None if own is None else _Joint(pairs, leaf, partial(pairs.expression, leaf), path, own)
