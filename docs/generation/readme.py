"""The pictures of README.md, in docs/_static: ``python -m generation.readme``, run in docs."""

from __future__ import annotations

from pathlib import Path

from generation import drawings, performance

STATIC = Path(__file__).parents[1] / "_static"


def write(folder: Path) -> None:
    """The front picture of the site, and the ratios to other libraries."""
    drawings.draw_front(folder / "front.png")
    readme = performance.README.read_text(encoding="utf-8")
    ratios = [ratio for run in performance.runs(readme) for ratio in performance.ratios(run)]
    performance.draw_ratios(ratios, folder / "speed.png")


if __name__ == "__main__":
    write(STATIC)
