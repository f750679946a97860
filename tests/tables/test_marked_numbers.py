"""Numbers with marks are numbers, where all of a column have the same, and it is said."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import pandas as pd
import pytest

import mercer
from command_line import run
from mercer.tables.marked_numbers import read_marked
from mercer.tables.readers import read


def read_as(words, comma_parts=True, comma_decimals=False):
    """The values of a column, and the example that is told."""
    frame = pd.DataFrame({"x": words})
    told = read_marked(frame, comma_parts, comma_decimals)
    return frame["x"].tolist(), told.get("x")


@pytest.mark.parametrize(
    ("words", "numbers", "example"),
    [
        (["$12.30", "-$5", "$-1,234.5"], [12.3, -5, -1234.5], "$12.30 as 12.30"),
        (["12 %", "3%", "\u22120.5\u00a0%"], [12, 3, -0.5], "12 % as 12"),
        (["999", "1,234.5", "12,345,678"], [999, 1234.5, 12345678], "1,234.5 as 1234.5"),
        (["1.234,50 €", "7 €"], [1234.5, 7], "1.234,50 € as 1234.50"),
    ],
    ids=["money", "shares", "thousands", "continental"],
)
def test_numbers_with_marks(words, numbers, example):
    assert read_as(words) == (numbers, example)


@pytest.mark.parametrize(
    "words",
    [
        ["$5", "€5"],
        ["$5", "5"],
        ["12 %", "0.12"],
        ["1,2", "2,3"],
        ["0,123", "1,234"],
        ["1,23,456"],
        ["A$5", "B$6"],
        ["12 kg", "13 kg"],
        ["$", "%"],
        ["1.5", "2", "much"],
        ["$5", "free"],
        [None, None],
    ],
    ids=str,
)
def test_what_is_left_as_it_is(words):
    assert read_as(words) == (words, None)


def test_commas_are_decimal_where_they_can_be_nothing_else():
    assert read_as(["1,5", "-0,25e3"], comma_parts=False)[0] == [1.5, -250]
    assert read_as(["1,234", "5,678"], comma_parts=False)[0] == [1234, 5678]
    assert read_as(["1,234", "5,678"], comma_parts=False, comma_decimals=True)[0] == [1.234, 5.678]
    frame = pd.DataFrame({"either": ["1,234", "5,678"], "decimal": ["1,5", "2,5"]})
    read_marked(frame, comma_parts=False, comma_decimals=False)
    assert frame["either"].tolist() == [1.234, 5.678]


def test_a_few_words_among_them_are_kept_and_gaps_stay_gaps():
    values, example = read_as([*[f"${k}.50" for k in range(30)], "free", None])
    assert values[:2] == ["0.50", "1.50"]
    assert values[30] == "free"
    assert example == "$0.50 as 0.50"
    values, _ = read_as(["$1.50", None])
    assert values[0] == 1.5
    assert np.isnan(values[1])


def test_tab_separated_tables_have_decimal_commas(here):
    (here / "t.tsv").write_text("a\ty\n1,5\t21,165\n-0,25\t20,448\n")
    data = read("t.tsv", target="y")
    assert data.X["a"].tolist() == [1.5, -0.25]
    assert data.y.tolist() == [21.165, 20.448]


def prices(diabetes, name, written):
    """A table whose target is money or the like."""
    diabetes.assign(target=diabetes["target"].map(written)).to_csv(name, index=False)


def test_targets_with_marks_are_estimated_and_it_is_said(diabetes):
    prices(diabetes, "t.csv", "${:,.2f}".format)
    shown = run("fit", "t.csv", "-t", "target", "--max-time", "1", "--report", "p.html").stdout
    assert "regression of target" in shown
    assert "target: $151.00 as 151.00" in shown
    assert "$151.00 as 151.00" in pathlib.Path("p.html").read_text()
    result = run("predict", "t.mercer", "t.csv")
    assert re.search(r"^R² \d\.\d+ on the 442 rows", result.stderr, re.MULTILINE)
    predicted = np.array([float(line) for line in result.stdout.splitlines()[1:]])
    assert np.corrcoef(predicted, diabetes["target"])[0, 1] > 0.6


def test_marks_that_training_did_not_see_are_told(diabetes):
    run("fit", "diabetes.csv", "-t", "target", "-q", "--max-time", "1")
    expected = run("predict", "diabetes.mercer", "diabetes.csv")
    diabetes.assign(bmi=[f"{x} %" for x in diabetes["bmi"]]).to_csv("t.csv", index=False)
    result = run("predict", "diabetes.mercer", "t.csv")
    assert result.stdout == expected.stdout
    assert "read as numbers: bmi (32.1 % as 32.1)" in result.stderr


def test_columns_that_are_ignored_are_not_told_of(diabetes):
    frame = diabetes.assign(bmi="5 %", sex="$1").rename(columns={"target": "y"})
    frame.to_csv("t.csv", index=False)
    arguments = ("fit", "t.csv", "-t", "y", "--ignore", "bmi", "--json", "--max-time", "1")
    assert json.loads(run(*arguments).stdout)["read as"] == {"sex": "$1 as 1"}


def test_many_columns_with_marks_are_counted(diabetes):
    marked = {name: [f"{x} %" for x in column] for name, column in diabetes.items()}
    pd.DataFrame(marked).to_csv("t.csv", index=False)
    shown = " ".join(run("fit", "t.csv", "-t", "target", "--max-time", "1").stdout.split())
    assert "read as numbers target: 151.0 % as 151.0; age:" in shown
    assert "; 7 more columns" in shown
    assert len(mercer.read_notes("t.mercer")["read as"]) == 11


def test_text_that_may_be_a_quantity_is_told_of(diabetes):
    prices(diabetes, "t.csv", "{:.0f} kg".format)
    told = run("fit", "t.csv", "-t", "target", "--max-time", "1").stderr
    assert "such as '151 kg', and is treated as 214 classes; if it is a quantity" in told
    assert "unique classes" not in told
    asked = ("--task", "classification")
    told = run("fit", "t.csv", "-t", "target", "--max-time", "1", *asked).stderr
    assert "quantity" not in told
