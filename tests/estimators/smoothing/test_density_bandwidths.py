"""Rules for bandwidths: equivariant, near the optimum where it is known, else clear."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from mercer.estimators.smoothing.bandwidth_rules import SCORES, improved_sheather_jones
from mercer.estimators.smoothing.bandwidths import log_search, normal_reference
from mercer.estimators.smoothing.density import RULES, KernelDensity
from mercer.estimators.smoothing.plugin_bandwidth import _derivatives, plugin_matrix

PER_FEATURE = [rule for rule in RULES if rule != "plugin"]


def cloud(n=150, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) @ np.triu(np.ones((d, d)))


def equal(n):
    return np.full(n, 1 / n)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_data_in_other_units_give_the_same_bandwidth_in_those_units(rule, kernel):
    x = np.random.default_rng(0).gamma(3.0, size=(300, 1))
    one = KernelDensity(bandwidth=rule, kernel=kernel).fit(x).bandwidth_
    # The entries of a matrix are squares, which must be numbers too.
    for scale in (1000.0, 1e-6, *(() if rule == "plugin" else (1e200, 1e-200))):
        other = KernelDensity(bandwidth=rule, kernel=kernel).fit(scale * x + 7 * scale).bandwidth_
        assert other == pytest.approx(scale * one, rel=1e-4)


@pytest.mark.parametrize("rule", PER_FEATURE)
def test_each_feature_has_its_own_units(rule):
    X, scales = cloud(), np.array([1000.0, 1e-3])
    one = KernelDensity(bandwidth=rule).fit(X).bandwidth_
    other = KernelDensity(bandwidth=rule).fit(X * scales).bandwidth_
    np.testing.assert_allclose(other, one * scales, rtol=1e-3)


def test_the_plugin_matrix_follows_every_linear_map():
    X, A = cloud(), np.array([[1000.0, 3.0], [-200.0, 0.5]])
    H = KernelDensity(bandwidth="plugin").fit(X).bandwidth_
    moved = KernelDensity(bandwidth="plugin").fit(X @ A.T + 5).bandwidth_
    np.testing.assert_allclose(moved, A @ H @ A.T, rtol=1e-3)


def test_isj_is_near_the_optimum_of_the_normal_law():
    """Median over 50 samples of 2,000 within a tenth of 1.06 σ n^(-1/5) = 0.232 σ."""
    for sigma in (1.0, 1e4):
        found = [
            improved_sheather_jones(sigma * np.random.default_rng(s).normal(size=2000), equal(2000))
            for s in range(50)
        ]
        assert np.median(found) == pytest.approx(0.232 * sigma, rel=0.1)


def test_isj_of_several_features_is_near_the_optimum_of_a_normal_law():
    """Independent normal features: (4 / ((d + 2) n))^(1 / (d + 4)) σ for each."""
    n, sigma = 2000, np.array([1.0, 50.0, 1e-3])
    best = sigma * (4 / (5 * n)) ** (1 / 7)
    found = [
        KernelDensity(bandwidth="isj")
        .fit(sigma * np.random.default_rng(seed).normal(size=(n, 3)))
        .bandwidth_
        for seed in range(15)
    ]
    np.testing.assert_allclose(np.median(found, axis=0), best, rtol=0.1)


def test_isj_sees_the_modes_of_each_feature():
    X = np.column_stack([mixture(500, 0), np.random.default_rng(1).normal(size=500)])
    h, reference = (
        KernelDensity(bandwidth=rule).fit(X).bandwidth_ for rule in ("isj", "silverman")
    )
    assert h[0] < reference[0] / 2
    assert h[1] == pytest.approx(reference[1], rel=0.3)


def mixture(n, seed):
    """½ N(-2, ½²) + ½ N(2, ½²), where the normal reference smooths far too much."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.5, -2.0, 2.0) + 0.5 * rng.normal(size=n)


