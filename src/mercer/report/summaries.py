"""Summaries as words: the short table that is printed, and that heads the report."""

from __future__ import annotations

import math
import re
from typing import Any


def score_text(score: dict[str, Any]) -> str:
    return f"{rounded(score['value'])} ± {rounded(score['error'])}"


def rounded(value: float | None) -> str:
    """Three decimals, and no minus before zero."""
    return "unknown" if value is None or math.isnan(value) else f"{round(value, 3) + 0.0:.3f}"


def readable(text: str) -> str:
    """The text with long decimals cut to four digits that count."""
    return re.sub(r"-?\d*\.\d{5,}(e-?\d+)?", lambda m: f"{float(m.group()):.4g}", text)


def facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values, in the order in which one would ask for them."""
    found: list[tuple[str, str]] = []

    def say(name: str, value: Any) -> None:
        if value not in (None, ""):
            found.append((name, str(value)))

    if "rows" in summary:
        rows = f"{summary['rows']:,} rows of {summary.get('data', '')}"
        if "trained on" in summary:
            rows += f", {summary['trained on']:,} to train on and {summary['tested on']:,} held out"
        say("data", rows)
    if "task" in summary:
        say("task", f"{summary['task']} of {summary.get('target') or 'y'}")
    for name, why in (summary.get("left out") or {}).items():
        say("left out", f"{name}: {why}")
    read_as = [f"{name}: {example}" for name, example in (summary.get("read as") or {}).items()]
    more = f"; {len(read_as) - 4} columns more" if len(read_as) > 4 else ""
    say("read as numbers", "; ".join(read_as[:4]) + more)
    if summary.get("rows without a target"):
        say("left out", f"rows: {summary['rows without a target']:,} without a target")
    if "score" in summary:
        score = summary["score"]
        say(score["name"], f"{score_text(score)} on the rows held out")
        say("baseline", f"{rounded(score['baseline'])} ({score['baseline name']})")
    say("model", summary.get("model"))
    say("kernel", _shortened(readable(summary.get("kernel") or "")))
    if "size" in summary:
        say(summary["size"]["name"], f"{summary['size']['value']:,}")
    say("bandwidth", _shortened(summary.get("bandwidth") or ""))
    if "certificate" in summary:
        certificate = summary["certificate"]
        say("certificate", f"{certificate['status']}, gap {certificate['gap']:.1e}")
    if "log-likelihood" in summary:
        say(
            "log-likelihood",
            f"{summary['log-likelihood']:.4f} for a row, by five-fold cross-validation",
        )
    if "seconds" in summary:
        seconds = summary["seconds"]
        say("time", f"{seconds['all']:.1f} s in total (training {seconds['training']:.1f} s)")
    return found


def _shortened(text: str, most: int = 400) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
