"""The core at every instruction-set level, in one process."""

from __future__ import annotations

import importlib

import pytest

from mercer import core


def native_levels() -> list[str]:
    """Those that this machine runs; none where nothing is built."""
    try:
        highest = importlib.import_module("mercer.core._baseline").machine_level()
    except ImportError:
        return []
    return list(core.MODULES)[: list(core.MODULES).index(highest) + 1]


def use(level: str, monkeypatch: pytest.MonkeyPatch) -> str:
    name = core.MODULES.get(level)
    module = importlib.import_module(f"mercer.core.{name}") if name else None
    monkeypatch.setattr(core, "_native", lambda: module)
    monkeypatch.setattr(core, "level", lambda: level)
    return level


@pytest.fixture(params=["python", *native_levels()])
def any_level(request, monkeypatch):
    """Whatever goes through the core is run at each level in turn, the NumPy twin included."""
    return use(request.param, monkeypatch)


@pytest.fixture(params=native_levels())
def native_level(request, monkeypatch):
    """The same without the twin."""
    return use(request.param, monkeypatch)
