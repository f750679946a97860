"""The arithmetic of expressions in NumPy, for values of single points."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from mercer.expressions.nodes import (
    Add,
    Constant,
    Divide,
    Expression,
    Function,
    Multiply,
    Power,
    inverse_sqrt,
)

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "log": np.log,
    "inverse_sqrt": inverse_sqrt,
    "positive": lambda a: np.maximum(a, 0),
    "step": lambda a: np.where(np.asarray(a) > 0, 1.0, 0.0),
}


def evaluate(e: Expression, leaf: Callable[[Expression], Any]) -> Any:
    """The value of a formula, given the value of each of its leaves."""
    parts = [evaluate(child, leaf) for child in e.children()]
    match e:
        case Constant():
            return e.value
        case Add():
            return reduce(np.add, parts)
        case Multiply():
            return reduce(np.multiply, parts)
        case Divide():
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(parts[1] == 0, e.at_zero, np.divide(*parts))
        case Power():
            base, exponent = parts
            return np.power(base, int(exponent) if float(exponent).is_integer() else exponent)
        case Function():
            return FUNCTIONS[e.name](parts[0])
    return leaf(e)
