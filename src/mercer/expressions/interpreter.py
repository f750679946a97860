"""Evaluate expressions over all pairs of points, by the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer import core
from mercer.arrays import refuse_matrix, row_major
from mercer.core import Kind, Op
from mercer.expressions.nodes import Constant, Statistic
from mercer.expressions.overflow import check_finite
from mercer.expressions.points import LeafValues, given_leaf

# Entries of a block of statistics that are computed outside the core and passed to it.
BLOCK = 2**21
# Beyond so many columns a product with half the tiles of a symmetric matrix saves no time, and the
# sums it keeps apart take memory.
HALF_COLUMNS = 16
# With many features the tiles cost more than the columns do: one column more per so many of them.
FEATURES_PER_COLUMN = 16
# Numbers of a vector, whose sums are apart.
LANES = 16


class PairMatrix(LeafValues):
    """An expression over all pairs of two sets of points: blocks, products and the diagonal.

    Parameters
    ----------
    e : Expression
    X : n points
    Y : m points, or None for X itself
    """

    def _on(self, rows: Any, columns: Any, blocks: dict[Any, np.ndarray] | None = None) -> Any:
        """The core's view of some rows and columns, some blocks of which may be given."""
        leaves = [
            given_leaf(blocks[node])
            if blocks and node in blocks
            else self._some(node, rows, columns)
            for node in self.lowering.leaves
        ]
        n, m = _count(rows, self.shape[0]), _count(columns, self.shape[1])
        return core.pairs(
            self.lowering.program,
            leaves,
            [row_major(self.side(t, 0)[rows]) for t in self.lowering.row_terms],
            [row_major(self.side(t, 1)[columns]) for t in self.lowering.column_terms],
            n,
            m,
            self.dtype,
        ), core.threads(n * m, sum(leaf.X.shape[1] for leaf in leaves))

    def whole(self) -> tuple[Any, int]:
        """The core's view of all pairs, and how many threads they are worth."""
        return self._on(slice(None), slice(None))

    def _chunks(self, upper: bool = False) -> Iterator[tuple[slice, slice]]:
        """All at once if the core does all the work, else blocks (on or above the diagonal)."""
        n, m = self.shape
        if self.native:
            yield slice(0, n), slice(0, m)
            return
        side = int(BLOCK**0.5)
        height, width = (n, max(side, BLOCK // n)) if n <= side else (side, max(side, BLOCK // m))
        if upper:
            height = width = side
        for i in range(0, n, height):
            for j in range(i if upper else 0, m, width):
                yield slice(i, min(i + height, n)), slice(j, min(j + width, m))

    # What is asked for.

    def block(self, rows: Any, columns: Any, out: np.ndarray | None = None) -> np.ndarray:
        """K[rows, columns], in ``out`` if given; rows and columns are slices or index arrays."""
        if out is None:
            shape = _count(rows, self.shape[0]), _count(columns, self.shape[1])
            out = np.empty(shape, self.dtype)
        if out.size:
            pairs, threads = self._on(rows, columns)
            pairs.gram(out, False, threads)
        return out

    def put(self, rows: np.ndarray, places: np.ndarray, columns: slice, out: np.ndarray) -> None:
        """Put K[rows, columns] into out[places, columns].

        All columns are made ready by the first call, and kept for the next.
        """
        if not self.native or out.dtype != self.dtype or not out.flags.c_contiguous:
            out[places, columns] = self.block(rows, columns)
            return
        if self._whole is None:
            self._whole, _ = self._on(slice(None), slice(None))
        first, last, _ = columns.indices(self.shape[1])
        features = sum(leaf.X.shape[1] for leaf in map(self._leaf, self.lowering.leaves) if leaf)
        threads = core.threads(len(rows) * (last - first), features)
        rows, places = (np.ascontiguousarray(a, dtype=np.int64) for a in (rows, places))
        self._whole.some_rows(rows, places, first, last, out, threads)

    def gram(self) -> np.ndarray:
        """The whole matrix; for Y = None half of it is computed and the rest mirrored."""
        K = self._gram()
        own = self.lowering.diagonal
        if self.symmetric and isinstance(own, Constant):
            np.fill_diagonal(K, own.value)
        if self.symmetric:  # |k(x, z)| is at most the larger of k(x, x) and k(z, z)
            self._check_values(K.diagonal(), "k(x, x)")
        elif self.may_overflow:
            self._check_values(K, "k(x, z)")
        return K

    def _gram(self) -> np.ndarray:
        whole = self._from_one_statistic()
        if whole is not None:
            return whole
        refuse_matrix(*self.shape, self.dtype, None)
        K = np.empty(self.shape, dtype=self.dtype)
        for rows, columns in self._chunks(upper=self.symmetric):
            pairs, threads = self._on(rows, columns)
            square = self.symmetric and rows == columns
            if K.shape == (rows.stop - rows.start, columns.stop - columns.start):
                pairs.gram(K, square, threads)
                return K
            part = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.dtype)
            pairs.gram(part, square, threads)
            K[rows, columns] = part
            if self.symmetric:
                K[columns, rows] = part.T
        return K

    def _check_values(self, values: Any, what: str) -> None:
        if self.is_kernel:
            check_finite(values, what)

    def _check_sums(self, sums: np.ndarray, V: np.ndarray) -> None:
        if self.may_overflow and np.isfinite(V).all():
            self._check_values(sums, "a sum of k(x, z)")

    @property
    def may_overflow(self) -> bool:
        """Whether there is an exponential of any size, or a factor that is a user's function."""
        users = any(point.is_users for point in self.lowering.points)
        return users or bool(np.any(self.lowering.program.operations[:, 0] == Op.EXP))

    def _from_one_statistic(self) -> np.ndarray | None:
        """The matrix in the place of the only statistic computed here, if that can be had whole."""
        given = [node for node in self.lowering.leaves if self._is_wide(node)]
        node = given[0] if len(given) == 1 else None
        if not isinstance(node, Statistic) or not node.kind.whole or self.dtype != np.float64:
            return None
        F, G = self.prepared(node)
        K = row_major(node.kind.block(F, F if self.symmetric else G))
        if self.expression != node and K.size:
            K = K.copy() if node.kind.shares else K
            pairs, threads = self._on(slice(None), slice(None), {node: K})
            pairs.gram(K, self.symmetric, threads)
        return K

    def products(self, V: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """K V and Kᵀ U in float64, from one evaluation of each tile; K is never stored.

        For Y = None half of the tiles give K V, where V has few columns.

        Parameters
        ----------
        V : (m, c) array
        U : (n, c') array; either may have no columns
        """
        V, U = (row_major(A, self.dtype) for A in (V, U))
        found = self._products(V, U)
        self._check_sums(found[0], V)
        self._check_sums(found[1], U)
        return found

    def _products(self, V: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        out, side = np.zeros((self.shape[0], V.shape[1])), np.zeros((self.shape[1], U.shape[1]))
        for rows, columns in self._chunks():
            pairs, threads = self._on(rows, columns)
            if self._half_will_do(V, U) and rows == columns == slice(0, len(out)):
                return pairs.symmetric_product(V, threads), side
            if not U.shape[1]:
                out[rows] += pairs.product(V[columns], threads)
                continue
            found, transposed = pairs.products(V[columns], U[rows], threads)
            out[rows] += found
            side[columns] += transposed
        return out, side

    def normal_product(
        self, V: np.ndarray, targets: np.ndarray | None, weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Kᵀ S (T - K V) and the column sums of S (T - K V), from one evaluation of each pair.

        None where pairs are not computed by the core, and so it would be no gain.

        Parameters
        ----------
        V : (m, c) array
        targets : (n, c) array of T, or None for K V in place of T - K V
        weight : (n,) array of the diagonal of S, or None for ones
        """
        if not self.native:
            return None
        given = (None if a is None else row_major(a, self.dtype) for a in (targets, weight))
        n, m = self.shape
        pairs, threads = self._on(slice(0, n), slice(0, m))
        return pairs.normal_product(row_major(V, self.dtype), *given, threads)

    def _half_will_do(self, V: np.ndarray, U: np.ndarray) -> bool:
        leaves = [self._leaf(node) for node in self.lowering.leaves]
        features = sum(leaf.X.shape[1] for leaf in leaves if leaf is not None)
        few = V.shape[1] <= max(HALF_COLUMNS, features // FEATURES_PER_COLUMN)
        return self.symmetric and not U.shape[1] and few

    def log_sum_exp(self, log_weight: np.ndarray | None = None) -> np.ndarray:
        """log Σ_j w_j exp(k(x_i, y_j)) for each i, without overflow: shape (n,), in float64.

        Parameters
        ----------
        log_weight : (m,) array of log w_j, or None for w_j = 1
        """
        weights: Any = None if log_weight is None else row_major(log_weight, self.dtype)
        if weights is not None and weights.shape != self.shape[1:]:
            raise ValueError(f"log_weight has shape {weights.shape}; expected {self.shape[1:]}")
        out = np.full(self.shape[0], -np.inf)
        for rows, columns in self._chunks():
            pairs, threads = self._on(rows, columns)
            weight = None if weights is None else weights[columns]
            out[rows] = np.logaddexp(out[rows], pairs.log_sum_exp(weight, threads))
        return out

    def tree_sums(self, weight: np.ndarray, rtol: float, atol: float) -> np.ndarray:
        """Σ_j w_j k(x_i, y_j) for each i, each within atol + rtol of itself: shape (n,).

        For a function of ‖x - y‖² alone that does not rise with it, in double.

        Parameters
        ----------
        weight : (m,) array of w_j >= 0
        rtol, atol : float
        """
        weight = row_major(weight, np.float64)
        points, (node,) = self, self.lowering.leaves
        own = self._leaf(node)
        if isinstance(node, Statistic) and own and own.kind == Kind.DIFFERENT:
            # A tree is of points, not of bits.
            points = self.like(self.formula)
            leaf = node.kind.leaf(*self.prepared(node), self.dtype, by_bits=False)
            points._leaves = {node: leaf}
        pairs, threads = points._on(slice(None), slice(None))
        return pairs.tree_sums(weight, rtol, atol, threads)

    def arg_min(self) -> tuple[np.ndarray, np.ndarray]:
        """For each i the least k(x_i, y_j), and the first j that has it: both of shape (n,)."""
        least = np.full(self.shape[0], np.inf, self.dtype)
        where = np.zeros(self.shape[0], np.int64)
        for rows, columns in self._chunks():
            pairs, threads = self._on(rows, columns)
            found, at = pairs.arg_min(threads)
            better = found < least[rows]
            least[rows][better] = found[better]
            where[rows][better] = at[better] + columns.start
        return least, where

    def combination(self, columns: np.ndarray, V: np.ndarray) -> np.ndarray:
        """K[:, columns] V in float64, shape (n, c), for V of shape (k, c)."""
        if V.shape[1] == 1:  # signs in turn: what is summed in float32 then stays small
            order = _in_turn(V[:, 0] > 0)
            columns, V = columns[order], V[order]
        V = row_major(V, self.dtype)
        out = np.zeros((self.shape[0], V.shape[1]))
        step = len(columns) if self.native else max(1, BLOCK // self.shape[0])
        for start in range(0, len(columns), max(step, 1)):
            part = slice(start, start + step)
            pairs, threads = self._on(slice(None), columns[part])
            out += pairs.product(V[part], threads)
        self._check_sums(out, V)
        return out

    def diagonal(self) -> np.ndarray:
        """The expression at (x, x) for each x in X: shape (n,)."""
        values = self.side(self.lowering.diagonal, 0).copy()
        self._check_values(values, "k(x, x)")
        return values


def _in_turn(chosen: np.ndarray) -> np.ndarray:
    """An order in which vectors full of the chosen ones and of the others take turns."""
    place = np.empty(len(chosen))
    for side in (chosen, ~chosen):
        vector = np.arange(np.count_nonzero(side)) // LANES
        place[side] = (vector + 0.5) / (vector[-1:] + 1)
    return np.argsort(place, kind="stable")


def _count(chosen: Any, n: int) -> int:
    return len(range(*chosen.indices(n))) if isinstance(chosen, slice) else len(chosen)
