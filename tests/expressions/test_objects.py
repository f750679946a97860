"""Expressions over statistics of objects, whose matrix is made in the place of one of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import kernels as K


@pytest.mark.parametrize("n", [1, 5, 150])
def test_one_statistic_of_objects_gives_its_place_to_the_matrix(any_level, n):
    """The core writes over the values it reads: every tile, also those across the diagonal."""
    rng = np.random.default_rng(n)
    X = ["".join(rng.choice(list("abc"), size=k)) for k in rng.integers(0, 30, size=n)]
    plain, Z = K.Spectrum(2)(X), X[: n // 2 + 1]
    scale = np.sqrt(np.diag(plain))
    scale = np.divide(1, scale, out=np.zeros(n), where=scale > 0)
    expected = 3 * plain * scale * scale[:, None] + 1
    kernel = 3 * K.Spectrum(2).normalize() + 1
    found = kernel(X)
    assert_allclose(found, expected, rtol=1e-14)
    assert_array_equal(found, found.T)
    assert_allclose(kernel(X, Z), expected[:, : len(Z)], rtol=1e-14)
    assert_allclose(kernel(Z, X), expected[: len(Z)], rtol=1e-14)


def test_objects_beside_vectors_and_beside_objects(any_level):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ab"), size=9)) for _ in range(90)]
    table = np.empty((90, 2), dtype=object)
    table[:, 0], table[:, 1] = texts, rng.normal(size=90)
    numbers = table[:, 1:].astype(float)
    first, second, third = K.Spectrum(2), K.RBF(0.5), K.Subsequence(2)
    kernel = first.on(0) * second.on(1) + 2 * third.on(0)
    expected = first(texts) * second(numbers) + 2 * third(texts)
    assert_allclose(kernel(table), expected, rtol=1e-13)
    mixed = first.on(0) + second.on(1)
    assert_allclose(mixed(table), first(texts) + second(numbers), rtol=1e-13)
    assert_array_equal(mixed(table), mixed(table).T)
