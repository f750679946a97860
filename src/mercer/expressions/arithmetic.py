"""The arithmetic of expressions in NumPy or torch, for values of single points."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from mercer.arrays import LazyModule, backend
from mercer.core.torch.smooth import SMOOTH
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

torch: Any = LazyModule("torch")


def _divided(a: Any, b: Any, at_zero: float) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b == 0, at_zero, np.divide(a, b))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "divide": _divided,
    "power": np.power,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "log": np.log,
    "inverse_sqrt": inverse_sqrt,
    "positive": lambda a: np.maximum(a, 0),
    "step": lambda a: np.where(np.asarray(a) > 0, 1.0, 0.0),
}
TENSOR_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "divide": lambda a, b, at_zero: torch.where(b == 0, at_zero, SMOOTH.divide(a, b)),
    "power": pow,
    "exp": lambda a: torch.exp(a),
    "sqrt": lambda a: SMOOTH.sqrt(a),
    "tanh": lambda a: torch.tanh(a),
    "log": lambda a: torch.log(a),
    "inverse_sqrt": lambda a: torch.where(a == 0, 0, torch.rsqrt(torch.where(a == 0, 1, a))),
    "positive": lambda a: torch.clamp(a, min=0),
    "step": lambda a: (a > 0).to(a.dtype),
}


def evaluate(e: Expression, leaf: Callable[[Expression], Any]) -> Any:
    """The value of a formula, given the value of each of its leaves."""
    parts = [evaluate(child, leaf) for child in e.children()]
    match e:
        case Constant():
            return e.value
        case Add():
            return reduce(add, parts)
        case Multiply():
            return reduce(mul, parts)
        case Divide():
            return _functions(parts[1])["divide"](*parts, e.at_zero)
        case Power():
            base, exponent = parts
            exponent = int(exponent) if float(exponent).is_integer() else exponent
            return _functions(base)["power"](base, exponent)
        case Function():
            return _functions(parts[0])[e.name](parts[0])
    return leaf(e)


def _functions(values: Any) -> dict[str, Callable[..., Any]]:
    return FUNCTIONS if backend(values).executor == "native" else TENSOR_FUNCTIONS
