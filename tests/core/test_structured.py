"""Graphs, trees and sparse rows in the core: the native routines against their twins."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer import core
from mercer.core.reference import graphs as graph_twin
from mercer.core.reference import sparse as sparse_twin
from mercer.core.reference import trees as tree_twin


def random_graphs(seed, count=12, largest=14, labels=3, edge_labels=2, density=0.25):
    """(offsets, indptr, indices), node codes and edge codes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, largest + 1, count)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    rows, columns, codes = [], [], []
    for n, start in zip(sizes, offsets, strict=False):
        upper = np.triu(rng.random((n, n)) < density, 1)
        kinds = rng.integers(0, edge_labels, (n, n))
        i, j = np.nonzero(upper | upper.T)
        rows.append(i + start)
        columns.append(j + start)
        codes.append(np.where(i < j, kinds[i, j], kinds[j, i]))
    rows, columns, codes = (np.concatenate(part) for part in (rows, columns, codes))
    indptr = np.searchsorted(rows, np.arange(offsets[-1] + 1))
    return (
        (offsets, indptr, columns.astype(np.int32)),
        rng.integers(0, labels, offsets[-1]).astype(np.int32),
        codes.astype(np.int32),
    )


def random_names(seed, n):
    return np.random.default_rng(seed).integers(0, 2**64, (n, 2), dtype=np.uint64)


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("labelled", [False, True])
def test_refined_names(native_level, threads, labelled):
    structure, codes, edges = random_graphs(0, count=200)
    names, edge_names = random_names(1, 3)[codes], random_names(2, 2 if labelled else 1)
    arguments = (*structure, names, edges if labelled else None, edge_names, 4)
    found = core.graph_routines().refined(*arguments, threads)
    assert_array_equal(found, graph_twin.refined(*arguments))
    assert found.shape == (5, len(codes), 2)


def test_one_edge_label_is_no_edge_label(native_level):
    structure, codes, edges = random_graphs(3, edge_labels=1)
    names, edge_names = random_names(1, 3)[codes], random_names(2, 1)
    refined = core.graph_routines().refined
    assert_array_equal(
        refined(*structure, names, edges, edge_names, 3, 0),
        refined(*structure, names, None, edge_names, 3, 0),
    )


def test_names_that_are_close_are_mixed_apart():
    """Any bit of any input changes half of the bits of the name."""
    first, second = random_names(4, 1), random_names(5, 1)
    number = np.array([7], dtype=np.uint64)
    base = graph_twin.mixed(first, second, number)
    for which in range(2):
        for column in range(2):
            for bit in range(64):
                changed = [first.copy(), second.copy()]
                changed[which][0, column] ^= np.uint64(1) << np.uint64(bit)
                different = graph_twin.mixed(*changed, number) ^ base
                assert 30 < sum(int(x).bit_count() for x in different[0]) < 98
    assert not np.array_equal(graph_twin.mixed(second, first, number), base)


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("labels", [1, 3, 60])
def test_path_counts(native_level, threads, labels):
    structure, codes, _ = random_graphs(6, count=40, largest=40, labels=labels, density=0.08)
    found = core.graph_routines().path_counts(*structure, codes, threads)
    for a, b in zip(found, graph_twin.path_counts(*structure, codes), strict=True):
        assert_array_equal(a, b)
        assert a.dtype == b.dtype


def test_paths_in_a_graph_with_too_many_labels_for_an_array(native_level):
    n = 300
    structure = (
        np.array([0, n]),
        np.concatenate(([0], np.arange(1, 2 * n - 2, 2), [2 * n - 2])),
        np.array([j for i in range(n) for j in (i - 1, i + 1) if 0 <= j < n], dtype=np.int32),
    )
    codes = np.arange(n, dtype=np.int32)[::-1].copy()
    keys, counts, starts = core.graph_routines().path_counts(*structure, codes, 0)
    assert len(keys) == n * (n - 1)
    assert_array_equal(counts, 1)
    assert_array_equal(keys[:, 2], np.abs(keys[:, 0].astype(int) - keys[:, 1].astype(int)))
    assert_array_equal(starts, [0, n * (n - 1)])


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("edge_labels", [1, 3])
def test_walk_sums(native_level, threads, edge_labels):
    first = random_graphs(7, edge_labels=edge_labels)
    second = random_graphs(8, count=5, edge_labels=edge_labels)
    sides = [(*structure, codes, edges) for structure, codes, edges in (first, second)]
    routine = core.graph_routines().walk_sums
    K = routine(*sides[0], *sides[1], 0.01, False, threads)
    assert_allclose(K, graph_twin.walk_sums(*sides[0], *sides[1], 0.01, False), rtol=1e-12)
    K = routine(*sides[0], *sides[0], 0.01, True, threads)
    assert_array_equal(K, K.T)
    assert_allclose(K, graph_twin.walk_sums(*sides[0], *sides[0], 0.01, False), rtol=1e-12)
    assert_allclose(K, graph_twin.walk_sums(*sides[0], *sides[0], 0.01, True), rtol=1e-12)


