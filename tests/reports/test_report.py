"""`mercer.report`: numbers, page and notebook view of a fitted model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import scale

import mercer
from mercer.reports.importances import dependence, importances, interactions


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return X.assign(sex=X["sex"].map({1: "f", 2: "m"})), y


def test_regression(diabetes, tmp_path):
    X, y = diabetes
    model = mercer.AutoKernelRegressor(max_time=2).fit(X[:300], y[:300])
    found = mercer.report(model, X[300:], y[300:], X_train=X[:300], y_train=y[:300])
    numbers = found.to_dict()
    json.dumps(numbers, allow_nan=False)
    assert numbers["score"]["value"] == pytest.approx(model.score(X[300:], y[300:]))
    assert [s["name"] for s in numbers["scores"]] == ["R²", "RMSE", "MAE"]
    assert {row["column"] for row in numbers["importances"]} == set(X.columns)
    assert numbers["importances"][0]["column"] in ("bmi", "s5")
    models = {row["model"]: row["value"] for row in numbers["comparison"]}
    assert models["predicting the mean"] < 0.05 < models["ridge regression"]
    kinds = {c["name"]: c["kind"] for c in numbers["columns"]}
    assert (kinds["sex"], kinds["bmi"]) == ("category", "number")
    found.save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    for word in ("Residuals", "Partial dependence", "boosted trees", "Proof that the kernel"):
        assert word in text
    assert found._repr_html_().startswith("<iframe")
    assert "R²" in repr(found)


def test_classification_of_scikit_learns_models():
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    model = LogisticRegression().fit(X[::2], y[::2])
    found = mercer.report(model, X[1::2], y[1::2], metric="log_loss").to_dict()
    assert found["score"]["name"] == "log loss"
    assert found["score"]["better"]
    assert len(found["by class"]) == 3
    assert "comparison" not in found
    two = y > 0
    model = mercer.SVC().fit(X[::2], two[::2])
    found = mercer.report(model, X[1::2], two[1::2]).to_dict()
    assert "roc" not in found
    model = mercer.AutoKernelClassifier(max_time=2).fit(X[::2], two[::2])
    found = mercer.report(model, X[1::2], two[1::2])
    assert {"roc", "precision recall", "calibration"} <= set(found.to_dict())
    assert "Calibration" in found.html()


def test_what_is_no_model_is_refused(diabetes):
    X, y = diabetes
    model = LinearRegression().fit(X[["bmi"]], y)
    with pytest.raises(TypeError, match="neither"):
        mercer.report(mercer.KernelPCA().fit(X[["bmi"]]), X[["bmi"]], y)
    with pytest.raises(ValueError, match="X has 442 rows and y has 3"):
        mercer.report(model, X[["bmi"]], y[:3])
    with pytest.raises(ValueError, match="regression has the metrics"):
        mercer.report(model, X[["bmi"]], y, metric="auc")


class Additive:
    """f = 2 a - b, and 3 a b where it interacts."""

    def __init__(self, product=0.0):
        self.product = product

    def predict(self, X):
        a, b = (np.asarray(X)[:, k].astype(float) for k in (0, 1))
        return 2 * a - b + self.product * a * b


def test_importance_is_the_loss_by_permutation():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    y = Additive().predict(X)
    found = {r["column"]: r for r in importances(Additive(), X, y, "regression")}
    # Permuting a column doubles its part of the variance: (4, 1, 0) of 5.
    assert found["a"]["mean"] == pytest.approx(2 * 4 / 5, abs=0.2)
    assert found["b"]["mean"] == pytest.approx(2 * 1 / 5, abs=0.1)
    assert found["c"]["mean"] == found["c"]["sd"] == 0
    assert 0 < found["a"]["sd"] < 0.2
    again = importances(Additive(), X.to_numpy(), y, "regression")
    assert [r["mean"] for r in again] == [r["mean"] for r in found.values()]


def test_partial_dependence_and_interactions():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    (curve,) = dependence(Additive(), X, ["a"])
    slopes = np.diff(curve["mean"]) / np.diff(curve["values"])
    np.testing.assert_allclose(slopes, 2, rtol=1e-9)
    assert interactions(Additive(), X, ["a", "b"])[0]["H"] == pytest.approx(0, abs=1e-9)
    assert interactions(Additive(3.0), X, ["a", "b"])[0]["H"] > 0.5


def test_partial_dependence_of_words_days_and_gaps():
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60), unit="D")
    X = pd.DataFrame({"w": ["x", "y", None] * 20, "day": days, "n": range(60), "t": [True] * 60})

    class Model:
        def predict(self, X):
            assert list(X.dtypes.astype(str)) == [*map(str, Xs.dtypes)] or X["n"].dtype == float
            return (X["w"] == "y") * 1.0 + X["n"] / 60

    Xs = X
    found = dependence(Model(), X, ["w", "day", "n", "t"])
    by_name = {row["column"]: row for row in found}
    assert by_name["w"]["values"] == ["x", "y"]
    assert np.diff(by_name["w"]["mean"]) == pytest.approx([1.0])
    assert by_name["day"]["values"][0].startswith("2024-01-0")
    assert "t" not in by_name
