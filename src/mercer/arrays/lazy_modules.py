"""Modules that are imported when something of them is first asked for."""

from __future__ import annotations

import importlib
import sys
from typing import Any


class LazyModule:
    """A module that is imported when something of it is first asked for.

    Private names, such as those that pytest and pickle ask any object for, are not of it.
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        if self._name not in sys.modules:
            try:
                importlib.import_module(self._name)
            except ModuleNotFoundError as error:
                missing = f"{attribute} of {self._name}, which is not installed"
                raise AttributeError(missing) from error
        return getattr(sys.modules[self._name], attribute)


torch: Any = LazyModule("torch")
