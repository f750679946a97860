"""Figures are closed after each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _closed():
    yield
    import matplotlib.pyplot

    matplotlib.pyplot.close("all")
