"""Kernels on undirected graphs with labels on nodes and edges.

All take the forms of `mercer.kernels.graphs.Graph.parse`. A graph without labels counts as one
whose nodes, or edges, all have the same label (None).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from sklearn.utils._param_validation import Interval, Options

from mercer.arrays import row_blocks
from mercer.kernels.domains import GRAPHS, Domain
from mercer.kernels.graphlets import class_edges, graphlet_counts
from mercer.kernels.graphs import Graph
from mercer.kernels.labels import digest, label_bytes
from mercer.kernels.structured import ExplicitKernel, PairwiseKernel, same_objects
from mercer.kernels.walks import WalkGraph, check_convergence, common_walks

ROUNDS = Interval(Integral, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")


class _GraphFeatures(ExplicitKernel):
    """A kernel whose features are counts of things found in a graph."""

    @property
    def domain(self) -> Domain:
        return GRAPHS

    def parse_object(self, x: Any) -> Graph:
        return Graph.parse(x)


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


class WeisfeilerLehman(_GraphFeatures):
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

    _parameter_constraints = {"iterations": [ROUNDS]}

    def __init__(self, iterations: int = 5):
        self.iterations = iterations

    def features(self, x: Graph) -> dict[Hashable, float]:
        rounds = enumerate(refined_labels(x, self.iterations))
        return dict(Counter((i, label) for i, labels in rounds for label in labels))


class WLOptimalAssignment(_GraphFeatures):
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

    _parameter_constraints = {"iterations": [ROUNDS]}

    def __init__(self, iterations: int = 5):
        self.iterations = iterations

    def features(self, x: Graph) -> dict[Hashable, float]:
        rounds = enumerate(refined_labels(x, self.iterations))
        counts = Counter((i, label) for i, labels in rounds for label in labels)
        return {(*c, copy): 1.0 for c, count in counts.items() for copy in range(count)}


class ShortestPath(_GraphFeatures):
    r"""Pairs of nodes with equal end labels at equal distance.

    .. math:: k(G, H) = \sum_{a, b, d} n_{a,b,d}(G)\, n_{a,b,d}(H)

    where :math:`n_{a,b,d}(G)` counts the unordered pairs of different nodes of G with labels a and
    b whose shortest path has d edges. Pairs without a path do not count, and edge labels are not
    used.

    Examples
    --------
    >>> path, triangle = ([(0, 1), (1, 2)], None), ([(0, 1), (1, 2), (2, 0)], None)
    >>> ShortestPath()([path, triangle])
    array([[5., 6.],
           [6., 9.]])

    References
    ----------
    K. M. Borgwardt and H.-P. Kriegel, "Shortest-path kernels on graphs", ICDM 2005.
    """

    def features(self, x: Graph) -> dict[Hashable, float]:
        n = x.n_nodes
        names = sorted(set(x.node_labels), key=label_bytes)  # the same order in every graph
        number = {label: i for i, label in enumerate(names)}
        code = np.array([number[label] for label in x.node_labels], dtype=np.int64)
        adjacency = x.adjacency()
        counts: Counter = Counter()
        for block in row_blocks(n, 64 * n):
            rows = np.arange(block.start, block.stop)
            distance = dijkstra(adjacency, indices=rows, unweighted=True)
            i, j = np.nonzero(np.isfinite(distance) & (rows[:, None] < np.arange(n)))
            d = distance[i, j].astype(np.int64)
            a, b = code[rows[i]], code[j]
            key = (np.minimum(a, b) * len(names) + np.maximum(a, b)) * n + d
            for value, count in zip(*np.unique(key, return_counts=True), strict=True):
                labels, d = divmod(int(value), n)
                a, b = divmod(labels, len(names))
                counts[names[a], names[b], d] += int(count)
        return dict(counts)


class RandomWalk(PairwiseKernel):
    r"""Common walks of all lengths, longer ones weighted down.

    .. math::
        k(G, H) = \sum_{k \ge 0} \lambda^k\, \mathbf 1^\top W^k \mathbf 1
                = \mathbf 1^\top (I - \lambda W)^{-1} \mathbf 1

    where W is the adjacency matrix of the direct product of G and H: its nodes are the pairs of
    nodes with equal labels, its edges the pairs of edges with equal labels. The k-th term counts
    the pairs of walks of k edges with the same labels along the way.

    The series converges where :math:`\lambda` is below 1 over the spectral radius of W, which is
    at most the product of the largest degrees. A graph whose product with itself breaks this
    bound is refused with a ValueError that names it; all others converge with each other.

    Parameters
    ----------
    decay : float > 0, default=0.01
        The weight :math:`\lambda` of each edge of a walk.

    Examples
    --------
    >>> edge, triangle = ([(0, 1)], None), ([(0, 1), (1, 2), (2, 0)], None)
    >>> RandomWalk(decay=0.1)([edge, triangle]).round(3)
    array([[ 4.444,  7.5  ],
           [ 7.5  , 15.   ]])

    References
    ----------
    T. Gaertner, P. Flach and S. Wrobel, "On graph kernels: hardness results and efficient
    alternatives", COLT 2003; S. V. N. Vishwanathan, N. N. Schraudolph, R. Kondor and
    K. M. Borgwardt, "Graph kernels", JMLR 11, 2010.
    """

    _parameter_constraints = {"decay": [POSITIVE]}

    def __init__(self, decay: float = 0.01):
        self.decay = decay

    @property
    def domain(self) -> Domain:
        return GRAPHS

    def parse_object(self, x: Any) -> WalkGraph:
        graph = WalkGraph(Graph.parse(x))
        check_convergence(graph, float(self.decay))
        return graph

    def proof_reason(self) -> str:
        return (
            "a sum with non-negative weights of inner products of counts of labelled walks, on "
            "graphs for which it converges"
        )

    def pairs(self, A: list[WalkGraph], B: list[WalkGraph]) -> np.ndarray:
        symmetric = same_objects(A, B)
        K = np.empty((len(A), len(B)))
        for i, a in enumerate(A):
            for j in range(i if symmetric else 0, len(B)):
                K[i, j] = common_walks(a, B[j], float(self.decay))
                if symmetric:
                    K[j, i] = K[i, j]
        return K


class Graphlet(_GraphFeatures):
    r"""Induced subgraphs of a few nodes, by shape.

    .. math:: k(G, H) = \sum_F n_F(G)\, n_F(H)

    where :math:`n_F(G)` counts the sets of `size` nodes of G that induce a subgraph isomorphic to
    F. Labels are not used. The counts are exact: connected subgraphs are enumerated, counts of
    disconnected ones follow from them.

    Parameters
    ----------
    size : {3, 4, 5}, default=3
    connected : bool, default=False
        Count only connected subgraphs. In large sparse graphs most sets of nodes have no edge at
        all, and that count then drowns the others.

    Examples
    --------
    >>> path, cycle = ([(0, 1), (1, 2), (2, 3)], None), ([(0, 1), (1, 2), (2, 3), (3, 0)], None)
    >>> Graphlet(size=3)([path, cycle])
    array([[ 8.,  8.],
           [ 8., 16.]])

    References
    ----------
    N. Shervashidze, S. V. N. Vishwanathan, T. Petri, K. Mehlhorn and K. M. Borgwardt, "Efficient
    graphlet kernels for large graph comparison", AISTATS 2009.
    """

    _parameter_constraints = {"size": [Options(Integral, {3, 4, 5})], "connected": ["boolean"]}

    def __init__(self, size: int = 3, connected: bool = False):
        self.size = size
        self.connected = connected

    def features(self, x: Graph) -> dict[Hashable, float]:
        counts = graphlet_counts(x, self.size, self.connected)
        return {class_edges(c): float(count) for c, count in counts.items()}


class Propagation(_GraphFeatures):
    r"""Nodes with similar label distributions around them, over rounds of propagation.

    .. math::
        k(G, H) = \sum_{t=0}^{h} \sum_b n_{t,b}(G)\, n_{t,b}(H), \qquad
        b_t(u) = \Bigl\lfloor \frac{v_t^\top (T^t P)_u + s_t}{w} \Bigr\rfloor

    where :math:`n_{t,b}(G)` counts the nodes of G in bin b in round t, P holds the indicator of
    each node's label, and T replaces a node's distribution by the mean of its neighbours' (a node
    without neighbours keeps its own). The projection :math:`v_t` has independent Cauchy entries,
    one per label, and the shift :math:`s_t` is uniform on [0, w]: nodes share a bin with a
    probability that falls with the total variation distance of their distributions.

    Each entry of :math:`v_t` is derived from the seed, the round and the label alone, so the map
    of a graph does not depend on other graphs and new labels may appear at any time. Edge labels
    are not used. Without node labels all distributions are equal.

    Parameters
    ----------
    iterations : int >= 0, default=5
        The number h of rounds of propagation.
    random_state : int >= 0, default=0
        The seed.
    bin_width : float > 0, default=1e-5
        The width w of a bin; a larger one lets distributions differ more.

    Examples
    --------
    >>> first, second = ([(0, 1), (1, 2)], ["a", "b", "a"]), ([(0, 1), (1, 2)], ["a", "b", "b"])
    >>> Propagation(iterations=1)([first, second])
    array([[10.,  8.],
           [ 8., 10.]])

    References
    ----------
    M. Neumann, R. Garnett, C. Bauckhage and K. Kersting, "Propagation kernels: efficient graph
    kernels from propagated information", Machine Learning 102, 2016.
    """

    _parameter_constraints = {
        "iterations": [ROUNDS],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "bin_width": [POSITIVE],
    }

    def __init__(self, iterations: int = 5, random_state: int = 0, bin_width: float = 1e-5):
        self.iterations = iterations
        self.random_state = random_state
        self.bin_width = bin_width

    def features(self, x: Graph) -> dict[Hashable, float]:
        projection = {label: self._projection(label) for label in set(x.node_labels)}
        V = np.array([projection[label] for label in x.node_labels])  # column t: P v_t
        V = V.reshape(x.n_nodes, self.iterations + 1)
        lonely = x.degrees == 0
        T = sp.dia_array((1 / np.maximum(x.degrees, 1), 0), shape=(x.n_nodes, x.n_nodes))
        T = T @ x.adjacency() + sp.diags_array(lonely.astype(float))
        counts: Counter = Counter()
        for t in range(self.iterations + 1):
            shift = self.bin_width * self._uniform(t)
            bins = np.floor((V[:, t] + shift) / self.bin_width)
            counts.update((t, b) for b in bins.tolist())
            V[:, t + 1 :] = T @ V[:, t + 1 :]
        return dict(counts)

    def _projection(self, label: Any) -> list[float]:
        """The label's entry of v_0, ..., v_h."""
        name = label_bytes(label)
        draws = [self._uniform(t, name) for t in range(self.iterations + 1)]
        return [float(np.tan(np.pi * (u - 0.5))) for u in draws]

    def _uniform(self, t: int, *name: bytes) -> float:
        """A number in (0, 1) that the seed, the round and the name decide."""
        bits = digest(b"%d" % self.random_state, b"%d" % t, *name)[:8]
        return ((int.from_bytes(bits, "little") >> 11) + 0.5) * 2.0**-53
