"""Random kernel expressions: their proofs, counterexamples, texts, values and gradients."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mercer import kernels as K

POSITIVE = st.floats(0.05, 3.0).map(lambda v: round(v, 3))
LEAVES = st.one_of(
    POSITIVE.map(lambda g: K.RBF(gamma=g)),
    POSITIVE.map(lambda g: K.Laplacian(gamma=g)),
    POSITIVE.map(lambda g: K.Exponential(gamma=g)),
    st.tuples(st.sampled_from([0.5, 1.5, 2.5]), POSITIVE).map(lambda a: K.Matern(*a)),
    POSITIVE.map(lambda a: K.RationalQuadratic(alpha=a)),
    POSITIVE.map(lambda p: K.Periodic(period=p + 0.5)),
    st.just(K.Linear()),
    st.just(K.Cosine()),
    st.just(K.Tanimoto()),
    st.just(K.Conjunction()),
    st.builds(
        K.Polynomial,
        st.integers(1, 3),
        POSITIVE,
        st.floats(-1.0, 2.0).map(lambda v: round(v, 3)),
    ),
    st.builds(K.Sigmoid, POSITIVE, st.floats(-1.0, 2.0).map(lambda v: round(v, 3))),
)
FACTORS = st.floats(-2.0, 3.0).map(lambda v: round(v, 3))


def is_not_zero(kernel):
    """Whether it can be normalised: the zero kernel is refused."""
    try:
        kernel.normalize().expression()
    except ValueError as error:
        if "is zero everywhere" in str(error):
            return False
        raise
    return True


def grow(children):
    some = children.filter(is_not_zero)
    return st.one_of(
        st.tuples(children, children).map(lambda p: p[0] + p[1]),
        st.tuples(children, children).map(lambda p: p[0] - p[1]),
        st.tuples(children, children).map(lambda p: p[0] * p[1]),
        st.tuples(FACTORS, children).map(lambda p: p[0] * p[1]),
        st.tuples(children, FACTORS).map(lambda p: p[0] + p[1]),
        st.tuples(children, st.integers(0, 3)).map(lambda p: p[0] ** p[1]),
        some.map(lambda k: k.normalize()),
        some.map(lambda k: K.exp(0.1 * k.normalize())),
    )


KERNELS = st.recursive(LEAVES, grow, max_leaves=5)
# `make test-all` tries many times more random kernels.
LENGTH = int(os.environ.get("MERCER_TEST_LENGTH", "1"))
common = settings(
    max_examples=150 * LENGTH,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)


def gram_of(kernel, X):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kernel(X)


@common
@given(KERNELS, st.integers(0, 2**16), st.integers(1, 4))
def test_a_proof_is_never_contradicted_by_an_eigenvalue(kernel, seed, d):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, d)) * 2.0 ** rng.integers(-2, 3)
    validity = kernel.validity
    if validity.status == "valid":
        assert str(kernel) in str(validity.proof)
        if not well_conditioned(kernel):
            return
        eigenvalues = np.linalg.eigvalsh(gram_of(kernel, X))
        if eigenvalues[0] < -1e-10 * eigenvalues[-1]:  # what is left where terms cancel
            assert eigenvalues[0] >= -1e-13 * np.nanmax(size_of_terms(kernel, X, X))
    elif validity.status == "indefinite":
        found = validity.counterexample
        Gram = gram_of(kernel, found.points)
        smallest = np.linalg.eigvalsh(Gram)[0]
        assert smallest == pytest.approx(found.eigenvalue, rel=1e-6)
        assert smallest < -1e-8 * np.max(np.abs(Gram))
    else:
        assert validity.proof is None
        assert validity.reason


@common
@given(KERNELS)
def test_text_reads_back_to_the_same_kernel(kernel):
    again = K.parse(repr(kernel))
    assert again.key() == kernel.key()
    assert repr(again) == repr(kernel)


@common
@given(KERNELS, st.integers(0, 2**16))
def test_one_pass_equals_the_parts(kernel, seed):
    """The fused expression equals the same algebra done on Gram matrices."""
    X = np.random.default_rng(seed).normal(size=(6, 3))
    Y = np.random.default_rng(seed + 1).normal(size=(4, 3))
    assume(well_conditioned(kernel))
    fused = defined(kernel, X, Y)
    with np.errstate(all="ignore"):
        by_parts = naive(kernel, X, Y)
        scale = np.nanmax(size_of_terms(kernel, X, Y))
    np.testing.assert_allclose(fused, by_parts, rtol=1e-8, atol=1e-10 * scale)


def size_of_terms(kernel, X, Y):
    """What the parts of a kernel are at most: where they cancel, their rounding is left."""
    match kernel:
        case K.Sum():
            return size_of_terms(kernel.left, X, Y) + size_of_terms(kernel.right, X, Y)
        case K.Product():
            return size_of_terms(kernel.left, X, Y) * size_of_terms(kernel.right, X, Y)
        case K.Power() if kernel.exponent:
            return size_of_terms(kernel.kernel, X, Y) ** kernel.exponent
        case K.Exp():
            return np.exp(size_of_terms(kernel.kernel, X, Y))
    return np.abs(kernel(X, Y))


def well_conditioned(kernel):
    """Whether nothing but a valid kernel is normalised: a diagonal of cancelled terms is noise."""
    if isinstance(kernel, K.Normalized):
        inner = kernel.kernel.validity
        if inner.status != "valid" or "like terms" in str(inner):
            return False
    parts = kernel.get_params(deep=False).values()
    return all(well_conditioned(p) for p in parts if isinstance(p, K.Kernel))


def defined(kernel, X, Y):
    """The Gram, or no test at all where a negative k(x, x) cannot be normalised."""
    try:
        with np.errstate(all="ignore"):
            return kernel(X, Y)
    except ValueError as error:
        assume("normalised" not in str(error))
        raise


def naive(kernel, X, Y):
    match kernel:
        case K.Sum():
            return naive(kernel.left, X, Y) + naive(kernel.right, X, Y)
        case K.Product():
            return naive(kernel.left, X, Y) * naive(kernel.right, X, Y)
        case K.Power():
            return naive(kernel.kernel, X, Y) ** kernel.exponent
        case K.Exp():
            return np.exp(naive(kernel.kernel, X, Y))
        case K.Normalized():
            inner = kernel.kernel
            x = np.array([naive(inner, x[None], x[None])[0, 0] for x in X])
            y = np.array([naive(inner, y[None], y[None])[0, 0] for y in Y])
            with np.errstate(all="ignore"):
                f, g = (np.where(d == 0, 0.0, d**-0.5) for d in (x, y))
            return naive(inner, X, Y) * f[:, None] * g
    return kernel(X, Y)


@settings(max_examples=60 * LENGTH, deadline=None, derandomize=True)
@given(KERNELS, st.integers(0, 2**16))
def test_gradients_match_finite_differences(kernel, seed):
    X = np.random.default_rng(seed).normal(size=(4, 2))
    Y = np.random.default_rng(seed + 1).normal(size=(3, 2))
    assume(well_conditioned(kernel))
    values = defined(kernel, X, Y)
    with np.errstate(all="ignore"):
        gradients = kernel.gradient(X, Y)
        for path, gradient in gradients.items():
            central = finite_difference(kernel, path, X, Y)
            wild = ~np.isfinite(central) | ~np.isfinite(gradient)
            scale = np.max(np.abs(np.where(wild, 0, central))) + np.nanmax(np.abs(values)) + 1
            np.testing.assert_allclose(
                np.where(wild, 0, gradient),
                np.where(wild, 0, central),
                rtol=1e-4,
                atol=1e-5 * scale,
            )


def finite_difference(kernel, path, X, Y, h=1e-5):
    """The slope from four points, with an error of order h⁴."""
    moved = clone(kernel)
    value = kernel.get_params()[path]

    def at(step):
        return defined(moved.set_params(**{path: value + step}), X, Y)

    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
