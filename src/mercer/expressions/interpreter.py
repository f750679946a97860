"""Evaluate expressions with NumPy, block by block over one pass of shared statistics."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from mercer.arrays import as_dense, n_rows, take_rows
from mercer.expressions.nodes import (
    Add,
    Constant,
    Diagonal,
    Divide,
    Expression,
    Function,
    Multiply,
    Parameter,
    Point,
    Power,
    Statistic,
    Tangent,
    add,
    diagonal,
    inverse_sqrt,
    multiply,
)
from mercer.expressions.statistics import STATISTICS
from mercer.expressions.views import View

# A tile and its few temporaries stay in cache, and are still worth a call into BLAS.
TILE = 512
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def lower(e: Expression) -> Expression:
    """The expression ready to run: hyperparameters become numbers, like terms are collected.

    ``a x·x + a z·z - 2a x·z`` becomes ``a ‖x - z‖²``: the square completed, without cancellation.
    """
    if isinstance(e, Parameter):
        return Constant(float(e.value))
    lowered = e.rebuild(tuple(lower(c) for c in e.children()))
    return _collect(lowered) if isinstance(lowered, Add) else lowered


def _collect(e: Add) -> Expression:
    coefficients: dict[Expression, float] = {}
    for term in e.terms:
        coefficient, core = _split(term)
        coefficients[core] = coefficients.get(core, 0.0) + coefficient
    for core, c in list(coefficients.items()):
        if isinstance(core, Statistic) and core.kind is STATISTICS["dot"]:
            sides = [Diagonal(core, side) for side in (0, 1)]
            halves = [coefficients.get(side, 0.0) for side in sides]
            if c and np.allclose(halves, -c / 2, rtol=1e-14, atol=0):
                for spent in (core, *sides):
                    del coefficients[spent]
                squared = Statistic(STATISTICS["sqdist"], core.view)
                coefficients[squared] = coefficients.get(squared, 0.0) - c / 2
    return add(*(multiply(c, core) for core, c in coefficients.items()))


def _split(term: Expression) -> tuple[float, Expression]:
    if isinstance(term, Constant):
        return term.value, Constant(1.0)
    if isinstance(term, Multiply) and isinstance(term.factors[0], Constant):
        return term.factors[0].value, multiply(*term.factors[1:])
    return 1.0, term


class Pairs:
    """An expression over all pairs of two sets of points, evaluated block by block.

    Inputs are checked, mapped and prepared once; `block` then works on rows and columns of them.

    Parameters
    ----------
    e : Expression
    X : n points
    Y : m points, or None for X itself
    """

    def __init__(self, e: Expression, X: Any, Y: Any = None):
        self.expression = lower(e)
        self.symmetric = Y is None
        self._raw = (X, X if Y is None else Y)
        self._seen: dict[tuple[View, int], Any] = {}
        self._prepared: dict[Expression, tuple[Any, Any]] = {}
        self._sides: dict[Expression, np.ndarray] = {}
        self.dtype = self._check()
        self.shape = (n_rows(X), n_rows(self._raw[1]))
        self.uses = Counter(
            n for n in _pair_nodes(self.expression) if isinstance(n, Statistic | Tangent)
        )

    def _check(self) -> np.dtype:
        """Look at the inputs through every view, which checks them; their common float dtype."""
        kinds = []
        for node in self.expression.walk():
            if isinstance(node, Statistic):
                F, G = self.points(node.view, 0), self.points(node.view, 1)
                _same_width(F, G)
                kinds += [p.dtype for p in (F, G) if getattr(p, "dtype", object) in _FLOATS]
        return np.result_type(*kinds) if kinds else np.dtype(np.float64)

    def points(self, view: View, side: int) -> Any:
        """The points of one side as a view shows them."""
        side = 0 if self.symmetric else side
        if (view, side) not in self._seen:
            self._seen[view, side] = view.apply(self._raw[side], "XY"[side])
        return self._seen[view, side]

    def _change(self, leaf: Tangent, side: int) -> np.ndarray:
        """How the points of one side move with the hyperparameter."""
        raw = self._raw[0 if self.symmetric else side]
        return as_dense(leaf.statistic.view.tangent(raw, leaf.path, leaf.index, "XY"[side]))

    def prepared(self, leaf: Expression) -> tuple[Any, Any]:
        """Both sets of points, ready for the blocks of one statistic."""
        if leaf not in self._prepared:
            self._prepared[leaf] = self._prepare(leaf)
        return self._prepared[leaf]

    def _prepare(self, leaf: Expression) -> tuple[Any, Any]:
        if isinstance(leaf, Statistic):
            return leaf.kind.prepare(self.points(leaf.view, 0), self.points(leaf.view, 1))
        assert isinstance(leaf, Tangent)
        both = [
            (as_dense(self.points(leaf.statistic.view, side)), self._change(leaf, side))
            for side in (0, 1)
        ]
        moving = np.flatnonzero(np.any(both[0][1], axis=0) | np.any(both[1][1], axis=0))
        left, right = (np.stack([p[:, moving], dp[:, moving]], axis=1) for p, dp in both)
        return left, right

    def side(self, node: Diagonal | Point) -> np.ndarray:
        """A one-sided term at every point of its side: shape (n,) or (m,)."""
        if node not in self._sides:
            self._sides[node] = self._one_sided(node)
        return self._sides[node]

    def _one_sided(self, node: Diagonal | Point) -> np.ndarray:
        if isinstance(node, Point):
            points = self.points(node.view, node.side)
            return _per_point(node.function, points).astype(self.dtype)
        leaf = node.operand
        if isinstance(leaf, Statistic):
            return leaf.kind.diagonal(self.points(leaf.view, node.side))
        points = as_dense(self.points(leaf.statistic.view, node.side))
        return 2 * np.sum(points * self._change(leaf, node.side), axis=1)  # of the dot product

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        """K[rows, columns] as a new array; rows and columns are slices or index arrays."""
        value = Block(self, rows, columns).value(self.expression)
        shape = (_count(rows, self.shape[0]), _count(columns, self.shape[1]))
        if np.shape(value) != shape:
            value = np.array(np.broadcast_to(value, shape), dtype=self.dtype)
        return value.astype(self.dtype, copy=False)

    def gram(self) -> np.ndarray:
        """The whole matrix; for Y = None half the tiles are computed and the rest mirrored."""
        n, m = self.shape
        K = np.empty((n, m), dtype=self.dtype)
        for i in range(0, n, TILE):
            rows = slice(i, min(i + TILE, n))
            for j in range(i if self.symmetric else 0, m, TILE):
                columns = slice(j, min(j + TILE, m))
                K[rows, columns] = self.block(rows, columns)
                if self.symmetric and j > i:
                    K[columns, rows] = K[rows, columns].T
            if self.symmetric:
                _mirror(K[rows, rows])
        return K

    def diagonal(self) -> np.ndarray:
        """The expression at (x, x) for each x in X: shape (n,)."""
        n = self.shape[0]
        value = np.ravel(Block(self, slice(0, n), slice(0, n)).value(diagonal(self.expression, 0)))
        return np.array(np.broadcast_to(value, (n,)), dtype=self.dtype)


class Block:
    """The value of an expression on one block of pairs."""

    def __init__(self, pairs: Pairs, rows: Any, columns: Any):
        self.pairs, self.at = pairs, (rows, columns)
        self.left = Counter(pairs.uses)
        self.shared: dict[Expression, np.ndarray] = {}

    def value(self, node: Expression) -> Any:
        """The value of a node: a number, or an array that the caller may overwrite."""
        match node:
            case Constant():
                return node.value
            case Add():
                return self._fold(node.terms, np.add)
            case Multiply():
                return self._fold(node.factors, np.multiply)
            case Divide():
                a, b = self.value(node.numerator), self.value(node.denominator)
                shape = np.broadcast_shapes(np.shape(a), np.shape(b))
                out = np.full(shape, node.at_zero, dtype=np.result_type(a, b))
                return np.divide(a, b, out=out, where=np.asarray(b != 0))
            case Power():
                exponent = self.value(node.exponent)
                exponent = int(exponent) if float(exponent).is_integer() else exponent
                return np.power(self.value(node.base), exponent)
            case Function():
                return FUNCTIONS[node.name](self.value(node.operand))
        return self.leaf(node)

    def _fold(self, parts: tuple[Expression, ...], operate: np.ufunc) -> Any:
        total = self.value(parts[0])
        for part in parts[1:]:
            other = self.value(part)
            shape = np.broadcast_shapes(np.shape(total), np.shape(other))
            if shape == np.shape(total) and isinstance(total, np.ndarray):
                operate(total, other, out=total)
            elif shape == np.shape(other) and isinstance(other, np.ndarray):
                total = operate(total, other, out=other)
            else:
                total = operate(total, other)
        return total

    def leaf(self, node: Any) -> np.ndarray:
        if isinstance(node, Diagonal | Point):
            side = self.pairs.side(node)[self.at[node.side]]
            return side[:, None].copy() if node.side == 0 else side[None, :].copy()
        self.left[node] -= 1
        found = self.shared.pop(node, None)
        if found is None:
            found = self._compute(node)
        if self.left[node] > 0:
            self.shared[node] = found
            return found.copy()
        return found

    def _compute(self, node: Expression) -> np.ndarray:
        F, G = self.pairs.prepared(node)
        F, G = take_rows(F, self.at[0]), take_rows(G, self.at[1])
        if isinstance(node, Tangent):
            tangent = node.statistic.kind.tangent
            assert tangent is not None
            return tangent(F[:, 0], G[:, 0], F[:, 1], G[:, 1])
        assert isinstance(node, Statistic)
        return node.kind.block(F, G)


def _exp(a: Any) -> Any:
    return np.exp(a, out=a) if isinstance(a, np.ndarray) else np.exp(a)


FUNCTIONS = {
    "exp": _exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "log": np.log,
    "inverse_sqrt": inverse_sqrt,
}


def _pair_nodes(e: Expression) -> Any:
    """Every node that is evaluated over pairs: all but what stands under a diagonal."""
    yield e
    if not isinstance(e, Diagonal):
        for child in e.children():
            yield from _pair_nodes(child)


def _per_point(function: Any, points: Any) -> np.ndarray:
    values = np.asarray(function(points), dtype=np.float64)
    if values.shape != (n_rows(points),):
        raise ValueError(
            f"the function given to rescale returned shape {values.shape} for "
            f"{n_rows(points)} points; expected one number per point, shape ({n_rows(points)},)"
        )
    return values


def _same_width(F: Any, G: Any) -> None:
    if getattr(F, "ndim", 0) == 2 and F.shape[1] != G.shape[1]:
        raise ValueError(
            f"X has {F.shape[1]} features but Y has {G.shape[1]}; both need the same columns"
        )


def _mirror(square: np.ndarray) -> None:
    """Copy the upper triangle to the lower, so that the matrix is symmetric to the last bit."""
    lower_part = np.tril_indices_from(square, -1)
    square[lower_part] = square.T[lower_part]


def _count(chosen: Any, n: int) -> int:
    return len(range(*chosen.indices(n))) if isinstance(chosen, slice) else len(chosen)
