"""Scores equal scikit-learn's; intervals cover; constants are recognised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as skm

from mercer.reports.evaluation import calibration, evaluated
from mercer.reports.scores import (
    METRICS,
    HeldOut,
    all_scores,
    by_class,
    checked_metric,
    default_metric,
    interval,
    scored,
    wilson,
)


def binary(n=200, seed=0, strength=1.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    score = strength * ((y == "yes") - 0.5) + rng.normal(size=n)
    share = 1 / (1 + np.exp(-score))
    predicted = np.where(share > 0.5, "yes", "no")
    classes = np.array(["no", "yes"])
    return HeldOut("classification", y, predicted, classes, np.column_stack([1 - share, share]))


def three(n=150, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    shares = rng.dirichlet(np.ones(3), size=n) + 0.5 * np.eye(3)[y]
    shares /= shares.sum(axis=1, keepdims=True)
    return HeldOut("classification", y, shares.argmax(axis=1), np.arange(3), shares)


def test_scores_are_scikit_learns():
    held = binary()
    ours = {n: m.function(held) for n, m in METRICS.items() if m.task == "classification"}
    y, share = held.y, held.probabilities[:, 1]
    assert ours["accuracy"] == skm.accuracy_score(y, held.predicted)
    assert ours["balanced_accuracy"] == pytest.approx(
        skm.balanced_accuracy_score(y, held.predicted)
    )
    assert ours["f1"] == pytest.approx(skm.f1_score(y, held.predicted, pos_label="yes"))
    assert ours["auc"] == pytest.approx(skm.roc_auc_score(y == "yes", share))
    assert ours["log_loss"] == pytest.approx(skm.log_loss(y, held.probabilities))
    held = three()
    area = skm.roc_auc_score(held.y, held.probabilities, multi_class="ovr")
    assert METRICS["auc"].function(held) == pytest.approx(area)
    f1 = skm.f1_score(held.y, held.predicted, average="macro")
    assert METRICS["f1"].function(held) == pytest.approx(f1)
    rng = np.random.default_rng(1)
    y = rng.normal(size=50)
    held = HeldOut("regression", y, y + 0.3 * rng.normal(size=50))
    assert METRICS["r2"].function(held) == pytest.approx(skm.r2_score(y, held.predicted))
    assert METRICS["mae"].function(held) == pytest.approx(
        skm.mean_absolute_error(y, held.predicted)
    )
    rmse = skm.root_mean_squared_error(y, held.predicted)
    assert METRICS["rmse"].function(held) == pytest.approx(rmse)


def test_coding_changes_no_score():
    for held in (binary(), three()):
        for metric in METRICS.values():
            if metric.task == "classification":
                assert metric.function(held.coded()) == pytest.approx(metric.function(held))


def test_the_rarer_class_counts_for_f1():
    held = binary()
    turned = np.where(held.y == "yes", "a", "b"), np.where(held.predicted == "yes", "a", "b")
    other = HeldOut("classification", *turned)
    assert METRICS["f1"].function(other) == pytest.approx(METRICS["f1"].function(held))


def test_no_interval_is_empty_and_wilsons_is_scipys():
    for n in (1, 13, 200):
        for k in {0, 1, n // 2, n}:
            exact = stats.binomtest(k, n).proportion_ci(method="wilson")
            assert wilson(k, n) == pytest.approx((exact.low, exact.high))
    y = np.array(["a", "b"] * 6 + ["a"])
    perfect = HeldOut(
        "classification", y, y, np.array(["a", "b"]), (y[:, None] == ["a", "b"]) * 1.0
    )
    for metric in ("accuracy", "balanced_accuracy", "f1", "auc"):
        low, high = interval(perfect, metric)
        assert low < 0.85
        assert high == 1.0


def test_intervals_cover_the_score():
    """The interval of AUC contains that of the population about 95 times in a hundred."""
    auc = stats.norm.cdf(1 / np.sqrt(2))
    inside = [
        low <= auc <= high for low, high in (interval(binary(80, s), "auc") for s in range(100))
    ]
    assert 0.88 <= np.mean(inside) <= 0.99


def test_noise_is_no_better_than_a_constant():
    """In at least 19 of 20 samples, by every score."""
    for metric in METRICS:
        if METRICS[metric].task == "classification":
            helds = [binary(60, seed, strength=0.0) for seed in range(20)]
        else:
            rngs = [np.random.default_rng(seed) for seed in range(20)]
            helds = [
                HeldOut("regression", r.normal(size=60), 0.3 * r.normal(size=60)) for r in rngs
            ]
        found = [scored(held, held.y, metric)["better"] for held in helds]
        assert sum(found) <= 1, metric


def test_good_models_are_better_than_a_constant():
    held = binary(strength=3.0)
    for name in ("accuracy", "balanced_accuracy", "f1", "auc", "log_loss"):
        found = scored(held, held.y, name)
        assert found["better"]
        assert found["interval"][0] <= found["value"] <= found["interval"][1]
    y = np.random.default_rng(0).normal(size=30)
    for name in ("r2", "rmse", "mae"):
        assert scored(HeldOut("regression", y, 0.9 * y), y, name)["better"]


def test_scores_of_huge_and_of_equal_numbers():
    y = np.array([1.0, 2.0, 3.0, 5.0])
    for unit in (1.0, 1e300):
        held = HeldOut("regression", unit * y, unit * np.array([1.0, 2.0, 3.0, 4.0]))
        assert METRICS["r2"].function(held) == pytest.approx(1 - 1 / 8.75)
        assert METRICS["rmse"].function(held) == pytest.approx(unit / 2)
    found = scored(HeldOut("regression", np.ones(3), y[:3]), y, "r2")
    assert np.isnan(found["value"])
    assert not found["better"]


def test_metrics_are_chosen_and_checked():
    y = np.array(["no"] * 94 + ["yes"] * 6)
    assert default_metric("classification", y) == "balanced_accuracy"
    assert default_metric("classification", y[50:]) == "balanced_accuracy"
    assert default_metric("classification", y[80:]) == "accuracy"
    assert default_metric("regression", y) == "r2"
    with pytest.raises(ValueError, match="regression has the metrics r2, rmse, mae"):
        checked_metric("auc", "regression", y)


def test_tables_of_classes_and_bins():
    held = binary()
    precision, recall, f1, rows = skm.precision_recall_fscore_support(held.y, held.predicted)
    for k, row in enumerate(by_class(held)):
        assert row["class"] == held.classes[k]
        assert (row["precision"], row["recall"], row["F1"], row["rows"]) == pytest.approx(
            (precision[k], recall[k], f1[k], rows[k])
        )
    bins = calibration(held)
    assert sum(b["rows"] for b in bins) == len(held.y)
    share = held.probabilities[:, 1]
    for b in bins:
        inside = (share >= b["from"]) & (share < b["to"])
        assert b["observed"] == pytest.approx(np.mean(held.y[inside] == "yes"))
        assert b["mean probability"] == pytest.approx(share[inside].mean())
    found = evaluated(held, held.y, "auc", np.arange(200) + 1000)
    assert len(found["scores"]) == len(all_scores(held, held.y)) == 5
    worst = found["held out"]["worst"][0]
    assert held.y[worst["row"] - 1000] == worst["true"] != worst["predicted"]
