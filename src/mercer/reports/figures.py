"""Plots of the report as SVG text, by the displays of `mercer.plots` and scikit-learn."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

import numpy as np

from mercer.plots.axes import BLUE, GREY

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
    """Raise ImportError if matplotlib is missing, before any work is done."""
    if find_spec("matplotlib") is None:
        raise ImportError("reports need matplotlib: pip install 'mercer[cli]'")


def figures(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Title, SVG text and caption of each plot that the summary has numbers for."""
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


def _label(text: Any, longest: int = 28) -> str:
    """Text of the data for a plot: shortened, and none of it a formula of matplotlib's."""
    text = str(text)
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return short.replace("$", r"\$")


def _predictions(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "true" not in held:
        return None
    from sklearn.metrics import PredictionErrorDisplay

    figure, axes = _figure()
    true, predicted = np.array(held["true"]), np.array(held["predicted"])
    points = {"s": 9, "color": BLUE, "alpha": 0.5, "linewidths": 0, "rasterized": len(true) > 500}
    PredictionErrorDisplay(y_true=true, y_pred=predicted).plot(
        axes,
        kind="actual_vs_predicted",
        scatter_kwargs=points,
        line_kwargs={"color": GREY, "linewidth": 1, "linestyle": "-"},
    )
    axes.set(xlabel="predicted", ylabel=f"true {_label(summary.get('target') or 'value')}")
    words = "One dot per held-out row. A perfect model has all dots on the line."
    return figure, "Predicted and true values", words


def _confusion(summary: dict[str, Any]) -> Any:
    held = summary.get("held out") or {}
    if "counts" not in held or len(held["classes"]) > 30:
        return None
    from sklearn.metrics import ConfusionMatrixDisplay

    counts, classes = np.array(held["counts"]), held["classes"]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = min(3.4 + 0.28 * len(classes), 9)
    figure, axes = _figure(size + 1, size)
    short = [_label(name, 14) for name in classes]
    display = ConfusionMatrixDisplay(share, display_labels=short).plot(
        ax=axes,
        cmap="Blues",
        colorbar=False,
        include_values=len(classes) <= 15,
        im_kw={"vmin": 0, "vmax": 1},
    )
    if display.text_ is not None:  # colours show shares of a class, the text counts
        for text, count in zip(display.text_.ravel(), counts.ravel(), strict=True):
            text.set(text=str(count), fontsize=9)
    if max(map(len, short)) > 3:
        axes.set_xticks(range(len(short)), short, rotation=45, ha="right")
    axes.set(xlabel="predicted", ylabel="true")
    axes.spines[:].set_visible(False)
    words = "Held-out rows by true and predicted class. Correct predictions are on the diagonal."
    return figure, "Confusion matrix", words


def _importances(summary: dict[str, Any]) -> Any:
    lost = summary.get("importances")
    if not lost:
        return None
    shown = dict(list(lost.items())[:15])
    figure, axes = _figure(5.2, 1.2 + 0.26 * len(shown))
    axes.barh(range(len(shown)), list(shown.values()), color=BLUE, height=0.7)
    axes.set_yticks(range(len(shown)), [_label(name) for name in shown])
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel(f"loss of {summary['score']['name']}")
    words = "Loss of score on held-out rows when one column is permuted."
    return figure, "Permutation importance", words


def _density(summary: dict[str, Any]) -> Any:
    grid = summary.get("grid")
    if not grid:
        return None
    from matplotlib.dates import ConciseDateFormatter

    from mercer.plots import DensityDisplay

    figure, axes = _figure()
    names = list(grid["axes"])
    DensityDisplay(
        axes=[np.array(axis) for axis in grid["axes"].values()],
        density=np.array(grid["density"]),
        X=np.array(grid["points"]).T,
        names=[_label(name) for name in names],
    ).plot(ax=axes)
    kinds = {column["name"]: column["kind"] for column in summary["columns"]}
    for name, axis in zip(names, (axes.xaxis, axes.yaxis), strict=False):
        if kinds[name] == "day":  # which matplotlib counts from 1970 too
            axis.axis_date()
            axis.set_major_formatter(ConciseDateFormatter(axis.get_major_locator()))
    return figure, "Density", "The estimated density; the marks are a sample of the rows."


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
    return figure, "Kernel eigenvalues", words + f"the first {many} make up 99% of the sum."


def _gaps(summary: dict[str, Any]) -> Any:
    gaps = (summary.get("certificate") or {}).get("gaps", [])
    if sum(gap is not None and gap > 0 for gap in gaps) < 3:
        return None
    from mercer.plots import GapDisplay

    figure, axes = _figure()
    GapDisplay(history=gaps).plot(ax=axes)
    words = "Distance from the optimum at each recorded iteration."
    return figure, "Convergence of the solver", words
