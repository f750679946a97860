"""Reports are pages that need nothing else, and show what they are given as text."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser

from command_line import run
from mercer.reports.pages import page


class Page(HTMLParser):
    """The tags of a page, which must all be closed, and what they point at."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.seen, self.ids = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        linked = ("src", "href", "xlink:href")
        self.links += [value for name, value in attributes if name in linked]
        assert not any(name.startswith("on") for name, _ in attributes)
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in ("meta", "img", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_page(text):
    found = Page(text)
    assert not found.open
    assert "script" not in found.seen
    assert "link" not in found.seen
    assert len(found.ids) == len(set(found.ids))
    inside = {f"#{name}" for name in found.ids}
    assert all(link in inside or link.startswith("data:image/png;base64") for link in found.links)
    assert not re.search(r"https?://(?!www.w3.org/)", text)
    return found


def test_the_report_is_one_page_that_needs_nothing_else(irises, diabetes):
    run("fit", "iris.csv", "-t", "species", "--report", "iris.html", "-q")
    run("fit", "diabetes.csv", "-t", "target", "--report", "diabetes.html", "-q")
    run("density", "iris.csv", "-c", "0", "--report", "density.html", "-q")
    for name, plots in (("iris", 3), ("diabetes", 3), ("density", 1)):
        with open(f"{name}.html", encoding="utf-8") as file:
            text = file.read()
        assert check_page(text).seen.count("figure") >= plots
    run("report", "iris.mercer", "-o", "again.html")
    with open("again.html") as again, open("iris.html") as first:
        assert again.read() == first.read()
    assert check_page(run("report", "iris.mercer", "-o", "-").stdout)
    run("report", "iris.mercer", "-q")
    assert os.path.exists("iris.html")


def test_what_data_say_is_shown_as_text():
    """A model's notes may come from anyone."""
    evil = "<script>alert(1)</script>\"'&"
    summary = {
        "data": evil,
        "rows": 3,
        "target": evil,
        "task": evil,
        "kernel": evil,
        "proof": evil,
        "columns": [{"name": evil, evil: evil}],
        "tried": [{evil: evil}],
        "advice": [evil],
        "title": evil,
        "words": evil,
        "importances": [{"column": evil, "mean": 0.1, "sd": 0.01}],
        "dependence": [
            {"column": evil, "values": [evil, "b"], "mean": [0.1, 2], "low": [0, 1], "high": [1, 3]}
        ],
        "interactions": [{"columns": evil, "H": 0.1}],
        "comparison": [{"model": evil, "value": 0.5, "interval": [0.1, 0.9]}] * 3,
        "comparison metric": evil,
        "scales": {evil: 1.0, "b": 0.3},
        "formula": f"<math><mi onclick='x'>{evil}</mi></math>",
        "proof tree": {"claim": evil, "rule": evil, "premises": [{"claim": evil}]},
        "by class": [
            {
                "class": evil,
                "rows": 3,
                "predicted": 3,
                "precision": 0.5,
                "recall": 0.5,
                "recall interval": [0.1, 0.9],
                "F1": 0.5,
            }
        ],
        "precision recall": {
            "class": evil,
            "precision": [0.1, 1.0],
            "recall": [1.0, 0.1],
            "threshold": [0.1, 0.9],
            "share": 0.5,
        },
        "threshold": {"class": evil, "value": 0.5},
        "score": {
            "name": evil,
            "value": 0.5,
            "error": 0.1,
            "rows": 3,
            "baseline": 0.1,
            "baseline name": evil,
        },
        "held out": {
            "classes": [evil, "b"],
            "counts": [[1, 2], [3, 4]],
            "worst": [{"row": evil, "true": evil}],
        },
    }
    text = page(evil, [summary, summary])
    check_page(text)
    assert "<script" not in text
    assert "onclick" not in text
    entities = '<!DOCTYPE math [<!ENTITY a "b">]><math><mi>&a;</mi></math>'
    assert "<mi>" not in page("", [{**summary, "formula": entities}])


def test_demo(here):
    result = run("demo", "--max-time", "5")
    for word in ("[sum of kernels]", "eigenvalue", "accuracy", "R²", "bandwidth"):
        assert word in result.stdout
    with open("mercer-demo.html", encoding="utf-8") as file:
        assert check_page(file.read()).seen.count("figure") >= 5
    assert os.listdir() == ["mercer-demo.html"]


def test_dollars_and_braces_in_names_are_no_formulas():
    """Matplotlib would refuse the last of these, and draw the others without their dollars."""
    for name in ("$a$ and $b$", r"$\foo$", "$x^{$"):
        summary = {
            "target": name,
            "columns": [{"name": name, "kind": "number"}],
            "importances": [{"column": name, "mean": 0.1, "sd": 0.01}],
            "score": {"name": "R²", "value": 0.5, "error": 0.1, "rows": 3, "baseline": 0.0,
                      "baseline name": "the mean"},
            "held out": {"true": [1.0, 2.0], "predicted": [1.0, 1.5]},
            "grid": {"axes": {name: [0.0, 1.0, 2.0]}, "density": [0.1, 0.2, 0.1],
                     "points": [[0.5, 1.0]]},
        }  # fmt: skip
        assert page("title", [summary]).count("<figure") == 4
        counts = {"classes": [name, "other"], "counts": [[1, 0], [0, 1]]}
        assert "<figure" in page("title", [{"held out": counts}])
