"""Points as an expression sees them: checked and prepared once, then asked for its leaves."""

from __future__ import annotations

import math
from copy import copy
from functools import lru_cache
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.arrays import (
    FLOATS,
    as_dense,
    backend,
    n_rows,
    namespace,
    row_major,
    take_rows,
    to_float64,
)
from mercer.core import Kind, Leaf
from mercer.expressions.arithmetic import evaluate
from mercer.expressions.derivative import derivative
from mercer.expressions.lowering import Lowering
from mercer.expressions.nodes import ONE, Expression, Point, Statistic, Tangent
from mercer.expressions.simplification import lower
from mercer.expressions.views import Map, View

# From this many features on, dot products are left to BLAS, which is as fast as the core's own
# tiles there (measured with 500 to 4000 features) and needs no packed copy of the points.
WIDE = 4096


class LeafValues:
    """An expression and two sets of points, with the values that its leaves have at them.

    Inputs are checked, mapped and prepared once. Statistics that the core computes itself are left
    to it; others (of sparse or structured points, or dot products of very many features, which BLAS
    does best) are computed block by block and passed on.

    Parameters
    ----------
    e : Expression
    X : n points
    Y : m points, or None for X itself
    """

    def __init__(self, e: Expression, X: Any, Y: Any = None):
        self.formula, self._general = e, _made_ready(e)
        self._take(X, Y)

    def _take(self, X: Any, Y: Any) -> None:
        """Look at the points."""
        self.expression, self.lowering = self._general
        self.symmetric = Y is None
        self.is_kernel = True  # and not its derivative, which need not be finite
        self.raw = (X, X if Y is None else Y)
        self._seen: dict[tuple[View, int], Any] = {}
        self._prepared: dict[Expression, tuple[Any, Any]] = {}
        self._sides: dict[tuple[Expression, int], np.ndarray] = {}
        self._per_point: dict[Point, np.ndarray] = {}
        self._leaves: dict[Expression, Leaf | None] = {}
        self._whole: Any = None  # all pairs, as the core has them
        self.dtype = self._check()
        if self._in_units_of_one():
            self.expression, self.lowering = _made_ready_without_units(self.formula)
        self.shape = (n_rows(X), n_rows(self.raw[1]))
        if self.dtype == np.float32 and not self.lowering.fits_single:
            self.dtype = np.dtype(np.float64)

    def at(self, X: Any, Y: Any = None) -> Self:
        """The same expression, which is not made ready again, over other points."""
        other = copy(self)
        other._take(X, Y)
        return other

    def like(self, e: Expression, dtype: Any = None) -> Self:
        """Another expression over the same points, which are not looked at again.

        The expression's statistics are some of this one's; ``dtype`` is that of the arithmetic.
        """
        other = copy(self)
        other.is_kernel = self.is_kernel and e == self.formula
        other.formula = e
        other.expression, other.lowering = other._general = _ready(e)
        other.dtype = self.dtype if dtype is None else np.dtype(dtype)
        same = other.dtype == self.dtype
        other._sides = dict(self._sides) if same else {}
        other._leaves = dict(self._leaves) if same else {}
        other._whole = None
        return other

    def double(self, rows: slice, columns: slice) -> Self:
        """The expression over some of the points, float32 numbers made float64."""
        X, Y = to_float64(take_rows(self.raw[0], rows)), to_float64(take_rows(self.raw[1], columns))
        pairs = type(self)(self.formula, X, None if self.symmetric and rows == columns else Y)
        return pairs.like(self.formula, np.float64)

    def derivative(self, path: str, index: int | None = None) -> Self:
        """∂/∂θ over the same points, for θ a hyperparameter, or an entry of a vector of them.

        Parameters
        ----------
        path : str
            Where the hyperparameter is in the kernel: ``gamma``, ``left__scales``.
        index : int or None
            Which entry of a vector; None moves all of them at once.
        """
        sizes = self.formula.parameters()
        if path not in sizes:
            known = ", ".join(sizes) or "none"
            raise ValueError(f"{path!r} is not a hyperparameter here; expected one of: {known}")
        size = sizes[path]
        if index is not None and (size is None or not 0 <= index < size):
            has = "is one number" if size is None else f"has {size} entries"
            raise ValueError(f"index={index} of {path!r}, which {has}")
        return self.like(derivative(self.formula, path, index))

    def part(self, index: np.ndarray) -> Self:
        """The same expression over some of the points, where both sides are the same."""
        taken: dict[int, Any] = {}  # what serves twice is copied once

        def take(points: Any) -> Any:
            if points is not None and id(points) not in taken:
                taken[id(points)] = take_rows(points, index)
            return taken.get(id(points))

        small = copy(self)
        small.shape = (len(index), len(index))
        small.raw = (take(self.raw[0]), take(self.raw[1]))
        small._seen = {key: take(points) for key, points in self._seen.items()}
        small._prepared = {node: (take(F), take(G)) for node, (F, G) in self._prepared.items()}
        small._per_point = {}
        small._sides = {key: take(values) for key, values in self._sides.items()}
        small._leaves = {
            node: None if leaf is None else Leaf(leaf.kind, *map(take, leaf[1:]))
            for node, leaf in self._leaves.items()
        }
        small._whole = None
        return small

    def _check(self) -> np.dtype:
        """Look at the inputs through every view, which checks them; their common float dtype."""
        kinds = []
        for node in self.expression.walk():
            if isinstance(node, Statistic):
                F, G = self.points(node.view, 0), self.points(node.view, 1)
                same_width(F, G)
                kinds += [p.dtype for p in (F, G) if getattr(p, "dtype", object) in FLOATS]
        return self._wide_enough(kinds)

    def _in_units_of_one(self) -> bool:
        """Whether the formula has units of points, and they are one for all of these."""
        units = [point for point in self.lowering.points if not point.is_users]
        return bool(units) and all(bool((self._at_points(unit) == 1).all()) for unit in units)

    def _wide_enough(self, kinds: list[np.dtype]) -> np.dtype:
        """What float dtypes have in common; double, where squares are beyond float32's range."""
        dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
        if dtype == np.float32 and not self._squares_fit():
            self._seen = {key: to_float64(points) for key, points in self._seen.items()}
            return np.dtype(np.float64)
        return dtype

    def _squares_fit(self) -> bool:
        return all(map(_squares_fit, self._seen.values()))

    @property
    def fits_single(self) -> bool:
        """Whether its numbers are well within the range of float32."""
        return self.lowering.fits_single and self._squares_fit()

    def points(self, view: View, side: int) -> Any:
        """The points of one side as a view shows them."""
        side = 0 if self.symmetric else side
        if (view, side) not in self._seen:
            self._seen[view, side] = view.apply(self.raw[side], "XY"[side])
        return self._seen[view, side]

    def prepared(self, node: Statistic) -> tuple[Any, Any]:
        """Both sets of points, ready for the blocks of one statistic."""
        if node not in self._prepared:
            F, G = self.points(node.view, 0), self.points(node.view, 1)
            shared = any(
                self.points(s.view, 1) is G
                for s in self.lowering.leaves
                if isinstance(s, Statistic) and s != node
            )
            prepare = node.kind.prepare_shared if shared else None
            self._prepared[node] = (prepare or node.kind.prepare)(F, G)
        return self._prepared[node]

    def side(self, e: Expression, side: int) -> np.ndarray:
        """A formula in one point, at every point of one side: shape (n,) or (m,)."""
        if (e, side) not in self._sides:
            values = np.broadcast_to(evaluate(e, self._at_points), (self.shape[side],))
            self._sides[e, side] = row_major(values, dtype=self.dtype)
        return self._sides[e, side]

    def _at_points(self, node: Any) -> np.ndarray:
        if isinstance(node, Point):
            key = Point(node.function, node.view, 0 if self.symmetric else node.side)
            if key not in self._per_point:
                self._per_point[key] = _per_point(key.function, self.points(key.view, key.side))
            return self._per_point[key]
        leaf = node.operand
        if isinstance(leaf, Statistic):
            points = self.points(leaf.view, node.side)
            # The other side may be in double.
            return leaf.kind.diagonal(to_float64(points) if self.dtype == np.float64 else points)
        points = as_dense(self.points(leaf.statistic.view, node.side))
        change = self.change(leaf, node.side)
        if leaf.statistic.kind.tangents is not None:
            return leaf.statistic.kind.tangents(points, change, points, change)
        return 2 * np.sum(points * change, axis=1)  # of the dot product

    def change(self, leaf: Tangent, side: int) -> np.ndarray:
        """How the points of one side move with the hyperparameter."""
        raw = self.raw[0 if self.symmetric else side]
        return as_dense(leaf.statistic.view.tangent(raw, leaf.path, leaf.index, "XY"[side]))

    # Leaves: for the core to compute, or computed here.

    def _leaf(self, node: Statistic | Tangent) -> Leaf | None:
        """All points of a leaf that the core computes itself; None where it does not."""
        if node not in self._leaves:
            if isinstance(node, Tangent):
                self._leaves[node] = self._tangent_leaf(node)
            else:
                self._leaves[node] = node.kind.leaf(*self.prepared(node), self.dtype)
        return self._leaves[node]

    def _tangent_leaf(self, node: Tangent) -> Leaf | None:
        kind = node.statistic.kind.tangent
        if kind is None:
            return None
        F, G = (as_dense(self.points(node.statistic.view, side)) for side in (0, 1))
        dF, dG = self.change(node, 0), self.change(node, 1)
        xp = namespace(F)
        if kind is Kind.DOT:  # dx·z + x·dz
            left, right = xp.hstack([dF, F]), xp.hstack([G, dG])
        else:
            moving = xp.argwhere((dF != 0).any(0) | (dG != 0).any(0))[:, 0]
            left, right = (
                xp.stack([p[:, moving], dp[:, moving]], 2).reshape(len(p), -1)
                for p, dp in ((F, dF), (G, dG))
            )
        X, Y = (row_major(a, self.dtype) for a in (left, right))
        return Leaf(kind, X, Y, X, Y)

    def _is_wide(self, node: Statistic | Tangent) -> bool:
        leaf = self._leaf(node)
        if leaf is None:
            return True
        return leaf.kind in (Kind.DOT, Kind.SQDIST) and leaf.X.shape[1] >= WIDE

    @property
    def native(self) -> bool:
        """Whether the core computes all of the expression: values are cheap to recompute."""
        return not any(self._is_wide(node) for node in self.lowering.leaves)

    def _given(self, node: Statistic | Tangent, rows: Any, columns: Any) -> Leaf:
        """A leaf with its block computed here: by BLAS, or by the statistic's own routine."""
        leaf = self._leaf(node)
        if leaf is not None:
            part = _part(leaf, rows, columns)
            return part._replace(block=row_major(part.X @ part.Y.T))
        if isinstance(node, Tangent):
            block = self._tangent_block(node, rows, columns)
        else:
            F, G = self.prepared(node)
            left = take_rows(F, rows)
            same = self.symmetric and isinstance(rows, slice) and rows == columns
            block = node.kind.block(left, left if same else take_rows(G, columns))
        return given_leaf(row_major(block, dtype=self.dtype))

    def _tangent_block(self, node: Tangent, rows: Any, columns: Any) -> np.ndarray:
        view, tangents = node.statistic.view, node.statistic.kind.tangents
        assert tangents is not None, f"the derivative of {node.statistic} is not known"
        F, G = (as_dense(self.points(view, side)) for side in (0, 1))
        dF, dG = (self.change(node, side) for side in (0, 1))
        left, right = (A[rows][:, None] for A in (F, dF)), (A[columns] for A in (G, dG))
        return tangents(*left, *right)

    def _some(self, node: Statistic | Tangent, rows: Any, columns: Any) -> Leaf:
        """Some rows and columns of a leaf."""
        if self._is_wide(node):
            return self._given(node, rows, columns)
        return _part(self._leaf(node), rows, columns)


