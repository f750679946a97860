"""Memory: what one temporary may take, and what this machine has."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Iterator
from contextlib import suppress

import sklearn

CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def memory_budget() -> int:
    """Bytes that one temporary may take: scikit-learn's ``working_memory`` setting."""
    return int(sklearn.get_config()["working_memory"] * 2**20)


def physical_memory() -> int | None:
    """Bytes of memory this machine has for us, or None where the system does not say."""
    limits = [_address_space(), _container(), _windows_memory()]
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((limit for limit in limits if limit is not None), default=None)


def _address_space() -> int | None:
    """Bytes of addresses that this process may have (``ulimit -v``), or None for no limit."""
    try:
        resource = importlib.import_module("resource")
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    except (ImportError, OSError, ValueError):  # another system than Unix
        return None
    return None if limit == resource.RLIM_INFINITY else int(limit)


@functools.cache
def _container() -> int | None:
    """Bytes of memory that the container may have that this process is in, or None."""
    for path in CONTAINER_LIMITS:
        try:
            with open(path) as file:
                return int(file.read())  # or "max"
        except (OSError, ValueError):
            continue
    return None


def _windows_memory() -> int | None:
    """Bytes of memory as Windows reports them, or None on other systems."""
    kernel32 = getattr(getattr(ctypes, "windll", None), "kernel32", None)
    kilobytes = ctypes.c_ulonglong()
    if kernel32 is None or not kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes)):
        return None
    return 1024 * kilobytes.value


def row_blocks(n: int, bytes_per_row: float, budget: float | None = None) -> Iterator[slice]:
    """Slices that cover ``range(n)``, each of as many rows as fit the budget, at least one."""
    budget = memory_budget() if budget is None else budget
    step = max(1, int(budget // max(1.0, bytes_per_row)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
