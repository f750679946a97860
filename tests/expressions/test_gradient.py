"""Σ u_cᵀ (∂K/∂θ) v_c: against formulas written out, and against differences of the sum itself."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import kernels as K
from mercer.expressions import (
    PairMatrix,
    derivative,
    diagonal,
    exp,
    gradient,
    normalised,
    statistic,
)
from mercer.expressions.derivative import partial
from mercer.expressions.nodes import ZERO
from mercer.expressions.statistics import chi2_tangent, conjunction_tangent, minsum_tangent
from mercer.kernels.vector_kernel import ScaledKernel

MODULE = sys.modules["mercer.expressions.gradient"]  # the package has a function of that name
SCALES = np.array([0.6, 1.5, 0.9, 2.0, 1.1])
D = len(SCALES)


def points(n, m, dtype=np.float64, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return tuple((rng.normal(size=(k, D)) + offset).astype(dtype) for k in (n, m))


def weights(n, m, c, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, c)), rng.normal(size=(m, c))


def contracted(U, slopes, V):
    """The sum, and that of the absolute values of its terms."""
    found = np.einsum("ic,ij...,jc->...", U, slopes, V)
    return found, np.einsum("ic,ij...,jc->...", np.abs(U), np.abs(slopes), np.abs(V))


def written_out(X, Y):
    """dK/dscales and the other slopes of a few kernels, as (n, m, d) and (n, m) arrays."""
    difference = X[:, None] - Y
    scaled = difference / SCALES
    r2 = (scaled**2).sum(axis=2)
    r, l1 = np.sqrt(r2), np.abs(scaled).sum(axis=2)
    by_r2 = -2 * scaled**2 / SCALES  # ∂r²/∂s_j
    circle = 2 * np.pi * scaled / 1.7
    periodic = np.exp(-2 * (np.sin(circle / 2) ** 2).sum(axis=2) / 0.8**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_r = np.where(r[..., None] > 0, by_r2 / (2 * r[..., None]), 0.0)
    rbf, root3 = np.exp(-0.3 * r2), np.sqrt(3) / 1.4
    return {
        K.RBF(0.3, scales=SCALES): {
            "gamma": -r2 * rbf,
            "scales": -0.3 * rbf[..., None] * by_r2,
        },
        K.Exponential(0.4, scales=SCALES): {
            "gamma": -r * np.exp(-0.4 * r),
            "scales": -0.4 * np.exp(-0.4 * r)[..., None] * by_r,
        },
        K.Matern(1.5, 1.4, scales=SCALES): {
            "length_scale": root3**2 * r2 * np.exp(-root3 * r) / 1.4,
            "scales": -(root3**2) * np.exp(-root3 * r)[..., None] * by_r2 / 2,
        },
        K.Laplacian(0.2, scales=SCALES): {
            "gamma": -l1 * np.exp(-0.2 * l1),
            "scales": 0.2 * np.exp(-0.2 * l1)[..., None] * np.abs(scaled) / SCALES,
        },
        K.Periodic(1.7, 0.8, scales=SCALES): {
            "length_scale": periodic * 4 * (np.sin(circle / 2) ** 2).sum(axis=2) / 0.8**3,
            "period": periodic * (np.sin(circle) * circle).sum(axis=2) / 0.8**2 / 1.7,
            "scales": periodic[..., None] * np.sin(circle) * circle / 0.8**2 / SCALES,
        },
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("c", [1, 3])
def test_against_the_formulas_written_out(dtype, offset, c):
    X, Y = points(70, 50, dtype, offset)
    U, V = weights(70, 50, c)
    for kernel, slopes in written_out(X.astype(float), Y.astype(float)).items():
        found = gradient(kernel.over(X, Y), U, V)
        assert found.keys() == slopes.keys()
        for path, slope in slopes.items():
            expected, size = contracted(U, slope, V)
            assert np.shape(found[path]) == np.shape(expected)
            # Dividing by the scales rounds each coordinate by eps times its size.
            eps = np.finfo(dtype).eps
            assert np.all(np.abs(found[path] - expected) <= 20 * eps * (1 + offset) * size)


COMPOSITES = [
    2.0 * K.RBF(0.3, scales=SCALES) * K.Polynomial(2) + K.Linear(),
    (K.RBF(0.3, scales=SCALES) + K.Laplacian(0.2, scales=SCALES[::-1])) ** 2,
    (K.RBF(0.3, scales=SCALES) + K.Linear()).normalize(),
    K.exp(0.5 * K.Matern(2.5, 1.2, scales=SCALES)) - K.Periodic(1.7, 0.8, scales=SCALES),
    K.RationalQuadratic(0.6, 1.2, scales=SCALES) * K.Tanimoto(),
    K.RBF(0.2, scales=SCALES[:2]).on([1, 3]) + K.Sigmoid(0.1),
    K.RBF(0.2, scales=SCALES).compose(np.sin),
]


def by_differences(kernel, path, X, Y, U, V, h=1e-4):
    """Central differences of the sum, of fourth order in the step."""
    moved, value = clone(kernel), np.asarray(kernel.get_params()[path], dtype=float)

    def at(step):
        return np.sum(U * (moved.set_params(**{path: step})(X, Y) @ V))

    def slope(direction):
        near, far = (
            (at(value + s * direction) - at(value - s * direction)) / (2 * s) for s in (h, 2 * h)
        )
        return (4 * near - far) / 3

    return slope(1.0) if value.ndim == 0 else np.array([slope(e) for e in np.eye(len(value))])


@pytest.mark.parametrize("kernel", COMPOSITES, ids=repr)
@pytest.mark.parametrize("same", [True, False])
def test_composites_against_differences(kernel, same):
    X, Y = points(30, 30 if same else 20)
    Y = X if same else Y
    U, V = weights(30, len(Y), 2)
    found = gradient(kernel.over(X, None if same else Y), U, V)
    assert any(path.endswith("scales") for path in found)
    for path, slope in found.items():
        expected = by_differences(kernel, path, X, Y, U, V)
        scale = np.abs(U).sum() * np.abs(V).sum() * np.abs(kernel(X, Y)).max()
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10 * scale)


class _Scaled(ScaledKernel):
    """Any formula over the statistics, with scales."""

    def __init__(self, write=None, scales=None):
        self.write = write
        self.scales = scales

    def formula(self, s, p):
        return self.write(s)


FORMULAS = {
    "dot": lambda s: (1 + 0.2 * s.dot) ** 2,
    "minsum": lambda s: exp(0.1 * s.minsum),
    "chi2": lambda s: exp(-0.3 * s.chi2),
    "conjunction": lambda s: s.conjunction,
    "several at once": lambda s: exp(-0.2 * s.sqdist) * (1 + s.dot) + exp(-0.1 * s.l1) * s.minsum,
    "normalised dot": lambda s: normalised(s.dot),
    "normalised conjunction": lambda s: normalised(s.conjunction),
    "normalised minsum": lambda s: normalised(s.minsum),
    "a square to be completed": lambda s: exp(
        0.4 * s.dot - 0.2 * diagonal(s.dot, 0) - 0.2 * diagonal(s.dot, 1)
    ),
    "one side": lambda s: exp(-0.2 * diagonal(s.dot, 0)) * s.dot,
    "other side": lambda s: exp(-0.2 * diagonal(s.dot, 1)) * s.dot,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_every_statistic_with_scales(name):
    X, Y = (np.abs(A) for A in points(20, 15))
    X[0, 1] = Y[0, 1] = 0.0
    U, V = weights(20, 15, 2)
    kernel = _Scaled(FORMULAS[name], SCALES)
    found = gradient(kernel.over(X, Y), U, V)["scales"]
    expected = by_differences(kernel, "scales", X, Y, U, V)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    sparse = gradient(kernel.over(sp.csr_array(X), sp.csr_array(Y)), U, V)["scales"]
    np.testing.assert_allclose(sparse, found, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("name", [name for name in FORMULAS if "side" not in name])
def test_the_same_points_on_both_sides(name):
    X = np.abs(points(20, 1)[0])
    U, V = weights(20, 20, 2)
    kernel = _Scaled(FORMULAS[name], SCALES)
    found, expected = (gradient(kernel.over(*A), U, V)["scales"] for A in ((X,), (X, X.copy())))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_tangents_of_single_numbers():
    x, z, h = np.array([0.5, 2.0, 1.0]), np.array([1.0, 0.5, 1.0]), 1e-7
    dx, dz = np.array([0.3, -1.0, 2.0]), np.array([0.7, 0.4, 1.0])
    change = (np.minimum(x + h * dx, z + h * dz) - np.minimum(x - h * dx, z - h * dz)) / (2 * h)
    np.testing.assert_allclose(minsum_tangent(x, dx, z, dz), change, rtol=1e-6)

    def chi2(x, z):
        return (x - z) ** 2 / (x + z)

    change = (chi2(x + h * dx, z + h * dz) - chi2(x - h * dx, z - h * dz)) / (2 * h)
    np.testing.assert_allclose(chi2_tangent(x, dx, z, dz), change, rtol=1e-6, atol=1e-8)
    zero = np.zeros(1)
    assert chi2_tangent(zero, zero, zero, zero) == 0
    # A factor that vanishes: d (1 + x1 z1)(1 + x2 z2) = (dx1 z1 + x1 dz1)(1 + x2 z2).
    X, Z, change = np.array([1.0, 2.0]), np.array([-1.0, 3.0]), np.array([1.0, 0.0])
    assert conjunction_tangent(X, change, Z, change) == (-1.0 + 1.0) * 7
    assert conjunction_tangent(X, change, Z, 0 * change) == -1.0 * 7


@pytest.fixture
def passes(monkeypatch):
    """The number of columns of each product that is asked for."""
    seen = []
    products = PairMatrix.products

    def counted(self, V, U):
        seen.append(V.shape[1])
        return products(self, V, U)

    monkeypatch.setattr(PairMatrix, "products", counted)
    return seen


@pytest.mark.parametrize(
    ("kernel", "n_numbers"),
    [(K.RBF(0.3, scales=SCALES), 1), (K.RationalQuadratic(0.6, 1.2, scales=SCALES), 2)],
    ids=repr,
)
def test_all_scales_take_one_pass(kernel, n_numbers, passes):
    X, Y = points(40, 30)
    gradient(kernel.over(X, Y), *weights(40, 30, 1))
    assert len(passes) == n_numbers + 1
    assert passes.count(D + 2) == 1  # v, |v| and v z_k


@pytest.mark.parametrize(
    "kernel", [K.RBF(0.3, scales=SCALES), K.Periodic(1.7, 0.8, scales=SCALES)], ids=repr
)
def test_columns_are_taken_a_few_at_a_time(kernel, monkeypatch, passes):
    X, Y = points(40, 30)
    U, V = weights(40, 30, 3)
    at_once = gradient(kernel.over(X, Y), U, V)["scales"]  # by weights
    monkeypatch.setattr(MODULE, "WEIGHTED", 4)
    by_products = gradient(kernel.over(X, Y), U, V)["scales"]
    np.testing.assert_allclose(by_products, at_once, rtol=1e-10)
    monkeypatch.setattr(MODULE, "COLUMNS", 0)
    monkeypatch.setattr(MODULE, "FEWEST", 12)
    passes.clear()
    np.testing.assert_allclose(gradient(kernel.over(X, Y), U, V)["scales"], at_once, rtol=1e-10)
    assert max(passes) <= 12 + 6  # and v and |v|, once


RNG = np.random.default_rng(5)
NEAR = np.repeat(RNG.normal(size=(50, 3)), 2, axis=0)
HARD = {
    "a far point": (np.vstack([RNG.normal(size=(99, 3)), np.full((1, 3), 1e9)]), K.RBF(0.5)),
    "two far clusters": (RNG.normal(size=(100, 3)) + 1e6 * (np.arange(100)[:, None] % 2), K.RBF()),
    "narrow": (RNG.normal(size=(100, 3)), K.RBF(1e8)),
    "near pairs": (NEAR + 1e-9 * RNG.normal(size=(100, 3)), K.Exponential()),
    "a constant feature": (np.c_[RNG.normal(size=(100, 2)), np.full(100, 7.0)], K.Matern()),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_digits_are_kept_where_the_expansion_would_lose_them(case, dtype):
    X, kernel = HARD[case]
    X, kernel = X.astype(dtype), clone(kernel).set_params(scales=np.ones(3))
    U, V = weights(100, 100, 2)
    found = gradient(kernel.over(X), U, V)["scales"]
    expected, size = contracted(U, kernel.gradient(X.astype(float))["scales"], V)
    tolerance = 1e-8 if dtype == np.float64 else 1e-4
    assert np.all(np.abs(found - expected) <= tolerance * size)


def test_derivatives_by_a_leaf():
    s, t = statistic("sqdist"), statistic("dot")
    assert str(partial(exp(-0.5 * s) + t, s)) == "-0.5 * exp(-0.5 * sqdist)"
    assert partial(exp(-0.5 * s), t) == ZERO
    assert partial(diagonal(t, 0) * t, t) == diagonal(t, 0)
    assert derivative(s / (1 + t), "gamma") == ZERO


def test_the_dtype_of_the_points_is_kept():
    X = points(10, 5, np.float32)[0]
    assert (2.0 * K.Linear()).over(X).derivative("left__value").dtype == np.float32
    assert _Scaled(lambda s: s.sqdist, SCALES).over(X).derivative("scales", 1).dtype == np.float32


def test_a_kernel_without_hyperparameters_has_an_empty_gradient():
    X, Y = points(10, 5)
    assert gradient(K.Linear().over(X, Y), np.ones(10), np.ones(5)) == {}


def test_what_does_not_fit_is_refused():
    X, Y = points(10, 5)
    pairs = K.RBF(scales=SCALES).over(X, Y)
    with pytest.raises(ValueError, match=r"U has shape \(5,\); expected \(10,\)"):
        gradient(pairs, np.ones(5), np.ones(5))
    with pytest.raises(ValueError, match="U has 2 columns and V 1"):
        gradient(pairs, np.ones((10, 2)), np.ones(5))
    with pytest.raises(ValueError, match="at least one"):
        gradient(pairs, np.ones((10, 0)), np.ones((5, 0)))
    with pytest.raises(ValueError, match=r"'alpha' is not a hyperparameter here.*gamma, scales"):
        pairs.derivative("alpha")
    with pytest.raises(ValueError, match="index=5 of 'scales', which has 5 entries"):
        pairs.derivative("scales", 5)
    with pytest.raises(ValueError, match="index=0 of 'gamma', which is one number"):
        pairs.derivative("gamma", 0)


@pytest.mark.parametrize("c", [1, 3])
def test_only_what_is_asked_for(c):
    X, _ = points(20, 5)
    pairs, (U, V) = (2.0 * K.RBF(0.3, scales=SCALES)).over(X), weights(20, 20, c)
    found, whole = gradient(pairs, U, V, ["right__scales"]), gradient(pairs, U, V)
    assert list(found) == ["right__scales"]
    np.testing.assert_array_equal(found["right__scales"], whole["right__scales"])
