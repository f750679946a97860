"""Normalised kernels: a diagonal of ones, no value above one, and what exponents may lose."""

from __future__ import annotations

import os
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_kernels
from mercer import kernels as K

LENGTH = int(os.environ.get("MERCER_TEST_LENGTH", "1"))
EPS = np.finfo(float).eps


def exact_gram(exponent, X, Z):
    """exp(k(x,z) - k(x,x)/2 - k(z,z)/2) with k in rational numbers and exp to 50 digits."""

    def entry(x, z):
        D = exponent(x, z) - exponent(x, x) / 2 - exponent(z, z) / 2
        with localcontext() as context:
            context.prec = 50
            return float((Decimal(D.numerator) / Decimal(D.denominator)).exp())

    X, Z = ([list(map(Fraction, row)) for row in A.tolist()] for A in (X, Z))
    return np.array([[entry(x, z) for z in Z] for x in X])


def dot(x, z):
    return sum((a * b for a, b in zip(x, z, strict=True)), Fraction(0))


# A kernel, and the same in rational numbers.
EXPONENTS = {
    "power": (K.Polynomial(4), lambda x, z: (dot(x, z) + 1) ** 4),
    "odd power": (
        K.Polynomial(3, 0.5, 0.25),
        lambda x, z: (dot(x, z) / 2 + Fraction(1, 4)) ** 3,
    ),
    "product": (K.Polynomial(2) * K.Linear(), lambda x, z: (dot(x, z) + 1) ** 2 * dot(x, z)),
    "nested": (
        (K.Linear() ** 2 + K.Linear() + 3) ** 2,
        lambda x, z: (dot(x, z) ** 2 + dot(x, z) + 3) ** 2,
    ),
}


@pytest.mark.usefixtures("any_level")
@pytest.mark.parametrize("size", [1e-3, 1.0, 35.0, 90.0, 400.0])
@pytest.mark.parametrize("name", EXPONENTS)
@pytest.mark.parametrize("d", [2, 7])
def test_exponents_of_any_size_lose_few_digits(name, size, d):
    """The error is about eps √k(x,x), where k(x,z) - k(x,x)/2 - k(z,z)/2 would lose eps k(x,x)."""
    kernel, exponent = EXPONENTS[name]
    rng = np.random.default_rng(0)
    X = size * rng.normal(size=(5, d))
    # Points so close to those of X that the kernel is neither one nor zero.
    norms = np.sum(X * X, axis=1)
    slope = np.sqrt(kernel.diag(2 * X) * norms) / (1 + norms)
    Z = X + rng.normal(size=X.shape) / (1 + slope[:, None])
    found, expected = K.exp(kernel).normalize()(X, Z), exact_gram(exponent, X, Z)
    if size >= 1:
        assert 0.001 < np.diagonal(expected).max() < 0.9999
    largest = max(kernel.diag(X).max(), kernel.diag(Z).max())
    np.testing.assert_allclose(found, expected, atol=20 * EPS * (1 + np.sqrt(largest)))
    assert found.max() <= 1


@pytest.mark.usefixtures("any_level")
@pytest.mark.parametrize(
    "kernel",
    [
        K.exp(K.Polynomial(4)),
        K.exp(0.139 * K.Conjunction()),
        K.exp(K.Min() ** 2 + 2.5),
        K.exp(K.exp(0.1 * K.Cosine()) * K.Linear()),
        2.7 * K.exp(K.Polynomial(2)),
        K.exp(0.3 * K.Polynomial(3) + K.RBF(0.4) + K.Linear() + 1.0),
        K.exp(K.Linear()) * K.exp(0.7 * K.Linear() ** 3) * K.RBF(),
        K.exp(K.Polynomial(2)) ** 3,
        K.exp(K.Linear()).normalize() ** 2,
        K.exp(K.Linear() ** 2).rescale(K.exp(0.3 * K.sqnorm)),
        K.exp(K.Polynomial(2)).rescale(lambda X: 2.0 + np.abs(X[:, 0])),
        K.exp(K.Linear().rescale(lambda X: 2.0 + np.abs(X[:, 0]))),
    ],
    ids=repr,
)
@pytest.mark.parametrize("size", [1e-3, 0.7, 35.0, 400.0])
@pytest.mark.parametrize("d", [2, 6])
def test_equal_points_have_the_value_one(kernel, size, d):
    rng = np.random.default_rng(1)
    X = size * np.abs(rng.normal(size=(7, d)))
    X[5] = X[1]
    normal = kernel.normalize()
    Gram = normal(X)
    np.testing.assert_array_equal(np.diagonal(Gram), 1.0)
    np.testing.assert_array_equal(normal.diag(X), 1.0)
    assert Gram[1, 5] == 1.0
    np.testing.assert_array_equal(np.diagonal(normal(X, X.copy())), 1.0)
    np.testing.assert_array_equal(np.diagonal(normal(X, np.asfortranarray(X))), 1.0)
    assert Gram.max() <= 1.0


def test_the_reported_cases():
    X = np.array([[300.0, 90], [330, 99], [370.35, 233.31]])
    np.testing.assert_array_equal(K.exp(K.Polynomial(4)).normalize()(X), np.eye(3))
    opposed = K.exp(K.Polynomial(4, coef0=0.0)).normalize()(np.vstack([X, -X]))
    assert opposed.max() == 1.0
    far = 40 * np.random.default_rng(0).normal(size=(20, 8))
    np.testing.assert_array_equal(K.exp(0.139 * K.Conjunction()).normalize()(far), np.eye(20))


