"""Points near the ends of the range of floating point numbers, and far from the origin."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import kernels as K
from mercer.estimators import KernelRidge


def exact_tanimoto(X):
    def entry(x, z):
        x, z = (list(map(Fraction, p)) for p in (x, z))
        xz, xx, zz = (
            sum(a * b for a, b in zip(p, q, strict=True)) for p, q in ((x, z), (x, x), (z, z))
        )
        return float(xz / (xx + zz - xz)) if xx + zz else 1.0

    rows = np.asarray(X, dtype=float).tolist()
    return np.array([[entry(x, z) for z in rows] for x in rows])


@pytest.mark.usefixtures("any_level")
@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e-160, 1.0, 1e150, 1e160, 1e300])
def test_tanimoto_of_points_whose_squares_have_no_number(size):
    X = size * np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 0.0], [1.0, -1.0], [3.0, 0.5]])
    for points in (X, sp.csr_array(X), np.asfortranarray(X)):
        np.testing.assert_allclose(K.Tanimoto()(points), exact_tanimoto(X), rtol=1e-14)
        np.testing.assert_array_equal(K.Tanimoto().diag(points), 1.0)


@pytest.mark.usefixtures("any_level")
def test_tanimoto_of_points_of_all_sizes_together():
    rng = np.random.default_rng(0)
    X = np.vstack([10.0**e * rng.normal(size=(2, 3)) for e in (-300, -170, -20, 0, 20, 160, 300)])
    np.testing.assert_allclose(K.Tanimoto()(X), exact_tanimoto(X), rtol=1e-13, atol=1e-307)
    single = np.vstack([10.0**e * rng.normal(size=(2, 3)) for e in (-40, -30, 0, 30, 37)])
    single = single.astype(np.float32)
    found = K.Tanimoto()(single)
    np.testing.assert_allclose(found, exact_tanimoto(single), rtol=2e-6, atol=1e-37)


def test_tanimoto_of_ordinary_points_sees_them_as_they_are():
    rng = np.random.default_rng(0)
    bits = rng.random((6, 70)) < 0.3
    ones = bits.astype(float)
    common = ones @ ones.T
    expected = common / (ones.sum(1)[:, None] + ones.sum(1) - common)
    np.testing.assert_array_equal(K.Tanimoto()(bits), expected)
    pairs = K.Tanimoto().over(ones)
    (leaf,) = pairs.lowering.leaves
    assert np.shares_memory(pairs.points(leaf.view, 0), ones)


def exact_periodic(X, Z, period, length_scale, scales):
    """With the phase reduced in rational numbers."""

    def entry(x, z):
        total = 0.0
        for a, b, s in zip(x, z, scales, strict=True):
            phase = (Fraction(a) - Fraction(b)) / (Fraction(period) * Fraction(s)) % 1
            total += math.sin(math.pi * float(phase)) ** 2
        return math.exp(-2 * total / length_scale**2)

    return np.array([[entry(x, z) for z in Z.tolist()] for x in X.tolist()])


@pytest.mark.usefixtures("any_level")
@pytest.mark.parametrize("offset", [0.0, 1e8, -3e12])
def test_periodic_points_far_from_the_origin_keep_their_digits(offset):
    rng = np.random.default_rng(0)
    X = offset + np.round(rng.normal(size=(6, 3)) * 1024) / 1024
    for scales in (None, [1.0, 1.0, 1.0], [0.7, 1.3, 2.9]):
        kernel = K.Periodic(1.3, 0.8, scales=scales)
        # Without scales the period is exact; with them it is rounded once.
        rtol = 1e-13 if scales is None else 1e-12
        expected = exact_periodic(X, X, 1.3, 0.8, scales or [1.0, 1.0, 1.0])
        np.testing.assert_allclose(kernel(X), expected, rtol=rtol)
    far = K.Periodic(1.3)(X, X - offset)
    expected = exact_periodic(X, X - offset, 1.3, 1.0, [1.0, 1.0, 1.0])
    np.testing.assert_allclose(far, expected, rtol=1e-13)


def gaussian(X):
    with np.errstate(under="ignore"):
        return np.exp(-0.5 * np.sum(np.square(X), axis=1))


def test_an_overflow_that_a_function_should_undo_is_an_error():
    kernel = K.exp(K.Linear()).rescale(gaussian)
    near, far = np.array([[1.0, 2.0], [0.5, 0.0]]), np.array([[30.0, 30.0], [40.0, 1.0]])
    np.testing.assert_allclose(kernel(near), K.RBF(0.5)(near), rtol=1e-14)
    with pytest.raises(ValueError, match=r"k\(x, x\) is not a number for row 0 of X.*overflow"):
        kernel(far)
    with pytest.raises(
        ValueError, match=r"k\(x, z\) is not a number for row 1 of X and row 0 of Y"
    ):
        kernel(np.vstack([near[:1], far]), far)
    with pytest.raises(ValueError, match="overflow"), np.errstate(all="ignore"):
        kernel.diag(far)
    with pytest.raises(ValueError, match="overflow"), np.errstate(all="ignore"):
        KernelRidge(kernel=kernel).fit(far, [1.0, 2.0])
    as_formula = K.exp(1.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm))
    np.testing.assert_allclose(as_formula(far), K.RBF(0.5)(far), rtol=1e-12)


def test_infinite_values_are_warned_of():
    points = np.array([[30.0, 1.0], [1.0, 2.0]])
    with pytest.warns(RuntimeWarning, match=r"k\(x, x\) is infinite for row 0 of X"):
        Gram = K.exp(K.Linear())(points)
    assert np.isinf(Gram[0, 0])
    with pytest.warns(RuntimeWarning, match=r"k\(x, z\) is infinite for row 0 of X and row 0 of Y"):
        K.exp(K.Linear())(points, points[:1])


LARGE = K.Constant(1e200)


@pytest.mark.parametrize(
    "kernel",
    [
        LARGE * LARGE,
        K.Constant(1e150) * K.Constant(1e150) * K.Constant(1e150),
        1e200 * (1e200 * K.Linear()),
        1e200 * K.RBF() * (1e200 * K.Linear()),
        K.Constant(1e308) + K.Constant(1e308),
        1e308 * K.RBF() + 1e308 * K.RBF(),
        LARGE**2,
        (1e200 * K.RBF()) ** 2,
        (LARGE + K.RBF()) ** 2,
        K.exp(K.Constant(1000.0)),
        K.exp(1000.0 * K.RBF()),
        LARGE.on([0]) * LARGE.on([1]),
    ],
    ids=repr,
)
def test_constants_that_overflow_together_are_no_valid_kernel(kernel):
    with pytest.raises(ValueError, match="beyond the range of float64"):
        _ = kernel.validity


def test_constants_that_do_not_overflow_together_are_fine():
    for kernel in (1e200 * K.RBF() + 1e307 * K.Linear(), K.exp(700.0 * K.RBF()), LARGE * 1e100):
        assert kernel.validity.status == "valid"


def test_whole_numbers_beyond_float64_are_refused():
    huge = 10**400
    for refused in (
        lambda: K.Constant(huge).validity,
        lambda: K.Polynomial(huge).validity,
        lambda: (K.Linear() ** huge).validity,
        lambda: K.RBF(scales=[huge]).validity,
        lambda: huge * K.RBF(),
        lambda: K.RBF() / huge,
        lambda: KernelRidge(alpha=huge).fit([[0.0], [1.0]], [0.0, 1.0]),
    ):
        with pytest.raises(ValueError, match=r"beyond|positive, finite"):
            refused()
