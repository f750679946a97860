"""Expressions over pairs of points that are torch tensors, computed where the points are."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any, Self

import numpy as np

from mercer.arrays import (
    Later,
    beside,
    dtype_of,
    is_tensor,
    refuse_matrix,
    rows_in_order,
    take_rows,
)
from mercer.core import Leaf
from mercer.expressions.arithmetic import evaluate
from mercer.expressions.interpreter import Pairs
from mercer.expressions.nodes import Diagonal, Expression, Point, Statistic, Tangent
from mercer.expressions.points import same_width
from mercer.expressions.tensor_tiles import Tiles
from mercer.expressions.triton_tiles import PRECISIONS, TritonTiles

torch: Any = Later("torch")


def over(e: Expression, X: Any, Y: Any = None) -> Pairs:
    """An expression over all pairs of X and Y, evaluated by the core or, of tensors, by torch.

    Parameters
    ----------
    e : Expression
    X : n points
    Y : m points, or None for X itself
    """
    return (TensorPairs if is_tensor(X) or is_tensor(Y) else Pairs)(e, X, Y)


class TensorPairs(Pairs):
    """An expression over all pairs of two tensors of points: blocks, products and the diagonal.

    Triton kernels on a device that has them, torch's own operations elsewhere. What is returned
    are tensors on the points' device; sums over many pairs are in float64.

    Parameters
    ----------
    e : Expression
    X : (n, d) tensor
    Y : (m, d) tensor on the same device, or None for X itself
    precision : "fp16x3", "tf32x3" or "tf32", default="fp16x3"
        How dot products of float32 points are formed where Triton does: "fp16x3" has float32's
        accuracy, "tf32x3" too and takes points of any size (it stands in for the first where
        those are far apart), "tf32" has ten bits of it and is fastest with very many features.
    """

    def __init__(self, e: Expression, X: Any, Y: Any = None, precision: str = "fp16x3"):
        if precision not in PRECISIONS:
            raise ValueError(f"precision={precision!r}; expected one of {PRECISIONS}")
        self.precision = precision
        super().__init__(e, X, Y)

    def _take(self, X: Any, Y: Any) -> None:
        places = [_place(P) for P in (X, Y) if P is not None]
        if len(set(places)) > 1:
            raise TypeError(f"X is {places[0]} and Y is {places[1]}; move both to one device")
        self.device = X.device
        self._tiles: dict[Any, Any] = {}
        super()._take(X, Y)

    def like(self, e: Expression, dtype: Any = None) -> Self:
        other = super().like(e, dtype)
        other._tiles = {}
        return other

    def _check(self) -> np.dtype:
        kinds = []
        for node in self.expression.walk():
            if isinstance(node, Statistic):
                F, G = self.points(node.view, 0), self.points(node.view, 1)
                if not is_tensor(F) or not is_tensor(G) or node.kind.native is None:
                    raise TypeError(
                        f"X is a tensor, and the kernel's {node.kind} is not of vectors that stay "
                        "tensors; pass X.cpu().numpy()"
                    )
                same_width(F, G)
                kinds += [dtype_of(F), dtype_of(G)]
        return self._wide_enough(kinds)

    def side(self, e: Expression, side: int) -> Any:
        if (e, side) not in self._sides:
            # In double, for what is computed once for each point.
            values = evaluate(e, self._at_points)
            if not is_tensor(values):
                shape, kind = (self.shape[side],), torch.float64
                values = torch.full(shape, float(values), dtype=kind, device=self.device)
            self._sides[e, side] = rows_in_order(values, self.dtype)
        return self._sides[e, side]

    def _at_points(self, node: Any) -> Any:
        points = self.points(self._view(node), node.side)
        points = points.to(torch.float64) if points.is_floating_point() else points
        if isinstance(node, Point):
            return _per_point(node.function, points)
        leaf = node.operand
        if isinstance(leaf, Statistic):
            return leaf.kind.diagonal(points)
        if leaf.statistic.kind.tangents is not None:
            raise TypeError(f"the derivative of {leaf.statistic} is not known for tensors")
        return 2 * torch.sum(points * self.change(leaf, node.side), dim=1)  # of the dot product

    @staticmethod
    def _view(node: Any) -> Any:
        if isinstance(node, Point):
            return node.view
        assert isinstance(node, Diagonal)
        leaf = node.operand
        return leaf.view if isinstance(leaf, Statistic) else leaf.statistic.view

    def _tangent_leaf(self, node: Tangent) -> Leaf:
        found = super()._tangent_leaf(node)
        if found is None:
            raise TypeError(f"the derivative of {node.statistic} is not known for tensors")
        return found

    @property
    def native(self) -> bool:
        return True

    # What is asked for.

    def tiles(self, rows: Any = None, columns: Any = None, logarithmic: bool = False) -> Any:
        """What computes the values of some rows and columns, by default all of them.

        ``logarithmic`` where it is their exponentials that count.
        """
        if logarithmic not in self._tiles:
            self._tiles[logarithmic] = self._all_tiles(logarithmic)
        whole = self._tiles[logarithmic]
        return whole if rows is None and columns is None else whole.part(rows, columns)

    def _all_tiles(self, logarithmic: bool) -> Any:
        leaves: list[Any] = [self._leaf(node) for node in self.lowering.leaves]
        row_terms = [self.side(t, 0) for t in self.lowering.row_terms]
        column_terms = [self.side(t, 1) for t in self.lowering.column_terms]
        dtype = getattr(torch, self.dtype.name)
        arguments = (self.lowering.program, leaves, row_terms, column_terms, *self.shape)
        how = (self.device, dtype, self.precision, logarithmic)
        if not by_triton(self.device.type):
            return Tiles(*arguments, *how)
        rows = self.at(self.raw[0]) if column_terms and not self.symmetric else self
        return TritonTiles(*arguments, *how, [rows.side(t, 1) for t in self.lowering.column_terms])

    def block(self, rows: Any, columns: Any, out: Any = None) -> Any:
        n, m = self.shape
        tiles = self.tiles(_positions(rows, n), _positions(columns, m))
        refuse_matrix(tiles.n, tiles.m, self.dtype, self.raw[0])
        found = tiles.gram(False, None)
        if out is None:
            return found
        out[:] = found
        return out

    def gram(self) -> Any:
        refuse_matrix(*self.shape, self.dtype, self.raw[0])
        return self.tiles().gram(self.symmetric, self.diagonal() if self.symmetric else None)

    def products(self, V: Any, U: Any) -> tuple[Any, Any]:
        V, U = (beside(A, self._some_points()) for A in (V, U))
        out = V.new_zeros((self.shape[0], 0), dtype=torch.float64)
        side = V.new_zeros((self.shape[1], 0), dtype=torch.float64)
        if V.shape[1]:
            out = self.tiles().product(V)
        if U.shape[1]:
            side = self.tiles().transposed_product(U)
        return out, side

    def _some_points(self) -> Any:
        return torch.empty(0, dtype=getattr(torch, self.dtype.name), device=self.device)

    def normal_product(self, V: Any, targets: Any, weight: Any) -> None:
        return None

    def log_sum_exp(self, log_weight: Any = None) -> Any:
        if log_weight is None:
            log_weight = torch.zeros(self.shape[1], device=self.device)
        log_weight = beside(log_weight, self._some_points())
        if tuple(log_weight.shape) != self.shape[1:]:
            raise ValueError(
                f"log_weight has shape {tuple(log_weight.shape)}; expected {self.shape[1:]}"
            )
        return self.tiles(logarithmic=True).log_sum_exp(log_weight)

    def combination(self, columns: Any, V: Any) -> Any:
        V = beside(V, self._some_points())
        return self.tiles(None, _positions(columns, self.shape[1])).product(V)

    def part(self, index: Any) -> TensorPairs:
        points = take_rows(self.raw[0], _positions(index, self.shape[0]))
        return TensorPairs(self.formula, points, precision=self.precision).like(
            self.formula, self.dtype
        )

    def diagonal(self) -> Any:
        values = self.side(self.lowering.diagonal, 0).clone()
        self._check_values(values, "k(x, x)")
        return values


@cache
def by_triton(device: str) -> bool:
    """Whether Triton kernels run on this kind of device."""
    return device == "cuda" and find_spec("triton") is not None


def _place(X: Any) -> str:
    return f"a tensor on {X.device}" if is_tensor(X) else f"a {type(X).__name__}"


def _per_point(function: Any, points: Any) -> Any:
    values = function(points)
    if not is_tensor(values) or tuple(values.shape) != (len(points),):
        shape = tuple(getattr(values, "shape", ()))
        raise ValueError(
            f"the function given to rescale returned {type(values).__name__} of shape {shape} for "
            f"a tensor of {len(points)} points; expected a tensor, one number per point"
        )
    return values


def _positions(chosen: Any, n: int) -> Any:
    """A slice, a mask or positions as positions from 0 to n - 1; None for everything."""
    if isinstance(chosen, slice):
        return None if chosen == slice(None) else torch.arange(*chosen.indices(n))
    if not is_tensor(chosen):
        chosen = torch.as_tensor(np.asarray(chosen, dtype=None if np.size(chosen) else np.int64))
    # Of what is on a device already, no one waits to see it.
    if chosen.device.type == "cpu" and not _within(chosen, n):
        raise IndexError(f"positions that are not those of {n} points: {chosen}")
    if chosen.dtype == torch.bool:
        return torch.nonzero(chosen)[:, 0]
    return torch.where(chosen < 0, chosen + n, chosen)


def _within(chosen: Any, n: int) -> bool:
    if chosen.dtype == torch.bool:
        return len(chosen) == n
    return not chosen.numel() or -n <= int(chosen.min()) <= int(chosen.max()) < n
