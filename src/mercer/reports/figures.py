"""Plots of the report as SVG text whose colours follow the theme of the page."""

from __future__ import annotations

import io
import re
from html import escape
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from mercer.plots.axes import BLUE, GREY, ORANGE

INK = "#1b1b1b"
# Colours of the plots and the variables of the page that replace them.
THEME = {INK: "var(--ink)", GREY: "var(--muted)", BLUE: "var(--blue)", ORANGE: "var(--orange)"}
STYLE: Any = {
    "axes.edgecolor": GREY,
    "axes.facecolor": "none",
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.facecolor": "none",
    "font.size": 10,
    "legend.frameon": False,
    "savefig.facecolor": "none",
    "svg.fonttype": "path",
    "svg.hashsalt": "mercer",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
# Most bars of a plot, and most letters of a label.
MOST_BARS, LONGEST_LABEL = 15, 24


class Plot(NamedTuple):
    """A plot of the report: its section, title, SVG text and caption."""

    section: str
    title: str
    svg: str
    words: str


def refuse_undrawable() -> None:
    """Raise ImportError if matplotlib is missing, before any work is done."""
    if find_spec("matplotlib") is None:
        raise ImportError("reports need matplotlib: pip install 'mercer[cli]'")


def figures(summary: dict[str, Any], section: int = 0) -> list[Plot]:
    """The plots that the summary has numbers for, with ids that differ between sections."""
    refuse_undrawable()
    import matplotlib

    found = []
    with matplotlib.rc_context(STYLE):
        for place, drawers in DRAWERS.items():
            for draw in drawers:
                drawn = draw(summary)
                if drawn is not None:
                    figure, title, words = drawn
                    prefix = f"s{section}p{len(found)}-"
                    found.append(Plot(place, title, _svg(figure, title, prefix), words))
    return found


def _figure(width: float = 5.2, height: float = 3.7) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Any, title: str, prefix: str) -> str:
    """The SVG element alone, without comments, with colours of the page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for mark in ('id="', "url(#", 'href="#'):
        svg = svg.replace(mark, mark + prefix)
    for colour, variable in THEME.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    width = figure.get_figwidth() / 5.2 * 30
    style = f'role="img" aria-label="{escape(title)}" style="max-width:{width:.4g}rem"'
    return svg.replace("<svg", f"<svg {style}", 1).strip()


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"


def _bars(axes: Any, values: dict[str, float], errors: list[float] | None = None) -> None:
    """Horizontal bars, the first at the top."""
    places = range(len(values))
    axes.barh(places, list(values.values()), color=BLUE, height=0.65)
    if errors is not None:
        axes.errorbar(
            list(values.values()), places, xerr=errors, fmt="none", ecolor=INK, elinewidth=1
        )
    axes.set_yticks(places, [_plain(_short(name)) for name in values])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.locator_params(axis="x", nbins=6)


def _plain(text: str) -> str:
    """Text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


