"""Bandwidths: the map they stand for, normal-reference rules, the leave-one-out search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from mercer.estimators.smoothing.bandwidths import (
    feature_scales,
    log_search,
    loo_bandwidth,
    normal_reference,
    resolve_bandwidth,
    simplest_form,
)


def points(n=40, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


def test_number_vector_and_matrix_agree():
    X = points()
    number = resolve_bandwidth(0.5, 3)
    vector = resolve_bandwidth([0.5, 0.5, 0.5], 3)
    matrix = resolve_bandwidth(0.25 * np.eye(3), 3)
    for other in (vector, matrix):
        np.testing.assert_allclose(other.shrink(X), number.shrink(X))
        np.testing.assert_allclose(other.stretch(X), number.stretch(X))
        assert other.log_volume == pytest.approx(number.log_volume)
    assert matrix.is_matrix
    assert not vector.is_matrix


def test_matrix_gives_the_mahalanobis_distance():
    H = np.array([[2.0, 0.6], [0.6, 0.5]])
    bandwidth = resolve_bandwidth(H, 2)
    x = np.array([[0.3, -1.2]])
    u = bandwidth.shrink(x)
    assert (u**2).sum() == pytest.approx((x @ np.linalg.inv(H) @ x.T).item())
    np.testing.assert_allclose(bandwidth.stretch(u), x)
    assert bandwidth.log_volume == pytest.approx(0.5 * np.log(np.linalg.det(H)))


def test_one_by_one_matrix_is_a_square():
    assert resolve_bandwidth([[4.0]], 1).root == 2.0
    assert resolve_bandwidth([4.0], 1).root == 4.0


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0.0, ValueError, "positive; found 0"),
        (-1.0, ValueError, "positive; found -1"),
        (np.inf, ValueError, "finite"),
        ([1.0, np.nan], ValueError, "finite"),
        ([1.0, 2.0, 3.0], ValueError, r"shape \(3,\)"),
        ([[1.0, 2.0], [0.0, 1.0]], ValueError, "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], ValueError, "smallest eigenvalue is -1"),
        (["a", "b"], TypeError, "not numeric"),
    ],
)
def test_bad_bandwidths(value, error, message):
    with pytest.raises(error, match=message):
        resolve_bandwidth(value, 2)


def test_simplest_form():
    assert simplest_form(np.array([2.0])) == 2.0
    assert isinstance(simplest_form(np.array([2.0])), float)
    assert simplest_form(np.array([2.0, 3.0])).shape == (2,)


@pytest.mark.parametrize("rule", ["scott", "silverman"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_rules_against_scipy(rule, d):
    X = points(d=d)
    weight = np.random.default_rng(1).uniform(size=len(X))
    for w in (np.ones(len(X)), weight):
        peer = gaussian_kde(X.T, bw_method=rule, weights=w)
        expected = np.sqrt(np.diag(np.atleast_2d(peer.covariance)))
        np.testing.assert_allclose(normal_reference(X, rule, w), expected)


@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_rules_follow_the_scale_of_the_data(rule):
    X, scales = points(), np.array([1000.0, 1e-6, 1.0])
    one, w = normal_reference(X, rule, np.ones(len(X))), np.ones(len(X))
    np.testing.assert_allclose(normal_reference(X * scales + 7, rule, w), one * scales, rtol=1e-8)


def test_formula_of_the_rules():
    X, n, d = points(), 40, 3
    sigma = X.std(axis=0, ddof=1)
    np.testing.assert_allclose(
        normal_reference(X, "scott", np.ones(n)), sigma * n ** (-1 / (d + 4))
    )
    np.testing.assert_allclose(
        normal_reference(X, "silverman", np.ones(n), variance=1 / 12),
        sigma * (n * (d + 2) / 4) ** (-1 / (d + 4)) * np.sqrt(12),
    )


def test_scale_of_constant_columns_and_single_points():
    X = np.column_stack([np.full(9, 0.1), np.arange(9.0)])
    scales = feature_scales(X, np.ones(9))
    assert scales[0] == 0
    assert scales[1] == pytest.approx(np.arange(9.0).std(ddof=1))
    np.testing.assert_array_equal(feature_scales(X[:1], np.ones(1)), [0, 0])


def test_search_finds_the_minimum():
    h, curve = loo_bandwidth(lambda h: np.log(h[0] / 0.37) ** 2 + 1, np.array([1.0]))
    assert h[0] == pytest.approx(0.37, rel=0.01)
    assert np.all(np.diff(curve["factor"]) > 0)
    np.testing.assert_allclose(curve["score"], np.log(curve["factor"] / 0.37) ** 2 + 1)


def test_search_goes_on_downwards():
    h, _ = loo_bandwidth(lambda h: np.log(h[0] / 1e-6) ** 2, np.array([1.0]))
    assert h[0] == pytest.approx(1e-6, rel=0.02)


def test_search_keeps_the_start_where_nothing_matters():
    start = np.array([0.3, 2.0])
    np.testing.assert_array_equal(loo_bandwidth(lambda h: 1.0, start)[0], start)
    np.testing.assert_array_equal(loo_bandwidth(lambda h: np.nan, start)[0], start)
    rounding = iter(np.random.default_rng(0).uniform(0, 1e-13, size=10_000))
    np.testing.assert_array_equal(loo_bandwidth(lambda h: 1 + next(rounding), start)[0], start)


def test_search_per_feature():
    target = np.array([0.1, 5.0])
    h, _ = loo_bandwidth(lambda h: (np.log(h / target) ** 2).sum(), np.ones(2), per_feature=True)
    np.testing.assert_allclose(h, target, rtol=0.05)


@pytest.mark.parametrize(("d", "apart"), [(2, True), (20, True), (21, False), (5000, False)])
def test_the_search_without_slopes_is_bounded(d, apart):
    target, seen = np.geomspace(0.5, 2.0, d), []

    def error(h):
        seen.append(h)
        return np.mean(np.log(h / target) ** 2) + 1

    h, curve = loo_bandwidth(error, np.ones(d), per_feature=True)
    assert curve["per_feature"] == apart
    assert len(seen) <= (1100 if apart else 50)
    if apart:
        np.testing.assert_allclose(h, target, rtol=0.1)
    else:  # the geometric mean of what each feature asks for
        np.testing.assert_allclose(h, 1.0, rtol=0.01)


@pytest.mark.parametrize(("d", "apart"), [(2, True), (100, True), (101, False), (5000, False)])
def test_the_search_with_slopes_is_bounded(d, apart):
    target, seen = np.geomspace(0.5, 2.0, d), []

    def score(h):
        seen.append(h)
        t = np.log(h / target)
        return t @ t + 1, 2 * t

    h, curve = log_search(score, np.ones(d))
    assert curve["per_feature"] == apart
    assert len(seen) <= (2 * d + 300 if apart else 50)
    np.testing.assert_allclose(h, target if apart else np.ones(d), rtol=0.01)


@pytest.mark.parametrize("n", [2, 178, 1000, 20_000])
@pytest.mark.parametrize("value", [0.1, 12.34, 1e6 + 0.1])
def test_the_scale_of_a_constant_column_is_zero_however_long(n, value):
    X = np.column_stack([np.arange(n), np.full(n, value)])
    weight = np.random.default_rng(0).uniform(size=n)
    assert feature_scales(X, weight)[0] > 0
    assert feature_scales(X, weight)[1] == 0
