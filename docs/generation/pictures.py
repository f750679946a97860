"""Figures in files: the same bytes in every build."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt


def save(figure: plt.Figure, path: Path) -> None:
    """Write the figure, as SVG or PNG by the name of the file, and close it."""
    with plt.rc_context({"svg.hashsalt": "mercer"}):
        undated = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, metadata=undated, facecolor="white", dpi=150)
    plt.close(figure)
