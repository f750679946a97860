"""A refit keeps the kernel and fits it to all rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.auto.combination import tree_scores
from mercer.auto.refitting import refitted
from mercer.tables.coordinates import TableCoordinates


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=160), "b": rng.choice(list("uvw"), 160)})
    return X, 2 * X["a"].to_numpy() + (X["b"] == "u") + 0.3 * rng.normal(size=160)


def test_regression_on_all_rows(table):
    X, y = table
    model = mercer.AutoKernelRegressor(max_time=2).fit(X[:100], y[:100])
    before = model.predict(X)
    found = refitted(model, X, y)
    assert found.kernel_ is model.kernel_
    assert (found.alpha_, len(found.model_.X_fit_)) == (model.alpha_, 160)
    np.testing.assert_array_equal(model.predict(X), before)
    coding = TableCoordinates(random_state=model.coding_.random_state)
    points = coding.fit_transform(X, (y - model.y_mean_) / model.y_scale_)
    ridge = mercer.KernelRidge(alpha=model.alpha_, kernel=model.kernel_)
    ridge.fit(points, (y - model.y_mean_) / model.y_scale_)
    points = coding.transform(X)
    parts = [ridge.predict(points), tree_scores(coding, points, found.partitions_)[:, 0]]
    expected = np.dot(model.weights_, parts) * model.y_scale_ + model.y_mean_
    np.testing.assert_allclose(found.predict(X), expected, rtol=1e-6, atol=1e-8)
    same = refitted(model, X[:100], y[:100])
    np.testing.assert_allclose(same.predict(X), before, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_classification_on_all_rows(table, classes):
    X, y = table
    labels = np.array(list("pqr"))[np.digitize(y, [0.0, 2.0][: classes - 1])]
    model = mercer.AutoKernelClassifier(
        max_time=2, metric="balanced_accuracy", class_weight="balanced"
    )
    model.fit(X[:100], labels[:100])
    found = refitted(model, X, labels)
    assert len(found.model_.X_fit_) == 160
    np.testing.assert_array_equal(found.offsets_, model.offsets_)
    assert (
        np.mean(found.predict(X) == labels) > np.mean(model.predict(X[100:]) == labels[100:]) - 0.05
    )
    same = refitted(model, X[:100], labels[:100])
    np.testing.assert_allclose(same.predict_proba(X), model.predict_proba(X), atol=1e-4)
    with pytest.raises(ValueError, match="the class 'z'"):
        refitted(model, X, np.where(labels == "p", "z", labels))


def test_where_all_rows_have_other_coordinates_the_coding_stays(table):
    """With target means that no row's own target is in."""
    X, y = table
    model = mercer.AutoKernelRegressor(max_time=1).fit(X[:100], y[:100])
    more = X.assign(a=X["a"].where(np.arange(160) < 150))
    found = refitted(model, more, y)
    assert found.coding_ is model.coding_
    points, plain = found.model_.X_fit_, model.coding_.transform(more)
    means = (np.array(model.coding_.sorts_) == "mean") & (model.coding_.owners_ == 1)
    assert means.sum() == 1
    np.testing.assert_array_equal(points[:, ~means], plain[:, ~means])
    assert len(np.unique(points[:, means])) > len(np.unique(plain[:, means])) == 3
