"""The expression language: simplification, shared statistics, lowering, blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from mercer.expressions import (
    STATISTICS,
    PairMatrix,
    PairStatistic,
    Parameter,
    Statistic,
    View,
    derivative,
    diagonal,
    divide,
    exp,
    interpreter,
    lower,
    normalised,
    sqrt,
    statistic,
    tanh,
)
from mercer.expressions.nodes import ONE, ZERO, Constant
from mercer.expressions.rounding import rounding
from mercer.expressions.statistics import l1, sqdist

pytestmark = pytest.mark.usefixtures("any_level")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 5)), RNG.normal(size=(20, 5))
DOT, SQDIST = statistic("dot"), statistic("sqdist")


def test_constants_fold_and_sums_flatten():
    assert DOT * 0 == ZERO
    assert DOT + 0 == DOT
    assert DOT * 1 == DOT
    assert str((DOT + 1) + (SQDIST + 2)) == "(dot + sqdist + 3)"
    assert str(2 * (DOT * 3)) == "6 * dot"
    assert DOT**0 == ONE
    assert exp(0.0) == ONE
    assert exp(1e4) == Constant(float("inf"))


def test_products_of_exponentials_fuse():
    assert exp(DOT) * exp(SQDIST) == exp(DOT + SQDIST)
    assert exp(DOT) ** 3 == exp(3 * DOT)


def test_the_square_is_completed():
    gaussian = exp(0.6 * DOT) * exp(-0.3 * diagonal(DOT, 0)) * exp(-0.3 * diagonal(DOT, 1))
    assert str(lower(gaussian)) == "exp(-0.3 * sqdist)"
    assert "sqdist" not in str(lower(exp(0.6 * DOT - 0.3 * diagonal(DOT, 0))))


def test_the_square_is_completed_only_where_all_of_it_is_there():
    for c in (1e-9, 1e-300):
        left, right = (-c / 2 * diagonal(DOT, side) for side in (0, 1))
        assert "sqdist" not in str(lower(c * DOT + 1))
        assert "sqdist" not in str(lower(c * DOT + left))
        assert "sqdist" in str(lower(c * DOT + left + right))


def test_diagonals_are_pushed_to_the_statistics():
    assert diagonal(exp(-2 * SQDIST), 0) == ONE
    assert diagonal(DOT * 2 + 1, 1) == diagonal(DOT, 1) * 2 + 1
    pairs = PairMatrix((DOT + 1) ** 2 * tanh(DOT), X)
    np.testing.assert_allclose(pairs.diagonal(), np.diagonal(pairs.gram()))


def test_a_shared_statistic_is_computed_once_per_block():
    calls = []

    def counted(F, G):
        calls.append(F.shape)
        return F @ G.T

    kind = PairStatistic("counted", counted, lambda F: (F * F).sum(axis=1))
    s = Statistic(kind, View())
    values = PairMatrix((s + 1) ** 2 + exp(s * 0.1) * s, X, Y).gram()
    D = X @ Y.T
    assert len(calls) == 1
    np.testing.assert_allclose(values, (D + 1) ** 2 + np.exp(0.1 * D) * D)


def test_blocks_by_slice_and_by_index():
    pairs = PairMatrix(exp(-0.5 * SQDIST) + DOT, X, Y)
    full = pairs.gram()
    np.testing.assert_allclose(pairs.block(slice(3, 9), slice(None)), full[3:9], rtol=1e-12)
    chosen = np.array([7, 2, 2])
    np.testing.assert_allclose(
        pairs.block(chosen, chosen), full[np.ix_(chosen, chosen)], rtol=1e-12
    )
    out = np.zeros((4, 20))
    pairs.put(chosen, np.array([3, 0, 1]), slice(4, 11), out)
    expected = np.zeros((4, 20))
    expected[[3, 0, 1], 4:11] = full[chosen, 4:11]
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert PairMatrix(Constant(3.0), X, Y).gram().tolist() == np.full((30, 20), 3.0).tolist()


def test_division_has_a_value_at_zero():
    e = divide(DOT, diagonal(DOT, 0) + diagonal(DOT, 1) - DOT, at_zero=1.0)
    points = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert PairMatrix(e, points).gram().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_inputs_are_not_written_to():
    frozen = X.copy()
    frozen.setflags(write=False)
    for e in (DOT * 2 + 1, exp(-SQDIST), sqrt(SQDIST), statistic("l1"), DOT + DOT):
        PairMatrix(e, frozen).gram()
    np.testing.assert_array_equal(frozen, X)


@pytest.mark.parametrize("name", ["dot", "sqdist", "l1", "conjunction"])
def test_statistics_against_one_pair_at_a_time(name):
    slow = {
        "dot": lambda x, z: x @ z,
        "sqdist": lambda x, z: ((x - z) ** 2).sum(),
        "l1": lambda x, z: np.abs(x - z).sum(),
        "conjunction": lambda x, z: np.prod(1 + x * z),
    }[name]
    expected = [[slow(x, z) for z in Y] for x in X]
    np.testing.assert_allclose(
        PairMatrix(statistic(name), X, Y).gram(), expected, rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(
        STATISTICS[name].diagonal(X), [slow(x, x) for x in X], rtol=1e-12, atol=1e-13
    )


def test_derivatives_of_the_functions():
    theta = Parameter("theta", 0.7)
    cases = {
        "exp": (exp(theta * DOT), lambda t, D: np.exp(t * D)),
        "tanh": (tanh(theta * DOT), lambda t, D: np.tanh(t * D)),
        "sqrt": (sqrt(theta * DOT**2 + 1), lambda t, D: np.sqrt(t * D**2 + 1)),
        "power": ((1 + DOT**2) ** theta, lambda t, D: (1 + D**2) ** t),
        "quotient": (divide(DOT, 1 + theta * DOT**2), lambda t, D: D / (1 + t * D**2)),
        "product": (theta * DOT * exp(-theta * DOT), lambda t, D: t * D * np.exp(-t * D)),
    }
    D = X @ Y.T
    for e, f in cases.values():
        np.testing.assert_allclose(PairMatrix(e, X, Y).gram(), f(0.7, D), rtol=1e-12)
        slope = (f(0.7 + 1e-6, D) - f(0.7 - 1e-6, D)) / 2e-6
        found = PairMatrix(derivative(e, "theta"), X, Y).gram()
        np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-6)
    assert derivative(DOT, "theta") == ZERO


def test_normalising_refuses_a_negative_diagonal():
    with pytest.raises(ValueError, match=r"k\(x, x\) >= 0"):
        PairMatrix(normalised(-1 * DOT), X).gram()


def test_mixed_dtypes_give_the_wider_one():
    for kind in (l1, sqdist):
        assert kind(X.astype(np.float32), Y).dtype == np.float64
        assert kind(X, Y.astype(np.float32)).dtype == np.float64
    np.testing.assert_allclose(
        l1(X[:, :1].astype(np.float32), Y[:, :1])[0, 0],
        abs(float(np.float32(X[0, 0])) - Y[0, 0]),
        rtol=1e-15,
    )


@pytest.mark.parametrize("d", [2, 6])
def test_distances_beyond_the_range_are_infinite(d):
    big = np.finfo(float).max / 4
    points = np.full((4, d), big) * np.array([[1.0], [-1], [0], [1]])
    points[2, 0] = 1
    found = PairMatrix(SQDIST, points).gram()
    expected = np.full((4, 4), np.inf)
    expected[np.diag_indices(4)] = expected[0, 3] = expected[3, 0] = 0
    np.testing.assert_array_equal(found, expected)


def test_an_outlier_or_two_far_clusters_cost_no_digits():
    for far in (X[:1] + 1e9, X + 1e6):
        points = np.vstack([X, far])
        found = sqdist(points, points)
        expected = [[((x - z) ** 2).sum() for z in points] for x in points]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_centre_of_distances_is_not_moved_by_an_outlier():
    points = np.vstack([X, X[:1] + 1e9])
    moved = STATISTICS["sqdist"].prepare(points, points)[0].moved
    assert np.abs(moved[:-1]).max() < 10


def test_normalising_neither_overflows_nor_underflows():
    for size in (1e-200, 1e-320, 1.0, 1e200):
        points = size * np.array([[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
        expected = [[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 0.0]]
        rtol = 1e-3 if size == 1e-320 else 1e-15
        np.testing.assert_allclose(PairMatrix(normalised(DOT), points).gram(), expected, rtol=rtol)
        sparse = sp.csr_array(points)
        np.testing.assert_allclose(PairMatrix(normalised(DOT), sparse).gram(), expected, rtol=rtol)
    high = PairMatrix(normalised((DOT + 1) ** 50), np.array([[1e4], [2e4]])).gram()
    np.testing.assert_allclose(high, 1.0, rtol=1e-6)
    even = PairMatrix(normalised((DOT - 50) ** 2), X[:4]).gram()
    np.testing.assert_allclose(np.diagonal(even), 1.0, rtol=1e-13)


@pytest.mark.parametrize("size", [1e-25, 1e-20, 1.0, 2e18, 1e25])
@pytest.mark.parametrize("features", [2, 20])
def test_squared_distances_of_float32_points_stay_within_range(size, features):
    points = (size * np.random.default_rng(3).normal(size=(6, features))).astype(np.float32)
    formula = exp(-(1 / size) * sqrt(SQDIST))
    expected = np.exp(-cdist(points.astype(float), points.astype(float)) / size)
    for given in (points, np.asfortranarray(points), sp.csr_array(points)):
        found = PairMatrix(formula, given)
        assert found.dtype == (np.float32 if size == 1.0 else np.float64)
        np.testing.assert_allclose(found.gram(), expected, rtol=2e-6)
    zeros = PairMatrix(formula, np.zeros((2, features), np.float32))
    assert zeros.dtype == np.float32
    np.testing.assert_array_equal(zeros.gram(), np.ones((2, 2)))


def test_rounding_is_measured_by_the_terms_not_by_what_they_leave():
    nothing = (DOT + 1) ** 2 - DOT**2 - 2 * DOT - 1
    for points in (X, 1e-4 * X, 1e4 * X, X.astype(np.float32)):
        pairs = PairMatrix(nothing, points)
        error, bound = np.abs(pairs.gram()), rounding(pairs)
        assert bound.shape == error.shape
        assert np.all(error <= 10 * bound)
        eps = np.finfo(points.dtype).eps
        assert np.all(bound <= 50 * eps * (np.abs(points) @ np.abs(points).T + 1) ** 2)
    gaussian = rounding(PairMatrix(exp(-0.5 * SQDIST), X))
    assert gaussian.max() < 1e-13


def sides(dtype, sparse):
    left, right = X.astype(dtype), Y.astype(dtype)
    return (sp.csr_array(left), sp.csr_array(right)) if sparse else (left, right)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("block", [interpreter.BLOCK, 50])
def test_reductions_over_all_columns(dtype, sparse, block, monkeypatch):
    monkeypatch.setattr(interpreter, "BLOCK", block)  # sparse points go through it in parts
    squared = ((X.astype(dtype).astype(float)[:, None] - Y.astype(dtype)) ** 2).sum(axis=2)
    log_weight = np.log(RNG.random(20))
    log_weight[3] = -np.inf
    # exp underflows for every entry; the logarithm of the sum does not.
    pairs = PairMatrix(-500 * SQDIST, *sides(dtype, sparse))
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    for weight in (None, log_weight):
        expected = logsumexp(-500 * squared + (0 if weight is None else weight), axis=1)
        found = pairs.log_sum_exp(weight)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=rtol)
    least, where = PairMatrix(SQDIST, *sides(dtype, sparse)).arg_min()
    assert least.dtype == dtype
    np.testing.assert_array_equal(where, squared.argmin(axis=1))
    np.testing.assert_allclose(least, squared.min(axis=1), rtol=rtol)


def test_columns_without_weight_do_not_count_and_ties_go_to_the_first(monkeypatch):
    twice = np.vstack([Y, Y])
    for points in (twice, sp.csr_array(twice)):
        monkeypatch.setattr(interpreter, "BLOCK", 50)
        left = X if isinstance(points, np.ndarray) else sp.csr_array(X)
        least, where = PairMatrix(SQDIST, left, points).arg_min()
        assert where.max() < 20
        np.testing.assert_allclose(least, sqdist(X, Y).min(axis=1), rtol=1e-12)
        nothing = PairMatrix(-SQDIST, left, points).log_sum_exp(np.full(40, -np.inf))
        assert np.all(nothing == -np.inf)
    with pytest.raises(ValueError, match=r"log_weight has shape \(3,\); expected \(20,\)"):
        PairMatrix(SQDIST, X, Y).log_sum_exp(np.zeros(3))
