"""Thresholds and left-out probabilities, compared with brute force."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer.cli.models import best_threshold, decided, left_out_probabilities
from mercer.reports.scores import METRICS, HeldOut


@pytest.mark.parametrize("metric", ["f1", "balanced_accuracy"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_the_best_threshold_is_the_best_of_all(metric, share):
    rng = np.random.default_rng(0)
    classes = np.array(["no", "yes"])
    y = np.where(rng.random(80) < share, "yes", "no")
    p = np.round(rng.beta(2, 3, size=80) * 0.6 + 0.4 * (y == "yes") * rng.random(80), 2)
    shares = np.column_stack([1 - p, p])

    def value(threshold):
        predicted = decided(classes, shares, threshold)
        return METRICS[metric].function(HeldOut("classification", y, predicted))

    best = max(value(t) for t in [*np.unique(p), *(np.unique(p) - 1e-9), 1.1])
    assert value(best_threshold(y, classes, shares, metric)) == pytest.approx(best)


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_probabilities_are_of_models_without_the_row(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0.4, "b", "a")
    weight = rng.uniform(0.5, 2, size=30) if weighted else None
    model = mercer.AutoKernelClassifier(max_time=1).fit(X, y, sample_weight=weight)
    found = left_out_probabilities(model, X, y, weight)
    points, Y = model.coding_.transform(X), (y == "b") - model.shares_
    for i in (0, 7, 20):
        others = np.arange(30) != i
        inner = clone(model.model_)
        inner.fit(points[others], Y[others], None if weight is None else weight[others])
        score = inner.predict(points[[i]]).ravel() + model.shares_
        odds = np.exp(model.steepness_ * (2 * score - 1))
        assert found[i, 1] == pytest.approx((odds / (1 + odds)).item(), rel=1e-6)
    assert found.sum(axis=1) == pytest.approx(np.ones(30))
