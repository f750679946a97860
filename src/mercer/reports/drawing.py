"""Drawing for reports: SVG text whose colours follow the theme of the page."""

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


def new_figure(width: float = 5.2, height: float = 3.7) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def svg_text(figure: Any, title: str, prefix: str) -> str:
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


def shortened_label(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"


def bars(axes: Any, values: dict[str, float], errors: list[float] | None = None) -> None:
    """Horizontal bars, the first at the top."""
    places = range(len(values))
    axes.barh(places, list(values.values()), color=BLUE, height=0.65)
    if errors is not None:
        axes.errorbar(
            list(values.values()), places, xerr=errors, fmt="none", ecolor=INK, elinewidth=1
        )
    axes.set_yticks(places, [literal_text(shortened_label(name)) for name in values])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.locator_params(axis="x", nbins=6)


def literal_text(text: str) -> str:
    """Text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


def dots(axes: Any, x: np.ndarray, y: np.ndarray) -> None:
    axes.scatter(x, y, s=9, color=BLUE, alpha=0.5, linewidths=0, rasterized=len(x) > 500)
