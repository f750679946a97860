"""Row 18. Nadaraya–Watson regression, derived from a joint Parzen density: lecture 19.

Put a component density f around each pair (x_n, t_n), with zero mean in t. The mean of t given x is
then Σ k(x, x_n) t_n with k(x, x_n) = g(x - x_n) / Σ_m g(x - x_m) and g the integral of f over t.
The weights sum to one; with one point the answer is t_1 everywhere; with Gaussians of one width the
g are Gaussians.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid

import mercer


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, size=25))
    return x[:, None], np.sin(x) + 0.1 * rng.normal(size=25)


def gaussian_example(x, X, t, sigma):
    g = np.array([np.exp(-((x - xn) ** 2) / (2 * sigma**2)) for xn in X[:, 0]])
    return sum(g / g.sum() * t)


@pytest.mark.parametrize("sigma", [0.2, 0.5, 2.0])
def test_the_gaussian_example(sigma, data):
    X, t = data
    model = mercer.NadarayaWatsonRegressor(bandwidth=sigma).fit(X, t)
    queries = np.linspace(-1, 7, 33)
    by_hand = [gaussian_example(x, X, t, sigma) for x in queries]
    np.testing.assert_allclose(model.predict(queries[:, None]), by_hand, rtol=1e-9)


@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_it_is_the_conditional_mean_of_the_joint_parzen_density(sigma, data):
    X, t = data
    grid = np.linspace(-12, 12, 4801)

    def joint(x):
        """p(x, t) on the grid of t, as a mean of components."""
        parts = [
            np.exp(-((x - xn) ** 2) / (2 * sigma**2)) * np.exp(-((grid - tn) ** 2) / (2 * sigma**2))
            for xn, tn in zip(X[:, 0], t, strict=True)
        ]
        return np.mean(parts, axis=0)

    model = mercer.NadarayaWatsonRegressor(bandwidth=sigma, target_bandwidth=sigma).fit(X, t)
    for x in (0.5, 2.0, 6.5):
        p = joint(x)
        conditional = p / trapezoid(p, grid)
        mean = trapezoid(grid * conditional, grid)
        spread = np.sqrt(trapezoid((grid - mean) ** 2 * conditional, grid))
        predicted, std = model.predict([[x]], return_std=True)
        assert predicted[0] == pytest.approx(mean, rel=1e-8)
        assert std[0] == pytest.approx(spread, rel=1e-7)
        np.testing.assert_allclose(
            model.conditional_density([[x]], grid)[0], conditional, rtol=1e-7, atol=1e-12
        )


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "hypercube", "exponential"])
def test_weights_sum_to_one_and_make_the_prediction(kernel, data):
    X, t = data
    model = mercer.NadarayaWatsonRegressor(bandwidth=0.7, kernel=kernel).fit(X, t)
    queries = np.linspace(-3, 9, 50)[:, None]  # also where no compact kernel reaches a point
    W = model.weights(queries)
    assert W.shape == (50, 25)
    assert W.min() >= 0
    np.testing.assert_allclose(W.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(W @ t, model.predict(queries), rtol=1e-10)


@pytest.mark.parametrize("kernel", ["gaussian", "tophat"])
def test_one_point_gives_its_target_everywhere(kernel):
    model = mercer.NadarayaWatsonRegressor(bandwidth=0.5, kernel=kernel).fit([[2.0]], [7.0])
    queries = [[-100.0], [1.9], [2.0], [1e6]]
    np.testing.assert_array_equal(model.predict(queries), 7.0)
    np.testing.assert_array_equal(model.weights(queries), 1.0)


def test_near_points_count_for_more():
    X, t = np.array([[0.0], [1.0], [5.0]]), np.array([0.0, 1.0, 2.0])
    w = mercer.NadarayaWatsonRegressor(bandwidth=1.0).fit(X, t).weights([[0.2]])[0]
    assert w[0] > w[1] > w[2]


def test_a_joint_density_of_ones_own(data):
    X, t = data

    def f(u, s):
        """Not a product: the spread in t grows with the distance in x, its mean stays zero."""
        width = 0.3 + u[..., 0] ** 2
        return np.exp(-np.abs(u[..., 0]) - 0.5 * (s / width) ** 2)

    model = mercer.NadarayaWatsonRegressor(joint=f, bandwidth=1.0, target_bandwidth=1.0).fit(X, t)
    grid = np.linspace(-400, 400, 160_001)
    for x in (1.0, 3.3):
        u = (x - X[:, 0])[:, None]
        g = np.array([trapezoid(f(np.full((len(grid), 1), v), grid), grid) for v in u[:, 0]])
        weights = g / g.sum()
        np.testing.assert_allclose(model.weights([[x]])[0], weights, rtol=1e-6)
        assert model.predict([[x]])[0] == pytest.approx(weights @ t, rel=1e-6)
        # By hand from the joint: ∫ t p(x, t) dt / ∫ p(x, t) dt.
        p = np.mean(
            [f(np.broadcast_to(v, (len(grid), 1)), grid - tn) for v, tn in zip(u, t, strict=True)],
            axis=0,
        )
        assert model.predict([[x]])[0] == pytest.approx(
            trapezoid(grid * p, grid) / trapezoid(p, grid), rel=1e-4
        )
        some = np.linspace(-3, 3, 7)
        density = model.conditional_density([[x]], some)[0]
        expected = np.interp(some, grid, p / trapezoid(p, grid))
        np.testing.assert_allclose(density, expected, rtol=1e-3)


def test_a_joint_density_with_a_mean_in_t_is_refused(data):
    X, t = data

    def off_centre(u, s):
        return np.exp(-0.5 * u[..., 0] ** 2 - 0.5 * (s - 1.0) ** 2)

    with pytest.raises(ValueError, match="mean"):
        mercer.NadarayaWatsonRegressor(joint=off_centre, bandwidth=1.0, target_bandwidth=1.0).fit(
            X, t
        )


def test_the_product_gaussian_as_a_joint_density_is_the_gaussian_kernel(data):
    X, t = data

    def f(u, s):
        return np.exp(-0.5 * (u**2).sum(axis=-1) - 0.5 * s**2)

    own = mercer.NadarayaWatsonRegressor(joint=f, bandwidth=0.5, target_bandwidth=0.3).fit(X, t)
    named = mercer.NadarayaWatsonRegressor(bandwidth=0.5, target_bandwidth=0.3).fit(X, t)
    queries = np.linspace(0, 6, 9)[:, None]
    np.testing.assert_allclose(own.predict(queries), named.predict(queries), rtol=1e-9)
    np.testing.assert_allclose(
        own.conditional_density(queries, [0.0, 0.5]),
        named.conditional_density(queries, [0.0, 0.5]),
        rtol=1e-8,
        atol=1e-12,
    )


def test_for_classes_the_weights_of_each_class_are_its_probability(data):
    X, t = data
    labels = np.where(t > 0, "up", "down")
    model = mercer.NadarayaWatsonClassifier(bandwidth=0.5).fit(X, labels)
    queries = np.linspace(-1, 7, 11)[:, None]
    W = model.weights(queries)
    by_hand = np.column_stack([W[:, labels == c].sum(axis=1) for c in ("down", "up")])
    np.testing.assert_allclose(model.predict_proba(queries), by_hand, rtol=1e-10, atol=1e-14)
