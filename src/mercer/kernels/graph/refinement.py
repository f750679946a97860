"""Kernels on graphs that count labels refined by those of the neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

import numpy as np
import scipy.sparse as sp

from mercer import core
from mercer.expressions import PairStatistic
from mercer.expressions.sparse_rows import sparse_minima
from mercer.kernels.graph.features import ROUNDS, GraphFeatures
from mercer.kernels.graph.graphs import Graph
from mercer.kernels.graph.joined import Joined, join
from mercer.kernels.keys import KeyVocabulary
from mercer.kernels.labels import digest, label_bytes
from mercer.kernels.ragged import ragged_arange
from mercer.kernels.structured import same_objects


class _Refinements(GraphFeatures):
    """A kernel of the Weisfeiler-Lehman labels of the rounds 0, ..., iterations."""

    _parameter_constraints = {"iterations": [ROUNDS]}

    def __init__(self, iterations: int = 5):
        self.iterations = iterations

    def vocabulary(self) -> KeyVocabulary:
        return KeyVocabulary(4)

    def label_counts(
        self, objects: list[Graph], vocabulary: KeyVocabulary, grow: bool
    ) -> sp.csr_array:
        """How many nodes have each label, of all rounds."""
        graphs = join(objects)
        names = refined_names(graphs, self.iterations)
        # The labels of one node in all rounds come one after the other, so those of a graph do.
        keys = names.transpose(1, 0, 2).reshape(-1, 2).view(np.uint32)
        return vocabulary.count(keys, graphs.offsets * (self.iterations + 1), grow)


def refined_names(graphs: Joined, iterations: int) -> np.ndarray:
    """Names of 128 bits for the labels of all nodes: (iterations + 1, n, 2) uint64.

    Those of round 0 are digests of the labels, later ones a mixture of a node's name and the sum of
    its neighbours'; so a name depends on what lies around the node, not on other graphs.
    """
    edges, codes = graphs.edges.names(), graphs.edge_codes
    if len(codes) == 0 or codes.min() == codes.max():
        edges, codes = edges[codes[:1]] if len(codes) else np.zeros((1, 2), np.uint64), None
    names = graphs.nodes.names()[graphs.node_codes]
    threads = core.threads(len(graphs.indices), iterations)
    return core.graph_routines().refined(
        *graphs.structure, names, codes, edges, iterations, threads
    )


def refined_labels(graph: Graph, iterations: int) -> Iterator[list[bytes]]:
    """The Weisfeiler-Lehman labels of all nodes, for the rounds 0, ..., iterations.

    A node's next label names its label together with the multiset of its neighbours' labels, each
    with the label of the edge between. Names are digests, so equal in every graph.
    """
    labels = [digest(label_bytes(label)) for label in graph.node_labels]
    known = {label: digest(label_bytes(label)) for label in set(graph.edge_labels)}
    edges = [known[label] for label in graph.edge_labels]
    neighbours, bounds = graph.indices.tolist(), graph.indptr.tolist()
    yield labels
    for _ in range(iterations):
        around = [edge + labels[j] for edge, j in zip(edges, neighbours, strict=True)]
        labels = [
            digest(label, *sorted(around[bounds[i] : bounds[i + 1]]))
            for i, label in enumerate(labels)
        ]
        yield labels


class WeisfeilerLehman(_Refinements):
    r"""The Weisfeiler-Lehman subtree kernel: equal labels of nodes, over rounds of refinement.

    .. math:: k(G, H) = \sum_{i=0}^{h} \sum_c n_{i,c}(G)\, n_{i,c}(H)

    where :math:`n_{i,c}(G)` counts the nodes of G with label c in round i. Round 0 has the given
    labels; in round i + 1 two nodes have one label if they had in round i and so had their
    neighbours, as multisets, along edges with equal labels. All rounds have weight one.

    Parameters
    ----------
    iterations : int >= 0, default=5
        The number h of rounds of refinement.

    Examples
    --------
    >>> path, triangle = ([(0, 1), (1, 2)], None), ([(0, 1), (1, 2), (2, 0)], None)
    >>> WeisfeilerLehman(iterations=1)([path, triangle])
    array([[14., 12.],
           [12., 18.]])

    References
    ----------
    N. Shervashidze, P. Schweitzer, E. J. van Leeuwen, K. Mehlhorn and K. M. Borgwardt,
    "Weisfeiler-Lehman graph kernels", JMLR 12, 2011.
    """

    def features(self, x: Graph) -> dict[Hashable, float]:
        rounds = enumerate(refined_labels(x, self.iterations))
        return dict(Counter((i, label) for i, labels in rounds for label in labels))

    def rows(self, objects: list[Graph], vocabulary: KeyVocabulary, grow: bool) -> sp.csr_array:
        return self.label_counts(objects, vocabulary, grow)


class WLOptimalAssignment(_Refinements):
    r"""The largest number of label agreements over all assignments of nodes to nodes.

    .. math::
        k(G, H) = \max_\pi \sum_{u} \#\{i \le h : c_i(u) = c_i(\pi(u))\}
                = \sum_{i=0}^{h} \sum_c \min\bigl(n_{i,c}(G), n_{i,c}(H)\bigr)

    where :math:`c_i(u)` is the Weisfeiler-Lehman label of node u in round i, :math:`n_{i,c}` counts
    nodes, and :math:`\pi` runs over the one-to-one assignments of the nodes of the smaller graph to
    nodes of the larger. Every round has weight one. The labels of later rounds refine those of
    earlier ones, which is why the best assignment is an intersection of histograms; and that is an
    inner product, as min(a, b) counts the numbers 1, 2, ... that are at most a and at most b.

    Parameters
    ----------
    iterations : int >= 0, default=5
        The number h of rounds of refinement.

    Examples
    --------
    >>> path, triangle = ([(0, 1), (1, 2)], None), ([(0, 1), (1, 2), (2, 0)], None)
    >>> WLOptimalAssignment(iterations=1)([path, triangle])
    array([[6., 4.],
           [4., 6.]])

    References
    ----------
    N. M. Kriege, P.-L. Giscard and R. Wilson, "On valid optimal assignment kernels and applications
    to graph classification", NIPS 2016.
    """

    def features(self, x: Graph) -> dict[Hashable, float]:
        rounds = enumerate(refined_labels(x, self.iterations))
        counts = Counter((i, label) for i, labels in rounds for label in labels)
        return {(*c, copy): 1.0 for c, count in counts.items() for copy in range(count)}

    def vocabulary(self) -> KeyVocabulary:
        return KeyVocabulary(5)

    def rows(self, objects: list[Graph], vocabulary: KeyVocabulary, grow: bool) -> sp.csr_array:
        names = KeyVocabulary(4)
        counts = self.label_counts(objects, names, grow=True)
        times = counts.data.astype(np.int64)
        keys = np.repeat(names.table.keys()[counts.indices], times, axis=0)
        copies = ragged_arange(np.zeros_like(times), times).astype(np.uint32)
        starts = np.concatenate(([0], np.cumsum(times)))[counts.indptr]
        return vocabulary.count(np.column_stack((keys, copies)), starts, grow)

    def statistic(self) -> PairStatistic:
        return PairStatistic(
            type(self).__name__,
            sparse_minima,
            self._sizes,
            prepare=self._shared_labels,
            whole=True,
        )

    def _shared_labels(self, A: list, B: list) -> tuple[sp.csr_array, sp.csr_array]:
        names = KeyVocabulary(4)
        left = self.label_counts(A, names, grow=True)
        return left, left if same_objects(A, B) else self.label_counts(B, names, grow=False)

    def _sizes(self, A: list[Graph]) -> np.ndarray:
        return np.array([(self.iterations + 1.0) * a.n_nodes for a in A])
