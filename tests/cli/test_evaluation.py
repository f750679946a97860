"""Scores on rows held out, and where there are none."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pandas as pd
import pytest

import mercer
from command_line import run
from mercer.cli import fitting, splits
from mercer.tables.readers import read


def test_the_score_is_that_of_the_model_on_the_rows_held_out(diabetes):
    """The file holds what is needed to find the same rows, and the same score."""
    data = read("diabetes.csv", target="target")
    model, summary = fitting.fit(data, random_state=3)
    y = np.asarray(data.y, dtype=float)
    test = splits.holdout(y, "regression", 0.25, 3).test
    X_test, y_test = data.X.iloc[test], y[test]
    residual = np.sum((y_test - model.predict(X_test)) ** 2)
    expected = 1 - residual / np.sum((y_test - y_test.mean()) ** 2)
    assert summary["score"]["value"] == pytest.approx(expected, rel=1e-12)


def test_a_model_no_better_than_a_constant_is_called_so(irises):
    rng = np.random.default_rng(0)
    for name, y in {"number": rng.normal(size=150), "class": rng.choice(["a", "b"], 150)}.items():
        irises[["soil"]].assign(y=y).to_csv(f"{name}.csv", index=False)
        found = run("fit", f"{name}.csv", "-t", "y", "--report", "p.html")
        assert "better than the baseline" in found.stderr
        assert "better than the baseline" in pathlib.Path("p.html").read_text()
    found = run("fit", "iris.csv", "-t", "species", "--report", "p.html")
    assert "do not show" not in found.stderr + pathlib.Path("p.html").read_text()


def test_a_constant_among_the_rows_held_out_leaves_no_score(here):
    rng = np.random.default_rng(0)
    y = [0.5, *[0.25] * 39]
    pd.DataFrame({"a": rng.normal(size=40), "b": y, "y": y}).to_csv("t.csv", index=False)
    found = run("fit", "t.csv", "-t", "y", "--max-time", "1", "--report", "p.html")
    assert re.search("R² +unknown on held-out rows", found.stdout)
    assert found.stderr.count("\n\n") == 1
    assert "0.25 in all held-out rows" in found.stderr
    assert mercer.read_notes("t.mercer")["importances"] is None
