"""Points and constants at the ends of float32's range, over tensors, compared with float64."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.expressions import over
from tensor_devices import WAYS, tensor, use

TRIES = 40 * int(os.environ.get("MERCER_TEST_LENGTH", "1"))
SCALES = np.linspace(1.0, 2.0, 12)
TINY = np.finfo(np.float32).tiny


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    use(request.param, monkeypatch)
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def error(kernel, X, Y, path=None, single=True):
    """The largest error of float32, of the largest value in float64.

    A card makes zero of what is below the normal numbers.
    """
    found, right = (
        over(kernel.expression(), *(tensor(A.astype(dtype)) for A in (X, Y)))
        for dtype in (np.float32, np.float64)
    )
    if path is not None:
        found, right = (pairs.derivative(path) for pairs in (found, right))
    assert found.dtype == np.float32 or not single
    right = as_numpy(right.gram())
    lost = np.maximum(np.abs(as_numpy(found.gram()) - right) - TINY, 0)
    return np.max(lost) / (np.max(np.abs(right)) or 1.0)


def points(rng, n, d=12, size=1.0):
    return (size * rng.normal(size=(n, d))).astype(np.float32)


@pytest.mark.parametrize("far", [1e3, 1e5, 1e8])
def test_a_column_far_away_costs_the_others_no_digits(far, way, rng):
    X, Y = points(rng, 20), points(rng, 30)
    Y[0] *= np.float32(far)
    assert error(K.RBF(0.05), X, Y) < 1e-6
    assert error(K.RBF(0.05), Y, X) < 1e-6


@pytest.mark.parametrize(
    ("kernel", "path"),
    [
        (K.RBF(1e3, scales=SCALES), "scales"),
        (K.Exponential(100.0, scales=SCALES), "scales"),
        (K.Matern(1.5, 0.1, scales=SCALES), "scales"),
        (K.RBF(1e3) * K.Laplacian(0.1), "right__gamma"),
        (K.RBF(1e3) * K.RBF(0.1, scales=SCALES), "right__gamma"),
    ],
    ids=str,
)
def test_derivatives_at_points_that_nearly_coincide(kernel, path, way, rng):
    Y = points(rng, 30)
    X = Y[:20] + points(rng, 20, size=0.01)
    assert error(kernel, X, Y, path) < 1e-5


@pytest.mark.parametrize("alpha", [0.5, 2.0, 2.5])
def test_a_steep_power_beside_something_large_is_a_number(alpha, way, rng):
    X = points(rng, 70, d=40, size=10.0)
    kernel = K.RationalQuadratic(alpha, 1e-3) + 1e6 * K.Linear()
    assert error(kernel, X, X) < 1e-5


@pytest.mark.parametrize("alpha", [0.5, 1.5, 2.5, 3.5, 3.7])
def test_each_power_is_as_exact_as_its_distance(alpha, way, rng):
    X = points(rng, 40) * np.geomspace(1e-3, 1e3, 40, dtype=np.float32)[:, None]
    kernel = K.RationalQuadratic(alpha, 1.0)
    found = as_numpy(over(kernel.expression(), tensor(X), tensor(X[:9])).gram())
    np.testing.assert_allclose(found, kernel(X.astype(float), X[:9].astype(float)), rtol=1e-5)


@pytest.mark.parametrize("n", [30, 600])
def test_points_that_count_for_nothing_do_not_hide_the_others(n, way, rng):
    near = points(rng, 15)
    X = np.concatenate([points(rng, n, size=1e3), near, near + points(rng, 15, size=0.003)])
    near_zero = K.RBF(1e4).rescale(lambda P: 1.0 * ((P * P).sum(1) < 1e3))
    assert error(near_zero, X, X[n:]) < 1e-6
    assert error(near_zero, X[n:], X) < 1e-6


@pytest.mark.parametrize(
    ("kernel", "size"),
    [
        (1e-9 * K.Linear(), 5e-14),
        (1e-12 * K.Linear(), 1e-12),
        (K.RBF(1e30), 1e15),
        (K.Polynomial(1, 1e-30, 0.0), 1e17),
        (K.RBF(1e-33), 1e16),
    ],
    ids=str,
)
def test_constants_that_have_no_room_for_a_scale(kernel, size, way, rng):
    X = points(rng, 20, size=size)
    assert error(kernel, X, X[:7]) < 2e-6


def test_quotients_of_next_to_nothing(way, rng):
    X = np.abs(points(rng, 20))
    X[:4] *= np.float32([[1e-18], [1e-20], [1e-30], [0.0]])
    found = as_numpy(over(K.Tanimoto().expression(), tensor(X), tensor(X)).gram())
    assert np.all((found >= 0) & (found <= 1.00001))
    right = K.Tanimoto()(X.astype(float))
    # The squares of the third are zero in float32, as those of the last.
    right[2:4, 2:4] = found[2:4, 2:4]
    np.testing.assert_allclose(found, right, atol=1e-5)


@pytest.mark.parametrize("size", [1e-40, 1e-30, 1e-21, 1e21, 1e37])
def test_angles_between_points_of_any_size(size, way, rng):
    X = points(rng, 20, size=size)
    X[3] = 0.0
    assert error(K.Cosine(), X, X[:7]) < 2e-6
    many = rng.normal(size=(20, 12))
    found = over(K.Cosine().expression(), tensor(many * size**7), tensor(many)).gram()
    np.testing.assert_allclose(as_numpy(found), K.Cosine()(many), atol=1e-14)


LEAVES = [
    lambda s: K.Linear(),
    lambda s: K.Polynomial(2, 0.1 / s**2, 1.0),
    lambda s: K.RBF(0.1 / s**2),
    lambda s: K.RBF(100 / s**2),
    lambda s: K.Exponential(0.5 / s),
    lambda s: K.Matern(2.5, s),
    lambda s: K.RationalQuadratic(2.0, s),
    lambda s: K.Laplacian(0.1 / s),
    lambda s: K.Chi2(0.1 / s),
    lambda s: K.Min(),
    lambda s: K.Tanimoto(),
    lambda s: K.Cosine(),
]


@settings(max_examples=TRIES, deadline=None)
@example([10], False, 1, 2, 1, 1e-14, [1e-6, 100.0, 0.0], False, 0)
@example([4, 10], False, 1, 17, 20, 1e-14, [], True, 0)
@example([2, 10], False, 3, 17, 3, 1e-14, [0.0, 100.0], True, 3)
@example([0, 3], False, 1, 1, 3, 1.0, [1000.0], True, 296)
@given(
    chosen=st.lists(st.sampled_from(range(len(LEAVES))), min_size=1, max_size=3),
    product=st.booleans(),
    d=st.sampled_from([1, 3, 9, 20]),
    n=st.sampled_from([1, 2, 17]),
    m=st.sampled_from([1, 3, 20]),
    size=st.sampled_from([1e-14, 1e-6, 1.0, 1e8, 1e15]),
    odd=st.lists(st.sampled_from([0.0, 1e-20, 1e-6, 1e-3, 1e2, 1e3]), max_size=3),
    same=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_kernel_of_any_points_is_as_near_as_by_torch(
    chosen, product, d, n, m, size, odd, same, seed
):
    rng, kernel = np.random.default_rng(seed), None
    for i in chosen:
        leaf = LEAVES[i](size)
        kernel = leaf if kernel is None else kernel * leaf if product else kernel + leaf
    X, Y = (np.abs(points(rng, k, d, size)) for k in (n, m))
    X[: len(odd)] *= np.float32(odd)[:n, None]
    Y[-len(odd) :][:m] *= np.float32(odd)[-m:, None] if odd else np.float32(1)
    if same:
        Y[: n // 2 + 1] = X[: len(Y)][: n // 2 + 1]
    errors = {}
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            use(way, patch)
            errors[way] = error(kernel, X, Y, single=False)
    assume(np.isfinite(errors["torch"]))  # products of large numbers overflow, by any way
    assert errors["triton"] <= 8 * errors["torch"] + 1.5e-5
