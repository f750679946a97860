"""Expressions over pairs of points that are torch tensors, computed where the points are."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer.arrays import LazyModule, backend, dtype_of, like, refuse_matrix, row_major, take_rows
from mercer.arrays.libraries import is_recorded
from mercer.arrays.torch_state import computing, is_transforming, refuse_transforms
from mercer.cached import cached_property
from mercer.core import Leaf
from mercer.expressions.arithmetic import evaluate
from mercer.expressions.derivative import derivative
from mercer.expressions.interpreter import PairMatrix
from mercer.expressions.nodes import (
    ZERO,
    Diagonal,
    Expression,
    Parameter,
    Point,
    Statistic,
    Tangent,
)
from mercer.expressions.points import same_width
from mercer.expressions.views import Map

if TYPE_CHECKING:
    from mercer.core.torch.slopes import Layout, Operands

torch: Any = LazyModule("torch")
torch_slopes: Any = LazyModule("mercer.core.torch.slopes")
torch_tiles: Any = LazyModule("mercer.core.torch.tiles")
triton_tiles: Any = LazyModule("mercer.core.triton.tiles")


def over(
    e: Expression, X: Any, Y: Any = None, parameters: Mapping[str, Any] | None = None
) -> PairMatrix:
    """An expression over all pairs of X and Y, evaluated by the core or, of tensors, by torch.

    Parameters
    ----------
    e : Expression
    X : n points
    Y : m points, or None for X itself
    parameters : as of `TensorPairMatrix`
    """
    if "torch" in (backend(X).executor, backend(Y).executor):
        return TensorPairMatrix(e, X, Y, parameters=parameters)
    refuse_tensors(parameters or {}, X)
    return PairMatrix(e, X, Y)


def refuse_tensors(parameters: Mapping[str, Any], X: Any) -> None:
    """Raise a TypeError where hyperparameters require a gradient that arrays do not give."""
    for path in parameters:
        raise TypeError(
            f"{path} is a tensor that requires a gradient, and X is {_place(X)}; pass X as a "
            f"tensor, or {path} as a number"
        )


class TensorPairMatrix(PairMatrix):
    """An expression over all pairs of two tensors of points: blocks, products and the diagonal.

    Triton kernels on a device that has them, otherwise the operations of torch. What is returned
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
    parameters : dict of tensors by the path of the hyperparameter they are the value of, optional
        Those by which torch is to find derivatives, as it does by points that require a gradient
        and by what functions of the points close over.
    """

    def __init__(
        self,
        e: Expression,
        X: Any,
        Y: Any = None,
        precision: str = "fp16x3",
        parameters: Mapping[str, Any] | None = None,
    ):
        if precision not in triton_tiles.PRECISIONS:
            raise ValueError(f"precision={precision!r}; expected one of {triton_tiles.PRECISIONS}")
        self.precision, self.parameters = precision, dict(parameters or {})
        self._recorded = False
        for path in self.parameters.keys() - e.parameters().keys():
            raise TypeError(
                f"{path} is a tensor that requires a gradient, and the kernel has no derivative by "
                "it; pass a number"
            )
        super().__init__(e, X, Y)

    def _take(self, X: Any, Y: Any) -> None:
        places = [_place(P) for P in (X, Y) if P is not None]
        if len(set(places)) > 1:
            raise TypeError(f"X is {places[0]} and Y is {places[1]}; move both to one device")
        for P in (X, Y):
            refuse_transforms(P)
        self.device = X.device
        self._tiles: dict[Any, Any] = {}
        super()._take(X, Y)

    def like(self, e: Expression, dtype: Any = None) -> Self:
        other = super().like(e, dtype)
        other._tiles = {}
        return other

    def __getstate__(self) -> dict[str, Any]:
        # Without what is compiled, and what was computed once from the points.
        return {**vars(self), "_tiles": {}, "_sides": {}, "_leaves": {}, "_prepared": {}}

    # What torch is to differentiate.

    def recorded(self) -> Self | None:
        """The same with what torch records of the points; None where it has nothing to record.

        Made anew for each result, so that each may be differentiated once.
        """
        if not torch.is_grad_enabled():
            return None
        if self.parameters or any(P.requires_grad for P in self.raw) or self._functions_record:
            return self._as_recorded()
        return None

    def _as_recorded(self) -> Self:
        other = copy(self)
        other._seen, other._prepared, other._sides, other._leaves = {}, {}, {}, {}
        other._tiles, other._recorded = {}, True
        return other

    @cached_property
    def _functions_record(self) -> bool:
        """Whether functions of the user's hold tensors that require a gradient."""
        other = self._as_recorded()
        for node in self.expression.walk():
            if isinstance(node, Statistic) and any(isinstance(s, Map) for s in node.view.steps):
                found = [other.points(node.view, side) for side in (0, 1)]
            elif isinstance(node, Point):
                found = [other.side(node, node.side)]
            else:
                continue
            if any(getattr(A, "requires_grad", False) for A in found):
                return True
        return False

    def points(self, view: Any, side: int) -> Any:
        side = 0 if self.symmetric else side
        if (view, side) not in self._seen:
            name, tensors = "XY"[side], self.parameters if self._recorded else {}
            with torch.set_grad_enabled(self._recorded):
                found = view.apply(self.raw[side], name, tensors)
            if isinstance(found, torch.Tensor) and not self._recorded:
                found = found.detach()
            elif self._recorded and self.dtype == np.float64:
                found = found.to(torch.float64)
            self._seen[view, side] = found
        return self._seen[view, side]

    def _layout(self, operands: Operands, rows: Any = None, columns: Any = None) -> Layout:
        """The program over some rows and columns, by position, and the places of its operands."""
        leaves: list[Any] = [self._leaf(node) for node in self.lowering.leaves]
        row_terms = [self.side(t, 0) for t in self.lowering.row_terms]
        column_terms = [self.side(t, 1) for t in self.lowering.column_terms]
        triton, near = by_triton(self.device.type), []
        if triton and column_terms:
            there = self if self.symmetric else self.at(self.raw[0])
            near = [there.side(t, 1).detach() for t in self.lowering.column_terms]
        return torch_slopes.Layout(
            self.lowering.program,
            [operands.leaf(torch_tiles.at(leaf, rows, columns)) for leaf in leaves],
            operands.places([torch_tiles.some(term, rows) for term in row_terms]),
            operands.places([torch_tiles.some(term, columns) for term in column_terms]),
            operands.places([torch_tiles.some(term, rows) for term in near]),
            self.shape[0] if rows is None else len(rows),
            self.shape[1] if columns is None else len(columns),
            self.device,
            getattr(torch, self.dtype.name),
            self.precision,
            triton,
        )

    def _differentiable(
        self, task: str, first: Any, rows: Any = None, columns: Any = None, **settings: Any
    ) -> Any:
        """A result that torch can differentiate; None where it has nothing to record.

        Parameters
        ----------
        task : str
            One of the tasks of `mercer.core.torch.autograd`, with its settings.
        first : tensor
        rows, columns : positions, or None for all
        """
        for tensor in (first, *self.parameters.values()):
            refuse_transforms(tensor)
        live, wrapped = self.recorded(), is_transforming()
        if live is None and not wrapped and not is_recorded(first):
            return None
        operands, pairs = torch_slopes.Operands(), live or self
        layout = pairs._layout(operands, rows, columns)
        if live is None and not wrapped and rows is None and columns is None:
            layout.ready = self.tiles
        slopes = {} if live is None else live._slopes()
        by = [slope._layout(operands, rows, columns) for slope in slopes.values()]
        given = [self.parameters[path] for path in slopes]
        made = getattr(_autograd(), task)(layout, len(operands.tensors), by, **settings)
        return _autograd().run(made, first, operands.tensors, given)

    def _slopes(self) -> dict[str, Self]:
        """The derivative by each hyperparameter of the formula that is a tensor.

        Those of views, such as scales, take part in what torch records of the points.
        """
        own = {node.path for node in self.formula.walk() if isinstance(node, Parameter)}
        found = {path: derivative(self.formula, path) for path in self.parameters if path in own}
        return {path: self.like(e) for path, e in found.items() if e != ZERO}

    def _check(self) -> np.dtype:
        kinds = []
        for node in self.expression.walk():
            if isinstance(node, Statistic):
                F, G = self.points(node.view, 0), self.points(node.view, 1)
                tensors = isinstance(F, torch.Tensor) and isinstance(G, torch.Tensor)
                if not tensors or node.kind.native is None:
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
            with torch.set_grad_enabled(self._recorded):
                values = evaluate(e, self._at_points)
            if not isinstance(values, torch.Tensor):
                shape, kind = (self.shape[side],), torch.float64
                values = torch.full(shape, float(values), dtype=kind, device=self.device)
            values = values if self._recorded else values.detach()
            self._sides[e, side] = row_major(values, self.dtype)
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
            operands = torch_slopes.Operands()
            layout = self._layout(operands)
            self._tiles[logarithmic] = layout.tiles(operands.tensors, logarithmic)
        whole = self._tiles[logarithmic]
        return whole if rows is None and columns is None else whole.part(rows, columns)

    @computing
    def block(self, rows: Any, columns: Any, out: Any = None) -> Any:
        rows, columns = positions(rows, self.shape[0]), positions(columns, self.shape[1])
        n = self.shape[0] if rows is None else len(rows)
        m = self.shape[1] if columns is None else len(columns)
        refuse_matrix(n, m, self.dtype, self.raw[0])
        found = self._differentiable("Matrix", self._some_points(), rows, columns)
        if found is None:
            found = self.tiles(rows, columns).gram(False, None)
        if out is None:
            return found
        out[:] = found
        return out

    @computing
    def gram(self) -> Any:
        refuse_matrix(*self.shape, self.dtype, self.raw[0])
        own = self._diagonal().detach() if self.symmetric else self._some_points()
        found = self._differentiable("Matrix", own, symmetric=self.symmetric)
        return self.tiles().gram(self.symmetric, own) if found is None else found

    @computing
    def products(self, V: Any, U: Any) -> tuple[Any, Any]:
        V, U = (like(A, self._some_points()) for A in (V, U))
        out = V.new_zeros((self.shape[0], 0), dtype=torch.float64)
        side = V.new_zeros((self.shape[1], 0), dtype=torch.float64)
        if V.shape[1]:
            found = self._differentiable("Product", V)
            out = self.tiles().product(V) if found is None else found
        if U.shape[1]:
            found = self._differentiable("Product", U, transposed=True)
            side = self.tiles().transposed_product(U) if found is None else found
        return out, side

    def _some_points(self) -> Any:
        return torch.empty(0, dtype=getattr(torch, self.dtype.name), device=self.device)

    def normal_product(self, V: Any, targets: Any, weight: Any) -> None:
        return None

    @computing
    def log_sum_exp(self, log_weight: Any = None) -> Any:
        if log_weight is None:
            log_weight = torch.zeros(self.shape[1], device=self.device)
        log_weight = like(log_weight, self._some_points())
        if tuple(log_weight.shape) != self.shape[1:]:
            raise ValueError(
                f"log_weight has shape {tuple(log_weight.shape)}; expected {self.shape[1:]}"
            )
        found = self._differentiable("LogSumExp", log_weight)
        if found is None:
            found = self.tiles(logarithmic=True).log_sum_exp(log_weight)
        return found

    @computing
    def combination(self, columns: Any, V: Any) -> Any:
        V = like(V, self._some_points())
        columns = positions(columns, self.shape[1])
        found = self._differentiable("Product", V, None, columns)
        return self.tiles(None, columns).product(V) if found is None else found

    def part(self, index: Any) -> TensorPairMatrix:
        points = take_rows(self.raw[0], positions(index, self.shape[0]))
        return TensorPairMatrix(
            self.formula, points, precision=self.precision, parameters=self.parameters
        ).like(self.formula, self.dtype)

    @computing
    def diagonal(self) -> Any:
        own, live = self._diagonal(), self.recorded()
        self._check_values(own, "k(x, x)")
        if live is None:
            return own.clone()
        found = 1.0 * live._diagonal()
        for path, slope in live._slopes().items():
            given = like(self.parameters[path], found)
            found = found + slope._diagonal().detach() * (given - given.detach())
        for P in self.raw:
            if P.requires_grad and not found.requires_grad:  # the same everywhere
                found = found + P[:0].sum()
        return found

    def _diagonal(self) -> Any:
        return self.side(self.lowering.diagonal, 0)


