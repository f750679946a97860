"""What cannot be done is told in one line, and nothing is left behind."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from command_line import refused, run


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["fit"], "Missing argument 'DATA'"),
        (["fit", "missing.csv", "-t", "y"], r"missing\.csv: No such file"),
        (["fit", "iris.csv"], "--target: name the column .* sepal"),
        (["fit", "iris.csv", "-t", "kind"], "--target kind: there is no such column"),
        (["fit", "iris.csv", "-t", "species", "--task", "regression"], "not a number"),
        (["fit", "iris.csv", "-t", "species", "--task", "magic"], "'magic' is not one of"),
        (["fit", "iris.csv", "-t", "species", "-o", "no/where"], "folder .* does not exist"),
        (["fit", "iris.csv", "-t", "species", "--format", "xml"], "--format xml"),
        (["fit", "iris.csv", "-t", "species", "--holdout", "2"], "holdout"),
        (["fit", "iris.csv", "-t", "species", "--report", "no/page.html"], "does not exist"),
        (["fit", "iris.csv", "-t", "Species"], "did you mean species?"),
        (["fit", "iris.csv", "-t", "species", "--ignore", "soli"], "did you mean soil?"),
        (["predict", "iris.csv", "iris.csv"], "iris.csv is not a model"),
        (["predict", "-", "-"], "cannot both"),
        (
            ["fit", "iris.csv", "-t", "species", "-o", "./iris.csv"],
            "cannot write to ./iris.csv: it is an input",
        ),
        (
            ["fit", "iris.csv", "-t", "species", "-o", "m", "--report", "m"],
            "m: another output goes there",
        ),
        (
            ["fit", "iris.csv", "-t", "species", "-o", "-", "--report", "-"],
            "standard output: another output",
        ),
        (["fit", "iris.csv", "-t", "species", "-o", "."], "not a regular file"),
        (["predict", "iris.csv", "iris.csv", "-o", "iris.csv"], "iris.csv: it is an input"),
        (["density", "iris.csv", "-o", "iris.csv"], "iris.csv: it is an input"),
        (["density", "iris.csv", "--save", "d", "--report", "d"], "d: another output"),
        (["report", "iris.csv", "-o", "iris.csv"], "iris.csv: it is an input"),
        (
            ["fit", "iris.csv", "-t", "species", "--report", "p.pdf"],
            "p.pdf: reports are .* as .html",
        ),
        (["density", "iris.csv", "--report", "p.png"], "written as .html, not .png"),
        (["report", "it.mercer", "-o", "p.pdf"], "written as .html, not .pdf"),
        (["demo", "-o", "p.PDF"], "written as .html, not .pdf"),
        (["predict", "it.mercer", "iris.csv", "-o", "p.xlsx"], "written as .csv"),
        (["density", "iris.csv", "-o", "p.parquet"], "written as .csv"),
        (["check", "RBF("], "RBF"),
        (["check", "__import__('os')"], "mercer"),
        (["kernels", "RFB"], "did you mean RBF?"),
        (["kernels", "Magic"], "there is no kernel Magic"),
        (["density", "iris.csv", "-c", "species"], "no such numeric column"),
        (["density", "iris.csv", "-c", "soil", "--bandwidth", "wide"], "soil"),
        (["density", "iris.csv", "--bandwidth", "wide"], "--bandwidth wide: there are isj, lscv"),
        (["density", "iris.csv", "--bandwidth", "Scot"], "did you mean scott?"),
        (["density", "iris.csv", "--bandwidth", "-1"], "a number above 0"),
        (
            ["density", "iris.csv", "--kernel", "gausian"],
            "--kernel gausian: did you mean gaussian?",
        ),
        (["report", "missing.mercer"], r"missing\.mercer: No such file"),
        (["magic"], "No such command 'magic'"),
        (["--magic"], "No such option"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_errors_are_one_line(arguments, match, irises):
    assert re.search(match, refused(*arguments))


def test_small_and_constant_tables_are_refused(here):
    pd.DataFrame({"a": [1, 2], "y": [1, 2]}).to_csv("few.csv", index=False)
    assert "10 are needed" in refused("fit", "few.csv", "-t", "y")
    pd.DataFrame({"a": range(20), "y": ["x"] * 20}).to_csv("same.csv", index=False)
    assert "nothing to learn" in refused("fit", "same.csv", "-t", "y")
    pd.DataFrame({"a": range(20), "y": [3.5] * 20}).to_csv("same.csv", index=False)
    assert "the target is 3.5 throughout" in refused("fit", "same.csv", "-t", "y")
    days = pd.date_range("2024-01-01", periods=20).strftime("%Y-%m-%d")
    pd.DataFrame({"a": range(20), "y": days}).to_csv("days.csv", index=False)
    told = refused("fit", "days.csv", "-t", "y")
    assert (
        "no two rows have the same target, such as 2024-01-01; each class needs several rows"
        in told
    )
    assert told.endswith("write quantities as plain numbers\n")
    pd.DataFrame({"a": range(20), "y": np.arange(20) + 0.5}).to_csv("prices.csv", index=False)
    told = refused("fit", "prices.csv", "-t", "y", "--task", "classification")
    assert told.endswith("without --task classification these numbers are treated as quantities\n")
    told = refused("fit", "days.csv", "-t", "y", "--task", "regression")
    assert "the target holds '2024-01-01', which is not a number; write numbers, or" in told
    pd.DataFrame({"y": range(20)}).to_csv("alone.csv", index=False)
    assert "no column except" in refused("fit", "alone.csv", "-t", "y")


def test_what_is_infinite_is_named(here):
    pd.DataFrame({"a": [*range(19), np.inf], "y": range(20)}).to_csv("t.csv", index=False)
    assert "column 'a' of t.csv is infinite in row 19" in refused("fit", "t.csv", "-t", "y")


def test_names_that_several_columns_have_are_refused(here):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)))
    for name, names in {"t": ["y", "a", "y"], "f": ["a", " a", "y"], "n": ["a", "b", "y"]}.items():
        frame.set_axis(names, axis="columns").to_csv(f"{name}.csv", index=False)
    told = "t.csv has 2 columns called 'y'; give each a name of its own\n"
    assert refused("fit", "t.csv", "-t", "y").endswith(told)
    assert refused("fit", "t.csv", "-t", "2").endswith(told)
    told = "f.csv has 2 columns called 'a'; give each a name of its own, or leave them out with "
    assert told + "--ignore 'a'" in refused("fit", "f.csv", "-t", "y")
    assert "no column except" in refused("fit", "f.csv", "-t", "y", "--ignore", "a")
    run("fit", "n.csv", "-t", "y", "-q", "--max-time", "1")
    frame.assign(b=0).set_axis(["a", "a", "y", "b"], axis="columns").to_csv("n.csv", index=False)
    assert "n.csv has 2 columns called 'a'" in refused("predict", "n.mercer", "n.csv")
    frame.assign(b=0).set_axis(["a", "y", "y", "b"], axis="columns").to_csv("n.csv", index=False)
    assert (
        "no score: several columns of n.csv are called 'y'"
        in run("predict", "n.mercer", "n.csv").stderr
    )


def test_other_files_are_overwritten_by_force_only(irises, diabetes):
    one = ("fit", "iris.csv", "-t", "species", "-q", "--max-time", "1", "-o", "m.mercer")
    other = ("fit", "diabetes.csv", "-t", "target", "-q", "--max-time", "1", "-o", "m.mercer")
    run(*one)
    run(*one)
    assert "m.mercer holds a model of iris.csv; --force overwrites it" in refused(*other)
    soil = [("soil" if word == "species" else word) for word in one]
    assert "holds a model of the target species" in refused(*soil)
    run(*other, "--force")
    told = refused("fit", "iris.csv", "-t", "species", "-o", "diabetes.csv")
    assert "diabetes.csv exists and is not a model" in told
    assert "one column is predicted at a time" in refused(*one, "-t", "soil")
