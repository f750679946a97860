"""The algebra: random kernel expressions, their proofs, counterexamples, maps and gradients."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mercer import SVC, KernelRidge
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


def grow(children):
    return st.one_of(
        st.tuples(children, children).map(lambda p: p[0] + p[1]),
        st.tuples(children, children).map(lambda p: p[0] - p[1]),
        st.tuples(children, children).map(lambda p: p[0] * p[1]),
        st.tuples(FACTORS, children).map(lambda p: p[0] * p[1]),
        st.tuples(children, FACTORS).map(lambda p: p[0] + p[1]),
        st.tuples(children, st.integers(0, 3)).map(lambda p: p[0] ** p[1]),
        children.map(lambda k: k.normalize()),
        children.map(lambda k: K.exp(0.1 * k.normalize())),
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


@pytest.mark.parametrize(
    "kernel",
    [
        K.RBF(0.7, scales=[0.5, 2.0, 1.0]),
        K.Exponential(0.7, scales=[0.5, 2.0, 1.0]),
        K.Laplacian(0.7, scales=[0.5, 2.0, 1.0]),
        K.Matern(2.5, 1.2, scales=[0.5, 2.0, 1.0]),
        K.RationalQuadratic(0.6, 1.2, scales=[0.5, 2.0, 1.0]),
        K.Periodic(2.1, 0.9, scales=[0.5, 2.0, 1.0]),
        2.0 * K.RBF(0.3, scales=[0.5, 2.0, 1.0]) * K.Polynomial(2) + K.Linear(),
    ],
    ids=repr,
)
def test_gradients_with_respect_to_scales(kernel):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    gradients = kernel.gradient(X, Y)
    path = next(p for p in gradients if p.endswith("scales"))
    assert gradients[path].shape == (5, 4, 3)
    value = np.asarray(kernel.get_params()[path], dtype=float)
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        moved = clone(kernel)
        up = moved.set_params(**{path: value + step})(X, Y)
        down = moved.set_params(**{path: value - step})(X, Y)
        np.testing.assert_allclose(gradients[path][:, :, j], (up - down) / 2e-6, atol=1e-7)
    same = kernel.gradient(X)[path]
    np.testing.assert_allclose(same, kernel.gradient(X, X)[path], atol=1e-12)


FINITE = [
    K.Linear() + K.Polynomial(2),
    K.Linear() * K.Polynomial(2, coef0=0.0),
    (K.Linear() + 2.0) ** 3,
    3.0 * K.Conjunction() + 1.0,
    (K.Polynomial(2) + K.Conjunction()).normalize(),
    K.Polynomial(2).rescale(lambda X: np.asarray(X)[:, 0] + 2),
    K.Polynomial(2).rescale(K.exp(-0.1 * K.sqnorm)),
    K.Linear().compose(lambda X: np.hstack([X, X**2])),
    K.Polynomial(2).on([0, 2]) + K.Linear().on([1]),
]


@pytest.mark.parametrize("kernel", FINITE, ids=repr)
def test_feature_maps_travel_through_the_algebra(kernel):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    phi = kernel.feature_map().fit(X)
    assert phi.transform(X).shape == (6, phi.n_features_out_)
    np.testing.assert_allclose(phi.transform(X) @ phi.transform(Y).T, kernel(X, Y), rtol=1e-10)


@pytest.mark.parametrize(
    "kernel", [K.RBF() + K.Linear(), K.exp(K.Linear()), K.RBF() ** 2], ids=repr
)
def test_no_finite_map_is_said(kernel):
    with pytest.raises(K.NoFiniteFeatureMap, match="approximate_map"):
        kernel.feature_map()


def test_numbers_combine_from_either_side():
    X = np.random.default_rng(0).normal(size=(4, 2))
    k, base = K.RBF(0.5), K.RBF(0.5)(X)
    cases = [
        (k + 2, base + 2),
        (2 + k, base + 2),
        (k - 0.5, base - 0.5),
        (1 - k, 1 - base),
        (3 * k, 3 * base),
        (k * 3, 3 * base),
        (np.float64(3) * k, 3 * base),
        (-k, -base),
        (sum([k, k, k]), 3 * base),
        (k**2, base**2),
        (k**0.5, base**0.5),
    ]
    for kernel, expected in cases:
        assert isinstance(kernel, K.Kernel)
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-13)
    with pytest.raises(TypeError, match="cannot be combined with"):
        k + "linear"
    with pytest.raises(TypeError, match="cannot be combined with"):
        k * [1.0]


def test_like_terms_are_collected():
    validity = (2 * K.RBF() - K.RBF()).validity
    assert validity.status == "valid"
    assert "like terms" in validity.proof.rule
    assert (K.RBF() - 2 * K.RBF()).validity.status == "indefinite"
    assert (K.Polynomial(2, coef0=0.0) - K.Polynomial(2, coef0=0.0)).validity.status == "valid"
    assert (-1.0 * (-2.0 * K.Linear())).validity.status == "valid"


def test_non_integer_powers_need_infinite_divisibility():
    assert (K.RBF() ** 0.5).validity.status == "valid"
    assert ((2 * K.RBF() * K.Laplacian()) ** 0.3).validity.status == "valid"
    assert (K.exp(K.Linear()) ** 0.3).validity.status == "valid"
    for kernel in (K.Linear() ** 0.5, (K.RBF() + K.Laplacian()) ** 0.5):
        with pytest.raises(ValueError, match="infinitely divisible"):
            _ = kernel.validity


def test_facts_worth_getting_right():
    assert K.Conjunction().validity.status == "valid"
    assert K.Conjunction().domain is K.Linear().domain
    assert K.Tanimoto().validity.status == "valid"
    assert str(K.Min().domain) == str(K.Chi2().domain) == "non-negative vectors"
    assert K.Polynomial(2, coef0=-0.5).validity.status == "indefinite"
    assert K.Polynomial(0, coef0=-1.0).validity.status == "valid"
    assert len(K.Sigmoid(coef0=1.0).validity.counterexample.points) == 2


@pytest.mark.parametrize("gamma", [1e-3, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("coef0", [-2.0, 0.0, 0.5, 1.0, 3.9, 4.1, 20.0, 500.0])
def test_tanh_is_never_a_kernel(gamma, coef0):
    kernel = K.Sigmoid(gamma, coef0)
    found = kernel.validity.counterexample
    assert len(found.points) <= 3
    assert np.linalg.eigvalsh(kernel(found.points))[0] == pytest.approx(found.eigenvalue)
    assert found.eigenvalue < -1e-5


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("coef0", [-1e-3, -1.0, -40.0])
def test_polynomial_with_negative_coef0_is_not_a_kernel(degree, coef0):
    assert K.Polynomial(degree, 0.7, coef0).validity.status == "indefinite"


def test_domains_meet_or_refuse():
    assert str((K.RBF() + K.Min()).domain) == "non-negative vectors"
    with pytest.raises(TypeError, match=r"k\.on\(columns\)"):
        K.RBF() + K.Spectrum(3)
    with pytest.raises(TypeError, match="Precomputed"):
        K.RBF() + K.Precomputed()
    with pytest.raises(TypeError, match="Precomputed"):
        2 * K.Precomputed()


def test_tables_mix_text_and_numbers():
    frame = pd.DataFrame(
        {"dna": ["ACGT", "ACCA", "TTGA"], "a": [0.1, 0.5, 2.0], "b": [1.0, 0.0, 1.0]}
    )
    kernel = 0.5 * K.Spectrum(2).normalize().on("dna") + K.RBF(0.3).on(["a", "b"])
    expected = 0.5 * K.Spectrum(2).normalize()(frame["dna"]) + K.RBF(0.3)(frame[["a", "b"]])
    np.testing.assert_allclose(kernel(frame), expected)
    np.testing.assert_allclose(kernel(frame, frame[:2]), expected[:, :2])
    by_position = 0.5 * K.Spectrum(2).normalize().on(0) + K.RBF(0.3).on([1, 2])
    np.testing.assert_allclose(by_position(frame.to_numpy(dtype=object)), expected)
    assert kernel.validity.status == "valid"
    assert K.parse(repr(kernel)).key() == kernel.key()
    with pytest.raises(ValueError, match="no column 'rna'"):
        K.Spectrum(2).on("rna")(frame)
    with pytest.raises(TypeError, match="without names"):
        K.RBF().on(["a"])(frame[["a"]].to_numpy())


def test_a_table_and_its_numbers_meet():
    X = np.random.default_rng(0).normal(size=(5, 3))
    kernel = K.RBF() + K.Linear().on([0])
    expected = K.RBF()(X) + X[:, :1] @ X[:, :1].T
    np.testing.assert_allclose(kernel(X), expected)
    np.testing.assert_allclose((K.Linear().on([0]) + K.RBF())(pd.DataFrame(X)), expected)
    assert kernel.validity.status == "valid"
    with pytest.raises(ValueError, match="negative"):
        (K.Min() * K.Linear().on([0]))(X)
    with pytest.raises(TypeError, match=r"k\.on\(columns\)"):
        K.Spectrum(2) + K.Linear().on([0])


@pytest.mark.parametrize(
    "kernel",
    [
        K.Sigmoid(coef0=500.0).on([3, 0]),
        K.Sigmoid(coef0=1.0).on(["b", "a", "c"]),
        K.Polynomial(3, coef0=-1.0).on(2),
        K.Polynomial(3, coef0=-1.0).on([-1]),
        (K.Min() - 2 * K.Min()).on(["a"]),
        K.RBF().on([0]) - 2 * K.RBF().on([2]),
        K.RBF().on(["a"]) - 2 * K.RBF().on(["b", "c"]),
        K.RBF(scales=[1.0] * 6) - 2 * K.Linear().on([0]),
    ],
    ids=repr,
)
def test_counterexamples_on_columns_are_tables(kernel):
    found = kernel.validity.counterexample
    assert np.linalg.eigvalsh(kernel(found.points))[0] == pytest.approx(found.eigenvalue)


@pytest.mark.parametrize(
    "kernel",
    [
        (1 + K.Linear() - K.Conjunction()).on([0]),  # nothing at all in one dimension
        K.Spectrum(2).on(0) - K.Spectrum(2).normalize().on(0),
    ],
    ids=repr,
)
def test_columns_without_a_counterexample_are_not_refuted(kernel):
    assert kernel.validity.status == "unknown"


@pytest.mark.parametrize("columns", [[5], [-10], 5, -4, ["a", 7]], ids=repr)
def test_columns_that_are_not_there_are_named(columns):
    frame = pd.DataFrame(np.ones((2, 3)), columns=["a", "b", "c"])
    wide = pd.DataFrame(np.ones((2, 12)), columns=list("abcdefghijkl"))
    with pytest.raises(ValueError, match="Y has no column"):
        K.RBF().on(columns)(wide, frame)
    if columns != ["a", 7]:
        with pytest.raises(ValueError, match="X has no column"):
            K.RBF().on(columns)(frame.to_numpy())


def test_columns_by_name_and_position_together():
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=["a", "b", "c"])
    np.testing.assert_allclose(K.Linear().on(["c", 0])(frame), K.Linear().on([2, 0])(frame))
    text = np.array([["x", 1.0]], dtype=object)
    with pytest.raises(ValueError, match=r"^X"):
        K.Linear().on([0])(text)


@pytest.mark.parametrize("columns", [[1.5], [True, False], True, 1.0, [None], None, [], {"a"}])
def test_columns_are_names_or_positions(columns):
    with pytest.raises(TypeError, match=r"on\(columns\) takes"):
        K.RBF().on(columns)(np.ones((2, 3)))


def test_rescaling_sees_the_points_the_kernel_sees():
    gaussian = K.exp(1.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm))
    whole = np.array([[200], [199]])
    np.testing.assert_allclose(gaussian(whole), K.RBF(0.5)(whole))
    np.testing.assert_allclose(gaussian([[1e8], [1e8 + 1]])[0, 1], np.exp(-0.5))
    rescaled = K.Linear().rescale(K.exp(-0.01 * K.sqnorm))
    phi = rescaled.feature_map().fit(whole)
    np.testing.assert_allclose(phi.transform(whole) @ phi.transform(whole).T, rescaled(whole))


def test_small_coefficients_are_kept():
    x = [[1.0]]
    for kernel, expected in (
        (K.Polynomial(2, gamma=1e-9), (1 + 1e-9) ** 2),
        (1e-9 * K.Linear() + 1, 1 + 1e-9),
        (K.exp(1e-9 * K.Linear() + 1), np.exp(1 + 1e-9)),
    ):
        np.testing.assert_allclose(kernel(x), expected, rtol=1e-15)


def test_traits():
    scaled = K.RBF(scales=[1.0, 2.0])
    assert K.RBF().is_stationary
    assert K.RBF().is_isotropic
    assert scaled.is_stationary
    assert not scaled.is_isotropic
    assert (K.RBF() * K.Matern() + 1).is_isotropic
    assert K.Periodic().is_stationary
    assert not K.Periodic().is_isotropic
    assert not (K.RBF() + K.Linear()).is_stationary
    assert not K.RBF().compose(np.abs).is_stationary


def test_exponentials_fuse_and_do_not_overflow():
    g = 0.3
    X = np.random.default_rng(0).normal(size=(8, 5)) * 100
    gaussian = K.exp(2 * g * K.Linear()).rescale(K.exp(-g * K.sqnorm))
    np.testing.assert_allclose(gaussian(X), K.RBF(g)(X), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(K.exp(K.Linear()).normalize()(X), K.RBF(0.5)(X), rtol=1e-9)


def test_normalisation_is_zero_where_the_diagonal_is():
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(K.Linear().normalize()(X), [[0.0, 0.0], [0.0, 1.0]], rtol=1e-15)


def test_parameters_reach_inside_and_mutate():
    kernel = K.RBF(1.0) * K.Polynomial(2) + 3.0 * K.Linear()
    kernel.set_params(left__left__gamma=0.25, right__left__value=7.0)
    assert kernel.left.left.gamma == 0.25
    assert repr(kernel).endswith("+ 7.0 * Linear()")
    twin = clone(kernel).set_params(left__left__gamma=9.0)
    assert kernel.left.left.gamma == 0.25
    assert twin.left.left.gamma == 9.0


def test_functions_are_said_not_to_be_writable():
    for kernel in (K.RBF().compose(np.sin), K.RBF().rescale(np.ravel), K.FromFeatures(np.sin)):
        with pytest.raises(K.KernelSyntaxError, match="function"):
            K.parse(repr(kernel))


def test_functions_of_the_wrong_shape_are_named():
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match="rescale returned shape"):
        K.RBF().rescale(lambda X: X)(X)
    with pytest.raises(ValueError, match="compose returned 1 points for 3"):
        K.RBF().compose(lambda X: X[:1])(X)
    with pytest.raises(TypeError, match="rescale needs a function"):
        K.RBF().rescale(3)(X)


def test_an_estimator_shows_its_kernel_as_it_is_written():
    kernel = K.RBF(10.0) + 0.1 * K.Linear()
    assert repr(SVC(kernel=kernel)) == "SVC(kernel=RBF(gamma=10.0) + 0.1 * Linear())"
    assert repr(KernelRidge(alpha=0.1, kernel=kernel.normalize() ** 2)) == (
        "KernelRidge(alpha=0.1,\n"
        "            kernel=(RBF(gamma=10.0) + 0.1 * Linear()).normalize() ** 2)"
    )
    assert "0.1 * Linear()" in SVC(kernel=kernel)._repr_html_()
    with sklearn.config_context(print_changed_only=False):
        assert f"kernel={kernel!r}" in repr(SVC(kernel=kernel))


def test_division_by_a_number_scales():
    X = np.eye(3)
    np.testing.assert_allclose((K.RBF() / 4)(X), K.RBF()(X) / 4)
    assert repr(K.RBF() / 2) == "0.5 * RBF(gamma=1.0)"
    for bad in (0, K.Linear(), "2", True):
        with pytest.raises(TypeError, match="cannot be divided by"):
            K.RBF() / bad
    with pytest.raises(TypeError):
        2 / K.RBF()
