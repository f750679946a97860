"""From an expression to the program that the core runs: leaves, one-sided terms and operations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from mercer.cached import cached_property
from mercer.core import Op, Program, Source
from mercer.expressions.nodes import (
    Add,
    Constant,
    Diagonal,
    Divide,
    Expression,
    Function,
    Multiply,
    Point,
    Power,
    Statistic,
    Tangent,
    diagonal,
    multiply,
)
from mercer.expressions.simplification import lower

_FUNCTIONS = {
    "sqrt": Op.SQRT,
    "log": Op.LOG,
    "inverse_sqrt": Op.INVERSE_SQRT,
    "positive": Op.POSITIVE,
    "step": Op.STEP,
}
LARGEST_INTEGER_POWER = 2**31 - 1
Operand = tuple[int, Source]


class Lowering:
    """An expression without hyperparameters as a program.

    Attributes
    ----------
    leaves : list of Statistic or Tangent
        What the first registers hold, in order.
    row_terms, column_terms : lists of Expression
        Formulas in the rows' points alone, and in the columns', computed once for each.
    program : Program
    fits_single : bool
        Whether its constants other than zero are within the normal range of float32.
    """

    def __init__(self, e: Expression):
        self._expression = e
        self.uses = count_uses(e)
        self.leaves = [node for node in self.uses if isinstance(node, Statistic | Tangent)]
        self.row_terms: list[Any] = []
        self.column_terms: list[Any] = []
        self._operations: list[tuple[int, int, int, int, int]] = []
        self._constants: list[tuple[float, float]] = []
        self._holds: dict[int, Expression] = dict(enumerate(self.leaves))
        self._found: dict[Expression, int] = {leaf: i for i, leaf in enumerate(self.leaves)}
        self._count = len(self.leaves)
        self._free: list[int] = []
        result = self._value(e)
        self.program = Program(
            operations=np.array(self._operations, dtype=np.int32).reshape(-1, 5),
            constants=np.array(self._constants, dtype=np.float64).reshape(-1, 2),
            registers=max(1, self._count),
            result=result,
        )
        numbers = np.abs(self.program.constants)
        numbers, info = numbers[(numbers > 0) & (numbers < np.inf)], np.finfo(np.float32)
        self.fits_single = bool(np.all((numbers >= info.tiny) & (numbers <= info.max)))

    @cached_property
    def diagonal(self) -> Expression:
        """The expression at (x, x)."""
        return lower(diagonal(self._expression, 0))

    @cached_property
    def points(self) -> list[Point]:
        """The functions of one point in the expression."""
        terms = [*self.row_terms, *self.column_terms]
        return [node for term in terms for node in term.walk() if isinstance(node, Point)]

    def _emit(
        self, op: Op, *sources: int, c: float = 0.0, d: float = 0.0, term: Operand | None = None
    ) -> int:
        """Append an operation; it writes over a source that nobody needs any more.

        ``term`` is a one-sided term in place of the second source.
        """
        spent = [s for s in sources if self._release(s)]
        if spent:
            out = spent[0]
            self._free += spent[1:]
        else:
            out = self._new()
        a = sources[0] if sources else 0
        b, source = term or (sources[1] if len(sources) > 1 else 0, Source.TILE)
        self._append(op, out, a, b, source, c, d)
        return out

    def _append(self, op: Op, out: int, a: int, b: int, source: Source, c: float, d: float) -> None:
        self._operations.append((int(op), out, a, b, int(source)))
        self._constants.append((float(c), float(d)))

    def _new(self) -> int:
        """A register that nothing is in."""
        if self._free:
            return self._free.pop()
        self._count += 1
        return self._count - 1

    def _release(self, register: int) -> bool:
        """Whether this was the last use: the only one of a temporary, counted for the others."""
        if register not in self._holds:
            return True
        held = self._holds[register]
        self.uses[held] -= 1
        if self.uses[held] > 0:
            return False
        del self._holds[register], self._found[held]
        return True

    def _value(self, e: Expression) -> int:
        """The register of a node's value; a node that occurs again keeps it until its last use."""
        if e not in self._found:
            register = self._computed(e)
            if self.uses[e] <= 1 or register in self._holds:
                return register
            self._found[e], self._holds[register] = register, e
        return self._found[e]

    def _computed(self, e: Expression) -> int:
        side = side_of(e)
        if side is not None:
            term, _ = self._term(e, side)
            out = self._new()
            self._append(Op.COLUMN if side else Op.ROW, out, term, 0, Source.TILE, 0.0, 0.0)
            return out
        match e:
            case Constant():
                return self._emit(Op.CONSTANT, c=e.value)
            case Add():
                return self._sum(e)
            case Multiply():
                return self._product(*split(e))
            case Divide():
                a = self._value(e.numerator)
                return self._with(Op.DIVIDE, a, e.denominator, c=e.at_zero)
            case Power(exponent=Constant(value=exponent)):
                whole = exponent.is_integer() and abs(exponent) <= LARGEST_INTEGER_POWER
                op = Op.INTEGER_POWER if whole else Op.REAL_POWER
                return self._emit(op, self._value(e.base), c=exponent)
            case Function(name="exp"):
                factor, rest = split(e.operand)
                op = Op.EXP_NEGATIVE if is_nonpositive(e.operand) else Op.EXP
                return self._emit(op, self._product(1.0, rest), c=factor)
            case Function(name="tanh"):
                factor, inner, shift = affine(e.operand)
                return self._emit(Op.TANH, self._value(inner), c=factor, d=shift)
            case Function():
                return self._emit(_FUNCTIONS[e.name], self._value(e.operand))
        raise TypeError(f"{type(e).__name__} cannot be lowered")

    def _term(self, e: Expression, side: int) -> Operand:
        """A formula in one point as an operand."""
        terms = self.column_terms if side else self.row_terms
        if e not in terms:
            terms.append(e)
        return terms.index(e), Source.COLUMN if side else Source.ROW

    def _with(self, op: Op, a: int, e: Expression, c: float = 0.0, d: float = 0.0) -> int:
        """An operation on a register and the value of a node, which may be a one-sided term."""
        side = side_of(e)
        if side is not None:
            return self._emit(op, a, c=c, d=d, term=self._term(e, side))
        return self._emit(op, a, self._value(e), c=c, d=d)

    def _sum(self, e: Add) -> int:
        """Terms of one factor first, then those of several, which are accumulated."""
        constant = sum(t.value for t in e.terms if isinstance(t, Constant))
        terms = [_split_term(t) for t in e.terms if not isinstance(t, Constant)]
        # A one-sided term is best taken up by an operation on what is there already.
        single = [(factor, rest[0]) for factor, rest in terms if len(rest) == 1]
        single.sort(key=lambda term: side_of(term[1]) is not None)
        several = [(factor, rest) for factor, rest in terms if len(rest) > 1]
        if single:
            (scale, first), *others = single
            total = self._value(first)
            for factor, term in others:
                total, scale = self._with(Op.ADD, total, term, c=scale, d=factor), 1.0
            held = self._holds.get(total)
            if constant or scale != 1.0 or (several and held is not None and self.uses[held] > 1):
                total = self._emit(Op.AFFINE, total, c=scale, d=constant)
            elif several:
                self._release(total)  # what is there last becomes the sum
        else:
            total = self._product(*several.pop(0), constant)
        for factor, rest in several:
            self._accumulate(total, factor, rest)
        return total

    def _product(self, factor: float, factors: list[Expression], shift: float = 0.0) -> int:
        """factor * the product + shift."""
        *most, last = sorted(factors, key=lambda e: side_of(e) is not None)
        if not most:
            value = self._value(last)
            if factor == 1.0 and shift == 0.0:
                return value
            return self._emit(Op.AFFINE, value, c=factor, d=shift)
        return self._with(Op.MULTIPLY, self._product(1.0, most), last, c=factor, d=shift)

    def _accumulate(self, total: int, factor: float, factors: list[Expression]) -> None:
        """Add factor * the product to a register, which is not reused meanwhile."""
        *most, last = sorted(factors, key=lambda e: side_of(e) is not None)
        a, side = self._product(1.0, most), side_of(last)
        b, source = (self._value(last), Source.TILE) if side is None else self._term(last, side)
        self._append(Op.ACCUMULATE, total, a, b, source, factor, 0.0)
        self._free += [s for s in ((a, b) if side is None else (a,)) if self._release(s)]


