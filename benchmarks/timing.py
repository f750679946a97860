"""What the scripts share: the best times of routines, and a line on the machine they ran on."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import core

clock = time.perf_counter


def count_processor_time() -> None:
    """From now on seconds are the processor's, all threads together."""
    global clock
    clock = time.process_time


def in_turns(
    repeats: int, *routines: Callable[[], Any], rest: float = 0.0
) -> list[tuple[float, Any]]:
    """Best time and last value of each; they take turns, so that all meet the same machine."""
    best, values = [np.inf] * len(routines), [None] * len(routines)
    for _ in range(repeats):
        for k, routine in enumerate(routines):
            time.sleep(rest)
            start = clock()
            values[k] = routine()
            best[k] = min(best[k], clock() - start)
    return list(zip(best, values, strict=True))


def timed(routine: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Best time and last value of one."""
    return in_turns(repeats, routine)[0]


def machine() -> str:
    """The date, the processor and the level of the core."""
    return (
        f"{datetime.date.today()}  {platform.machine()}  {os.cpu_count()} cores  "
        f"core: {core.level()}"
    )
