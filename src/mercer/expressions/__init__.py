"""The tiny language kernels are written in, its NumPy interpreter and its derivative."""

from mercer.expressions.derivative import derivative
from mercer.expressions.gradient import gradient
from mercer.expressions.interpreter import PairMatrix
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
from mercer.expressions.packed import PackedPoints, packed_points, small_gram
from mercer.expressions.rounding import rounding
from mercer.expressions.simplification import lower
from mercer.expressions.statistics import STATISTICS, PairStatistic
from mercer.expressions.sums import Sum, is_summable
from mercer.expressions.tensors import TensorPairMatrix, over
from mercer.expressions.views import (
    Check,
    Circle,
    InRowUnits,
    Logistic,
    Map,
    RowUnit,
    Scale,
    Shift,
    View,
    Within,
)

__all__ = [
    "STATISTICS",
    "Check",
    "Circle",
    "Constant",
    "Diagonal",
    "Expression",
    "InRowUnits",
    "Logistic",
    "Map",
    "PackedPoints",
    "PairMatrix",
    "PairStatistic",
    "Parameter",
    "Point",
    "RowUnit",
    "Scale",
    "Shift",
    "Statistic",
    "Sum",
    "TensorPairMatrix",
    "View",
    "Within",
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
    "packed_points",
    "positive",
    "rounding",
    "small_gram",
    "sqrt",
    "statistic",
    "step",
    "tanh",
]
