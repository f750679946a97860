"""Graphs in all their forms, their labels, and what is refused."""

from __future__ import annotations

import pickle
import warnings
import zipfile

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mercer import kernels as K
from mercer.kernels.graph.collections import parse_graphs
from mercer.kernels.graph.files import read_tu
from mercer.kernels.graph.graphs import Graph
from mercer.kernels.graph.joined import join
from mercer.kernels.graph.kernels import RandomWalk, ShortestPath
from mercer.kernels.graph.refinement import WeisfeilerLehman
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


# Many at a time.


def networkx_graph(edges, labels=None, edge_labels=None, n=0):
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_nodes_from(range(n))
    if labels is not None:
        graph.add_nodes_from((i, {"label": x}) for i, x in enumerate(labels))
    kinds = edge_labels if edge_labels is not None else [None] * len(edges)
    for (u, v), kind in zip(edges, kinds, strict=True):
        graph.add_edge(u, v, **({} if kind is None else {"label": kind}))
    return graph


class Adjacent(Views):
    """Views with the method that networkx has for all neighbours at once."""

    def nodes(self, data=False, default=None):
        if data is True:
            return list(self._nodes.items())
        return [(node, attributes.get(data, default)) for node, attributes in self._nodes.items()]

    def __iter__(self):
        return iter(self._nodes)

    def adjacency(self):
        around = {node: {} for node in self._nodes}
        for u, v, data in self._edges:
            around[u][v] = around[v][u] = data
        return iter(around.items())


def same(a, b):
    return (
        a.node_labels == b.node_labels
        and a.edge_labels == b.edge_labels
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
    )


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    kind=st.sampled_from(["plain", "nodes", "edges", "both"]),
    seed=st.integers(0, 999),
)
def test_many_graphs_are_read_as_one_by_one(sizes, kind, seed):
    rng = np.random.default_rng(seed)
    X, expected = [], []
    for n in sizes:
        pairs = [(int(i), int(j)) for i in range(n) for j in range(i) if rng.random() < 0.4]
        pairs = [pairs[k] for k in rng.permutation(len(pairs))]
        labels = rng.choice(["a", "b", 3], n).tolist() if kind in ("nodes", "both") else None
        kinds = rng.choice(["x", "y"], len(pairs)).tolist() if kind in ("edges", "both") else None
        nodes = {i: {} if labels is None else {"label": labels[i]} for i in range(n)}
        edges = [
            (*pair, {"weight": 1.0} if kinds is None else {"label": kinds[k]})
            for k, pair in enumerate(pairs)
        ]
        X.append(Adjacent(nodes, edges))
        given_labels = dict.fromkeys(range(n)) if labels is None else dict(enumerate(labels))
        expected.append(Graph.from_edges(pairs, given_labels, kinds or None))
    found = parse_graphs(X)
    assert all(map(same, found, expected))
    mixed = parse_graphs([X[0], expected[0], (np.zeros((2, 2)), None), *X[1:]])
    assert mixed[1] is expected[0]
    assert mixed[2].n_nodes == 2
    assert all(map(same, [mixed[0], *mixed[3:]], expected))
    again = [pickle.loads(pickle.dumps(graph)) for graph in found]
    assert all(map(same, again, expected))


def test_graphs_of_networkx_itself():
    edges, labels, kinds = [(0, 1), (2, 1), (2, 3)], list("CCOH"), ["-", "=", "-"]
    X = [
        networkx_graph(edges, labels, kinds),
        networkx_graph(edges, labels),
        networkx_graph(edges),
        networkx_graph([], n=3),
        networkx_graph([]),
    ]
    expected = [
        Graph.from_edges(edges, labels, kinds),
        Graph.from_edges(edges, labels),
        Graph.from_edges(edges, n_nodes=4),
        Graph.from_edges([], n_nodes=3),
        Graph.from_edges([], n_nodes=0),
    ]
    assert all(map(same, parse_graphs(X), expected))
    part = Graph.from_edges(edges[:2], labels[:3], kinds[:2])
    assert same(parse_graphs([X[0].subgraph([0, 1, 2])])[0], part)


