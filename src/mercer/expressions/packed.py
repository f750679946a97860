"""Sums over points that are prepared and packed once, for queries that come a few at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import core
from mercer.arrays import row_major
from mercer.core import Kind
from mercer.expressions.interpreter import PairMatrix
from mercer.expressions.nodes import Expression, Statistic
from mercer.expressions.overflow import check_finite
from mercer.expressions.statistics import rows_moved_like

BITS = (Kind.COMMON, Kind.DIFFERENT)


class PackedPoints:
    """(X, V) -> Σ_j k(x_i, y_j) V_jc for dense points in float64, as `PairMatrix.products`.

    Points y_j are centred, measured and packed once; a call does so to the rows of X alone.

    Parameters
    ----------
    pairs : PairMatrix of any one row with the points Y, all computed by the core
    """

    def __init__(self, pairs: PairMatrix):
        leaves = [node for node in pairs.lowering.leaves if isinstance(node, Statistic)]
        self._nodes = [(node, pairs.prepared(node)[1]) for node in leaves]
        self._core, _ = pairs.whole()
        self._size = pairs.shape[1]
        self._features = sum(side.shape[1] for _, side in self._nodes)
        self._may_overflow = pairs.may_overflow

    def __call__(self, X: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The sums at rows X, (n, d) as the points are, for columns V, (m, c): (n, c)."""
        seen: dict[Any, np.ndarray] = {}
        rows = []
        for node, side in self._nodes:
            F = seen.get(node.view)
            if F is None:
                F = seen[node.view] = node.view.apply(X, "X")
            rows.append(rows_moved_like(F, side))
        V = row_major(V, np.float64)
        threads = core.threads(len(X) * self._size, self._features)
        sums = self._core.product_at(rows, [], len(X), V, threads)
        if self._may_overflow and np.isfinite(V).all():
            check_finite(sums, "a sum of k(x, z)")
        return sums


def packed_points(e: Expression, Y: np.ndarray) -> PackedPoints | None:
    """An expression over dense points Y in float64; None where the core does not do all of it."""
    pairs = PairMatrix(e, Y[:1], Y)
    plain = pairs.dtype == np.float64 and pairs.native and not pairs.lowering.row_terms
    if not plain or not all(_is_of_numbers(pairs, node) for node in pairs.lowering.leaves):
        return None
    return PackedPoints(pairs)


def _is_of_numbers(pairs: PairMatrix, node: Any) -> bool:
    """Whether the core takes the points as they are, and not as bits."""
    leaf = pairs._leaf(node) if isinstance(node, Statistic) else None
    return leaf is not None and leaf.kind not in BITS
