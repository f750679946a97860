"""The derivative of an expression with respect to a hyperparameter: again an expression."""

from __future__ import annotations

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


def derivative(e: Expression, path: str, index: int | None = None) -> Expression:
    """d e / d θ for the hyperparameter at ``path`` (its entry ``index``, for a vector)."""
    if path not in e.parameters():
        return ZERO
    match e:
        case Parameter():
            return ONE
        case Statistic():
            return multiply(e.kind.tangent_factor, Tangent(e, path, index))
        case Add():
            return add(*(derivative(t, path, index) for t in e.terms))
        case Multiply():
            return add(
                *(
                    multiply(*e.factors[:i], derivative(f, path, index), *e.factors[i + 1 :])
                    for i, f in enumerate(e.factors)
                )
            )
        case Divide():
            a, b = e.numerator, e.denominator
            da, db = derivative(a, path, index), derivative(b, path, index)
            return divide(add(multiply(da, b), multiply(-1, a, db)), power(b, 2), at_zero=0.0)
        case Power():
            return _power(e, path, index)
        case Function():
            return multiply(_outer(e), derivative(e.operand, path, index))
        case Diagonal():
            return diagonal(derivative(e.operand, path, index), e.side)
    raise TypeError(f"no derivative is known for {type(e).__name__}")


def _power(e: Power, path: str, index: int | None) -> Expression:
    through_base = multiply(
        e.exponent, power(e.base, add(e.exponent, -1)), derivative(e.base, path, index)
    )
    d_exponent = derivative(e.exponent, path, index)
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
    raise ValueError(f"unknown function {e.name!r}")
