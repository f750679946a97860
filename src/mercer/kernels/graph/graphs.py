"""Undirected graphs with labels, and the forms in which one may be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.kernels.graph.edges import coded_edges, coded_nodes, pairs_of
from mercer.kernels.labels import Numbering
from mercer.kernels.ragged import ragged_arange


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Graph:
    """An undirected simple graph: no self-loops, no parallel edges, no weights.

    Made by `from_edges`, `from_adjacency` or `parse`; many by `from_networkx` or `read_tu`.

    Attributes
    ----------
    indptr : (n + 1,) int array
    indices : (2m,) int array
        The neighbours of node i are ``indices[indptr[i]:indptr[i + 1]]``, in increasing order;
        each of the m edges appears at both its ends.
    node_codes : (n,) int array
        The nodes' labels, as numbers in `nodes`.
    edge_codes : (2m,) int array
        The label of the edge for each entry of `indices`, as a number in `edges`.
    nodes, edges : Numbering
        The labels, which many graphs may share; that of a graph without labels is None.
    """

    indptr: np.ndarray
    indices: np.ndarray
    node_codes: np.ndarray
    edge_codes: np.ndarray
    nodes: Numbering
    edges: Numbering

    def __repr__(self) -> str:
        return f"<Graph of {self.n_nodes} nodes and {len(self.indices) // 2} edges>"

    @property
    def n_nodes(self) -> int:
        return len(self.node_codes)

    @property
    def degrees(self) -> np.ndarray:
        """(n,) int array."""
        return np.diff(self.indptr)

    @property
    def node_labels(self) -> tuple[Any, ...]:
        """The label of each node, None throughout for a graph without node labels."""
        labels = list(self.nodes)
        return tuple(labels[code] for code in self.node_codes.tolist())

    @property
    def edge_labels(self) -> tuple[Any, ...]:
        """The label for each entry of `indices`, None throughout without edge labels."""
        labels = list(self.edges)
        return tuple(labels[code] for code in self.edge_codes.tolist())

    def adjacency(self) -> sp.csr_array:
        """The symmetric (n, n) matrix of zeros and ones."""
        ones = np.ones(len(self.indices))
        shape = (self.n_nodes, self.n_nodes)
        # SciPy 1.14's routines on graphs take indices of 32 bits alone.
        indices, indptr = self.indices.astype(np.int32), self.indptr.astype(np.int32)
        return sp.csr_array((ones, indices, indptr), shape=shape)

    def unlabelled(self) -> Graph:
        """The same graph without labels."""
        codes = (np.zeros_like(self.node_codes), np.zeros_like(self.edge_codes))
        return Graph(self.indptr, self.indices, *codes, Numbering({None: 0}), Numbering({None: 0}))

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Any],
        node_labels: Any = None,
        edge_labels: Any = None,
        n_nodes: int | None = None,
    ) -> Graph:
        """A graph from pairs of nodes.

        Parameters
        ----------
        edges : iterable of pairs (u, v)
            (u, v) and (v, u) are the same edge and may both be given.
        node_labels : mapping {node: label} or sequence of n labels, optional
            A mapping names the nodes; with a sequence the nodes are 0, ..., n - 1.
        edge_labels : mapping {(u, v): label} or sequence with one label per edge, optional
        n_nodes : int, optional
            Says that the nodes are 0, ..., n_nodes - 1. With neither labels nor this number the
            nodes are those that have an edge.

        Examples
        --------
        >>> water = Graph.from_edges([("O", "H1"), ("O", "H2")], {"O": 8, "H1": 1, "H2": 1})
        >>> water.node_labels, water.degrees.tolist()
        ((8, 1, 1), [2, 1, 1])
        """
        return cls._from_edges(Labels(), edges, node_labels, edge_labels, n_nodes)

    @classmethod
    def _from_edges(
        cls,
        labels: Labels,
        edges: Iterable[Any],
        node_labels: Any = None,
        edge_labels: Any = None,
        n_nodes: int | None = None,
    ) -> Graph:
        pairs = pairs_of(edges)
        nodes, codes = coded_nodes(labels, pairs, node_labels, n_nodes)
        position = {node: i for i, node in enumerate(nodes)}
        for u, v in pairs:
            for node in (u, v):
                if node not in position:
                    raise ValueError(
                        f"the edge {(u, v)!r} of a graph names the node {node!r}, which is not one "
                        f"of its {len(nodes)} nodes; give it a label, or check node_labels and "
                        "n_nodes"
                    )
        ends = [(position[u], position[v]) for u, v in pairs]
        found = coded_edges(labels, pairs, ends, position, edge_labels)
        i, j = np.array(list(found), dtype=np.int64).reshape(-1, 2).T
        offsets = np.array([0, len(nodes)])
        return labels.split(offsets, i, j, codes, list(found.values()))[0]

    @classmethod
    def from_adjacency(cls, A: Any, node_labels: Any = None) -> Graph:
        """A graph from its adjacency matrix.

        Parameters
        ----------
        A : (n, n) array or SciPy sparse matrix
            Symmetric, zeros and ones, with a zero diagonal.
        node_labels : sequence of n labels, or mapping {0..n-1: label}, optional

        Examples
        --------
        >>> Graph.from_adjacency([[0, 1], [1, 0]]).n_nodes
        2
        """
        return cls._from_adjacency(Labels(), A, node_labels)

    @classmethod
    def _from_adjacency(cls, labels: Labels, A: Any, node_labels: Any = None) -> Graph:
        A = sp.csr_array(A if sp.issparse(A) else np.atleast_2d(np.asarray(A)))
        n = A.shape[0]
        if A.shape != (n, n):
            raise ValueError(f"the adjacency matrix of a graph has shape {A.shape}; it is square")
        A.sum_duplicates()
        A.eliminate_zeros()
        if not np.all(A.data == 1):
            found = A.data[A.data != 1][0]
            raise ValueError(
                f"the adjacency matrix of a graph has the entry {found!r}; expected only 0 and 1: "
                "these kernels do not use weights, so pass A != 0"
            )
        if (A != A.T).nnz:
            raise ValueError(
                "the adjacency matrix of a graph is not symmetric; these kernels compare "
                "undirected graphs: pass ((A + A.T) > 0) to forget directions"
            )
        i, j = A.tocoo().coords
        loops = i[i == j]
        if len(loops):
            raise ValueError(
                f"the adjacency matrix of a graph has a non-zero diagonal at node {loops[0]}; "
                "these kernels compare graphs without self-loops: set the diagonal to zero"
            )
        _, codes = coded_nodes(labels, [], node_labels, n)
        unlabelled = np.full(len(i), labels.edges[None])
        return labels.split(np.array([0, n]), i, j, codes, unlabelled)[0]

    @classmethod
    def parse(cls, x: Any) -> Graph:
        """A graph from any of its forms.

        Parameters
        ----------
        x : Graph, tuple, dict, matrix or networkx graph
            ``(edges, node_labels)`` or ``(edges, node_labels, edge_labels)`` as in `from_edges`;
            a dict with the key "edges" and any of "node_labels", "edge_labels" and "n_nodes"; an
            adjacency matrix ``A`` (array or sparse) or ``(A, node_labels)`` as in
            `from_adjacency`; or any object with ``nodes`` and ``edges`` as networkx has them, whose
            labels are the attributes "label" of nodes and edges; `from_networkx` takes others.
        """
        return cls._parse(Labels(), x)

    @classmethod
    def _parse(cls, labels: Labels, x: Any) -> Graph:
        if isinstance(x, Graph):
            return x
        if hasattr(x, "nodes") and hasattr(x, "edges"):
            return from_views(labels, x)
        if isinstance(x, Mapping):
            unknown = set(x) - {"edges", "node_labels", "edge_labels", "n_nodes"}
            if unknown or "edges" not in x:
                raise ValueError(
                    f"a graph is a dict with the keys {sorted(map(str, x))}; expected 'edges' and "
                    "perhaps 'node_labels', 'edge_labels' and 'n_nodes'"
                )
            return cls._from_edges(labels, **x)
        if _is_matrix(x):
            return cls._from_adjacency(labels, x)
        if isinstance(x, tuple) and len(x) in (2, 3):
            if _is_matrix(x[0]) and len(x) == 2:
                return cls._from_adjacency(labels, *x)
            return cls._from_edges(labels, *x)
        raise TypeError(
            f"a graph is of type {type(x).__name__}; expected (edges, node_labels), a dict with "
            "'edges', an adjacency matrix as an array, a networkx graph or a mercer Graph; for "
            "objects of your own use kernels.FromFunction"
        )


class Labels:
    """The alphabets that graphs read together share, and the attributes of networkx with labels."""

    def __init__(self, node_label: str | None = "label", edge_label: str | None = "label") -> None:
        self.nodes, self.edges = Numbering(), Numbering()
        self.node_label, self.edge_label = node_label, edge_label

    def split(
        self,
        offsets: np.ndarray,
        rows: np.ndarray,
        columns: np.ndarray,
        node_codes: Any,
        edge_codes: Any,
    ) -> list[Graph]:
        """Graphs from all their nodes and edges, numbered through.

        Parameters
        ----------
        offsets : (g + 1,) int array
            The nodes of graph k are offsets[k] to offsets[k + 1] - 1.
        rows, columns : int arrays
            Both ends of every edge, both ways, each once.
        node_codes : n codes
        edge_codes : as many codes as rows
        """
        n = int(offsets[-1])
        place = rows.astype(np.int64) * n + columns
        nodes, edges = (np.asarray(codes, dtype=np.int32) for codes in (node_codes, edge_codes))
        if np.any(place[1:] < place[:-1]):
            order = np.argsort(place)
            rows, columns, edges = rows[order], columns[order], edges[order]
        sizes = np.diff(offsets)
        ends = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n))))
        starts = ends[offsets]
        # An end more than there are nodes for each graph, counted from its own first.
        indptr = ends[ragged_arange(offsets[:-1], sizes + 1)] - np.repeat(starts[:-1], sizes + 1)
        indices = columns - np.repeat(offsets[:-1], np.diff(starts))
        for array in (indptr, indices, nodes, edges):
            array.setflags(write=False)
        return [
            Graph(
                indptr[a + k : b + k + 1],
                indices[c:d],
                nodes[a:b],
                edges[c:d],
                self.nodes,
                self.edges,
            )
            for k, (a, b, c, d) in enumerate(
                zip(
                    offsets[:-1].tolist(),
                    offsets[1:].tolist(),
                    starts[:-1].tolist(),
                    starts[1:].tolist(),
                    strict=True,
                )
            )
        ]


def _is_matrix(x: Any) -> bool:
    return sp.issparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype != object)


def from_views(labels: Labels, x: Any) -> Graph:
    """A graph from an object with networkx's views; its class is never imported."""
    for question, trait, advice in (
        (
            "is_directed",
            "is directed",
            "these kernels compare undirected graphs: pass graph.to_undirected()",
        ),
        (
            "is_multigraph",
            "may have parallel edges",
            "these kernels compare simple graphs: pass networkx.Graph(graph)",
        ),
    ):
        if getattr(x, question, bool)():
            raise ValueError(f"a graph is a {type(x).__name__}, which {trait}; {advice}")
    nodes = dict(x.nodes(data=True))
    edges = list(x.edges(data=True))
    of_node, of_edge = labels.node_label, labels.edge_label
    labelled = [node for node, data in nodes.items() if of_node in data]
    if labelled and len(labelled) < len(nodes):
        missing = next(node for node, data in nodes.items() if of_node not in data)
        raise ValueError(
            f"the node {missing!r} of a graph has no attribute {of_node!r} though others have; "
            "label all nodes or none"
        )
    edge_labels = {(u, v): data[of_edge] for u, v, data in edges if of_edge in data}
    return Graph._from_edges(
        labels,
        [(u, v) for u, v, _ in edges],
        {node: data.get(of_node) for node, data in nodes.items()},
        edge_labels or None,
    )
