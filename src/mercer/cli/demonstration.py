"""The demonstration: a proof, a refutation, two models and a density, and one page about them."""

from __future__ import annotations

from typing import Any

from sklearn import datasets

import mercer.kernels as K
from mercer.cli import fitting
from mercer.cli.density import estimate
from mercer.cli.output import Output, facts_table, plain, write
from mercer.report import pages
from mercer.tables.readers import Data


def demonstrate(out: Output, path: str, max_time: float) -> None:
    """Run it, say what comes out, and write the page."""
    summaries = []

    def tell(title: str, words: str, summary: dict[str, Any]) -> None:
        summaries.append({**plain(summary), "title": title, "words": words})
        if not out.as_json and not out.quiet:
            out.console.print(f"\n{title}", style="bold", markup=False)
            out.console.print(words, markup=False)
            if "data" in summary:
                out.console.print(facts_table(summary))
            else:  # whose brackets are no markup
                out.console.print(summary["proof"], markup=False, soft_wrap=True)

    with out.progress(2 * max_time) as step:
        step("proving")
        for text in ("0.5 * RBF(0.1) + Polynomial(2)", "Sigmoid(1.0, 1.0)"):
            title, words, summary = _checked(text)
            tell(title, words, summary)
        for title, words, data in (_tumours(), _diabetes()):
            _, summary = fitting.fit(data, max_time=max_time, step=step)
            tell(title, words, summary)
        step("estimating a density")
        title, words, data, columns = _wines()
        tell(title, words, estimate(data, columns, None, "gaussian")[3])
        step("writing")
        page = pages.page("What mercer does", summaries)
        write(path, page)
    if out.as_json:
        out.result({"sections": summaries, "report": path})
    elif path != "-":
        out.say(f"\nThe report, with plots: {path}")


def _checked(text: str) -> tuple[str, str, dict[str, Any]]:
    validity = K.parse(text).validity
    summary = {"kernel": text, "kernel is": validity.status}
    summary["proof"] = str(validity.proof or validity.counterexample)
    if validity.status == "valid":
        return f"Is {text} a kernel?", "Yes, and here is the proof.", summary
    return (
        f"Is {text} a kernel?",
        "No: the Gram matrix of a few points has a negative eigenvalue.",
        summary,
    )


def _tumours() -> tuple[str, str, Data]:
    bunch: Any = datasets.load_breast_cancer(as_frame=True)
    y = bunch.target.map(dict(enumerate(bunch.target_names)))
    words = "569 tumours, 30 measurements each: benign or malignant? Nothing is set by hand."
    return "Classes", words, Data(bunch.data, y, "breast cancer", "diagnosis")


def _diabetes() -> tuple[str, str, Data]:
    bunch: Any = datasets.load_diabetes(as_frame=True, scaled=False)
    words = "442 patients: how far will their diabetes have gone in a year?"
    return "Numbers", words, Data(bunch.data, bunch.target, "diabetes", "progression")


def _wines() -> tuple[str, str, Data, list[str]]:
    bunch: Any = datasets.load_wine(as_frame=True)
    words = "178 wines by two of their measurements; the bandwidth is a matrix, by a plug-in rule."
    return "Density", words, Data(bunch.data, None, "wine"), ["flavanoids", "color_intensity"]
