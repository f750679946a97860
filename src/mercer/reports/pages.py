"""The report as one self-contained HTML page, in light and dark, on paper and on a telephone."""

from __future__ import annotations

from html import escape
from typing import Any

from mercer.reports.controls import escape_all
from mercer.reports.figures import Plot, figures
from mercer.reports.summaries import facts, rounded, shortened

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --ground: #ffffff; --muted: #6b6b6b;
  --line: #dedede; --shade: #f5f6f8; --blue: #2b6ca3; --orange: #b85f0c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --ground: #16181c;
  --muted: #a3a3a3; --line: #3a3d44; --shade: #20242a; --blue: #6db3f2; --orange: #f0a04b; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  margin: 0 auto; padding: 1.2rem clamp(.8rem, 3vw, 2rem) 4rem; max-width: 76rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .6rem 0 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; border-bottom: 2px solid var(--blue);
  padding-bottom: .2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; } h1 + p, .small { color: var(--muted);
  margin: .2rem 0; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; } thead th { color: var(--muted); font-size: .85rem; }
td, th { padding: .28rem 1.1rem .28rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; } td.number { text-align: right; white-space: nowrap; }
.pairs th { min-width: 8rem; width: 25%; }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.card { background: var(--shade); border-radius: .5rem; padding: .7rem 1rem; min-width: 9rem; }
.card b { display: block; font-size: 1.5rem; line-height: 1.25; }
  .card.main b { font-size: 2.3rem; }
.card span { color: var(--muted); font-size: .85rem; display: block; }
.note { border-left: 4px solid var(--orange); background: var(--shade); padding: .5rem .9rem;
  margin: .6rem 0; overflow-wrap: anywhere; }
.plots { display: flex; flex-wrap: wrap; gap: 1.4rem 1.6rem; align-items: flex-start; }
figure { margin: .8rem 0; min-width: 0; max-width: 100%; }
figure svg { width: 100%; height: auto; display: block; }
figure.plot { flex: 0 1 auto; width: min(100%, 28.5rem); }
  figure.plot.broad { width: 100%; }
figcaption { color: var(--muted); font-size: .88rem; } figcaption b { color: var(--ink);
  display: block; }
pre { background: var(--shade); padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: .82rem; line-height: 1.4; }
code { overflow-wrap: anywhere; }
.formula { overflow-x: auto; padding: .6rem 0; font-size: 1.15rem; } math { max-width: 100%; }
details { margin: .8rem 0; } summary { cursor: pointer; font-weight: 600; }
.wide { overflow-x: auto; } .wide td { overflow-wrap: break-word; max-width: 24rem; }
tr.best { background: var(--shade); font-weight: 600; }
ul.proof, ul.proof ul { list-style: none; margin: 0; padding-left: 1.3rem;
  border-left: 1px solid var(--line); }
ul.proof { padding-left: 0; border: 0; } ul.proof li { margin: .35rem 0; }
.claim { display: inline-block; background: var(--shade); border-radius: .4rem;
  padding: .3rem .7rem;
  overflow-wrap: anywhere; } .claim i { color: var(--muted); font-style: normal;
  font-size: .85rem; display: block; }
@page { margin: 1.6cm; }
@media print { :root { --ink: #000; --ground: #fff; --muted: #444; --line: #bbb; --shade: #f3f3f3;
  --blue: #1d5687; --orange: #a04f00; color-scheme: light; } body { font-size: 10.5pt;
  max-width: none; padding: 0; }
  figure, tr, .card, .note { break-inside: avoid; } h2, h3, summary { break-after: avoid; }
  .plots { display: block; } figure.plot { display: inline-block; width: 47%; margin-right: 2%;
  vertical-align: top; } figure.plot.broad { display: block; width: 85%; }
  details::details-content { content-visibility: visible; display: block; } }
