"""Blocks of tests stay as they are made, though all together are no second's work; none hangs."""

from __future__ import annotations

import signal

import pytest

SECONDS = 900


@pytest.fixture(autouse=True)
def _blocks_as_they_are(monkeypatch):
    points = "mercer.distributed.points.resized"
    monkeypatch.setattr(points, lambda blocks, lengths, rows: (blocks, lengths))


@pytest.fixture(autouse=True)
def _bounded_in_time():
    """A cluster that waits for ever fails its test."""

    def late(*_):
        raise TimeoutError(f"not done after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
