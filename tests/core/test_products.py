"""Products with the native matrix against its NumPy twin, at every level this machine runs."""

from __future__ import annotations

import numpy as np
import pytest

from instruction_levels import LEVELS, module_of
from mercer.core import Kind, Op
from mercer.core.reference import krylov
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


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [13, 33, 150])
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("centred", [False, True])
def test_steps_of_block_lanczos_are_those_of_the_twin(level, n, width, centred):
    module, rng = module_of(level), np.random.default_rng(n)
    A = rng.normal(size=(n, n))
    A = A + A.T
    room, steps = 4 * width, 3
    Q = rng.normal(size=(width, n))
    Q = np.linalg.qr((Q - centred * Q.mean(axis=1, keepdims=True)).T)[0].T
    found = []
    for routine, threads in ((module, 0), (module, 3), (krylov, 1)):
        basis, T = np.zeros((room, n)), np.zeros((room, room))
        basis[:width] = Q
        taken, rest = routine.krylov_steps(A, basis, T, width, width, steps, centred, threads)
        assert taken == steps
        np.testing.assert_allclose(basis @ basis.T, np.eye(room), atol=1e-12)
        C = A - A.mean(axis=0) if centred else A
        C = C - C.mean(axis=1, keepdims=True) if centred else C
        done, last = slice(0, steps * width), slice((steps - 1) * width, steps * width)
        np.testing.assert_allclose(T[done, done], basis[done] @ C @ basis[done].T, atol=1e-11)
        left = C @ basis[last].T - basis[done].T @ T[done, last]
        np.testing.assert_allclose(left, basis[steps * width :].T @ rest, atol=1e-11)
        found.append((basis, T, rest))
    for one, other in zip(found[0], found[1], strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(found[0], found[2], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


@pytest.mark.parametrize("level", LEVELS)
def test_block_lanczos_ends_where_the_matrix_has_no_more_rank(level):
    module, rng = module_of(level), np.random.default_rng(0)
    F = rng.normal(size=(60, 5))
    basis, T = np.zeros((16, 60)), np.zeros((16, 16))
    basis[:2] = np.linalg.qr(rng.normal(size=(60, 2)))[0].T
    for routine in (module, krylov):
        assert routine.krylov_steps(F @ F.T, basis, T, 2, 2, 7, False, 0)[0] < 7


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("size", "width", "steps"),
    [(0, 1, 1), (2, 3, 1), (9, 2, 1), (4, 2, 3), (2, 0, 1), (2, 2, 2**62)],
)
def test_block_lanczos_refuses_steps_that_the_basis_has_no_room_for(level, size, width, steps):
    K, basis, T = np.eye(20), np.zeros((8, 20)), np.zeros((8, 8))
    module = module_of(level)
    with pytest.raises((ValueError, TypeError)):
        module.krylov_steps(K, basis, T, size, width, steps, False, 0)
    for wrong in (
        (K[:10].copy(), basis, T),
        (K, basis[:, :10].copy(), T),
        (K, basis, T[:3].copy()),
    ):
        with pytest.raises(ValueError, match=r"square|as long|row and a column"):
            module.krylov_steps(*wrong, 2, 2, 1, False, 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [2, 40])
@pytest.mark.parametrize("m", [1, 13, 300])
def test_other_rows_times_columns_packed_once(level, dtype, d, m):
    rng = np.random.default_rng(m)
    Y, V = points(rng, m, d, dtype, Kind.SQDIST), rng.normal(size=(m, 2)).astype(dtype)
    native, _ = build(level, GAUSSIAN, [leaf(Kind.SQDIST, Y[:1], Y)], n=1, m=m, dtype=dtype)
    for n in (1, 3, 70):
        X = points(rng, n, d, dtype, Kind.SQDIST)
        rows = leaf(Kind.SQDIST, X, Y)
        alone, _ = build(level, GAUSSIAN, [rows], n=n, m=m, dtype=dtype)
        found = native.product_at([(rows.X, rows.X_given, rows.X_norms)], [], n, V, 2)
        np.testing.assert_array_equal(found, alone.product(V, 2))
        for wrong in (
            ([], [], n),
            ([(rows.X, rows.X_given, rows.X_norms)], [], n + 1),
            ([(rows.X, rows.X_given[:, :1].copy(), rows.X_norms)], [], n),
            ([(rows.X, rows.X_given, None)], [], n),
            ([(rows.X, rows.X_given, rows.X_norms)], [np.ones(n, dtype)], n),
            ([(rows.X, rows.X_given, rows.X_norms)], [], 0),
        ):
            if d == 2 and wrong[0] and wrong[0][0][2] is None:
                continue  # differences of few features need no norms
            with pytest.raises(ValueError, match=r"for each|X is|norms|row"):
                native.product_at(*wrong, V, 2)
