"""Several quantiles at once: they never cross, and lose no more than those fitted one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import d2_pinball_score, mean_pinball_loss
from sklearn.model_selection import cross_val_score

from mercer import kernels as K
from mercer.estimators.machines.regression import KernelMachineRegressor
from mercer.solvers.result import Status

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def noisy(n=200, seed=0):
    """A sine whose spread grows, where quantiles fitted one by one cross."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 6, size=n))
    return x[:, None], np.sin(x) + (0.1 + 0.2 * x) * rng.standard_t(4, size=n)


def fitted(X, y, quantile, **settings):
    settings = {"kernel": K.RBF(2.0), "alpha": 0.02} | settings
    return KernelMachineRegressor("quantile", quantile=quantile, **settings).fit(X, y)


@pytest.mark.parametrize("settings", [{}, {"n_centers": 40, "random_state": 0}])
@pytest.mark.parametrize("seed", range(3))
def test_quantiles_never_cross_and_are_about_as_good(seed, settings):
    X, y = noisy(seed=seed)
    new, truth = noisy(n=2000, seed=seed + 100)
    together = fitted(X, y, LEVELS, **settings)
    assert together.result_.status is Status.CONVERGED
    alone = np.column_stack([fitted(X, y, level, **settings).predict(new) for level in LEVELS])
    # The condition matters here: without it they cross.
    assert np.diff(alone, axis=1).min() < 0
    raw = together.kernel_(X, together.X_fit_) @ together.dual_coef_ + together.intercept_
    assert np.diff(raw, axis=1).min() > -1e-7
    grid = np.linspace(-3, 9, 1000)[:, None]
    for points in (X, new, grid):
        assert np.diff(together.predict(points), axis=1).min() >= 0
    ours, theirs = (
        np.mean([mean_pinball_loss(truth, f, alpha=q) for q, f in zip(LEVELS, F.T, strict=True)])
        for F in (together.predict(new), alone)
    )
    assert ours <= 1.01 * theirs


def test_where_they_do_not_cross_they_are_those_fitted_alone():
    X, y = noisy()
    # No level times 200 is a whole number, so that no bias is as good as another.
    levels = [0.123, 0.507, 0.877]
    together = fitted(X, y, levels, alpha=20.0, tol=1e-10)
    alone = [fitted(X, y, level, alpha=20.0, tol=1e-10) for level in levels]
    predictions = np.column_stack([one.predict(X) for one in alone])
    assert np.diff(predictions, axis=1).min() > 0
    assert_allclose(together.predict(X), predictions, atol=1e-3)


def test_levels_are_put_in_order_and_a_list_of_one_has_a_column():
    X, y = noisy(n=40)
    model = fitted(X, y, [0.9, 0.1])
    assert_array_equal(model.quantiles_, [0.1, 0.9])
    assert_allclose(model.predict(X), fitted(X, y, [0.1, 0.9]).predict(X), atol=1e-9)
    one = fitted(X, y, [0.3])
    assert one.predict(X).shape == (40, 1)
    assert_allclose(one.predict(X)[:, 0], fitted(X, y, 0.3).predict(X), atol=1e-5)


def test_weights_count_points():
    X, y = noisy(n=60)
    weight = np.arange(60) % 3
    again = np.repeat(np.arange(60), weight)
    one = KernelMachineRegressor("quantile", quantile=[0.2, 0.8], gamma=1.0, alpha=0.1, tol=1e-10)
    many = clone(one).fit(X[again], y[again])
    one.fit(X, y, sample_weight=weight)
    assert_allclose(one.predict(X), many.predict(X), atol=1e-3)


def test_the_score_is_the_mean_share_of_pinball_loss_explained():
    X, y = noisy(n=100)
    model = fitted(X, y, [0.2, 0.8])
    by_hand = [
        d2_pinball_score(y, f, alpha=q) for q, f in zip([0.2, 0.8], model.predict(X).T, strict=True)
    ]
    assert_allclose(model.score(X, y), np.mean(by_hand))
    assert np.all(np.isfinite(cross_val_score(model, X, y, cv=3)))


@pytest.mark.parametrize("quantile", [[], [0.0, 0.5], [0.5, 0.5], [[0.1], [0.2]], [0.5, np.nan]])
def test_wrong_levels_are_named(quantile):
    X, y = noisy(n=10)
    with pytest.raises(ValueError, match="quantile"):
        fitted(X, y, quantile)


@settings(max_examples=25, deadline=None)
@example(seed=25, n=1, exponent=0, alpha=1.0, ties=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 25),
    exponent=st.integers(-8, 8),
    alpha=st.floats(1e-6, 1e6),
    ties=st.booleans(),
)
def test_they_never_cross_whatever_the_data(seed, n, exponent, alpha, ties):
    rng = np.random.default_rng(seed)
    X = rng.integers(3, size=(n, 1)).astype(float) if ties else rng.normal(size=(n, 1))
    y = np.round(rng.normal(size=n), 1 if ties else 8) * 10.0**exponent
    model = KernelMachineRegressor("quantile", quantile=[0.1, 0.5, 0.6], alpha=alpha, tol=1e-3)
    F = model.fit(X, y).predict(np.linspace(-5, 5, 50)[:, None])
    assert np.all(np.isfinite(F))
    assert np.diff(F, axis=1).min() >= 0
    assert model.result_.gap <= 1e-3
