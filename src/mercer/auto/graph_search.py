"""The search for a kernel on graphs: rounds of refinement and path lengths, by leave-one-out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer import kernels as K
from mercer.auto.search import Search
from mercer.kernels import Kernel
from mercer.tables.graphs import GraphCoding

# Rounds of Weisfeiler-Lehman refinement, and nodes up to which all shortest paths are counted.
_ROUNDS = (1, 2, 3, 5)
_MOST_NODES = 100
# Kernels are tried as they are and in a Gaussian of their distances with these widths.
_GAMMAS = (1.0, 4.0)


class GraphSearch(Search):
    """Normalised kernels on graphs: the best one, and a Gaussian of it.

    Parameters and attributes are those of `Search`; X is an (n, 1) array of graphs.
    """

    def _fitted_coding(self) -> Any:
        return GraphCoding().fit(self.X)

    def all_points(self) -> Any:
        return self.X

    def _rows_of(self, coding: Any, rows: np.ndarray) -> Any:
        return self.X[rows]

    def run(self) -> GraphSearch:
        rows = self.rows(self.more)
        points, found = self.X[rows], []
        for name, kernel in _kernels(points):
            error = self._try(name, self.coding, kernel, points, rows)
            found.append((error, name, kernel))
            if self._late():
                return self
        _, name, best = min(found, key=lambda one: one[0])
        for gamma in _GAMMAS:
            if self._late():
                break
            distances = K.exp(2 * gamma * best).normalize()
            self._try(f"Gaussian of {name}, gamma {gamma:g}", self.coding, distances, points, rows)
        return self


def _kernels(points: np.ndarray) -> Iterator[tuple[str, Kernel]]:
    for rounds in _ROUNDS:
        yield f"WeisfeilerLehman({rounds})", K.WeisfeilerLehman(rounds).normalize()
    yield f"WLOptimalAssignment({_ROUNDS[2]})", K.WLOptimalAssignment(_ROUNDS[2]).normalize()
    if max(graph.n_nodes for graph in points[:, 0]) <= _MOST_NODES:
        yield "ShortestPath", K.ShortestPath().normalize()
