"""From an expression to the program that the core runs: leaves, one-sided terms and operations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from mercer.core import Op, Program
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
)

_FUNCTIONS = {
    "sqrt": Op.SQRT,
    "tanh": Op.TANH,
    "log": Op.LOG,
    "inverse_sqrt": Op.INVERSE_SQRT,
}
LARGEST_INTEGER_POWER = 2**31 - 1


class Lowering:
    """An expression without hyperparameters as a program.

    Attributes
    ----------
    leaves : list of Statistic or Tangent
        What the first registers hold, in order.
    row_terms, column_terms : lists of Expression
        Formulas in the rows' points alone, and in the columns', computed once for each.
    program : Program
    """

    def __init__(self, e: Expression):
        self.uses = count_uses(e)
        self.leaves = [node for node in self.uses if isinstance(node, Statistic | Tangent)]
        self.row_terms: list[Any] = []
        self.column_terms: list[Any] = []
        self._operations: list[tuple[int, int, int, int]] = []
        self._constants: list[tuple[float, float]] = []
        self._holds: dict[int, Expression] = dict(enumerate(self.leaves))
        self._found: dict[Expression, int] = {leaf: i for i, leaf in enumerate(self.leaves)}
        self._count = len(self.leaves)
        self._free: list[int] = []
        result = self._value(e)
        self.program = Program(
            operations=np.array(self._operations, dtype=np.int32).reshape(-1, 4),
            constants=np.array(self._constants, dtype=np.float64).reshape(-1, 2),
            registers=max(1, self._count),
            result=result,
        )

    def _emit(self, op: Op, *sources: int, c: float = 0.0, d: float = 0.0, term: int = 0) -> int:
        """Append an operation; it writes over a source that nobody needs any more."""
        spent = [s for s in sources if self._release(s)]
        if spent:
            out = spent[0]
            self._free += spent[1:]
        elif self._free:
            out = self._free.pop()
        else:
            out, self._count = self._count, self._count + 1
        a = sources[0] if sources else term
        b = sources[1] if len(sources) > 1 else 0
        self._operations.append((int(op), out, a, b))
        self._constants.append((float(c), float(d)))
        return out

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
            return self._term(e, side)
        match e:
            case Constant():
                return self._emit(Op.CONSTANT, c=e.value)
            case Add():
                return self._sum(e)
            case Multiply():
                factor, rest = split(e)
                return self._scaled(factor, self._product(rest))
            case Divide():
                a, b = self._value(e.numerator), self._value(e.denominator)
                return self._emit(Op.DIVIDE, a, b, c=e.at_zero)
            case Power(exponent=Constant(value=exponent)):
                whole = exponent.is_integer() and abs(exponent) <= LARGEST_INTEGER_POWER
                op = Op.INTEGER_POWER if whole else Op.REAL_POWER
                return self._emit(op, self._value(e.base), c=exponent)
            case Function(name="exp"):
                factor, rest = split(e.operand)
                at_most_one = factor <= 0 and all(is_nonnegative(r) for r in rest)
                op = Op.EXP_NEGATIVE if at_most_one else Op.EXP
                return self._emit(op, self._product(rest), c=factor)
            case Function():
                return self._emit(_FUNCTIONS[e.name], self._value(e.operand))
        raise TypeError(f"{type(e).__name__} cannot be lowered")

    def _term(self, e: Expression, side: int) -> int:
        terms = self.column_terms if side else self.row_terms
        if e not in terms:
            terms.append(e)
        return self._emit(Op.COLUMN if side else Op.ROW, term=terms.index(e))

    def _sum(self, e: Add) -> int:
        constant = sum(t.value for t in e.terms if isinstance(t, Constant))
        total = None
        for term in e.terms:
            if isinstance(term, Constant):
                continue
            factor, rest = split(term)
            value = self._product(rest)
            if total is None:
                total = self._scaled(factor, value, constant)
            else:
                total = self._emit(Op.ADD, total, self._scaled(factor, value))
        assert total is not None
        return total

    def _product(self, factors: list[Expression]) -> int:
        total = self._value(factors[0])
        for factor in factors[1:]:
            total = self._emit(Op.MULTIPLY, total, self._value(factor))
        return total

    def _scaled(self, factor: float, register: int, shift: float = 0.0) -> int:
        if factor == 1.0 and shift == 0.0:
            return register
        return self._emit(Op.AFFINE, register, c=factor, d=shift)


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
            return [factor for term in terms for factor in split(term)[1]]
        case Multiply():
            return split(e)[1]
        case Power():
            return [e.base]
        case Function(name="exp"):
            return split(e.operand)[1]
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


def is_nonnegative(e: Expression) -> bool:
    """Whether the expression is known never to be negative."""
    match e:
        case Constant():
            return e.value >= 0
        case Statistic():
            return e.kind.vanishes
        case Function(name="sqrt" | "exp"):
            return True
        case Add() | Multiply():
            return all(is_nonnegative(c) for c in e.children())
    return False