@pytest.mark.parametrize(
    ("graph", "error", "words"),
    [
        (Adjacent({0: {}, 1: {"label": "a"}}, []), ValueError, "node 0 .* no attribute 'label'"),
        (Adjacent({0: {"label": []}}, []), TypeError, "node 0 has a label of type list"),
        (Adjacent({0: {"label": np.nan}}, []), ValueError, "node 0 has the label nan"),
        (Adjacent({0: {}}, [(0, 0, {})]), ValueError, "joins the node 0 to itself"),
        (
            Adjacent({0: {}, 1: {}, 2: {}}, [(0, 1, {"label": 1}), (1, 2, {})]),
            ValueError,
            "has no label",
        ),
        (
            Adjacent({0: {}, 1: {}}, [(0, 1, {"label": object()})]),
            TypeError,
            "the edge \\(0, 1\\) has a label of type object",
        ),
        (Adjacent({}, [], directed=True), ValueError, "to_undirected"),
        (Adjacent({}, [], multigraph=True), ValueError, "networkx.Graph"),
    ],
)
def test_irregular_graphs_among_many_are_refused(graph, error, words):
    good = Adjacent({0: {"label": "a"}}, [])
    with pytest.raises(error, match=f"object 1: .*{words}"):
        parse_graphs([good, graph])


def test_joining_keeps_labels_apart():
    X = [Graph.parse(([(0, 1)], labels)) for labels in (["a", "b"], ["b", "c"], ["a", "a"])]
    joined = join(X)
    names = list(joined.nodes)
    assert [names[code] for code in joined.node_codes] == ["a", "b", "b", "c", "a", "a"]
    assert_array_equal(joined.offsets, [0, 2, 4, 6])
    assert_array_equal(joined.indices, [1, 0, 3, 2, 5, 4])
    assert join([]).offsets.tolist() == [0]


# Files.

TU = {
    "A": "1, 2\n2, 1\n4, 3\n3, 4\n3, 5\n5, 3\n",
    "graph_indicator": "1\n1\n2\n2\n2\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "7\n8\n7\n7\n9\n7\n",
    "edge_labels": "0\n0\n1\n1\n2\n2\n",
}


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"DS_{name}.txt").write_text(text)
    return folder


def zipped(folder):
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"DS/{file.name}")
    return path


@pytest.mark.parametrize("form", [lambda folder: folder, zipped, str])
def test_collections_are_read_from_folders_and_zip_files(tmp_path, form):
    X, y = read_tu(form(write(tmp_path / "DS", TU)))
    expected = [
        Graph.from_edges([(0, 1)], [7, 8], [0]),
        Graph.from_edges([(1, 0), (0, 2)], [7, 7, 9], [1, 2]),
        Graph.from_edges([], [7]),
    ]
    assert all(map(same, X, expected))
    assert_array_equal(y, [1, -1, 1])
    assert np.ptp(WeisfeilerLehman()([X[0], expected[0]])) == 0
    plain, _ = read_tu(form(tmp_path / "DS"), edge_labels=False)
    assert set(plain[1].edge_labels) == {None}


