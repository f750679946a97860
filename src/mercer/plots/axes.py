"""What all displays share: colours, axes of their own, and no more points than can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np

BLUE, ORANGE, GREY = "#2b6ca3", "#d9822b", "#888888"
# Points of a rug or a scatter beyond which a part of them is drawn.
MANY = 2000
# Support vectors beyond this many are not circled.
MOST_CIRCLES = 500


def pyplot() -> Any:
    """matplotlib.pyplot, or an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error}; plots need matplotlib: pip install 'mercer[plots]'", name=error.name
        ) from error
    return plt


def axes_or_new(ax: Any) -> Any:
    """These axes, or those of a new figure."""
    if ax is None:
        _, ax = pyplot().subplots(layout="constrained")
    return ax


def count_along(axis: Any) -> None:
    """Ticks at whole numbers, however few there are."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def some(n: int, most: int = MANY) -> np.ndarray:
    """Which of n points to draw, in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def ink(ax: Any) -> str:
    """Black on bright axes, white on dark ones."""
    ground = next((c for c in (ax.get_facecolor(), ax.figure.get_facecolor()) if c[3] > 0), None)
    bright = ground is None or np.dot(ground[:3], [0.299, 0.587, 0.114]) > 0.5
    return "black" if bright else "white"


def circle(ax: Any, points: np.ndarray | None) -> Any:
    """Circles about points, or None where there are none or too many."""
    if points is None or len(points) > MOST_CIRCLES:
        return None
    style = {"s": 60, "facecolors": "none", "edgecolors": ink(ax), "linewidths": 0.6}
    return ax.scatter(*points.T, **style)
