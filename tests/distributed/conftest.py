"""Blocks of tests stay as they are made, though all together are no second's work."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _blocks_as_they_are(monkeypatch):
    points = "mercer.distributed.points.resized"
    monkeypatch.setattr(points, lambda blocks, lengths, rows: (blocks, lengths))
