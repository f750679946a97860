"""What the native module and its NumPy twin both run: statistics, terms and a short program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np


class Kind(IntEnum):
    """The pair statistics, numbered as in statistics.hpp."""

    DOT = 0
    SQDIST = 1
    L1 = 2
    MINSUM = 3
    CHI2 = 4
    CONJUNCTION = 5
    DIFFERENCE_PRODUCT = 6
    SIGN_PRODUCT = 7
    COMMON = 8
    DIFFERENT = 9
    GIVEN = 10


class Op(IntEnum):
    """The operations, numbered as in program.hpp, which says what each does."""

    ROW = 0
    COLUMN = 1
    CONSTANT = 2
    AFFINE = 3
    ADD = 4
    MULTIPLY = 5
    ACCUMULATE = 6
    DIVIDE = 7
    INTEGER_POWER = 8
    REAL_POWER = 9
    EXP = 10
    EXP_NEGATIVE = 11
    SQRT = 12
    TANH = 13
    LOG = 14
    INVERSE_SQRT = 15
    POSITIVE = 16
    STEP = 17


class Source(IntEnum):
    """Where an operation finds its second operand, numbered as in program.hpp."""

    TILE = 0
    ROW = 1
    COLUMN = 2


@dataclass(frozen=True)
class Program:
    """An expression as operations on registers; the first registers hold the statistics.

    Attributes
    ----------
    operations : (k, 5) int32 array of (op, out, a, b, source of b)
    constants : (k, 2) float64 array of (c, d)
    registers : int
    result : int
        The register that holds the value at the end.
    """

    operations: np.ndarray
    constants: np.ndarray
    registers: int
    result: int


class Leaf(NamedTuple):
    """One statistic of n points X with m points Y, as rows of C-ordered arrays.

    For squared distances X and Y are moved towards the origin, and the points as given and the
    squared norms come along. A ``block`` holds values computed beforehand: dot products for squared
    distances, the statistic itself for the others. Of tensors, all are tensors. Of points whose
    features are 0 or 1, COMMON and DIFFERENT take the bits, seen as numbers of their size.
    """

    kind: Kind
    X: Any
    Y: Any
    X_given: Any
    Y_given: Any
    X_norms: Any = None
    Y_norms: Any = None
    block: Any = None
