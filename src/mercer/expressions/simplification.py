"""Expressions made ready to run: hyperparameters become numbers, like terms are collected."""

from __future__ import annotations

import numpy as np

from mercer.expressions.nodes import (
    Add,
    Constant,
    Diagonal,
    Expression,
    Function,
    Multiply,
    Parameter,
    Statistic,
    add,
    multiply,
)
from mercer.expressions.statistics import STATISTICS


def lower(e: Expression) -> Expression:
    """The expression ready to run: hyperparameters become numbers, like terms are collected.

    ``a x·x + a z·z - 2a x·z`` becomes ``a ‖x - z‖²``: the square completed, without cancellation.
    ``exp(a) (exp(b) + exp(c))`` becomes ``exp(a + b) + exp(a + c)``: one exponential less.
    """
    return _lowered(e, {})


def _lowered(e: Expression, found: dict[Expression, Expression]) -> Expression:
    """The same, each node once."""
    if e not in found:
        found[e] = _simplified(e, found)
    return found[e]


def _simplified(e: Expression, found: dict[Expression, Expression]) -> Expression:
    if isinstance(e, Parameter):
        return Constant(float(e.value))
    lowered = e.rebuild(tuple(_lowered(c, found) for c in e.children()))
    match lowered:
        case Add():
            return _collect(lowered)
        case Multiply():
            return _distribute(lowered)
    return lowered


def _distribute(e: Multiply) -> Expression:
    """An exponential drawn into a sum whose every term has one to fuse with."""
    exponentials = [i for i, f in enumerate(e.factors) if _is_exp(f)]
    for i, factor in enumerate(e.factors):
        if exponentials and isinstance(factor, Add) and all(map(_has_exp, factor.terms)):
            first = exponentials[0]
            drawn = add(*(lower(multiply(t, e.factors[first])) for t in factor.terms))
            return multiply(drawn, *(f for j, f in enumerate(e.factors) if j not in (i, first)))
    return e


def _is_exp(e: Expression) -> bool:
    return isinstance(e, Function) and e.name == "exp"


def _has_exp(e: Expression) -> bool:
    return any(map(_is_exp, e.factors if isinstance(e, Multiply) else (e,)))


def _collect(e: Add) -> Expression:
    coefficients: dict[Expression, float] = {}
    for term in e.terms:
        coefficient, rest = _split(term)
        coefficients[rest] = coefficients.get(rest, 0.0) + coefficient
    for rest, c in list(coefficients.items()):
        if isinstance(rest, Statistic) and rest.kind is STATISTICS["dot"]:
            sides = [Diagonal(rest, side) for side in (0, 1)]
            halves = [coefficients.get(side, 0.0) for side in sides]
            if c and np.allclose(halves, -c / 2, rtol=1e-14, atol=0):
                for spent in (rest, *sides):
                    del coefficients[spent]
                squared = Statistic(STATISTICS["sqdist"], rest.view)
                coefficients[squared] = coefficients.get(squared, 0.0) - c / 2
    return add(*(multiply(c, rest) for rest, c in coefficients.items()))


def _split(term: Expression) -> tuple[float, Expression]:
    if isinstance(term, Constant):
        return term.value, Constant(1.0)
    if isinstance(term, Multiply) and isinstance(term.factors[0], Constant):
        return term.factors[0].value, multiply(*term.factors[1:])
    return 1.0, term