def mise(h, n):
    """Mean integrated squared error of a Gaussian kernel of width h on that mixture, exactly."""
    means, s2 = np.array([-2.0, 2.0]), 0.25

    def total(variance):
        gaps = means[:, None] - means
        return np.mean(np.exp(-(gaps**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance))

    roughness = 1 / (n * 2 * h * np.sqrt(np.pi))
    return (
        roughness
        + (1 - 1 / n) * total(2 * s2 + 2 * h**2)
        - 2 * total(2 * s2 + h**2)
        + total(2 * s2)
    )


@pytest.mark.parametrize(
    ("rule", "allowed"), [("isj", 1.1), ("plugin", 1.15), ("mlcv", 1.15), ("lscv", 1.3)]
)
def test_rules_come_near_the_least_error_on_two_modes(rule, allowed):
    n = 500
    best = minimize_scalar(lambda h: mise(h, n), bounds=(0.02, 1), method="bounded").fun
    found = [KernelDensity(bandwidth=rule).fit(mixture(n, s)[:, None]).bandwidth_ for s in range(9)]
    assert mise(np.median(found), n) <= allowed * best
    assert mise(KernelDensity(bandwidth="silverman").fit(mixture(n, 0)[:, None]).bandwidth_, n) > (
        2 * best
    )


def test_plugin_of_a_normal_law_is_near_its_optimum():
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    X = np.random.default_rng(0).multivariate_normal([0, 0], covariance, size=3000)
    best = covariance * 3000 ** (-1 / 3)  # (4 / ((d + 2) n))^(2 / (d + 4)) for d = 2
    H = plugin_matrix(X, equal(3000))
    np.testing.assert_allclose(np.linalg.eigvals(np.linalg.solve(best, H)), 1, atol=0.2)


@pytest.mark.parametrize("laplacian", [False, True])
def test_fourth_derivatives_against_differences(laplacian):
    """∂⁴ of Σ w w F(z_i - z_j + shift) by shifts, F Gaussian or its Laplacian."""
    Z, w, g, e = cloud(12), np.random.default_rng(1).dirichlet(np.ones(12)), 0.8, 0.02

    def F(z):
        r2 = (z**2).sum(axis=-1)
        phi = np.exp(-r2 / (2 * g**2)) / (2 * np.pi * g**2)
        return phi * (r2 / g**4 - 2 / g**2) if laplacian else phi

    def at(shift):
        return w @ F(Z[:, None] - Z + shift) @ w

    found = _derivatives(Z, w, g, laplacian)
    for index in [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 1, 1)]:
        value = 0.0
        for signs in np.ndindex(2, 2, 2, 2):
            sign = np.where(signs, 1, -1)
            shift = np.zeros(2)
            for k, s in zip(index, sign, strict=True):
                shift[k] += s * e
            value += np.prod(sign) * at(shift) / (2 * e) ** 4
        assert found[index] == pytest.approx(value, rel=5e-3)
        assert found[index] == pytest.approx(found[index[::-1]], rel=1e-12)


def slow_score(rule, X, w, h):
    n, d = X.shape
    D = (((X[:, None] - X) / h) ** 2).sum(axis=2)
    volume = np.prod(h)
    own = np.eye(n, dtype=bool)
    log_k = np.where(own, -np.inf, -D / 2) + np.log(w)
    log_p = logsumexp(log_k, axis=1) - np.log(1 - w) - d / 2 * np.log(2 * np.pi) - np.log(volume)
    units = np.sqrt(w @ (X - w @ X) ** 2).prod()  # in standard deviations
    if rule == "mlcv":
        return -w @ log_p - np.log(units)
    square = w @ np.exp(-D / 4) @ w / (4 * np.pi) ** (d / 2) / volume
    return (square - 2 * w @ np.exp(log_p)) * units


