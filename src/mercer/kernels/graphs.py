"""Undirected graphs with labels, and the forms in which one may be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.kernels.labels import as_label


@dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """An undirected simple graph: no self-loops, no parallel edges, no weights.

    Make one with `from_edges`, `from_adjacency` or `parse`.

    Attributes
    ----------
    indptr : (n + 1,) int array
    indices : (2m,) int array
        The neighbours of node i are ``indices[indptr[i]:indptr[i + 1]]``, in increasing order;
        each of the m edges appears at both its ends.
    node_labels : tuple of n labels
        None throughout for a graph without node labels.
    edge_labels : tuple of 2m labels
        One for each entry of `indices`; None throughout for a graph without edge labels.
    """

    indptr: np.ndarray
    indices: np.ndarray
    node_labels: tuple[Any, ...]
    edge_labels: tuple[Any, ...]

    @property
    def n_nodes(self) -> int:
        return len(self.node_labels)

    @property
    def degrees(self) -> np.ndarray:
        """(n,) int array."""
        return np.diff(self.indptr)

    def adjacency(self) -> sp.csr_array:
        """The symmetric (n, n) matrix of zeros and ones."""
        ones = np.ones(len(self.indices))
        shape = (self.n_nodes, self.n_nodes)
        return sp.csr_array((ones, self.indices, self.indptr), shape=shape)

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
        pairs = _pairs(edges)
        nodes, labels = _nodes(pairs, node_labels, n_nodes)
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
        return _assemble(tuple(labels), _labelled_edges(pairs, ends, position, edge_labels))

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
        _, labels = _nodes([], node_labels, n)
        coo = A.tocoo()
        return _assemble(
            tuple(labels), {(int(i), int(j)): None for i, j in zip(*coo.coords, strict=True)}
        )

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
            labels are the attributes "label" of nodes and edges. Other attributes are not used.
        """
        if isinstance(x, Graph):
            return x
        if hasattr(x, "nodes") and hasattr(x, "edges"):
            return _from_networkx(x)
        if isinstance(x, Mapping):
            unknown = set(x) - {"edges", "node_labels", "edge_labels", "n_nodes"}
            if unknown or "edges" not in x:
                raise ValueError(
                    f"a graph is a dict with the keys {sorted(map(str, x))}; expected 'edges' and "
                    "perhaps 'node_labels', 'edge_labels' and 'n_nodes'"
                )
            return cls.from_edges(**x)
        if _is_matrix(x):
            return cls.from_adjacency(x)
        if isinstance(x, tuple) and len(x) in (2, 3):
            if _is_matrix(x[0]) and len(x) == 2:
                return cls.from_adjacency(*x)
            return cls.from_edges(*x)
        raise TypeError(
            f"a graph is of type {type(x).__name__}; expected (edges, node_labels), a dict with "
            "'edges', an adjacency matrix as an array, a networkx graph or a mercer Graph"
        )


def _is_matrix(x: Any) -> bool:
    return sp.issparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype != object)


def _from_networkx(x: Any) -> Graph:
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
    labelled = [node for node, data in nodes.items() if "label" in data]
    if labelled and len(labelled) < len(nodes):
        missing = next(node for node, data in nodes.items() if "label" not in data)
        raise ValueError(
            f"the node {missing!r} of a graph has no attribute 'label' though others have; "
            "label all nodes or none"
        )
    edge_labels = {(u, v): data["label"] for u, v, data in edges if "label" in data}
    return Graph.from_edges(
        [(u, v) for u, v, _ in edges],
        {node: data.get("label") for node, data in nodes.items()},
        edge_labels or None,
    )


def _pairs(edges: Iterable[Any]) -> list[tuple[Any, Any]]:
    """The edges as a list of pairs of different nodes."""
    if isinstance(edges, Mapping | str | bytes) or not isinstance(edges, Iterable):
        raise TypeError(
            f"the edges of a graph are a {type(edges).__name__}; expected a list of pairs (u, v)"
        )
    pairs = []
    for number, edge in enumerate(edges):
        if isinstance(edge, str | bytes) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise ValueError(f"edge {number} of a graph is {edge!r}; expected a pair (u, v)")
        u, v = edge
        if u == v:
            raise ValueError(
                f"edge {number} of a graph joins the node {u!r} to itself; these kernels compare "
                "graphs without self-loops: remove it"
            )
        pairs.append((u, v))
    return pairs


