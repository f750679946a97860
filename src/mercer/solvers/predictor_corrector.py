"""What interior-point methods share: how far a step may go."""

from __future__ import annotations

import numpy as np

STEP_TO_BOUNDARY = 0.995


def largest_step(*bounded: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
    """How far values stay positive as they change, at most 1 / 0.995.

    Each of ``bounded`` has a mask of the values that count, the values, and their changes.
    """
    steps = [1.0 / STEP_TO_BOUNDARY]
    for present, value, change in bounded:
        falling = present & (change < 0)
        steps.append(np.min(-value[falling] / change[falling], initial=np.inf))
    return min(steps)
