"""Products with the native matrix against its NumPy twin, at every level this machine runs."""

from __future__ import annotations

import numpy as np
import pytest

from instruction_levels import LEVELS, module_of
from mercer.core import Kind, Op
from native_pairs import DTYPES, EPS, GAUSSIAN, IDENTITY, build, gram, leaf, points, program

pytestmark = pytest.mark.skipif(not LEVELS, reason="no native module")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (12, 64), (13, 65), (250, 301), (700, 90)])
@pytest.mark.parametrize("c", [1, 2, 16, 19])
def test_products(level, dtype, n, m, c):
    rng = np.random.default_rng(1)
    X, Y = (points(rng, k, 7, dtype, Kind.SQDIST) for k in (n, m))
    V, U = rng.normal(size=(m, c)).astype(dtype), rng.normal(size=(n, 3)).astype(dtype)
    native, twin = build(level, GAUSSIAN, [leaf(Kind.SQDIST, X, Y)], n=n, m=m, dtype=dtype)
    K = gram(twin, n, m, dtype).astype(float)
    tolerance = 40 * EPS[dtype]
    scale = K @ np.abs(V) + 1e-300
    assert np.max(np.abs(native.product(V, 2) - K @ V) / scale) < tolerance
    out, side = native.products(V, U, 2)
    assert np.max(np.abs(out - K @ V) / scale) < tolerance
    assert np.max(np.abs(side - K.T @ U) / (K.T @ np.abs(U))) < tolerance


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (12, 64), (13, 65), (4000, 301), (700, 90)])
@pytest.mark.parametrize("c", [1, 2, 19])
@pytest.mark.parametrize("expression", ["gaussian", "identity"])
def test_normal_products(level, dtype, n, m, c, expression):
    rng = np.random.default_rng(1)
    X, Y = (points(rng, k, 7, dtype, Kind.SQDIST) for k in (n, m))
    X[: min(n, m) // 2] = Y[: min(n, m) // 2]  # some pairs are near
    V, T = rng.normal(size=(m, c)).astype(dtype), rng.normal(size=(n, c)).astype(dtype)
    weight = rng.uniform(size=n).astype(dtype)
    program = GAUSSIAN if expression == "gaussian" else IDENTITY
    native, twin = build(level, program, [leaf(Kind.SQDIST, X, Y)], n=n, m=m, dtype=dtype)
    K = gram(twin, n, m, dtype).astype(float)
    for targets, s in ((None, None), (T, None), (T, weight)):
        R = K @ V if targets is None else T - K @ V
        size = K @ np.abs(V) + (0.0 if targets is None else np.abs(T))
        if s is not None:
            R, size = s[:, None] * R, s[:, None] * size
        for threads in (0, 3):
            side, total = native.normal_product(V, targets, s, threads)
            assert np.all(np.abs(side - K.T @ R) <= 60 * EPS[dtype] * (K.T @ size))
            assert np.all(np.abs(total - R.sum(axis=0)) <= 60 * EPS[dtype] * size.sum(axis=0))
    for found, expected in zip(
        native.normal_product(V, T, weight, 1), twin.normal_product(V, T, weight, 1), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=60 * EPS[dtype] * np.max(K.T @ size))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("expression", [GAUSSIAN, IDENTITY], ids=["gaussian", "identity"])
def test_products_with_no_columns(level, dtype, expression):
    rng = np.random.default_rng(1)
    X, U = points(rng, 300, 7, dtype, Kind.SQDIST), rng.normal(size=(300, 3)).astype(dtype)
    none = np.zeros((300, 0), dtype)
    native, _ = build(level, expression, [leaf(Kind.SQDIST, X, X)], n=300, m=300, dtype=dtype)
    side, total = native.normal_product(none, none, None, 1)
    assert side.shape == (300, 0)
    assert total.shape == (0,)
    out, side = native.products(none, U, 1)
    assert out.shape == native.product(none, 1).shape == native.symmetric_product(none, 1).shape
    K = gram(native, 300, 300, dtype).astype(float)
    assert np.all(np.abs(side - K.T @ U) <= 60 * EPS[dtype] * (K.T @ np.abs(U)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetric_matrices_are_symmetric_to_the_last_bit(level, dtype):
    rng = np.random.default_rng(2)
    for n in (1, 11, 64, 130, 333):
        X = points(rng, n, 9, dtype, Kind.SQDIST)
        native, twin = build(level, GAUSSIAN, [leaf(Kind.SQDIST, X, X)], n=n, m=n, dtype=dtype)
        K = gram(native, n, n, dtype, symmetric=True)
        assert np.array_equal(K, K.T)
        np.testing.assert_allclose(K, gram(twin, n, n, dtype), rtol=100 * EPS[dtype])
        assert np.array_equal(np.diagonal(K), np.ones(n))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [2, 7, 300])
@pytest.mark.parametrize("gamma", [1e-3, 0.3, 50.0, 1e6])
def test_gaussian_times_a_vector(level, dtype, d, gamma):
    """The one product with a way of its own, near pairs and far ones among the points."""
    rng = np.random.default_rng(18)
    X, Y = (points(rng, k, d, dtype, Kind.SQDIST) / d**0.5 for k in (40, 150))
    Y[:20] = X[:20]
    Y[20:30] = X[20:30] * dtype(1 + 1e-3)
    Y[30] += 1e3
    V = rng.normal(size=(150, 1)).astype(dtype)
    kernel = program((Op.EXP_NEGATIVE, 0, 0, 0, -gamma, 0.0))
    native, _ = build(level, kernel, [leaf(Kind.SQDIST, X, Y)], n=40, m=150, dtype=dtype)
    distances = ((X[:, None].astype(float) - Y.astype(float)) ** 2).sum(axis=2)
    K = np.exp(-gamma * distances)
    error = np.abs(native.product(V, 1) - K @ V.astype(float))
    U = rng.normal(size=(40, 2)).astype(dtype)
    found, side = native.products(V, U, 1)
    assert np.array_equal(found, native.product(V, 1))
    norms = (X.astype(float) ** 2).sum(axis=1)[:, None] + (Y.astype(float) ** 2).sum(axis=1)
    allowed = 2 * EPS[dtype] * (8 + 4 * gamma * norms) * K
    assert np.all(error <= allowed @ np.abs(V.astype(float)) + 1e-37)
    error = np.abs(side - K.T @ U.astype(float))
    assert np.all(error <= allowed.T @ np.abs(U.astype(float)) + 1e-37)
    if gamma == 1e6:  # each of these has its own copy near it and nothing else
        np.testing.assert_allclose(native.product(V, 1)[:20], V[:20], rtol=20 * EPS[dtype])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_few_rows_against_many_columns(level, dtype):
    """The columns are divided among tasks as well."""
    rng = np.random.default_rng(17)
    n, m = 5, 20_003
    X, Y = (points(rng, k, 6, dtype, Kind.SQDIST) for k in (n, m))
    V, U = rng.normal(size=(m, 3)).astype(dtype), rng.normal(size=(n, 2)).astype(dtype)
    native, twin = build(level, GAUSSIAN, [leaf(Kind.SQDIST, X, Y)], n=n, m=m, dtype=dtype)
    for threads in (0, 3):
        for found, expected in zip(
            native.products(V, U, threads), twin.products(V, U, 1), strict=True
        ):
            np.testing.assert_allclose(found, expected, atol=2e4 * EPS[dtype])
        np.testing.assert_allclose(
            native.log_sum_exp(None, threads), twin.log_sum_exp(None, 1), rtol=20 * EPS[dtype]
        )
        least, where = native.arg_min(threads)
        expected, at = twin.arg_min(1)
        np.testing.assert_allclose(least, expected, rtol=100 * EPS[dtype], atol=EPS[dtype])
        np.testing.assert_array_equal(
            gram(native, n, m, dtype, threads=threads)[np.arange(n), where], least
        )
        assert (where == at).all() or dtype == np.float32
    assert np.array_equal(native.product(V, 1), native.product(V, 4))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 5, 12, 13, 64, 65, 700, 4500])
