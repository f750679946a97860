"""Whatever is thrown at the binding is refused in words or gives what the NumPy twin gives."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mercer import core
from mercer.core import Kind, Leaf, Op, Program, Source
from mercer.core.reference import interpreter as reference

pytestmark = pytest.mark.usefixtures("native_level")
TRIES = 60 * int(os.environ.get("MERCER_TEST_LENGTH", "1"))
fuzz = settings(
    max_examples=TRIES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
ODD = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-300,
    1e300,
    3.4e38,
    np.inf,
    -np.inf,
    np.nan,
    2.0**31,
    -(2.0**31),
]


def points(rng, n, d, kind, dtype):
    X = rng.normal(size=(n, d))
    return np.ascontiguousarray(np.abs(X) if kind in (Kind.MINSUM, Kind.CHI2) else X, dtype)


def leaf(rng, kind, n, m, d, dtype, with_block=False):
    d += d % 2 if kind in (Kind.DIFFERENCE_PRODUCT, Kind.SIGN_PRODUCT) else 0
    X, Y = points(rng, n, d, kind, dtype), points(rng, m, d, kind, dtype)
    norms = [np.einsum("ij,ij->i", A, A) for A in (X, Y)] if kind is Kind.SQDIST else [None, None]
    block = None
    if kind is Kind.GIVEN or with_block:
        block = np.ascontiguousarray(X @ Y.T)
    return Leaf(kind, X, Y, X, Y, *norms, block)


def random_program(draw, n_leaves, n_rows, n_columns):
    """A program that reads only what has been written, with arguments inside each domain."""
    registers = draw(st.integers(max(n_leaves, 1), n_leaves + 4))
    written, operations, constants = list(range(n_leaves)), [], []

    def emit(op, out, a=0, b=0, source=Source.TILE, c=0.0, d=0.0):
        operations.append((int(op), out, a, b, int(source)))
        constants.append((c, d))
        if out not in written:
            written.append(out)

    def near_matern():
        """A root, its bracket, its exponential and their product; now and then another register."""

        def mostly(register):
            return draw(st.sampled_from([register] * 10 + written))

        root, bracket = draw(st.integers(0, registers - 1)), draw(st.integers(0, registers - 1))
        scale = st.sampled_from([1.0, -0.5, 0.3])
        start = draw(st.sampled_from(written))
        emit(Op.MULTIPLY, root, start, start, c=1.0, d=0.25)
        emit(Op.SQRT, root, root)
        emit(Op.AFFINE, bracket, mostly(root), c=draw(scale), d=draw(scale))
        if draw(st.booleans()):
            emit(Op.MULTIPLY, mostly(bracket), mostly(root), mostly(bracket), c=draw(scale), d=0.7)
        emit(Op.EXP_NEGATIVE, mostly(root), mostly(root), c=-0.4)
        last, end = draw(st.sampled_from([Op.MULTIPLY, Op.ACCUMULATE])), mostly(bracket)
        factors = draw(st.permutations([mostly(root), mostly(bracket)]))
        emit(last, end, *factors, c=draw(scale), d=draw(scale))

    for _ in range(draw(st.integers(0 if n_leaves else 1, 8))):
        if written and draw(st.integers(0, 3)) == 0:
            near_matern()
            continue
        out = draw(st.integers(0, registers - 1))
        first = [Op.CONSTANT] + [Op.ROW] * bool(n_rows) + [Op.COLUMN] * bool(n_columns)
        op = draw(st.sampled_from(first if not written else [*Op]))
        c, d = (draw(st.floats(-2, 2).filter(lambda c: c == 0 or abs(c) > 1e-3)) for _ in range(2))
        if op is Op.ROW or op is Op.COLUMN:
            count = n_rows if op is Op.ROW else n_columns
            if count:
                emit(op, out, draw(st.integers(0, count - 1)))
            continue
        if op is Op.CONSTANT:
            emit(op, out, draw(st.integers(-9, 9)), c=c)  # which reads nothing
            continue
        a = draw(st.sampled_from(written))
        if op is Op.INTEGER_POWER:
            emit(op, out, a, c=float(draw(st.integers(-3, 5))))
        elif op in (Op.SQRT, Op.LOG, Op.REAL_POWER, Op.INVERSE_SQRT, Op.EXP_NEGATIVE):
            emit(Op.MULTIPLY, out, a, a, c=1.0, d=0.5)  # neither negative nor zero
            emit(op, out, out, c=-abs(c) if op is Op.EXP_NEGATIVE else c or 1.0)
        elif op in (Op.ADD, Op.MULTIPLY, Op.ACCUMULATE, Op.DIVIDE):
            out = draw(st.sampled_from(written)) if op is Op.ACCUMULATE else out
            limits = {Source.TILE: 0, Source.ROW: n_rows, Source.COLUMN: n_columns}
            source = draw(st.sampled_from([k for k in Source if k is Source.TILE or limits[k]]))
            b = draw(st.sampled_from(written if source is Source.TILE else range(limits[source])))
            emit(op, out, a, b, source, c, d)
        else:
            emit(op, out, a, c=c, d=d if op in (Op.AFFINE, Op.TANH) else 0.0)
    return Program(
        np.array(operations, dtype=np.int32).reshape(-1, 5),
        np.array(constants, dtype=np.float64).reshape(-1, 2),
        registers,
        draw(st.sampled_from(written)),
    )


def conditioned(program, leaves, rows, columns, n, m):
    """The values in double, how far a relative error of 1 in each step could carry them, and where
    all steps stay well inside the range of float32."""
    wide = [widened(a, n, m) for a in leaves]
    terms = [[t.astype(float) for t in side] for side in (rows, columns)]
    base = reference.Pairs(program, wide, *terms, n, m, np.dtype(float))
    exact = base._tile(slice(0, n), slice(0, m)).astype(float)
    shaken, tame = zip(*(shake(program, base, n, m, seed) for seed in range(6)), strict=True)
    return exact, np.max(np.abs(np.array(shaken) - exact), axis=0) / 1e-10, np.all(tame, axis=0)


def widened(leaf, n, m):
    """A leaf in double; what is counted of bits is known."""
    if leaf.kind in (Kind.COMMON, Kind.DIFFERENT):
        block = reference.statistic(leaf, slice(0, n), slice(0, m))
        leaf = Leaf(Kind.GIVEN, *[np.zeros((k, 1)) for k in (n, m)] * 2, block=block)
    return Leaf(leaf.kind, *[None if A is None else A.astype(float) for A in leaf[1:]])


def size_of(leaf):
    """A bound of the terms that a statistic is made of, before they cancel."""
    if leaf.kind is Kind.CONJUNCTION:
        return reference.over_features(
            np.abs(leaf.X), np.abs(leaf.Y), reference.multiply_conjunct, start=1.0
        )
    largest = sum(np.abs(A).max(initial=0.0) for A in (leaf.X, leaf.Y))
    return leaf.X.shape[1] * (largest + largest**2)


def shake(program, base, n, m, seed):
    """The program run step by step, every register disturbed by 1e-10 after each."""
    rng = np.random.default_rng(seed)

    def disturbed(values, size=None):
        size = values if size is None else size
        return values + 1e-10 * size * rng.choice([-1.0, 1.0], size=np.shape(values))

    everything = slice(0, n), slice(0, m)
    registers = [disturbed(reference.statistic(a, *everything), size_of(a)) for a in base.leaves]
    registers += [np.zeros((n, m))] * (program.registers - len(registers))
    tame = np.all([moderate(values) for values in registers], axis=0)
    for operation, constant in zip(program.operations, program.constants, strict=True):
        step = Program(operation[None], constant[None], program.registers, int(operation[1]))
        out = reference.run(step, registers, base.row_terms, base.column_terms, (n, m), float)
        registers[operation[1]] = disturbed(np.array(out))
        tame &= moderate(out)
    return registers[program.result], tame


def moderate(values):
    return (values == 0) | ((np.abs(values) > 1e-15) & (np.abs(values) < 1e15))


@given(st.data())
@fuzz
def test_any_program_gives_what_the_twin_gives(data):
    draw = data.draw
    dtype = draw(st.sampled_from(DTYPES))
    n, m = draw(st.integers(1, 40)), draw(st.integers(1, 140))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = draw(st.lists(st.sampled_from(Kind), max_size=3))
    leaves = [leaf(rng, k, n, m, draw(st.integers(0, 9)), dtype) for k in kinds]
    rows = [rng.normal(size=n).astype(dtype) for _ in range(draw(st.integers(0, 2)))]
    columns = [rng.normal(size=m).astype(dtype) for _ in range(draw(st.integers(0, 2)))]
    program = random_program(draw, len(leaves), len(rows), len(columns))
    threads = draw(st.integers(-2, 9))
    pairs = core.pairs(program, leaves, rows, columns, n, m, dtype)
    found = np.empty((n, m), dtype)
    pairs.gram(found, False, threads)
    with np.errstate(all="ignore"):
        exact, spread, tame = conditioned(program, leaves, rows, columns, n, m)
    limit = np.finfo(dtype)
    tame &= spread < 1e-3 / limit.eps
    error = np.abs(found[tame].astype(float) - exact[tame])
    allowed = 100 * limit.eps * (spread + np.abs(exact))[tame] + 1e-30
    assert np.all(error <= allowed)

    again = np.empty((n, m), dtype)
    pairs.gram(again, False, draw(st.integers(0, 4)))
    np.testing.assert_array_equal(again, found)
    rows = rng.integers(0, n, draw(st.integers(0, 40)))
    first, last = sorted(rng.integers(0, m + 1, 2).tolist())
    some = np.full((len(rows), m), np.nan, dtype)
    pairs.some_rows(rows, np.arange(len(rows)), first, last, some, threads)
    np.testing.assert_array_equal(some[:, first:last], found[rows, first:last])
    if np.all(np.abs(found) < 1e15):
        check_products(pairs, found.astype(float), rng, dtype, draw(st.integers(0, 20)), threads)
        check_reductions(pairs, found.astype(float), dtype, threads)


def check_products(pairs, K, rng, dtype, c, threads):
    n, m = K.shape
    V, U = (rng.normal(size=(k, c)).astype(dtype) for k in (m, n))
    out, side = pairs.products(V, U, threads)
    tolerance, least = 30 * np.finfo(dtype).eps, np.finfo(dtype).tiny  # what may underflow
    assert np.all(np.abs(out - K @ V) <= tolerance * (np.abs(K) @ np.abs(V)) + least)
    assert np.all(np.abs(side - K.T @ U) <= tolerance * (np.abs(K.T) @ np.abs(U)) + least)
    found = pairs.product(V, threads)
    assert np.all(np.abs(found - K @ V) <= tolerance * (np.abs(K) @ np.abs(V)) + least)


def check_reductions(pairs, K, dtype, threads):
    least, where = pairs.arg_min(threads)
    np.testing.assert_array_equal(least, K.min(axis=1))
    np.testing.assert_array_equal(where, K.argmin(axis=1))
    top = K.max(axis=1)
    expected = top + np.log(np.exp(K - top[:, None]).sum(axis=1))
    tolerance = 30 * np.finfo(dtype).eps * (1 + np.abs(K).max())
    np.testing.assert_allclose(pairs.log_sum_exp(None, threads), expected, rtol=0, atol=tolerance)


@given(st.data())
@fuzz
def test_any_numbers_for_a_program_are_refused_or_run(data):
    draw = data.draw
    dtype = draw(st.sampled_from(DTYPES))
    n, m, length = draw(st.integers(1, 30)), draw(st.integers(1, 70)), draw(st.integers(0, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    leaves = [
        leaf(rng, k, n, m, 3, dtype) for k in draw(st.lists(st.sampled_from(Kind), max_size=2))
    ]
    number = st.integers(-2, 5) | st.sampled_from([-(2**31), 2**31 - 1, 65536])
    constant = st.sampled_from(ODD) | st.floats(width=64)
    operations = [
        (draw(st.integers(-2, 16)), *(draw(number) for _ in range(3)), draw(st.integers(-1, 3)))
        for _ in range(length)
    ]
    constants = [(draw(constant), draw(constant)) for _ in range(length)]
    program = Program(
        np.array(operations, dtype=np.int32).reshape(-1, 5),
        np.array(constants, dtype=np.float64).reshape(-1, 2),
        draw(number),
        draw(number),
    )
    ones = [np.ones(n, dtype)], [np.ones(m, dtype)]
    try:
        pairs = core.pairs(program, leaves, *ones, n, m, dtype)
    except ValueError:
        return
    out = np.empty((n, m), dtype)
    pairs.gram(out, n == m, draw(st.integers(-1, 3)))
    assert pairs.product(np.ones((m, 2), dtype), 1).shape == (n, 2)
    assert pairs.log_sum_exp(None, 1).shape == (n,)
    where = pairs.arg_min(2)[1]
    assert np.all((where >= 0) & (where < m))


def frozen(A):
    A = A.copy()
    A.setflags(write=False)
    return A


def unaligned(A):
    buffer = bytearray(A.nbytes + 1)
    B = np.frombuffer(buffer, np.uint8, A.nbytes, 1).view(A.dtype).reshape(A.shape)
    B[...] = A
    return B


def strided(A):
    wide = np.zeros((*A.shape, 512), A.dtype)
    wide[..., 0] = A
    return wide[..., 0]


FORMS = {
    "as it is": lambda A: A,
    "read-only": frozen,
    "strided": strided,
    "reversed": lambda A: A[::-1].copy()[::-1],
    "Fortran": np.asfortranarray,
    "every other": lambda A: np.repeat(A, 2, axis=0)[::2],
    "broadcast": lambda A: np.broadcast_to(A.ravel()[:1] if A.size else A, A.shape),
    "byte-swapped": lambda A: A.astype(A.dtype.newbyteorder()),
    "unaligned": unaligned,
    "other float": lambda A: A.astype(np.float32 if A.dtype == np.float64 else np.float64),
    "half": lambda A: A.astype(np.float16),
    "long double": lambda A: A.astype(np.longdouble),
    "integer": lambda A: np.ones(A.shape, np.int64),
    "complex": lambda A: A.astype(complex),
    "object": lambda A: A.astype(object),
    "list": lambda A: A.tolist(),
    "empty": lambda A: A[:0],
    "no dimension": lambda A: A.dtype.type(1.0) + np.zeros((), A.dtype),
    "one dimension more": lambda A: A[..., None],
    "one dimension less": lambda A: A.ravel(),
    "one row less": lambda A: A[1:],
    "one row more": lambda A: np.concatenate([A, A[:1]]),
    "nothing": lambda A: None,
    "text": lambda A: "abc",
}


def disguise(draw, A):
    """The same numbers in memory laid out, typed or guarded otherwise; or another shape."""
    return FORMS[draw(st.sampled_from(sorted(FORMS)))](A)


def same(A, B):
    """Whether two arguments are the same numbers to a binding that converts nothing."""
    return isinstance(B, np.ndarray) and A.shape == B.shape and np.array_equal(A, B)


@given(st.data())
@fuzz
def test_any_arrays_are_refused_or_read_rightly(data):
    draw = data.draw
    dtype = draw(st.sampled_from(DTYPES))
    n, m, d = draw(st.integers(1, 30)), draw(st.integers(1, 70)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from([k for k in Kind if k is not Kind.GIVEN]))
    clean = leaf(rng, kind, n, m, d, dtype, draw(st.booleans()))
    fields = ["X", "Y", "X_given", "Y_given", "X_norms", "Y_norms", "block"]
    field = draw(st.sampled_from([f for f in fields if getattr(clean, f) is not None]))
    wrong = disguise(draw, getattr(clean, field))
    add = [(Op.ADD, 0, 0, 0, source) for source in (Source.ROW, Source.COLUMN)]
    program = Program(np.array(add, dtype=np.int32), np.ones((2, 2)), 1, 0)
    terms = [rng.normal(size=k).astype(dtype) for k in (n, m)]
    expected = np.empty((n, m), dtype)
    core.pairs(program, [clean], terms[:1], terms[1:], n, m, dtype).gram(expected, False, 0)

    try:
        pairs = core.pairs(
            program, [clean._replace(**{field: wrong})], terms[:1], terms[1:], n, m, dtype
        )
    except (TypeError, ValueError):
        pass
    else:
        found = np.empty((n, m), dtype)
        pairs.gram(found, False, 1)
        if same(getattr(clean, field), wrong):
            np.testing.assert_array_equal(found, expected)

    pairs = core.pairs(program, [clean], terms[:1], terms[1:], n, m, dtype)
    V = rng.normal(size=(m, 2)).astype(dtype)
    other = disguise(draw, V)
    try:
        found = pairs.product(other, 1)
    except (TypeError, ValueError):
        assert not (
            same(V, other)
            and other.dtype == V.dtype
            and other.flags.c_contiguous
            and other.flags.aligned
        )
    else:
        assert isinstance(other, np.ndarray)
        assert len(other) == m
        np.testing.assert_array_equal(found, pairs.product(np.array(other, order="C"), 1))
    out = disguise(draw, expected)
    try:
        pairs.gram(out, False, 1)
    except (TypeError, ValueError):
        pass
    else:
        assert out.flags.writeable
        np.testing.assert_array_equal(out, expected)