def count_uses(e: Expression) -> Counter[Expression]:
    """How often the value of each node is asked for, if equal nodes are computed once."""
    uses: Counter[Expression] = Counter()

    def visit(node: Expression) -> None:
        uses[node] += 1
        if uses[node] == 1 and side_of(node) is None:
            for operand in operands(node):
                visit(operand)

    visit(e)
    return uses


def operands(e: Expression) -> list[Expression]:
    """The nodes whose values a node is computed from; numbers are part of its own operation."""
    match e:
        case Add():
            terms = [t for t in e.terms if not isinstance(t, Constant)]
            return [factor for term in terms for factor in _split_term(term)[1]]
        case Multiply():
            return split(e)[1]
        case Power():
            return [e.base]
        case Function(name="exp"):
            return split(e.operand)[1]
        case Function(name="tanh"):
            return [affine(e.operand)[1]]
    return list(e.children())


def side_of(e: Expression) -> int | None:
    """0 or 1 for a formula in x or in z alone, None for one in both or in neither."""
    if isinstance(e, Diagonal | Point):
        return e.side
    sides = {side_of(c) for c in e.children() if not isinstance(c, Constant)}
    return sides.pop() if len(sides) == 1 else None


def split(e: Expression) -> tuple[float, list[Expression]]:
    """A term as a number times other factors."""
    if isinstance(e, Multiply) and isinstance(e.factors[0], Constant):
        return e.factors[0].value, list(e.factors[1:])
    return 1.0, list(e.factors) if isinstance(e, Multiply) else [e]