def _autograd() -> Any:
    """What needs torch to be imported."""
    return import_module("mercer.core.torch.autograd")


class _Stored:
    """Products with a matrix that is there, as tiles have them."""

    def __init__(self, K: Any = None):
        self.K = K

    def tiles(self, operands: Any) -> _Stored:
        return _Stored(*operands)

    def product(self, V: Any) -> Any:
        return self.K @ V.to(self.K.dtype)

    def transposed_product(self, U: Any) -> Any:
        return self.K.T @ U.to(self.K.dtype)


def stored_product(K: Any, V: Any, transposed: bool = False) -> Any:
    """K V or Kᵀ V for a matrix that is stored, which torch may differentiate by V."""
    if not is_recorded(V) and not is_transforming():
        return _Stored(K).transposed_product(V) if transposed else _Stored(K).product(V)
    task = _autograd().Product(_Stored(), 1, transposed=transposed)
    return _autograd().run(task, V.to(K.dtype), (K,), ())


@cache
def by_triton(device: str) -> bool:
    """Whether Triton kernels run on this kind of device."""
    return device == "cuda" and find_spec("triton") is not None


def _place(X: Any) -> str:
    return f"a tensor on {X.device}" if isinstance(X, torch.Tensor) else f"a {type(X).__name__}"


def _per_point(function: Any, points: Any) -> Any:
    values = function(points)
    if not isinstance(values, torch.Tensor) or tuple(values.shape) != (len(points),):
        shape = tuple(getattr(values, "shape", ()))
        raise ValueError(
            f"the function given to rescale returned {type(values).__name__} of shape {shape} for "
            f"a tensor of {len(points)} points; expected a tensor, one number per point"
        )
    return values


def positions(chosen: Any, n: int) -> Any:
    """A slice, a mask or positions as positions from 0 to n - 1; None for everything."""
    if isinstance(chosen, slice):
        return None if chosen == slice(None) else torch.arange(*chosen.indices(n))
    if not isinstance(chosen, torch.Tensor):
        chosen = torch.as_tensor(np.asarray(chosen, dtype=None if np.size(chosen) else np.int64))
    if chosen.dtype == torch.bool:
        if len(chosen) != n:
            raise IndexError(f"a mask of {len(chosen)} points; expected one of {n}")
        return torch.nonzero(chosen)[:, 0]
    wrong = chosen[(chosen < -n) | (chosen >= n)]
    if len(wrong):
        raise IndexError(f"index {int(wrong[0])} is out of range for {n} points")
    return torch.where(chosen < 0, chosen + n, chosen)
