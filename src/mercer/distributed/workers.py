"""How worker processes are set, so that all of them find the same bits."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
from dask.base import get_scheduler
from distributed.protocol.numpy import deserialize_numpy_ndarray
from distributed.protocol.serialize import dask_deserialize
from threadpoolctl import threadpool_limits

from distributed import Client, get_worker


def current_client() -> Any:
    """The client of the scheduler that Dask would use now; None if it is in this process."""
    client = getattr(get_scheduler(), "__self__", None)
    return client if isinstance(client, Client) else None


def is_apart(worker: Any) -> bool:
    """Whether a worker has a process of its own; the client's is not ours to set."""
    return not worker.address.startswith("inproc:")


def settle_here() -> None:
    """Set the process that a task runs in, if it is a worker's."""
    try:
        worker = get_worker()
    except ValueError:  # Dask's threads, or none
        return
    if is_apart(worker):
        settle()


@functools.cache
def settle() -> None:
    """Set the process of a worker.

    It runs as many tasks at a time as it has threads, and each is given one native thread.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)
    dask_deserialize.register(np.ndarray)(_aligned)


def _aligned(header: dict, frames: list) -> np.ndarray:
    """An array that came from another process, beginning where a number may.

    Dask leaves it where the message has it, and NumPy sums what is not aligned some thousands at a
    time: in another order than where the array was made.
    """
    return np.require(deserialize_numpy_ndarray(header, frames), requirements="A")