@pytest.mark.parametrize("threads", [0, 2])
def test_spectral_sums(native_level, threads):
    rng = np.random.default_rng(9)
    sides = []
    for count in (7, 4):
        offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 30, count))))
        sides.append((offsets, rng.normal(size=offsets[-1]), rng.random(offsets[-1])))
    routine = core.graph_routines().spectral_sums
    found = routine(*sides[0], *sides[1], 0.05, False, threads)
    assert_allclose(found, graph_twin.spectral_sums(*sides[0], *sides[1], 0.05, False), rtol=1e-12)
    found = routine(*sides[0], *sides[0], 0.05, True, threads)
    assert_allclose(found, graph_twin.spectral_sums(*sides[0], *sides[0], 0.05, True), rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_subgraph_counts(native_level, size):
    structure, _, _ = random_graphs(10, count=15, largest=9, density=0.4)
    found = core.graph_routines().subgraph_counts(*structure, size, 2)
    expected = graph_twin.subgraph_counts(*structure, size)
    assert found.shape == expected.shape
    # The order of a set's nodes is open, so patterns are compared up to it: by number of edges.
    start = 0
    for s in range(1, size + 1):
        width = 1 << s * (s - 1) // 2
        edges = np.array([p.bit_count() for p in range(width)])
        for k in range(s * (s - 1) // 2 + 1):
            columns = start + np.flatnonzero(edges == k)
            assert_array_equal(found[:, columns].sum(axis=1), expected[:, columns].sum(axis=1))
        start += width


def random_rows(seed, n, width, density):
    rng = np.random.default_rng(seed)
    A = sp.csr_array(rng.integers(1, 6, (n, width)) * (rng.random((n, width)) < density))
    return A, (A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data.astype(float))


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("density", [0.02, 0.5])
@pytest.mark.parametrize("minimum", [False, True])
@pytest.mark.parametrize("rows", [(33, 21), (3, 700)])
def test_sparse_gram(native_level, threads, density, minimum, rows):
    A, first = random_rows(11, rows[0], 40, density)
    B, second = random_rows(12, rows[1], 40, density)
    found = core.sparse_routines().sparse_gram(*first, *second, 40, minimum, False, threads)
    a, b = A.toarray()[:, None], B.toarray()[None]
    assert_array_equal(found, (np.minimum(a, b) if minimum else a * b).sum(axis=2))
    assert_array_equal(found, sparse_twin.sparse_gram(*first, *second, 40, minimum, False))


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("minimum", [False, True])
@pytest.mark.parametrize("factor", [1.0, 0.3, 2.0**12])
def test_sparse_gram_of_the_same_rows(native_level, threads, minimum, factor):
    # Columns of every frequency: kept in panels, in lists, and met by a single row.
    rng = np.random.default_rng(13)
    n, width = 1001, 60
    A = rng.integers(1, 6, (n, width)) * (rng.random((n, width)) < np.geomspace(1e-3, 1, width))
    A[0], A[17] = 1, 0
    rows = sp.csr_array(A * factor)
    sides = 2 * (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
    found = core.sparse_routines().sparse_gram(*sides, width, minimum, True, threads)
    expected = sparse_twin.sparse_gram(*sides, width, minimum, True)
    assert_allclose(found, expected, rtol=1e-14 if factor == 0.3 else 0)
    assert_array_equal(found, found.T)


def test_sparse_gram_of_few_wide_rows(native_level):
    """Panels have room for many rows; two rows with many columns must not fill them."""
    columns = np.arange(10**6, dtype=np.int32)
    rows = np.array([0, 10**6], dtype=np.int64), columns, np.ones(10**6)
    found = core.sparse_routines().sparse_gram(*rows, *rows, 10**6, False, True, 0)
    assert found.item() == 10**6


def flat_trees(nested):
    """(offsets, keys, children, child) of nested (key, child, ...) tuples."""
    offsets, keys, children, child = [0], [], [0], []

    def visit(tree):
        below = [visit(part) for part in tree[1:]]
        keys.append(tree[0])
        child.extend(below)
        children.append(len(child))
        return len(keys) - 1

    for tree in nested:
        visit(tree)
        offsets.append(len(keys))
    return (
        np.array(offsets),
        np.array(keys, dtype=np.int32),
        np.array(children),
        np.array(child, dtype=np.int64),
    )


trees = st.recursive(
    st.tuples(st.integers(-1, 2)),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda below: st.integers(-1, 2).map(lambda key: (key, *below))
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(
    X=st.lists(trees, min_size=1, max_size=4),
    Y=st.lists(trees, min_size=1, max_size=4),
    mu=st.sampled_from([None, 0.5, 1.0]),
    threads=st.sampled_from([0, 2]),
)
def test_tree_sums(X, Y, mu, threads):
    if mu is None:  # equal keys mean equal numbers of children
        X, Y = ([_with_arities(tree) for tree in part] for part in (X, Y))
    first, second = flat_trees(X), flat_trees(Y)
    routine = core.tree_routines().tree_sums
    found = routine(*first, *second, 0.7, mu, False, threads)
    assert_allclose(found, tree_twin.tree_sums(*first, *second, 0.7, mu, False), rtol=1e-12)
    found = routine(*first, *first, 0.7, mu, True, threads)
    assert_allclose(found, tree_twin.tree_sums(*first, *first, 0.7, mu, True), rtol=1e-12)


def _with_arities(tree):
    key = tree[0] if tree[0] < 0 else 4 * tree[0] + len(tree) - 1
    return (key, *map(_with_arities, tree[1:]))


PATH = (np.array([0, 2]), np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32))
CODES = np.zeros(2, dtype=np.int32)
NAMES = np.zeros((2, 2), dtype=np.uint64)


@pytest.mark.parametrize(
    "structure",
    [
        (np.array([0, 3]), *PATH[1:]),
        (np.array([1, 2]), *PATH[1:]),
        (np.array([0, 2, 1, 2]), *PATH[1:]),
        (PATH[0], np.array([0, 1, 3]), PATH[2]),
        (PATH[0], np.array([0, 3, 2]), PATH[2]),
        (*PATH[:2], np.array([1, 2], dtype=np.int32)),
        (*PATH[:2], np.array([1, -1], dtype=np.int32)),
        (np.array([0, 1, 2]), *PATH[1:]),
        (np.empty(0, dtype=np.int64), *PATH[1:]),
    ],
)
def test_structures_that_are_none_are_refused(native_level, structure):
    routines = core.graph_routines()
    for call in (
        lambda: routines.path_counts(*structure, CODES, 0),
        lambda: routines.refined(*structure, NAMES, None, NAMES, 1, 0),
        lambda: routines.subgraph_counts(*structure, 3, 0),
        lambda: routines.walk_sums(*PATH, CODES, CODES, *structure, CODES, CODES, 0.1, False, 0),
    ):
        with pytest.raises(ValueError, match=r"starts|same graph"):
            call()


SHORT, WRONG = CODES[:1], np.array([0, -1], dtype=np.int32)
LARGE = np.array([0, 2], dtype=np.int32)
ROWS = np.array([0, 2]), CODES, np.zeros(2)
NO_ROWS = np.array([0]), CODES[:0], np.zeros(0)
PAIR = flat_trees([(0, (1,))])
NONE = np.array([0]), np.zeros(0), np.zeros(0)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("path_counts", (*PATH, SHORT), "one code each"),
        ("path_counts", (*PATH, WRONG), "codes that are known"),
        ("refined", (*PATH, NAMES[:1], None, NAMES, 1), "a name per node"),
        ("refined", (*PATH, NAMES, LARGE, NAMES, 1), "codes that are known"),
        ("refined", (*PATH, NAMES, None, NAMES, -1), "iterations"),
        ("refined", (*PATH, NAMES, None, NAMES[:0], 1), "names of edge labels"),
        ("subgraph_counts", (*PATH, 6), "sizes of 1 to 5"),
        ("subgraph_counts", (*PATH, 0), "sizes of 1 to 5"),
        ("walk_sums", (*PATH, CODES, SHORT, *PATH, CODES, CODES, 0.1, False), "one code each"),
        ("walk_sums", (*PATH, CODES, CODES, *PATH, WRONG, CODES, 0.1, False), "known"),
        ("spectral_sums", (PATH[0], *ROWS[1:], *NONE, 0.1, False), None),
        ("spectral_sums", (PATH[0], np.zeros(2), np.zeros(1), *NONE, 0.1, False), "a weight"),
        ("spectral_sums", (PATH[0], *np.zeros((2, 2)), *NONE, 0.1, True), "same graphs twice"),
        ("sparse_gram", (*ROWS, PATH[0], LARGE, np.zeros(2), 2, False, False), "codes that are"),
        ("sparse_gram", (*ROWS, PATH[0], CODES, np.zeros(1), 2, False, False), "a value per"),
        ("sparse_gram", (*ROWS, *ROWS, 2**32, False, False), "columns"),
        ("sparse_gram", (*ROWS, *NO_ROWS, 2, False, True), "the same rows twice"),
        ("tree_sums", (*PAIR, *PAIR[:3], np.array([1]), 0.5, None, False), "post-order"),
        (
            "tree_sums",
            (*PAIR, *PAIR[:2], np.zeros(3, dtype=int), np.zeros(0, dtype=int), 0.5, None, False),
            "a single root",
        ),
        ("tree_sums", (*PAIR, PAIR[0], CODES, *PAIR[2:], 0.5, None, False), "children per key"),
        ("tree_sums", (*PAIR, np.array([0, 1]), *PAIR[1:], 0.5, None, False), "starts end"),
        ("tree_sums", (*PAIR, np.array([0, 2, 2]), *PAIR[1:], 0.5, 0.5, False), "single root"),
    ],
)
def test_what_is_out_of_range_is_refused(native_level, name, arguments, words):
    error = TypeError if words is None else ValueError  # arrays of another kind fit nothing
    with pytest.raises(error, match=words):
        getattr(core.graph_routines(), name)(*arguments, 0)
