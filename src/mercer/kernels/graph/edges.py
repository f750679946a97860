"""The nodes, edges and labels that a graph is made from, checked and coded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any


def pairs_of(edges: Iterable[Any]) -> list[tuple[Any, Any]]:
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


def coded_nodes(
    labels: Any, pairs: list[tuple[Any, Any]], node_labels: Any, n_nodes: int | None
) -> tuple[list[Any], list[int]]:
    """The nodes and the codes of their labels."""
    if n_nodes is not None and (not isinstance(n_nodes, Integral) or n_nodes < 0):
        raise ValueError(f"n_nodes={n_nodes!r} of a graph; expected a whole number, 0 or more")
    if node_labels is None:
        seen = dict.fromkeys(node for pair in pairs for node in pair)
        nodes = list(seen) if n_nodes is None else list(range(n_nodes))
        return nodes, [labels.nodes[None]] * len(nodes)
    if isinstance(node_labels, Mapping):
        nodes, given = list(node_labels), list(node_labels.values())
    elif isinstance(node_labels, str | bytes) or not isinstance(node_labels, Iterable):
        raise TypeError(
            f"the node_labels of a graph are a {type(node_labels).__name__}; expected a dict "
            "{node: label} or a list of labels"
        )
    else:
        given = list(node_labels)
        nodes = list(range(len(given)))
    if n_nodes is not None and len(nodes) != n_nodes:
        raise ValueError(f"a graph of {n_nodes} nodes has {len(nodes)} node labels; give each one")
    return nodes, labels.nodes.codes(given, "node", nodes)


def coded_edges(
    labels: Any,
    pairs: list[tuple[Any, Any]],
    ends: list[tuple[int, int]],
    position: dict[Any, int],
    edge_labels: Any,
) -> dict[tuple[int, int], int]:
    """The code of every edge's label, at both its orientations."""
    known = {end for i, j in ends for end in ((i, j), (j, i))}
    if edge_labels is None:
        code: int = labels.edges[None]
        return dict.fromkeys(known, code)
    if isinstance(edge_labels, Mapping):
        labelled, values = pairs_of(edge_labels.keys()), list(edge_labels.values())
        given = [(position.get(u, -1), position.get(v, -1)) for u, v in labelled]
    else:
        labelled, values, given = pairs, list(edge_labels), ends
        if len(values) != len(ends):
            raise ValueError(
                f"a graph has {len(ends)} edges and {len(values)} edge_labels; give each edge one"
            )
    found: dict[tuple[int, int], int] = {}
    codes = labels.edges.codes(values, "the edge", labelled)
    for pair, (i, j), code in zip(labelled, given, codes, strict=True):
        if (i, j) not in known:
            raise ValueError(f"edge_labels of a graph labels {pair!r}, which is not an edge")
        if found.setdefault((i, j), code) != code:
            one, other = (list(labels.edges)[c] for c in (found[i, j], code))
            raise ValueError(
                f"the edge {pair!r} of a graph has two labels, {one!r} and {other!r}; the "
                "graphs are undirected, so (u, v) and (v, u) are one edge"
            )
        found[j, i] = code
    for pair, end in zip(pairs, ends, strict=True):
        if end not in found:
            raise ValueError(f"the edge {pair!r} of a graph has no label in edge_labels")
    return found
