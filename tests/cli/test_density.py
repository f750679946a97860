"""`mercer density`."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import mercer
from command_line import refused, run
from mercer.cli.density import estimate
from mercer.cli.readers import Data


def test_density(irises):
    shown = run("density", "iris.csv", "-c", "petal length (cm)").stdout
    assert "bandwidth" in shown
    assert "isj" in shown
    out = run("density", "iris.csv", "-c", "0", "-c", "1", "-o", "-").stdout.splitlines()
    assert out[0].endswith(",density")
    assert len(out) == 150  # one row has a missing value
    X = irises.iloc[:, :2].dropna().to_numpy()
    expected = mercer.KernelDensity(bandwidth="plugin").fit(X).pdf(X)
    np.testing.assert_allclose([float(line.split(",")[2]) for line in out[1:]], expected)
    found = json.loads(run("density", "iris.csv", "--json", "--save", "d.mercer").stdout)
    assert found["rows"] == 149
    assert isinstance(mercer.load("d.mercer"), mercer.KernelDensity)


def test_densities_of_columns_that_hold_nothing_or_one_value(irises):
    irises["empty"] = None
    irises.to_csv("some.csv", index=False)
    assert len(json.loads(run("density", "some.csv", "--json").stdout)["columns"]) == 4
    assert "0 complete rows" in refused("density", "some.csv", "-c", "empty")
    irises["same"] = 2.5
    irises.to_csv("some.csv", index=False)
    assert "column 'same' of some.csv is 2.5 throughout" in refused("density", "some.csv")
    run("density", "some.csv", "-c", "same", "--bandwidth", "1")


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_densities_are_drawn_where_the_rows_are_in_any_unit(unit, irises):
    x = unit * irises["petal length (cm)"]
    _, _, _, summary = estimate(Data(pd.DataFrame({"x": x})), None, None, "gaussian")
    at, density = np.array(summary["grid"]["axes"]["x"]), np.array(summary["grid"]["density"])
    np.testing.assert_allclose(at[[0, -1]], unit * np.array([0.115, 7.785]))
    assert np.trapezoid(density, at) == pytest.approx(1.0, abs=0.01)


def test_densities_are_of_the_columns_asked_for(irises):
    irises.insert(0, "rownames", range(1, 151))
    irises.insert(1, "grower", irises.pop("soil"))
    irises.to_csv("rows.csv", index=False)
    by_name = run("density", "rows.csv", "-c", "sepal width (cm)", "-o", "-").stdout
    assert run("density", "rows.csv", "-c", "3", "-o", "-").stdout == by_name
    shown = run("density", "rows.csv", "-c", "rownames", "--report", "d.html", "--save", "d.mercer")
    assert "left out" not in shown.stdout
    assert "saved as d.mercer, report in d.html" in shown.stderr
    assert "grower holds 'wet'" in refused("density", "rows.csv", "-c", "1")
    shown = run("density", "rows.csv", "-c", "2", "-c", "3", "--bandwidth", "plugin").stdout
    assert re.search(r"bandwidth +\[\[[\d.]+, -?[\d.]+\], \[-?[\d.]+, [\d.]+\]\] \(plugin\)", shown)
