"""Frozen dataclasses that remember their hash: expressions are trees, and looked up often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_KEPT = "_hash"


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """A frozen dataclass whose hash is computed once."""
    made: Any = dataclass(frozen=True)(cls)
    computed = made.__hash__

    def __hash__(self: Any) -> int:
        kept = vars(self)
        if _KEPT not in kept:
            kept[_KEPT] = computed(self)
        return kept[_KEPT]

    def __getstate__(self: Any) -> dict[str, Any]:
        # Another process has other hashes.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    made.__hash__, made.__getstate__ = __hash__, __getstate__
    return made
