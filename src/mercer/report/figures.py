"""Plots for the report, drawn from summaries, as SVG text."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

import numpy as np

BLUE, ORANGE, GREY = "#2f6db3", "#d9772b", "#555555"
STYLE: Any = {
    "axes.edgecolor": "#888888",
    "axes.grid": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "font.size": 10,
    "svg.fonttype": "path",
    "svg.hashsalt": "mercer",
}


def refuse_undrawable() -> None:
    """Raise, before any work is done, where plots cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise ImportError("reports need matplotlib: pip install 'mercer[cli]'")


def figures(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Title, SVG text and a sentence for each plot that the summary has the numbers for."""
    refuse_undrawable()
    import matplotlib

    found = []
    with matplotlib.rc_context(STYLE):
        for draw in (_predictions, _confusion, _importances, _density, _spectrum, _gaps):
            drawn = draw(summary)
            if drawn is not None:
                figure, title, words = drawn
                found.append((title, _svg(figure), words))
    return found


def _figure(width: float = 5.2, height: float = 3.9) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _predictions(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "true" not in held:
        return None
    true, predicted = np.array(held["true"]), np.array(held["predicted"])
    figure, axes = _figure()
    axes.scatter(
        predicted, true, s=9, color=BLUE, alpha=0.5, linewidths=0, rasterized=len(true) > 500
    )
    ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
    axes.plot(ends, ends, color=GREY, linewidth=1)
    axes.set(xlabel="predicted", ylabel=f"true {summary.get('target') or 'value'}")
    words = "One dot for each row held out. A perfect model has all dots on the line."
    return figure, "Predicted and true", words


def _confusion(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "counts" not in held or len(held["classes"]) > 30:
        return None
    counts, classes = np.array(held["counts"]), held["classes"]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = min(3.4 + 0.28 * len(classes), 9)
    figure, axes = _figure(size + 1, size)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    places = range(len(classes))
    short = [name if len(name) <= 14 else name[:13] + "…" for name in classes]
    long = max(map(len, short)) > 3
    axes.set_xticks(places, short, rotation=45 if long else 0, ha="right" if long else "center")
    axes.set_yticks(places, short)
    axes.set(xlabel="predicted", ylabel="true")
    axes.spines[:].set_visible(False)
    if len(classes) <= 15:
        for i in places:
            for j in places:
                colour = "white" if share[i, j] > 0.5 else "black"
                axes.text(j, i, counts[i, j], ha="center", va="center", color=colour, fontsize=9)
    words = "Rows held out, by their true class and the one predicted. Right answers are on the "
    return figure, "Which classes are confused", words + "diagonal."


def _importances(summary: dict[str, Any]) -> Any:
    lost = summary.get("importances")
    if not lost:
        return None
    shown = dict(list(lost.items())[:15])
    figure, axes = _figure(5.2, 1.2 + 0.26 * len(shown))
    names = [name if len(name) <= 28 else name[:27] + "…" for name in shown]
    axes.barh(range(len(shown)), list(shown.values()), color=BLUE, height=0.7)
    axes.set_yticks(range(len(shown)), names)
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel(f"loss of {summary['score']['name']}")
    words = "How much of the score is lost when the values of one column are shuffled."
    return figure, "Which columns matter", words


def _density(summary: dict[str, Any]) -> Any:
    grid = summary.get("grid")
    if not grid:
        return None
    from matplotlib.dates import ConciseDateFormatter

    figure, axes = _figure()
    names = list(grid["axes"])
    first = np.array(grid["axes"][names[0]])
    values = np.array(grid["density"])
    if len(names) == 1:
        axes.fill_between(first, values, color=BLUE, alpha=0.25, linewidth=0)
        axes.plot(first, values, color=BLUE)
        axes.plot(grid["points"][0], np.zeros(len(grid["points"][0])), "|", color=GREY, alpha=0.5)
        axes.set(xlabel=names[0], ylabel="density", ylim=(0, None))
    else:
        second = np.array(grid["axes"][names[1]])
        axes.contourf(first, second, values.T, levels=12, cmap="Blues")
        axes.scatter(*grid["points"], s=6, color=ORANGE, alpha=0.6, linewidths=0)
        axes.set(xlabel=names[0], ylabel=names[1])
    kinds = {column["name"]: column["kind"] for column in summary["columns"]}
    for name, axis in zip(names, (axes.xaxis, axes.yaxis), strict=False):
        if kinds[name] == "day":  # which matplotlib counts from 1970 too
            axis.axis_date()
            axis.set_major_formatter(ConciseDateFormatter(axis.get_major_locator()))
    return figure, "Density", "How the rows are spread; the marks are some of the rows themselves."


def _spectrum(summary: dict[str, Any]) -> Any:
    shares = summary.get("spectrum")
    if not shares:
        return None
    figure, axes = _figure()
    seen = [share for share in shares if share > 1e-15]
    axes.semilogy(np.arange(1, len(seen) + 1), seen, color=BLUE)
    axes.set(xlabel="eigenvalue", ylabel="share of the sum")
    many = int(np.searchsorted(np.cumsum(shares), 0.99)) + 1
    words = f"Eigenvalues of the kernel between {len(shares)} training points: "
    return figure, "What the kernel sees", words + f"{many} of them make up 99% of the sum."


def _gaps(summary: dict[str, Any]) -> Any:
    gaps = [gap for gap in (summary.get("certificate") or {}).get("gaps", []) if gap > 0]
    if len(gaps) < 3:
        return None
    figure, axes = _figure()
    axes.semilogy(range(1, len(gaps) + 1), gaps, color=BLUE)
    axes.set(xlabel="recorded step", ylabel="distance from the optimum")
    return (
        figure,
        "How the solver got there",
        "The certificate, as the solver measured it on the way.",
    )
