"""Plots of the report with a small panel per column, and of prediction intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.plots.axes import BLUE, GREY, ORANGE
from mercer.reports.drawing import INK, dots, literal_text, new_figure, shortened_label


def dependence(summary: dict[str, Any]) -> Any:
    """Partial dependence of the most important columns."""
    curves = summary.get("dependence") or []
    if not curves:
        return None

    def draw(axes: Any, curve: dict[str, Any]) -> None:
        mean, low, high = (np.array(curve[name]) for name in ("mean", "low", "high"))
        at = _places(axes, curve["values"])
        if at is None:
            places = np.arange(len(mean))
            axes.vlines(places, low, high, color=BLUE, alpha=0.4, linewidth=4)
            axes.plot(places, mean, "o", color=BLUE, markersize=5)
        else:
            axes.fill_between(at, low, high, color=BLUE, alpha=0.18, linewidth=0)
            axes.plot(at, mean, color=BLUE)

    what = _response(summary)
    figure = _panels(curves, draw, f"mean {what.split(' of ')[0]}")
    words = f"Mean {what} with one column set to each value; the band holds half of the rows."
    return figure, "Partial dependence", words


def what_if(summary: dict[str, Any]) -> Any:
    """The response for one row with single columns changed."""
    case = summary.get("what if") or {}
    if not case.get("columns"):
        return None

    def draw(axes: Any, curve: dict[str, Any]) -> None:
        at, response = _places(axes, curve["values"]), np.array(curve["response"])
        axes.axhline(case["response"], color=GREY, linewidth=0.8)
        if at is None:
            own = [v == curve["own"] for v in curve["values"]]
            axes.plot(np.arange(len(response)), response, "o", color=BLUE, markersize=5)
            axes.plot(np.flatnonzero(own), response[own], "o", color=ORANGE, markersize=7)
            return
        axes.plot(at, response, color=BLUE)
        if curve["own"] is not None:
            axes.plot(_coordinates([curve["own"]]), case["response"], "o", color=ORANGE)

    what = _response(summary)
    figure = _panels(case["columns"], draw, what.split(" of ")[0])
    words = (
        f"The {what} for row {case['row']}, the row with the largest error (true "
        f"{_number(case['true'])}, predicted {_number(case['predicted'])}), if one column had "
        "another value; the orange dot is its own value."
    )
    return figure, "What if: one row with other values", words


def residuals(summary: dict[str, Any]) -> Any:
    """Residuals against the most important columns."""
    found = summary.get("residuals by column") or []
    if not found:
        return None

    def draw(axes: Any, one: dict[str, Any]) -> None:
        residual = np.array(one["residual"])
        axes.axhline(0, color=GREY, linewidth=0.8)
        levels = list(dict.fromkeys(one["values"]))
        at = _places(axes, levels) if isinstance(levels[0], str) else None
        if at is None and isinstance(levels[0], str):
            for place, level in enumerate(levels):
                inside = residual[[v == level for v in one["values"]]]
                low, middle, high = np.quantile(inside, [0.25, 0.5, 0.75])
                axes.vlines(place, low, high, color=BLUE, alpha=0.4, linewidth=4)
                axes.plot(place, middle, "o", color=BLUE, markersize=5)
            return
        dots(axes, _coordinates(one["values"]), residual)
        axes.tick_params(labelsize=8)

    figure = _panels(found, draw, "true - predicted")
    words = "Held-out rows; a trend here is what the model misses. Categories: quartiles."
    return figure, "Residuals by column", words


def coverage(summary: dict[str, Any]) -> Any:
    """Observed against nominal coverage of prediction intervals."""
    rows = summary.get("prediction intervals") or []
    if not rows:
        return None
    figure, axes = new_figure(4.4, 3.9)
    nominal = [row["coverage"] for row in rows]
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    for row in rows:
        axes.vlines(row["coverage"], *row["interval"], color=BLUE, linewidth=1.2)
    axes.plot(nominal, [row["observed"] for row in rows], "o", color=BLUE, markersize=5)
    axes.set(xlabel="coverage asked for", ylabel="fraction of held-out rows inside")
    axes.set(xlim=(0.4, 1.02), ylim=(0.4, 1.02), aspect="equal")
    words = "Prediction intervals, with 95 % intervals of the fraction, ideally on the line."
    return figure, "Coverage of prediction intervals", words


def precision_recall(summary: dict[str, Any]) -> Any:
    """Precision against recall over all thresholds."""
    curve = summary.get("precision recall")
    if not curve:
        return None
    figure, axes = new_figure(4.4, 3.9)
    axes.axhline(curve["share"], color=GREY, linewidth=1)
    axes.plot(curve["recall"], curve["precision"], color=BLUE)
    if summary.get("threshold"):
        chosen = np.searchsorted(curve["threshold"], summary["threshold"]["value"])
        k = min(int(chosen), len(curve["recall"]) - 1)
        axes.plot(curve["recall"][k], curve["precision"][k], "o", color=INK, markersize=5)
    axes.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(0, 1.03))
    words = f"Of class {curve['class']} at every threshold; the grey line is its share of the rows"
    words += ", the dot the chosen threshold." if summary.get("threshold") else "."
    return figure, "Precision–recall curve", words


def _panels(
    items: list[dict[str, Any]], draw: Callable[[Any, dict[str, Any]], None], label: str
) -> Any:
    """A grid of small axes with a common vertical scale, one per column."""
    from matplotlib.figure import Figure

    columns = min(3, len(items))
    rows = -(-len(items) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.1 * rows + 0.2), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes, item in zip(grid, items, strict=False):
        draw(axes, item)
        axes.set_xlabel(literal_text(shortened_label(item["column"])), fontsize=9)
    for axes in grid[len(items) :]:
        axes.set_visible(False)
    grid[0].set_ylabel(label)
    return figure


def _coordinates(values: list[Any]) -> np.ndarray:
    return np.array(values, dtype="datetime64[D]" if isinstance(values[0], str) else float)


def _places(axes: Any, values: list[Any]) -> np.ndarray | None:
    """Numbers and dates as coordinates; None, with labelled ticks, for categories."""
    if not isinstance(values[0], str) or _is_date(values[0]):
        axes.tick_params(labelsize=8)
        return _coordinates(values)
    short = [literal_text(v if len(v) < 9 else v[:8] + "…") for v in values]
    turned = {"rotation": 40, "ha": "right"} if sum(map(len, short)) > 16 else {}
    axes.set_xticks(np.arange(len(values)), short, fontsize=8, **turned)
    axes.margins(x=0.25)
    return None


def _is_date(text: str) -> bool:
    return len(text) == 10 and text[4] == text[7] == "-" and text.replace("-", "").isdigit()


def _response(summary: dict[str, Any]) -> str:
    """What the curves show: the prediction, or the probability of a class."""
    if summary.get("task") == "regression":
        return "prediction"
    last = (summary.get("by class") or [{}])[-1].get("class")
    return f"probability of class {last}" if last else "probability"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)
