"""Prediction intervals: coverage on new rows, and widths that follow the errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mercer.auto import AutoKernelRegressor
from mercer.auto.residuals import intervals, sorted_residuals


def slow(predicted, left_out, residuals, coverage, k):
    """One row at a time."""
    n = len(left_out)
    order = np.argsort(left_out, kind="stable")
    ends = []
    for f in predicted:
        first = min(max(int(np.sum(left_out < f)) - k // 2, 0), n - k)
        near = np.sort(residuals[order[first : first + k]])
        rank = int(np.ceil((1 + coverage) / 2 * (k + 1) - 1e-9))
        ends.append((f + near[k - rank], f + near[rank - 1]))
    return np.array(ends).T


@pytest.mark.parametrize("n", [60, 250, 3000])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_ends_are_quantiles_of_residuals_of_similar_predictions(n, coverage):
    rng = np.random.default_rng(0)
    left_out, noise = rng.normal(size=n), rng.standard_t(3, size=n)
    known = sorted_residuals(left_out[:, None], (left_out + noise)[:, None])[0]
    predicted = rng.normal(size=40)
    k = min(n, max(200, n // 10))
    expected = slow(predicted, left_out, noise, coverage, k)
    np.testing.assert_allclose(intervals(predicted, known, coverage), expected)


def test_too_few_rows_give_no_ends():
    known = np.zeros((2, 5))
    assert np.all(np.isinf(intervals(np.zeros(3), known, 0.9)))


def test_new_targets_are_covered():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(2400, 2))
    y = 3 * X[:, 0] + rng.normal(size=2400) * np.where(X[:, 0] > 0, 2.0, 0.2)
    model = AutoKernelRegressor().fit(X[:800], y[:800])
    low, high = model.predict_interval(X[800:], coverage=0.8)
    inside = (low <= y[800:]) & (y[800:] <= high)
    noisy = X[800:, 0] > 0.5
    quiet = X[800:, 0] < -0.5
    assert abs(inside.mean() - 0.8) < 0.04
    assert abs(inside[noisy].mean() - 0.8) < 0.08
    assert (high - low)[noisy].mean() > 3 * (high - low)[quiet].mean()
    both = AutoKernelRegressor(quality="fast").fit(X[:300], np.stack([y, -y], axis=1)[:300])
    assert both.predict_interval(X[:7]).shape == (2, 7, 2)
    with pytest.raises(ValueError, match="coverage=2"):
        model.predict_interval(X, coverage=2)


def test_rows_unlike_training_are_novel():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    model = AutoKernelRegressor().fit(table, table.a + 0.1 * rng.normal(size=300))
    assert np.all(model.novelty(table[:50]) == 0)
    new = table[:50] + 0.1 * rng.normal(size=(50, 2))
    assert np.median(model.novelty(new)) < 0.5
    assert np.all(model.novelty(table[:50].assign(a=8.0)) > 0.95)
