"""Every snippet of every page runs and prints what the page says; the tables are complete."""

from __future__ import annotations

import doctest
import pathlib
import re

import numpy as np
import pandas as pd
import pytest
from generation import catalogue, drawings, formulas, performance

import mercer
import naive_kernels
from mercer import kernels as K
from mercer.kernels import REGISTRY
from sklearn_versions import needs_callbacks

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


def scripts(page):
    """Blocks of Python that are no sessions."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", page.read_text(encoding="utf-8"))
    return [block for block in blocks if not block.startswith(">>>")]


def test_what_is_no_session_is_run_by_a_test_of_its_own():
    found = {page.name: len(scripts(page)) for page in PAGES if scripts(page)}
    assert found == {"clusters.md": 1, "development.md": 3, "estimators.md": 1, "gpu.md": 3}


def test_the_tables_of_the_page_on_clusters(tmp_path):
    names = ["pressure", "flow", "heat", "yield"]
    pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=names).to_parquet(
        tmp_path / "readings"
    )
    (code,) = scripts(HERE / "clusters.md")
    code = code.replace('"scheduler:8786"', "processes=False, dashboard_address=None")
    code = code.replace("s3://bucket", str(tmp_path)).replace("n_centers=1000", "n_centers=10")
    run = {"KernelRidge": mercer.KernelRidge}
    try:
        exec(code, run)
    finally:
        if "client" in run:
            run["client"].close()
    predicted = pd.read_parquet(tmp_path / "predicted")
    assert len(predicted) == 60
    assert np.isfinite(predicted["predicted"]).all()


def test_the_tensors_of_the_page_on_gpus(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="tensors want torch")
    first, derivatives, streamed = scripts(HERE / "gpu.md")
    if not torch.cuda.is_available():
        first = first.replace("100_000", "200").replace("cuda", "cpu")
        streamed = streamed.replace("cuda", "cpu")
    run = {}
    exec(first, run)
    assert run["model"].predict(run["X"][:10]).shape == (10,)
    slopes = {}
    exec(derivatives, slopes)
    assert slopes["Z"].grad.shape == (20, 3)
    assert slopes["gamma"].grad.shape == ()
    assert slopes["score"].abs().max() > 0
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(300, 10))
    np.save("points.npy", X)
    run["y"] = np.sin(X[:, 0])
    exec(streamed.replace("50_000", "100").replace("10_000", "20"), run)
    assert isinstance(run["model"].predict(X[:10]), np.ndarray)


@needs_callbacks
def test_the_progress_bar_of_the_estimator_page(capsys):
    (code,) = scripts(HERE / "estimators.md")
    X = np.random.default_rng(0).normal(size=(300, 2))
    exec(code, {"SVC": mercer.SVC, "X": X, "y": X[:, 0] > X[:, 1]})
    assert "SVC" in capsys.readouterr().out


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
    names = {**vars(mercer.kernels.vector.distance), "__name__": "development"}
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


def test_links_lead_somewhere_in_a_clone():
    followed = 0
    for page in [*PAGES, HERE.parent / "CHANGELOG.md", HERE.parent / "benchmarks" / "README.md"]:
        text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not re.match(r"\w+:|generated/", link):
                assert (page.parent / link).exists(), (page.name, link)
                followed += 1
    assert followed > 50


# What pages are made of when the site is built.


def test_pages_name_nothing_that_is_not_there():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in set(re.findall(r"(?<![.\w])K\.([A-Za-z]\w*)", text)) - {"Cauchy"}:
            assert hasattr(K, name), (page.name, name)
        for name in set(re.findall(r"(?<![.\w-])mercer\.([A-Za-z]\w*)(?=\()", text)):
            assert hasattr(mercer, name), (page.name, name)


def test_the_catalogue_has_every_kernel():
    found = [name for kernels in catalogue.entries().values() for name, _ in kernels]
    ours = [name for name, cls in REGISTRY.items() if cls.__module__.startswith("mercer.")]
    assert sorted(found) == sorted(ours)
    assert "Others" not in catalogue.entries()


def test_an_entry_of_the_catalogue(tmp_path):
    text = catalogue.entry("Conjunction", K.Conjunction())
    assert r"k(x, z) = \prod_j (1 + x_j z_j)" in text
    assert "*features*: 8, for points of three numbers" in text
    assert "*validity*: a kernel: a product over features" in text
    assert "**not** a kernel" in catalogue.entry("Sigmoid", K.Sigmoid())
    assert r"\sum_{u \in \Sigma^k}" in catalogue.entry("Spectrum", K.Spectrum())
    for kernel in (K.Sigmoid(), K.Spectrum(2)):
        assert catalogue.draw(kernel, tmp_path / "it.svg")
        assert "</svg>" in (tmp_path / "it.svg").read_text()
    assert not catalogue.draw(K.Precomputed(), tmp_path / "none.svg")


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (K.RBF(), r"\exp\Bigl(-\gamma \, \lVert x - z \rVert^2\Bigr)"),
        (K.Exponential(), r"\exp\Bigl(-\gamma \, \lVert x - z \rVert\Bigr)"),
        (K.Polynomial(2), r"\bigl(\gamma \, x \cdot z + c\bigr)^{2}"),
        (K.Cosine(), r"\frac{x \cdot z}{\lVert x \rVert \, \lVert z \rVert}"),
        (K.Linear() * 3.0 + 1.0, r"c \, x \cdot z + c"),
        (
            K.Tanimoto(),
            r"\frac{x \cdot z}{\lVert x \rVert^2 + \lVert z \rVert^2 - x \cdot z}",
        ),
    ],
)
def test_expressions_as_tex(kernel, expected):
    assert formulas.tex(kernel.expression()) == expected


RESULTS = """# Benchmarks

