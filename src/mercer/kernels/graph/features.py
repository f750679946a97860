"""What the kernels on graphs with explicit features share."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from mercer._sklearn import Interval
from mercer.kernels.domains import GRAPHS, Domain
from mercer.kernels.graph.collections import parse_graphs
from mercer.kernels.graph.graphs import Graph
from mercer.kernels.structured import ExplicitKernel

ROUNDS = Interval(Integral, 0, None, closed="left")


class GraphFeatures(ExplicitKernel, abstract=True):
    """A kernel whose features are counts of things found in a graph."""

    @property
    def domain(self) -> Domain:
        return GRAPHS

    def parse_object(self, x: Any) -> Graph:
        return Graph.parse(x)

    def parse_objects(self, X: list) -> list[Graph]:
        return parse_graphs(X)
