"""Weighted sums of derivatives by all hyperparameters, against derivatives that are stored."""

import numpy as np
import pytest

from mercer import kernels as K
from mercer.expressions.contraction import contracted
from naive_kernels import CASES

SCALES = [0.7, 1.9, 1.1]
COMPOSITES = [
    2.0 * K.RBF(scales=SCALES) + K.Linear() + 0.3,
    K.Matern(2.5, scales=SCALES) * K.RationalQuadratic(0.5, 2.0) + 0.1 * K.Polynomial(2, 0.3, 1.0),
    K.RBF(scales=SCALES).on([0, 1, 2]) * K.Exponential(0.3),
    K.Laplacian(0.5, scales=SCALES) + K.Periodic(3.0, 1.5, scales=SCALES),
    (K.RBF(0.2, scales=SCALES) + K.Linear() ** 2).normalize(),
]


def by_storing(k, X, W):
    found = {}
    for path, slope in k.gradient(X).items():
        found[path] = np.tensordot(W, slope, axes=([0, 1], [0, 1]))
    return found


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, n))
    return rng.uniform(0.1, 3, (n, 3)), W + W.T


@pytest.mark.parametrize("k", COMPOSITES, ids=str)
def test_sums_are_those_of_stored_derivatives(k):
    X, W = drawn(57)
    lower = np.where(np.tri(57), W, np.nan)
    found, expected = contracted(k.over(X), lower), by_storing(k, X, W)
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=1e-9, atol=1e-9 * np.abs(W).sum())


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n] and CASES[n][0].domain.is_vectors])
def test_of_every_vector_kernel(name):
    X, W = drawn(20, 1)
    for k in CASES[name]:
        if k.expression().parameters():
            found, expected = contracted(k.over(X), W), by_storing(k, X, W)
            for path, value in expected.items():
                np.testing.assert_allclose(found[path], value, rtol=1e-8, atol=1e-8)


def test_several_tiles(monkeypatch):
    X, W = drawn(100)
    k = COMPOSITES[0]
    expected = contracted(k.over(X), W)
    monkeypatch.setattr("mercer.expressions.contraction.TILE", 100)
    found = contracted(k.over(X), W)
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=1e-10)


def test_points_far_apart_lose_no_digits():
    # Two clusters at a great distance, where the expanded squares cancel.
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 2)) * 1e-3 + np.where(np.arange(40) < 20, 0, 1e5)[:, None]
    W = rng.standard_normal((40, 40))
    W += W.T
    k = K.RBF(scales=[1e-3, 2e-3])
    expected = by_storing(k, X, W)["scales"]
    np.testing.assert_allclose(contracted(k.over(X), W)["scales"], expected, rtol=1e-7)