def _predictions(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "true" not in held:
        return None
    figure, axes = _figure()
    true, predicted = np.array(held["true"]), np.array(held["predicted"])
    _dots(axes, predicted, true)
    ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
    axes.plot(ends, ends, color=GREY, linewidth=1)
    axes.set(xlabel="predicted", ylabel=_plain(f"true {summary.get('target') or 'value'}"))
    return figure, "Predicted and true values", "One dot per held-out row, ideally on the line."


def _residuals(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "true" not in held:
        return None
    figure, axes = _figure()
    true, predicted = np.array(held["true"]), np.array(held["predicted"])
    _dots(axes, predicted, true - predicted)
    axes.axhline(0, color=GREY, linewidth=1)
    edges = np.quantile(predicted, np.linspace(0, 1, 9))
    place = np.clip(np.searchsorted(edges, predicted, side="right") - 1, 0, 7)
    inside = [k for k in range(8) if np.sum(place == k) >= 5]
    if len(inside) > 2:
        middle = [np.median(predicted[place == k]) for k in inside]
        for q, style in ((0.1, "--"), (0.5, "-"), (0.9, "--")):
            line = [np.quantile((true - predicted)[place == k], q) for k in inside]
            axes.plot(middle, line, style, color=ORANGE, linewidth=1.2)
    axes.set(xlabel="predicted", ylabel="true - predicted")
    words = "Residuals of held-out rows, with their median and the 10 % and 90 % quantiles."
    return figure, "Residuals", words


def _dots(axes: Any, x: np.ndarray, y: np.ndarray) -> None:
    axes.scatter(x, y, s=9, color=BLUE, alpha=0.5, linewidths=0, rasterized=len(x) > 500)


def _confusion(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "counts" not in held or len(held["classes"]) > 30:
        return None
    from matplotlib.patches import Rectangle

    counts, classes = np.array(held["counts"]), held["classes"]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = min(2.6 + 0.3 * len(classes), 9)
    figure, axes = _figure(size + 1.2, size)
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            cell = {"facecolor": BLUE, "alpha": 0.75 * share[i, j], "linewidth": 0}
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **cell))
            if len(classes) <= 15:
                axes.text(j, i, str(count), ha="center", va="center", fontsize=9)
    n = len(classes)
    axes.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    short = [_plain(_short(name)) for name in classes]
    turned = {"rotation": 45, "ha": "right"} if max(map(len, short)) > 3 else {}
    axes.set_xticks(range(n), short, **turned)
    axes.set_yticks(range(n), short)
    axes.tick_params(length=0)
    axes.set(xlabel="predicted", ylabel="true")
    axes.spines[:].set_visible(False)
    words = "Held-out rows by true and predicted class; shades are shares of the true class."
    return figure, "Confusion matrix", words


def _roc(summary: dict[str, Any]) -> Any:
    curve = summary.get("roc")
    if not curve:
        return None
    figure, axes = _figure(4.4, 3.9)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    axes.plot(curve["false"], curve["true"], color=BLUE)
    axes.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    area = next((s["value"] for s in summary.get("scores", []) if s["name"] == "AUC"), None)
    words = "Held-out rows at every threshold" + (f"; area {area:.3f}." if area else ".")
    return figure, "ROC curve", words


def _precision_recall(summary: dict[str, Any]) -> Any:
    curve = summary.get("precision recall")
    if not curve:
        return None
    figure, axes = _figure()
    axes.plot(curve["threshold"], curve["precision"], color=BLUE, label="precision")
    axes.plot(curve["threshold"], curve["recall"], color=ORANGE, label="recall")
    axes.axhline(curve["share"], color=GREY, linewidth=1)
    if summary.get("threshold"):
        axes.axvline(summary["threshold"]["value"], color=INK, linewidth=1, linestyle=":")
    axes.legend(loc="best", fontsize=9)
    axes.set(xlabel=_plain(f"threshold on the probability of {curve['class']}"), ylim=(0, 1.03))
    words = f"Of class {curve['class']}; the grey line is its share of the rows"
    words += ", the dotted line the chosen threshold." if summary.get("threshold") else "."
    return figure, "Precision and recall by threshold", words


def _calibration(summary: dict[str, Any]) -> Any:
    bins = summary.get("calibration")
    if not bins or len(bins) < 2:
        return None
    figure, axes = _figure(4.4, 3.9)
    x = np.array([b["mean probability"] for b in bins])
    y = np.array([b["observed"] for b in bins])
    ends = np.array([b["interval"] for b in bins])
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    axes.vlines(x, ends[:, 0], ends[:, 1], color=BLUE, linewidth=1)
    axes.plot(x, y, "o", color=BLUE, markersize=5)
    for b, high in zip(bins, ends[:, 1], strict=True):
        if len(bins) <= 10:
            place = (b["mean probability"], min(high + 0.015, 1.03))
            axes.annotate(f"{b['rows']:,}", place, fontsize=7, ha="center", va="bottom")
    axes.set(xlabel="predicted probability", ylabel="observed fraction", aspect="equal")
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.1))
    words = "Bins of held-out rows with 95 % intervals and the number of rows, ideally on the line."
    return figure, "Calibration", words


