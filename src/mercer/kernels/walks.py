r"""Walks that two labelled graphs have in common, counted on their direct product.

The direct product of two graphs has a node for every pair of nodes with one label, and joins two
such pairs where both graphs have an edge, with one label. Its walks of length k are the pairs of
walks with equal labels, and :math:`\mathbf 1^\top W^k \mathbf 1` counts them. The product's matrix
W is never formed: with X of shape (n, m) over all node pairs,

.. math:: W X = M \circ \sum_l A_l X B_l,

where :math:`A_l`, :math:`B_l` hold the edges labelled l and M marks the pairs with equal labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from mercer.kernels.graphs import Graph

DENSE_NODES = 128  # below this a sparse product costs more than a dense one
POWER_STEPS = 500


class WalkGraph:
    """A graph with its edges as one symmetric matrix for each edge label.

    Examples
    --------
    >>> triangle = WalkGraph(Graph.from_edges([(0, 1), (1, 2), (2, 0)]))
    >>> round(common_walks(triangle, triangle, 0.1), 6)
    15.0
    """

    def __init__(self, graph: Graph):
        self.node_labels = graph.node_labels
        number: dict[Any, int] = {}
        codes = np.array([number.setdefault(x, len(number)) for x in graph.edge_labels], dtype=int)
        shape = (graph.n_nodes, graph.n_nodes)
        rows = np.repeat(np.arange(graph.n_nodes), graph.degrees)
        self.edges: dict[Any, Any] = {}
        for label, code in number.items():
            ends = rows[codes == code], graph.indices[codes == code]
            matrix = sp.csr_array((np.ones(len(ends[0])), ends), shape=shape)
            self.edges[label] = matrix.toarray() if graph.n_nodes <= DENSE_NODES else matrix


class DirectProduct:
    """The direct product of two graphs, as a linear map of (n, m) arrays."""

    def __init__(self, first: WalkGraph, second: WalkGraph):
        number: dict[Any, int] = {}
        rows, columns = (
            np.array([number.setdefault(x, len(number)) for x in g.node_labels], dtype=int)
            for g in (first, second)
        )
        self.match = (rows[:, None] == columns).astype(float)
        shared = [label for label in first.edges if label in second.edges]
        self.edges = [(first.edges[label], second.edges[label]) for label in shared]

    def step(self, X: np.ndarray) -> np.ndarray:
        """W X: every pair's sum over the pairs one step away."""
        return self.match * sum((A @ X @ B for A, B in self.edges), np.zeros_like(X))


class _Resolvent(LinearOperator):
    """X to (I - decay W) X, with X flattened."""

    def __init__(self, product: DirectProduct, decay: float):
        super().__init__(np.float64, (product.match.size, product.match.size))
        self.product, self.decay = product, decay

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        X = x.reshape(self.product.match.shape)
        return (X - self.decay * self.product.step(X)).ravel()


def common_walks(first: WalkGraph, second: WalkGraph, decay: float) -> float:
    r"""The sum over k of decay^k times the number of common walks of length k.

    .. math:: \mathbf 1^\top (I - \lambda W)^{-1} \mathbf 1

    by conjugate gradients from zero, whose error in this very sum is the square of their error in
    the solution.
    """
    product = DirectProduct(first, second)
    ones = product.match.ravel()
    if not product.edges or not ones.any():
        return float(ones.sum())
    solution, failed = cg(_Resolvent(product, decay), ones, rtol=1e-10, atol=0.0)
    if failed:
        raise ValueError(
            f"decay={decay!r} is so close to where the sum over walks diverges that it could not "
            "be computed; choose a smaller decay"
        )
    return float(ones @ solution)


def check_convergence(graph: WalkGraph, decay: float) -> None:
    """Raise a ValueError that names the bound where the graph's walks with itself do not sum.

    The series converges if and only if decay times the spectral radius of the product is below
    one. Power steps enclose the radius: from below by Rayleigh quotients, from above by the largest
    ratio (W x)_i / x_i of a positive x (Collatz and Wielandt). If two graphs pass, so does their
    product with each other, by the inequality of Cauchy and Schwarz on counts of walks.
    """
    product = DirectProduct(graph, graph)
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
        f"decay={decay!r} is too large for a graph of {len(graph.node_labels)} nodes: the sum over "
        f"its walks diverges unless decay is below 1 over the spectral radius of its product with "
        f"itself; choose decay below {1 / upper:.3g}"
    )
