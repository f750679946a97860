"""Parameters of the automatic models: metric, class_weight, quality, groups, and Ctrl-C."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score, f1_score

from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto import table_search
from mercer.auto.classes import best_offsets
from mercer.auto.targets import Targets


def rare(n=900):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.8 * rng.normal(size=n) > 1.9).astype(int)


@pytest.mark.parametrize(
    ("metric", "score"), [("balanced_accuracy", balanced_accuracy_score), ("f1", f1_score)]
)
def test_the_threshold_follows_the_metric(metric, score):
    X, y = rare()
    plain = AutoKernelClassifier(quality="fast").fit(X[:450], y[:450])
    model = AutoKernelClassifier(quality="fast", metric=metric).fit(X[:450], y[:450])
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X))
    assert score(y[450:], model.predict(X[450:])) > score(y[450:], plain.predict(X[450:]))
    signs = (model.decision_function(X) > 0).astype(int)
    np.testing.assert_array_equal(signs, model.predict(X))


@pytest.mark.parametrize("metric", ["balanced_accuracy", "f1"])
def test_the_best_threshold_is_that_of_a_search(metric):
    rng = np.random.default_rng(1)
    p, codes = rng.uniform(size=60), rng.integers(0, 2, 60)
    chances, weight = np.stack([1 - p, p], axis=1), rng.uniform(0.5, 2, 60)
    rarer = int(weight[codes == 1].sum() <= weight[codes == 0].sum())

    def function(truth, said, sample_weight):
        if metric == "f1":
            return f1_score(truth, said, pos_label=rarer, sample_weight=sample_weight)
        return balanced_accuracy_score(truth, said, sample_weight=sample_weight)

    def score(threshold):
        return function(codes, (p > threshold).astype(int), sample_weight=weight)

    offsets = best_offsets(metric, chances, codes, weight)
    said = (np.log(chances) + offsets).argmax(axis=1)
    found = function(codes, said, sample_weight=weight)
    assert found == pytest.approx(max(map(score, np.sort(p)[:-1])))


def test_balanced_classes_of_three_count_alike():
    chances = np.array([[0.8, 0.1, 0.1], [0.5, 0.4, 0.1], [0.6, 0.1, 0.3]])
    codes = np.repeat([0, 1, 2], [8, 1, 1])
    offsets = best_offsets(
        "balanced_accuracy", chances[np.repeat([0, 1, 2], [8, 1, 1])], codes, None
    )
    assert (np.log(chances) + offsets).argmax(axis=1).tolist() == [0, 1, 2]


def test_class_weights_are_weights_of_rows():
    X, y = rare(300)
    weight = np.where(y == 1, 5.0, 1.0)
    one = AutoKernelClassifier(quality="fast", class_weight={0: 1.0, 1: 5.0}).fit(X, y)
    two = AutoKernelClassifier(quality="fast").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X))


def test_a_fast_model_looks_at_fewer_rows():
    X, y = make_friedman1(700, n_features=6, noise=0.5, random_state=0)
    model = AutoKernelRegressor(quality="fast").fit(X[:500], y[:500])
    assert "all scales equal, 300 rows" in [row["kernel"] for row in model.report_["tried"]]
    assert model.score(X[500:], y[500:]) > 0.9
    with pytest.raises(ValueError, match="quality"):
        AutoKernelRegressor(quality="slow").fit(X, y)


def test_groups_keep_target_means_from_leaking():
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(60), 8)
    table = pd.DataFrame(
        {"site": np.char.add("s", (group % 60).astype(str)), "x": rng.normal(size=480)}
    )
    y = rng.normal(size=60)[group] + table.x
    model = AutoKernelRegressor(quality="fast").fit(table, y, groups=group)
    means = (np.array(model.coding_.sorts_) == "mean") & (model.coding_.owners_ == 0)
    assert means.any()
    # A level is a group, of which other folds know nothing.
    assert np.ptp(model.model_.X_fit_[:, means]) < 1e-9
    with pytest.raises(ValueError, match="inconsistent"):
        AutoKernelRegressor().fit(table, y, groups=group[:5])


def test_ctrl_c_in_the_search_gives_the_best_so_far(monkeypatch):
    X, y = make_friedman1(400, n_features=5, noise=0.5, random_state=0)

    def interrupted(self, parts):
        raise KeyboardInterrupt

    monkeypatch.setattr(table_search.TableSearch, "_width", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = AutoKernelRegressor().fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.5


def test_skewed_targets_are_learnt_as_logarithms_too():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, size=(700, 3))
    y = np.exp(2 * X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=700))
    model = AutoKernelRegressor(quality="fast").fit(X[:400], y[:400])
    assert model.log_target_ is not None
    assert model.log_target_[5] > model.log_target_[4]
    assert model.score(X[400:], y[400:]) > 0.9
    assert AutoKernelRegressor(quality="fast").fit(X[:200], X[:200, 0]).log_target_ is None


def test_weights_of_both_predictions_are_least_squares():
    rng = np.random.default_rng(4)
    y, weight = np.exp(rng.normal(size=(200, 1))), rng.uniform(0.5, 2, 200)
    targets = Targets.of(y, weight)
    T = targets.standardised(y)
    np.testing.assert_allclose(targets.predictions(T), y)
    left_out = T + 0.3 * rng.normal(size=T.shape)
    found = targets.combined(left_out, y, weight)
    assert found.log is not None
    both = found._both(left_out)
    root = np.sqrt(weight)
    expected = np.linalg.lstsq(both * root[:, None], y[:, 0] * root, rcond=None)[0]
    if np.all(expected > 0.1):
        np.testing.assert_allclose(found.log[4:], expected, rtol=1e-6)
    error = np.average((found.predictions(left_out) - y)[:, 0] ** 2, weights=weight)
    alone = np.average((both[:, 0] - y[:, 0]) ** 2, weights=weight)
    assert error <= alone


def test_columns_that_identify_rows_are_named_and_not_learnt():
    rng = np.random.default_rng(5)
    n = 120
    table = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "mail": [f"person{i}@example.org" for i in range(n)],
            "code": [f"{i:x}-{rng.integers(2**40):x}" for i in range(n)],
            "answer": rng.integers(0, 2, n),
        }
    )
    y = np.where(table.answer == 1, "yes", "no")
    model = AutoKernelClassifier(quality="fast").fit(table, y)
    assert set(model.report_["not_learnt"]) == {"mail", "code"}
    assert "answer" in model.report_["possible_leaks"]
    assert "size" not in model.report_["possible_leaks"]
    changed = table.assign(mail="other", code="none")
    np.testing.assert_array_equal(model.predict_proba(changed), model.predict_proba(table))


def test_a_callback_hears_of_every_stage_and_may_end_the_search():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = X[:, 0] + (X[:, 1] > 0) + 0.1 * rng.normal(size=150)
    heard = []
    model = AutoKernelRegressor("fast").fit(X, y, callback=heard.append)
    assert [one["stage"] for one in heard] == [one["kernel"] for one in model.report_["tried"]]
    bests = [one["best"] for one in heard]
    assert bests == np.minimum.accumulate([one["error"] for one in heard]).tolist()
    first = []
    stopped = AutoKernelClassifier().fit(
        X, y > 1, callback=lambda found: first.append(found["stage"]) or True
    )
    assert not any("times 2" in stage or "times 0.5" in stage for stage in first)
    assert stopped.partitions_ is None
    assert stopped.score(X, y > 1) > 0.9
