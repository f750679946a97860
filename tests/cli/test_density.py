"""`mercer density`."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import ConciseDateFormatter, date2num

import mercer
from command_line import refused, run
from mercer.cli.density import estimate, rounding_step
from mercer.reports import figures
from mercer.tables.data import Data


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


def test_days_have_a_density(irises):
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(irises["petal length (cm)"], unit="D")
    irises["day"] = days.dt.strftime("%Y-%m-%d %H:%M:%S")
    irises.to_csv("days.csv", index=False)
    shown = run("density", "days.csv", "-c", "day", "-o", "d.csv", "--report", "d.html").stdout
    assert "day: 2024-01-02 09:36:00 as 19724.4, days since 1970-01-01" in shown
    found = pd.read_csv("d.csv")
    assert found["day"].tolist() == irises["day"].tolist()
    x = irises[["petal length (cm)"]].to_numpy()
    expected = mercer.KernelDensity(bandwidth="isj").fit(x).pdf(x)
    np.testing.assert_allclose(found["density"], expected, rtol=1e-3)
    columns = json.loads(run("density", "days.csv", "--json").stdout)["columns"]
    held = "2024-01-02 00:00:00 to 2024-01-07 21:36:00"
    assert {"name": "day", "kind": "day", "holds": held} in columns
    irises.assign(day="2024-01-01").to_csv("days.csv", index=False)
    assert "'day' of days.csv is 2024-01-01 throughout" in refused("density", "days.csv")


def test_days_are_drawn_as_days():
    days = pd.Series(pd.date_range("2024-01-01", periods=100))
    rows = pd.DataFrame({"day": days, "x": np.random.default_rng(0).normal(size=100)})
    for names in (["day"], ["x", "day"]):
        _, _, _, summary = estimate(Data(rows), names, "scott", "gaussian")
        figure, _, _ = figures._density(summary)
        axes = figure.axes[0]
        axis = axes.yaxis if len(names) == 2 else axes.xaxis
        assert isinstance(axis.get_major_formatter(), ConciseDateFormatter)
        first, last = axis.get_view_interval()
        assert first < date2num(days.min()) < date2num(days.max()) < last


def test_where_the_usual_rule_finds_no_bandwidth_another_is_taken_and_named(here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"even": np.arange(100) % 24, "a": rng.normal(size=100)})
    frame.assign(b=frame["even"] + frame["a"]).to_csv("t.csv", index=False)
    shown = run("density", "t.csv", "-c", "even").stdout
    assert "(scott, since isj finds no bandwidth for these rows)" in shown
    assert "(scott, since plugin finds no" in run("density", "t.csv").stdout
    assert "found no fixed point" in refused("density", "t.csv", "-c", "even", "--bandwidth", "isj")


def test_a_fold_without_a_bandwidth_leaves_no_likelihood(here, recwarn):
    pd.DataFrame({"even": np.arange(100) / 10}).to_csv("t.csv", index=False)
    shown = run("density", "t.csv")
    assert "isj" in shown.stdout
    assert "log-likelihood" not in shown.stdout
    assert shown.stderr == ""
    assert not recwarn


def test_columns_of_one_name_are_told_apart_by_position(irises):
    irises.iloc[:, :3].set_axis(["a", "b", "a"], axis="columns").to_csv("t.csv", index=False)
    assert "t.csv has 2 columns called 'a'" in refused("density", "t.csv", "-c", "a")
    petals = run("density", "iris.csv", "-c", "2", "-o", "-").stdout.splitlines()
    assert run("density", "t.csv", "-c", "2", "-o", "-").stdout.splitlines()[1:] == petals[1:]
    assert len(json.loads(run("density", "t.csv", "--json").stdout)["columns"]) == 3


@pytest.mark.parametrize("columns", [["wind"], ["wind", "pressure"]])
def test_rounded_values_have_no_comb_of_peaks(here, columns):
    """The density of values rounded to steps of five is near that of the values themselves."""
    rng = np.random.default_rng(0)
    wind = rng.gamma(9.0, 6.0, size=3000)
    exact = pd.DataFrame({"wind": wind, "pressure": 1010 - wind + 15 * rng.normal(size=3000)})
    rounded = (exact / 5).round() * 5
    options = [word for column in columns for word in ("-c", column)]
    found = {}
    for name, table in (("exact", exact), ("rounded", rounded)):
        table.to_csv(f"{name}.csv", index=False)
        result = run("density", f"{name}.csv", *options, "--save", f"{name}.mercer")
        found[name] = mercer.load(f"{name}.mercer")
        assert ("values are rounded: wind (steps of 5)" in result.stderr) == (name == "rounded")
    at = exact.iloc[:500][columns].to_numpy()
    p, q = (found[name].pdf(at) for name in ("exact", "rounded"))
    assert np.mean(np.abs(p - q)) < 0.1 * np.mean(p)
    if len(columns) == 1:
        line = np.linspace(30, 60, 301)[:, None]
        assert np.sum(np.diff(np.sign(np.diff(found["rounded"].pdf(line)))) != 0) <= 2
        told = run("density", "rounded.csv", *options, "--bandwidth", "1").stderr
        assert "below the rounding step of wind (steps of 5)" in told


def test_the_rounding_step():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    assert rounding_step(x) == 0
    assert rounding_step(np.round(x, 1)) == pytest.approx(0.1)
    assert rounding_step(np.round(10 * x) * 4) == 4
    assert rounding_step(np.repeat(x[:50], 10)) == 0
    assert rounding_step(np.ones(50)) == 0
