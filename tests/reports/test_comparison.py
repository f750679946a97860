"""Other models on sparse rows: the memory goes with the entries, whatever the width."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.reports.comparison import compared
from mercer.reports.scores import HeldOut

WIDTH = 2**31 - 1


def rows(n=300, entries=20, seed=0):
    """Sparse rows, the last column among theirs, and targets that the first ten columns decide."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, 200, (n, entries)), axis=1)
    columns[0, -1] = WIDTH - 1
    values, ends = rng.normal(size=n * entries), np.arange(0, n * entries + 1, entries)
    X = sp.csr_array((values, columns.ravel(), ends), shape=(n, WIDTH))
    inside = (values * (columns.ravel() < 40)).reshape(n, entries)
    return X, inside.sum(axis=1) + 0.01 * rng.normal(size=n)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_wide_sparse_rows_take_no_memory_for_their_width(task):
    X, y = rows()
    y = np.where(y > 0, "yes", "no") if task == "classification" else y
    test, train = np.arange(100), np.arange(100, 300)
    shares = np.full((100, 2), 0.5) if task == "classification" else None
    classes = np.array(["no", "yes"]) if task == "classification" else None
    predicted = np.full(100, "no") if task == "classification" else np.zeros(100)
    held = HeldOut(task, y[test], predicted, classes, shares)
    metric = "accuracy" if task == "classification" else "r2"
    tracemalloc.start()
    try:
        found = compared(held, X[test], X[train], y[train], metric)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 30e6
    *_, linear = found
    assert linear["model"] in ("ridge regression", "logistic regression")
    assert linear["value"] > (0.7 if task == "classification" else 0.6)
