"""The native module against its NumPy twin, at every instruction-set level this machine runs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from instruction_levels import LEVELS
from mercer.core import Kind, Leaf, Op, Source
from mercer.core.reference import interpreter as reference
from native_pairs import DTYPES, EPS, IDENTITY, KINDS, build, gram, leaf, points, program

pytestmark = pytest.mark.skipif(not LEVELS, reason="no native module")


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


def nans(dtype):
    """Some of the many, of either sign; R's missing value is one with 1954 in its low bits."""
    low = np.array([0, 1, 2, 127, 255, 1023, 1954, 12345, -1])
    words = np.array([np.nan, -np.nan], dtype).view(f"i{np.dtype(dtype).itemsize}")
    return (words[:, None] | low.astype(words.dtype)).ravel().view(dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("op", "c"),
    [
        (Op.EXP, 1.0),
        (Op.EXP_NEGATIVE, -1.0),
        (Op.TANH, 1.0),
        (Op.AFFINE, 1.0),
        (Op.LOG, 1.0),
        (Op.SQRT, 1.0),
        (Op.REAL_POWER, 0.3),
        (Op.REAL_POWER, -1.5),
    ],
)
def test_what_is_not_a_number_stays_so(level, dtype, op, c):
    x = np.concatenate([nans(dtype), np.array([np.inf, 0.0], dtype)])
    if op not in (Op.EXP_NEGATIVE, Op.REAL_POWER):
        x = np.append(x, dtype(-np.inf))
    m = len(x)
    zeros = [np.zeros((k, 1), dtype) for k in (1, m, 1, m)]
    given = Leaf(Kind.GIVEN, *zeros, None, None, x[None])
    native, twin = build(level, program((op, 0, 0, 0, c, 0.0)), [given], n=1, m=m, dtype=dtype)
    np.testing.assert_array_equal(gram(native, 1, m, dtype), gram(twin, 1, m, dtype))


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
    "a root before": [(Op.SQRT, 3, 0, 0), (Op.EXP_NEGATIVE, 3, 3, 0), (Op.ADD, 2, 3, 2)],
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
    "an affine function after": [(Op.EXP_NEGATIVE, 3, 0, 0), (Op.AFFINE, 2, 3, 0)],
    "with terms": [(Op.ADD, 3, 0, 0, Source.ROW), (Op.ADD, 2, 3, 0, Source.COLUMN)],
    "term and value": [(Op.DIVIDE, 3, 0, 1), (Op.ACCUMULATE, 2, 3, 0, Source.ROW)],
    "term before": [(Op.ADD, 3, 0, 0, Source.COLUMN), (Op.EXP, 2, 3, 0)],
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("plain", [False, True])
def test_operations_that_may_go_in_one_pass(level, dtype, name, plain):
    rng = np.random.default_rng(5)
    X, Y = (points(rng, k, 6, dtype, Kind.CHI2) for k in (40, 150))
    f, g = rng.random(40).astype(dtype) + 1, rng.random(150).astype(dtype) + 1
    constants = {Op.INTEGER_POWER: (3.0, 0.0), Op.EXP_NEGATIVE: (-0.4, 0.0), Op.ADD: (0.7, 0.3)}
    if plain:  # numbers that nothing is multiplied by
        constants |= {Op.ADD: (1.0, 1.0), Op.MULTIPLY: (1.0, 0.0), Op.ACCUMULATE: (1.0, 0.0)}
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


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nu", [1.5, 2.5])
@pytest.mark.parametrize("added", [False, True])
def test_matern_where_squares_overflow(level, dtype, nu, added):
    t = (2 * nu) ** 0.5
    bracket = [(Op.AFFINE, 2, 1, 0, t if nu == 1.5 else t / 3, 1.0)]
    if nu == 2.5:
        bracket += [(Op.MULTIPLY, 2, 1, 2, t, 1.0)]
    matern = program(
        (Op.CONSTANT, 3, 0, 0, 0.25, 0.0),
        (Op.SQRT, 1, 0, 0, 0.0, 0.0),
        *bracket,
        (Op.EXP_NEGATIVE, 1, 1, 0, -t, 0.0),
        (Op.ACCUMULATE if added else Op.MULTIPLY, 3, 1, 2, 1.0, 0.0),
        registers=4,
        result=3,
    )
    far = np.sqrt(np.finfo(dtype).max) * 8
    X = np.array([0.0, 1.0, 2.5, 40.0, far, -far, far * 2], dtype)[:, None]
    native, twin = build(level, matern, [leaf(Kind.SQDIST, X, X)], n=7, m=7, dtype=dtype)
    found, start = gram(native, 7, 7, dtype), 0.25 * added
    expected = gram(twin, 7, 7, dtype)
    np.testing.assert_allclose(found[:4, :4], expected[:4, :4], rtol=60 * EPS[dtype], atol=1e-30)
    far_apart = X != X.T
    far_apart[:4, :4] = False
    assert np.all(found[far_apart] == start)
    np.testing.assert_allclose(np.diagonal(found), 1 + start)


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


def test_tanh_takes_a_factor_and_a_shift():
    X = np.random.default_rng(19).normal(size=(20, 5))
    native, twin = build(
        LEVELS[-1], program((Op.TANH, 0, 0, 0, 0.3, 0.5)), [leaf(Kind.DOT, X, X)], n=20, m=20
    )
    np.testing.assert_allclose(gram(native, 20, 20, float), gram(twin, 20, 20, float), rtol=1e-13)


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
