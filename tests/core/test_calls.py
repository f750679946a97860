"""How the native module may be called: threads, processes, and arguments that are wrong."""

from __future__ import annotations

import multiprocessing
import threading
import time

import numpy as np
import pytest

from instruction_levels import LEVELS
from mercer.core import Kind, Leaf, Op
from native_pairs import DTYPES, GAUSSIAN, IDENTITY, build, gram, leaf, points, program

pytestmark = pytest.mark.skipif(not LEVELS, reason="no native module")


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


A, B = np.ones((3, 2)), np.ones((4, 2))
WRONG = {
    "nothing in the register": (
        "result is a register",
        program(registers=3, result=2),
        [leaf(Kind.DOT, A, B)],
        (),
        (),
    ),
    "nothing to add to": (
        "a sum to add to",
        program((Op.ACCUMULATE, 1, 0, 0, 1, 0), registers=2),
        [leaf(Kind.DOT, A, B)],
        (),
        (),
    ),
    "register out of range": (
        "operations read registers",
        program((Op.ADD, 0, 0, 9, 0, 0)),
        [leaf(Kind.DOT, A, B)],
        (),
        (),
    ),
    "negative register": (
        "operations write to registers",
        program((Op.ADD, -1, 0, 0, 0, 0)),
        [leaf(Kind.DOT, A, B)],
        (),
        (),
    ),
    "unknown operation": (
        "an operation that exists",
        program((99, 0, 0, 0, 0, 0)),
        [leaf(Kind.DOT, A, B)],
        (),
        (),
    ),
    "result out of range": (
        "result is a register",
        program(result=5),
        [leaf(Kind.DOT, A, B)],
        (),
        (),
    ),
    "too many leaves": (
        "a register for each statistic",
        program(),
        [leaf(Kind.DOT, A, B)] * 2,
        (),
        (),
    ),
    "no such row term": (
        "a row term that exists",
        program((Op.ROW, 0, 0, 0, 0, 0)),
        [leaf(Kind.DOT, A, B)],
        (),
        (),
    ),
    "short row term": (
        "a row term has n entries",
        program((Op.ROW, 0, 0, 0, 0, 0)),
        [leaf(Kind.DOT, A, B)],
        (np.ones(2),),
        (),
    ),
    "long column term": (
        "a column term has m entries",
        IDENTITY,
        [leaf(Kind.DOT, A, B)],
        (),
        (np.ones(9),),
    ),
    "widths differ": ("X is .n, d. and Y", IDENTITY, [leaf(Kind.DOT, A, np.ones((4, 3)))], (), ()),
    "wrong number of points": ("X is .n, d. and Y", IDENTITY, [leaf(Kind.DOT, B, B)], (), ()),
    "no block": ("a block is needed", IDENTITY, [leaf(Kind.GIVEN, A, B)], (), ()),
    "block of another shape": (
        "a block is .n, m.",
        IDENTITY,
        [leaf(Kind.GIVEN, A, B, np.ones((4, 3)))],
        (),
        (),
    ),
    "odd tangents": (
        "points with their tangents",
        IDENTITY,
        [leaf(Kind.SIGN_PRODUCT, A[:, :1].copy(), B[:, :1].copy())],
        (),
        (),
    ),
    "no norms": (
        "need the norms of X",
        IDENTITY,
        [Leaf(Kind.SQDIST, *[np.ones((k, 9)) for k in (3, 4, 3, 4)])],
        (),
        (),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case):
    expected, steps, leaves, rows, columns = WRONG[case]
    with pytest.raises(ValueError, match=expected):
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
