"""The tiny language kernels are written in, its NumPy interpreter and its derivative."""

from mercer.expressions.derivative import derivative
from mercer.expressions.gradient import gradient
from mercer.expressions.interpreter import Pairs
from mercer.expressions.kept import KeptPoints, kept_points
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
    positive,
    sqrt,
    statistic,
    step,
    tanh,
)
from mercer.expressions.normalisation import normalised
from mercer.expressions.rounding import rounding
from mercer.expressions.simplification import lower
from mercer.expressions.statistics import STATISTICS, PairStatistic
from mercer.expressions.sums import Sum, is_summable
from mercer.expressions.tensors import TensorPairs, over
from mercer.expressions.views import Check, Circle, InRowUnits, Map, RowUnit, Scale, View, Within

__all__ = [
    "STATISTICS",
    "Check",
    "Circle",
    "Constant",
    "Diagonal",
    "Expression",
    "InRowUnits",
    "KeptPoints",
    "Map",
    "PairStatistic",
    "Pairs",
    "Parameter",
    "Point",
    "RowUnit",
    "Scale",
    "Statistic",
    "Sum",
    "TensorPairs",
    "View",
    "Within",
    "derivative",
    "diagonal",
    "divide",
    "exp",
    "expression",
    "gradient",
    "is_summable",
    "kept_points",
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