## Results

### 2030-01-02, `machines.py --cpu`, some machine, 4 cores

```text
huber, n = 20, 5 centres: mercer 0.5 s, Nystroem + HuberRegressor 2.0 s, ratio 4.0; the rest
exact, 20 at 20, d = 2: mercer 0.2 s (error 3e-15 nats)
  10.5 x scipy (2.60 s)
cholesky: slope 2.29, 2.73 at the end; 1000: 0.02 s, 2000: 0.10 s
WeisfeilerLehman(5), ENZYMES                         13.1      302.7     23.0x  0.0e+00
```

### 2030-01-01, `svm.py`, another

| set | dtype | fit, mercer | scikit-learn | oneDAL | ratio | predict | s | o | ratio |
|---|---|---|---|---|---|---|---|---|---|
| iris, 150×4 | float32 | 2.0 | 1.0 | 4.0 | 2.00 | 1.0 | 3.0 | 5.0 | 0.33 |
"""


def test_results_become_ratios():
    newer, older = performance.runs(RESULTS)
    assert (newer.date, newer.script, newer.where) == (
        "2030-01-02",
        "machines.py",
        "some machine, 4 cores",
    )
    assert {(r.task, r.peer): r.value for r in performance.ratios(newer)} == {
        ("huber, n = 20, 5 centres", "Nystroem + HuberRegressor"): 4.0,
        ("exact, 20 at 20, d = 2", "SciPy"): 10.5,
        ("WeisfeilerLehman(5), ENZYMES", "scikit-learn"): 23.0,
    }
    assert {(r.task, r.peer): r.value for r in performance.ratios(older)} == {
        ("fit, iris, 150×4, float32", "scikit-learn"): 0.5,
        ("fit, iris, 150×4, float32", "oneDAL"): 2.0,
        ("predict, iris, 150×4, float32", "scikit-learn"): 3.0,
        ("predict, iris, 150×4, float32", "oneDAL"): 5.0,
    }
    (growth,) = performance.growths(newer)
    assert growth == performance.Growth("cholesky", [1000, 2000], [0.02, 0.1])
    text = performance.lost({older: performance.ratios(older)})
    assert text.startswith("Of 4 comparisons 1 are lost: fit, iris")
    with pytest.raises(ValueError, match="no line like"):
        performance.figures(RESULTS)


def test_the_results_that_are_kept_are_read(tmp_path):
    readme = performance.README.read_text(encoding="utf-8")
    found = {run: performance.ratios(run) for run in performance.runs(readme)}
    assert {"svm.py", "matvec.py"} <= {run.script for run, ratios in found.items() if ratios}
    assert len(performance.figures(readme)) == 3
    performance.write(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"ratios.svg", "growth.svg", "performance.md", "figures.md"} <= names


def test_decision_trees_end_in_names_of_the_library():
    for tree, home in ((drawings.ESTIMATORS, mercer), (drawings.KERNELS, K)):
        answers = " ".join(answer for cases in tree.values() for answer in cases.values())
        names = set(re.findall(r"[A-Z]\w+|hsic|mmd", answers))
        assert names
        for name in names:
            assert hasattr(home, name), name


def test_the_pictures_of_the_readme_are_there_and_small():
    text = (HERE.parent / "README.md").read_text(encoding="utf-8")
    pictures = [HERE.parent / path for path in re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)]
    assert len(pictures) == 2
    assert all(0 < picture.stat().st_size < 300_000 for picture in pictures)


def test_drawings_are_drawn(tmp_path):
    drawings.write(tmp_path)
    for name in ("choose_estimator", "choose_kernel", "ideas", "front"):
        assert "</svg>" in (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
