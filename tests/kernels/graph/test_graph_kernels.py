"""Graph kernels against slow, obvious oracles."""

from __future__ import annotations

import pickle
from collections import Counter, deque
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from graph_examples import TRIANGLE, dense, graphs, random_graph, random_graphs
from mercer.kernels.graph.graphlets import class_edges, graphlet_counts
from mercer.kernels.graph.graphs import Graph
from mercer.kernels.graph.kernels import Graphlet, Propagation, RandomWalk, ShortestPath
from mercer.kernels.graph.refinement import WeisfeilerLehman, WLOptimalAssignment

KERNELS = [
    WeisfeilerLehman(iterations=3),
    WLOptimalAssignment(iterations=3),
    ShortestPath(),
    RandomWalk(decay=0.02),
    Graphlet(size=3),
    Graphlet(size=4, connected=True),
    Graphlet(size=5),
    Propagation(iterations=3),
]


def inner_products(features):
    return np.array(
        [[sum(v * b.get(f, 0) for f, v in a.items()) for b in features] for a in features]
    )


# Properties that all graph kernels share.


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gram_is_symmetric_positive_semidefinite_and_consistent(kernel):
    X = random_graphs(0, 12, edge_labels="xy") + random_graphs(1, 4, labels="b")
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-10 * np.trace(K)
    np.testing.assert_allclose(kernel.diag(X), np.diag(K), rtol=1e-12)
    np.testing.assert_allclose(kernel(X[:5], X[3:]), K[:5, 3:], rtol=1e-12)
    np.testing.assert_array_equal(clone(kernel)(X), K)
    assert kernel.validity.status == "valid"


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@settings(max_examples=25, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 2**32 - 1))
def test_the_numbering_of_nodes_does_not_matter(kernel, graph, seed):
    order = np.random.default_rng(seed).permutation(len(graph["node_labels"]))
    renamed = {
        "edges": [(int(order[j]), int(order[i])) for i, j in graph["edges"]],
        "node_labels": {int(order[i]): x for i, x in enumerate(graph["node_labels"])},
        "edge_labels": graph["edge_labels"],
    }
    K = kernel([graph, renamed, (TRIANGLE, list("aab"))])
    np.testing.assert_allclose(K[0], K[1], rtol=1e-12)
    np.testing.assert_allclose(K[0, 0], K[0, 1], rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_smallest_graphs(kernel):
    one, two, none = ([], ["a"]), ([], ["a", "b"]), ([], [])
    K = kernel([one, two, none])
    assert np.isfinite(K).all()
    np.testing.assert_array_equal(K[2], 0)
    counts_nodes = {
        "WeisfeilerLehman": 4,
        "WLOptimalAssignment": 4,
        "Propagation": 4,
        "RandomWalk": 1,
    }.get(type(kernel).__name__, 0)
    assert K[0, 0] == counts_nodes
    assert K[0, 1] == counts_nodes
    assert K[1, 1] == 2 * counts_nodes


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_no_labels_is_one_label(kernel):
    plain = [(graph["edges"], None) for graph in random_graphs(2)]
    edges = [edges for edges, _ in plain]
    nodes = [Graph.parse(graph).n_nodes for graph in plain]
    labelled = [(e, dict.fromkeys(sorted({i for p in e for i in p}), "c")) for e in edges]
    assert [Graph.parse(graph).n_nodes for graph in labelled] == nodes
    if isinstance(kernel, Propagation):  # bins move with the name of the label, not their contents
        np.testing.assert_array_equal(kernel(plain), np.multiply.outer(nodes, nodes) * 4)
    np.testing.assert_allclose(kernel(plain), kernel(labelled), rtol=1e-12)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not isinstance(k, RandomWalk)], ids=repr)
