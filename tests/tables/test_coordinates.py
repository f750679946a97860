"""Tables as coordinates: values, ranks and cross-fitted target means."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from mercer.tables.coordinates import TableCoordinates

RNG = np.random.default_rng(0)
N = 240


def raw(n=N):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "dose": np.exp(rng.normal(size=n)),
            "yes": rng.random(n) < 0.4,
            "town": rng.choice([*"abcdefg"], n, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.09, 0.01]),
            "flag": rng.choice(["no", "yes"], n),
        }
    )
    table.loc[::9, "dose"] = np.nan
    table.loc[4, "town"] = None
    return table, rng.normal(size=(n, 2))


def of(coding, points, column, kind):
    return points[:, (coding.owners_ == column) & (np.array(coding.sorts_) == kind)]


def test_numbers_have_values_ranks_and_gaps():
    table, Y = raw()
    coding = TableCoordinates()
    points = coding.fit_transform(table, Y)
    dose = table["dose"].fillna(table["dose"].median()).to_numpy()
    value, rank, gap = (of(coding, points, 0, kind)[:, 0] for kind in ("value", "rank", "missing"))
    assert np.all(np.diff(value[np.argsort(dose)]) >= 0)
    assert np.abs(value).max() <= 4
    expected = np.sqrt(12) * ((rankdata(dose) - 0.5) / N - 0.5)
    np.testing.assert_allclose(rank, expected, atol=0.05)
    np.testing.assert_array_equal(gap, table["dose"].isna())
    assert of(coding, points, 1, "rank").shape[1] == 0
    assert len(np.unique(of(coding, points, 1, "value"))) == 2
    assert of(coding, points, 3, "level").shape[1] == 1


def slow_means(words, Y, fold, prior):
    """Means of targets by level, of each row from the other folds."""
    found = np.zeros_like(Y)
    for i in range(len(Y)):
        others = [j for j in range(len(Y)) if fold[j] != fold[i] and words[j] == words[i]]
        found[i] = sum((Y[j] for j in others), np.zeros(Y.shape[1])) / (len(others) + prior)
    return found


@pytest.mark.parametrize("groups", [None, np.arange(N) // 5])
def test_target_means_are_cross_fitted(groups):
    table, Y = raw()
    coding = TableCoordinates(n_folds=5, prior=3.0)
    found = of(coding, coding.fit_transform(table, Y, groups=groups), 2, "mean")
    fold = coding._folds(N, groups)
    if groups is not None:
        assert all(len(np.unique(fold[groups == g])) == 1 for g in range(N // 5))
    words = table["town"].fillna("").to_numpy()
    expected = slow_means(words, Y - Y.mean(axis=0), fold, 3.0)
    expected = (expected - expected.mean(axis=0)) / expected.std(axis=0)
    np.testing.assert_allclose(found, np.clip(expected, -4, 4))
    # A row's own target moves nothing but the centre and the spread.
    other = Y.copy()
    other[7] += 10.0
    again = of(coding, coding.fit_transform(table, other, groups=groups), 2, "mean")
    same_level = (words == words[7]) & (fold == fold[7])
    assert np.ptp(again[same_level, 0]) == pytest.approx(np.ptp(found[same_level, 0]))


def test_weights_count_as_copies():
    table, Y = raw()
    weight = np.random.default_rng(2).integers(1, 4, N)
    times = np.repeat(np.arange(N), weight)
    one = TableCoordinates().fit(table, Y, sample_weight=weight, groups=np.arange(N))
    two = TableCoordinates().fit(table.iloc[times], Y[times], groups=times)
    means = [np.array(coding.codes_[2])[:, -3:-1] for coding in (one, two)]
    shown = [(m - m[0]) / (m[1] - m[0]) for m in means]
    np.testing.assert_allclose(shown[0], shown[1], atol=1e-9)


def test_new_rows():
    table, Y = raw()
    coding = TableCoordinates().fit(table, Y)
    points = coding.transform(table)
    assert np.all(np.isfinite(points))
    one_by_one = np.vstack([coding.transform(table.iloc[i : i + 1]) for i in range(12)])
    np.testing.assert_allclose(one_by_one, points[:12])
    unseen = coding.transform(table.iloc[:3].assign(town="nowhere", dose=1e300))
    assert np.all(np.isfinite(unseen))
    assert np.all(of(coding, unseen, 2, "level") == 0)
    assert of(coding, unseen, 0, "value").max() == 4
    assert np.all(of(coding, unseen, 2, "mean") == of(coding, unseen, 2, "mean")[0])


def test_without_targets_there_are_no_means():
    table, _ = raw()
    coding = TableCoordinates()
    assert "mean" not in coding.fit(table).sorts_
    np.testing.assert_array_equal(coding.fit_transform(table), coding.transform(table))


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_numbers_of_any_size(size):
    X = RNG.normal(size=(50, 2)) + 3
    plain = TableCoordinates().fit_transform(X)
    np.testing.assert_allclose(TableCoordinates().fit_transform(size * X), plain, atol=1e-6)
