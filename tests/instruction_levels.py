"""The native core at each instruction-set level that this machine runs."""

from __future__ import annotations

import importlib
from typing import Any

from mercer import core


def module_of(level: str) -> Any:
    """The native module of a level."""
    return importlib.import_module(f"mercer.core.{core.MODULES[level]}")


def _levels() -> list[str]:
    try:
        highest = module_of("baseline").machine_level()
    except ImportError:
        return []
    return list(core.MODULES)[: list(core.MODULES).index(highest) + 1]


LEVELS = _levels()  # none where nothing is built
