"""The plot of the parts of a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.plots.axes import BLUE, GREY
from mercer.reports.drawing import literal_text, shortened_label


def parts(summary: dict[str, Any]) -> Any:
    """The data with the fitted sum, and each part below it."""
    found = summary.get("structure")
    if not found:
        return None
    from matplotlib.figure import Figure

    curves = ([found["whole"]] if "whole" in found else []) + found["parts"]
    if not curves:
        return None
    figure = Figure(figsize=(7.8, 1.9 * len(curves) + 0.4), layout="constrained")
    grid = figure.subplots(len(curves), 1, squeeze=False)[:, 0]
    for axes, curve in zip(grid, curves, strict=True):
        is_whole = "words" not in curve
        if is_whole:
            points = found["points"]
            axes.plot(_places(points["x"]), points["y"], ".", color=GREY, markersize=3)
            axes.axvline(_places([curve["end"]])[0], color=GREY, linewidth=0.8, linestyle="--")
        x = _places(curve["x"])
        axes.fill_between(x, curve["low"], curve["high"], color=BLUE, alpha=0.2, linewidth=0)
        axes.plot(x, curve["mean"], color=BLUE, linewidth=1.2)
        title = "the sum, continued beyond the data" if is_whole else curve["words"]
        axes.set_title(literal_text(title), fontsize=9, loc="left")
        axes.tick_params(labelsize=8)
        if curve is curves[-1] or curve["column"] != curves[-1]["column"]:
            axes.set_xlabel(literal_text(shortened_label(curve["column"])), fontsize=9)
    words = "Posterior means with bands of two standard deviations, that of the sum for new values."
    return figure, "Parts of the target", words


def _places(values: list) -> np.ndarray:
    """Numbers or dates of an axis."""
    is_dates = isinstance(values[0], str)
    return np.array(values, dtype="datetime64[s]" if is_dates else float)
