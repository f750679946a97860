"""The tiny language kernels are written in, its NumPy interpreter and its derivative."""

from mercer.expressions.derivative import derivative
from mercer.expressions.gradient import gradient
from mercer.expressions.interpreter import Pairs
from mercer.expressions.nodes import (
    Constant,
    Diagonal,
    Expression,
    Parameter,
    Point,
    Statistic,
    diagonal,
    divide,
    exp,
    expression,
    normalised,
    positive,
    sqrt,
    statistic,
    step,
    tanh,
)
from mercer.expressions.rounding import rounding
from mercer.expressions.simplification import lower
from mercer.expressions.statistics import STATISTICS, PairStatistic
from mercer.expressions.sums import Sum, is_summable
from mercer.expressions.tensors import TensorPairs, over
from mercer.expressions.views import Check, Circle, Map, Scale, View

__all__ = [
    "STATISTICS",
    "Check",
    "Circle",
    "Constant",
    "Diagonal",
    "Expression",
    "Map",
    "PairStatistic",
    "Pairs",
    "Parameter",
    "Point",
    "Scale",
    "Statistic",
    "Sum",
    "TensorPairs",
    "View",
    "derivative",
    "diagonal",
    "divide",
    "exp",
    "expression",
    "gradient",
    "is_summable",
    "lower",
    "normalised",
    "over",
    "positive",
    "rounding",
    "sqrt",
    "statistic",
    "step",
    "tanh",
]