def _nodes(
    pairs: list[tuple[Any, Any]], node_labels: Any, n_nodes: int | None
) -> tuple[list[Any], list[Any]]:
    """The nodes and their labels."""
    if n_nodes is not None and (not isinstance(n_nodes, Integral) or n_nodes < 0):
        raise ValueError(f"n_nodes={n_nodes!r} of a graph; expected a whole number, 0 or more")
    if node_labels is None:
        seen = dict.fromkeys(node for pair in pairs for node in pair)
        nodes = list(seen) if n_nodes is None else list(range(n_nodes))
        return nodes, [None] * len(nodes)
    if isinstance(node_labels, Mapping):
        nodes, labels = list(node_labels), list(node_labels.values())
    elif isinstance(node_labels, str | bytes) or not isinstance(node_labels, Iterable):
        raise TypeError(
            f"the node_labels of a graph are a {type(node_labels).__name__}; expected a dict "
            "{node: label} or a list of labels"
        )
    else:
        labels = list(node_labels)
        nodes = list(range(len(labels)))
    if n_nodes is not None and len(nodes) != n_nodes:
        raise ValueError(f"a graph of {n_nodes} nodes has {len(nodes)} node labels; give each one")
    return nodes, [as_label(x, f"node {node!r}") for node, x in zip(nodes, labels, strict=True)]


def _labelled_edges(
    pairs: list[tuple[Any, Any]],
    ends: list[tuple[int, int]],
    position: dict[Any, int],
    edge_labels: Any,
) -> dict[tuple[int, int], Any]:
    """The label of every edge, at both its orientations."""
    known = {end for i, j in ends for end in ((i, j), (j, i))}
    if edge_labels is None:
        return dict.fromkeys(known)
    if isinstance(edge_labels, Mapping):
        labelled, values = _pairs(edge_labels.keys()), list(edge_labels.values())
        given = [(position.get(u, -1), position.get(v, -1)) for u, v in labelled]
    else:
        labelled, values, given = pairs, list(edge_labels), ends
        if len(values) != len(ends):
            raise ValueError(
                f"a graph has {len(ends)} edges and {len(values)} edge_labels; give each edge one"
            )
    found: dict[tuple[int, int], Any] = {}
    for pair, (i, j), value in zip(labelled, given, values, strict=True):
        if (i, j) not in known:
            raise ValueError(f"edge_labels of a graph labels {pair!r}, which is not an edge")
        label = as_label(value, f"the edge {pair!r}")
        if found.setdefault((i, j), label) != label:
            raise ValueError(
                f"the edge {pair!r} of a graph has two labels, {found[i, j]!r} and {label!r}; the "
                "graphs are undirected, so (u, v) and (v, u) are one edge"
            )
        found[j, i] = label
    for pair, end in zip(pairs, ends, strict=True):
        if end not in found:
            raise ValueError(f"the edge {pair!r} of a graph has no label in edge_labels")
    return found


def _assemble(labels: tuple[Any, ...], edges: dict[tuple[int, int], Any]) -> Graph:
    """The graph of edges that are given at both their orientations."""
    order = sorted(edges)
    loops = [i for i, j in order if i == j]
    if loops:
        raise ValueError(
            f"the adjacency matrix of a graph has a non-zero diagonal at node {loops[0]}; these "
            "kernels compare graphs without self-loops: set the diagonal to zero"
        )
    ends = np.array(order, dtype=np.intp).reshape(-1, 2)
    indptr = np.searchsorted(ends[:, 0], np.arange(len(labels) + 1)).astype(np.intp)
    indices = ends[:, 1].copy()
    for array in (indptr, indices):
        array.setflags(write=False)
    return Graph(indptr, indices, labels, tuple(edges[end] for end in order))
