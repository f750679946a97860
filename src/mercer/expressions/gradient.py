"""Σ_c u_cᵀ (∂K/∂θ) v_c for every hyperparameter θ, in a few passes over the pairs and without K.

A number θ takes one product with ∂K/∂θ. So would each of d scales; but where the kernel sees them
through squared distances or dot products, all of them come from one product with G = ∂K/∂D::

    Σ u_i G_ij v_j (x_ik - z_jk)² = Σ x_ik² u_i (Gv)_i + Σ z_jk² v_j (Gᵀu)_j
                                    - 2 Σ x_ik u_i (G(v z_k))_i

Of several columns the weights ``W_ij = Σ_c u_ic v_jc`` are formed tile by tile instead,
which takes the columns once: see `contraction`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import as_dense, as_numpy, like, namespace, to_float64
from mercer.expressions.contraction import Outer, contracted, is_joint
from mercer.expressions.derivative import moved, partial
from mercer.expressions.interpreter import PairMatrix
from mercer.expressions.nodes import ZERO, Diagonal, Expression, Statistic, Tangent, multiply
from mercer.expressions.statistics import centre
from mercer.expressions.views import Scale

# Numbers in the columns of one product; it has a few at least.
COLUMNS, FEWEST = 2**21, 16
# From so many columns on, weights take less time than products with all of them.
WEIGHTED = 2


def gradient(
    pairs: PairMatrix, U: Any, V: Any, paths: Collection[str] | None = None
) -> dict[str, float | np.ndarray]:
    """Σ_c u_cᵀ (∂K/∂θ) v_c for every hyperparameter θ of the expression.

    Parameters
    ----------
    pairs : PairMatrix
    U : (n,) or (n, c) array or tensor
    V : (m,) or (m, c) array or tensor
    paths : collection of str, optional
        Of the hyperparameters that are asked for; None for all.

    Returns
    -------
    dict
        For each path a number, or an array of shape (d,) for a vector of d scales.
    """
    U, V = (_columns(A, pairs, side) for side, A in enumerate((U, V)))
    if U.shape[1] != V.shape[1] or 0 in U.shape:
        counts = f"U has {U.shape[1]} columns and V {V.shape[1]}"
        raise ValueError(f"{counts}; expected as many, and at least one")
    if U.shape[1] >= WEIGHTED and is_joint(pairs):
        return contracted(pairs, Outer(U, V, pairs.symmetric), paths)
    found: dict[str, float | np.ndarray] = {}
    for path, size in pairs.formula.parameters().items():
        if paths is not None and path not in paths:
            continue
        if size is None:
            found[path] = _contracted(pairs.derivative(path), U, V)
        else:
            found[path] = np.zeros(size)
            for leaf in dict.fromkeys(pairs.expression.walk()):
                if isinstance(leaf, Statistic | Diagonal) and path in leaf.parameters():
                    G = partial(pairs.expression, leaf)
                    if G != ZERO:
                        found[path] += _Through(pairs, leaf, G, path, size).contracted(U, V)
    return found


def _columns(A: Any, pairs: PairMatrix, side: int) -> Any:
    """Columns in double, where the points are."""
    n, X = pairs.shape[side], pairs.raw[side]
    A = like(A, X, np.float64)
    if A.ndim not in (1, 2) or len(A) != n:
        shape = tuple(A.shape)
        raise ValueError(f"{'UV'[side]} has shape {shape}; expected ({n},) or ({n}, columns)")
    return A.reshape(n, -1)


def _contracted(pairs: PairMatrix, U: Any, V: Any) -> float:
    if pairs.expression == ZERO:
        return 0.0
    return float((U * pairs.products(V, U[:, :0])[0]).sum())


class _Through:
    """What a vector of scales does to K through one leaf of its formula, G = ∂K/∂leaf."""

    def __init__(self, pairs: PairMatrix, leaf: Expression, G: Expression, path: str, size: int):
        self.pairs, self.leaf, self.G, self.path, self.size = pairs, leaf, G, path, size

    def contracted(self, U: Any, V: Any) -> np.ndarray:
        if isinstance(self.leaf, Diagonal):
            return self._one_sided(self.leaf, U, V)
        assert isinstance(self.leaf, Statistic)
        own = self.leaf.view.owners(self.path)
        if own is None or self.leaf.kind.name not in ("dot", "sqdist"):
            return self._one_by_one(range(self.size), U, V)
        found, error = _Expansion(self, self.leaf, own).contracted(U, V)
        # Where the terms are so large compared with their sum that it has lost half its digits.
        lost = np.flatnonzero(~(error <= np.finfo(self.pairs.dtype).eps ** 0.5 * np.abs(found)))
        found[lost] = self._one_by_one(lost, U, V)
        return found

    def _one_by_one(self, entries: Iterable[int], U: Any, V: Any) -> np.ndarray:
        assert isinstance(self.leaf, Statistic)
        slopes = (multiply(self.G, moved(self.leaf, self.path, int(j))) for j in entries)
        return np.array([_contracted(self.pairs.like(s), U, V) for s in slopes])

    def _one_sided(self, leaf: Diagonal, U: Any, V: Any) -> np.ndarray:
        """Through k(x, x): one product, whatever the number of scales."""
        # Both products, since G is not symmetric where the points are the same.
        GV, GU = self.pairs.like(self.G).products(V, U)
        weight = (U * GV).sum(1) if leaf.side == 0 else (V * GU).sum(1)
        assert isinstance(leaf.operand, Statistic)
        tangents = (Tangent(leaf.operand, self.path, j) for j in range(self.size))
        slopes = (self.pairs.side(Diagonal(t, leaf.side), leaf.side) for t in tangents)
        return np.array([float(weight @ to_float64(slope)) for slope in slopes])


class _Expansion:
    """All scales at once, through a squared distance or a dot product of which each moves its own.

    The sum is expanded into products with G, where terms of the size of the points cancel: they are
    moved towards the origin, and the arithmetic is in double whatever the dtype.
    """

    def __init__(self, through: _Through, leaf: Statistic, own: np.ndarray):
        self.through, self.leaf, self.own = through, leaf, own
        self.G = through.pairs.like(through.G, np.float64)
        self.is_distance = leaf.kind.name == "sqdist"
        last = leaf.view.steps[-1]
        # A scale that is the last step moves every feature in proportion to itself.
        is_last = isinstance(last, Scale) and last.path == through.path
        self.rates = -1 / np.asarray(last.scales) if is_last else None

    def contracted(self, U: Any, V: Any) -> tuple[np.ndarray, np.ndarray]:
        """One number for each scale, and about how far rounding may have moved it."""
        xp, (found, error) = namespace(U), np.zeros((2, self.through.size))
        c, left, right = V.shape[1], V[:, :0], U[:, :0]
        row = column = size = V[:0, 0]
        if self.is_distance:  # along with the first features
            left, right = xp.hstack([V, abs(V)]), U
        for own, X, dX, Z, dZ in self._features(c):
            moving = [(X, dZ), (dX, Z)] if self.rates is None else [(2 * dX, Z)]
            columns = [(V[:, :, None] * B[:, None, :]).reshape(len(V), -1) for _, B in moving]
            P, Q = self.G.products(xp.hstack([left, *columns]), right)
            if left.shape[1]:
                row, column = (U * P[:, :c]).sum(1), (V * Q).sum(1)
                size = abs(U * P[:, c : 2 * c]).sum(1)
            products = xp.hsplit(P[:, left.shape[1] :], len(moving))
            here = sum(
                xp.einsum("ic,ick,ik->k", U, product.reshape(len(U), c, -1), A)
                for (A, _), product in zip(moving, products, strict=True)
            )
            if self.is_distance:
                with np.errstate(over="ignore", invalid="ignore"):  # such are summed one by one
                    here = 2 * (row @ (X * dX) + column @ (Z * dZ) - here)
                    np.add.at(error, own, as_numpy(size @ abs(X * dX)))
            np.add.at(found, own, as_numpy(here))
            left, right = V[:, :0], U[:, :0]
        return found, np.finfo(float).eps * error

    def _features(self, c: int) -> Iterator[tuple[Any, ...]]:
        """Some features at a time: which scales move them, x, dx, z and dz."""
        pairs, sides = self.through.pairs, (0, 1)
        points = [pairs.points(self.leaf.view, side) for side in sides]
        points = [P.tocsc() if sp.issparse(P) else P for P in points]
        changes = []
        if self.rates is None:
            tangent = Tangent(self.leaf, self.through.path, None)
            changes = [pairs.change(tangent, side) for side in sides]
        at_once = max(FEWEST, COLUMNS // max(pairs.shape))
        step = max(1, at_once // (c * (2 if changes else 1)))
        for start in range(0, len(self.own), step):
            k = slice(start, start + step)
            X, Z = self._moved(points, k)
            if self.rates is None:
                dX, dZ = self._moved(changes, k)
            else:
                rates = like(self.rates[k], X)
                dX, dZ = X * rates, Z * rates
            yield self.own[k], X, dX, Z, dZ

    def _moved(self, arrays: list, k: slice) -> list[Any]:
        """Some features of both sides, moved towards the origin where only differences count."""
        X, Z = (to_float64(as_dense(A[:, k])) for A in arrays)
        origin = centre(Z) if self.is_distance else 0.0
        return [X - origin, Z - origin]
