"""Graphs one after the other, in the arrays that the core takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mercer.kernels.graph.graphs import Graph, Labels
from mercer.kernels.labels import Numbering


class Joined(NamedTuple):
    """Graphs one after the other, as the core takes them: their nodes are numbered through.

    Attributes
    ----------
    offsets : (g + 1,) int64 array
        The nodes of graph k are offsets[k] to offsets[k + 1] - 1.
    indptr : (n + 1,) int64 array
    indices : (2m,) int32 array
    node_codes, edge_codes : int32 arrays
    nodes, edges : Numbering
    """

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    node_codes: np.ndarray
    edge_codes: np.ndarray
    nodes: Numbering
    edges: Numbering

    @property
    def structure(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.offsets, self.indptr, self.indices


def join(graphs: Sequence[Graph], labels: Labels | None = None) -> Joined:
    """Graphs one after the other; their labels in these alphabets, which may grow, if given."""
    sizes = np.fromiter((len(g.node_codes) for g in graphs), np.int64, len(graphs))
    ends = np.fromiter((len(g.indices) for g in graphs), np.int64, len(graphs))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    starts = np.concatenate(([0], np.cumsum(ends)))
    indptr = _concatenated([g.indptr[1:] for g in graphs], np.int64)
    indptr += np.repeat(starts[:-1], sizes)
    indices = _concatenated([g.indices for g in graphs], np.int64)
    indices += np.repeat(offsets[:-1], ends)
    nodes, node_codes = _recode(
        [g.nodes for g in graphs], [g.node_codes for g in graphs], labels and labels.nodes
    )
    edges, edge_codes = _recode(
        [g.edges for g in graphs], [g.edge_codes for g in graphs], labels and labels.edges
    )
    return Joined(
        offsets,
        np.concatenate(([0], indptr)),
        indices.astype(np.int32),
        node_codes,
        edge_codes,
        nodes,
        edges,
    )


def _concatenated(parts: list[np.ndarray], dtype: Any) -> np.ndarray:
    return np.concatenate([*parts, np.empty(0, dtype)], dtype=dtype, casting="same_kind")


def _recode(
    alphabets: list[Numbering], codes: list[np.ndarray], common: Numbering | None
) -> tuple[Numbering, np.ndarray]:
    """One alphabet for all, and the codes in it."""
    joined = _concatenated(codes, np.int32)
    distinct = {id(alphabet): alphabet for alphabet in alphabets}
    if common is None and len(distinct) == 1:
        return alphabets[0], joined
    common = Numbering() if common is None else common
    # The distinct alphabets one after the other, and where each of them starts.
    known = np.array([common[x] for alphabet in distinct.values() for x in alphabet], np.int32)
    ends = np.cumsum([len(alphabet) for alphabet in distinct.values()])
    start = dict(zip(distinct, [0, *ends.tolist()], strict=False))
    starts = np.array([start[id(alphabet)] for alphabet in alphabets], dtype=np.int64)
    return common, known[joined + np.repeat(starts, [len(code) for code in codes])]
