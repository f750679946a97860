"""The plots of a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.plots.axes import BLUE, GREY, ORANGE
from mercer.reports import case_figures, structure_figures
from mercer.reports.drawing import (
    INK,
    MOST_BARS,
    STYLE,
    Plot,
    bars,
    dots,
    literal_text,
    new_figure,
    refuse_undrawable,
    shortened_label,
    svg_text,
)


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
                    found.append(Plot(place, title, svg_text(figure, title, prefix), words))
    return found


def _predictions(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "true" not in held:
        return None
    figure, axes = new_figure()
    true, predicted = np.array(held["true"]), np.array(held["predicted"])
    dots(axes, predicted, true)
    ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
    axes.plot(ends, ends, color=GREY, linewidth=1)
    axes.set(xlabel="predicted", ylabel=literal_text(f"true {summary.get('target') or 'value'}"))
    return figure, "Predicted and true values", "One dot per held-out row, ideally on the line."


def _residuals(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "true" not in held:
        return None
    figure, axes = new_figure()
    true, predicted = np.array(held["true"]), np.array(held["predicted"])
    dots(axes, predicted, true - predicted)
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


def _confusion(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "counts" not in held or len(held["classes"]) > 30:
        return None
    from matplotlib.patches import Rectangle

    counts, classes = np.array(held["counts"]), held["classes"]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = min(2.6 + 0.3 * len(classes), 9)
    figure, axes = new_figure(size + 1.2, size)
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            cell = {"facecolor": BLUE, "alpha": 0.75 * share[i, j], "linewidth": 0}
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **cell))
            if len(classes) <= 15:
                axes.text(j, i, str(count), ha="center", va="center", fontsize=9)
    n = len(classes)
    axes.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    short = [literal_text(shortened_label(name)) for name in classes]
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
    figure, axes = new_figure(4.4, 3.9)
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
    figure, axes = new_figure()
    axes.plot(curve["threshold"], curve["precision"], color=BLUE, label="precision")
    axes.plot(curve["threshold"], curve["recall"], color=ORANGE, label="recall")
    axes.axhline(curve["share"], color=GREY, linewidth=1)
    if summary.get("threshold"):
        axes.axvline(summary["threshold"]["value"], color=INK, linewidth=1, linestyle=":")
    axes.legend(loc="best", fontsize=9)
    axes.set(
        xlabel=literal_text(f"threshold on the probability of {curve['class']}"), ylim=(0, 1.03)
    )
    words = f"Of class {curve['class']}; the grey line is its share of the rows"
    words += ", the dotted line the chosen threshold." if summary.get("threshold") else "."
    return figure, "Precision and recall by threshold", words


def _calibration(summary: dict[str, Any]) -> Any:
    bins = summary.get("calibration")
    if not bins or len(bins) < 2:
        return None
    figure, axes = new_figure(4.4, 3.9)
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
    figure, axes = new_figure(5.2, 1.1 + 0.34 * len(rows))
    for place, row in enumerate(rows):
        low, high = (row["value"] if end is None else end for end in row["interval"])
        colour = ORANGE if place == 0 else BLUE
        axes.plot([low, high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
        axes.plot(row["value"], place, "o", color=colour, markersize=6)
    axes.set_yticks(range(len(rows)), [literal_text(shortened_label(row["model"])) for row in rows])
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
    figure, axes = new_figure(5.2, 1.1 + 0.26 * len(losses))
    bars(axes, {r["column"]: r["mean"] for r in losses}, [r["sd"] for r in losses])
    axes.set_xlabel("loss of accuracy" if summary.get("task") == "classification" else "loss of R²")
    words = "Loss on held-out rows when one column is permuted: mean and standard deviation."
    return figure, "Permutation importance", words


def _scales(summary: dict[str, Any]) -> Any:
    values = summary.get("scales")
    if not values or min(values.values()) > 0.99 * max(values.values()):
        return None
    shown = dict(list(values.items())[:MOST_BARS])
    figure, axes = new_figure(5.2, 1.1 + 0.26 * len(shown))
    bars(axes, shown)
    axes.set_xlabel("1 / scale, relative to the largest")
    more = len(values) - len(shown)
    words = "How fast the kernel changes along each column" + (f"; {more} more." if more else ".")
    return figure, "Scales of the kernel", words


def _density(summary: dict[str, Any]) -> Any:
    grid = summary.get("grid")
    if not grid:
        return None
    from matplotlib.dates import ConciseDateFormatter

    from mercer.plots import DensityDisplay

    figure, axes = new_figure()
    names = list(grid["axes"])
    places = [np.array(axis) for axis in grid["axes"].values()]
    density, points = np.array(grid["density"]), np.array(grid["points"]).T
    if len(names) == 1:
        shown = [literal_text(name) for name in names]
        display = DensityDisplay(axes=places, density=density, X=points, names=shown)
        display.plot(ax=axes)
        words = "The estimated density; the marks are a sample of the rows."
    else:
        _contours(axes, places, density, points)
        axes.set(xlabel=literal_text(names[0]), ylabel=literal_text(names[1]))
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

    figure, axes = new_figure()
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

    figure, axes = new_figure()
    GapDisplay(history=gaps).plot(ax=axes)
    words = "Distance from the optimum at each recorded iteration."
    return figure, "Convergence of the solver", words


DRAWERS = {
    "scores": (_comparison,),
    "predictions": (
        _predictions,
        _residuals,
        case_figures.coverage,
        _confusion,
        _roc,
        case_figures.precision_recall,
        _precision_recall,
        _calibration,
        case_figures.residuals,
    ),
    "columns": (_importances, _scales, case_figures.dependence, case_figures.what_if),
    "structure": (structure_figures.parts,),
    "density": (_density,),
    "kernel": (_spectrum, _gaps),
}
