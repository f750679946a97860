"""Row 8. Polynomial and Gaussian kernels, and the Gaussian's infinite feature map.

Chapter 16 (Shalev-Shwartz and Ben-David), examples 16.1 and 16.2: the kernel (1 + x·x')^k is the
inner product over all index tuples J in {0..n}^k of the products x_J, and on the real line the
features exp(-x²/2) xⁿ/√n!, for n = 0, 1, 2, ..., have the Gaussian as their inner product. The map
is infinite; cut off at an order it converges. Notes 004 (Kernels) add that the infinite map cannot
be computed but that a good approximation of low dimension exists: random Fourier features.
"""

from __future__ import annotations

from itertools import product
from math import factorial, prod

import numpy as np
import pytest

from mercer import kernels as K


def test_polynomial_kernel_is_the_inner_product_over_all_index_tuples():
    X = np.random.default_rng(0).normal(size=(6, 3))
    with_one = np.hstack([np.ones((6, 1)), X])
    for k in (1, 2, 3):
        tuples = list(product(range(4), repeat=k))
        Psi = np.array([[prod(x[j] for j in J) for J in tuples] for x in with_one])
        assert Psi.shape[1] == 4**k
        np.testing.assert_allclose(K.Polynomial(k)(X), Psi @ Psi.T, rtol=1e-12, atol=1e-13)
        F = K.Polynomial(k).feature_map().fit_transform(X)
        np.testing.assert_allclose(F @ F.T, Psi @ Psi.T, rtol=1e-12, atol=1e-13)


def test_a_halfspace_over_the_map_is_any_polynomial_of_that_degree():
    X = np.random.default_rng(1).normal(size=(40, 2))
    target = 3 - X[:, 0] + 2 * X[:, 0] * X[:, 1] ** 2 - X[:, 1] ** 3
    F = K.Polynomial(3).feature_map().fit_transform(X)
    w, *_ = np.linalg.lstsq(F, target, rcond=None)
    np.testing.assert_allclose(F @ w, target, atol=1e-10)


def test_gaussian_refuses_a_finite_map():
    with pytest.raises(K.NoFiniteFeatureMap):
        K.RBF(0.5).feature_map()


def test_truncated_map_on_the_line_is_the_textbooks():
    x = np.linspace(-2, 2, 9)
    order = 7
    by_hand = np.array(
        [[np.exp(-(t**2) / 2) * t**n / np.sqrt(factorial(n)) for n in range(order + 1)] for t in x]
    )
    F = K.RBF(0.5).truncated_map(order).fit_transform(x[:, None])
    np.testing.assert_allclose(F, by_hand, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("gamma", [0.3, 0.5, 1.1])
def test_truncated_map_converges_within_the_remainder_of_the_series(d, gamma):
    X = np.random.default_rng(d).uniform(-1, 1, size=(15, d))
    exact = K.RBF(gamma)(X)
    norms = np.exp(-gamma * (X**2).sum(axis=1))
    u = 2 * gamma * X @ X.T
    errors = []
    for order in range(12):
        F = K.RBF(gamma).truncated_map(order).fit_transform(X)
        partial = sum(u**q / factorial(q) for q in range(order + 1))
        np.testing.assert_allclose(F @ F.T, norms[:, None] * partial * norms, atol=1e-13)
        errors.append(np.abs(F @ F.T - exact).max())
        largest = np.abs(u).max()
        remainder = largest ** (order + 1) / factorial(order + 1) * np.exp(largest)
        assert errors[-1] <= remainder + 1e-14
    assert errors[-1] < 1e-4 * errors[0]


def test_truncated_map_reaches_rounding():
    X = np.random.default_rng(5).uniform(-1, 1, size=(10, 2))
    F = K.RBF(0.5).truncated_map(18).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, K.RBF(0.5)(X), atol=1e-14)


def test_random_fourier_features_converge_like_one_over_the_root():
    X = np.random.default_rng(6).normal(size=(30, 3))
    exact = K.RBF(0.4)(X)

    def mean_error(n_components):
        errors = []
        for seed in range(20):
            phi = K.RBF(0.4).approximate_map(n_components, method="fourier", random_state=seed)
            F = phi.fit_transform(X)
            assert F.shape == (30, n_components)
            errors.append(np.mean((F @ F.T - exact) ** 2))
        return np.sqrt(np.mean(errors))

    errors = {D: mean_error(D) for D in (40, 640, 10240)}
    # The mean of D/2 cosines, each of variance at most one half.
    for D, error in errors.items():
        assert error <= 1 / np.sqrt(D)
    assert errors[40] / errors[640] == pytest.approx(4, rel=0.25)
    assert errors[640] / errors[10240] == pytest.approx(4, rel=0.25)


def test_few_fourier_features_are_enough_for_a_ridge_fit():
    rng = np.random.default_rng(7)
    X = rng.uniform(-3, 3, size=(400, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1])
    exact = np.linalg.solve(K.RBF(0.5)(X) + 0.1 * np.eye(400), y)
    F = K.RBF(0.5).approximate_map(300, method="fourier", random_state=0).fit_transform(X)
    w = np.linalg.solve(F.T @ F + 0.1 * np.eye(300), F.T @ y)
    assert np.abs(F @ w - K.RBF(0.5)(X) @ exact).max() < 0.05
