"""Scales of a sum of kernels: derivatives against differences, and what is learnt."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.auto.leave_one_out import left_out, weighed
from mercer.auto.scales import (
    GAUSSIAN,
    LAPLACIAN,
    Part,
    Slopes,
    absolute_differences,
    kernel_of,
    learn,
    squared_differences,
    start,
    widened,
)


def problem(n=30, d=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[:, -1] = X[:, -1] > 0
    return X.astype(np.float32).astype(float), rng.normal(size=(n, 2))


def sums(M, X, power):
    apart = np.abs(X[:, None] - X[None]) ** power
    return np.einsum("ij,ijk->k", M, apart)


@pytest.mark.parametrize("n", [1, 5, 230])
def test_sums_over_differences(n):
    rng = np.random.default_rng(1)
    X, M = rng.normal(size=(n, 3)), rng.normal(size=(n, n))
    M = M + M.T
    np.testing.assert_allclose(absolute_differences(M, X), sums(M, X, 1), atol=1e-9)
    np.testing.assert_allclose(squared_differences(M, X), sums(M, X, 2), atol=1e-9)


@pytest.mark.parametrize("families", [(LAPLACIAN,), (GAUSSIAN,), (LAPLACIAN, GAUSSIAN)])
@pytest.mark.parametrize("roots", [None, np.linspace(0.3, 1.8, 30)], ids=["plain", "weighted"])
def test_derivatives_against_differences(families, roots):
    X, Y = problem()
    rates = np.array([0.3, 0.2, 0.5, 0.4])
    parts = [Part(f, rates * (1 + i), 1.0 - 0.4 * i) for i, f in enumerate(families)]
    alpha, h = 0.3, 1e-4

    def error(parts, alpha=alpha):
        G = np.asarray(kernel_of(parts)(X), dtype=float)
        return left_out(weighed(G, roots), Y, alpha)[0]

    def slope(moved):
        return (moved(h) - moved(-h)) / (2 * h)

    found = Slopes(X, Y, roots).at(parts, alpha)
    assert found[0] == pytest.approx(error(parts), rel=1e-5)
    for c, part in enumerate(parts):

        def changed(new, c=c):
            return error([*parts[:c], new, *parts[c + 1 :]])

        def faster(t, e, part=part, changed=changed):
            return changed(part._replace(rates=part.rates * np.exp(t * e)))

        def louder(t, part=part, changed=changed):
            return changed(part._replace(amplitude=part.amplitude * np.exp(t)))

        expected = [slope(lambda t, e=e, f=faster: f(t, e)) for e in np.eye(4)]
        np.testing.assert_allclose(found[1][c], expected, rtol=1e-3, atol=1e-5)
        assert found[2][c] == pytest.approx(slope(louder), rel=1e-3, abs=1e-5)
    assert found[3] == pytest.approx(slope(lambda t: error(parts, alpha * np.exp(t))), rel=1e-3)


def test_wider_parts_are_kernels_of_nearer_points():
    X, _ = problem()
    parts = [Part(LAPLACIAN, np.ones(4), 1.0), Part(GAUSSIAN, np.full(4, 0.5), 0.3)]
    np.testing.assert_allclose(kernel_of(widened(parts, 2.0))(X), kernel_of(parts)(X / 2))


def test_scales_are_learnt_where_columns_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 6))
    Y = np.sign(X[:, :1]) + 0.5 * X[:, 1:2] + 0.1 * rng.normal(size=(250, 1))
    found = learn(Slopes(X, Y), start(X, np.random.RandomState(0)), 15)
    assert found.after < 0.7 * found.before
    error = left_out(np.asarray(kernel_of(found.parts)(X)), Y, found.alpha)[0]
    assert error == pytest.approx(found.after, rel=1e-3)
    moved = np.max([part.amplitude * part.rates for part in found.parts], axis=0)
    assert moved[:2].min() > moved[2:].max()


def test_a_descent_that_is_late_gives_the_best_so_far():
    X, Y = problem()
    begin = start(X, np.random.RandomState(0))
    found = learn(Slopes(X, Y), begin, 15, lambda: True)
    assert found.before == found.after
    np.testing.assert_array_equal(found.parts[0].rates, begin[0].rates)
    again = learn(Slopes(X, Y), found.parts, 3, alpha=0.7)
    assert again.before == pytest.approx(
        left_out(np.asarray(kernel_of(begin)(X), dtype=float), Y, 0.7)[0], rel=1e-4
    )
