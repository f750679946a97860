"""Collections of graphs, which automatic models take in place of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer.kernels import Graph
from mercer.kernels.domains import GRAPHS
from mercer.kernels.graph.collections import parse_graphs


def is_of_graphs(X: Any) -> bool:
    """Whether X is a list, or one column, whose first entry is a graph in a form of `Graph.parse`.

    Examples
    --------
    >>> is_of_graphs([([(0, 1)], ["C", "O"])]), is_of_graphs([(0.5, "C"), (1.5, "O")])
    (True, False)
    """
    if hasattr(X, "iloc"):
        X = X.iloc[:, 0] if getattr(X, "ndim", 0) == 2 and X.shape[1] == 1 else X
        return getattr(X, "ndim", 0) == 1 and len(X) > 0 and _is_graph(X.iloc[0])
    if isinstance(X, np.ndarray):
        one_column = X.ndim == 1 or (X.ndim == 2 and X.shape[1] == 1)
        return X.dtype == object and one_column and X.size > 0 and _is_graph(X.ravel()[0])
    return isinstance(X, list | tuple) and len(X) > 0 and _is_graph(X[0])


def _is_graph(x: Any) -> bool:
    if isinstance(x, Graph) or (hasattr(x, "nodes") and hasattr(x, "edges")):
        return True
    if isinstance(x, Mapping):
        return "edges" in x
    if isinstance(x, tuple) and len(x) in (2, 3):
        return _is_adjacency(x[0]) or isinstance(x[0], list | set | np.ndarray)
    return _is_adjacency(x)


def _is_adjacency(x: Any) -> bool:
    square = getattr(x, "ndim", 0) == 2 and x.shape[0] == x.shape[1]
    return square and (sp.issparse(x) or isinstance(x, np.ndarray)) and x.dtype != object


class GraphCoding(TransformerMixin, BaseEstimator):
    """Graphs in any of the forms of `Graph.parse` as one column of graphs.

    Examples
    --------
    >>> GraphCoding().fit_transform([([(0, 1)], ["C", "O"])]).tolist()
    [[<Graph of 2 nodes and 1 edges>]]
    """

    scaling = "graphs"

    def fit(self, X: Any, y: Any = None) -> GraphCoding:
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any, model: Any = None) -> np.ndarray:
        """The graphs, an object array of shape (n, 1)."""
        check_is_fitted(self)
        name = type(self if model is None else model).__name__
        if not is_of_graphs(X):
            raise TypeError(f"this {name} was fitted to graphs; expected a list of graphs")
        graphs = parse_graphs(GRAPHS.check(X, "X"))
        found = np.empty((len(graphs), 1), dtype=object)
        found[:, 0] = graphs
        return found
