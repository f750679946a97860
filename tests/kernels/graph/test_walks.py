"""Random walks in common, against walks one by one, Kronecker products and eigenvalues."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_examples import TRIANGLE, dense, graphs, random_graph, random_graphs
from mercer.kernels.graph.graphs import Graph
from mercer.kernels.graph.kernels import RandomWalk
from mercer.kernels.graph.walks import check_convergence, walk_sums


def common_walk_counts(x, y, length):
    """The number of pairs of walks of each length with equal labels, walk by walk."""
    tables = []
    for z in (x, y):
        graph = Graph.parse(z)
        ends = np.repeat(np.arange(graph.n_nodes), graph.degrees)
        steps = [[] for _ in range(graph.n_nodes)]
        for i, j, e in zip(ends, graph.indices, graph.edge_labels, strict=True):
            steps[i].append((j, e))
        walks = [((label,), i) for i, label in enumerate(graph.node_labels)]
        table = [Counter(labels for labels, _ in walks)]
        for _ in range(length):
            walks = [
                ((*labels, e, graph.node_labels[j]), j) for labels, i in walks for j, e in steps[i]
            ]
            table.append(Counter(labels for labels, _ in walks))
        tables.append(table)
    return [sum(n * b[w] for w, n in a.items()) for a, b in zip(*tables, strict=True)]


def product_matrix(x, y):
    """The adjacency matrix of the direct product, of all pairs of nodes with equal labels."""
    a, b = Graph.parse(x), Graph.parse(y)
    match = np.equal.outer(a.node_labels, b.node_labels).ravel()
    W = np.zeros((len(match), len(match)))
    for label in {*a.edge_labels, *b.edge_labels}:
        parts = []
        for graph in (a, b):
            A = np.zeros((graph.n_nodes, graph.n_nodes))
            rows = np.repeat(np.arange(graph.n_nodes), graph.degrees)
            chosen = np.array([e == label for e in graph.edge_labels], dtype=bool)
            A[rows[chosen], graph.indices[chosen]] = 1
            parts.append(A)
        W += np.kron(*parts)
    return W[np.ix_(match, match)]


@pytest.mark.parametrize("edge_labels", [None, "xy"])
def test_random_walks_against_walks_one_by_one(edge_labels):
    rng = np.random.default_rng(7)
    X = [random_graph(rng, n, p=0.5, edge_labels=edge_labels) for n in (1, 3, 4, 5)]
    decay = 1e-3
    K = RandomWalk(decay=decay)(X)
    for i, j in product(range(4), range(4)):
        counts = common_walk_counts(X[i], X[j], 5)
        truncated = sum(decay**k * count for k, count in enumerate(counts))
        # The rest is a geometric series in decay times the largest product of degrees, 16.
        assert K[i, j] == pytest.approx(truncated, abs=25 * (16 * decay) ** 6 / (1 - 16 * decay))


def test_random_walks_against_the_kronecker_product_and_eigenvalues():
    X = random_graphs(8, 6, labels="ab", edge_labels="xy")
    K = RandomWalk(decay=0.02)(X)
    for i, j in product(range(6), range(6)):
        W = product_matrix(X[i], X[j])
        ones = np.ones(len(W))
        solved = ones @ np.linalg.solve(np.eye(len(W)) - 0.02 * W, ones) if len(W) else 0.0
        assert K[i, j] == pytest.approx(solved, rel=1e-12)
    plain = [(x["edges"], [0] * len(x["node_labels"])) for x in X]
    K = RandomWalk(decay=0.02)(plain)
    spectra = [np.linalg.eigh(dense(x)) for x in plain]
    for (i, (s, U)), (j, (t, V)) in product(enumerate(spectra), enumerate(spectra)):
        weight = np.multiply.outer(U.sum(axis=0) ** 2, V.sum(axis=0) ** 2)
        assert K[i, j] == pytest.approx((weight / (1 - 0.02 * np.outer(s, t))).sum(), rel=1e-12)


@pytest.mark.parametrize("n", [200, 300])
def test_large_graphs_by_eigenvalues_and_by_conjugate_gradients(n):
    cycle = ([(i, (i + 1) % n) for i in range(n)], None)
    expected = n * n / (1 - 4 * 0.2)
    assert RandomWalk(decay=0.2)([cycle])[0, 0] == pytest.approx(expected, rel=1e-12)


def test_walks_whose_sum_does_not_converge_are_an_error():
    labelled = Graph.parse((TRIANGLE, list("aab")))
    with pytest.raises(ValueError, match="choose a smaller decay"):
        walk_sums([labelled], [labelled], 1.0, symmetric=True)


def test_random_walks_that_do_not_sum_are_refused_with_the_bound():
    with pytest.raises(ValueError, match=r"object 1: decay=0\.25 .* choose decay below 0\.25"):
        RandomWalk(decay=0.25)([([(0, 1)], None), (TRIANGLE, None)])
    assert RandomWalk(decay=0.2499)([(TRIANGLE, None)])[0, 0] == pytest.approx(9 / 0.0004)
    star = [(0, i) for i in range(1, 10)]  # spectral radius 3, so 9 for the product
    with pytest.raises(ValueError, match=r"choose decay below 0\.11"):
        RandomWalk(decay=0.12)([(star, None)])
    assert np.isfinite(RandomWalk(decay=0.11)([(star, None)])).all()
    # With all labels different the product is the graph itself.
    assert np.isfinite(RandomWalk(decay=0.3)([(star, list(range(10)))])).all()
    with pytest.raises(ValueError, match=r"choose decay below 0\.33"):
        RandomWalk(decay=0.34)([(star, list(range(10)))])


@settings(max_examples=50, deadline=None)
@given(x=graphs(), y=graphs(), scale=st.floats(0.3, 3.0))
def test_the_bound_on_decay_is_that_of_the_spectrum(x, y, scale):
    def radius(a, b):
        return np.abs(np.linalg.eigvalsh(product_matrix(a, b))).max(initial=0.0)

    own = radius(x, x)
    assert radius(x, y) <= np.sqrt(own * radius(y, y)) + 1e-9
    decay = scale / max(own, 1.0)
    if abs(decay * own - 1) < 1e-2:
        return
    if decay * own < 1:
        check_convergence(Graph.parse(x), decay)
    else:
        with pytest.raises(ValueError, match="choose decay below"):
            check_convergence(Graph.parse(x), decay)


def test_a_decay_too_close_to_the_bound_to_decide_is_refused():
    path = Graph.from_edges([(i, i + 1) for i in range(60)])
    exact = 1 / (2 * np.cos(np.pi / 62)) ** 2
    with pytest.raises(ValueError, match="choose decay below"):
        check_convergence(path, exact)
