"""The core at every instruction-set level, in one process, and random tests without deadlines."""

from __future__ import annotations

import hypothesis
import pytest

from instruction_levels import LEVELS, module_of
from mercer import core

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


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
