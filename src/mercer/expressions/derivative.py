"""The derivative of an expression, by a hyperparameter or by a statistic: again an expression."""

from __future__ import annotations

from collections.abc import Callable

from mercer.expressions.nodes import (
    ONE,
    ZERO,
    Add,
    Constant,
    Diagonal,
    Divide,
    Expression,
    Function,
    Multiply,
    Parameter,
    Power,
    Statistic,
    Tangent,
    add,
    apply_function,
    diagonal,
    divide,
    multiply,
    power,
)

Rule = Callable[[Expression], Expression]


def derivative(e: Expression, path: str, index: int | None = None) -> Expression:
    """d e / d θ for the hyperparameter at ``path`` (its entry ``index``, for a vector)."""
    return _chain(e, lambda leaf: _moved(leaf, path, index))


def partial(e: Expression, leaf: Expression) -> Expression:
    """∂ e / ∂ leaf for a statistic (or its diagonal), all other leaves held still."""
    return _chain(e, lambda other: ONE if other == leaf else ZERO)


def moved(leaf: Statistic, path: str, index: int | None) -> Expression:
    """How a statistic changes with a hyperparameter of its view."""
    return multiply(leaf.kind.tangent_factor, Tangent(leaf, path, index))


def _moved(leaf: Expression, path: str, index: int | None) -> Expression:
    if path not in leaf.parameters():
        return ZERO
    match leaf:
        case Parameter():
            return ONE
        case Statistic():
            return moved(leaf, path, index)
        case Diagonal():
            return diagonal(_moved(leaf.operand, path, index), leaf.side)
    raise TypeError(f"no derivative is known for {type(leaf).__name__}")


def _chain(e: Expression, rule: Rule) -> Expression:
    """The chain rule, from what the leaves change by."""
    match e:
        case Constant():
            return ZERO
        case Add():
            return add(*(_chain(t, rule) for t in e.terms))
        case Multiply():
            return add(
                *(
                    multiply(*e.factors[:i], _chain(f, rule), *e.factors[i + 1 :])
                    for i, f in enumerate(e.factors)
                )
            )
        case Divide():
            a, b = e.numerator, e.denominator
            da, db = _chain(a, rule), _chain(b, rule)
            change = add(multiply(da, b), multiply(-1, a, db))
            return ZERO if change == ZERO else divide(change, power(b, 2), at_zero=0.0)
        case Power():
            return _power(e, rule)
        case Function():
            return multiply(_outer(e), _chain(e.operand, rule))
    return rule(e)


def _power(e: Power, rule: Rule) -> Expression:
    through_base = multiply(e.exponent, power(e.base, add(e.exponent, -1)), _chain(e.base, rule))
    d_exponent = _chain(e.exponent, rule)
    if isinstance(d_exponent, Constant) and d_exponent.value == 0.0:
        return through_base
    return add(through_base, multiply(e, apply_function("log", e.base), d_exponent))


def _outer(e: Function) -> Expression:
    """g'(a) for e = g(a)."""
    match e.name:
        case "exp":
            return e
        case "tanh":
            return 1 - power(e, 2)
        case "sqrt":
            return 0.5 * apply_function("inverse_sqrt", e.operand)
        case "inverse_sqrt":
            return -0.5 * power(e, 3)
        case "log":
            return divide(1, e.operand)
        case "positive":
            return apply_function("step", e.operand)
        case "step":
            return ZERO
    raise ValueError(f"unknown function {e.name!r}")
