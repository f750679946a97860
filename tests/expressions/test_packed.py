"""The short ways for plain points against the general ones, and against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import kernels as K
from mercer.expressions import PairMatrix, packed_points, small_gram
from mercer.kernels.domains import REALS
from mercer.kernels.vector_kernel import VectorKernel
from naive_kernels import CASES, NAIVE

KERNELS = [k for name in CASES if name in NAIVE for k in CASES[name] if isinstance(k, VectorKernel)]


def points(kernel, n, seed=0):
    scales = getattr(kernel, "scales", None)
    d = 3 if scales is None else len(scales)
    X = np.random.default_rng(seed).normal(size=(n, d))
    return abs(X) if kernel.domain is not REALS else X


STATIONARY = [k for k in KERNELS if small_gram(k.expression(), points(k, 2)) is not None]


def test_which_kernels_have_a_small_gram():
    taken = {type(k).__name__ for k in STATIONARY}
    assert taken >= {"RBF", "Laplacian", "Matern", "RationalQuadratic"}
    assert not taken & {"Linear", "Polynomial", "Cosine", "MinMax"}


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_a_small_gram_has_the_bits_of_the_general_way(kernel):
    X, e = points(kernel, 17), kernel.expression()
    found = small_gram(e, X, checked=kernel.domain is REALS)
    np.testing.assert_array_equal(found, PairMatrix(e, X).gram())
    naive = [[NAIVE[type(kernel).__name__](kernel, x, z) for z in X] for x in X]
    np.testing.assert_allclose(found, naive, rtol=1e-11, atol=1e-15)


def test_a_small_gram_moves_points_that_are_far_from_the_origin():
    X = 1e6 + np.random.default_rng(0).normal(size=(12, 40))
    e = K.RBF(0.05).expression()
    found = small_gram(e, X)
    np.testing.assert_array_equal(found, PairMatrix(e, X).gram())
    exact = np.exp(-0.05 * ((X[:, None] - X[None]) ** 2).sum(-1))
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_what_a_small_gram_leaves_to_the_general_way():
    e = K.RBF(1.0).expression()
    assert small_gram(e, np.ones((3, 2), np.float32)) is None
    assert small_gram(e, np.ones((3, 64))) is None  # which may be bits
    assert small_gram(K.Linear().expression(), np.ones((3, 2))) is None


PACKED = [k for k in KERNELS if packed_points(k.expression(), points(k, 2)) is not None]


@pytest.mark.parametrize("kernel", PACKED, ids=repr)
def test_packed_sums_are_those_of_the_general_way(kernel):
    Y, X = points(kernel, 11), points(kernel, 4, seed=1)
    V = np.random.default_rng(2).normal(size=(11, 2))
    packed = packed_points(kernel.expression(), Y)
    general = PairMatrix(kernel.expression(), X, Y).gram() @ V
    for checked in (False, kernel.domain is REALS):
        np.testing.assert_allclose(packed(X, V, checked), general, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(packed(X, V), packed(np.asfortranarray(X), np.asfortranarray(V)))
