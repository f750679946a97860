"""How far rounding may have moved each entry of a Gram matrix: a bound to first order.

Where terms cancel, what is left says nothing of the rounding in it; the terms do. So the bound
follows the formula from the statistics upwards, along with the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.expressions.arithmetic import FUNCTIONS
from mercer.expressions.interpreter import PairMatrix
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
)

# |g'(a)| from a and v = g(a).
_SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda a, v: v,
    "sqrt": lambda a, v: np.divide(0.5, v, out=np.zeros_like(v), where=v > 0),
    "tanh": lambda a, v: 1 - v * v,
    "log": lambda a, v: 1 / np.abs(a),
    "inverse_sqrt": lambda a, v: 0.5 * v**3,
    "positive": lambda a, v: np.where(np.asarray(a) > 0, 1.0, 0.0),
    "step": lambda a, v: np.zeros_like(v),
}


def rounding(pairs: PairMatrix) -> np.ndarray:
    """A bound on the error of each entry of ``pairs.gram()`` by rounding, shape (n, m)."""
    with np.errstate(all="ignore"):
        _, error = _Bound(pairs).follow(pairs.expression)
    return np.finfo(pairs.dtype).eps * np.broadcast_to(error, pairs.shape)


class _Bound:
    """The value of an expression on all pairs, and its error in units of the last place of one."""

    def __init__(self, pairs: PairMatrix):
        self.pairs = pairs
        self.eps = float(np.finfo(pairs.dtype).eps)

    def follow(self, node: Expression) -> tuple[Any, Any]:
        match node:
            case Constant():
                return node.value, abs(node.value)
            case Add():
                values, errors = zip(*map(self.follow, node.terms), strict=True)
                return sum(values), sum(errors)
            case Multiply():
                value, error = 1.0, 0.0
                for other, its_error in map(self.follow, node.factors):
                    value, error = value * other, np.abs(value) * its_error + np.abs(other) * error
                return value, error
            case Divide():
                a, a_error = self.follow(node.numerator)
                b, b_error = self.follow(node.denominator)
                value = np.where(b == 0, node.at_zero, a / b)
                return value, np.where(b == 0, 0, (a_error + np.abs(value) * b_error) / np.abs(b))
            case Power():
                return self._power(node)
            case Function():
                a, a_error = self.follow(node.operand)
                value = FUNCTIONS[node.name](np.array(a))
                return value, np.abs(value) + _SLOPES[node.name](a, value) * a_error
        return self._leaf(node)

    def _power(self, node: Power) -> tuple[Any, Any]:
        base, error = self.follow(node.base)
        exponent = float(self.follow(node.exponent)[0])
        value = np.power(base, exponent)
        # The slope where the base may be at most, which counts where the base itself is rounding.
        slope = abs(exponent) * np.power(np.abs(base) + self.eps * error, exponent - 1)
        return value, np.abs(value) + slope * error

    def _leaf(self, node: Any) -> tuple[Any, Any]:
        if isinstance(node, Diagonal | Point):
            term = self.pairs.side(node, node.side)
            value = term[None, :] if node.side else term[:, None]
            return value, np.abs(value)
        F, G = self.pairs.prepared(node)
        value = node.kind.block(F, G)
        size = np.abs(value) if node.kind.magnitude is None else node.kind.magnitude(F, G)
        return value, size
