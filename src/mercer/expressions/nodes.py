"""The tiny language kernels are written in.

An expression is a formula over pair statistics of two points x and z, per-point terms and
constants. The functions `add`, `multiply`, `divide`, `power`, `exp`, `sqrt`, `tanh`, `positive` and
`step` (and the operators, which call them) build simplified expressions: sums and products are
flattened, constants folded, and products of exponentials fuse their exponents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Union

import numpy as np

from mercer.expressions.hashing import frozen
from mercer.expressions.statistics import STATISTICS, PairStatistic
from mercer.expressions.views import RowUnit, View

Operand = Union["Expression", float, int]


class Expression:
    """A formula in two points; combine with ``+ - * / **``, `exp`, `sqrt` and `tanh`."""

    def children(self) -> tuple[Expression, ...]:
        return ()

    def rebuild(self, children: tuple[Expression, ...]) -> Expression:
        """The same node, simplified anew, over other children."""
        return self

    def walk(self) -> Iterator[Expression]:
        """Every node once, however often it occurs, and what diagonals are of."""
        seen: set[Expression] = set()
        left: list[Expression] = [self]
        while left:
            node = left.pop()
            if node not in seen:
                seen.add(node)
                yield node
                inner = (node.operand,) if isinstance(node, Diagonal) else node.children()
                left += reversed(inner)

    def parameters(self) -> dict[str, int | None]:
        """Hyperparameter paths in this expression, with sizes (None for a scalar)."""
        found: dict[str, int | None] = {}
        for node in self.walk():
            if isinstance(node, Parameter):
                found[node.path] = None
            elif isinstance(node, Statistic):
                found.update(node.view.parameters())
        return found

    def __add__(self, other: Operand) -> Expression:
        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Expression:
        return add(self, multiply(-1.0, other))

    def __rsub__(self, other: Operand) -> Expression:
        return add(other, multiply(-1.0, self))

    def __mul__(self, other: Operand) -> Expression:
        return multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Expression:
        return divide(self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return divide(other, self)

    def __pow__(self, exponent: Operand) -> Expression:
        return power(self, exponent)

    def __neg__(self) -> Expression:
        return multiply(-1.0, self)


@frozen
class Constant(Expression):
    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"


@frozen
class Parameter(Expression):
    """A scalar hyperparameter: its path in the kernel (``left__gamma``) and its current value."""

    path: str
    value: float

    def __str__(self) -> str:
        return self.path


@frozen
class Statistic(Expression):
    """A pair statistic of the two points as a view shows them."""

    kind: PairStatistic
    view: View

    def __str__(self) -> str:
        return str(self.kind)


@frozen
class Tangent(Expression):
    """The derivative of a statistic with respect to a hyperparameter of its view."""

    statistic: Statistic
    path: str
    index: int | None

    def __str__(self) -> str:
        return f"d({self.statistic})/d({self.path})"


@frozen
class Point(Expression):
    """f(x) (side 0) or f(z) (side 1) for a function of one point."""

    function: Callable[[Any], Any]
    view: View
    side: int

    @property
    def is_users(self) -> bool:
        """Whether the function was given by a user: it may hold data and return any number."""
        return not isinstance(self.function, RowUnit)

    def __str__(self) -> str:
        return f"f({'xz'[self.side]})"


@frozen
class Diagonal(Expression):
    """A statistic (or its tangent) taken at (x, x) (side 0) or (z, z) (side 1)."""

    operand: Statistic | Tangent
    side: int

    def __str__(self) -> str:
        return f"[{self.operand}]({'xz'[self.side]})"


@frozen
class Add(Expression):
    terms: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        return self.terms

    def rebuild(self, children: tuple[Expression, ...]) -> Expression:
        return add(*children)

    def __str__(self) -> str:
        return "(" + " + ".join(map(str, self.terms)) + ")"


@frozen
class Multiply(Expression):
    factors: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        return self.factors

    def rebuild(self, children: tuple[Expression, ...]) -> Expression:
        return multiply(*children)

    def __str__(self) -> str:
        return " * ".join(map(str, self.factors))


@frozen
class Divide(Expression):
    """a / b, and ``at_zero`` where b = 0."""

    numerator: Expression
    denominator: Expression
    at_zero: float

    def children(self) -> tuple[Expression, ...]:
        return (self.numerator, self.denominator)

    def rebuild(self, children: tuple[Expression, ...]) -> Expression:
        return divide(*children, at_zero=self.at_zero)

    def __str__(self) -> str:
        return f"{self.numerator} / ({self.denominator})"


@frozen
class Power(Expression):
    """base ** exponent; the exponent is a constant or a formula in hyperparameters."""

    base: Expression
    exponent: Expression

    def children(self) -> tuple[Expression, ...]:
        return (self.base, self.exponent)

    def rebuild(self, children: tuple[Expression, ...]) -> Expression:
        return power(*children)

    def __str__(self) -> str:
        return f"({self.base}) ** {self.exponent}"


@frozen
class Function(Expression):
    """exp, sqrt, tanh, log, inverse_sqrt (0 at 0), positive or step (0 at 0) of one operand."""

    name: str
    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def rebuild(self, children: tuple[Expression, ...]) -> Expression:
        return apply_function(self.name, children[0])

    def __str__(self) -> str:
        return f"{self.name}({self.operand})"


ZERO, ONE = Constant(0.0), Constant(1.0)


def expression(operand: Operand) -> Expression:
    """A number as an expression; an expression as itself."""
    return operand if isinstance(operand, Expression) else Constant(float(operand))


def add(*operands: Operand) -> Expression:
    """Flattened sum, constants folded."""
    constant, terms = 0.0, []
    for operand in map(expression, operands):
        for term in operand.terms if isinstance(operand, Add) else (operand,):
            if isinstance(term, Constant):
                constant += term.value
            else:
                terms.append(term)
    if constant != 0.0 or not terms:
        terms.append(Constant(constant))
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def multiply(*operands: Operand) -> Expression:
    """Flattened product: constants folded to the front, exponentials fused into one."""
    constant, exponents, factors = 1.0, [], []
    for operand in map(expression, operands):
        for factor in operand.factors if isinstance(operand, Multiply) else (operand,):
            if isinstance(factor, Constant):
                constant *= factor.value
            elif isinstance(factor, Function) and factor.name == "exp":
                exponents.append(factor.operand)
            else:
                factors.append(factor)
    if constant == 0.0:
        return ZERO
    if exponents:
        factors.append(exp(add(*exponents)))
    if constant != 1.0 or not factors:
        factors.insert(0, Constant(constant))
    return factors[0] if len(factors) == 1 else Multiply(tuple(factors))


def divide(a: Operand, b: Operand, at_zero: float = math.nan) -> Expression:
    """a / b, with a value of its own where b = 0."""
    numerator, denominator = expression(a), expression(b)
    if isinstance(denominator, Constant) and denominator.value != 0.0:
        if isinstance(numerator, Constant):
            return Constant(numerator.value / denominator.value)
        return multiply(1 / denominator.value, numerator)
    return Divide(numerator, denominator, at_zero)


def power(base: Operand, exponent: Operand) -> Expression:
    """base ** exponent; a power of an exponential is an exponential."""
    base, exponent = expression(base), expression(exponent)
    if isinstance(base, Function) and base.name == "exp":
        return exp(multiply(exponent, base.operand))
    if isinstance(exponent, Constant):
        if exponent.value == 0.0:
            return ONE
        if exponent.value == 1.0:
            return base
        if isinstance(base, Constant):
            with np.errstate(over="ignore"):
                return Constant(float(np.float64(base.value) ** exponent.value))
    return Power(base, exponent)


_SCALAR_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "sqrt": math.sqrt,
    "tanh": math.tanh,
    "log": math.log,
    "inverse_sqrt": lambda a: float(inverse_sqrt(a)),
    "positive": lambda a: max(a, 0.0),
    "step": lambda a: float(a > 0),
}


def inverse_sqrt(a: Any) -> np.ndarray:
    """1/√a, and 0 where a = 0: what normalisation multiplies by."""
    a = np.asarray(a)
    if np.any(a < 0):
        raise ValueError(
            f"a kernel can be normalised where k(x, x) >= 0, and here it is {np.min(a):.3g} for "
            "some x; check k.validity"
        )
    return np.divide(1, np.sqrt(a), out=np.zeros_like(a, dtype=np.result_type(a, 1.0)), where=a > 0)


def apply_function(name: str, operand: Operand) -> Expression:
    operand = expression(operand)
    if isinstance(operand, Constant):
        try:
            return Constant(_SCALAR_FUNCTIONS[name](operand.value))
        except OverflowError:
            return Constant(math.inf)
    return Function(name, operand)


def exp(operand: Operand) -> Expression:
    return apply_function("exp", operand)


def sqrt(operand: Operand) -> Expression:
    return apply_function("sqrt", operand)


def tanh(operand: Operand) -> Expression:
    return apply_function("tanh", operand)


def positive(operand: Operand) -> Expression:
    """The positive part max(a, 0)."""
    return apply_function("positive", operand)


def step(operand: Operand) -> Expression:
    """1 where a > 0, else 0."""
    return apply_function("step", operand)


def diagonal(operand: Operand, side: int) -> Expression:
    """The expression at (x, x) or (z, z), pushed down to the statistics it is made of."""
    operand = expression(operand)
    match operand:
        case Statistic(kind=kind) if kind.vanishes:
            return ZERO
        case Tangent(statistic=Statistic(kind=kind)) if kind.vanishes:
            return ZERO
        case Statistic() | Tangent():
            return Diagonal(operand, side)
        case Diagonal():
            return Diagonal(operand.operand, side)
        case Point():
            return Point(operand.function, operand.view, side)
    return operand.rebuild(tuple(diagonal(c, side) for c in operand.children()))


def statistic(name: str, view: View = View()) -> Statistic:  # noqa: B008 (a frozen value)
    return Statistic(STATISTICS[name], view)