def test_explicit_maps_reproduce_the_gram(kernel):
    X = random_graphs(3)
    phi = kernel.feature_map().fit(X)
    Z = phi.transform(X)
    np.testing.assert_allclose((Z @ Z.T).toarray(), kernel(X))


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not isinstance(k, RandomWalk)], ids=repr)
def test_maps_of_graphs_not_seen_in_fitting(kernel):
    """New labels, edge labels and shapes have no column, and the rest is as it was."""
    X = random_graphs(14, 8, labels="ab", edge_labels="x")
    Y = random_graphs(15, 8, labels="abcd", edge_labels="xyz")
    phi = kernel.feature_map().fit(X)
    Z = phi.transform(Y)
    assert Z.shape[1] == phi.transform(X).shape[1] == len(phi.get_feature_names_out())
    np.testing.assert_allclose((phi.transform(X) @ Z.T).toarray(), kernel(X, Y))
    again = pickle.loads(pickle.dumps(phi))
    assert (again.transform(Y) != Z).nnz == 0
    assert again.get_feature_names_out().tolist() == phi.get_feature_names_out().tolist()


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not isinstance(k, RandomWalk)], ids=repr)
@settings(max_examples=40, deadline=None)
@given(X=st.lists(graphs(), min_size=1, max_size=5), Y=st.lists(graphs(), min_size=1, max_size=3))
def test_rows_of_many_agree_with_the_features_of_each(kernel, X, Y):
    named = [[kernel.features(Graph.parse(x)) for x in part] for part in (X, Y)]
    expected = [[sum(v * b.get(f, 0) for f, v in a.items()) for b in named[1]] for a in named[0]]
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-12)
    squares = [sum(v * v for v in a.values()) for a in named[0]]
    np.testing.assert_allclose(kernel.diag(X), squares, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@settings(max_examples=25, deadline=None)
@given(X=st.lists(graphs(), min_size=2, max_size=6))
def test_random_samples_are_positive_semidefinite(kernel, X):
    values = np.linalg.eigvalsh(kernel(X))
    assert values[0] >= -1e-12 * max(1.0, values[-1])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_twin_gives_the_same(kernel, any_level):
    X = random_graphs(16, 6, edge_labels="xy")
    expected = {
        "WeisfeilerLehman": lambda: inner_products([naive_wl(x, 3) for x in X]),
        "ShortestPath": lambda: inner_products([breadth_first(x) for x in X]),
        "Graphlet": lambda: inner_products(
            [naive_graphlets(x, kernel.size, kernel.connected) for x in X]
        ),
    }.get(type(kernel).__name__)
    K = kernel(X)
    if expected is not None:
        np.testing.assert_array_equal(K, expected())
    np.testing.assert_allclose(kernel(X[:2], X[2:]), K[:2, 2:], rtol=1e-12)


# One kernel at a time.


def naive_refinement(x, iterations):
    """Weisfeiler-Lehman labels as ever longer strings."""
    graph = Graph.parse(x)
    ends = np.repeat(np.arange(graph.n_nodes), graph.degrees)
    labels = [repr(label) for label in graph.node_labels]
    yield labels
    for _ in range(iterations):
        around = [[] for _ in labels]
        for i, j, e in zip(ends, graph.indices, graph.edge_labels, strict=True):
            around[i].append(f"{e!r}-{labels[j]}")
        labels = [f"<{x}|{','.join(sorted(a))}>" for x, a in zip(labels, around, strict=True)]
        yield labels


def naive_wl(x, iterations):
    rounds = enumerate(naive_refinement(x, iterations))
    return Counter((i, label) for i, labels in rounds for label in labels)


@pytest.mark.parametrize("iterations", [0, 1, 3])
@pytest.mark.parametrize("edge_labels", [None, "xy"])
def test_weisfeiler_lehman_against_strings(iterations, edge_labels):
    X = random_graphs(4, 10, edge_labels=edge_labels)
    expected = inner_products([naive_wl(x, iterations) for x in X])
    np.testing.assert_array_equal(WeisfeilerLehman(iterations=iterations)(X), expected)


def test_weisfeiler_lehman_cannot_tell_these_apart_but_edge_labels_can():
    two_triangles = [*TRIANGLE, (3, 4), (4, 5), (5, 3)]
    hexagon = [(i, (i + 1) % 6) for i in range(6)]
    K = WeisfeilerLehman()([(two_triangles, None), (hexagon, None)])
    assert np.ptp(K) == 0
    alternating = ["x", "y"] * 3
    K = WeisfeilerLehman(1)([(hexagon, None, alternating), (hexagon, None, ["x"] * 6)])
    np.testing.assert_array_equal(K, [[72, 36], [36, 72]])


@pytest.mark.parametrize("iterations", [0, 2, 4])
def test_optimal_assignment_is_optimal(iterations):
    X = random_graphs(5, 8)
    rounds = [np.array(list(naive_refinement(x, iterations))) for x in X]
    expected = np.empty((8, 8))
    for (i, a), (j, b) in product(enumerate(rounds), enumerate(rounds)):
        agreements = (a[:, :, None] == b[:, None, :]).sum(axis=0)
        expected[i, j] = agreements[linear_sum_assignment(-agreements)].sum()
    np.testing.assert_array_equal(WLOptimalAssignment(iterations=iterations)(X), expected)


def breadth_first(x):
    graph = Graph.parse(x)
    A = dense(graph)
    counts = Counter()
    for start in range(graph.n_nodes):
        distance = {start: 0}
        queue = deque([start])
        while queue:
            i = queue.popleft()
            for j in np.flatnonzero(A[i]).tolist():
                if j not in distance:
                    distance[j] = distance[i] + 1
                    queue.append(j)
        for end, d in distance.items():
            if end != start:
                counts[graph.node_labels[start], graph.node_labels[end], d] += 1
    return counts


@pytest.mark.parametrize("p", [0.0, 0.2, 0.6])
def test_shortest_paths_against_breadth_first_search(p):
    X = random_graphs(6, 10, p=p, labels="abc")
    assert [ShortestPath().features(Graph.parse(x)) for x in X] == [breadth_first(x) for x in X]
    expected = inner_products([breadth_first(x) for x in X])
    np.testing.assert_array_equal(ShortestPath()(X), expected)


def test_shortest_paths_with_labels_of_several_types():
    labels = [1, "1", None, (1, "a"), 2.5, b"1"]
    star = ([(0, i) for i in range(1, 6)], labels)
    features = ShortestPath().features(Graph.parse(star))
    assert len(features) == 30
    assert sum(features.values()) == 30


def naive_graphlets(x, size, connected):
    """Counts over all sets of nodes, each brought to a smallest form over all orders."""
    A = dense(x).astype(int)
    counts = Counter()
    for nodes in combinations(range(len(A)), size):
        B = A[np.ix_(nodes, nodes)]
        if connected and not np.linalg.matrix_power(B + np.eye(size, dtype=int), size).all():
            continue
        counts[min(B[np.ix_(o, o)].tobytes() for o in permutations(range(size)))] += 1
    return counts


@pytest.mark.parametrize(("size", "connected"), list(product([3, 4, 5], [False, True])))
def test_graphlets_against_all_sets_of_nodes(size, connected):
    rng = np.random.default_rng(9)
    X = [random_graph(rng, n, p=p) for n, p in [(2, 0.5), (5, 0.5), (7, 0.3), (7, 0.8), (8, 0.15)]]
    expected = inner_products([naive_graphlets(x, size, connected) for x in X])
    np.testing.assert_array_equal(Graphlet(size=size, connected=connected)(X), expected)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_graphlets_of_known_graphs(size):
    n = 12
    choose = {3: 220, 4: 495, 5: 792}[size]
    complete = Graph.from_adjacency(1 - np.eye(n))
    pairs = tuple(combinations(range(size), 2))
    assert Graphlet(size).features(complete) == {pairs: choose}
    assert Graphlet(size).features(Graph.from_edges([], n_nodes=n)) == {(): choose}
    assert Graphlet(size, connected=True).features(Graph.from_edges([], n_nodes=n)) == {}
    assert Graphlet(size).features(Graph.from_edges(TRIANGLE[: size - 2], n_nodes=size - 1)) == {}
    star = Graph.from_edges([(0, i) for i in range(1, n)])
    counts = sorted(Graphlet(size).features(star).values())
    around = {3: 55, 4: 165, 5: 330}[size]
    assert counts == sorted([around, choose - around])


def test_graphlets_of_a_large_sparse_graph_add_up():
    rng = np.random.default_rng(10)
    ends = rng.integers(0, 400, (500, 2))
    graph = Graph.from_edges([(int(i), int(j)) for i, j in ends if i != j], n_nodes=400)
    classes, counts = graphlet_counts([graph], 4, connected=False)
    assert np.count_nonzero(counts) >= 8
    assert counts.sum() == 400 * 399 * 398 * 397 // 24
    edges = sum(len(class_edges(c)) * n for c, n in zip(classes, counts[0], strict=True))
    assert edges == len(graph.indices) // 2 * (398 * 397 // 2)


def test_graphlets_beyond_64_bits():
    n = 6000
    graph = Graph.from_edges([(0, 1), (1, 2)], n_nodes=n)
    classes, counts = graphlet_counts([graph], 5, connected=False)
    assert sum(counts[0]) == n * (n - 1) * (n - 2) * (n - 3) * (n - 4) // 120
    edges = sum(len(class_edges(c)) * k for c, k in zip(classes, counts[0], strict=True))
    assert edges == 2 * ((n - 2) * (n - 3) * (n - 4) // 6)


def test_labels_do_not_change_graphlets():
    a, b = (TRIANGLE, ["a", "b", "c"]), (TRIANGLE, None)
    assert np.ptp(Graphlet()([a, b])) == 0


def test_propagation_against_whole_distributions():
    X = random_graphs(11, 8, labels="abc")
    kernel = Propagation(iterations=3, random_state=4, bin_width=0.3)
    features = []
    for x in X:
        graph = Graph.parse(x)
        A = dense(graph)
        degree = A.sum(axis=1)
        T = np.where(degree[:, None] > 0, A / np.maximum(degree, 1)[:, None], np.eye(len(A)))
        P = np.equal.outer(graph.node_labels, list("abc")).astype(float)
        counts = Counter()
        for t in range(4):
            v = [kernel._projection(label)[t] for label in "abc"]
            shift = 0.3 * kernel._uniform(t)
            counts.update((t, b) for b in np.floor((P @ v + shift) / 0.3))
            P = T @ P
        features.append(counts)
    np.testing.assert_array_equal(kernel(X), inner_products(features))


def test_propagation_tells_equal_distributions_from_different_ones():
    X = random_graphs(12, 6, labels="ab")
    K = Propagation(iterations=2)(X)
    features = []
    for x in X:
        graph = Graph.parse(x)
        A = dense(graph)
        P = np.equal.outer(graph.node_labels, ["a", "b"]).astype(float)
        counts = Counter()
        for t in range(3):
            counts.update((t, *row) for row in P.round(6).tolist())
            P = np.array([A[i] @ P / A[i].sum() if A[i].any() else P[i] for i in range(len(A))])
        features.append(counts)
    np.testing.assert_array_equal(K, inner_products(features))


def test_propagation_depends_on_its_seed_and_object_alone():
    X = random_graphs(13, 6, labels="abcd")
    kernel = Propagation(iterations=2, bin_width=1.0)
    np.testing.assert_array_equal(kernel(X), kernel(X))
    together = [kernel.features(Graph.parse(x)) for x in X]
    assert kernel.features(Graph.parse(X[-1])) == together[-1]
    other = Propagation(iterations=2, random_state=1, bin_width=1.0)
    assert not np.array_equal(kernel(X), other(X))
    draws = np.array([kernel._uniform(t, b"%d" % i) for t in range(20) for i in range(50)])
    assert 0 < draws.min() < 0.01
    assert 0.99 < draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.05


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (WeisfeilerLehman(iterations=-1), "iterations"),
        (WeisfeilerLehman(iterations=1.5), "iterations"),
        (WLOptimalAssignment(iterations=-1), "iterations"),
        (RandomWalk(decay=0), "decay"),
        (RandomWalk(decay=-0.1), "decay"),
        (RandomWalk(decay="a"), "decay"),
        (Graphlet(size=2), "size"),
        (Graphlet(size=6), "size"),
        (Graphlet(connected="yes"), "connected"),
        (Propagation(random_state=None), "random_state"),
        (Propagation(bin_width=0), "bin_width"),
        (Propagation(iterations=-1), "iterations"),
    ],
)
def test_parameters_out_of_range_are_refused(kernel, name):
    with pytest.raises((ValueError, TypeError), match=name):
        kernel([(TRIANGLE, None)])
