"""The native core at each instruction-set level that is built and that this machine runs."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
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
    runs = list(core.MODULES)[: list(core.MODULES).index(highest) + 1]
    return [level for level in runs if find_spec(f"mercer.core.{core.MODULES[level]}")]


LEVELS = _levels()  # none where nothing is built
