r"""Counts of small induced subgraphs, by isomorphism class.

A set of s nodes in increasing order has a *pattern*: one bit for each of its s(s-1)/2 pairs. All
that depends on a pattern alone (its isomorphism class, whether it is connected) is tabulated once,
so the work per set is a few array operations.

Connected sets are grown node by node. Every connected set of s + 1 nodes has a node that can be
taken away and leaves it connected; taking the largest such node makes its *parent* unique, and a
growing step is kept only when it adds that node. Each connected set is so reached once, without a
table of the sets seen, and in blocks of bounded size.

Disconnected classes are not enumerated. If H has the components :math:`C_1, \dots, C_r`, choosing
an occurrence of each, freely, covers some induced subgraph F of at most as many nodes, so

.. math:: \prod_i n(C_i) = \sum_F t_F\, n(F),

where :math:`t_F` counts the coverings of F by occurrences of the components. Besides H only
classes with fewer nodes or fewer components take part, which gives n(H) in exact integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from mercer.arrays import memory_budget
from mercer.kernels.graphs import Graph
from mercer.kernels.ragged import ragged_arange, weighted_blocks

Class = tuple[int, int]  # the number of nodes, and the smallest pattern of the class


def graphlet_counts(graph: Graph, size: int, connected: bool) -> dict[Class, int]:
    """How many sets of `size` nodes induce a subgraph of each isomorphism class.

    Parameters
    ----------
    graph : Graph
    size : int
    connected : bool
        Whether to count connected subgraphs only.

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> {class_edges(c): n for c, n in graphlet_counts(path, 3, connected=False).items()}
    {((0, 1), (0, 2)): 2, ((0, 1),): 2}
    """
    counts = connected_counts(graph, size)
    if not connected:
        for target, parts, own, others in _relations(size):
            product = math.prod(counts.get(part, 0) for part in parts)
            covered = sum(times * counts.get(other, 0) for other, times in others)
            counts[target] = (product - covered) // own
    return {c: n for c, n in counts.items() if c[0] == size and n}


def class_edges(found: Class) -> tuple[tuple[int, int], ...]:
    """The edges of the class's representative on the nodes 0, ..., s - 1."""
    size, pattern = found
    pairs = combinations(range(size), 2)
    return tuple(pair for bit, pair in enumerate(pairs) if pattern >> bit & 1)


def connected_counts(graph: Graph, size: int) -> dict[Class, int]:
    """How many sets of 1, ..., `size` nodes induce each connected class."""
    totals = [np.zeros(1 << s * (s - 1) // 2, dtype=np.int64) for s in range(size + 1)]
    adjacent = _Adjacency(graph)
    waiting: list[Iterator[np.ndarray]] = [iter([np.arange(graph.n_nodes)[:, None]])]
    while waiting:
        rows = next(waiting[-1], None)
        if rows is None:
            waiting.pop()
            continue
        s = rows.shape[1]
        totals[s] += np.bincount(adjacent.patterns(rows), minlength=len(totals[s]))
        if s < size:
            waiting.append(_grow(graph, adjacent, rows))
    found: dict[Class, int] = {}
    for s in range(1, size + 1):
        table = _patterns(s)
        for pattern in np.flatnonzero(totals[s]):
            c = (s, int(table.smallest[pattern]))
            found[c] = found.get(c, 0) + int(totals[s][pattern])
    return found


def _grow(graph: Graph, adjacent: _Adjacency, rows: np.ndarray) -> Iterator[np.ndarray]:
    """The children of connected sets: (r, s) node numbers to blocks of (r', s + 1)."""
    s = rows.shape[1]
    removable = _patterns(s + 1).removable
    limit = memory_budget() / (64 * (s + 2))
    for block in weighted_blocks(graph.degrees[rows].sum(axis=1), limit):
        parents = rows[block]
        found: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for i in range(s):
            degree = graph.degrees[parents[:, i]]
            parent = parents[np.repeat(np.arange(len(parents)), degree)]
            new = graph.indices[ragged_arange(graph.indptr[parents[:, i]], degree)]
            fresh = ~(parent == new[:, None]).any(axis=1)
            for j in range(i):  # a neighbour of an earlier member has been met there
                fresh &= ~adjacent(parent[:, j], new)
            found[0].append(parent[fresh])
            found[1].append(new[fresh])
        new = np.concatenate(found[1])
        grown = np.sort(np.column_stack((np.concatenate(found[0]), new)), axis=1)
        last = removable[adjacent.patterns(grown)]
        yield grown[grown[np.arange(len(grown)), last] == new]


class _Adjacency:
    """Whether pairs of nodes are adjacent, by binary search in the sorted edges."""

    def __init__(self, graph: Graph):
        self.n = graph.n_nodes
        self.codes = np.repeat(np.arange(self.n), graph.degrees) * self.n + graph.indices
        self.codes = np.append(self.codes, self.n**2)  # a search never ends beyond the last

    def __call__(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        code = u * self.n + v
        return self.codes[np.searchsorted(self.codes, code)] == code

    def patterns(self, rows: np.ndarray) -> np.ndarray:
        """(r,) patterns of (r, s) sets in increasing order."""
        pattern = np.zeros(len(rows), dtype=np.intp)
        for bit, (i, j) in enumerate(combinations(range(rows.shape[1]), 2)):
            pattern |= self(rows[:, i], rows[:, j]).astype(np.intp) << bit
        return pattern


class Patterns(NamedTuple):
    """What is known of all patterns of s nodes, as arrays over the 2^(s(s-1)/2) patterns.

    Attributes
    ----------
    smallest : int array
        The smallest pattern of the same isomorphism class.
    connected : bool array
    removable : int array
        The last position without which the rest is connected, where the pattern is.
    """

    smallest: np.ndarray
    connected: np.ndarray
    removable: np.ndarray


@cache
def _patterns(s: int) -> Patterns:
    pairs = list(combinations(range(s), 2))
    bit = {pair: b for b, pair in enumerate(pairs)}
    every = np.arange(1 << len(pairs))
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
    connected = _connected(A)
    removable = np.full(len(every), -1)
    for i in range(s):
        rest = [j for j in range(s) if j != i]
        removable[_connected(A[:, rest][:, :, rest])] = i
    return Patterns(smallest, connected, removable)


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
    classes = [(s, int(c)) for s in range(1, size + 1) for c in np.unique(_patterns(s).smallest)]
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
    pairs = enumerate(combinations(nodes, 2))
    pattern = sum(1 << bit for bit, pair in pairs if pair in edges)
    return len(nodes), int(_patterns(len(nodes)).smallest[pattern])


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