def test_collections_in_other_shapes(tmp_path):
    few = {name: TU[name] for name in ("A", "graph_indicator")}
    X, y = read_tu(write(tmp_path / "few", few))
    assert y is None
    assert set(X[1].node_labels) == {None}
    # Each edge once, nodes of the graphs mixed, labels of two columns, a graph without nodes, no
    # end of line at the end.
    other = {
        "A": "1, 3\n2,4",
        "graph_indicator": "1\n3\n1\n3",
        "graph_labels": "0\n0\n1",
        "node_labels": "1, 2\n3, 4\n5, 6\n1, 2",
    }
    X, y = read_tu(write(tmp_path / "other", other))
    assert [graph.n_nodes for graph in X] == [2, 0, 2]
    assert X[0].node_labels == ((1, 2), (5, 6))
    assert X[2].node_labels == ((3, 4), (1, 2))
    assert [graph.indices.tolist() for graph in X] == [[1, 0], [], [1, 0]]
    X, _ = read_tu(write(tmp_path / "none", {"A": "", "graph_indicator": "1\n"}))
    assert [graph.n_nodes for graph in X] == [1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"A": "1, 7\n"}, "line 1 of \\*_A.txt, 1, 7, names a node that is not one of the 6"),
        ({"A": "0, 1\n"}, "names a node that is not one"),
        ({"A": "1, 2\n2, 3\n"}, "line 2 of \\*_A.txt, 2, 3, joins nodes of two graphs"),
        ({"A": "1, 1\n"}, "joins a node to itself"),
        ({"A": "1, 2\n1\n"}, "line 2 of \\*_A.txt is '1'; expected 2 whole numbers"),
        ({"A": "1, x\n"}, "line 1 of \\*_A.txt is '1, x'"),
        ({"A": "1, 2, 1\n"}, "3 columns in \\*_A.txt"),
        ({"graph_indicator": "1\n1\n2\n2\n2\n4\n"}, "3 graphs, and line 6 .* names graph 4"),
        ({"graph_indicator": "1\n1\n2\n2\n2\n0\n"}, "line 6 .* names graph 0"),
        ({"graph_indicator": "1, 2\n"}, "2 columns; expected one"),
        ({"node_labels": "7\n8\n"}, "\\*_node_labels.txt has 2 lines; expected 6"),
        ({"node_labels": "a\n"}, "line 1 of \\*_node_labels.txt is 'a'"),
        ({"node_labels": "9" * 30 + "\n" * 6}, "line 1 of \\*_node_labels.txt is '999.*2\\^63"),
        ({"node_labels": "a" * 9999 + "\n" * 6}, "is 'a{60,99}; expected 1 whole number"),
        ({"edge_labels": "0\n1\n1\n1\n2\n2\n"}, "two labels for the edge between nodes 1 and 2"),
    ],
)
def test_collections_with_mistakes_are_refused(tmp_path, changed, words):
    with pytest.raises(ValueError, match=words):
        read_tu(write(tmp_path / "DS", {**TU, **changed}))


def test_numbers_of_graphs_take_no_more_memory_than_the_file(tmp_path):
    """Without a file of classes, the largest number says how many graphs there are."""
    text = {"A": "1, 2\n", "graph_indicator": f"1\n{2**62}\n"}
    with pytest.raises(ValueError, match=r"has 2 nodes, and .* names graph 4611686018427387904"):
        read_tu(write(tmp_path / "DS", text))


def test_damaged_archives_are_refused(tmp_path):
    path = tmp_path / "DS.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in TU.items():
            archive.writestr(f"DS/DS_{name}.txt", text)
    whole = path.read_bytes()
    assert len(read_tu(path)[0]) == 3
    refused = 0
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            read_tu(path)
        except (ValueError, OSError) as error:
            refused += "damaged zip file" in str(error)
    assert refused > 50


def test_what_is_not_a_collection_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder or zip file"):
        read_tu(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"no file DS_graph_indicator\.txt"):
        read_tu(write(tmp_path / "DS", {"A": "1, 2\n"}))
    with pytest.raises(ValueError, match=r"0 files with a name that ends in _A\.txt"):
        read_tu(write(tmp_path / "empty", {}))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="neither a folder nor a zip file"):
        read_tu(tmp_path / "text")


def test_a_graph_is_shown_by_its_size():
    assert repr(Graph.parse((TRIANGLE, None))) == "<Graph of 3 nodes and 3 edges>"


def test_attributes_that_are_no_labels_are_warned_of_and_chosen():
    graph = networkx.path_graph(3)
    networkx.set_node_attributes(graph, dict(enumerate("CNC")), "atom")
    networkx.set_edge_attributes(graph, 2, "order")
    with pytest.warns(UserWarning, match=r"attribute 'atom' and no .*node_label='atom'"):
        (plain,) = parse_graphs([graph])
    assert set(plain.node_labels) == {None}
    (chosen,) = K.from_networkx([graph], node_label="atom", edge_label="order")
    assert chosen.node_labels == ("C", "N", "C")
    assert set(chosen.edge_labels) == {2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (bare,) = K.from_networkx([graph], node_label=None)
    assert same(bare, plain)
    del graph.nodes[1]["atom"]
    with pytest.raises(ValueError, match="object 0: the node attribute 'atom' is missing"):
        K.from_networkx([graph], node_label="atom")
    with pytest.raises(TypeError, match="object 0 is a str, not a networkx graph"):
        K.from_networkx(["C"])
