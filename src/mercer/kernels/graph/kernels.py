"""Kernels on undirected graphs with labels on nodes and edges.

All take the forms of `Graph.parse`. A graph without labels counts as one whose nodes, or edges, all
have the same label (None).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from mercer import core
from mercer._sklearn import Interval, Options
from mercer.kernels.domains import GRAPHS, Domain
from mercer.kernels.graph.collections import parse_graphs
from mercer.kernels.graph.features import ROUNDS, GraphFeatures
from mercer.kernels.graph.graphlets import class_edges, graphlet_counts
from mercer.kernels.graph.graphs import Graph
from mercer.kernels.graph.joined import Joined, join
from mercer.kernels.graph.walks import check_convergence, walk_sums
from mercer.kernels.keys import KeyVocabulary
from mercer.kernels.labels import Numbering, digest, label_bytes
from mercer.kernels.structured import PairwiseKernel, same_objects
from mercer.kernels.vocabulary import sparse_rows

POSITIVE = Interval(Real, 0, None, closed="neither")


class ShortestPath(GraphFeatures):
    r"""Pairs of nodes with equal end labels at equal distance.

    .. math:: k(G, H) = \sum_{a, b, d} n_{a,b,d}(G)\, n_{a,b,d}(H)

    where :math:`n_{a,b,d}(G)` counts the ordered pairs of different nodes of G with labels a and b
    whose shortest path has d edges. Pairs without a path do not count, and edge labels are not
    used.

    Examples
    --------
    >>> path, triangle = ([(0, 1), (1, 2)], None), ([(0, 1), (1, 2), (2, 0)], None)
    >>> ShortestPath()([path, triangle])
    array([[20., 24.],
           [24., 36.]])

    References
    ----------
    K. M. Borgwardt and H.-P. Kriegel, "Shortest-path kernels on graphs", ICDM 2005.
    """

    def features(self, x: Graph) -> dict[Hashable, float]:
        distance = dijkstra(x.adjacency(), unweighted=True) if x.n_nodes else np.zeros((0, 0))
        labels = x.node_labels
        pairs = np.argwhere(np.isfinite(distance) & (distance > 0)).tolist()
        return dict(Counter((labels[i], labels[j], int(distance[i, j])) for i, j in pairs))

    def vocabulary(self) -> PathVocabulary:
        return PathVocabulary()

    def rows(self, objects: list[Graph], vocabulary: PathVocabulary, grow: bool) -> sp.csr_array:
        graphs = join(objects)
        codes = vocabulary.codes(graphs, grow)
        threads = core.threads(len(graphs.indices), int(np.diff(graphs.offsets).max(initial=0)))
        keys, counts, starts = core.graph_routines().path_counts(*graphs.structure, codes, threads)
        return vocabulary.weigh(keys, counts, starts, grow)


class PathVocabulary(KeyVocabulary):
    """Pairs of labels and a distance, each with a column."""

    def __init__(self) -> None:
        super().__init__(3)
        self.labels = Numbering()

    def __iter__(self) -> Iterator[tuple[Any, Any, int]]:
        labels = list(self.labels)
        return ((labels[a], labels[b], d) for a, b, d in self.table.keys().tolist())

    def codes(self, graphs: Joined, grow: bool) -> np.ndarray:
        """The nodes' labels as codes of this vocabulary; those not known are all one code."""
        unknown = len(self.labels)
        codes = [self.labels[x] if grow else self.labels.get(x, unknown) for x in graphs.nodes]
        return np.array(codes, dtype=np.int32)[graphs.node_codes]


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

    def parse_object(self, x: Any) -> Graph:
        return self.parse_objects([x])[0]

    def parse_objects(self, X: list) -> list[Graph]:
        graphs = parse_graphs(X)
        for number, graph in enumerate(graphs):
            try:
                check_convergence(graph, float(self.decay))
            except ValueError as error:
                raise ValueError(f"object {number}: {error}") from None
        return graphs

    def proof_reason(self) -> str:
        return (
            "a sum with non-negative weights of inner products of counts of labelled walks, on "
            "graphs for which it converges"
        )

    def pairs(self, A: list[Graph], B: list[Graph]) -> np.ndarray:
        return walk_sums(A, B, float(self.decay), same_objects(A, B))


