"""The expression language: simplification, shared statistics, lowering, blocks."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.expressions import (
    STATISTICS,
    Pairs,
    PairStatistic,
    Parameter,
    Statistic,
    View,
    derivative,
    diagonal,
    divide,
    exp,
    lower,
    normalised,
    sqrt,
    statistic,
    tanh,
)
from mercer.expressions.nodes import ONE, ZERO, Constant

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


def test_diagonals_are_pushed_to_the_statistics():
    assert diagonal(exp(-2 * SQDIST), 0) == ONE
    assert diagonal(DOT * 2 + 1, 1) == diagonal(DOT, 1) * 2 + 1
    pairs = Pairs((DOT + 1) ** 2 * tanh(DOT), X)
    np.testing.assert_allclose(pairs.diagonal(), np.diagonal(pairs.gram()))


def test_a_shared_statistic_is_computed_once_per_block():
    calls = []

    def counted(F, G):
        calls.append(F.shape)
        return F @ G.T

    kind = PairStatistic("counted", counted, lambda F: (F * F).sum(axis=1))
    s = Statistic(kind, View())
    values = Pairs((s + 1) ** 2 + exp(s * 0.1) * s, X, Y).gram()
    D = X @ Y.T
    assert len(calls) == 1
    np.testing.assert_allclose(values, (D + 1) ** 2 + np.exp(0.1 * D) * D)


def test_blocks_by_slice_and_by_index():
    pairs = Pairs(exp(-0.5 * SQDIST) + DOT, X, Y)
    full = pairs.gram()
    np.testing.assert_allclose(pairs.block(slice(3, 9), slice(None)), full[3:9], rtol=1e-12)
    chosen = np.array([7, 2, 2])
    np.testing.assert_allclose(
        pairs.block(chosen, chosen), full[np.ix_(chosen, chosen)], rtol=1e-12
    )
    assert Pairs(Constant(3.0), X, Y).gram().tolist() == np.full((30, 20), 3.0).tolist()


def test_division_has_a_value_at_zero():
    e = divide(DOT, diagonal(DOT, 0) + diagonal(DOT, 1) - DOT, at_zero=1.0)
    points = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert Pairs(e, points).gram().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_inputs_are_not_written_to():
    frozen = X.copy()
    frozen.setflags(write=False)
    for e in (DOT * 2 + 1, exp(-SQDIST), sqrt(SQDIST), statistic("l1"), DOT + DOT):
        Pairs(e, frozen).gram()
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
        Pairs(statistic(name), X, Y).gram(), expected, rtol=1e-12, atol=1e-13
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
        np.testing.assert_allclose(Pairs(e, X, Y).gram(), f(0.7, D), rtol=1e-12)
        slope = (f(0.7 + 1e-6, D) - f(0.7 - 1e-6, D)) / 2e-6
        found = Pairs(derivative(e, "theta"), X, Y).gram()
        np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-6)
    assert derivative(DOT, "theta") == ZERO


def test_normalising_refuses_a_negative_diagonal():
    with pytest.raises(ValueError, match=r"k\(x, x\) >= 0"):
        Pairs(normalised(-1 * DOT), X).gram()