def test_float32_and_sparse_points_have_ones_as_well():
    X = (35 * np.random.default_rng(2).normal(size=(9, 6))).astype(np.float32)
    kernel = K.exp(K.Polynomial(3)).normalize()
    for points in (X, sp.csr_array(X), sp.csr_array(X.astype(float))):
        np.testing.assert_array_equal(np.diagonal(kernel(points)), 1.0)
    np.testing.assert_array_equal(np.diagonal(kernel(X, X.astype(float))), 1.0)


def test_a_sum_with_exponentials_is_normalised_without_overflow():
    rng = np.random.default_rng(3)
    for size in (0.3, 1.0, 50.0):
        X = size * rng.normal(size=(6, 3))
        kernel = K.exp(K.Polynomial(2)) + 3.0 * K.Linear() * K.exp(K.Linear()) + K.RBF() + 2.0
        Gram = kernel.normalize()(X)
        np.testing.assert_allclose(np.diagonal(Gram), 1.0, rtol=1e-14)
        np.testing.assert_allclose(kernel.normalize().diag(X), 1.0, rtol=1e-14)
        assert np.abs(Gram).max() <= 1 + 4 * EPS
        if size < 1:
            K_, d = kernel(X), kernel.diag(X)
            np.testing.assert_allclose(Gram, K_ / np.sqrt(np.outer(d, d)), rtol=1e-12)
        if size > 10:  # the largest exponent is all there is
            largest = K.exp(K.Polynomial(2)).normalize()(X)
            np.testing.assert_allclose(Gram, largest, atol=1e-12)


def test_a_product_is_normalised_factor_by_factor():
    X = 1e4 * np.random.default_rng(4).normal(size=(5, 3))
    kernel = 2.0 * K.Polynomial(50) * K.Polynomial(60) * K.exp(1e-12 * K.Linear() ** 2)
    np.testing.assert_allclose(np.diagonal(kernel.normalize()(X)), 1.0, rtol=1e-12)
    signs = K.Constant(1.0).rescale(lambda X: X[:, 0]).normalize()
    expected = np.outer(np.sign(X[:, 0]), np.sign(X[:, 0]))
    np.testing.assert_array_equal(signs(X), expected)


def test_parameters_that_cancel_have_a_derivative_of_zero():
    X = np.random.default_rng(5).normal(size=(4, 2))
    kernel = (3.0 * K.exp(2.0 + K.Polynomial(2, 0.5))).normalize()
    gradients = kernel.gradient(X)
    zero = [path for path, G in gradients.items() if np.abs(G).max() < 1e-14]
    assert zero == ["kernel__left__value", "kernel__right__kernel__left__value"]


@pytest.mark.parametrize("name", ["exp", "plain"])
def test_structured_kernels(name):
    rng = np.random.default_rng(6)
    for kernel in naive_kernels.all_cases():
        if kernel.domain.is_vectors or kernel.validity.status != "valid":
            continue
        X = naive_kernels.points(kernel, 6, rng)
        kernel = (K.exp(0.5 * kernel) if name == "exp" else kernel).normalize()
        Gram, diagonal = kernel(X), kernel.diag(X)
        np.testing.assert_allclose(np.diagonal(Gram), diagonal, rtol=1e-13)
        assert Gram.max() <= (1 if name == "exp" else 1 + 4 * EPS)


POSITIVE = st.floats(0.05, 3.0).map(lambda v: round(v, 3))
LEAVES = st.one_of(
    POSITIVE.map(lambda g: K.RBF(gamma=g)),
    POSITIVE.map(lambda g: K.Laplacian(gamma=g)),
    st.tuples(st.sampled_from([0.5, 1.5, 2.5]), POSITIVE).map(lambda a: K.Matern(*a)),
    POSITIVE.map(lambda a: K.RationalQuadratic(alpha=a)),
    POSITIVE.map(lambda p: K.Periodic(period=p + 0.5)),
    POSITIVE.map(K.Constant),
    st.sampled_from([K.Linear(), K.Cosine(), K.Conjunction(), K.Min(), K.Chi2()]),
    st.builds(K.Polynomial, st.integers(1, 4), POSITIVE, st.sampled_from([0.0, 0.5, 1.0])),
)


def first_feature(X):
    return 1.0 + np.abs(X[:, 0])


def combine(children):
    return st.one_of(
        st.tuples(children, children).map(lambda p: p[0] + p[1]),
        st.tuples(children, children).map(lambda p: p[0] * p[1]),
        st.tuples(POSITIVE, children).map(lambda p: p[0] * p[1]),
        st.tuples(children, st.integers(1, 3)).map(lambda p: p[0] ** p[1]),
        children.map(lambda k: k.rescale(first_feature)),
    )


EXPONENT = st.recursive(LEAVES, combine, max_leaves=3)
KERNELS = st.recursive(
    LEAVES | st.just(K.Tanimoto()) | EXPONENT.map(K.exp),
    lambda children: combine(children) | children.map(lambda k: k.normalize()),
    max_leaves=3,
)


@settings(max_examples=200 * LENGTH, deadline=None, derandomize=True)
@given(KERNELS, st.floats(-3, 4), st.integers(1, 6), st.integers(0, 2**16))
def test_the_diagonal_of_a_normalised_kernel_is_one(kernel, size, d, seed):
    X = 10.0**size * (0.1 + np.abs(np.random.default_rng(seed).normal(size=(6, d))))
    X[4] = X[2]
    normal = kernel.normalize()
    Gram, diagonal = normal(X), normal.diag(X)
    tolerance = 0 if isinstance(kernel, K.Exp) else 1e-12
    np.testing.assert_allclose(np.diagonal(Gram), 1.0, rtol=tolerance)
    np.testing.assert_allclose(diagonal, 1.0, rtol=tolerance)
    np.testing.assert_allclose(Gram[2, 4], 1.0, rtol=tolerance)
    assert np.abs(Gram).max() <= 1 + tolerance
