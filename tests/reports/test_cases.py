"""Single rows of a report: other values, similar training rows, intervals, residuals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import mercer
from mercer import kernels as K
from mercer.reports import cases
from mercer.reports.models import uses
from mercer.reports.pages import page
from mercer.reports.report import held_out
from mercer.reports.scores import HeldOut


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    n = 240
    X = pd.DataFrame({"dose": rng.uniform(-1, 1, n), "site": rng.choice(["north", "south"], n)})
    y = 3 * X.dose**2 + (X.site == "south") + 0.1 * rng.normal(size=n)
    model = mercer.AutoKernelRegressor().fit(X[:160], y[:160])
    return model, X, np.asarray(y)


def test_one_row_with_other_values_has_the_models_predictions(fitted):
    model, X, y = fitted
    held = held_out(model, X[160:], y[160:], "regression")
    row = cases.largest_error(held)
    assert row == np.argmax(np.abs(y[160:] - model.predict(X[160:])))
    found = cases.what_if(model, X[160:], held, row, 160 + row, ["dose", "site"])
    assert found is not None
    assert found["row"] == 160 + row
    dose, site = found["columns"]
    for column in (dose, site):
        changed = pd.concat([X.iloc[[160 + row]]] * len(column["values"]), ignore_index=True)
        changed[column["column"]] = column["values"]
        np.testing.assert_allclose(column["response"], model.predict(changed))
    assert (dose["own"], site["own"]) == tuple(X.iloc[160 + row])
    assert cases.what_if(model, X[160:], held, row, row, []) is None


def test_similar_rows_are_the_nearest_by_the_kernel(fitted):
    _, X, y = fitted
    points = X[["dose"]].to_numpy()
    model = mercer.KernelRidge(kernel=K.RBF(4.0)).fit(points[:160], y[:160])
    found = cases.nearest_training_rows(
        model, points[160:], 3, points[:160], y[:160], 1000 + np.arange(160)
    )
    distance = np.abs(points[:160, 0] - points[163, 0])
    nearest = np.argsort(distance)[: len(found)]
    assert [row["row"] for row in found] == (1000 + nearest).tolist()
    np.testing.assert_allclose(
        [r["similarity"] for r in found], np.exp(-4 * distance[nearest] ** 2)
    )
    np.testing.assert_allclose([r["true"] for r in found], y[nearest])
    linear = LogisticRegression().fit(points[:160], y[:160] > 1)
    assert not cases.nearest_training_rows(linear, points, 0, points, y, np.arange(240))


def test_coverage_counts_rows_inside(fitted):
    model, X, y = fitted
    found = cases.interval_coverage(model, X[160:], y[160:])
    for row in found:
        low, high = model.predict_interval(X[160:], coverage=row["coverage"])
        assert row["observed"] == np.mean((low <= y[160:]) & (y[160:] <= high))
        assert row["mean width"] == pytest.approx(np.mean(high - low))
    assert abs(found[2]["observed"] - 0.9) < 0.1
    assert cases.interval_coverage(LogisticRegression(), X, y) == []


def test_residuals_of_numbers_and_few_categories(fitted):
    model, X, y = fitted
    held = held_out(model, X[160:], y[160:], "regression")
    dose, site = cases.residuals_by_column(X[160:], held, ["dose", "site"])
    by_dose = dict(zip(X.dose[160:], held.y - held.predicted, strict=True))
    assert dict(zip(dose["values"], dose["residual"], strict=True)) == pytest.approx(by_dose)
    assert set(site["values"]) == {"north", "south"}


def test_the_row_whose_class_is_least_probable():
    shares = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    held = HeldOut(
        "classification", np.array([1, 1, 1]), np.array([0, 1, 0]), np.array([0, 1]), shares
    )
    assert cases.largest_error(held) == 0


def test_the_page_has_all_of_it(fitted):
    model, X, y = fitted
    found = mercer.report(model, X[160:], y[160:], X_train=X[:160], y_train=y[:160]).to_dict()
    text = page("t", [found])
    for title in (
        "Residuals by column",
        "Coverage of prediction intervals",
        "What if: one row with other values",
        "Similar training rows",
        "Columns as they were read and used",
    ):
        assert title in text
    assert "value, rank" in text
    names = [part.split('"')[0] for part in text.split('aria-label="')[1:]]
    assert len(names) == len(set(names))


def test_uses_of_columns():
    n = 60
    table = pd.DataFrame(
        {"a": np.arange(n) / 7, "b": ["u", "v"] * 30, "name": [f"Ann {i} Lee" for i in range(n)]}
    )
    coding = mercer.AutoKernelRegressor(quality="fast").fit(table, np.arange(n) % 7).coding_
    number, category, name = uses(coding, 3)
    assert number == "value, rank"
    assert category.startswith("indicators of")
    assert "left out" in name or "sequences" in name
