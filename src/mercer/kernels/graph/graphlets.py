r"""Counts of small induced subgraphs, by isomorphism class.

A set of s nodes in some order has a *pattern*: one bit for each of its s(s-1)/2 pairs. All that
depends on a pattern alone (its isomorphism class) is tabulated once. The core enumerates the
connected sets, each once (Wernicke's ESU), and counts them by pattern.

Disconnected classes are not enumerated. If H has the components :math:`C_1, \dots, C_r`, choosing
an occurrence of each, freely, covers some induced subgraph F of at most as many nodes, so

.. math:: \prod_i n(C_i) = \sum_F t_F\, n(F),

where :math:`t_F` counts the coverings of F by occurrences of the components. Besides H only
classes with fewer nodes or fewer components take part, which gives n(H) in exact integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, permutations

import numpy as np

from mercer import core
from mercer.kernels.graph.graphs import Graph
from mercer.kernels.graph.joined import join

Class = tuple[int, int]  # the number of nodes, and the smallest pattern of the class


def graphlet_counts(
    graphs: Sequence[Graph], size: int, connected: bool
) -> tuple[list[Class], np.ndarray]:
    """How many sets of `size` nodes induce a subgraph of each isomorphism class.

    Parameters
    ----------
    graphs : n graphs
    size : int
    connected : bool
        Whether to count connected subgraphs only.

    Returns
    -------
    classes : list of k classes
    counts : (n, k) array
        Of Python's integers where those of 64 bits might not do.

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> classes, counts = graphlet_counts([path], 3, connected=False)
    >>> dict(zip(map(class_edges, classes), counts[0].tolist(), strict=True))
    {((0, 1), (0, 2)): 2, ((0, 1), (0, 2), (1, 2)): 0, ((0, 1),): 2, (): 0}
    """
    counts = connected_counts(graphs, size)
    if not connected:
        for target, parts, own, others in _relations(size):
            product = np.prod([counts[part] for part in parts], axis=0)
            for other, times in others:
                product = product - times * counts[other]
            counts[target] = product // own
    classes = [c for c in counts if c[0] == size]
    return classes, np.stack([counts[c] for c in classes], axis=1)


def class_edges(found: Class) -> tuple[tuple[int, int], ...]:
    """The edges of the class's representative on the nodes 0, ..., s - 1."""
    size, pattern = found
    return tuple(sorted(pair for bit, pair in enumerate(_pairs(size)) if pattern >> bit & 1))


def _pairs(size: int) -> list[tuple[int, int]]:
    """The pairs of positions, in the order of the bits of a pattern."""
    return [(i, j) for j in range(size) for i in range(j)]


def connected_counts(graphs: Sequence[Graph], size: int) -> dict[Class, np.ndarray]:
    """How many sets of 1, ..., `size` nodes of each graph induce each connected class."""
    joined = join(graphs)
    largest = int(np.diff(joined.offsets).max(initial=0))
    threads = core.threads(len(joined.indices), 4**size)
    found = core.graph_routines().subgraph_counts(*joined.structure, size, threads)
    if largest**size >= 2**62:  # products of counts are as large
        found = found.astype(object)
    counts: dict[Class, np.ndarray] = {}
    start = 0
    for s in range(1, size + 1):
        smallest, connected = _patterns(s)
        for c in np.unique(smallest[connected]).tolist():
            counts[s, c] = found[:, start + np.flatnonzero(smallest == c)].sum(axis=1)
        start += len(smallest)
    return counts


@cache
def _patterns(s: int) -> tuple[np.ndarray, np.ndarray]:
    """For all patterns of s nodes: the smallest of the same class, and whether it is connected."""
    bit = {pair: b for b, pair in enumerate(_pairs(s))}
    every = np.arange(1 << len(bit))
    A = np.zeros((len(every), s, s), dtype=bool)
    for (i, j), b in bit.items():
        A[:, i, j] = A[:, j, i] = every >> b & 1
    smallest = every.copy()
    for order in permutations(range(s)):
        image = np.zeros_like(every)
        for (i, j), b in bit.items():
            u, v = sorted((order[i], order[j]))
            image |= (every >> b & 1) << bit[u, v]
        np.minimum(smallest, image, out=smallest)
    return smallest, _connected(A)


def _connected(A: np.ndarray) -> np.ndarray:
    """Whether each of (c, s, s) adjacency matrices is of a connected graph."""
    s = A.shape[1]
    reached = np.zeros(A.shape[:2], dtype=bool)
    reached[:, :1] = True
    for _ in range(s):
        reached |= (A & reached[:, :, None]).any(axis=1)
    return np.all(reached, axis=1)


@cache
def _relations(size: int) -> list[tuple[Class, list[Class], int, list[tuple[Class, int]]]]:
    """For each disconnected class: its components, and how often they cover each class.

    In the order in which the counts follow from one another: (class, components, how often they
    cover it, [(other class, how often they cover that one), ...]).
    """
    classes = [(s, int(c)) for s in range(1, size + 1) for c in np.unique(_patterns(s)[0])]
    parts = {c: _components(c) for c in classes}
    classes.sort(key=lambda c: (c[0], len(parts[c])))
    found = []
    for number, target in enumerate(classes):
        if len(parts[target]) == 1:
            continue
        smaller = [(c, _coverings(c, parts[target])) for c in classes if c != target]
        others = [(c, times) for c, times in smaller if times]
        found.append((target, parts[target], _coverings(target, parts[target]), others))
        assert all(c in classes[:number] for c, _ in others)
    return found


def _induced(found: Class, nodes: tuple[int, ...]) -> Class:
    """The class that some nodes of a class's representative induce."""
    edges = set(class_edges(found))
    pairs = enumerate(_pairs(len(nodes)))
    pattern = sum(1 << bit for bit, (i, j) in pairs if (nodes[i], nodes[j]) in edges)
    return len(nodes), int(_patterns(len(nodes))[0][pattern])


def _components(found: Class) -> list[Class]:
    """The classes of the connected components."""
    groups = [{i} for i in range(found[0])]
    for i, j in class_edges(found):
        joined = {i, j}.union(*(g for g in groups if i in g or j in g))
        groups = [g for g in groups if not g & joined] + [joined]
    return [_induced(found, tuple(sorted(group))) for group in groups]


def _coverings(found: Class, parts: list[Class]) -> int:
    """In how many ways occurrences of the parts, one of each, cover all nodes of a class."""
    everything = (1 << found[0]) - 1
    ways = {0: 1}  # the nodes covered so far, as bits, and in how many ways
    for part in parts:
        grown: dict[int, int] = {}
        for nodes in combinations(range(found[0]), part[0]):
            if _induced(found, nodes) == part:
                here = sum(1 << node for node in nodes)
                for covered, times in ways.items():
                    grown[covered | here] = grown.get(covered | here, 0) + times
        ways = grown
    return ways.get(everything, 0)
