"""Many graphs read together, which share their alphabets of labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from mercer.kernels.graph.graphs import Graph, Labels, from_views

MISSING = object()
UNUSED = (
    "object {}: the nodes of this {} have the attribute {!r} and no attribute 'label', so the "
    "graph has no node labels; choose an attribute with kernels.from_networkx(graphs, "
    "node_label={!r}), or none with node_label=None"
)


def from_networkx(
    graphs: Sequence[Any], node_label: str | None = "label", edge_label: str | None = "label"
) -> list[Graph]:
    """Graphs from networkx graphs, with labels from the attributes of that name.

    Parameters
    ----------
    graphs : sequence of undirected, simple networkx graphs
    node_label, edge_label : str or None, default="label"
        The attribute that holds the labels; with None, nodes or edges have no labels.

    Returns
    -------
    list of Graph
        For graph kernels, and for models with them.
    """
    labels, found = Labels(node_label, edge_label), []
    for number, x in enumerate(graphs):
        if not (hasattr(x, "nodes") and hasattr(x, "edges")):
            raise TypeError(f"object {number} is a {type(x).__name__}, not a networkx graph")
        try:
            _require_attribute("node", node_label, [data for _, data in x.nodes(data=True)])
            _require_attribute("edge", edge_label, [data for *_, data in x.edges(data=True)])
            found.append(from_views(labels, x))
        except (TypeError, ValueError) as error:
            raise type(error)(f"object {number}: {error}") from None
    return found


def _require_attribute(what: str, name: str | None, given: list[dict]) -> None:
    """Raise an error if a chosen attribute is missing; 'label' is optional."""
    for data in given:
        if name not in (None, "label") and name not in data:
            others = f"; it has {', '.join(map(repr, data))}" if data else ""
            raise ValueError(f"the {what} attribute {name!r} is missing from one{others}")


def parse_graphs(X: Sequence[Any]) -> list[Graph]:
    """Many graphs, each in any of the forms of `Graph.parse`; an error says which one is wrong."""
    labels = Labels()
    found: list[Any] = []
    views = _Views(labels)
    _warn_of_attributes(X)
    for number, x in enumerate(X):
        try:
            found.append(x if isinstance(x, Graph) or views.take(x) else Graph._parse(labels, x))
        except (TypeError, ValueError) as error:
            raise type(error)(f"object {number}: {error}") from None
    waiting = iter(views.graphs())
    return [x if isinstance(x, Graph) else next(waiting) for x in found]


class _Views:
    """Simple graphs of networkx, read through `nodes` and `adjacency` and put together at once."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.sizes: list[int] = []
        self.degrees: list[int] = []
        self.neighbours: list[int] = []
        self.node_codes: list[int] = []
        self.edge_codes: list[int] = []

    def take(self, x: Any) -> bool:
        """Read a graph; False, and nothing is done, where it is of another kind, or irregular."""
        if not hasattr(x, "adjacency") or not hasattr(x, "nodes"):
            return False
        if x.is_directed() or x.is_multigraph():
            return False
        around = [neighbours for _, neighbours in x.adjacency()]
        position = dict(zip(x, range(len(around)), strict=True))
        nodes = [label for _, label in x.nodes(data="label", default=MISSING)]
        edges = [data.get("label", MISSING) for part in around for data in part.values()]
        ends = [position[node] for node in chain.from_iterable(around)]
        degrees = list(map(len, around))
        for given in (nodes, edges):
            if MISSING in given:
                if given.count(MISSING) < len(given):
                    return False
                given[:] = [None] * len(given)
        if any(node in part for node, part in zip(position, around, strict=True)):
            return False  # a self-loop
        self.node_codes += self.labels.nodes.codes(nodes, "node", position)
        try:
            self.edge_codes += map(self.labels.edges.__getitem__, edges)
        except (TypeError, ValueError):
            del self.node_codes[len(self.node_codes) - len(nodes) :]
            return False
        self.sizes.append(len(around))
        self.degrees += degrees
        self.neighbours += ends
        return True

    def graphs(self) -> list[Graph]:
        offsets = np.concatenate(([0], np.cumsum(self.sizes, dtype=np.int64)))
        degrees = np.array(self.degrees, dtype=np.int64)
        first = np.repeat(np.repeat(offsets[:-1], self.sizes), degrees)
        return self.labels.split(
            offsets,
            np.repeat(np.arange(len(degrees)), degrees),
            np.array(self.neighbours, dtype=np.int64) + first,
            self.node_codes,
            self.edge_codes,
        )


def _warn_of_attributes(X: Sequence[Any]) -> None:
    """Warn of the first networkx graph whose nodes have attributes, none of them 'label'."""
    for number, x in enumerate(X):
        if isinstance(x, Graph) or not (hasattr(x, "nodes") and hasattr(x, "edges")):
            continue
        for _, data in x.nodes(data=True):
            if data and "label" not in data:
                names = (number, type(x).__name__, *([next(iter(data))] * 2))
                warnings.warn(UNUSED.format(*names), UserWarning, stacklevel=3)
                return
            break
