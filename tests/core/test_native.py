"""The native module against its NumPy twin, at every instruction-set level this machine runs."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import threading
import time

import numpy as np
import pytest

from mercer import core
from mercer.core import Kind, Leaf, Op, Program, Source, reference

LEVELS = [
    name
    for i, name in enumerate(core.MODULES)
    if core.level() != "python"
    and i
    <= list(core.MODULES).index(importlib.import_module("mercer.core._baseline").machine_level())
]
pytestmark = pytest.mark.skipif(not LEVELS, reason="no native module")
EPS = {np.float32: 6e-8, np.float64: 1.2e-16}
DTYPES = [np.float32, np.float64]
KINDS = [k for k in Kind if k is not Kind.GIVEN]


def program(*operations, leaves=1, registers=None, result=0):
    """(op, out, a, b, c, d), and the source of b if it is not a register, per operation."""
    rows = [(*o[:4], o[6] if len(o) > 6 else Source.TILE) for o in operations]
    ops = np.array(rows, dtype=np.int32).reshape(-1, 5)
    constants = np.array([o[4:6] for o in operations], dtype=np.float64).reshape(-1, 2)
    return Program(ops, constants, registers or max(leaves, 1), result)


IDENTITY = program()
GAUSSIAN = program((Op.EXP_NEGATIVE, 0, 0, 0, -0.3, 0.0))


def points(rng, n, d, dtype, kind):
    X = rng.normal(size=(n, d))
    if kind in (Kind.MINSUM, Kind.CHI2):
        X = np.abs(X) * (rng.random((n, d)) < 0.7)
    return np.ascontiguousarray(X, dtype=dtype)


def leaf(kind, X, Y, block=None):
    def norms(A):
        return np.einsum("ij,ij->i", A, A).astype(A.dtype)

    return Leaf(kind, X, Y, X, Y, norms(X), norms(Y), block)


def build(level, program, leaves, rows=(), columns=(), n=1, m=1, dtype=np.float64):
    """The native pairs of one level, and their twin."""
    module = importlib.import_module(f"mercer.core.{core.MODULES[level]}")
    kind = module.Pairs32 if dtype == np.float32 else module.Pairs64
    native = kind(
        program.operations,
        program.constants,
        program.registers,
        program.result,
        [(int(entry.kind), *entry[1:]) for entry in leaves],
        list(rows),
        list(columns),
        n,
        m,
    )
    return native, reference.Pairs(program, leaves, rows, columns, n, m, dtype)


def gram(pairs, n, m, dtype, symmetric=False, threads=2):
    out = np.full((n, m), np.nan, dtype=dtype)
    pairs.gram(out, symmetric, threads)
    return out


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 4, 5, 6, 33, 100])
def test_statistics(level, dtype, kind, d):
    d += d % 2 if kind in (Kind.DIFFERENCE_PRODUCT, Kind.SIGN_PRODUCT) else 0
    rng = np.random.default_rng(d)
    X, Y = points(rng, 53, d, dtype, kind), points(rng, 70, d, dtype, kind)
    native, twin = build(level, IDENTITY, [leaf(kind, X, Y)], n=53, m=70, dtype=dtype)
    expected = gram(twin, 53, 70, dtype).astype(float)
    scale = np.abs(X).max() * np.abs(Y).max() * d if kind is not Kind.CONJUNCTION else 1.0
    np.testing.assert_allclose(
        gram(native, 53, 70, dtype), expected, rtol=40 * d * EPS[dtype], atol=8 * scale * EPS[dtype]
    )


UNARY = [
    (Op.AFFINE, 2.5, -0.5),
    (Op.INTEGER_POWER, 2.0, 0.0),
    (Op.INTEGER_POWER, 3.0, 0.0),
    (Op.INTEGER_POWER, 5.0, 0.0),
    (Op.INTEGER_POWER, -4.0, 0.0),
    (Op.EXP, 1.3, 0.0),
    (Op.EXP_NEGATIVE, -1.3, 0.0),
    (Op.TANH, 1.0, 0.0),
    (Op.SQRT, 0.0, 0.0),
    (Op.LOG, 0.0, 0.0),
    (Op.REAL_POWER, -0.7, 0.0),
    (Op.REAL_POWER, 0.5, 0.0),
    (Op.REAL_POWER, -1.5, 0.0),
    (Op.REAL_POWER, 7.5, 0.0),
    (Op.INVERSE_SQRT, 0.0, 0.0),
]
POSITIVE_ONLY = {Op.SQRT, Op.LOG, Op.REAL_POWER, Op.INVERSE_SQRT}
EXPONENTIALS = {Op.EXP, Op.EXP_NEGATIVE, Op.REAL_POWER}


def values(op, dtype):
    info = np.finfo(dtype)
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.normal(size=2000),
            10.0 ** rng.uniform(-6, 6, size=1000) * rng.choice([-1, 1], size=1000),
            np.linspace(-60, 60, 999),
            [0.0, 1.0, -1.0, 0.5, 0.55, -0.55, float(info.tiny), 1e-30],
        ]
    )
    x = np.abs(x) if op in POSITIVE_ONLY or op is Op.EXP_NEGATIVE else x
    return x.astype(dtype)[None, :]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "c", "d"), UNARY)
def test_functions_to_a_few_units_in_the_last_place(level, dtype, op, c, d):
    x = values(op, dtype)
    m = x.shape[1]
    given = Leaf(
        Kind.GIVEN,
        *[np.zeros((1, 1), dtype)] * 1,
        np.zeros((m, 1), dtype),
        np.zeros((1, 1), dtype),
        np.zeros((m, 1), dtype),
        None,
        None,
        x,
    )
    native, _ = build(level, program((op, 0, 0, 0, c, d)), [given], n=1, m=m, dtype=dtype)
    with np.errstate(all="ignore"):
        exact = reference.run(
            program((op, 0, 0, 0, c, d)), [x.astype(np.longdouble)], [], [], (1, m), np.longdouble
        )
    found = gram(native, 1, m, dtype).astype(np.longdouble)
    tiny, huge = np.finfo(dtype).tiny, np.finfo(dtype).max
    normal = (np.abs(exact) > tiny) & (np.abs(exact) < huge)
    # An exponential of a large argument inherits the rounding of the argument itself.
    argument = np.abs(c * (np.log(np.maximum(x, tiny)) if op is Op.REAL_POWER else x))
    allowed = 4 + (argument if op in EXPONENTIALS else 0.0) + (8 if op is Op.INTEGER_POWER else 0)
    size = np.abs(c * x) + abs(d) if op is Op.AFFINE else np.abs(np.where(normal, exact, 1))
    with np.errstate(invalid="ignore"):
        error = np.abs(found - exact) / size / np.finfo(dtype).eps
    assert np.all((error <= allowed) | ~normal)
    assert np.all(np.abs(found[np.abs(exact) <= tiny]) <= 2 * tiny)
    assert np.all(np.isinf(found[np.abs(exact) > 2 * huge.astype(np.longdouble)]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_a_number_stays_so(level, dtype):
    x = np.array([[np.nan, np.inf, -np.inf, 0.0]], dtype=dtype)
    zeros = [np.zeros((k, 1), dtype) for k in (1, 4, 1, 4)]
    for op in (Op.EXP, Op.TANH, Op.AFFINE, Op.LOG, Op.SQRT):
        native, twin = build(
            level,
            program((op, 0, 0, 0, 1.0, 0.0)),
            [Leaf(Kind.GIVEN, *zeros, None, None, x)],
            n=1,
            m=4,
            dtype=dtype,
        )
        np.testing.assert_array_equal(gram(native, 1, 4, dtype), gram(twin, 1, 4, dtype))


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
def test_terms_and_several_statistics(level, dtype):
    rng = np.random.default_rng(3)
    X, Y = (points(rng, k, 6, dtype, Kind.CHI2) for k in (40, 150))
    f, g = rng.random(40).astype(dtype) + 1, rng.random(150).astype(dtype) + 1
    composite = program(
        (Op.EXP_NEGATIVE, 0, 0, 0, -0.5, 0.0),
        (Op.AFFINE, 1, 1, 0, 0.2, 1.0),
        (Op.MULTIPLY, 0, 0, 1, 1.0, 0.0),
        (Op.ROW, 3, 0, 0, 0.0, 0.0),
        (Op.COLUMN, 4, 0, 0, 0.0, 0.0),
        (Op.MULTIPLY, 3, 3, 4, 1.0, 0.0),
        (Op.DIVIDE, 0, 0, 3, 0.0, 0.0),
        (Op.ADD, 2, 2, 0, 1.0, 1.0),
        leaves=3,
        registers=5,
        result=2,
    )
    leaves = [leaf(k, X, Y) for k in (Kind.SQDIST, Kind.DOT, Kind.MINSUM)]
    native, twin = build(level, composite, leaves, [f], [g], 40, 150, dtype)
    np.testing.assert_allclose(
        gram(native, 40, 150, dtype), gram(twin, 40, 150, dtype), rtol=100 * EPS[dtype]
    )


JOINED = {
    "before and after": [(Op.ADD, 3, 0, 1), (Op.EXP_NEGATIVE, 3, 3, 0), (Op.MULTIPLY, 2, 3, 2)],
    "value on the right": [(Op.AFFINE, 0, 0, 0), (Op.INTEGER_POWER, 0, 0, 0), (Op.ADD, 2, 1, 0)],
    "into a sum": [(Op.EXP, 3, 0, 0), (Op.ACCUMULATE, 2, 1, 3)],
    "a sum of itself": [(Op.AFFINE, 2, 0, 0), (Op.ACCUMULATE, 2, 2, 1)],
    "squared": [(Op.SQRT, 3, 0, 0), (Op.MULTIPLY, 2, 3, 3)],
    "read again": [(Op.TANH, 3, 0, 0), (Op.MULTIPLY, 1, 3, 1), (Op.ADD, 2, 1, 3)],
    "read after it was written": [
        (Op.SQRT, 3, 0, 0),
        (Op.ADD, 1, 3, 1),
        (Op.AFFINE, 3, 2, 0),
        (Op.MULTIPLY, 2, 1, 3),
    ],
    "itself the result": [(Op.AFFINE, 2, 0, 0), (Op.MULTIPLY, 1, 2, 1)],
    "with terms": [(Op.ADD, 3, 0, 0, Source.ROW), (Op.ADD, 2, 3, 0, Source.COLUMN)],
    "term and value": [(Op.DIVIDE, 3, 0, 1), (Op.ACCUMULATE, 2, 3, 0, Source.ROW)],
    "term before": [(Op.ADD, 3, 0, 0, Source.COLUMN), (Op.EXP, 2, 3, 0)],
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", JOINED)
def test_operations_that_may_go_in_one_pass(level, dtype, name):
    rng = np.random.default_rng(5)
    X, Y = (points(rng, k, 6, dtype, Kind.CHI2) for k in (40, 150))
    f, g = rng.random(40).astype(dtype) + 1, rng.random(150).astype(dtype) + 1
    constants = {Op.INTEGER_POWER: (3.0, 0.0), Op.EXP_NEGATIVE: (-0.4, 0.0), Op.ADD: (0.7, 0.3)}
    steps = program(
        *((*o[:4], *constants.get(o[0], (0.2, 0.5)), *o[4:]) for o in JOINED[name]),
        leaves=3,
        registers=4,
        result=2,
    )
    leaves = [leaf(k, X, Y) for k in (Kind.CHI2, Kind.L1, Kind.MINSUM)]
    native, twin = build(level, steps, leaves, [f], [g], 40, 150, dtype)
    np.testing.assert_allclose(
        gram(native, 40, 150, dtype), gram(twin, 40, 150, dtype), rtol=200 * EPS[dtype]
    )


SUMS = [k for k in KINDS if k not in (Kind.DIFFERENCE_PRODUCT, Kind.SIGN_PRODUCT)]
SETS = [s for size in range(2, len(SUMS) + 1) for s in itertools.combinations(SUMS, size)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [3, 9, 300])
def test_one_pass_gives_what_several_give(level, dtype, d):
    """Every set of statistics, each read from its own register."""
    rng = np.random.default_rng(14)
    X, Y = (points(rng, k, d, dtype, Kind.CHI2) / d**0.5 for k in (13, 65))
    alone = {
        k: gram(build(level, IDENTITY, [leaf(k, X, Y)], n=13, m=65, dtype=dtype)[0], 13, 65, dtype)
        for k in SUMS
    }
    for kinds in SETS:
        leaves = [leaf(k, X, Y) for k in kinds]
        for i, kind in enumerate(kinds):
            one = program(leaves=len(kinds), result=i)
            native, _ = build(level, one, leaves, n=13, m=65, dtype=dtype)
            got = gram(native, 13, 65, dtype)
            if kind == Kind.SQDIST:  # alone it may go by paired features
                np.testing.assert_allclose(
                    got, alone[kind], atol=16 * EPS[dtype], err_msg=str(kinds)
                )
            else:
                assert np.array_equal(got, alone[kind]), kinds


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [3, 9, 130])
@pytest.mark.parametrize("count", [1, 13, 250])
def test_some_rows_are_those_of_the_matrix(level, dtype, d, count):
    rng = np.random.default_rng(22)
    n, m = 300, 200
    X, Y = (points(rng, k, d, dtype, Kind.DOT) for k in (n, m))
    f, g = np.ones(n, dtype) + np.arange(n, dtype=dtype), np.ones(m, dtype)
    steps = program(
        (Op.EXP_NEGATIVE, 0, 0, 0, -0.1, 0.0),
        (Op.ROW, 2, 0, 0, 0.0, 0.0),
        (Op.MULTIPLY, 1, 1, 2, 1.0, 0.0),
        (Op.ADD, 0, 0, 1, 1.0, 1.0),
        leaves=2,
        registers=3,
    )
    leaves = [leaf(Kind.SQDIST, X, Y), leaf(Kind.DOT, X, Y)]
    native, twin = build(level, steps, leaves, [f], [g], n, m, dtype)
    whole = gram(native, n, m, dtype)
    for first, last in ((0, m), (70, 71), (5, 5), (63, 129)):
        rows, places = rng.integers(0, n, count), rng.permutation(count)
        for pairs, rtol in ((native, 0), (twin, 1e-3)):
            out = np.full((count, m), -1.0, dtype)
            pairs.some_rows(rows, places, first, last, out, 2)
            np.testing.assert_allclose(
                out[places, first:last], whole[rows, first:last], rtol=rtol, atol=rtol
            )
            assert np.all(out[:, :first] == -1)
            assert np.all(out[:, last:] == -1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", [Kind.DOT, Kind.SQDIST])
def test_one_statistic_twice(level, kind):
    X = np.random.default_rng(15).normal(size=(20, 8))
    twice = program((Op.ADD, 0, 0, 1, 1.0, 1.0), leaves=2)
    native, twin = build(level, twice, [leaf(kind, X, X)] * 2, n=20, m=20)
    np.testing.assert_allclose(gram(native, 20, 20, float), gram(twin, 20, 20, float), rtol=1e-12)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("op", [Op.ADD, Op.MULTIPLY, Op.ACCUMULATE, Op.DIVIDE])
def test_second_operands(level, dtype, source, op):
    rng = np.random.default_rng(16)
    X, Y = (points(rng, k, 5, dtype, Kind.CHI2) for k in (30, 90))
    f, g = (rng.normal(size=k).astype(dtype) for k in (30, 90))
    f[3] = g[4] = 0
    composite = program((op, 0, 1, 0, 0.7, -0.2, source), leaves=2)
    leaves = [leaf(k, X, Y) for k in (Kind.L1, Kind.MINSUM)]
    native, twin = build(level, composite, leaves, [f], [g], 30, 90, dtype)
    np.testing.assert_allclose(
        gram(native, 30, 90, dtype),
        gram(twin, 30, 90, dtype),
        rtol=100 * EPS[dtype],
        atol=20 * EPS[dtype],
    )


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


def test_tanh_takes_a_factor_and_a_shift():
    X = np.random.default_rng(19).normal(size=(20, 5))
    native, twin = build(
        LEVELS[-1], program((Op.TANH, 0, 0, 0, 0.3, 0.5)), [leaf(Kind.DOT, X, X)], n=20, m=20
    )
    np.testing.assert_allclose(gram(native, 20, 20, float), gram(twin, 20, 20, float), rtol=1e-13)


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


ODD_VALUES = {
    "a NaN": [0.0, np.nan, 1.0],
    "only NaN and -inf": [-np.inf, np.nan],
    "all -inf": [-np.inf, -np.inf],
    "some -inf": [-np.inf, 3.0, -np.inf, 2.0],
    "an inf": [np.inf, 3.0],
    "several inf": [np.inf, 3.0, np.inf],
    "inf and NaN": [np.inf, np.nan],
    "huge": [3e38, -3e38, 3e38],
    "ties": [1.0, -2.0, -2.0, 5.0],
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", ODD_VALUES.values(), ids=ODD_VALUES)
@pytest.mark.parametrize("before", [0, 200])
def test_reductions_of_odd_values(level, dtype, values, before):
    row = np.concatenate([np.full(before, -1.0), values]).astype(dtype)[None]
    nothing = np.zeros((1, 0), dtype), np.zeros((row.size, 0), dtype)
    given = Leaf(Kind.GIVEN, *nothing, *nothing, None, None, row)
    native, twin = build(level, IDENTITY, [given], n=1, m=row.size, dtype=dtype)
    for weight in (None, np.zeros(row.size, dtype), np.where(row[0] < 2, -np.inf, 0).astype(dtype)):
        with np.errstate(all="ignore"):
            terms = row[0].astype(float) + (0 if weight is None else weight)
            expected = np.logaddexp.reduce(terms)
        for pairs in (native, twin):
            np.testing.assert_allclose(
                pairs.log_sum_exp(weight, 0), [expected], rtol=10 * EPS[dtype]
            )
    known = np.where(np.isnan(row[0]), np.inf, row[0])
    for pairs in (native, twin):
        least, where = pairs.arg_min(0)
        assert least[0] == known.min()
        assert where[0] == known.argmin()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(level, dtype):
    rng = np.random.default_rng(4)
    X, Y = (points(rng, k, 5, dtype, Kind.SQDIST) for k in (41, 300))
    weight = np.log(rng.random(300)).astype(dtype)
    log_kernel = program((Op.AFFINE, 0, 0, 0, -400.0, 0.0))
    native, twin = build(level, log_kernel, [leaf(Kind.SQDIST, X, Y)], n=41, m=300, dtype=dtype)
    for w in (None, weight):
        np.testing.assert_allclose(
            native.log_sum_exp(w, 2), twin.log_sum_exp(w, 2), rtol=200 * EPS[dtype]
        )
    distances, reference_distances = build(
        level, IDENTITY, [leaf(Kind.SQDIST, X, Y)], n=41, m=300, dtype=dtype
    )
    least, where = distances.arg_min(2)
    expected, at = reference_distances.arg_min(1)
    np.testing.assert_allclose(least, expected, rtol=100 * EPS[dtype])
    np.testing.assert_array_equal(where, at)


INF, NAN = np.inf, np.nan
ROWS = {
    "some minus infinity": [-INF, 0.0, -INF, 1.0],
    "all minus infinity": [-INF] * 4,
    "minus infinity for a whole tile": [-INF] * 600 + [0.0, 1.0],
    "minus infinity after a tile": [0.0] * 600 + [-INF],
    "large": [1e30, -1e30, 0.0],
    "signed zeros": [0.0, -0.0],
    "ties": [2.0, 1.0, 1.0, 1.0],
    "ties across tiles": [2.0, *[1.0] * 700],
}


def given_values(level, x, dtype):
    x = np.array([x, x[::-1]], dtype=dtype)
    n, m = x.shape
    zeros = [np.zeros((k, 1), dtype) for k in (n, m, n, m)]
    return build(level, IDENTITY, [Leaf(Kind.GIVEN, *zeros, None, None, x)], n=n, m=m, dtype=dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ROWS)
def test_reductions_of_extreme_values(level, dtype, case):
    native, twin = given_values(level, ROWS[case], dtype)
    m = len(ROWS[case])
    some = np.where(np.arange(m) % 2, -INF, 0.5).astype(dtype)
    for weight in (None, some, np.full(m, -INF, dtype=dtype)):
        np.testing.assert_allclose(
            native.log_sum_exp(weight, 2), twin.log_sum_exp(weight, 1), rtol=100 * EPS[dtype]
        )
    assert np.all(native.log_sum_exp(np.full(m, -INF, dtype=dtype), 2) == -INF)
    for found, expected in zip(native.arg_min(2), twin.arg_min(1), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_least_of_infinite_values(level, dtype):
    for x, least, where in (
        ([INF, INF], INF, [0, 0]),
        ([INF, 3.0, INF], 3.0, [1, 1]),
        ([INF, -INF, 0.0], -INF, [1, 1]),
    ):
        for pairs in given_values(level, x, dtype):
            found, at = pairs.arg_min(1)
            assert found.tolist() == [least, least]
            assert at.tolist() == where


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x", [[NAN, 1.0, 2.0], [1.0] * 600 + [NAN]], ids=["one tile", "two"])
def test_a_sum_with_what_is_not_a_number_is_none(level, dtype, x):
    for pairs in given_values(level, x, dtype):
        assert np.all(np.isnan(pairs.log_sum_exp(None, 1)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_near_points_keep_their_digits(level, dtype, gap):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 20)).astype(dtype)
    Y = (X + gap * rng.normal(size=X.shape)).astype(dtype)
    native, _ = build(level, IDENTITY, [leaf(Kind.SQDIST, X, Y)], n=60, m=60, dtype=dtype)
    exact = ((X.astype(float) - Y.astype(float)) ** 2).sum(axis=1)
    found = np.diagonal(gram(native, 60, 60, dtype))
    np.testing.assert_allclose(found, exact, rtol=60 * EPS[dtype])


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


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_bits_for_any_number_of_threads(dtype):
    rng = np.random.default_rng(6)
    X = points(rng, 900, 8, dtype, Kind.SQDIST)
    V, U = (rng.normal(size=(900, 2)).astype(dtype) for _ in range(2))
    native, _ = build(LEVELS[-1], GAUSSIAN, [leaf(Kind.SQDIST, X, X)], n=900, m=900, dtype=dtype)
    for routine in (
        lambda k: native.products(V, U, k),
        lambda k: native.normal_product(V, U, None, k),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(routine(1), routine(5), strict=True))
    assert np.array_equal(
        gram(native, 900, 900, dtype, True, 1), gram(native, 900, 900, dtype, True, 3)
    )


def test_read_only_arrays_are_taken():
    X = np.random.default_rng(7).normal(size=(20, 5))
    X.setflags(write=False)
    native, twin = build(LEVELS[-1], GAUSSIAN, [leaf(Kind.SQDIST, X, X)], n=20, m=20)
    np.testing.assert_allclose(gram(native, 20, 20, float), gram(twin, 20, 20, float), rtol=1e-13)


def big(n=30_000):
    X = np.random.default_rng(8).normal(size=(n, 30))
    return build(LEVELS[0], GAUSSIAN, [leaf(Kind.SQDIST, X, X)], n=n, m=n)[0], np.ones((n, 1))


def test_other_python_threads_run_meanwhile():
    native, V = big(12_000)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    watcher = threading.Thread(target=tick)
    watcher.start()
    start = time.perf_counter()
    native.product(V, 1)
    end = time.perf_counter()
    done.set()
    watcher.join()
    assert sum(start < t < end for t in ticks) >= 3


def in_child(queue):
    native, V = big(500)
    queue.put(native.product(V, 2).sum())


def test_a_forked_child_works():
    native, V = big(500)
    expected = native.product(V, 2).sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join(timeout=60)
    assert child.exitcode == 0


def test_several_threads_call_at_once():
    native, V = big(2_000)
    expected = native.product(V, 2)
    found = [None] * 4

    def call(i):
        found[i] = big(2_000)[0].product(V, 2)

    pool = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    assert all(np.array_equal(f, expected) for f in found)


def test_threads_may_share_one_object():
    native, V = big(400)
    expected = native.product(V, 1)
    found = []

    def call():
        for _ in range(30):
            found.append(native.product(V, 1))

    pool = [threading.Thread(target=call) for _ in range(3)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    assert len(found) == 90
    assert all(np.array_equal(f, expected) for f in found)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithms_of_subnormal_numbers(level, dtype):
    x = (np.finfo(dtype).tiny * np.array([[1.0, 0.5, 1e-3, 1e-5]])).astype(dtype)
    zeros = [np.zeros((k, 1), dtype) for k in (1, 4, 1, 4)]
    native, _ = build(
        level,
        program((Op.LOG, 0, 0, 0, 0.0, 0.0)),
        [Leaf(Kind.GIVEN, *zeros, None, None, x)],
        n=1,
        m=4,
        dtype=dtype,
    )
    expected = np.log(x.astype(np.longdouble)).astype(float)
    np.testing.assert_allclose(gram(native, 1, 4, dtype), expected, rtol=4 * EPS[dtype])


A, B = np.ones((3, 2)), np.ones((4, 2))
WRONG = {
    "nothing in the register": (program(registers=3, result=2), [leaf(Kind.DOT, A, B)], (), ()),
    "nothing to add to": (
        program((Op.ACCUMULATE, 1, 0, 0, 1, 0), registers=2),
        [leaf(Kind.DOT, A, B)],
        (),
        (),
    ),
    "register out of range": (program((Op.ADD, 0, 0, 9, 0, 0)), [leaf(Kind.DOT, A, B)], (), ()),
    "negative register": (program((Op.ADD, -1, 0, 0, 0, 0)), [leaf(Kind.DOT, A, B)], (), ()),
    "unknown operation": (program((99, 0, 0, 0, 0, 0)), [leaf(Kind.DOT, A, B)], (), ()),
    "result out of range": (program(result=5), [leaf(Kind.DOT, A, B)], (), ()),
    "too many leaves": (program(), [leaf(Kind.DOT, A, B)] * 2, (), ()),
    "no such row term": (program((Op.ROW, 0, 0, 0, 0, 0)), [leaf(Kind.DOT, A, B)], (), ()),
    "short row term": (program((Op.ROW, 0, 0, 0, 0, 0)), [leaf(Kind.DOT, A, B)], (np.ones(2),), ()),
    "long column term": (IDENTITY, [leaf(Kind.DOT, A, B)], (), (np.ones(9),)),
    "widths differ": (IDENTITY, [leaf(Kind.DOT, A, np.ones((4, 3)))], (), ()),
    "wrong number of points": (IDENTITY, [leaf(Kind.DOT, B, B)], (), ()),
    "no block": (IDENTITY, [leaf(Kind.GIVEN, A, B)], (), ()),
    "block of another shape": (IDENTITY, [leaf(Kind.GIVEN, A, B, np.ones((4, 3)))], (), ()),
    "odd tangents": (IDENTITY, [leaf(Kind.SIGN_PRODUCT, A[:, :1].copy(), B[:, :1].copy())], (), ()),
    "no norms": (
        IDENTITY,
        [Leaf(Kind.SQDIST, *[np.ones((k, 9)) for k in (3, 4, 3, 4)])],
        (),
        (),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case):
    steps, leaves, rows, columns = WRONG[case]
    with pytest.raises(ValueError, match=r"a|e"):
        build(LEVELS[-1], steps, leaves, rows, columns, 3, 4)


def test_wrong_arrays_are_refused():
    native, _ = build(LEVELS[-1], IDENTITY, [leaf(Kind.DOT, A, B)], n=3, m=4)
    with pytest.raises(ValueError, match="V has m rows"):
        native.product(np.ones((3, 1)), 1)
    with pytest.raises(ValueError, match="out is"):
        native.gram(np.ones((4, 3)), False, 1)
    with pytest.raises(ValueError, match="square"):
        native.gram(np.ones((3, 4)), True, 1)
    zero, out = np.zeros(1, np.int64), np.ones((2, 4))
    for rows, places, first, last in (
        (zero + 3, zero, 0, 4),
        (zero - 1, zero, 0, 4),
        (zero, zero + 2, 0, 4),
        (zero, zero - 1, 0, 4),
        (zero, zero, 0, 5),
        (zero, zero, 3, 2),
        (zero, np.zeros(2, np.int64), 0, 4),
    ):
        with pytest.raises(ValueError, match=r"row|range"):
            native.some_rows(rows, places, first, last, out, 1)
    with pytest.raises(ValueError, match="m columns"):
        native.some_rows(zero, zero, 0, 4, np.ones((2, 5)), 1)
    for wrong in (np.ones((4, 1), np.float32), np.ones(4), np.ones((4, 2)).T):
        with pytest.raises((TypeError, ValueError)):
            native.product(wrong, 1)
    frozen = np.ones((3, 4))
    frozen.setflags(write=False)
    with pytest.raises((TypeError, ValueError)):
        native.gram(frozen, False, 1)
    with pytest.raises((TypeError, ValueError)):
        build(LEVELS[-1], IDENTITY, [leaf(Kind.DOT, np.asfortranarray(A), B)], n=3, m=4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 4, 5, 17, 100, 261])
@pytest.mark.parametrize("c", [0, 1, 2, 5])
def test_a_stored_symmetric_matrix_times_vectors(level, dtype, n, c):
    module = importlib.import_module(f"mercer.core.{core.MODULES[level]}")
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
    module = importlib.import_module(f"mercer.core.{core.MODULES[level]}")
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
