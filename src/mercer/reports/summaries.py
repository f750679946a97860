"""Summaries as text: the table on the terminal and at the top of the report."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np


def score_text(score: dict[str, Any]) -> str:
    """The score with its interval."""
    low, high = score.get("interval") or (None, None)
    if low is None or math.isnan(low):
        return rounded(score["value"])
    return f"{rounded(score['value'])} (95% interval {rounded(low)} to {rounded(high)})"


def rounded(value: float | None) -> str:
    """Three decimals, without a negative zero."""
    return "unknown" if value is None or math.isnan(value) else f"{round(value, 3) + 0.0:.3f}"


def facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values, the most important first."""
    found: list[tuple[str, str]] = []

    def add(name: str, value: Any) -> None:
        if value not in (None, ""):
            found.append((name, str(value)))

    if "rows" in summary:
        rows = f"{summary['rows']:,} rows of {summary.get('data', '')}"
        if "trained on" in summary:
            rows += f" (training {summary['trained on']:,}, held out {summary['tested on']:,})"
        if summary.get("test", "").endswith("cross-validation"):
            rows = f"{summary['rows']:,} rows of {summary.get('data', '')} ({summary['test']})"
        add("data", rows)
        if summary.get("refitted on"):
            after = (
                f"after the test, the chosen kernel was fitted to all {summary['refitted on']:,}"
            )
            add("refit", f"{after} rows; the score is that of the model before")
        if summary.get("test") in ("whole groups", "the latest rows"):
            add("held out", summary["test"])
    if "task" in summary:
        add("task", f"{summary['task']} of {summary.get('target') or 'y'}")
    for name, why in (summary.get("left out") or {}).items():
        add("left out", f"{name}: {why}")
    read_as = [f"{name}: {example}" for name, example in (summary.get("read as") or {}).items()]
    more = f"; {len(read_as) - 4} more columns" if len(read_as) > 4 else ""
    add("read as numbers", "; ".join(read_as[:4]) + more)
    if summary.get("rows without a target"):
        add("left out", f"rows: {summary['rows without a target']:,} without a target")
    if "score" in summary:
        score = summary["score"]
        add(score["name"], f"{score_text(score)} on held-out rows")
        for other in summary.get("scores", []):
            if other["name"] != score["name"]:
                add(other["name"], rounded(other["value"]))
        add("baseline", f"{rounded(score['baseline'])} ({score['baseline name']})")
    if summary.get("threshold"):
        chosen = summary["threshold"]
        add(
            "threshold",
            f"{chosen['class']} from probability {chosen['value']:.3f}, chosen for "
            f"{summary['score']['name']} on left-out training rows",
        )
    if summary.get("weights"):
        add("class weights", summary["weights"])
    add("model", summary.get("model"))
    add("kernel", _shortened(shortened(summary.get("kernel") or "")))
    if "size" in summary:
        add(summary["size"]["name"], f"{summary['size']['value']:,}")
    add("bandwidth", _shortened(summary.get("bandwidth") or ""))
    if "certificate" in summary:
        certificate = summary["certificate"]
        add("certificate", f"{certificate['status']}, gap {certificate['gap']:.1e}")
    if "log-likelihood" in summary:
        add(
            "log-likelihood",
            f"{summary['log-likelihood']:.4f} per row, by five-fold cross-validation",
        )
    if "seconds" in summary:
        seconds = summary["seconds"]
        add("time", f"{seconds['all']:.1f} s in total (training {seconds['training']:.1f} s)")
    return found


def shortened(text: str) -> str:
    """The text of a kernel with lists of scales and columns as their number, and fewer digits."""

    def columns(match: re.Match) -> str:
        n = match.group(1).count(",") + 1
        return match.group() if n <= 3 else f".on(<{n} columns>)"

    def counted(match: re.Match) -> str:
        n = match.group(1).count(",") + 1
        return match.group() if n <= 3 else f"scales=<{n} values>"

    text = re.sub(r"\.on\(\[(\d+(?:, \d+)*)\]\)", columns, text)
    text = re.sub(r"scales=array\(\[([^\]]*)\]\)", counted, text)
    text = re.sub(r"scales=\[([^\]]*)\]", counted, text)
    return re.sub(r"-?\d*\.\d{5,}(e-?\d+)?", lambda m: f"{float(m.group()):.4g}", text)


def _shortened(text: str, most: int = 400) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def plain(value: Any) -> Any:
    """The value in JSON types; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