def _split_term(e: Expression) -> tuple[float, list[Expression]]:
    """A term of a sum as a number times other factors.

    A formula in one point keeps its number: then c f(x) - c f(z) is exactly zero at equal points,
    where a fused multiplication and subtraction would leave the rounding of one product.
    """
    return split(e) if side_of(e) is None else (1.0, [e])


def affine(e: Expression) -> tuple[float, Expression, float]:
    """An expression as factor * inner + shift, with as much of it in the numbers as there is."""
    shift = 0.0
    if isinstance(e, Add):
        terms = [t for t in e.terms if not isinstance(t, Constant)]
        if len(terms) > 1:
            return 1.0, e, 0.0
        shift, e = sum(t.value for t in e.terms if isinstance(t, Constant)), terms[0]
    factor, rest = split(e)
    return factor, multiply(*rest), shift


def is_nonnegative(e: Expression) -> bool:
    """Whether the expression is known never to be negative."""
    match e:
        case Constant():
            return e.value >= 0
        case Statistic():
            return e.kind.vanishes
        case Diagonal(operand=Statistic(kind=kind)):
            return kind.is_kernel
        case Function(name="sqrt" | "exp" | "positive" | "step" | "inverse_sqrt"):
            return True
        case Power(exponent=Constant(value=n)):
            return n % 2 == 0 or is_nonnegative(e.base)
        case Multiply():
            odd = [factor for factor, times in Counter(e.factors).items() if times % 2]
            return all(map(is_nonnegative, odd))
        case Add() | Divide():
            return all(is_nonnegative(c) for c in e.children())
    return False


def is_nonpositive(e: Expression) -> bool:
    """Whether the expression is known never to be positive."""
    if isinstance(e, Add):
        return all(map(is_nonpositive, e.terms))
    factor, rest = split(e)
    return factor <= 0 and all(map(is_nonnegative, rest))
