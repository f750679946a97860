"""Objects that every task of a fit needs: sent to each worker once, and kept there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from dask.base import tokenize

from distributed import WorkerPlugin
from mercer.distributed.workers import current_client, is_apart, settle

# What this process keeps, by place.
_HERE: dict[str, Any] = {}


class Kept:
    """Stands for an object in tasks, and travels without it.

    Equal objects of two fits at a time have the same token, and places of their own.
    """

    def __init__(self, token: str, place: str):
        self.token, self.place = token, place

    @property
    def value(self) -> Any:
        return _HERE[self.place]

    def __dask_tokenize__(self) -> str:
        return self.token


class _Keeping(WorkerPlugin):
    """Brings an object to all workers, those that join later or again included.

    It is the scheduler that has it, so that a lost worker loses nothing.
    """

    def __init__(self, place: str, value: Any):
        self.name, self.place, self.value = f"mercer-{place}", place, value

    def setup(self, worker: Any) -> None:
        if is_apart(worker):
            settle()
            _HERE[self.place] = self.value

    def teardown(self, worker: Any) -> None:
        if is_apart(worker):
            _HERE.pop(self.place, None)


@contextmanager
def kept(value: Any, *identity: Any) -> Iterator[Kept]:
    """For a while, an object that tasks can name; ``identity`` distinguishes it from others."""
    place, client = uuid4().hex, current_client()
    _HERE[place] = value
    try:
        if client is not None:
            client.register_plugin(_Keeping(place, value))
        yield Kept(tokenize(*identity), place)
    finally:
        _HERE.pop(place, None)
        if client is not None and client.status == "running":
            with suppress(Exception):  # the fit is over, or reports an error of its own
                client.unregister_worker_plugin(f"mercer-{place}")