@pytest.mark.parametrize("columns", [1, 3])
def test_half_the_tiles_give_a_symmetric_product(level, dtype, n, columns):
    rng = np.random.default_rng(n)
    X, V = points(rng, n, 6, dtype, Kind.SQDIST), rng.normal(size=(n, columns)).astype(dtype)
    X[n // 2 :] = X[: n - n // 2]  # near pairs far from the diagonal
    native, _ = build(level, GAUSSIAN, [leaf(Kind.SQDIST, X, X)], n=n, m=n, dtype=dtype)
    found = native.symmetric_product(V, 2)
    K = gram(native, n, n, dtype).astype(float)
    error = np.abs(found - K @ V.astype(float))
    assert np.all(error <= 60 * EPS[dtype] * (K @ np.abs(V).astype(float)))
    assert np.array_equal(found, native.symmetric_product(V, 5))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 4, 5, 17, 100, 261])
@pytest.mark.parametrize("c", [0, 1, 2, 5])
def test_a_stored_symmetric_matrix_times_vectors(level, dtype, n, c):
    module = module_of(level)
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n)).astype(dtype)
    A = A + A.T
    V = rng.normal(size=(n, c)).astype(dtype)
    found = module.symmetric_times(A, V, 2)
    size = np.abs(A).astype(float) @ np.abs(V)
    assert np.all(np.abs(found - A.astype(float) @ V) <= 8 * EPS[dtype] * size)
    for threads in (0, 1, 3):
        np.testing.assert_array_equal(module.symmetric_times(A, V, threads), found)
    junk = np.where(np.tri(n, k=-1, dtype=bool), np.nan, A).astype(dtype)
    np.testing.assert_array_equal(module.symmetric_times(junk, V, 2), found)
    with pytest.raises(ValueError, match="row for each"):
        module.symmetric_times(A, np.ones((n + 1, 1), dtype), 1)
    with pytest.raises(ValueError, match="square"):
        module.symmetric_times(np.ones((n, n + 1), dtype), np.ones((n, 1), dtype), 1)
    with pytest.raises((TypeError, ValueError)):
        module.symmetric_times(A, np.ones((n, 1), np.int64), 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("n", "w"), [(1, 1), (5, 3), (33, 17), (120, 41)])
@pytest.mark.parametrize("c", [0, 1, 3])
def test_a_tall_matrix_times_vectors(level, n, w, c):
    module = module_of(level)
    rng = np.random.default_rng(n)
    A, B, C = rng.normal(size=(n, w)), rng.normal(size=(w, c)), rng.normal(size=(n, c))
    for transposed, right, expected in ((False, B, A @ B), (True, C, A.T @ C)):
        found = module.tall_times(A, right, transposed, 2)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        for threads in (0, 1, 3):
            np.testing.assert_array_equal(module.tall_times(A, right, transposed, threads), found)
    for transposed, rows in ((False, w + 1), (True, n + 1)):
        with pytest.raises(ValueError, match="B fits A"):
            module.tall_times(A, np.ones((rows, 1)), transposed, 1)
