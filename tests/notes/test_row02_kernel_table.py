"""Row 2. The table of kernels, and the function that is not one.

From notes 000 (Kakade, CSE 446): quadratic, cubic and degree-p kernels (1 + x·v)^p, the radial
basis function, all conjunctions of binary features, and tanh(1 + x·v), which is listed as not a
kernel. From lecture 19 and the regression lecture: the homogeneous kernels (u·v)^d, with the
three-dimensional map (x1², √2 x1 x2, x2²) when d = 2 and the points have two coordinates.
"""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest

import mercer
from mercer import kernels as K


@pytest.fixture
def points() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(9, 3)), rng.normal(size=(6, 3))


def pair_by_pair(f, X, V) -> np.ndarray:
    return np.array([[f(x, v) for v in V] for x in X])


TABLE = {
    "quadratic": (K.Polynomial(2), lambda x, v: (1 + sum(x * v)) ** 2),
    "cubic": (K.Polynomial(3), lambda x, v: (1 + sum(x * v)) ** 3),
    "degree 5": (K.Polynomial(5), lambda x, v: (1 + sum(x * v)) ** 5),
    "homogeneous, degree 4": (K.Polynomial(4, coef0=0), lambda x, v: sum(x * v) ** 4),
    "radial basis function": (K.RBF(0.7), lambda x, v: np.exp(-0.7 * sum((x - v) ** 2))),
    "hyperbolic tangent": (K.Sigmoid(coef0=1), lambda x, v: np.tanh(1 + sum(x * v))),
    "all conjunctions": (K.Conjunction(), lambda x, v: prod(1 + x * v)),
}


@pytest.mark.parametrize("name", TABLE)
def test_each_kernel_of_the_table_against_its_formula(name, points):
    kernel, formula = TABLE[name]
    X, V = points
    expected = pair_by_pair(formula, X, V)
    np.testing.assert_allclose(kernel(X, V), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(X), np.diag(pair_by_pair(formula, X, X)), rtol=1e-12)


@pytest.mark.parametrize("name", [n for n in TABLE if n != "hyperbolic tangent"])
def test_all_but_tanh_are_proved_valid_and_their_grams_agree(name, points):
    kernel, _ = TABLE[name]
    X, V = points
    assert kernel.validity.status == "valid"
    assert kernel.validity.proof is not None
    eigenvalues = np.linalg.eigvalsh(kernel(np.vstack([X, V])))
    assert eigenvalues[0] > -1e-12 * eigenvalues[-1]


def test_tanh_is_not_a_kernel_and_two_points_show_it():
    validity = K.Sigmoid(coef0=1).validity
    assert validity.status == "indefinite"
    assert validity.proof is None
    found = validity.counterexample
    by_hand = pair_by_pair(lambda x, v: np.tanh(1 + sum(x * v)), found.points, found.points)
    np.testing.assert_allclose(found.gram, by_hand, rtol=1e-14)
    assert np.linalg.eigvalsh(by_hand)[0] == pytest.approx(found.eigenvalue)
    assert found.eigenvalue < -1e-3
    assert len(found.points) == 2
    assert mercer.check_kernel(K.Sigmoid(coef0=1)).valid is False


@pytest.mark.parametrize("coef0", [-3.0, 0.0, 0.5, 1.0, 3.9, 10.0])
@pytest.mark.parametrize("gamma", [0.01, 1.0, 50.0])
def test_no_tanh_with_positive_slope_is_a_kernel(gamma, coef0):
    found = K.Sigmoid(gamma=gamma, coef0=coef0).validity.counterexample
    G = pair_by_pair(lambda x, v: np.tanh(gamma * sum(x * v) + coef0), found.points, found.points)
    assert np.linalg.eigvalsh(G)[0] < 0


def test_homogeneous_quadratic_kernel_in_the_plane_has_the_root_two_map():
    X = np.random.default_rng(2).normal(size=(10, 2))
    by_hand = np.column_stack([X[:, 0] ** 2, np.sqrt(2) * X[:, 0] * X[:, 1], X[:, 1] ** 2])
    kernel = K.Polynomial(degree=2, coef0=0)
    np.testing.assert_allclose(by_hand @ by_hand.T, kernel(X), rtol=1e-12)
    np.testing.assert_allclose(kernel.feature_map().fit_transform(X), by_hand, rtol=1e-12)


@pytest.mark.parametrize("binary", [True, False])
def test_all_conjunctions_equal_the_explicit_map_of_every_subset(binary):
    rng = np.random.default_rng(3)
    d = 6
    X = rng.integers(0, 2, size=(8, d)).astype(float) if binary else rng.normal(size=(8, d))
    subsets = [s for r in range(d + 1) for s in combinations(range(d), r)]
    Phi = np.array([[prod(x[j] for j in s) for s in subsets] for x in X])
    assert Phi.shape[1] == 2**d
    np.testing.assert_allclose(K.Conjunction()(X), Phi @ Phi.T, rtol=1e-11, atol=1e-12)
    F = K.Conjunction().feature_map().fit_transform(X)
    assert F.shape == Phi.shape
    np.testing.assert_allclose(F @ F.T, Phi @ Phi.T, rtol=1e-11, atol=1e-12)


def test_on_binary_features_it_counts_the_conjunctions_true_of_both():
    rng = np.random.default_rng(4)
    X = rng.integers(0, 2, size=(7, 5))

    def true_conjunctions(x):
        return {s for r in range(6) for s in combinations(range(5), r) if all(x[j] for j in s)}

    by_hand = pair_by_pair(lambda x, v: len(true_conjunctions(x) & true_conjunctions(v)), X, X)
    np.testing.assert_array_equal(K.Conjunction()(X.astype(float)), by_hand)
