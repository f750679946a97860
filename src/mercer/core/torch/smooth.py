"""torch with slopes that are finite everywhere."""

from __future__ import annotations

from typing import Any

from mercer.arrays import LazyModule

torch: Any = LazyModule("torch")


class Smooth:
    """torch, with a slope of zero where a root, a power or a quotient has none."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def sqrt(a: Any) -> Any:
        zero = a == 0
        return torch.where(zero, 0.0, torch.sqrt(torch.where(zero, 1.0, a)))

    @staticmethod
    def pow(a: Any, exponent: float) -> Any:
        zero = a == 0
        return torch.where(zero, a.detach() ** exponent, torch.where(zero, 1.0, a) ** exponent)

    @staticmethod
    def divide(a: Any, b: Any) -> Any:
        return a / torch.where(b == 0, 1.0, b)


SMOOTH = Smooth()
