r"""Walks that two labelled graphs have in common, counted on their direct product.

The direct product of two graphs has a node for every pair of nodes with one label, and joins two
such pairs where both graphs have an edge, with one label. Its walks of length k are the pairs of
walks with equal labels, and :math:`\mathbf 1^\top W^k \mathbf 1` counts them. The product's matrix
W is never formed: with X of shape (n, m) over all node pairs,

.. math:: W X = M \circ \sum_l A_l X B_l,

where :math:`A_l`, :math:`B_l` hold the edges labelled l and M marks the pairs with equal labels.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from mercer import core
from mercer.kernels.graph.graphs import Graph, Labels
from mercer.kernels.graph.joined import Joined, join

DENSE_NODES = 128  # below this a sparse product costs more than a dense one
SPECTRAL_NODES = 256  # above this conjugate gradients cost less than eigenvalues
POWER_STEPS = 500


def walk_sums(A: list[Graph], B: list[Graph], decay: float, symmetric: bool) -> np.ndarray:
    r"""The sums over k of decay^k times the number of common walks of length k: (n, m).

    .. math:: \mathbf 1^\top (I - \lambda W)^{-1} \mathbf 1

    With a single label everywhere W is the Kronecker product of the adjacency matrices, and the sum
    follows from their eigenvalues; otherwise it comes from conjugate gradients.

    Examples
    --------
    >>> triangle = Graph.from_edges([(0, 1), (1, 2), (2, 0)])
    >>> walk_sums([triangle], [triangle], 0.1, symmetric=True).round(6)
    array([[15.]])
    """
    labels = Labels()
    first = join(A, labels)
    second = first if symmetric else join(B, labels)
    cells = int(first.offsets[-1]) * int(second.offsets[-1])  # pairs of nodes
    threads = core.threads(len(A) * len(B), cells // max(1, len(A) * len(B)))
    routines = core.graph_routines()
    if _alike(first, second) and max(g.n_nodes for g in (*A, *B)) <= SPECTRAL_NODES:
        spectra = _spectra(A)
        others = spectra if symmetric else _spectra(B)
        return routines.spectral_sums(
            first.offsets, *spectra, second.offsets, *others, decay, symmetric, threads
        )
    sides = ((*g.structure, g.node_codes, g.edge_codes) for g in (first, second))
    K = routines.walk_sums(*next(sides), *next(sides), decay, symmetric, threads)
    if np.isnan(K).any():
        raise ValueError(
            f"decay={decay!r} is so close to where the sum over walks diverges that it could not "
            "be computed; choose a smaller decay"
        )
    return K


def _alike(first: Joined, second: Joined) -> bool:
    """Whether all nodes have one label, and all edges."""
    return all(
        len(np.unique(np.concatenate(codes))) <= 1
        for codes in (
            (first.node_codes, second.node_codes),
            (first.edge_codes, second.edge_codes),
        )
    )


def _spectra(graphs: list[Graph]) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the adjacency matrices one after the other, and squares of 1ᵀu for each."""
    # NumPy's own takes ten times as long at times, with several threads on such small matrices.
    pairs = [eigh(g.adjacency().toarray(), driver="evd", check_finite=False) for g in graphs]
    return (
        np.concatenate([values for values, _ in pairs]),
        np.concatenate([U.sum(axis=0) ** 2 for _, U in pairs]),
    )


class DirectProduct:
    """The direct product of a graph with itself, as a linear map of (n, n) arrays."""

    def __init__(self, graph: Graph):
        self.match = (graph.node_codes[:, None] == graph.node_codes).astype(float)
        rows = np.repeat(np.arange(graph.n_nodes), graph.degrees)
        self.edges = []
        for code in np.unique(graph.edge_codes):
            chosen = graph.edge_codes == code
            ends = rows[chosen], graph.indices[chosen]
            matrix = sp.csr_array((np.ones(len(ends[0])), ends), shape=self.match.shape)
            self.edges.append(matrix.toarray() if graph.n_nodes <= DENSE_NODES else matrix)

    def step(self, X: np.ndarray) -> np.ndarray:
        """W X: every pair's sum over the pairs one step away."""
        return self.match * sum((A @ X @ A for A in self.edges), np.zeros_like(X))


def check_convergence(graph: Graph, decay: float) -> None:
    """Raise a ValueError that names the bound where the graph's walks with itself do not sum.

    The series converges if and only if decay times the spectral radius of the product is below
    one. Power steps enclose the radius: from below by Rayleigh quotients, from above by the largest
    ratio (W x)_i / x_i of a positive x (Collatz and Wielandt). If two graphs pass, so does their
    product with each other, by the inequality of Cauchy and Schwarz on counts of walks.
    """
    if decay * float(graph.degrees.max(initial=0)) ** 2 < 1:  # which the radius does not exceed
        return
    product = DirectProduct(graph)
    inside = product.match > 0
    X, upper = product.match, np.inf
    for number in range(POWER_STEPS):
        Y = product.step(X)
        upper = float((Y[inside] / X[inside]).max(initial=0.0))
        if decay * upper < 1:
            return
        lower = float((X * Y).sum() / (X * X).sum())
        if decay * lower >= 1 and (upper - lower <= 1e-3 * upper or number >= 50):
            break
        X = Y + lower * X  # the shift keeps bipartite products from oscillating
        X /= X.max()
    raise ValueError(
        f"decay={decay!r} is too large for a graph of {graph.n_nodes} nodes: the sum over "
        f"its walks diverges unless decay is below 1 over the spectral radius of its product with "
        f"itself; choose decay below {1 / upper:.3g}"
    )
