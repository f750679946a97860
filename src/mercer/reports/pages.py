"""The report as one self-contained HTML page."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from mercer.reports.figures import figures
from mercer.reports.summaries import facts, readable, rounded, score_text

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h1 + p { color: #555; margin-top: .2rem; }
table { border-collapse: collapse; margin: 1rem 0; } th { text-align: left; font-weight: 600; }
td, th { padding: .25rem 1.2rem .25rem 0; vertical-align: top; border-bottom: 1px solid #e5e5e5; }
.plots { display: flex; flex-wrap: wrap; gap: 1.5rem; } figure { margin: 0; max-width: 30rem; }
figure img { max-width: 100%; height: auto; } figcaption { color: #444; font-size: .9rem; }
figcaption b { display: block; color: #222; }
.score { font-size: 2rem; font-weight: 600; } .score small { font-size: 1rem; color: #555; }
pre { background: #f6f6f6; padding: .8rem; white-space: pre-wrap; font-size: .85rem;
  line-height: 1.35; }
details { margin: 1rem 0; } summary { cursor: pointer; font-weight: 600; }
.wide { overflow-x: auto; }
"""


def page(title: str, summaries: list[dict[str, Any]]) -> str:
    """One page with a section per summary. Their content is escaped."""
    body = "".join(_section(summary, alone=len(summaries) == 1) for summary in summaries)
    version = next((s["mercer"] for s in summaries if "mercer" in s), "")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<p>mercer {escape(str(version))}</p>\n{body}</body>\n</html>\n"
    )


def _section(summary: dict[str, Any], alone: bool) -> str:
    parts = []
    if not alone:
        parts.append(f"<h2>{escape(str(summary.get('title') or summary.get('data', '')))}</h2>\n")
    if summary.get("words"):
        parts.append(f"<p>{escape(str(summary['words']))}</p>\n")
    shown = ()
    if "score" in summary:
        parts.append(_score(summary))
        shown = (summary["score"]["name"], "baseline")
    for line in summary.get("advice", []):
        parts.append(f"<p><b>Note:</b> {escape(str(line))}</p>\n")
    parts.append(_pairs([pair for pair in facts(summary) if pair[0] not in shown]))
    plots = "".join(_plot(*figure) for figure in figures(summary))
    if plots:
        parts.append(f'<div class="plots">\n{plots}</div>\n')
    if summary.get("columns"):
        parts.append(_details("Columns", _rows(summary["columns"])))
    if summary.get("tried"):
        errors = "error" in summary["tried"][0]
        words = "<p>Leave-one-out squared errors on training rows.</p>"
        tried = (words if errors else "") + _rows(summary["tried"])
        parts.append(_details("Candidates", tried))
    if summary.get("proof"):
        proof = f"<pre>{escape(readable(str(summary['proof'])))}</pre>"
        words = (
            "Proof that the kernel is valid"
            if summary.get("kernel is") == "valid"
            else "The kernel"
        )
        parts.append(_details(words, proof) if "data" in summary else proof)
    return "".join(parts)


def _score(summary: dict[str, Any]) -> str:
    score = summary["score"]
    baseline = f"baseline ({score['baseline name']}): {rounded(score['baseline'])}"
    return (
        f'<p class="score">{escape(score_text(score))} <small>{escape(score["name"])} on '
        f"{score['rows']:,} held-out rows; {escape(baseline)}</small></p>\n"
    )


def _plot(title: str, svg: str, words: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<figure><img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption><b>{escape(title)}</b>{escape(words)}</figcaption></figure>\n"
    )


def _details(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>\n"


def _pairs(pairs: list[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>\n" for k, v in pairs)
    return f"<table>\n{rows}</table>\n"


def _rows(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row.get(name)))}</td>" for name in names) + "</tr>\n"
        for row in rows
    )
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}</table></div>'


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