"""
# Plots with a panel per column.
BROAD = ("Partial dependence", "Residuals by column", "What if: one row with other values")
TITLES = {
    "scores": "Scores",
    "structure": "Structure",
    "predictions": "Predictions on held-out rows",
    "density": "Density",
    "columns": "Columns",
    "kernel": "Kernel",
}


def page(title: str, summaries: list[dict[str, Any]]) -> str:
    """One page with a section per summary. Their content is escaped."""
    title, summaries = escape_all(title), escape_all(summaries)
    alone = len(summaries) == 1
    body = "".join(_section(summary, k, alone) for k, summary in enumerate(summaries))
    version = next((s["mercer"] for s in summaries if "mercer" in s), "")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n<p>mercer {escape(str(version))}</p>\n{body}</main>\n"
        "</body>\n</html>\n"
    )


def _section(summary: dict[str, Any], number: int, alone: bool) -> str:
    parts, level = [], "h2" if alone else "h3"
    if not alone:
        parts.append(f"<h2>{escape(str(summary.get('title') or summary.get('data', '')))}</h2>\n")
    if summary.get("words"):
        parts.append(f"<p>{escape(str(summary['words']))}</p>\n")
    hidden = {"kernel"} if summary.get("formula") else set()
    if "score" in summary:
        parts.append(_cards(summary))
        hidden |= {summary["score"]["name"], "baseline"}
        hidden |= {score["name"] for score in summary.get("scores", [])}
    for line in summary.get("advice", []):
        parts.append(f'<p class="note"><b>Note:</b> {escape(str(line))}</p>\n')
    parts.append(_pairs([pair for pair in facts(summary) if pair[0] not in hidden]))
    plots = figures(summary, number)
    inside = {
        "scores": _scores(summary),
        "structure": _structure(summary),
        "predictions": _predictions(summary),
        "columns": _columns(summary),
        "kernel": _kernel(summary),
    }
    for name, title in TITLES.items():
        drawn = _plots([plot for plot in plots if plot.section == name])
        text = inside.get(name, "")
        if name == "kernel":
            text, drawn = text + drawn, ""
        if drawn or text:
            inner = text + drawn if name == "structure" else drawn + text
            parts.append(f"<{level}>{title}</{level}>\n{inner}")
    if summary.get("tried"):
        parts.append(_tried(summary["tried"]))
    return "".join(parts)


def _cards(summary: dict[str, Any]) -> str:
    score = summary["score"]
    low, high = score.get("interval") or (None, None)
    ends = "" if low is None else f"95 % interval {rounded(low)} to {rounded(high)}"
    baseline = f"baseline ({score['baseline name']}): {rounded(score['baseline'])}"
    lines = [
        score["name"] + f" on {score['rows']:,} held-out rows",
        ends,
        baseline,
    ]
    cards = [_card(rounded(score["value"]), lines, "card main")]
    for other in summary.get("scores", []):
        if other["name"] != score["name"]:
            low, high = other["interval"]
            ends = "" if low is None else f"{rounded(low)} to {rounded(high)}"
            cards.append(_card(rounded(other["value"]), [other["name"], ends], "card"))
    return f'<div class="cards">\n{"".join(cards)}</div>\n'


def _card(value: str, lines: list[str], kind: str) -> str:
    shown = "".join(f"<span>{escape(line)}</span>" for line in lines if line)
    return f'<div class="{kind}"><b>{escape(value)}</b>{shown}</div>\n'


def _scores(summary: dict[str, Any]) -> str:
    rows = summary.get("comparison")
    if not rows:
        return ""
    shown = [
        {
            "model": row["model"],
            summary.get("comparison metric") or "score": rounded(row["value"]),
            "95 % interval": _interval(row["interval"]),
            "seconds": row.get("seconds"),
        }
        for row in rows
    ]
    return _details("Comparison as a table", _rows(shown))


def _interval(ends: Any) -> str:
    low, high = ends
    return "" if low is None else f"{rounded(low)} to {rounded(high)}"


def _structure(summary: dict[str, Any]) -> str:
    lines = (summary.get("structure") or {}).get("words")
    return "".join(f"<p>{escape(str(line))}</p>\n" for line in lines or [])


def _predictions(summary: dict[str, Any]) -> str:
    parts = []
    if summary.get("by class"):
        rows = [
            {
                "class": row["class"],
                "rows": row["rows"],
                "predicted": row["predicted"],
                "precision": rounded(row["precision"]),
                "recall": f"{rounded(row['recall'])} ({_interval(row['recall interval'])})",
                "F1": rounded(row["F1"]),
            }
            for row in summary["by class"][:60]
        ]
        parts.append(_details("By class", _rows(rows), is_open=len(rows) <= 12))
    if (summary.get("held out") or {}).get("worst"):
        parts.append(_details("Largest errors", _rows(summary["held out"]["worst"])))
    if summary.get("similar rows"):
        case = summary["similar rows"]
        words = (
            f"<p>The training rows most similar to row {case['row']}, the one with the largest "
            "error, by the kernel of the model (1 for an equal row).</p>"
        )
        parts.append(_details("Similar training rows", words + _rows(case["rows"])))
    if summary.get("prediction intervals"):
        rows = [
            {
                "coverage asked for": f"{row['coverage']:.0%}",
                "observed": f"{rounded(row['observed'])} ({_interval(row['interval'])})",
                "mean width": row["mean width"],
            }
            for row in summary["prediction intervals"]
        ]
        parts.append(_details("Prediction intervals as a table", _rows(rows)))
    if summary.get("calibration"):
        rows = [
            {
                "probability": f"{b['from']:.1f} to {b['to']:.1f}",
                "rows": b["rows"],
                "mean probability": rounded(b["mean probability"]),
                "observed": f"{rounded(b['observed'])} ({_interval(b['interval'])})",
            }
            for b in summary["calibration"]
        ]
        parts.append(_details("Calibration as a table", _rows(rows)))
    return "".join(parts)


def _columns(summary: dict[str, Any]) -> str:
    parts = []
    if summary.get("interactions"):
        strong = [row for row in summary["interactions"] if row["H"] is not None]
        words = (
            "<p>Friedman's H: the part of the joint effect of two columns that is not a sum of "
            "their own effects.</p>"
        )
        parts.append(_details("Interactions", words + _rows(strong)))
    if summary.get("columns"):
        hidden = ("range", "levels", "typical")
        rows = [{k: v for k, v in c.items() if k not in hidden} for c in summary["columns"][:300]]
        more = len(summary["columns"]) - len(rows)
        left_out = (summary.get("left out") or {}).items()
        rows += [{"name": name, "used as": f"left out: {why}"} for name, why in left_out]
        tail = f"<p>and {more:,} more columns</p>" if more > 0 else ""
        parts.append(_details("Columns as they were read and used", _rows(rows) + tail))
    return "".join(parts)


def _kernel(summary: dict[str, Any]) -> str:
    parts = []
    if summary.get("formula"):
        formula = _checked_mathml(summary["formula"])
        parts.append(f'<div class="formula" {_region("formula")}>{formula}</div>\n')
    if summary.get("kernel"):
        text = shortened(str(summary["kernel"]))
        parts.append(f"<p><code>{escape(text if len(text) < 400 else text[:399] + '…')}</code></p>")
    if summary.get("proof"):
        valid = summary.get("kernel is") == "valid"
        title = "Proof that the kernel is valid" if valid else "The kernel"
        text = f"<pre>{escape(shortened(str(summary['proof'])))}</pre>"
        if summary.get("proof tree"):
            drawn = f'<ul class="proof">{_tree(summary["proof tree"])}</ul>\n'
            parts.append(_details(title, drawn + _details("The proof as text", text)))
        else:
            parts.append(_details(title, text) if "data" in summary else text)
    return "".join(parts)


MATHML = ("math", "mrow", "mn", "mi", "mo", "msup", "msub", "mfrac", "msqrt")


def _checked_mathml(text: Any) -> str:
    """The formula, if it consists of the elements that formulas are written with."""
    from xml.etree import ElementTree

    if "<!" in str(text):  # no entities
        return ""
    try:
        root = ElementTree.fromstring(str(text))
    except ElementTree.ParseError:
        return ""
    for element in root.iter():
        is_display = element is root and element.attrib == {"display": "block"}
        if element.tag not in MATHML or (element.attrib and not is_display):
            return ""
    return ElementTree.tostring(root, encoding="unicode")


def _tree(proof: Any, depth: int = 0) -> str:
    """A proof as nested lists."""
    if not isinstance(proof, dict) or depth > 30:
        return ""
    premises = "".join(_tree(p, depth + 1) for p in proof.get("premises") or [])
    claim = (
        f'<span class="claim">{escape(str(proof.get("claim")))}'
        f"<i>{escape(str(proof.get('rule')))}</i></span>"
    )
    return f"<li>{claim}{f'<ul>{premises}</ul>' if premises else ''}</li>"


def _tried(tried: list[dict[str, Any]]) -> str:
    """Candidates in the order tried; those compared on the same rows, by the same loss, together.

    The best of each comparison is marked.
    """
    groups: dict[str, list[int]] = {}
    for k, row in enumerate(tried):
        if isinstance(row.get("error"), int | float):
            groups.setdefault(_compared(str(row.get("kernel"))), []).append(k)
    best = {min(places, key=lambda k: tried[k]["error"]) for places in groups.values()}
    rows = []
    for k, row in enumerate(tried):
        shown = {name: shortened(v) if isinstance(v, str) else v for name, v in row.items()}
        rows.append({"": "best" if k in best else "", **shown})
    words = (
        "<p>Leave-one-out errors on training rows, in the order tried: squared errors, and "
        "logistic losses where the name says so. Errors by the same loss on the same rows are "
        "comparable; the smallest of them is marked and was used from there on.</p>"
    )
    return _details("Candidates", words + _rows(rows, best=[k in best for k in range(len(rows))]))


def _compared(name: str) -> str:
    """The loss and the rows of a candidate, which its name holds."""
    loss = "logistic" if name.startswith("logistic") else "squared"
    rows = name.rpartition(", ")[2] if name.endswith(" rows") else ""
    return f"{loss} {rows}"


def _plots(plots: list[Plot]) -> str:
    return f'<div class="plots">\n{"".join(map(_plot, plots))}</div>\n' if plots else ""


def _plot(plot: Plot) -> str:
    broad = " broad" if plot.title in BROAD else ""
    caption = f"<figcaption><b>{escape(plot.title)}</b>{escape(plot.words)}</figcaption>"
    return f'<figure class="plot{broad}">{plot.svg}{caption}</figure>\n'


def _details(title: str, inside: str, is_open: bool = False) -> str:
    shown = " open" if is_open else ""
    inside = inside.replace('aria-label="table"', f'aria-label="{escape(title)}"')
    return f"<details{shown}><summary>{escape(title)}</summary>{inside}</details>\n"


def _region(name: str) -> str:
    """What makes a part that may scroll reachable by the keyboard."""
    return f'tabindex="0" role="region" aria-label="{escape(name)}"'


def _pairs(pairs: list[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>\n' for k, v in pairs
    )
    return f'<table class="pairs">\n{rows}</table>\n' if rows else ""


def _rows(rows: list[dict[str, Any]], best: list[bool] | None = None) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    heads = [f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in names]
    body = ""
    for k, row in enumerate(rows):
        kind = ' class="best"' if best and best[k] else ""
        body += f"<tr{kind}>{''.join(_cell(row.get(name)) for name in names)}</tr>\n"
    return (
        f'<div class="wide" {_region("table")}><table>\n'
        f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
    )


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        return f'<td class="number">{text}</td>'
    return f"<td>{escape(str(value))}</td>"