@pytest.mark.parametrize("rule", SCORES)
@pytest.mark.parametrize("d", [1, 3])
def test_scores_and_slopes(rule, d):
    X, w = cloud(60, d), np.random.default_rng(2).dirichlet(np.full(60, 3.0))
    X[0] += 100  # far from all others
    score, h = SCORES[rule](X, w), np.linspace(0.4, 1.1, d)
    value, slope = score(h)
    assert value == pytest.approx(slow_score(rule, X, w, h), rel=1e-10)
    e = 1e-5
    by_differences = [
        (score(h * np.exp(e * row))[0] - score(h * np.exp(-e * row))[0]) / (2 * e)
        for row in np.eye(d)
    ]
    np.testing.assert_allclose(slope, by_differences, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("rule", SCORES)
def test_cross_validation_finds_the_least_score(rule):
    X = cloud(120, 2)
    kde = KernelDensity(bandwidth=rule).fit(X)
    best = slow_score(rule, X, equal(120), kde.bandwidth_)
    for a in np.geomspace(0.25, 4, 9):
        for b in np.geomspace(0.25, 4, 9):
            assert slow_score(rule, X, equal(120), kde.bandwidth_ * [a, b]) >= best - 1e-9
    tried, scores = kde.selection_["bandwidth"], kde.selection_["score"]
    assert scores.min() >= best - 1e-9
    np.testing.assert_allclose(
        scores, [slow_score(rule, X, equal(120), h) for h in tried], rtol=1e-9
    )


def test_other_kernels_get_the_same_spread():
    X = cloud(100, 1)
    for rule in RULES:
        h = KernelDensity(bandwidth=rule).fit(X).bandwidth_
        cube = KernelDensity(bandwidth=rule, kernel="hypercube").fit(X).bandwidth_
        assert cube == pytest.approx(h * np.sqrt(12), rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_data_without_spread_are_refused_by_name(rule):
    with pytest.raises(ValueError, match="all 5 values are equal"):
        KernelDensity(bandwidth=rule).fit(np.full((5, 1), 0.1))
    with pytest.raises(ValueError, match="one point"):
        KernelDensity(bandwidth=rule).fit([[1.0]])


def test_other_data_that_a_rule_cannot_take():
    line = np.arange(20.0)[:, None] * [1.0, 2.0]
    with pytest.raises(ValueError, match="linearly dependent"):
        KernelDensity(bandwidth="plugin").fit(line)
    with pytest.raises(ValueError, match="up to 6 features"):
        KernelDensity(bandwidth="plugin").fit(cloud(50, 7))
    discrete = np.column_stack([np.arange(40.0) ** 2, np.arange(40) % 2])
    with pytest.raises(ValueError, match="column 1 of X: bandwidth='isj' found no fixed point"):
        KernelDensity(bandwidth="isj").fit(discrete)
    with pytest.raises(ValueError, match="radial"):
        KernelDensity(bandwidth="plugin", kernel="hypercube").fit(cloud())
    rounded = np.repeat([[0.0], [1.0], [2.0], [5.0]], 30, axis=0)
    for rule in SCORES:
        with pytest.raises(ValueError, match="repeat others"):
            KernelDensity(bandwidth=rule).fit(rounded)
    spike = np.random.default_rng(0).normal(size=(300, 1)) ** 3
    with pytest.raises(ValueError, match="pole"):
        KernelDensity(bandwidth="lscv").fit(spike)
    with pytest.raises(ValueError, match="2 distinct"):
        KernelDensity(bandwidth="mlcv").fit([[0.0], [1.0]])


@pytest.mark.parametrize("unit", [1e-170, 1e170])
def test_units_whose_squares_are_beyond_all_numbers(unit):
    X = cloud(50, 2)
    for rule in RULES:
        h = KernelDensity(bandwidth=rule).fit(X[:, :1]).bandwidth_
        scaled = KernelDensity(bandwidth=rule).fit(unit * X[:, :1]).bandwidth_
        assert scaled == pytest.approx(unit * h, rel=1e-6, abs=0)
    with pytest.raises(ValueError, match="other units"):
        KernelDensity(bandwidth="plugin").fit(unit * X)
    with pytest.raises(ValueError, match="larger units"):
        KernelDensity(bandwidth="scott").fit([[-1e308], [0.0], [1e308]])


@pytest.mark.parametrize("rule", RULES)
def test_the_order_in_memory_does_not_matter(rule):
    X = cloud(60, 2)
    rows, columns = (KernelDensity(bandwidth=rule).fit(A) for A in (X, np.asfortranarray(X)))
    np.testing.assert_array_equal(rows.bandwidth_, columns.bandwidth_)


def test_the_search_takes_the_deeper_of_two_valleys():
    def score(h):
        t = np.log2(h)
        value = (t - 2.5) ** 2 * (t + 6.2) ** 2 / 100 + 0.05 * t
        slope = 2 * (t - 2.5) * (t + 6.2) * (2 * t + 3.7) / 100 + 0.05
        return float(value.sum()), slope / np.log(2)

    h, curve = log_search(score, np.ones(1))
    assert np.log2(h[0]) == pytest.approx(-6.2, abs=0.1)
    assert curve["factor"].shape == curve["score"].shape


def test_the_search_keeps_the_start_where_nothing_matters():
    start = np.array([0.3, 2.0])
    for flat in (1.0, np.nan):
        h, _ = log_search(lambda h, flat=flat: (flat, np.zeros(2)), start)
        np.testing.assert_array_equal(h, start)


def test_weights_of_whole_numbers_are_repetitions_for_the_normal_reference():
    X, w = cloud(40), np.random.default_rng(0).integers(1, 4, size=40)
    np.testing.assert_allclose(
        normal_reference(X, "scott", w * 1.0) / normal_reference(X, "scott", w * 2.0), 1
    )
