"""What the text of a Triton kernel depends on: the shape of a formula, and how statistics are made.

Numbers that change from fit to fit, hyperparameters among them, are read from an array, so that
the text, and what is compiled from it, depends on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mercer.core.programs import Kind, Op, Source

BINARY = (Op.ADD, Op.MULTIPLY, Op.ACCUMULATE, Op.DIVIDE)
EXPONENTIALS = (Op.EXP, Op.EXP_NEGATIVE)
# Powers that are best made from the inverse square root, which has an instruction.
INVERSE_ROOTS = (-0.5, -1.5, -2.5, -3.5)


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
    chained : bool
        Whether all products of few numbers are summed within the matrix unit, the small ones first.
    """

    kind: Kind
    width: int = 0
    features: int = 0
    precision: str = "ieee"
    step: int = 0
    shared: int | None = None
    folded: bool = False
    chained: bool = False


class Operation(NamedTuple):
    """One of a `Program`, with what the text says of its constants c and d.

    Attributes
    ----------
    op, out, a, b, source : as in a `Program`
    exponent : int
        Of an integer power; of a real one, of the inverse square root, or 0 where it is none.
    written : (float or None, float or None)
        c and d where sums and products have no need of a multiplication or an addition: 0 and ±1.
    lifts : bool
        Whether it is c a + d for c >= 0 and d > 0, which is above zero for any distance a, rounded
        or not.
    """

    op: Op
    out: int
    a: int
    b: int
    source: Source
    exponent: int = 0
    written: tuple[float | None, float | None] = (None, None)
    lifts: bool = False

    @classmethod
    def of(cls, op: int, out: int, a: int, b: int, source: int, c: float, d: float) -> Operation:
        """An operation of a program, with its constants."""
        exponent = int(c) if op == Op.INTEGER_POWER else 0
        if op == Op.REAL_POWER and c in INVERSE_ROOTS:
            exponent = int(-2 * c)
        combines = op in (Op.ADD, Op.MULTIPLY, Op.ACCUMULATE)
        c_written, d_written = (x if combines and abs(x) in (0.0, 1.0) else None for x in (c, d))
        lifts = op == Op.AFFINE and c >= 0 and d > 0
        written = (c_written, d_written)
        return cls(Op(op), out, a, b, Source(source), exponent, written, lifts)

    def reads(self) -> list[int]:
        """The registers that it reads."""
        if self.op in (Op.ROW, Op.COLUMN, Op.CONSTANT):
            return []
        found = [self.a, self.out] if self.op == Op.ACCUMULATE else [self.a]
        return [*found, self.b] if self.op in BINARY and self.source == Source.TILE else found


@dataclass(frozen=True)
class TileForm:
    """All that the text of a kernel depends on.

    Attributes
    ----------
    dtype : "float32" or "float64"
    leaves : tuple of LeafForm
    operations : tuple of Operation
    result : int
    """

    dtype: str
    leaves: tuple[LeafForm, ...]
    operations: tuple[Operation, ...]
    result: int

    @property
    def transposed(self) -> TileForm:
        """The same with rows and columns in each other's place."""
        other = {Source.ROW: Source.COLUMN, Source.COLUMN: Source.ROW, Source.TILE: Source.TILE}
        ops = {Op.ROW: Op.COLUMN, Op.COLUMN: Op.ROW}
        swapped = tuple(
            o._replace(op=ops.get(o.op, o.op), source=other[o.source]) for o in self.operations
        )
        return TileForm(self.dtype, self.leaves, swapped, self.result)

    def feels_its_sign(self, leaf: int) -> bool:
        """Whether values would feel it if rounding put a distance below zero.

        An exponential of it is 1 all but rounding, and so is the sum with a number above zero.
        """
        for o in self.operations:
            if leaf in o.reads() and not (o.op in EXPONENTIALS or o.lifts):
                return True
            if o.out == leaf:
                return False
        return self.result == leaf

    def above_zero(self, k: int) -> bool:
        """Whether the k-th operation is on a distance with a number above zero added."""
        before = self.operations[:k]
        made = max((i for i, o in enumerate(before) if o.out == self.operations[k].a), default=-1)
        if made < 0 or not before[made].lifts:
            return False
        leaf = before[made].a
        return (
            leaf < len(self.leaves)
            and self.leaves[leaf].kind == Kind.SQDIST
            and all(o.out != leaf for o in before[:made])
        )


class Slot(NamedTuple):
    """One number of the array that a kernel reads: a constant of the program, times others.

    ``leaf`` is the one whose scale is among them, or with ``divided`` that it is divided by.
    """

    operation: int | None
    which: int
    leaf: int | None = None
    factor: float = 1.0
    divided: bool = False
