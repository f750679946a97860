"""Shares of values among quantiles: few rows at once, and column by column."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.tables.coding import TableCoding, _few_shares


def by_columns(values, known, shares):
    low = [np.interp(x, q, shares) for x, q in zip(values.T, known.T, strict=True)]
    high = [1 - np.interp(-x, -q[::-1], shares) for x, q in zip(values.T, known.T, strict=True)]
    return (np.array(low) + np.array(high)).T / 2


@pytest.mark.parametrize("digits", [0, 1, 12])
def test_few_rows_have_the_shares_that_interpolation_finds(digits):
    rng = np.random.default_rng(digits)
    known = np.sort(np.round(rng.normal(size=(257, 9)), digits), axis=0)
    inside = np.round(rng.normal(size=(6, 9)), digits)
    ends = np.array([known[0], known[-1], known[0] - 1, known[-1] + 1, known[7]])
    values, shares = np.vstack([inside, ends]), np.linspace(0, 1, 257)
    found = _few_shares(values, known, shares)
    np.testing.assert_array_equal(found, by_columns(values, known, shares))


def test_one_row_is_coded_as_among_many():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 4, 300), rng.gamma(2, size=300)])
    coding = TableCoding(scaling="normal").fit(X)
    whole = coding.transform(X)
    alone = np.vstack([coding.transform(X[i : i + 1]) for i in range(40)])
    np.testing.assert_array_equal(alone, whole[:40])
