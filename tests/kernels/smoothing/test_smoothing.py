"""Smoothing kernels: densities in every dimension, and draws that follow them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import integrate, stats

from mercer import kernels as K
from mercer.kernels.smoothing.densities import FunctionKernel, JointDensity, smoothing_kernel
from mercer.kernels.smoothing.window import RadialKernel, log_sphere_surface
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS, Gaussian

RADIAL = {name: k for name, k in SMOOTHING_KERNELS.items() if isinstance(k, RadialKernel)}

# The profiles as the textbooks write them, of the distance r.
PROFILES = {
    "gaussian": lambda r: np.exp(-(r**2) / 2),
    "tophat": lambda r: 1.0 * (r < 1),
    "epanechnikov": lambda r: np.where(r < 1, 1 - r**2, 0),
    "biweight": lambda r: np.where(r < 1, (1 - r**2) ** 2, 0),
    "triweight": lambda r: np.where(r < 1, (1 - r**2) ** 3, 0),
    "triangular": lambda r: np.where(r < 1, 1 - r, 0),
    "linear": lambda r: np.where(r < 1, 1 - r, 0),
    "cosine": lambda r: np.where(r < 1, np.cos(np.pi * r / 2), 0),
    "exponential": lambda r: np.exp(-r),
}


def density(kernel, u):
    """k(u) for u (n, d)."""
    return np.exp(kernel.log_pairs(np.asarray(u, float), np.zeros((1, np.shape(u)[1]))))[:, 0]


def radial_density(kernel, r, d):
    """Density of the radius, r^(d-1) S_d k(r)."""
    point = np.zeros((1, d))
    point[0, 0] = r
    return np.exp(log_sphere_surface(d)) * r ** (d - 1) * density(kernel, point)[0]


def radius_end(kernel, d):
    return min(kernel.support, 20 + 10 * d)


@pytest.mark.parametrize("name", RADIAL)
def test_profile_is_the_textbooks(name):
    r = np.linspace(0, 1.5, 40)
    expected = PROFILES[name](r)
    np.testing.assert_allclose(RADIAL[name].values(r**2), expected, rtol=1e-12, atol=1e-15)


def test_cosine_keeps_its_digits_where_it_goes_to_zero():
    r = 1 - 10.0 ** -np.arange(1, 12)
    expected = np.sin(np.pi / 2 * (1 - r))
    np.testing.assert_allclose(SMOOTHING_KERNELS["cosine"].values(r**2), expected, rtol=1e-4)
    near = SMOOTHING_KERNELS["cosine"].values(r[:3] ** 2)
    np.testing.assert_allclose(near, expected[:3], rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("name", SMOOTHING_KERNELS)
def test_integrates_to_one_on_a_grid(name, d):
    kernel = SMOOTHING_KERNELS[name]
    end = {"gaussian": 7.0, "exponential": 16.0, "hypercube": 0.6}.get(name, 1.05)
    nodes = np.linspace(-end, end, {1: 20001, 2: 801, 3: 141}[d])
    step = nodes[1] - nodes[0]
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), -1).reshape(-1, d)
    # The jump of the cube and of the tophat costs a surface layer of half a step.
    tolerance = {1: 2e-3, 2: 1e-2, 3: 4e-2}[d]
    assert density(kernel, grid).sum() * step**d == pytest.approx(1, abs=tolerance)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
@pytest.mark.parametrize("name", RADIAL)
def test_integrates_to_one_along_the_radius(name, d):
    kernel = RADIAL[name]
    total, _ = integrate.quad(
        lambda r: radial_density(kernel, r, d), 0, radius_end(kernel, d), limit=400
    )
    assert total == pytest.approx(1, rel=1e-7)


@pytest.mark.parametrize("name", SMOOTHING_KERNELS)
def test_integrates_to_one_in_four_dimensions(name):
    """By Monte Carlo from a wider law, within five of its own standard errors."""
    kernel, rng, n = SMOOTHING_KERNELS[name], np.random.default_rng(0), 200_000
    if name == "hypercube":
        u, q = rng.uniform(-1, 1, size=(n, 4)), 1 / 16
    else:
        scale = 1.5 * np.sqrt(kernel.variance(4))
        u = rng.standard_t(3, size=(n, 4)) * scale
        q = np.prod(stats.t(3, scale=scale).pdf(u), axis=1)
    ratio = density(kernel, u) / q
    error = ratio.std() / np.sqrt(n)
    assert error < 0.02
    assert abs(ratio.mean() - 1) < 5 * error


@pytest.mark.parametrize("name", SMOOTHING_KERNELS)
def test_distribution_function_is_the_integral(name):
    kernel = SMOOTHING_KERNELS[name]
    nodes = np.linspace(-20, 20, 400_001)
    integral = integrate.cumulative_trapezoid(density(kernel, nodes[:, None]), nodes, initial=0)
    t = np.array([-19.0, -1.2, -0.7, -0.3, 0.0, 0.2, 0.9, 1.0, 19.0])
    np.testing.assert_allclose(kernel.cdf(t), np.interp(t, nodes, integral), atol=1e-4)


@pytest.mark.parametrize("name", SMOOTHING_KERNELS)
@pytest.mark.parametrize("d", [1, 3])
def test_scales_of_single_points(name, d):
    kernel, rng = SMOOTHING_KERNELS[name], np.random.default_rng(d)
    U, V, s = rng.normal(size=(9, d)), rng.normal(size=(20, d)), rng.uniform(0.5, 2, size=20)
    w = rng.uniform(size=20)
    by_hand = sum(
        w[j] * np.array([density(kernel, (U - V[j]) / s[j]) ** p for p in (1, 2)])
        for j in range(20)
    )
    found = np.exp(kernel.log_sums(U, V, np.log(w), (1, 2), s))
    np.testing.assert_allclose(found, by_hand, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
@pytest.mark.parametrize("name", RADIAL)
def test_variance_is_that_of_one_coordinate(name, d):
    kernel = RADIAL[name]
    second, _ = integrate.quad(
        lambda r: r**2 * radial_density(kernel, r, d), 0, radius_end(kernel, d), limit=400
    )
    assert kernel.variance(d) == pytest.approx(second / d, rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("name", RADIAL)
def test_drawn_radius_follows_the_exact_law(name, d):
    kernel = RADIAL[name]
    draws = kernel.sample(2000, d, random_state=0)
    assert draws.shape == (2000, d)
    grid = np.linspace(0, radius_end(kernel, d), 4001)
    point = np.zeros((len(grid), d))
    point[:, 0] = grid
    law = grid ** (d - 1) * density(kernel, point)
    cdf = integrate.cumulative_trapezoid(law, grid, initial=0)
    cdf /= cdf[-1]
    radius = np.linalg.norm(draws, axis=1)
    assert stats.kstest(radius, lambda r: np.interp(r, grid, cdf)).pvalue > 1e-3
    spread = np.sqrt(kernel.variance(d))
    np.testing.assert_allclose(draws.mean(axis=0), 0, atol=5 * spread / np.sqrt(2000))
    np.testing.assert_allclose(draws.std(axis=0), spread, rtol=0.12)


def test_hypercube_draws_and_variance():
    kernel = SMOOTHING_KERNELS["hypercube"]
    draws = kernel.sample(4000, 3, random_state=1)
    assert np.abs(draws).max() <= 0.5
    np.testing.assert_allclose(draws.var(axis=0), kernel.variance(3), rtol=0.1)


@pytest.mark.parametrize("name", SMOOTHING_KERNELS)
def test_same_seed_same_draws(name):
    kernel = SMOOTHING_KERNELS[name]
    assert np.array_equal(kernel.sample(50, 2, 3), kernel.sample(50, 2, 3))


@pytest.mark.parametrize("d", [1, 2, 3, 10, 400])
def test_gaussian_constant(d):
    """(2π)^(D/2), not √(2π)."""
    assert Gaussian().log_normaliser(d) == pytest.approx(d / 2 * np.log(2 * np.pi), rel=1e-13)


@pytest.mark.parametrize("name", RADIAL)
def test_constant_in_high_dimension_is_finite(name):
    kernel = RADIAL[name]
    assert np.isfinite(kernel.log_normaliser(5000))
    assert kernel.variance(5000) > 0


@pytest.mark.parametrize("d", [1, 2, 7, 60])
def test_cosine_series_against_quadrature(d):
    nodes, weights = np.polynomial.legendre.leggauss(200)
    r = (nodes + 1) / 2
    integral = (weights / 2 * r ** (d - 1) * np.cos(np.pi * r / 2)).sum()
    found = SMOOTHING_KERNELS["cosine"].log_radial_integral(d)
    assert np.exp(found) == pytest.approx(integral, rel=1e-11)


def test_boundary_of_the_cube_counts():
    kernel = SMOOTHING_KERNELS["hypercube"]
    h, x = 0.1, np.array([[1.05], [0.95], [1.051]])
    counted = np.exp(kernel.log_pairs(x / h, np.array([[1.0]]) / h))
    np.testing.assert_array_equal(counted[:, 0], [1, 1, 0])


def test_large_offset_does_not_matter():
    rng = np.random.default_rng(0)
    U, V = rng.integers(-8, 8, (5, 6)) / 8, rng.integers(-8, 8, (7, 6)) / 8
    kernel = SMOOTHING_KERNELS["gaussian"]
    np.testing.assert_allclose(
        kernel.log_pairs(U + 2.0**20, V + 2.0**20), kernel.log_pairs(U, V), rtol=1e-9
    )


# Functions of the user's


def gaussian_function(u):
    d = u.shape[-1]
    return np.exp(-0.5 * (u**2).sum(axis=-1)) / (2 * np.pi) ** (d / 2)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_function_equals_the_named_kernel(d):
    rng = np.random.default_rng(d)
    U, V = rng.normal(size=(4, d)), rng.normal(size=(6, d))
    kernel = smoothing_kernel(gaussian_function, d)
    np.testing.assert_allclose(
        kernel.log_pairs(U, V), SMOOTHING_KERNELS["gaussian"].log_pairs(U, V), rtol=1e-10
    )


@pytest.mark.parametrize("width", [0.03, 1.0, 30.0])
def test_function_of_another_width_is_accepted(width):
    kernel = FunctionKernel(lambda u: gaussian_function(u / width) / width**2, 2)
    at_zero = kernel.log_pairs(np.zeros((1, 2)), np.zeros((1, 2)))
    np.testing.assert_allclose(at_zero, -np.log(2 * np.pi * width**2))


@pytest.mark.parametrize("d", [1, 3])
def test_draws_from_a_function(d):
    kernel = smoothing_kernel(gaussian_function, d)
    draws = kernel.sample(3000, d, random_state=0)
    assert draws.shape == (3000, d)
    assert np.array_equal(draws, kernel.sample(3000, d, random_state=0))
    for column in draws.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3


@pytest.mark.parametrize(
    ("function", "d", "message"),
    [
        (lambda u: np.exp(-(u[..., 0] ** 2)), 1, "integrates to 1.7"),
        # The slip in the notes: √(2π) where (2π)^(D/2) belongs.
        (lambda u: np.exp(-0.5 * (u**2).sum(-1)) / np.sqrt(2 * np.pi), 2, "integrates to 2"),
        (lambda u: np.ones(u.shape[:-1]), 1, "no finite integral"),
        (lambda u: np.zeros(u.shape[:-1]), 6, "no finite integral"),
        (lambda u: np.exp(-(u[..., 0] ** 2)), 5, "no finite integral"),
        (lambda u: gaussian_function(u) * (2 - u[..., 0] ** 2), 1, "never negative"),
        (lambda u: u, 2, "returned shape"),
        (lambda u: np.full(u.shape[:-1], np.nan), 2, "NaN"),
    ],
)
def test_function_that_is_no_density_is_refused(function, d, message):
    with pytest.raises(ValueError, match=message):
        smoothing_kernel(function, d)


def test_function_that_cannot_be_checked_warns():
    def cube(u):
        return 1.0 * np.all(np.abs(u) <= 0.5, axis=-1)

    with pytest.warns(UserWarning, match="could not be checked"):
        smoothing_kernel(cube, 40)


def test_draws_that_would_take_forever_are_given_up():
    kernel = FunctionKernel(gaussian_function, 1)
    kernel.log_bound = 60.0
    with pytest.raises(ValueError, match="proposals"):
        kernel.sample(1, 1, 0)


def test_names_and_types():
    assert smoothing_kernel("linear", 2) is SMOOTHING_KERNELS["linear"]
    assert smoothing_kernel(Gaussian(), 2).radial
    with pytest.raises(ValueError, match="not a smoothing kernel"):
        smoothing_kernel("rbf", 2)
    with pytest.raises(TypeError, match="is a int"):
        smoothing_kernel(3, 2)
    with pytest.raises(TypeError, match="Mercer kernel"):
        smoothing_kernel(K.RBF(), 2)


@pytest.mark.parametrize("name", SMOOTHING_KERNELS)
def test_pickles(name):
    kernel = pickle.loads(pickle.dumps(SMOOTHING_KERNELS[name]))
    assert density(kernel, [[0.1, 0.2]]) == density(SMOOTHING_KERNELS[name], [[0.1, 0.2]])


# Joint densities of the user's


@pytest.mark.parametrize("sigma", [1e-3, 1.0, 1e3])
def test_joint_marginal_of_the_notes(sigma):
    """f = exp(-x²/2σ²) exp(-t²/2σ²) has g = √(2πσ²) exp(-x²/2σ²)."""
    joint = JointDensity(lambda u, s: np.exp(-(u[..., 0] ** 2 + s**2) / (2 * sigma**2)))
    x = sigma * np.linspace(-3, 3, 7)[:, None]
    found = joint.log_pairs(x, np.zeros((1, 1)))[:, 0]
    expected = 0.5 * np.log(2 * np.pi * sigma**2) - x[:, 0] ** 2 / (2 * sigma**2)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_joint_moments_of_a_skew_law_with_zero_mean():
    """s + 1 ~ Exp(1): mean 0, variance 1; heavier quadrature since f jumps at -1."""
    joint = JointDensity(lambda u, s: np.where(s > -1, np.exp(-np.maximum(s, -1) - 1), 0))
    u = np.zeros((1, 1))
    assert joint.moment(u, 0)[0] == pytest.approx(1, abs=0.1)
    assert joint.moment(u, 2)[0] == pytest.approx(1, abs=0.1)


def test_joint_with_a_mean_in_t_is_refused():
    joint = JointDensity(lambda u, s: np.exp(-0.5 * (u[..., 0] ** 2 + (s - 0.5) ** 2)))
    with pytest.raises(ValueError, match="mean in t that is not zero"):
        joint.check_centred(np.zeros((1, 1)))


def test_joint_without_mass_is_refused():
    joint = JointDensity(lambda u, s: 0 * s)
    with pytest.raises(ValueError, match="finite positive"):
        joint.log_pairs(np.zeros((1, 1)), np.zeros((1, 1)))
