"""Graphs at random, small and labelled."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from mercer.kernels.graph.graphs import Graph

TRIANGLE = [(0, 1), (1, 2), (2, 0)]


def random_graph(rng, n, p=0.4, labels="ab", edge_labels=None):
    """A graph as a dict, with one label drawn for each node."""
    edges = [(i, j) for i, j in combinations(range(n), 2) if rng.random() < p]
    graph = {"edges": edges, "node_labels": rng.choice(list(labels), n).tolist()}
    if edge_labels:
        graph["edge_labels"] = rng.choice(list(edge_labels), len(edges)).tolist()
    return graph


def random_graphs(seed, count=8, **options):
    rng = np.random.default_rng(seed)
    return [random_graph(rng, int(rng.integers(1, 9)), **options) for _ in range(count)]


def dense(x):
    return Graph.parse(x).adjacency().toarray()


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 7))
    pairs = list(combinations(range(n), 2))
    kept = [pair for pair in pairs if draw(st.booleans())]
    return {
        "edges": kept,
        "node_labels": [draw(st.sampled_from("ab")) for _ in range(n)],
        "edge_labels": [draw(st.sampled_from("xy")) for _ in kept],
    }