def _comparison(summary: dict[str, Any]) -> Any:
    rows = [r for r in summary.get("comparison") or [] if r["value"] is not None]
    if len(rows) < 3:
        return None
    figure, axes = _figure(5.2, 1.1 + 0.34 * len(rows))
    for place, row in enumerate(rows):
        low, high = (row["value"] if end is None else end for end in row["interval"])
        colour = ORANGE if place == 0 else BLUE
        axes.plot([low, high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
        axes.plot(row["value"], place, "o", color=colour, markersize=6)
    axes.set_yticks(range(len(rows)), [_plain(_short(row["model"])) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.margins(y=0.15)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel(summary.get("comparison metric") or "")
    words = "The same training and held-out rows, with 95 % intervals; settings of scikit-learn."
    return figure, "Comparison with other models", words


def _importances(summary: dict[str, Any]) -> Any:
    losses = (summary.get("importances") or [])[:MOST_BARS]
    if not losses:
        return None
    figure, axes = _figure(5.2, 1.1 + 0.26 * len(losses))
    _bars(axes, {r["column"]: r["mean"] for r in losses}, [r["sd"] for r in losses])
    axes.set_xlabel("loss of accuracy" if summary.get("task") == "classification" else "loss of R²")
    words = "Loss on held-out rows when one column is permuted: mean and standard deviation."
    return figure, "Permutation importance", words


def _scales(summary: dict[str, Any]) -> Any:
    values = summary.get("scales")
    if not values or min(values.values()) > 0.99 * max(values.values()):
        return None
    shown = dict(list(values.items())[:MOST_BARS])
    figure, axes = _figure(5.2, 1.1 + 0.26 * len(shown))
    _bars(axes, shown)
    axes.set_xlabel("1 / scale, relative to the largest")
    more = len(values) - len(shown)
    words = "How fast the kernel changes along each column" + (f"; {more} more." if more else ".")
    return figure, "Scales of the kernel", words


def _dependence(summary: dict[str, Any]) -> Any:
    curves = summary.get("dependence") or []
    if not curves:
        return None
    from matplotlib.figure import Figure

    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.1 * rows + 0.2), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes, curve in zip(grid, curves, strict=False):
        values, mean = curve["values"], np.array(curve["mean"])
        low, high = np.array(curve["low"]), np.array(curve["high"])
        if isinstance(values[0], str) and not values[0][:1].isdigit():
            places = np.arange(len(values))
            axes.vlines(places, low, high, color=BLUE, alpha=0.4, linewidth=4)
            axes.plot(places, mean, "o", color=BLUE, markersize=5)
            short = [_plain(v if len(v) < 9 else v[:8] + "…") for v in values]
            turned = {"rotation": 40, "ha": "right"} if sum(map(len, short)) > 16 else {}
            axes.set_xticks(places, short, fontsize=8, **turned)
            axes.margins(x=0.25)
        else:
            at = np.array(values, dtype="datetime64[D]" if isinstance(values[0], str) else float)
            axes.fill_between(at, low, high, color=BLUE, alpha=0.18, linewidth=0)
            axes.plot(at, mean, color=BLUE)
            axes.tick_params(labelsize=8)
        axes.set_xlabel(_plain(_short(curve["column"])), fontsize=9)
    for axes in grid[len(curves) :]:
        axes.set_visible(False)
    what = "prediction" if summary.get("task") == "regression" else "probability"
    grid[0].set_ylabel(f"mean {what}")
    last = (summary.get("by class") or [{}])[-1].get("class")
    of = f" of class {last}" if summary.get("task") == "classification" and last else ""
    words = f"Mean {what}{of} with one column set to each value; the band holds half of the rows."
    return figure, "Partial dependence", words


def _structure(summary: dict[str, Any]) -> Any:
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
        title = "the sum, and how it goes on" if is_whole else curve["words"]
        axes.set_title(_plain(title), fontsize=9, loc="left")
        axes.tick_params(labelsize=8)
        if curve is curves[-1] or curve["column"] != curves[-1]["column"]:
            axes.set_xlabel(_plain(_short(curve["column"])), fontsize=9)
    words = "Posterior means with bands of two standard deviations, that of the sum for new values."
    return figure, "Parts of the target", words


def _places(values: list) -> np.ndarray:
    """Numbers or dates of an axis."""
    is_dates = isinstance(values[0], str)
    return np.array(values, dtype="datetime64[s]" if is_dates else float)


def _density(summary: dict[str, Any]) -> Any:
    grid = summary.get("grid")
    if not grid:
        return None
    from matplotlib.dates import ConciseDateFormatter

    from mercer.plots import DensityDisplay

    figure, axes = _figure()
    names = list(grid["axes"])
    places = [np.array(axis) for axis in grid["axes"].values()]
    density, points = np.array(grid["density"]), np.array(grid["points"]).T
    if len(names) == 1:
        shown = [_plain(name) for name in names]
        display = DensityDisplay(axes=places, density=density, X=points, names=shown)
        display.plot(ax=axes)
        words = "The estimated density; the marks are a sample of the rows."
    else:
        _contours(axes, places, density, points)
        axes.set(xlabel=_plain(names[0]), ylabel=_plain(names[1]))
        words = "Regions of 5, 25, 50, 75 and 95 % of the mass, and a sample of the rows."
    kinds = {column["name"]: column["kind"] for column in summary["columns"]}
    for name, axis in zip(names, (axes.xaxis, axes.yaxis), strict=False):
        if kinds[name] == "day":  # which matplotlib counts from 1970 too
            axis.axis_date()
            axis.set_major_formatter(ConciseDateFormatter(axis.get_major_locator()))
    return figure, "Density", words


def _contours(axes: Any, places: list[np.ndarray], density: np.ndarray, points: np.ndarray) -> None:
    """Regions of highest density in one colour, of which less and less shines through."""
    from matplotlib.colors import to_rgba

    ordered = np.sort(density.ravel())[::-1]
    mass = np.cumsum(ordered) / ordered.sum()
    shares = [0.95, 0.75, 0.5, 0.25, 0.05]
    levels = np.unique([ordered[np.searchsorted(mass, s)] for s in shares])
    if len(levels) and levels[-1] < ordered[0]:
        shades = np.linspace(0.12, 0.6, len(levels))
        axes.contourf(
            *places,
            density.T,
            levels=[*levels, ordered[0] * 1.001],
            colors=[to_rgba(BLUE, shade) for shade in shades],
        )
        axes.contour(*places, density.T, levels=levels, colors=BLUE, linewidths=0.9)
    axes.plot(*points.T, ".", color=ORANGE, markersize=3, alpha=0.8)


def _spectrum(summary: dict[str, Any]) -> Any:
    shares = summary.get("spectrum")
    if not shares:
        return None
    from mercer.plots import SpectrumDisplay

    figure, axes = _figure()
    SpectrumDisplay(eigenvalues=np.array(shares), rounding=1e-15).plot(ax=axes)
    axes.set(xlabel="eigenvalue", ylabel="share of the sum")
    many = int(np.searchsorted(np.cumsum(shares), 0.99)) + 1
    words = f"Gram matrix of {len(shares)} training points: "
    return figure, "Kernel eigenvalues", words + f"the first {many} make up 99 % of the sum."


def _gaps(summary: dict[str, Any]) -> Any:
    gaps = (summary.get("certificate") or {}).get("gaps", [])
    if sum(gap is not None and gap > 0 for gap in gaps) < 3:
        return None
    from mercer.plots import GapDisplay

    figure, axes = _figure()
    GapDisplay(history=gaps).plot(ax=axes)
    words = "Distance from the optimum at each recorded iteration."
    return figure, "Convergence of the solver", words


DRAWERS = {
    "scores": (_comparison,),
    "predictions": (
        _predictions,
        _residuals,
        _confusion,
        _roc,
        _precision_recall,
        _calibration,
    ),
    "columns": (_importances, _scales, _dependence),
    "structure": (_structure,),
    "density": (_density,),
    "kernel": (_spectrum, _gaps),
}
