"""Products and matrices of tensors as functions that torch differentiates.

The way forward is the usual one; the way back goes over the pairs again, tile by tile, and stores
no matrix. Imported where a derivative is asked for, since torch is not there for everyone.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from mercer.arrays.torch_state import exact_products, refuse_forward_mode, refuse_vmap
from mercer.core.torch.slopes import Layout, contraction, slopes


@dataclass
class Task:
    """A function of some first tensor, of the operands of pairs and of hyperparameters.

    Attributes
    ----------
    layout : Layout, or what has its method ``tiles`` for operands that are fixed
    n_operands : int
    by_parameters : layouts of the derivatives by each hyperparameter, with the same operands
    """

    layout: Any
    n_operands: int = 0
    by_parameters: list[Layout] = field(default_factory=list)

    def value(self, first: Any, operands: Sequence[Any]) -> Any:
        raise NotImplementedError

    def outer(self, g: Any, out: Any, first: Any, rows: slice, K: Any) -> Any:
        """Some rows of the slopes by the values of all pairs, which are K there."""
        raise NotImplementedError

    def by_first(self, g: Any, out: Any, first: Any, operands: Sequence[Any]) -> Any:
        raise NotImplementedError

    def back(self, wanted: Sequence[int], g: Any, out: Any, *tensors: Any) -> list[Any]:
        """The slopes by those tensors that are wanted."""
        first, operands = tensors[0], tensors[1 : self.n_operands + 1]
        found: list[Any] = [None] * len(tensors)
        if 0 in wanted:
            found[0] = self.by_first(g, out, first, operands)
        if any(0 < i <= self.n_operands for i in wanted):
            found[1 : self.n_operands + 1] = slopes(
                self.layout, operands, lambda rows, K: self.outer(g, out, first, rows, K)
            )
        for i, layout in enumerate(self.by_parameters, self.n_operands + 1):
            if i in wanted:
                found[i] = self._by_parameter(layout, g, out, first, operands).to(tensors[i])
        return [torch.zeros_like(tensors[i]) if found[i] is None else found[i] for i in wanted]

    def _by_parameter(
        self, layout: Layout, g: Any, out: Any, first: Any, operands: Sequence[Any]
    ) -> Any:
        twin = self.layout.twin(operands)
        return contraction(
            layout, operands, lambda rows: self.outer(g, out, first, rows, twin.values(rows))
        )


@dataclass
class Product(Task):
    """K V in float64, or Kᵀ V."""

    transposed: bool = False

    def value(self, first: Any, operands: Sequence[Any]) -> Any:
        return self._times(self.layout.tiles(operands), first, self.transposed)

    @staticmethod
    def _times(tiles: Any, V: Any, transposed: bool) -> Any:
        return tiles.transposed_product(V) if transposed else tiles.product(V)

    def outer(self, g: Any, out: Any, first: Any, rows: slice, K: Any) -> Any:
        g = g.to(first.dtype)
        return first[rows] @ g.T if self.transposed else g[rows] @ first.T

    def by_first(self, g: Any, out: Any, first: Any, operands: Sequence[Any]) -> Any:
        tiles, g = self.layout.tiles(operands), g.to(first.dtype)
        return self._times(tiles, g, not self.transposed).to(first.dtype)

    def _by_parameter(
        self, layout: Layout, g: Any, out: Any, first: Any, operands: Sequence[Any]
    ) -> Any:
        return (g * self._times(layout.tiles(operands), first, self.transposed)).sum()


@dataclass
class Matrix(Task):
    """All values; of the points with themselves, with equal halves and the diagonal given."""

    symmetric: bool = False

    def value(self, first: Any, operands: Sequence[Any]) -> Any:
        return self.layout.tiles(operands).gram(self.symmetric, first if self.symmetric else None)

    def outer(self, g: Any, out: Any, first: Any, rows: slice, K: Any) -> Any:
        return g[rows]


@dataclass
class LogSumExp(Task):
    """log Σ_j w_j exp(k_ij) in float64, from the logarithms of the weights."""

    def value(self, first: Any, operands: Sequence[Any]) -> Any:
        return self.layout.tiles(operands, True).log_sum_exp(first)

    def outer(self, g: Any, out: Any, first: Any, rows: slice, K: Any) -> Any:
        # Where all weights are zero, so is their sum, and nothing moves it.
        share = torch.exp(K.to(torch.float64) + first - out[rows, None])
        return g[rows, None] * torch.where(torch.isfinite(out[rows, None]), share, 0.0)

    def by_first(self, g: Any, out: Any, first: Any, operands: Sequence[Any]) -> Any:
        twin, total = self.layout.twin(operands), torch.zeros_like(first, dtype=torch.float64)
        for rows, K in twin.blocks():
            total += self.outer(g, out, first, rows, K).sum(0)
        return total.to(first.dtype)


class _Forward(torch.autograd.Function):
    """The value of a task, with a way back."""

    @staticmethod
    def forward(task: Task, first: Any, *tensors: Any) -> Any:
        with exact_products():
            return task.value(first, tensors[: task.n_operands])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.task, *tensors = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        *tensors, out = ctx.saved_tensors
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        found = dict(zip(wanted, _Back.apply(ctx.task, wanted, *gradients, out, *tensors)))  # noqa: B905
        return None, *(found.get(i) for i in range(len(tensors)))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        refuse_forward_mode()

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        refuse_vmap()


class _Back(torch.autograd.Function):
    """The way back of a task, which has none of its own."""

    @staticmethod
    def forward(task: Task, wanted: Sequence[int], *tensors: Any) -> tuple[Any, ...]:
        with exact_products():
            return tuple(task.back(wanted, *tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            "a second derivative of a kernel was asked for, and there are first ones only; "
            "for few points write the kernel in torch's own operations"
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        refuse_vmap()


def run(task: Task, first: Any, operands: Sequence[Any], parameters: Sequence[Any]) -> Any:
    """The value of a task as torch sees it."""
    return _Forward.apply(task, first, *operands, *parameters)