def _made_ready(e: Expression) -> tuple[Expression, Lowering]:
    return _remembered(e) if _holds_no_data(e) else _ready(e)


def _made_ready_without_units(e: Expression) -> tuple[Expression, Lowering]:
    return _remembered_without_units(e) if _holds_no_data(e) else _ready(_without_units(e))


def _without_units(e: Expression) -> Expression:
    """A formula for points whose units are all one."""
    if isinstance(e, Point) and not e.is_users:
        return ONE
    return e.rebuild(tuple(map(_without_units, e.children())))


def _ready(e: Expression) -> tuple[Expression, Lowering]:
    """An expression lowered, and the program of it."""
    lowered = lower(e)
    return lowered, Lowering(lowered)


_remembered = lru_cache(maxsize=32)(_ready)
_remembered_without_units = lru_cache(maxsize=32)(lambda e: _ready(_without_units(e)))


def _holds_no_data(e: Expression) -> bool:
    """Whether a formula is of numbers alone, without functions or statistics that hold objects."""
    return not any(
        (isinstance(node, Point) and node.is_users)
        or (
            isinstance(node, Statistic)
            and (node.kind.native is None or any(isinstance(s, Map) for s in node.view.steps))
        )
        for node in e.walk()
    )


def given_leaf(block: np.ndarray) -> Leaf:
    """A leaf whose values were computed outside the core."""
    X, Y = (np.zeros((k, 0), dtype=block.dtype) for k in block.shape)
    return Leaf(Kind.GIVEN, X, Y, X, Y, block=block)


