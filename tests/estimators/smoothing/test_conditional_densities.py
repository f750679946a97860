"""The density of targets around a smoother, joint densities, and functions as kernels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score

from mercer.estimators.smoothing.smoothers import NadarayaWatsonRegressor
from smoother_examples import REGRESSORS, slow_kernel, waves


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "triweight"])
@pytest.mark.parametrize("estimator", REGRESSORS)
def test_conditional_density_has_the_mean_and_spread_of_predict(estimator, kernel):
    X, y = waves(50, 1)
    model = estimator(kernel=kernel, bandwidth=0.6).fit(X, y)
    t = np.linspace(-8, 8, 16001)
    Z = [[0.3], [-1.5]]
    p = model.conditional_density(Z, t)
    assert p.shape == (2, len(t))
    mean, std = model.predict(Z, return_std=True)
    step = t[1] - t[0]
    np.testing.assert_allclose(p.sum(axis=1) * step, 1, rtol=1e-3)
    np.testing.assert_allclose(p @ t * step, mean, atol=1e-3)
    np.testing.assert_allclose(np.sqrt(p @ t**2 * step - mean**2), std, rtol=1e-2)


def test_conditional_density_is_the_joint_over_the_marginal():
    X, y = waves(30, 1)
    h, ht, z, t = 0.5, 0.2, np.array([[0.1]]), np.array([0.0, 0.7])
    f = (
        slow_kernel(X, z, h)
        * np.exp(-((t[:, None] - y) ** 2) / (2 * ht**2))
        / np.sqrt(2 * np.pi * ht**2)
    )
    expected = f.sum(axis=1) / slow_kernel(X, z, h).sum()
    model = NadarayaWatsonRegressor(bandwidth=h, target_bandwidth=ht).fit(X, y)
    np.testing.assert_allclose(model.conditional_density(z, t)[0], expected)


def test_conditional_density_of_two_outputs():
    X, y = waves(30, 1)
    model = NadarayaWatsonRegressor(bandwidth=0.5).fit(X, np.column_stack([y, -y]))
    grid = np.linspace(-4, 4, 81)
    T = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    total = model.conditional_density([[0.0]], T).sum() * (grid[1] - grid[0]) ** 2
    assert total == pytest.approx(1, abs=1e-3)
    with pytest.raises(ValueError, match="this model has 2"):
        model.conditional_density([[0.0]], grid)


def test_conditional_density_needs_targets_that_vary():
    model = NadarayaWatsonRegressor().fit(waves(9)[0], np.full(9, 0.1))
    assert model.predict([[0.0, 0.0]], return_std=True)[1] == pytest.approx(0, abs=1e-15)
    with pytest.raises(ValueError, match="target_bandwidth"):
        model.conditional_density([[0.0, 0.0]], [0.1])


# A joint density of the user's


def notes_joint(u, s):
    """Unnormalised and of unit width, as in the notes' example."""
    return np.exp(-0.5 * (u**2).sum(axis=-1)) * np.exp(-0.5 * s**2)


def test_joint_of_the_notes_equals_the_gaussian_kernel():
    (X, y), (Z, _) = waves(25, 2), waves(6, 2, seed=1)
    named = NadarayaWatsonRegressor(bandwidth=0.7, target_bandwidth=0.3).fit(X, y)
    joint = NadarayaWatsonRegressor(bandwidth=0.7, target_bandwidth=0.3, joint=notes_joint)
    joint.fit(X, y)
    np.testing.assert_allclose(joint.weights(Z), named.weights(Z), atol=1e-10)
    for a, b in zip(joint.predict(Z, True), named.predict(Z, True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    t = np.linspace(-2, 2, 5)
    np.testing.assert_allclose(
        joint.conditional_density(Z, t), named.conditional_density(Z, t), rtol=1e-7, atol=1e-12
    )


def test_joint_that_is_no_product():
    """t given x spreads with |x|: p(t | x) is the ratio of sums of f and of g."""

    def f(u, s):
        width = 1 + u[..., 0] ** 2
        return np.exp(-0.5 * u[..., 0] ** 2 - 0.5 * (s / width) ** 2)

    x, t = np.array([[0.0], [1.5]]), np.array([1.0, -2.0])
    model = NadarayaWatsonRegressor(bandwidth=1.0, target_bandwidth=1.0, joint=f).fit(x, t)
    u = 0.5 - x[:, 0]
    g = np.exp(-0.5 * u**2) * (1 + u**2)
    assert model.predict([[0.5]])[0] == pytest.approx(g @ t / g.sum())
    grid = np.linspace(-60, 60, 24001)
    p = model.conditional_density([[0.5]], grid)[0]
    expected = f(np.full((1, 1), u[0]), 0.3 - t[0]) + f(np.full((1, 1), u[1]), 0.3 - t[1])
    np.testing.assert_allclose(
        model.conditional_density([[0.5]], [0.3])[0], expected / (np.sqrt(2 * np.pi) * g.sum())
    )
    step = grid[1] - grid[0]
    mean, std = model.predict([[0.5]], return_std=True)
    assert p.sum() * step == pytest.approx(1, rel=1e-6)
    assert np.sqrt(p @ grid**2 * step - mean[0] ** 2) == pytest.approx(std[0], rel=1e-6)


def test_joint_out_of_reach_and_with_search():
    def box(u, s):
        return 1.0 * (np.abs(u[..., 0]) < 1) * np.exp(-np.abs(s))

    X, y = waves(20, 1)
    model = NadarayaWatsonRegressor(joint=box).fit(X, y)
    assert r2_score(y, model.loo_predictions_) > 0.5
    assert model.predict([[1e6]])[0] == y[np.argmax(X[:, 0])]
    t = np.linspace(-40, 40, 4001)
    p = model.conditional_density([[1e6]], t)
    assert p.sum() * (t[1] - t[0]) == pytest.approx(1, rel=0.02)


def test_joint_is_checked():
    X, y = waves(10, 1)

    def shifted(u, s):
        return notes_joint(u, s - 0.4)

    with pytest.raises(ValueError, match="zero mean in t"):
        NadarayaWatsonRegressor(bandwidth=1.0, joint=shifted).fit(X, y)
    with pytest.raises(ValueError, match="leave kernel out"):
        NadarayaWatsonRegressor(joint=notes_joint, kernel="tophat").fit(X, y)
    with pytest.raises(ValueError, match="2 outputs"):
        NadarayaWatsonRegressor(joint=notes_joint).fit(X, np.column_stack([y, y]))


def test_function_as_kernel():
    (X, y), (Z, _) = waves(30, 1), waves(5, 1, seed=1)

    def normal(u):
        return np.exp(-0.5 * u[..., 0] ** 2) / np.sqrt(2 * np.pi)

    for estimator in REGRESSORS:
        ours = estimator(kernel=normal, bandwidth=0.5).fit(X, y)
        named = estimator(bandwidth=0.5).fit(X, y)
        np.testing.assert_allclose(ours.predict(Z), named.predict(Z), rtol=1e-9)
        np.testing.assert_allclose(
            ours.conditional_density(Z, [0.2]), named.conditional_density(Z, [0.2]), rtol=1e-9
        )
