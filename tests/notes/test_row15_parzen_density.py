"""Row 15. Parzen's density estimator, from counting to any kernel: lecture 19.

Of N points, the number K that fall in a region of probability P is binomial, with mean NP and
variance NP(1 - P). In a small cube of side h around x, P ≈ p(x) h^D, so p(x) ≈ K / (N h^D): a sum
of cubes, one around each point. Cubes jump; Gaussians of width h do not; any k >= 0 with integral
one will do, and h says how much is smoothed. (For D > 1 the constant of the Gaussian in the lecture
is a slip: (2πh²)^(D/2) is right, as the integral shows.)
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import binom, norm

import mercer

KERNELS = [
    "gaussian",
    "hypercube",
    "tophat",
    "epanechnikov",
    "biweight",
    "triweight",
    "triangular",
    "linear",
    "cosine",
    "exponential",
]


def count_in_cube(x, X, h):
    """How many points have every coordinate within h/2 of x's."""
    return sum(all(abs(a - b) <= h / 2 for a, b in zip(x, point, strict=True)) for point in X)


@pytest.mark.parametrize("D", [1, 2, 3])
@pytest.mark.parametrize("h", [0.3, 1.0])
def test_hypercube_counts(D, h):
    rng = np.random.default_rng(D)
    X, queries = rng.normal(size=(200, D)), rng.normal(size=(30, D))
    by_hand = [count_in_cube(x, X, h) / (len(X) * h**D) for x in queries]
    model = mercer.KernelDensity(kernel="hypercube", bandwidth=h).fit(X)
    np.testing.assert_allclose(model.pdf(queries), by_hand, rtol=1e-12)


def test_the_faces_of_the_cube_belong_to_it():
    model = mercer.KernelDensity(kernel="hypercube", bandwidth=0.5).fit([[0.0, 0.0]])
    inside, outside = [[0.25, -0.25]], [[0.2500001, 0.0]]
    assert model.pdf(inside)[0] == pytest.approx(4)
    assert model.pdf(outside)[0] == 0


def test_counts_are_binomial():
    # 4000 samples of N points each, counted in one cube through the estimator itself.
    rng = np.random.default_rng(0)
    N, h, x, repeats = 50, 0.8, 0.3, 4000
    P = norm.cdf(x + h / 2) - norm.cdf(x - h / 2)
    counts = np.array(
        [
            mercer.KernelDensity(kernel="hypercube", bandwidth=h)
            .fit(rng.normal(size=(N, 1)))
            .pdf([[x]])[0]
            * N
            * h
            for _ in range(repeats)
        ]
    )
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    # Mean and variance within five standard errors of the binomial's.
    mean, variance = N * P, N * P * (1 - P)
    assert abs(counts.mean() - mean) < 5 * np.sqrt(variance / repeats)
    assert abs(counts.var() - variance) < 5 * variance * np.sqrt(2 / repeats)
    seen = np.bincount(np.round(counts).astype(int), minlength=N + 1) / repeats
    assert np.abs(seen - binom.pmf(np.arange(N + 1), N, P)).max() < 0.03


@pytest.mark.parametrize("D", [1, 2])
def test_standard_error_of_the_cube_is_the_binomials(D):
    rng = np.random.default_rng(1)
    X, queries, h = rng.normal(size=(150, D)), rng.normal(size=(20, D)), 0.9
    model = mercer.KernelDensity(kernel="hypercube", bandwidth=h).fit(X)
    shares = np.array([count_in_cube(x, X, h) for x in queries]) / len(X)
    by_hand = np.sqrt(shares * (1 - shares) / len(X)) / h**D
    np.testing.assert_allclose(model.standard_error(queries), by_hand, rtol=1e-9, atol=1e-14)


def test_standard_error_is_the_spread_over_samples():
    rng = np.random.default_rng(2)
    N, h = 400, 0.5
    fits = [
        mercer.KernelDensity(kernel="hypercube", bandwidth=h).fit(rng.normal(size=(N, 1)))
        for _ in range(300)
    ]
    values = [model.pdf([[0.0]])[0] for model in fits]
    errors = [model.standard_error([[0.0]])[0] for model in fits]
    assert np.std(values) == pytest.approx(np.mean(errors), rel=0.15)


@pytest.mark.parametrize("D", [1, 2, 5])
def test_gaussian_with_the_right_constant(D):
    rng = np.random.default_rng(D)
    X, queries, h = rng.normal(size=(40, D)), rng.normal(size=(10, D)), 0.7
    by_hand = [
        np.mean([np.exp(-np.sum((x - p) ** 2) / (2 * h**2)) for p in X])
        / (2 * np.pi * h**2) ** (D / 2)
        for x in queries
    ]
    model = mercer.KernelDensity(bandwidth=h).fit(X)
    np.testing.assert_allclose(model.pdf(queries), by_hand, rtol=1e-11)
    np.testing.assert_allclose(model.score_samples(queries), np.log(by_hand), rtol=1e-11)


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_kernel_is_non_negative_and_integrates_to_one_on_the_line(kernel):
    X = np.array([[-0.4], [0.0], [1.3]])
    grid = np.linspace(-25, 25, 400_001)
    p = mercer.KernelDensity(kernel=kernel, bandwidth=0.6).fit(X).pdf(grid[:, None])
    assert p.min() >= 0
    assert trapezoid(p, grid) == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_kernel_integrates_to_one_in_the_plane(kernel):
    X = np.array([[0.0, 0.0], [0.5, -0.3]])
    side = np.linspace(-12, 12, 601)
    step = side[1] - side[0]
    plane = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
    p = mercer.KernelDensity(kernel=kernel, bandwidth=1.0).fit(X).pdf(plane)
    assert p.min() >= 0
    assert p.sum() * step**2 == pytest.approx(1, abs=0.02)


def test_any_kernel_of_ones_own_that_is_a_density():
    def laplace(u):
        return 0.5 * np.exp(-np.abs(u[..., 0]))

    X = np.random.default_rng(3).normal(size=(30, 1))
    model = mercer.KernelDensity(kernel=laplace, bandwidth=0.5).fit(X)
    by_hand = [np.mean(0.5 * np.exp(-np.abs(x - X[:, 0]) / 0.5)) / 0.5 for x in (0.0, 1.0)]
    np.testing.assert_allclose(model.pdf([[0.0], [1.0]]), by_hand, rtol=1e-10)

    with pytest.raises(ValueError, match="integrates"):
        mercer.KernelDensity(kernel=lambda u: 2 * laplace(u)).fit(X)
    with pytest.raises(ValueError, match="negative"):
        mercer.KernelDensity(kernel=lambda u: laplace(u) - 0.1).fit(X)


def test_h_smooths():
    X = np.random.default_rng(4).normal(size=(40, 1))
    grid = np.linspace(-4, 4, 2001)[:, None]

    def modes(h):
        p = mercer.KernelDensity(bandwidth=h).fit(X).pdf(grid)
        return int(np.sum((p[1:-1] > p[:-2]) & (p[1:-1] > p[2:])))

    found = [modes(h) for h in (0.02, 0.1, 0.3, 2.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 20
    assert found[-1] == 1


def test_nothing_is_fitted_but_the_points_are_kept():
    X = np.random.default_rng(5).normal(size=(20, 2))
    model = mercer.KernelDensity(bandwidth=0.4).fit(X)
    np.testing.assert_array_equal(model.X_fit_, X)
    assert model.bandwidth_ == 0.4
