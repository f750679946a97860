"""A column that predicts the target alone is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from mercer.tables.leaks import possible_leaks, score_alone


def test_copies_of_the_target_are_named():
    rng = np.random.default_rng(0)
    y = rng.choice(["no", "yes"], 200)
    table = pd.DataFrame(
        {
            "noise": rng.normal(size=200),
            "paid": np.where(y == "yes", 1.0, np.nan),
            "reason": np.where(y == "yes", rng.choice(["late", "ill"], 200), "none"),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta((y == "yes") * 9, unit="D"),
        }
    )
    assert set(possible_leaks(table, y, "classification")) == {"paid", "reason", "day"}
    z = rng.normal(size=200)
    table = pd.DataFrame({"a": rng.normal(size=200), "net": 0.81 * z})
    found = possible_leaks(table, z, "regression")
    assert set(found) == {"net"}
    assert found["net"] > 0.97
    assert set(possible_leaks(table.to_numpy(), z, "regression")) == {"column 1"}


def test_good_columns_are_not_named():
    X, y = load_iris(return_X_y=True, as_frame=True)
    assert possible_leaks(X, y.to_numpy(), "classification") == {}
    only = X[["petal width (cm)"]].assign(petal=y)
    assert set(possible_leaks(only, y.to_numpy(), "classification")) == {"petal"}
    assert possible_leaks(only[["petal"]], y.to_numpy(), "classification") == {}


def test_the_score_is_that_of_a_tree():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(100, 1)), rng.integers(2, size=100)
    fold = np.arange(100) % 5
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    tree = DecisionTreeClassifier(min_samples_leaf=3, max_leaf_nodes=100, random_state=0)
    expected = np.mean(cross_val_predict(tree, x, y, cv=folds) == y)
    assert score_alone(pd.Series(x[:, 0]), y, "classification") == expected
