"""What scikit-learn's parameter validation accepts for the parameters most estimators share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from mercer._sklearn import Interval, StrOptions
from mercer.estimators.inputs import INDEFINITE
from mercer.kernels import Kernel

KERNEL: dict = {
    "kernel": [str, Kernel, callable],
    "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale", "auto"}), None],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "kernel_params": [dict, None],
    "indefinite": [StrOptions(INDEFINITE)],
}

CLASS_WEIGHT: dict = {"class_weight": [dict, StrOptions({"balanced"}), None]}


def at_least(lowest: int) -> Any:
    """Whole numbers from ``lowest`` on."""
    return Interval(Integral, lowest, None, closed="left")


POSITIVE = Interval(Real, 0, None, closed="neither")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
