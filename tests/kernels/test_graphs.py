"""Graphs in all their forms, their labels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mercer.kernels.graph_kernels import RandomWalk, ShortestPath, WeisfeilerLehman
from mercer.kernels.graphs import Graph
from mercer.kernels.labels import as_label, digest, label_bytes
from mercer.kernels.ragged import ragged_arange, weighted_blocks

TRIANGLE = [(0, 1), (1, 2), (2, 0)]


class Views:
    """The part of networkx that is used, and nothing else."""

    def __init__(self, nodes, edges, directed=False, multigraph=False):
        self._nodes, self._edges = nodes, edges
        self._directed, self._multigraph = directed, multigraph

    def nodes(self, data=False):
        assert data
        return list(self._nodes.items())

    def edges(self, data=False):
        assert data
        return self._edges

    def is_directed(self):
        return self._directed

    def is_multigraph(self):
        return self._multigraph


def test_all_forms_of_one_graph_agree():
    A = np.array([[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    labels = ["C", "O", "O", "H"]
    forms = [
        (A, labels),
        (sp.csr_array(A), labels),
        (sp.coo_matrix(A.astype(bool)), dict(enumerate(labels))),
        ([(0, 1), (0, 2)], labels),
        ([(2, 0), (0, 2), (1, 0)], np.array(labels)),
        ({(0, 1), (2, 0)}, labels),
        ([("b", "a"), ("a", "c")], {"a": "C", "b": "O", "c": "O", "d": "H"}),
        {"edges": [(0, 1), (0, 2)], "node_labels": labels, "n_nodes": 4},
        Views({i: {"label": x} for i, x in enumerate(labels)}, [(0, 1, {}), (0, 2, {"weight": 2})]),
        Graph.from_edges(np.array([[0, 1], [0, 2]]), labels),
        Graph.from_adjacency(A, labels),
    ]
    for kernel in (WeisfeilerLehman(), ShortestPath(), RandomWalk()):
        assert np.ptp(kernel(forms)) == 0, kernel
    parsed = Graph.parse(forms[0])
    assert Graph.parse(parsed) is parsed
    np.testing.assert_array_equal(parsed.adjacency().toarray(), A)
    np.testing.assert_array_equal(parsed.degrees, [2, 1, 1, 0])
    assert not parsed.indices.flags.writeable


def test_edge_labels_in_all_forms():
    forms = [
        ([(0, 1), (1, 2)], None, ["x", "y"]),
        ([(0, 1), (1, 2)], None, {(1, 0): "x", (1, 2): "y"}),
        {"edges": [(0, 1), (1, 0), (2, 1)], "edge_labels": ["x", "x", "y"]},
        Views({0: {}, 1: {}, 2: {}}, [(0, 1, {"label": "x"}), (1, 2, {"label": "y"})]),
    ]
    parsed = [Graph.parse(form) for form in forms]
    assert {graph.edge_labels for graph in parsed} == {("x", "x", "y", "y")}


def test_nodes_without_edges_are_kept_only_where_named():
    assert Graph.from_edges([(5, 7)]).n_nodes == 2
    assert Graph.from_edges([(5, 7)], n_nodes=9).n_nodes == 9
    assert Graph.from_edges([], n_nodes=3).n_nodes == 3
    assert Graph.from_edges([], ["a"]).n_nodes == 1
    assert Graph.parse(np.zeros((0, 0))).n_nodes == 0


@pytest.mark.parametrize(
    ("graph", "error", "words"),
    [
        (3, TypeError, "type int"),
        ("ab", TypeError, "type str"),
        ([(0, 1)], TypeError, "type list"),
        ({"edge": []}, ValueError, "keys \\['edge'\\]"),
        ({"edges": [], "labels": []}, ValueError, "expected 'edges'"),
        (([(0, 0)], None), ValueError, "joins the node 0 to itself"),
        (([(0, 1, 2)], None), ValueError, "edge 0 of a graph is"),
        (([0, 1], None), ValueError, "edge 0 of a graph is 0"),
        (({0: [1]}, None), TypeError, "edges of a graph are a dict"),
        ((7, None), TypeError, "edges of a graph are a int"),
        (([(0, 9)], ["a", "b"]), ValueError, "names the node 9"),
        (([(0, 1)], {0: "a"}), ValueError, "names the node 1"),
        (([(0, 1)], "ab"), TypeError, "node_labels of a graph are a str"),
        (([(0, 1)], ["a", object()]), TypeError, "node 1 has a label of type object"),
        (([(0, 1)], ["a", np.nan]), ValueError, "node 1 has the label nan"),
        ({"edges": [(0, 1)], "n_nodes": -1}, ValueError, "n_nodes=-1"),
        ({"edges": [(0, 3)], "n_nodes": 3}, ValueError, "names the node 3"),
        ({"edges": [], "n_nodes": 3, "node_labels": ["a"]}, ValueError, "3 nodes has 1 node"),
        (([(0, 1)], None, ["x", "y"]), ValueError, "1 edges and 2 edge_labels"),
        (([(0, 1)], None, {(0, 2): "x"}), ValueError, "labels \\(0, 2\\), which is not an edge"),
        (([(0, 1), (1, 2)], None, {(0, 1): "x"}), ValueError, "edge \\(1, 2\\) .* has no label"),
        (([(0, 1), (1, 0)], None, ["x", "y"]), ValueError, "two labels, 'x' and 'y'"),
        (np.eye(2), ValueError, "non-zero diagonal at node 0"),
        (np.triu(np.ones((3, 3)), 1), ValueError, "not symmetric"),
        (np.array([[0, 2], [2, 0]]), ValueError, "entry .*2.*do not use weights"),
        (np.array([[0, np.nan], [np.nan, 0]]), ValueError, "entry .*nan"),
        (np.zeros((2, 3)), ValueError, "shape \\(2, 3\\)"),
        ((np.zeros((2, 2)), ["a"]), ValueError, "2 nodes has 1 node labels"),
        (Views({}, [], directed=True), ValueError, "to_undirected"),
        (Views({}, [], multigraph=True), ValueError, "networkx.Graph"),
        (Views({0: {"label": 1}, 1: {}}, []), ValueError, "node 1 of a graph has no attribute"),
    ],
)
def test_what_is_not_a_graph_is_refused(graph, error, words):
    with pytest.raises(error, match=f"object 1: .*{words}"):
        ShortestPath()([(TRIANGLE, None), graph])


def test_label_bytes_follow_equality():
    labels = [None, "", "a", b"a", b"", 0, 1, -1, 1.5, 2**70, (), ("a",), ("a", "b"), ("ab",), "1"]
    assert len({label_bytes(label) for label in labels}) == len(labels)
    for same in [(1, 1.0, True), (0, False, -0.0, 0.0), ((1, "a"), (1.0, "a"))]:
        assert len({label_bytes(label) for label in same}) == 1
    assert digest(b"a", b"b") != digest(b"ab") != digest(b"a", b"b", b"")


def test_labels_become_plain_values():
    assert type(as_label(np.str_("a"), "node 0")) is str
    assert type(as_label(np.float32(2), "node 0")) is float
    assert as_label((np.int8(1), "a"), "node 0") == (1, "a")
    with pytest.raises(TypeError, match="node 0 has a label of type list"):
        as_label([1], "node 0")


def test_ragged_arange_with_empty_ranges():
    np.testing.assert_array_equal(
        ragged_arange(np.array([3, 9, 1]), np.array([2, 0, 1])), [3, 4, 1]
    )
    assert len(ragged_arange(np.array([], dtype=int), np.array([], dtype=int))) == 0


@given(weights=st.lists(st.integers(0, 9)), limit=st.integers(1, 20))
def test_weighted_blocks_cover_everything_once(weights, limit):
    weights = np.array(weights, dtype=int)
    blocks = list(weighted_blocks(weights, limit))
    covered = [i for block in blocks for i in range(block.start, block.stop)]
    assert covered == list(range(len(weights)))
    assert all(weights[b].sum() <= limit or b.stop - b.start == 1 for b in blocks)
