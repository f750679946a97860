"""Gaussian sums, trees and binning: the native routines against their twins and slow sums."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from instruction_levels import LEVELS, module_of
from mercer.core import Kind
from mercer.core.reference import smoothing as twin
from mercer.expressions import PairMatrix, exp, positive, sqrt, statistic, step
from mercer.expressions.arithmetic import evaluate
from native_pairs import GAUSSIAN, build, leaf

RNG = np.random.default_rng


@pytest.fixture(params=[*LEVELS, "python"])
def routines(request):
    """The routines at each level that this machine runs, and the twin."""
    return twin if request.param == "python" else module_of(request.param)


def cloud(n, d, seed=0, scale=1.0):
    return RNG(seed).normal(size=(n, d)) * scale


def exponents(U, V, log_weight, own=None):
    y = log_weight - 0.5 * ((U[:, None] - V) ** 2).sum(axis=2)
    if own is not None:
        y[np.diag_indices(len(U))] = own
    return y


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 17])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 70), (133, 64), (7, 9001)])
def test_log_sums(routines, n, m, d):
    U, V = cloud(n, d, 1, 3.0), cloud(m, d, 2, 3.0)
    log_weight = np.log(RNG(3).uniform(0.1, 2, size=m))
    found = routines.log_sums(U, V, log_weight, None, 2)
    np.testing.assert_allclose(found, logsumexp(exponents(U, V, log_weight), axis=1), rtol=1e-13)


@pytest.mark.parametrize("far", [1e2, 1e5, 1e9])
def test_log_sums_far_from_all_points(routines, far):
    V = cloud(500, 2)
    V[400:] += far  # later points are nearer than the reference of the first
    U = np.array([[far, far], [far, -far], [0.0, 0.0], [-far, 0.0]])
    log_weight = np.zeros(500)
    found = routines.log_sums(U, V, log_weight, None, 0)
    np.testing.assert_allclose(found, logsumexp(exponents(U, V, log_weight), axis=1), rtol=1e-12)


def test_log_sums_without_oneself(routines):
    X = cloud(150, 3, scale=5.0)
    X[0] += 1e4  # alone: its own term would hide the others
    own = np.full(150, -np.inf)
    own[7] = np.log(2.0)
    found = routines.log_sums(X, X, np.zeros(150), own, 2)
    expected = logsumexp(exponents(X, X, np.zeros(150), own), axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    alone = routines.log_sums(X[:1], X[:1], np.zeros(1), np.array([-np.inf]), 0)
    assert alone[0] == -np.inf


def slow_moments(U, V, log_weight, own, Y, linear):
    y = exponents(U, V, log_weight, own)
    P = np.exp(y - logsumexp(y, axis=1, keepdims=True))
    rows = []
    for i, p in enumerate(P):
        D, parts = V - U[i], [p @ Y]
        if linear:
            parts += [p @ D]
            parts += [[p @ (D[:, a] * D[:, b]) for a in range(D.shape[1]) for b in range(a + 1)]]
            parts += [p @ (D[:, [k]] * Y) for k in range(D.shape[1])]
        rows.append(np.concatenate(parts))
    return logsumexp(y, axis=1), np.array(rows)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(("d", "c"), [(1, 1), (2, 3), (5, 0)])
@pytest.mark.parametrize("left_out", [False, True])
def test_local_moments(routines, linear, d, c, left_out):
    V = cloud(90, d, scale=2.0)
    U = V if left_out else cloud(31, d, 1, 2.0)
    own = np.full(90, -np.inf) if left_out else None
    Y, log_weight = cloud(90, c, 2), np.log(RNG(3).uniform(0.5, 2, size=90))
    log_sum, means = routines.local_moments(U, V, log_weight, own, Y, linear, 2)
    expected_sum, expected = slow_moments(U, V, log_weight, own, Y, linear)
    np.testing.assert_allclose(log_sum, expected_sum, rtol=1e-12)
    np.testing.assert_allclose(means, expected, rtol=1e-10, atol=1e-12)


def test_means_of_huge_targets(routines):
    V = np.repeat([[24.0], [0.0]], 64, axis=0)  # the first are far away, and set the reference
    Y = np.full((128, 1), 1e290)
    _, means = routines.local_moments(np.zeros((1, 1)), V, np.zeros(128), None, Y, False, 0)
    np.testing.assert_allclose(means, [[1e290]])


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(("d", "c"), [(1, 1), (3, 2), (2, 0)])
@pytest.mark.parametrize("left_out", [False, True])
def test_local_slopes(routines, linear, d, c, left_out):
    V = cloud(90, d, scale=2.0)
    U = V if left_out else cloud(31, d, 1, 2.0)
    own = np.full(90, -np.inf) if left_out else None
    Y, log_weight = cloud(90, c, 2), np.log(RNG(3).uniform(0.5, 2, size=90))
    wide = 1 + d if linear else 1
    g, b, v = (cloud(len(U), k, s) for k, s in ((wide, 4), (wide, 5), (c, 6)))
    y = exponents(U, V, log_weight, own)
    log_sum = logsumexp(y, axis=1)
    log_sum[3] = -np.inf
    expected = np.zeros(U.shape)
    for i in range(len(U)):
        if i == 3:
            continue
        D = V - U[i]
        left, right = np.full(90, g[i, 0]), Y @ v[i] - b[i, 0]
        if linear:
            left, right = left + D @ g[i, 1:], right - D @ b[i, 1:]
        expected[i] = (np.exp(y[i] - log_sum[i]) * left * right) @ D**2
    found = routines.local_slopes(U, V, log_weight, own, Y, log_sum, g, v, b, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_sums_do_not_depend_on_threads(routines):
    U, V, w = cloud(40, 2), cloud(30_000, 2, 1), np.zeros(30_000)
    one, two = (routines.log_sums(U, V, w, None, threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_binning_keeps_mass_and_mean(routines, d):
    X, w = RNG(0).uniform(-1, 1, size=(200, d)), RNG(1).uniform(size=200)
    low, step_, shape = np.full(d, -1.2), np.full(d, 0.3), np.full(d, 9)
    grid = routines.bin_linear(X, w, low, step_, shape).reshape(shape)
    assert grid.sum() == pytest.approx(w.sum())
    for k in range(d):
        at = low[k] + step_[k] * np.arange(9)
        marginal = grid.sum(axis=tuple(a for a in range(d) if a != k))
        assert marginal @ at == pytest.approx(w @ X[:, k])
    np.testing.assert_allclose(
        grid.ravel(), twin.bin_linear(X, w, low, step_, shape), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(
        routines.bin_linear(X, None, low, step_, shape),
        twin.bin_linear(X, np.ones(200), low, step_, shape),
        rtol=1e-12,
        atol=1e-14,
    )


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ("U is .n, d.", (np.zeros((2, 2)), np.zeros((3, 1)), np.zeros(3), None, 0)),
        ("log_weight", (np.zeros((2, 2)), np.zeros((3, 2)), np.zeros(2), None, 0)),
        ("own has n", (np.zeros((2, 2)), np.zeros((3, 2)), np.zeros(3), np.zeros(2), 0)),
        ("at least one", (np.zeros((0, 2)), np.zeros((3, 2)), np.zeros(3), None, 0)),
    ],
)
@pytest.mark.parametrize("level", LEVELS)  # the twin trusts its caller
def test_what_does_not_fit_is_refused(level, expected, arguments):
    with pytest.raises(ValueError, match=expected):
        module_of(level).log_sums(*arguments)


@pytest.mark.parametrize("level", LEVELS)
def test_a_tree_needs_features(level):
    X = np.zeros((100, 0))
    native, _ = build(level, GAUSSIAN, [leaf(Kind.SQDIST, X, X)], n=100, m=100)
    with pytest.raises(ValueError, match="one feature"):
        native.tree_sums(np.ones(100), 1e-3, 0.0, 0)


R2 = statistic("sqdist")
FALLING = {
    "gaussian": exp(-0.5 * R2),
    "exponential": exp(-sqrt(R2)),
    "tophat": step(1 - R2),
    "epanechnikov": positive(1 - R2),
    "triweight": positive(1 - R2) ** 3,
}


@pytest.mark.parametrize("name", FALLING)
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize(("rtol", "atol"), [(0, 0), (1e-2, 0), (1e-6, 0), (0, 1e-3), (0.1, 1e-8)])
@pytest.mark.parametrize("h", [0.05, 0.5, 4.0])
def test_tree_keeps_its_tolerance(name, d, rtol, atol, h):
    rng = RNG(d)
    V = np.concatenate([rng.normal(size=(700, d)), rng.normal(size=(800, d)) * 0.01 + 2]) / h
    U = np.concatenate([rng.normal(size=(60, d)), V[:40] * h, rng.normal(size=(9, d)) * 30]) / h
    w = rng.exponential(size=1500)
    pairs = PairMatrix(FALLING[name], U, V)
    r2 = ((U[:, None] - V) ** 2).sum(axis=2)
    exact = evaluate(FALLING[name], lambda leaf: r2) @ w
    error = np.abs(pairs.tree_sums(w, rtol, atol) - exact)
    # Terms below the least normal number count as zero.
    assert np.all(error <= atol + rtol * exact + 1e-13 * exact + 1e-300)


def test_tree_of_equal_points():
    V = np.ones((300, 2))
    found = PairMatrix(FALLING["gaussian"], V[:5], V).tree_sums(np.ones(300), 0.0, 0.0)
    np.testing.assert_allclose(found, 300.0)
