"""Objects that every task of a fit needs: sent to each worker once, and kept there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dask.base import get_scheduler, tokenize
from threadpoolctl import threadpool_limits

from distributed import Client, WorkerPlugin

# What this process keeps, by token.
_HERE: dict[str, Any] = {}


class Kept:
    """Stands for an object in tasks, and travels without it."""

    def __init__(self, token: str):
        self.token = token

    @property
    def value(self) -> Any:
        return _HERE[self.token]

    def __dask_tokenize__(self) -> str:
        return self.token


class _Keeping(WorkerPlugin):
    """Brings an object to all workers, those that join later or again included.

    It is the scheduler that has it, so that a lost worker loses nothing. A worker runs as many
    tasks at a time as it has threads; each is given one native thread, which also makes sums by
    BLAS the same on all workers.
    """

    idempotent = True

    def __init__(self, token: str, value: Any):
        self.name, self.token, self.value = f"mercer-{token}", token, value

    def setup(self, worker: Any) -> None:
        # The client's own process is not ours to limit.
        if self.token not in _HERE:
            _HERE[self.token] = self.value
            os.environ["OMP_NUM_THREADS"] = "1"
            threadpool_limits(1)

    def teardown(self, worker: Any) -> None:
        _HERE.pop(self.token, None)


@contextmanager
def kept(value: Any, *identity: Any) -> Iterator[Kept]:
    """For a while, an object that tasks can name; ``identity`` tells it from others."""
    token = tokenize(*identity)
    client = current_client()
    _HERE[token] = value
    if client is not None:
        client.register_plugin(_Keeping(token, value))
    try:
        yield Kept(token)
    finally:
        _HERE.pop(token, None)
        if client is not None and client.status == "running":
            with suppress(Exception):  # the fit is over, or has an error of its own to tell
                client.unregister_worker_plugin(f"mercer-{token}")


def current_client() -> Any:
    """The client of the scheduler that Dask would use now; None if it is in this process."""
    client = getattr(get_scheduler(), "__self__", None)
    return client if isinstance(client, Client) else None
