"""Row 23. The general kernels with their widths, and functions of a difference or a distance.

Notes 004 (Kernels) list linear, polynomial (1 + x·z)^d, RBF exp(-‖x-z‖²/σ²), exponential
exp(-‖x-z‖/2σ²), Laplacian exp(-|x-z|/σ) and sigmoid tanh(a x·z + c). Chapter 16 (Shalev-Shwartz and
Ben-David) writes the Gaussian exp(-‖x-x'‖²/2σ), and lecture 19 exp(-‖x-x'‖²/2σ²). Lecture 19 calls
k(x - x') invariant under translation, and k(‖x - x'‖) homogeneous.
"""

from __future__ import annotations

import numpy as np
import pytest

from mercer import kernels as K


@pytest.fixture
def points() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, 3)), rng.normal(size=(5, 3))


def euclid(x, z):
    return np.sqrt(sum((x - z) ** 2))


def city(x, z):
    return sum(abs(x - z))


def table(sigma):
    return {
        "linear": (K.Linear(), lambda x, z: sum(x * z)),
        "polynomial": (K.Polynomial(4), lambda x, z: (1 + sum(x * z)) ** 4),
        "rbf, notes 004": (
            K.RBF.from_sigma(sigma, "squared"),
            lambda x, z: np.exp(-(euclid(x, z) ** 2) / sigma**2),
        ),
        "rbf, chapter 16": (
            K.RBF.from_sigma(sigma, "variance"),
            lambda x, z: np.exp(-(euclid(x, z) ** 2) / (2 * sigma)),
        ),
        "rbf, lecture 19": (
            K.RBF.from_sigma(sigma, "gaussian"),
            lambda x, z: np.exp(-(euclid(x, z) ** 2) / (2 * sigma**2)),
        ),
        "exponential": (
            K.Exponential.from_sigma(sigma),
            lambda x, z: np.exp(-euclid(x, z) / (2 * sigma**2)),
        ),
        "laplacian": (K.Laplacian.from_sigma(sigma), lambda x, z: np.exp(-city(x, z) / sigma)),
        "sigmoid": (
            K.Sigmoid(gamma=sigma, coef0=0.2),
            lambda x, z: np.tanh(sigma * sum(x * z) + 0.2),
        ),
    }


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("name", table(1.0))
def test_formula_of_each_kernel_in_each_convention(name, sigma, points):
    kernel, formula = table(sigma)[name]
    X, Z = points
    by_hand = np.array([[formula(x, z) for z in Z] for x in X])
    np.testing.assert_allclose(kernel(X, Z), by_hand, rtol=1e-11, atol=1e-14)


def test_the_three_gaussian_conventions_differ_by_known_factors():
    sigma = 3.0
    gammas = {c: K.RBF.from_sigma(sigma, c).gamma for c in ("gaussian", "variance", "squared")}
    assert gammas["squared"] == pytest.approx(2 * gammas["gaussian"])
    assert gammas["variance"] == pytest.approx(sigma * gammas["gaussian"])
    assert K.RBF.from_sigma(sigma).gamma == gammas["gaussian"]


def test_unknown_convention_and_width_are_refused():
    with pytest.raises(ValueError, match="convention"):
        K.RBF.from_sigma(1.0, "whatever")
    with pytest.raises(ValueError, match="sigma"):
        K.Laplacian.from_sigma(0.0)


KERNELS = [
    K.Linear(),
    K.Polynomial(2),
    K.Sigmoid(coef0=1.0),
    K.Conjunction(),
    K.Cosine(),
    K.RBF(0.5),
    K.RBF(0.5, scales=[1.0, 2.0, 4.0]),
    K.Exponential(0.5),
    K.Laplacian(0.5),
    K.Matern(nu=2.5),
    K.RationalQuadratic(alpha=1.5, length_scale=2.0),
    K.Periodic(period=3.0),
    K.RBF(0.5) + K.Matern(nu=0.5),
    K.RBF(0.5) + K.Laplacian(1.0),  # of two different distances
    K.RBF(0.5) * K.Linear(),
    2.0 * K.RBF(0.5) ** 2,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_stationary_kernels_are_those_that_do_not_change_under_translation(kernel, points):
    X, Z = points
    shift = np.array([0.7, -1.3, 2.1])
    moved = np.allclose(kernel(X + shift, Z + shift), kernel(X, Z), rtol=1e-9, atol=1e-12)
    assert kernel.is_stationary == moved


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_isotropic_kernels_depend_on_a_distance_alone(kernel):
    # Pairs at one distance, Euclidean or city-block, in many directions and places.
    rng = np.random.default_rng(1)
    starts = rng.normal(size=(30, 3))
    steps = rng.normal(size=(30, 3))

    def constant_at_one_distance(p):
        unit = steps / np.linalg.norm(steps, ord=p, axis=1, keepdims=True)
        values = np.array(
            [kernel(s[None], (s + u)[None])[0, 0] for s, u in zip(starts, unit, strict=True)]
        )
        return np.allclose(values, values[0], rtol=1e-9, atol=1e-12)

    assert kernel.is_isotropic == (constant_at_one_distance(2) or constant_at_one_distance(1))


def test_isotropic_kernels_are_stationary():
    assert all(kernel.is_stationary for kernel in KERNELS if kernel.is_isotropic)


def test_linear_kernel_has_the_identity_as_its_map(points):
    X, _ = points
    np.testing.assert_array_equal(K.Linear().feature_map().fit_transform(X), X)
