"""Rows are split as asked for: by class, by group, by time."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.cli.splits import folds, holdout


def check(split, n):
    assert sorted([*split.train, *split.test]) == list(range(n))


def test_a_row_that_is_alone_in_its_class_is_trained_on():
    y = np.array(["a", *"bc" * 10])
    for seed in range(20):
        split = holdout(y, "classification", 0.25, seed)
        check(split, 21)
        assert 0 in split.train
        assert abs(np.sum(y[split.test] == "b") - np.sum(y[split.test] == "c")) <= 1


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_groups_are_not_split(task):
    rng = np.random.default_rng(0)
    groups, y = rng.integers(12, size=200).astype(str), rng.integers(2, size=200)
    parts = [holdout(y, task, 0.25, seed, groups) for seed in range(5)]
    parts += folds(y, task, 4, 0, groups)
    for split in parts:
        check(split, 200)
        assert not set(groups[split.train]) & set(groups[split.test])
        assert 0.1 < len(split.test) / 200 < 0.45
    assert sorted(np.concatenate([s.test for s in parts[5:]])) == list(range(200))
    with pytest.raises(ValueError, match="there are 1 groups; at least 2"):
        holdout(y, task, 0.25, 0, np.full(200, "a"))


def test_later_rows_are_tested_on():
    rng = np.random.default_rng(0)
    times, y = rng.integers(50, size=200).astype(float), rng.normal(size=200)
    split = holdout(y, "regression", 0.25, 0, times=times)
    check(split, 200)
    assert times[split.train].max() < times[split.test].min()
    assert 0.2 < len(split.test) / 200 < 0.35
    for part in folds(y, "regression", 4, 0, times=times):
        assert times[part.train].max() <= times[part.test].min()
    with pytest.raises(ValueError, match="the same time"):
        holdout(y, "regression", 0.25, 0, times=np.ones(200))


def test_folds_are_stratified_where_classes_suffice():
    y = np.array(["a"] * 30 + ["b"] * 9)
    for part in folds(y, "classification", 3, 0):
        assert np.sum(y[part.test] == "b") == 3
    assert len(folds(y, "classification", 12, 0)) == 12
    with pytest.raises(ValueError, match="only 39 rows"):
        folds(y, "classification", 40, 0)
