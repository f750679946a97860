"""`mercer fit --explain`: parts of a series in the terminal, in the notes and on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import mercer
from command_line import refused, run
from mercer.reports.structure import structure_of

RNG = np.random.default_rng(0)
T = np.arange(72)
SERIES = pd.DataFrame(
    {
        "date": pd.date_range("2015-01-01", periods=72, freq="MS"),
        "y": 0.1 * T + 2 * np.sin(2 * np.pi * T / 12) + 0.2 * RNG.normal(size=72),
    }
)


def test_fit_explains_a_series():
    SERIES.to_csv("series.csv", index=False)
    options = ("--explain", "--report", "page.html", "--max-time", "6")
    result = run("fit", "series.csv", "--target", "y", *options)
    assert "a yearly pattern" in result.stderr
    page = Path("page.html").read_text()
    assert "<h2>Structure</h2>" in page
    assert "Parts of the target" in page
    found = mercer.read_notes("series.mercer")["structure"]
    assert found["parts"][0]["x"][0].startswith("2015-01-01")
    assert len(found["words"]) == len(found["parts"]) + 2


def test_tables_without_a_structure():
    table = SERIES.assign(kind=["a", "b"] * 36)
    table.to_csv("words.csv", index=False)
    assert "hold words" in refused("fit", "words.csv", "-t", "y", "--explain")
    table.to_csv("classes.csv", index=False)
    assert "has classes" in refused("fit", "classes.csv", "-t", "kind", "--explain")


def test_two_columns_and_gaps():
    X = pd.DataFrame(RNG.uniform(0, 1, size=(60, 2)), columns=["a", "b"])
    y = 3 * X["a"].to_numpy() + np.sin(6 * X["b"].to_numpy()) + 0.05 * RNG.normal(size=60)
    X.iloc[3, 0] = np.nan
    found = structure_of(X, y, 5.0)
    assert "whole" not in found
    assert {part["column"] for part in found["parts"]} == {"a", "b"}
    for part in found["parts"]:
        assert np.all(np.array(part["low"]) <= part["mean"])
        assert np.all(np.array(part["mean"]) <= part["high"])
