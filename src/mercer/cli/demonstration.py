"""The demonstration: a proof, a counterexample, two models, a density, and one report."""

from __future__ import annotations

from typing import Any

from sklearn import datasets

import mercer.kernels as K
from mercer.cli import fitting
from mercer.cli.density import estimate
from mercer.cli.output import Output, facts_table, plain, write
from mercer.reports import pages
from mercer.tables.data import Data


def demonstrate(out: Output, path: str, max_time: float) -> None:
    """Run the demonstration, print its results and write the page."""
    summaries = []

    def show(title: str, words: str, summary: dict[str, Any]) -> None:
        summaries.append({**plain(summary), "title": title, "words": words})
        if not out.as_json and not out.quiet:
            out.console.print(f"\n{title}", style="bold", markup=False)
            out.console.print(words, markup=False)
            if "data" in summary:
                out.console.print(facts_table(summary))
            else:  # brackets in it are not markup
                out.console.print(summary["proof"], markup=False, soft_wrap=True)

    with out.progress(2 * max_time) as step:
        step("proving")
        for text in ("0.5 * RBF(0.1) + Polynomial(2)", "Sigmoid(1.0, 1.0)"):
            title, words, summary = _checked(text)
            show(title, words, summary)
        for title, words, data in (_tumours(), _diabetes()):
            _, summary = fitting.fit(data, max_time=max_time, step=step)
            show(title, words, summary)
        step("estimating a density")
        title, words, data, columns = _wines()
        show(title, words, estimate(data, columns, None, "gaussian")[3])
        step("writing")
        page = pages.page("What mercer does", summaries)
        write(path, page)
    if out.as_json:
        out.result({"sections": summaries, "report": path})
    elif path != "-":
        out.note(f"\nThe report, with plots: {path}")


def _checked(text: str) -> tuple[str, str, dict[str, Any]]:
    validity = K.parse(text).validity
    summary = {"kernel": text, "kernel is": validity.status}
    summary["proof"] = str(validity.proof or validity.counterexample)
    if validity.status == "valid":
        return f"Is {text} a kernel?", "Yes; here is the proof.", summary
    return (
        f"Is {text} a kernel?",
        "No: the Gram matrix of a few points has a negative eigenvalue.",
        summary,
    )


def _tumours() -> tuple[str, str, Data]:
    bunch: Any = datasets.load_breast_cancer(as_frame=True)
    y = bunch.target.map(dict(enumerate(bunch.target_names)))
    words = "569 tumours, 30 measurements each: benign or malignant? No settings are needed."
    return "Classification", words, Data(bunch.data, y, "breast cancer", "diagnosis")


def _diabetes() -> tuple[str, str, Data]:
    bunch: Any = datasets.load_diabetes(as_frame=True, scaled=False)
    words = "442 patients: how far will their diabetes progress in a year?"
    return "Regression", words, Data(bunch.data, bunch.target, "diabetes", "progression")


def _wines() -> tuple[str, str, Data, list[str]]:
    bunch: Any = datasets.load_wine(as_frame=True)
    words = "Two measurements of 178 wines; the bandwidth is a matrix, by a plug-in rule."
    return "Density", words, Data(bunch.data, None, "wine"), ["flavanoids", "color_intensity"]
