"""What the text of a Triton kernel depends on: the shape of a formula, and how statistics are made.

Numbers that change from fit to fit, hyperparameters among them, are read from an array, so that
the text, and what is compiled from it, depends on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mercer.core.programs import Kind, Op, Source

BINARY = (Op.ADD, Op.MULTIPLY, Op.ACCUMULATE, Op.DIVIDE)


class LeafForm(NamedTuple):
    """How a kernel comes by one statistic.

    Attributes
    ----------
    kind : Kind
    width : int
        Numbers per point of the matrix operand; 0 where the statistic is formed by features.
    features : int
        Features of the points as they are, where those are read.
    precision : str
        Of the matrix unit: "fp16", "tf32", "tf32x3" or "ieee".
    step : int
        Numbers of the operands that each step of a loop takes; 0 where the rows' are kept.
    shared : int or None
        The leaf before this one whose dot products, or features, serve this one too.
    folded : bool
        Whether the norms of a squared distance are numbers of its operands.
    """

    kind: Kind
    width: int = 0
    features: int = 0
    precision: str = "ieee"
    step: int = 0
    shared: int | None = None
    folded: bool = False


@dataclass(frozen=True)
class TileForm:
    """All that the text of a kernel depends on.

    Attributes
    ----------
    dtype : "float32" or "float64"
    leaves : tuple of LeafForm
    operations : tuple of (op, out, a, b, source, exponent)
        Those of a `Program`, with the exponent of integer powers.
    result : int
    """

    dtype: str
    leaves: tuple[LeafForm, ...]
    operations: tuple[tuple[int, int, int, int, int, int], ...]
    result: int

    @property
    def transposed(self) -> TileForm:
        """The same with rows and columns in each other's place."""
        other = {Source.ROW: Source.COLUMN, Source.COLUMN: Source.ROW, Source.TILE: Source.TILE}
        ops = {Op.ROW: Op.COLUMN, Op.COLUMN: Op.ROW}
        swapped = tuple(
            (ops.get(Op(op), op), out, a, b, other[Source(source)], exponent)
            for op, out, a, b, source, exponent in self.operations
        )
        return TileForm(self.dtype, self.leaves, swapped, self.result)

    def only_in_exponents(self, leaf: int) -> bool:
        """Whether a statistic goes to exponentials and nowhere else."""
        for operation in self.operations:
            op, out, *_ = operation
            if leaf in _read(*operation) and op not in (Op.EXP, Op.EXP_NEGATIVE):
                return False
            if out == leaf:
                return True
        return self.result != leaf


def _read(op: int, out: int, a: int, b: int, source: int, _: int) -> list[int]:
    """The registers that an operation reads."""
    if op in (Op.ROW, Op.COLUMN, Op.CONSTANT):
        return []
    found = [a, out] if op == Op.ACCUMULATE else [a]
    return [*found, b] if op in BINARY and source == Source.TILE else found


class Slot(NamedTuple):
    """One number of the array that a kernel reads: a constant of the program, times others.

    ``leaf`` is the one whose scale is among them, or with ``divided`` that it is divided by.
    """

    operation: int | None
    which: int
    leaf: int | None = None
    factor: float = 1.0
    divided: bool = False
