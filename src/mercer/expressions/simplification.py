"""Expressions made ready to run: hyperparameters become numbers, like terms are collected."""

from __future__ import annotations

from typing import Any

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
    Tangent,
    add,
    multiply,
)
from mercer.expressions.statistics import STATISTICS


def lower(e: Expression) -> Expression:
    """The expression ready to run: hyperparameters become numbers, like terms are collected.

    ``a x·x + a z·z - 2a x·z`` becomes ``a ‖x - z‖²``: the square completed, without cancellation.
    ``exp(a) (exp(b) + exp(c))`` becomes ``exp(a + b) + exp(a + c)``: one exponential less.
    """
    if isinstance(e, Parameter):
        return Constant(float(e.value))
    lowered = e.rebuild(tuple(lower(c) for c in e.children()))
    match lowered:
        case Add():
            return _collect(lowered)
        case Multiply():
            return _distribute(lowered)
    return lowered


def independent_terms(e: Expression) -> list[Expression]:
    """A sum as parts that have no statistic in common, nor dot products that distances come from.

    Examples
    --------
    >>> from mercer.kernels import RBF, Laplacian, Linear
    >>> kernel = RBF(0.5) * Linear() + Laplacian(0.1) + RBF(2.0)
    >>> for part in independent_terms(lower(kernel.expression())):
    ...     print(part)
    exp(-0.1 * l1)
    (dot * exp(-0.5 * sqdist) + exp(-2 * sqdist))
    """
    parts: list[tuple[set[Any], list[Expression]]] = []
    loose = []  # terms of no statistic
    for term in e.terms if isinstance(e, Add) else (e,):
        uses, terms = set(map(_made_from, filter(_is_leaf, term.walk()))), [term]
        for part in [p for p in parts if p[0] & uses]:
            parts.remove(part)
            uses, terms = part[0] | uses, part[1] + terms
        if uses:
            parts.append((uses, terms))
        else:
            loose.append(term)
    *most, last = [terms for _, terms in parts] or [[]]
    return [add(*terms) for terms in (*most, last + loose)]


def _is_leaf(e: Expression) -> bool:
    return isinstance(e, Statistic | Tangent)


def _made_from(leaf: Any) -> Any:
    """The same for leaves that can be had from the same products of points."""
    statistic = leaf.statistic if isinstance(leaf, Tangent) else leaf
    shared = statistic.kind in (STATISTICS["dot"], STATISTICS["sqdist"])
    return statistic.view, "dot" if shared else str(statistic.kind)


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
