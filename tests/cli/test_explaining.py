"""`mercer explain`: the effect of each column on one prediction, and similar rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import mercer
from command_line import refused, run


def test_effects_are_changes_of_the_prediction(diabetes):
    diabetes["sex"] = diabetes["sex"].map({1: "f", 2: "m"})
    diabetes["day"] = pd.date_range("2024-01-01", periods=442).strftime("%Y-%m-%d")
    diabetes.to_csv("t.csv", index=False)
    run("fit", "t.csv", "-t", "target", "-q", "--max-time", "2")
    options = ("--row", "7", "--among", "t.csv")
    found = json.loads(run("explain", "t.mercer", "t.csv", *options, "--json").stdout)
    table = pd.read_csv("t.csv").drop(columns="target")
    model, row = mercer.load("t.mercer"), table.iloc[[7]]
    assert found["prediction"] == pytest.approx(model.predict(row)[0])
    effects = {r["column"]: r for r in found["effects"]}
    assert set(effects) == set(table.columns)
    changed = row.assign(bmi=table["bmi"].median())
    expected = model.predict(row)[0] - model.predict(changed)[0]
    assert effects["bmi"]["effect"] == pytest.approx(expected)
    changed = row.assign(sex=table["sex"].mode()[0])
    expected = model.predict(row)[0] - model.predict(changed)[0]
    assert effects["sex"]["effect"] == pytest.approx(expected, abs=1e-9)
    sizes = [abs(r["effect"]) for r in found["effects"]]
    assert sizes == sorted(sizes, reverse=True)
    nearest = found["nearest"]
    assert (nearest[0]["row"], nearest[0]["similarity"]) == (7, pytest.approx(1))
    points = model.coding_.transform(table)
    K = model.kernel_(points[[7]], points)[0] / np.sqrt(model.kernel_.diag(points))
    assert [r["row"] for r in nearest] == np.argsort(-K, kind="stable")[:5].tolist()
    text = run("explain", "t.mercer", "t.csv", *options).stdout
    for word in ("row 7: prediction", "instead of", "█", "row 7: similarity 1.000, target"):
        assert word in text
    assert "t.csv has 442 rows" in refused("explain", "t.mercer", "t.csv", "--row", "442")


def test_classes_arrays_and_new_values(irises):
    run("fit", "iris.csv", "-t", "species", "-q", "--max-time", "2")
    new = irises.drop(columns="species").iloc[[0]].assign(soil="sand")
    new.to_csv("new.csv", index=False)
    text = run("explain", "iris.mercer", "new.csv").stdout
    for word in ("prediction setosa", "probability of virginica", "soil=sand is new", "novelty"):
        assert word in text
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    np.savez("a.npz", X=X, y=X[:, 0])
    run("fit", "a.npz", "-q", "--max-time", "1")
    found = json.loads(run("explain", "a.mercer", "a.npz", "--json").stdout)
    assert found["prediction"] == pytest.approx(X[0, 0], abs=0.5)
