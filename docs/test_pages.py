"""Every snippet of every page runs and prints what the page says; the tables are complete."""

from __future__ import annotations

import doctest
import pathlib
import re

import numpy as np
import pytest

import mercer
import naive_kernels
from mercer.kernels import REGISTRY

HERE = pathlib.Path(__file__).parent
PAGES = [*sorted(HERE.glob("*.md")), HERE.parent / "README.md"]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def sessions_only(page):
    """The page with Markdown fences gone, and with them blocks that are not ``>>>`` sessions."""

    def blank(block):
        inside = block.group(1)
        return f"\n{inside}\n" if inside.startswith(">>>") else "\n" * block.group().count("\n")

    return re.sub(r"(?ms)^```[^\n]*\n(.*?)^```$", blank, page)


class FencedParser(doctest.DocTestParser):
    """Reads ``>>>`` sessions inside Markdown fences; a fence ends the expected output."""

    def parse(self, string, name="<string>"):
        return super().parse(sessions_only(string), name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page, capsys):
    outcome = doctest.testfile(
        str(page),
        module_relative=False,
        optionflags=FLAGS,
        parser=FencedParser(),
        encoding="utf-8",
        globs={"__name__": "__main__"},
    )
    assert outcome.failed == 0, capsys.readouterr().out


def named_on(page):
    return set(re.findall(r"`(\w+)", (HERE / page).read_text(encoding="utf-8")))


def test_the_kernel_page_names_every_kernel():
    written = {name for name, cls in REGISTRY.items() if cls.__module__.startswith("mercer.")}
    operators = {"Sum", "Product", "Power", "Exp", "Normalized", "Rescaled", "Composed"}
    assert written - operators - {"OnColumns"} <= named_on("kernels.md")


def test_the_estimator_page_names_every_estimator():
    estimators = {name for name in mercer.__all__ if name[0].isupper()}
    assert estimators
    assert estimators <= named_on("estimators.md")


def test_the_notes_page_walks_through_every_row():
    text = (HERE / "notes.md").read_text(encoding="utf-8")
    rows = [int(n) for n in re.findall(r"(?m)^## (\d+)\.", text)]
    assert rows == list(range(1, 25))


def test_the_kernel_of_the_development_page_works():
    text = (HERE / "development.md").read_text(encoding="utf-8")
    code = re.search(r"(?ms)^```python\n(class Cauchy.*?)^```$", text).group(1)
    oracle = re.search(r'(?m)^    "Cauchy": (lambda.*),$', text).group(1)
    names = {**vars(mercer.kernels.distance), "__name__": "development"}
    try:
        exec(code, names)  # the page's own class, in the module the page puts it in
        kernel = names["Cauchy"](gamma=0.4, scales=[0.5, 2.0])
        X = np.random.default_rng(0).normal(size=(6, 2))
        naive = eval(oracle, {"distance": naive_kernels.distance})
        expected = [[naive(kernel, x, z) for z in X] for x in X]
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-12)
        assert kernel.validity.status == "valid"
        features = kernel.approximate_map(40_000, random_state=0).fit_transform(X)
        np.testing.assert_allclose(features @ features.T, expected, atol=0.05)
    finally:
        REGISTRY.pop("Cauchy", None)