def _part(leaf: Leaf | None, rows: Any, columns: Any) -> Leaf:
    """A leaf restricted to some rows and columns."""
    assert leaf is not None

    def pick(array: np.ndarray | None, chosen: Any) -> Any:
        return None if array is None else row_major(array[chosen])

    return Leaf(
        leaf.kind,
        pick(leaf.X, rows),
        pick(leaf.Y, columns),
        pick(leaf.X_given, rows),
        pick(leaf.Y_given, columns),
        pick(leaf.X_norms, rows),
        pick(leaf.Y_norms, columns),
    )


def _per_point(function: Any, points: Any) -> np.ndarray:
    values = np.asarray(function(points), dtype=np.float64)
    if values.shape != (n_rows(points),):
        raise ValueError(
            f"the function given to rescale returned shape {values.shape} for "
            f"{n_rows(points)} points; expected one number per point, shape ({n_rows(points)},)"
        )
    return values


def _squares_fit(points: Any) -> bool:
    """Whether squared distances of points are well within the range of float32."""
    if str(getattr(points, "dtype", None)).removeprefix("torch.") not in ("float32", "float64"):
        return True
    numbers = points.data if sp.issparse(points) else points
    total, size, info = (
        backend(numbers).sum_of_squares(numbers),
        math.prod(numbers.shape),
        np.finfo(np.float32),
    )
    if total < size * float(info.tiny / info.eps):
        return not bool(numbers.any())
    return total < float(info.max / 4)  # ‖x - z‖² <= 2 (‖x‖² + ‖z‖²)


def same_width(F: Any, G: Any) -> None:
    """Raise a ValueError where two matrices of points have different numbers of features."""
    if getattr(F, "ndim", 0) == 2 and F.shape[1] != G.shape[1]:
        raise ValueError(
            f"X has {F.shape[1]} features but Y has {G.shape[1]}; both need the same columns"
        )
