"""Every routine of the native module on arguments that fit, whatever the numbers in them.

A generator gives arguments that the checks of a routine accept; then values are replaced by others
that are no reason for refusal, and arrays by equal ones laid out otherwise. `test_every_routine`
fails for a routine that no call came to the end of.
"""

from __future__ import annotations

import inspect
import itertools
import json

import numpy as np
import pytest

from fuzz.driver import fuzz
from mercer import core
from mercer.core import Kind, Op, Source

pytestmark = pytest.mark.usefixtures("native_level")
ODD = [0.0, -0.0, 1.0, -1.0, 1e-310, 1e300, -1e300, 2.0**31, 2.0**63, np.inf, -np.inf, np.nan]


class Case:
    """Random sizes and arrays of one call; ``odd`` is how many values are replaced in each."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.odd = int(rng.integers(0, 4)) * int(rng.integers(0, 2))
        self.threads = int(rng.integers(-1, 4))

    def size(self, least: int = 1, most: int = 40) -> int:
        return int(self.rng.choice([least, self.rng.integers(least, most + 1)]))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def some(self, value):
        """The value, or now and then none."""
        return value if self.flag() else None

    def number(self, *usual: float) -> float:
        return float(self.rng.choice([*usual, *ODD] if self.odd else usual))

    def real(self, *shape: int, dtype=np.float64, odd: bool = True) -> np.ndarray:
        A = self.rng.normal(size=shape) * self.rng.choice([1e-3, 1.0, 30.0])
        if self.flag():
            A = np.round(A)  # with ties
        if odd and A.size:
            A.ravel()[self.rng.integers(0, A.size, self.odd)] = self.rng.choice(ODD, self.odd)
        with np.errstate(all="ignore"):
            return self.form(A.astype(dtype))

    def form(self, A: np.ndarray) -> np.ndarray:
        """Equal numbers in memory that must not be written to, or are not at a round address."""
        how = self.rng.integers(3)
        if how == 0 and A.size:
            room = np.zeros(A.size + 1, A.dtype)
            room[1:] = A.ravel()
            A = room[1:].reshape(A.shape)
        if how == 1:
            A.setflags(write=False)
        return A

    def indices(self, n: int, size: int, dtype=np.int64) -> np.ndarray:
        return self.form(self.rng.integers(0, max(n, 1), size if n else 0).astype(dtype))

    def starts(self, parts: int, size: int) -> np.ndarray:
        inner = np.sort(self.rng.integers(0, size + 1, max(parts - 1, 0)))
        return np.array([0, *inner, size] if parts else [0], dtype=np.int64)


def pairs(case: Case, dtype, kinds=tuple(Kind), plain=False, blocks=True):
    """A class of pairs with one or two statistics, the sizes, and the widths and terms of rows."""
    n, m, d = case.size(1, 30), case.size(1, 70), case.size(1, 9)
    m = n if case.flag() else m
    leaves, operations, constants = [], [], []
    rows = [case.real(n, dtype=dtype) for _ in range(0 if plain else case.size(0, 2))]
    columns = [case.real(m, dtype=dtype) for _ in range(0 if plain else case.size(0, 2))]
    for kind in case.rng.choice(kinds, case.size(1, 1 if plain else 2)):
        kind = Kind(kind)
        even = kind in (Kind.DIFFERENCE_PRODUCT, Kind.SIGN_PRODUCT)
        X, Y = (case.real(k, d + d % 2 * even, dtype=dtype) for k in (n, m))
        norms = [case.real(k, dtype=dtype) for k in (n, m)] if kind is Kind.SQDIST else [None] * 2
        block = kind is Kind.GIVEN or (blocks and not plain and case.rng.integers(4) == 0)
        block = case.real(n, m, dtype=dtype) if block else None
        leaves.append((int(kind), X, Y, X, Y, *norms, block))
    for k in range(len(leaves), len(leaves) + case.size(0, 6)):
        op = case.rng.choice([o for o in Op if o not in (Op.ROW, Op.COLUMN)])
        source = Source.TILE
        out, a, b = k, *case.rng.integers(0, k, 2)
        if Op.ADD <= op <= Op.DIVIDE and (rows or columns) and not plain and case.flag():
            source = Source.ROW if rows else Source.COLUMN
            b = case.rng.integers(0, len(rows or columns))
        if op == Op.ACCUMULATE:
            out = a
            operations.append((int(Op.CONSTANT), k, 0, 0, 0))
            constants.append((1.0, 0.0))
        operations.append((int(op), out, a, b, int(source)))
        first = case.rng.integers(-3, 5) if op == Op.INTEGER_POWER else case.number(-0.5, 0.3, 2)
        constants.append((first, case.number(-0.5, 0.3, 2)))
    registers = len(leaves) + 12
    program = (
        np.array(operations, np.int32).reshape(-1, 5),
        np.array(constants, np.float64).reshape(-1, 2),
        registers,
        int(operations[-1][1]) if operations else 0,
    )
    name = "Pairs32" if dtype == np.float32 else "Pairs64"
    made = getattr(core._native(), name)(*program, leaves, rows, columns, n, m)
    widths = [(leaf[1].shape[1], leaf[5] is not None) for leaf in leaves]
    return made, n, m, (widths, len(rows))


def on_pairs(dtype, method):
    def call(case: Case) -> None:
        plain = method == "tree_sums"
        others = method == "product_at"
        kinds = [kind for kind in Kind if not (others and kind is Kind.GIVEN)]
        kinds = (Kind.SQDIST,) if plain else tuple(kinds)
        made, n, m, of_rows = pairs(case, dtype, kinds, plain, blocks=not others)
        c, threads = case.size(0, 20), case.threads
        matrix = {"V": case.real(m, c, dtype=dtype), "U": case.real(n, c, dtype=dtype)}
        if method == "gram":
            made.gram(np.empty((n, m), dtype), n == m and case.flag(), threads)
        elif method == "some_rows":
            count = case.size(0, 30)
            first, last = sorted(case.rng.integers(0, m + 1, 2).tolist())
            out = np.empty((count + 3, m), dtype)
            places = case.rng.permutation(count + 3)[:count]
            made.some_rows(case.indices(n, count), places, first, last, out, threads)
        elif method == "product":
            made.product(matrix["V"], threads)
        elif others:
            k, (widths, terms) = case.size(1, 30), of_rows
            points = [case.real(k, d, dtype=dtype) for d, _ in widths]
            norms = [case.real(k, dtype=dtype) if normed else None for _, normed in widths]
            rows = list(zip(points, points, norms, strict=True))
            for _ in range(2):  # the second time the columns are ready
                made.product_at(rows, [case.real(k, dtype=dtype)] * terms, k, matrix["V"], threads)
        elif method == "symmetric_product":
            if n == m:
                made.symmetric_product(matrix["V"], threads)
            else:
                made.product(matrix["V"], threads)
        elif method == "products":
            made.products(matrix["V"], matrix["U"], threads)
        elif method == "normal_product":
            weight = case.some(case.real(n, dtype=dtype))
            made.normal_product(matrix["V"], case.some(matrix["U"]), weight, threads)
        elif method == "log_sum_exp":
            made.log_sum_exp(case.some(case.real(m, dtype=dtype)), threads)
        elif method == "arg_min":
            where = made.arg_min(threads)[1]
            assert np.all((where >= 0) & (where < m))
        else:
            tolerance = case.rng.choice([0.0, 1e-6, np.inf], 2)
            made.tree_sums(case.real(m), *tolerance, threads)

    return call


def tall_times(case: Case) -> None:
    n, w, c = case.size(0), case.size(0), case.size(0, 9)
    transposed = case.flag()
    B = case.real(n if transposed else w, c)
    core._native().tall_times(case.real(n, w), B, transposed, case.threads)


def symmetry(case: Case) -> None:
    n, dtype = case.size(0), case.rng.choice([np.float32, np.float64])
    core._native().symmetry(case.real(n, n, dtype=dtype), case.threads)


def symmetric_times(case: Case) -> None:
    n, dtype = case.size(0), case.rng.choice([np.float32, np.float64])
    K, V = case.real(n, n, dtype=dtype), case.real(n, case.size(0, 9), dtype=dtype)
    core._native().symmetric_times(K, V, case.threads)


def krylov_steps(case: Case) -> None:
    n, width, steps = case.size(1), case.size(1, 3), case.size(0, 4)
    size = width + case.size(0, 5)
    room = size + steps * width + case.size(0, 3)
    basis, T = np.array(case.real(room, n)), np.array(case.real(room, room))
    K, centred = case.real(n, n), case.flag()
    taken, _ = core._native().krylov_steps(K, basis, T, size, width, steps, centred, case.threads)
    assert 0 <= taken <= steps


def visit(case: Case) -> None:
    sources, targets, machines = case.size(1, 9), case.size(1, 9), case.size(1, 3)
    steps = case.size(0, 30)
    rng, dtype = case.rng, case.rng.choice([np.float32, np.float64])
    queue = rng.permutation(sources)[: case.size(0, sources)].astype(np.int64)
    core._native().visit(
        case.real(sources, targets, dtype=dtype),
        case.real(targets, machines),
        np.array(case.real(machines, targets)),
        np.array(case.real(machines, sources)),
        case.some(np.array(case.real(machines))),
        case.indices(targets, steps),
        case.indices(sources, steps),
        case.real(steps),
        case.flag(),
        queue,
        int(rng.choice([-1, 1, 3, 100])),
    )


def graphs(case: Case):
    """Offsets, indptr, indices: ends need not have a counterpart, and may come twice."""
    count = case.size(0, 6)
    sizes = case.rng.integers(0, 8, count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    neighbours = []
    for g in range(count):
        for _ in range(sizes[g]):
            degree = case.rng.integers(0, 4)
            neighbours.append(case.rng.integers(offsets[g], offsets[g + 1], degree))
    indptr = np.concatenate([[0], np.cumsum([len(a) for a in neighbours])]).astype(np.int64)
    indices = np.concatenate([np.zeros(0, int), *neighbours]).astype(np.int32)
    return offsets, indptr, case.form(indices)


def codes(case: Case, size: int) -> np.ndarray:
    most = int(case.rng.choice([1, 3, 2**31 - 1]))
    return case.indices(most, size, np.int32)


def names(case: Case, n: int) -> np.ndarray:
    return case.rng.integers(0, 2**64, (n, 2), dtype=np.uint64, endpoint=False)


def refined(case: Case) -> None:
    offsets, indptr, indices = graphs(case)
    edges = case.size(1, 4)
    edge_codes = case.some(case.indices(edges, len(indices), np.int32))
    own = names(case, len(indptr) - 1), edge_codes, names(case, edges)
    core._native().refined(offsets, indptr, indices, *own, case.size(0, 4), case.threads)


def path_counts(case: Case) -> None:
    all_graphs = graphs(case)
    nodes = codes(case, len(all_graphs[1]) - 1)
    core._native().path_counts(*all_graphs, nodes, case.threads)


def labelled(case: Case):
    found = graphs(case)
    return *found, codes(case, len(found[1]) - 1), codes(case, len(found[2]))


def twice(case: Case, make):
    """Two things of a kind, or one twice, which is symmetric."""
    first = make(case)
    same = case.flag()
    return *first, *(first if same else make(case)), same


def walk_sums(case: Case) -> None:
    *both, symmetric = twice(case, labelled)
    decay = case.number(0.01, 0.1, 0.5)
    core._native().walk_sums(*both, decay, symmetric, case.threads)


def spectra(case: Case):
    size = case.size(0)
    return case.starts(case.size(1, 5), size), case.real(size), case.real(size)


def spectral_sums(case: Case) -> None:
    *both, symmetric = twice(case, spectra)
    core._native().spectral_sums(*both, case.number(0.01, 0.5), symmetric, case.threads)


def subgraph_counts(case: Case) -> None:
    core._native().subgraph_counts(*graphs(case), case.size(1, 5), case.threads)


def sparse_gram(case: Case) -> None:
    width = case.size(1, 60)

    def rows(case: Case):
        size = case.size(0, 80)
        return (
            case.starts(case.size(1, 9), size),
            case.indices(width, size, np.int32),
            case.real(size),
        )

    *both, symmetric = twice(case, rows)
    core._native().sparse_gram(*both, width, case.flag(), symmetric, case.threads)


def trees(case: Case):
    """Trees in post-order, whose keys give the number of children, or no match."""
    offsets, keys, children, child = [0], [], [0], []
    for _ in range(case.size(0, 4)):
        waiting: list[int] = []
        for left in reversed(range(case.size(1, 9))):
            arity = len(waiting) if left == 0 else int(case.rng.integers(0, len(waiting) + 1))
            child += waiting[len(waiting) - arity :]
            del waiting[len(waiting) - arity :]
            waiting.append(len(keys))
            keys.append(int(case.rng.choice([-1, 3 * arity, 2**31 - 1 - arity])))
            children.append(len(child))
        offsets.append(len(keys))
    whole = [np.array(values, np.int64) for values in (offsets, keys, children, child)]
    whole[1] = whole[1].astype(np.int32)
    return tuple(whole)


def tree_sums(case: Case) -> None:
    *both, symmetric = twice(case, trees)
    mu = case.some(case.number(0.3, 1.0))
    core._native().tree_sums(*both, case.number(0.4, 1.0), mu, symmetric, case.threads)


def boost(case: Case) -> None:
    folds, n, d, outputs = case.size(1, 3), case.size(1, 30), case.size(1, 5), case.size(1, 3)
    n_codes = case.rng.integers(1, 9, d).astype(np.int32)
    codes = (case.rng.integers(0, 256, (folds, d, n)) % n_codes[:, None]).astype(np.uint8)
    core._native().boost(
        codes,
        n_codes,
        case.real(n, outputs, dtype=np.float32),
        case.real(folds, n, dtype=np.float32),
        case.real(folds, n, dtype=np.float32),
        case.real(folds, n, outputs, dtype=np.float32),
        int(case.rng.integers(3)),
        case.size(0, 5),
        case.size(1, 8),
        case.size(1, 3),
        case.number(0.1, 1.0),
        case.number(1.0, 3.0),
        case.number(0.5, 1.0),
        case.number(0.5, 1.0),
        int(case.rng.integers(2**32)),
        case.threads,
    )


def questions(case: Case, d: int):
    """Features and thresholds of a few trees."""
    trees, depth = case.size(0, 5), case.size(1, 8)
    features = case.form(case.rng.integers(0, d, (trees, depth)).astype(np.int32))
    return features, case.real(trees, depth, dtype=np.float32)


def partition_leaves(case: Case) -> None:
    n, d = case.size(0), case.size(1, 5)
    points = case.real(n, d, dtype=np.float32)
    core._native().partition_leaves(points, *questions(case, d), case.threads)


def partition_sums(case: Case) -> None:
    n, d = case.size(0), case.size(1, 5)
    points = case.real(n, d, dtype=np.float32)
    features, thresholds = questions(case, d)
    values = case.real(len(features), 2 ** features.shape[1], case.size(1, 3), dtype=np.float32)
    core._native().partition_sums(points, features, thresholds, values, case.threads)


def smooth(case: Case):
    n, m, d = case.size(1, 30), case.size(1, 30), case.size(1, 6)
    own = None
    if case.flag():
        m, own = n, case.real(n)
    return n, m, d, (case.real(n, d), case.real(m, d), case.real(m), own)


def log_sums(case: Case) -> None:
    core._native().log_sums(*smooth(case)[-1], case.threads)


def local_moments(case: Case) -> None:
    _, m, _, points = smooth(case)
    Y = case.real(m, case.size(0, 3))
    core._native().local_moments(*points, Y, case.flag(), case.threads)


def local_slopes(case: Case) -> None:
    n, m, d, points = smooth(case)
    c, wide = case.size(0, 3), 1 + d * case.flag()
    rest = case.real(n), case.real(n, wide), case.real(n, c), case.real(n, wide)
    core._native().local_slopes(*points, case.real(m, c), *rest, case.threads)


def bin_linear(case: Case) -> None:
    n, d = case.size(0), case.size(1, 4)
    step = np.abs(case.real(d, odd=False)) + case.rng.choice([1e-3, 1e-300, 1e300])
    shape = case.rng.integers(2, 9, d).astype(np.int64)
    weight = case.some(case.real(n))
    core._native().bin_linear(case.real(n, d), weight, case.real(d), step, shape)


def program(case: Case):
    """Variables of points, with bounds around them."""
    points = case.size(2, 12)
    n = points * case.size(1, 2)
    a = np.array(case.real(n, odd=False))
    lo, hi = (a + sign * np.abs(case.real(n, odd=False)) for sign in (-1, 1))
    return points, n, a, lo, hi


def problem(case: Case):
    points, n, a, lo, hi = program(case)
    groups = case.size(0, 3)
    made = core._native().Problem(
        a,
        np.array(case.real(n)),
        case.real(n),
        case.form(lo),
        case.form(hi),
        case.indices(max(groups, 1), n, np.int32),
        groups,
        case.indices(points, points),
        case.some(case.form(case.rng.choice([-1.0, 1.0], n))),
        case.size(2, 10),
        case.number(1e-3, 1e-9),
        case.number(1e-12, 0.0),
    )
    return points, n, made


def on_problem(method):
    def call(case: Case) -> None:
        points, _, made = problem(case)
        dtype = case.rng.choice([np.float32, np.float64])
        if method == "__init__":
            return
        if method in ("violation", "tol", "set", "needed"):
            made.tol = case.number(1e-3)
            getattr(made, method)
        elif method == "measure":
            made.measure()
        elif method == "select":
            made.select()
        elif method == "follow":
            made.select()
            made.follow(case.real(points))
        else:
            made.select()
            size = len(made.set)
            made.work(case.real(size, size, dtype=dtype), case.size(0, 100))
            made.select()

    return call


def advance(case: Case) -> None:
    problems = [problem(case) for _ in range(case.size(1, 3))]
    dtype = case.rng.choice([np.float32, np.float64])
    most = max(points for points, _, _ in problems)
    A = case.real(most, most, dtype=dtype, odd=case.flag())
    with np.errstate(all="ignore"):
        K = np.ascontiguousarray(A @ A.T)
    slots = [np.array(case.rng.integers(-1, most, most)) for _ in problems]
    if case.flag():
        slots = [np.arange(most)] * len(problems)
    made = [made for _, _, made in problems]
    steps = [case.size(0, 200) for _ in problems]
    core._native().advance(made, K, slots, case.number(1.0, 1e6), steps, case.threads)


def solve_pairs(case: Case) -> None:
    rng, dtype = case.rng, case.rng.choice([np.float32, np.float64])
    classes = case.size(2, 4)
    sizes = rng.integers(1, 6, classes)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n, count = int(starts[-1]), classes * (classes - 1) // 2
    A = case.real(n, n, dtype=dtype)
    with np.errstate(all="ignore"):
        K = np.ascontiguousarray(A @ A.T)
    core._native().solve_pairs(
        K,
        starts,
        case.form(rng.permutation(n).astype(np.int64)),
        np.abs(case.real(n, odd=False)) + 0.1,
        rng.integers(2, 10, count),
        case.flag(),
        case.number(1e-3),
        case.number(1e-3, np.inf),
        case.size(0, 500),
        case.threads,
    )


def table(case: Case):
    width = case.size(1, 5)
    made = core._native().KeyTable(width)
    fill(case, made)
    return made


def fill(case: Case, made) -> None:
    size = case.size(0, 200)
    most = int(case.rng.choice([2, 30, 2**32]))
    keys = case.rng.integers(0, most, (size, made.width), dtype=np.uint32, endpoint=False)
    made.count_keys(case.form(keys), case.starts(case.size(1, 5), size), case.flag())


def on_table(method):
    def call(case: Case) -> None:
        made = table(case)
        if method == "count_keys":
            fill(case, made)
        elif method == "count_words":
            size, letters = case.size(0, 60), case.size(1, 5)
            steps = case.rng.integers(1, 3, (case.size(0, 3), made.width))
            offsets = np.cumsum(steps, axis=1) - steps[:, :1]
            symbols = case.indices(letters, size, np.uint32)
            starts = case.starts(case.size(1, 5), size)
            changes = case.size(0, min(2, made.width))
            made.count_words(symbols, starts, offsets, changes, letters, case.flag())
        elif method == "keys":
            assert len(made.keys()) == made.size
        elif method != "__init__":
            getattr(made, method)

    return call


def descent(method):
    def call(case: Case) -> None:
        points, n, a, lo, hi = program(case)
        width, size = case.size(1, 9), case.size(0, 40)
        groups = case.size(0, 3)
        made = core._native().CoordinateDescent(
            case.starts(points, size),
            case.indices(width, size, np.int32),
            case.real(size),
            width,
            a,
            case.real(n),
            case.form(lo),
            case.form(hi),
            case.some(case.form(case.rng.choice([-1.0, 1.0], n))),
            case.indices(groups, n, np.int32) if groups else None,
            case.real(groups),
            case.number(1e-3, 1e-9),
            int(case.rng.integers(0, 2**63)),
        )
        if method == "run":
            made.run(case.size(0, 30), case.number(0.05))
        elif method != "__init__":
            getattr(made, method)

    return call


def common_subsequences(case: Case) -> None:
    size, count, asked = case.size(0, 60), case.size(1, 6), case.size(0, 9)
    left, right = case.indices(count, asked), case.indices(count, asked)
    decay, length = case.number(0.5, 1.0), case.size(1, 6)
    starts, symbols = case.starts(count, size), case.real(size)
    core._native().common_subsequences(symbols, starts, left, right, length, decay, case.threads)


def common_windows(case: Case) -> None:
    def texts(case: Case):
        size = case.size(0, 60)
        return case.indices(int(case.rng.choice([2, 254])), size, np.uint8), case.starts(
            case.size(1, 5), size
        )

    *both, symmetric = twice(case, texts)
    k = int(case.rng.choice([1, 2, 3, 10, 254]))
    weight = case.real(case.size(1, k + 1))
    core._native().common_windows(*both, k, weight, symmetric, case.threads)


def weighted_degree(case: Case) -> None:
    n, m, length = case.size(0, 9), case.size(0, 9), case.size(0, 40)
    symmetric = case.flag()
    integers = case.flag()

    def words(rows: int):
        if integers:
            return case.form(case.rng.integers(-(2**15), 2**15, (rows, length)).astype(np.int16))
        return case.real(rows, length)

    degree = case.number(1.0, 3.0, 2.5) if not integers else float(case.rng.choice([1, 3, 100]))
    degree = degree if degree >= 1 else 1.0
    S = words(n)
    T = S if symmetric else words(m)
    shifts = case.real(case.size(1, max(length, 1)))
    core._native().weighted_degree(S, T, degree, shifts, symmetric, case.threads)


def texts(case: Case):
    letters, count, size = case.size(1, 300), case.size(1, 6), case.size(0, 200)
    return case.indices(letters, size, np.uint32), case.starts(count, size), letters, count


def suffixes(method):
    def call(case: Case) -> None:
        symbols, starts, letters, count = texts(case)
        depth = int(case.rng.choice([0, 1, 5, 10**15]))
        made = core._native().Suffixes(symbols, starts, letters, depth)
        if method == "rows":
            weight = case.real(min(depth, len(symbols)) + 1 + case.size(0, 3))
            made.rows(case.indices(count, case.size(0, 9)), weight, case.flag(), case.threads)

    return call


def substring_sum(method):
    def call(case: Case) -> None:
        symbols, starts, letters, count = texts(case)
        columns = case.size(1, 3)
        alpha, weight = case.real(count, columns), case.real(case.size(1, 9))
        made = core._native().SubstringSum(symbols, starts, letters, alpha, weight, case.flag())
        size = case.size(0, 60)
        new = case.indices(int(case.rng.choice([letters, 2**32])), size, np.uint32)
        if method == "values":
            made.values(new, case.starts(case.size(1, 4), size), case.threads)
        elif method == "along":
            made.along(new, case.threads)
        elif method == "heaviest":
            made.heaviest(int(case.rng.integers(columns)), int(case.rng.choice([0, 1, 5, 2**62])))

    return call


OF_PAIRS = (
    "product_at",
    *("gram", "some_rows", "product", "symmetric_product", "products"),
    *("normal_product", "log_sum_exp", "arg_min"),
)
ROUTINES = {
    "machine_level": lambda case: core._native().machine_level(),
    **{f"Pairs32.{name}": on_pairs(np.float32, name) for name in OF_PAIRS},
    **{f"Pairs64.{name}": on_pairs(np.float64, name) for name in (*OF_PAIRS, "tree_sums")},
    **{
        f"Problem.{name}": on_problem(name)
        for name in ("violation", "tol", "set", "needed", "select", "measure", "work", "follow")
    },
    **{
        f"KeyTable.{name}": on_table(name)
        for name in ("width", "size", "longest_probe", "keys", "count_keys", "count_words")
    },
    **{
        f"CoordinateDescent.{name}": descent(name)
        for name in ("rounds", "steps", "violation", "run")
    },
    "Suffixes.rows": suffixes("rows"),
    **{f"SubstringSum.{name}": substring_sum(name) for name in ("values", "along", "heaviest")},
    **{
        routine.__name__: routine
        for routine in (
            *(
                tall_times,
                symmetry,
                symmetric_times,
                krylov_steps,
                visit,
                refined,
                path_counts,
                walk_sums,
            ),
            *(spectral_sums, subgraph_counts, sparse_gram, tree_sums, log_sums, local_moments),
            *(local_slopes, bin_linear, advance, solve_pairs, common_subsequences),
            *(common_windows, weighted_degree, boost, partition_leaves, partition_sums),
        )
    },
}


def bound() -> set[str]:
    """All that the module offers, methods of classes included."""
    found = set()
    for name, value in vars(core._native()).items():
        if inspect.isclass(value):
            own = [member for member in vars(value) if not member.startswith("__")]
            found |= {f"{name}.{member}" for member in own}
        elif callable(value) and not name.startswith("__"):
            found.add(name)
    return found


def test_every_routine_has_a_generator(native_level):
    assert bound() == set(ROUTINES)


def make(rng: np.random.Generator) -> bytes:
    names = sorted(ROUTINES)
    return json.dumps([names[rng.integers(len(names))], int(rng.integers(2**32))]).encode()


def check(data: bytes) -> str:
    """Call a routine with the arguments of a seed; its name, if the checks let them through."""
    name, seed = json.loads(data)
    with np.errstate(all="ignore"):
        try:
            ROUTINES[name](Case(np.random.default_rng(seed)))
        except ValueError as error:
            return f"refused by {name}: {error}"
    return name


def test_every_routine(native_level):
    """Each is called once and more, and comes to its end in most calls."""
    turn = itertools.cycle(sorted(ROUTINES))

    def in_turn(rng: np.random.Generator) -> bytes:
        return json.dumps([next(turn), int(rng.integers(2**32))]).encode()

    outcomes = fuzz("native", in_turn, check, 20 * len(ROUTINES))
    entered = {name for name in outcomes if not name.startswith("refused")}
    assert entered == set(ROUTINES)
    refused = sum(n for name, n in outcomes.items() if name.startswith("refused"))
    assert refused <= sum(outcomes.values()) / 10
