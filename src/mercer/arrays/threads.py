"""One thread of BLAS for small factorisations."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# Rows up to which one thread decomposes a matrix in the time that two take, on two cores of an AMD
# EPYC; where other processes use these cores too, two take 2 to 30 times as long.
ONE_THREAD_ROWS = 300

# The same for many Cholesky factorisations in a row, as in searches for hyperparameters: one thread
# takes 1.5 times as long as two of an idle machine, which busy ones exceed 20 times.
ONE_THREAD_CHOLESKY = 1000

# One that a signal's handler may take again.
_lock = threading.RLock()
_inside: list[Any] = []
if hasattr(os, "register_at_fork"):
    # A child has none of its parent's other threads, which would never give the lock back.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


@cache
def _controller() -> ThreadpoolController:
    """Of the libraries that are loaded, which takes longer to find out than a small fit."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS in one thread, until the last of those that ask for it at the same time is through.

    Its threads wait for each other by spinning. Of a few hundred rows they have little to share
    out, and on a machine with other work to do, or with fewer processors than it seems to have,
    the waiting takes a hundred times as long as the work.
    """
    with _lock:
        # The first knows how many there were; those that come later share its limits.
        _inside.append(_inside[0] if _inside else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limits = _inside.pop()
            if not _inside:
                limits.restore_original_limits()


def blas_threads(n: int, most: int = ONE_THREAD_ROWS) -> AbstractContextManager[None]:
    """One thread of BLAS for decompositions of matrices of n rows, if that is at most so many."""
    return one_blas_thread() if n <= most else nullcontext()
