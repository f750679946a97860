"""Sums of exponentials and least values of rows, native and in NumPy, at every level."""

from __future__ import annotations

import numpy as np
import pytest

from instruction_levels import LEVELS
from mercer.core import Kind, Leaf, Op
from native_pairs import DTYPES, EPS, IDENTITY, build, leaf, points, program

pytestmark = pytest.mark.skipif(not LEVELS, reason="no native module")


ODD_VALUES = {
    "a NaN": [0.0, np.nan, 1.0],
    "only NaN and -inf": [-np.inf, np.nan],
    "all -inf": [-np.inf, -np.inf],
    "some -inf": [-np.inf, 3.0, -np.inf, 2.0],
    "an inf": [np.inf, 3.0],
    "several inf": [np.inf, 3.0, np.inf],
    "inf and NaN": [np.inf, np.nan],
    "huge": [3e38, -3e38, 3e38],
    "ties": [1.0, -2.0, -2.0, 5.0],
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", ODD_VALUES.values(), ids=ODD_VALUES)
@pytest.mark.parametrize("before", [0, 200])
def test_reductions_of_odd_values(level, dtype, values, before):
    row = np.concatenate([np.full(before, -1.0), values]).astype(dtype)[None]
    nothing = np.zeros((1, 0), dtype), np.zeros((row.size, 0), dtype)
    given = Leaf(Kind.GIVEN, *nothing, *nothing, None, None, row)
    native, twin = build(level, IDENTITY, [given], n=1, m=row.size, dtype=dtype)
    for weight in (None, np.zeros(row.size, dtype), np.where(row[0] < 2, -np.inf, 0).astype(dtype)):
        with np.errstate(all="ignore"):
            terms = row[0].astype(float) + (0 if weight is None else weight)
            expected = np.logaddexp.reduce(terms)
        for pairs in (native, twin):
            np.testing.assert_allclose(
                pairs.log_sum_exp(weight, 0), [expected], rtol=10 * EPS[dtype]
            )
    known = np.where(np.isnan(row[0]), np.inf, row[0])
    for pairs in (native, twin):
        least, where = pairs.arg_min(0)
        assert least[0] == known.min()
        assert where[0] == known.argmin()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(level, dtype):
    rng = np.random.default_rng(4)
    X, Y = (points(rng, k, 5, dtype, Kind.SQDIST) for k in (41, 300))
    weight = np.log(rng.random(300)).astype(dtype)
    log_kernel = program((Op.AFFINE, 0, 0, 0, -400.0, 0.0))
    native, twin = build(level, log_kernel, [leaf(Kind.SQDIST, X, Y)], n=41, m=300, dtype=dtype)
    for w in (None, weight):
        np.testing.assert_allclose(
            native.log_sum_exp(w, 2), twin.log_sum_exp(w, 2), rtol=200 * EPS[dtype]
        )
    distances, reference_distances = build(
        level, IDENTITY, [leaf(Kind.SQDIST, X, Y)], n=41, m=300, dtype=dtype
    )
    least, where = distances.arg_min(2)
    expected, at = reference_distances.arg_min(1)
    np.testing.assert_allclose(least, expected, rtol=100 * EPS[dtype])
    np.testing.assert_array_equal(where, at)


INF, NAN = np.inf, np.nan
ROWS = {
    "some minus infinity": [-INF, 0.0, -INF, 1.0],
    "all minus infinity": [-INF] * 4,
    "minus infinity for a whole tile": [-INF] * 600 + [0.0, 1.0],
    "minus infinity after a tile": [0.0] * 600 + [-INF],
    "large": [1e30, -1e30, 0.0],
    "signed zeros": [0.0, -0.0],
    "ties": [2.0, 1.0, 1.0, 1.0],
    "ties across tiles": [2.0, *[1.0] * 700],
}


def given_values(level, x, dtype):
    x = np.array([x, x[::-1]], dtype=dtype)
    n, m = x.shape
    zeros = [np.zeros((k, 1), dtype) for k in (n, m, n, m)]
    return build(level, IDENTITY, [Leaf(Kind.GIVEN, *zeros, None, None, x)], n=n, m=m, dtype=dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ROWS)
def test_reductions_of_extreme_values(level, dtype, case):
    native, twin = given_values(level, ROWS[case], dtype)
    m = len(ROWS[case])
    some = np.where(np.arange(m) % 2, -INF, 0.5).astype(dtype)
    for weight in (None, some, np.full(m, -INF, dtype=dtype)):
        np.testing.assert_allclose(
            native.log_sum_exp(weight, 2), twin.log_sum_exp(weight, 1), rtol=100 * EPS[dtype]
        )
    assert np.all(native.log_sum_exp(np.full(m, -INF, dtype=dtype), 2) == -INF)
    for found, expected in zip(native.arg_min(2), twin.arg_min(1), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_least_of_infinite_values(level, dtype):
    for x, least, where in (
        ([INF, INF], INF, [0, 0]),
        ([INF, 3.0, INF], 3.0, [1, 1]),
        ([INF, -INF, 0.0], -INF, [1, 1]),
    ):
        for pairs in given_values(level, x, dtype):
            found, at = pairs.arg_min(1)
            assert found.tolist() == [least, least]
            assert at.tolist() == where


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x", [[NAN, 1.0, 2.0], [1.0] * 600 + [NAN]], ids=["one tile", "two"])
def test_a_sum_with_what_is_not_a_number_is_none(level, dtype, x):
    for pairs in given_values(level, x, dtype):
        assert np.all(np.isnan(pairs.log_sum_exp(None, 1)))
