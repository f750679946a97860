"""The error of Gaussian entries and products against long double, at every level."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import kernels as K

pytestmark = pytest.mark.usefixtures("any_level")
# Where long double is double, it cannot tell the error of double.
LONG = np.finfo(np.longdouble).eps < np.finfo(float).eps
DTYPES = [np.float32, np.float64] if LONG else [np.float32]
LIMIT = {np.float32: 2e-6, np.float64: 1e-14}


def exact_gram(X, Y, gamma):
    X, Y = X.astype(np.longdouble), Y.astype(np.longdouble)
    return np.stack([np.exp(-np.longdouble(gamma) * ((x - Y) ** 2).sum(axis=1)) for x in X])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 3, 5, 10, 100, 784])
def test_normal_points(d, dtype):
    rng = np.random.default_rng(d)
    X, Y = (rng.normal(size=(k, d)).astype(dtype) for k in (60, 1500))
    V = rng.normal(size=(1500, 3)).astype(dtype)
    kernel, exact = K.RBF(1 / d), exact_gram(X, Y, 1 / d)
    scale = exact @ np.abs(V)
    found = kernel.over(X, Y).products(V, np.zeros((60, 0)))[0]
    assert np.max(np.abs(found - exact @ V) / scale) < LIMIT[dtype]
    assert np.max(np.abs(kernel(X, Y) - exact) / exact) < 10 * LIMIT[dtype]


def near(rng, X, dtype):
    """Neighbours at distances of 1e-8 to 1 of each point, and the point itself."""
    steps = rng.normal(size=X.shape) * 10.0 ** rng.uniform(-8, 0, size=(len(X), 1))
    return np.vstack([(X + steps).astype(dtype), X[:5]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("gamma", [0.5, 20.0])
@pytest.mark.parametrize("d", [1, 4, 5, 33, 100, 784])
def test_every_entry_is_as_good_as_its_points_allow(d, gamma, offset, dtype):
    """Relative error at most eps (8 + 4 gamma (‖x‖² + ‖z‖²)), the points centred.

    Beyond a hundred features the rounding of one running sum over them grows as their root.
    """
    gamma = gamma / d
    rng = np.random.default_rng(d)
    X = (rng.normal(size=(70, d)) + offset).astype(dtype)
    Y = near(rng, X, dtype)
    exact = exact_gram(X, Y, gamma)
    wide = X.astype(float), Y.astype(float)
    centre = np.median(wide[1], axis=0)
    norms = [((A - centre) ** 2).sum(axis=1) for A in wide]
    growth = max(1.0, (d / 100) ** 0.5)
    bound = np.finfo(dtype).eps * (8 + 4 * growth * gamma * (norms[0][:, None] + norms[1]))
    normal = exact > 4 * np.finfo(dtype).tiny
    found = K.RBF(gamma)(X, Y)
    assert np.all((np.abs(found - exact) / exact <= bound)[normal])
    V = rng.normal(size=(len(Y), 1)).astype(dtype)
    product = K.RBF(gamma).over(X, Y).products(V, np.zeros((len(X), 0)))[0]
    room = (exact * (bound + 40 * np.finfo(dtype).eps)) @ np.abs(V) + np.finfo(dtype).tiny
    assert np.all(np.abs(product - exact @ V) <= room)
