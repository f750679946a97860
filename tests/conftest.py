"""The core at every instruction-set level, in one process."""

from __future__ import annotations

import pytest

from instruction_levels import LEVELS, module_of
from mercer import core


def use(level: str, monkeypatch: pytest.MonkeyPatch) -> str:
    module = None if level == "python" else module_of(level)
    monkeypatch.setattr(core, "_native", lambda: module)
    monkeypatch.setattr(core, "level", lambda: level)
    return level


@pytest.fixture(params=["python", *LEVELS])
def any_level(request, monkeypatch):
    """Whatever goes through the core is run at each level in turn, the NumPy twin included."""
    return use(request.param, monkeypatch)


@pytest.fixture(params=LEVELS)
def native_level(request, monkeypatch):
    """The same without the twin."""
    return use(request.param, monkeypatch)
