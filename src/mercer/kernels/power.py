"""Powers of kernels, with their proofs and feature maps."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Integral, Real

import numpy as np

from mercer._sklearn import Interval
from mercer.arrays import as_numbers
from mercer.expressions import Expression, View
from mercer.kernels import feature_maps as maps
from mercer.kernels.algebra import bracketed, judge_expanded
from mercer.kernels.domains import Domain
from mercer.kernels.expansions import Expansion
from mercer.kernels.kernel import Kernel
from mercer.kernels.validity import Validity, valid


class Power(Kernel):
    """k(x, z) ** exponent.

    Parameters
    ----------
    kernel : Kernel
    exponent : int, or a positive number for infinitely divisible kernels
    """

    precedence = 2
    _parameter_constraints: dict = {
        "kernel": [Kernel],
        "exponent": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, kernel: Kernel, exponent: float):
        self.kernel = kernel
        self.exponent = exponent

    def _check(self) -> None:
        self._validate_params()
        whole = float(as_numbers(self.exponent)).is_integer()
        if not whole and not self.kernel.is_infinitely_divisible:
            raise ValueError(
                f"exponent={self.exponent!r} is not an integer, and {self.kernel!r} is not "
                "infinitely divisible, so this power is not a kernel; use an integer exponent"
            )

    def build(self, view: View, path: str) -> Expression:
        self._check()
        return self.kernel.build(view, path + "kernel__") ** float(as_numbers(self.exponent))

    @property
    def domain(self) -> Domain:
        return self.kernel.domain

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    @property
    def distance(self) -> Hashable | None:
        return self.kernel.distance

    @property
    def is_infinitely_divisible(self) -> bool:
        return self.kernel.is_infinitely_divisible and self.exponent > 0

    def judge(self) -> Validity:
        self._check()
        inner = self.kernel.judge()
        claim = f"{self!r} is a kernel"
        if self.exponent == 0:
            return valid(claim, "the constant 1")
        if inner.status == "valid":
            if float(self.exponent).is_integer():
                return valid(claim, "integer power: a repeated product", inner.proof)
            return valid(claim, "power of an infinitely divisible kernel", inner.proof)
        return judge_expanded(self, "power")

    def expand(self) -> Expansion:
        self._check()
        if not float(self.exponent).is_integer():
            return super().expand()
        return self.kernel.expand() ** int(self.exponent)

    def feature_map(self) -> maps.FeatureMap:
        self._check()
        if not float(self.exponent).is_integer():
            return super().feature_map()
        maps.refuse_degree(int(self.exponent))
        return maps.MonomialMap({int(self.exponent): 0.0}, inner=self.kernel.feature_map())

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        self._check()
        if not float(self.exponent).is_integer():
            return super().frequencies(rng, n, d)
        draws = [self.kernel.frequencies(rng, n, d) for _ in range(int(self.exponent))]
        return np.sum(draws, axis=0) if draws else np.zeros((n, d))

    def __repr__(self) -> str:
        exponent = self.exponent
        text = repr(int(exponent)) if isinstance(exponent, Integral) else repr(float(exponent))
        return f"{bracketed(self.kernel)} ** {text}"
