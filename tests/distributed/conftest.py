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


@pytest.fixture
def one_thread():
    """Tasks are done here and in turn, without a cluster."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def passes(monkeypatch):
    """The names of the passes that were computed; the one of the number set fails."""
    from mercer.distributed import reduction

    class Passes(list):
        fails = None

    done, computed = Passes(), reduction._computed

    def noted(name, *arguments):
        if len(done) == done.fails:
            raise ConnectionError("the scheduler is gone")
        done.append(name)
        return computed(name, *arguments)

    monkeypatch.setattr(reduction, "_computed", noted)
    return done