class Graphlet(GraphFeatures):
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
        classes, counts = graphlet_counts([x], self.size, self.connected)
        return {class_edges(c): float(n) for c, n in zip(classes, counts[0], strict=True) if n}

    def rows(self, objects: list[Graph], vocabulary: dict, grow: bool) -> sp.csr_array:
        classes, counts = graphlet_counts(objects, self.size, self.connected)
        columns = []
        for c, found in zip(map(class_edges, classes), counts.T != 0, strict=True):
            if grow and found.any():
                vocabulary.setdefault(c, len(vocabulary))
            columns.append(vocabulary.get(c, -1))
        i, c = np.nonzero((counts != 0) & (np.array(columns) >= 0))
        starts = np.searchsorted(i, np.arange(len(objects) + 1))
        values = counts[i, c].astype(np.float64)
        return sparse_rows(starts, np.array(columns)[c], values, width=len(vocabulary))


class Propagation(GraphFeatures):
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
        bins = self._bins(join([x]))
        return dict(Counter((t, b) for t, row in enumerate(bins.T.tolist()) for b in row))

    def vocabulary(self) -> BinVocabulary:
        return BinVocabulary(3)

    def rows(self, objects: list[Graph], vocabulary: BinVocabulary, grow: bool) -> sp.csr_array:
        graphs = join(objects)
        bins = self._bins(graphs)
        rounds = np.broadcast_to(np.arange(bins.shape[1], dtype=np.uint32), bins.shape)
        keys = np.column_stack((rounds.ravel(), bins.view(np.uint32).reshape(-1, 2)))
        return vocabulary.count(keys, graphs.offsets * bins.shape[1], grow)

    def _bins(self, graphs: Joined) -> np.ndarray:
        """The bin of every node in every round, (n, iterations + 1), as whole float64 numbers."""
        projection = np.array([self._projection(label) for label in graphs.nodes])
        projection = projection.reshape(-1, self.iterations + 1)
        V = projection[graphs.node_codes]  # column t: P v_t
        n, degrees = len(V), np.diff(graphs.indptr)
        lonely = (degrees == 0).astype(float)
        weights = np.repeat(1 / np.maximum(degrees, 1), degrees)
        T = sp.csr_array((weights, graphs.indices, graphs.indptr), shape=(n, n))
        T = T + sp.diags_array(lonely)
        for t in range(1, self.iterations + 1):
            V[:, t:] = T @ V[:, t:]
        shifts = [self.bin_width * self._uniform(t) for t in range(self.iterations + 1)]
        return np.floor((V + shifts) / self.bin_width) + 0.0  # no negative zeros

    def _projection(self, label: Any) -> list[float]:
        """The label's entry of v_0, ..., v_h."""
        name = label_bytes(label)
        draws = [self._uniform(t, name) for t in range(self.iterations + 1)]
        return [float(np.tan(np.pi * (u - 0.5))) for u in draws]

    def _uniform(self, t: int, *name: bytes) -> float:
        """A number in (0, 1) that the seed, the round and the name decide."""
        bits = digest(b"%d" % self.random_state, b"%d" % t, *name)[:8]
        return ((int.from_bytes(bits, "little") >> 11) + 0.5) * 2.0**-53


class BinVocabulary(KeyVocabulary):
    """Rounds and bins, each with a column."""

    def __iter__(self) -> Iterator[tuple[int, float]]:
        keys = self.table.keys()
        bins = np.ascontiguousarray(keys[:, 1:]).view(np.float64).ravel()
        return zip(keys[:, 0].tolist(), bins.tolist(), strict=True)
