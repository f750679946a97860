"""The NumPy twin of the native module: to be read, compared with and fallen back on.

Arguments are those of module.cpp; ``threads`` is accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mercer.core.programs import Kind, Leaf, Op, Program, Source

# A tile and its few temporaries stay in cache, and are still worth a call into BLAS.
TILE = 512
# Below this many features squared distances are summed from differences, without cancellation.
EXACT_FEATURES = 4
# From dot products, a squared distance has an absolute error of a few eps * (|x|^2 + |z|^2); where
# it is smaller than this fraction of the norms, it is recomputed from differences.
NEAR = {np.dtype(np.float64): 1e-4, np.dtype(np.float32): 1e-2}
MANY_NEAR = 1 / 8  # beyond this share of such pairs a tile is summed from differences as a whole
GATHER = 2**20  # numbers gathered at a time otherwise


def over_features(
    X: np.ndarray, Y: np.ndarray, update: Callable[..., None], start: float = 0.0
) -> np.ndarray:
    """Fold an update over the features: out[i, j] from all x_ik, z_jk."""
    out = np.full((X.shape[0], Y.shape[0]), start, dtype=np.result_type(X, Y))
    for x, z in zip(X.T, Y.T, strict=True):
        update(out, x[:, None], z)
    return out


def add_squared_difference(out: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
    difference = x - z
    difference *= difference
    out += difference


def add_absolute_difference(out: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
    difference = x - z
    out += np.abs(difference, out=difference)


def add_minimum(out: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
    out += np.minimum(x, z)


def add_chi_square(out: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
    difference, total = x - z, x + z
    total[total == 0] = 1
    # The quotient before the second product, so that tiny and huge entries survive.
    out += difference / total * difference


def multiply_conjunct(out: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
    out *= 1 + x * z


def tangent_product(X: np.ndarray, Y: np.ndarray, sign: bool) -> np.ndarray:
    """Σ (x - z)(dx - dz), or Σ sign(x - z)(dx - dz); columns alternate x_k, dx_k."""
    out = np.zeros((X.shape[0], Y.shape[0]), dtype=np.result_type(X, Y))
    for k in range(0, X.shape[1], 2):
        difference = X[:, k, None] - Y[:, k]
        change = X[:, k + 1, None] - Y[:, k + 1]
        out += (np.sign(difference) if sign else difference) * change
    return out


def counted_bits(X: np.ndarray, Y: np.ndarray, different: bool) -> np.ndarray:
    """In how many features both points have a one, or one of them; X and Y are bits."""
    out = np.zeros((X.shape[0], Y.shape[0]), dtype=X.dtype)
    words = np.dtype(f"u{X.itemsize}")
    for x, z in zip(X.view(words).T, Y.view(words).T, strict=True):
        out += np.bitwise_count(x[:, None] ^ z if different else x[:, None] & z)
    return out


def sqdist(leaf: Leaf, rows: slice, columns: slice) -> np.ndarray:
    """Squared distances from dot products: norms added, near pairs recomputed."""
    X, Y = leaf.X[rows], leaf.Y[columns]
    if leaf.block is None and X.shape[1] <= EXACT_FEATURES:
        return over_features(X, Y, add_squared_difference)
    assert leaf.X_norms is not None
    assert leaf.Y_norms is not None
    norms = leaf.X_norms[rows, None] + leaf.Y_norms[columns]
    dots = X @ Y.T if leaf.block is None else leaf.block[rows, columns]
    distances = norms - 2 * dots
    near = ~(distances > NEAR[distances.dtype] * norms)  # and those whose norms overflow
    if np.count_nonzero(near) > MANY_NEAR * near.size:
        return over_features(leaf.X_given[rows], leaf.Y_given[columns], add_squared_difference)
    i, j = np.nonzero(near)
    step = max(1, GATHER // X.shape[1])
    for k in range(0, len(i), step):
        near = slice(k, k + step)
        difference = leaf.X_given[rows][i[near]] - leaf.Y_given[columns][j[near]]
        distances[i[near], j[near]] = np.einsum("ij,ij->i", difference, difference)
    return distances


def statistic(leaf: Leaf, rows: slice, columns: slice) -> np.ndarray:
    """One tile of a statistic."""
    X, Y = leaf.X[rows], leaf.Y[columns]
    match leaf.kind:
        case Kind.SQDIST:
            return sqdist(leaf, rows, columns)
        case _ if leaf.block is not None:
            return leaf.block[rows, columns].copy()
        case Kind.DOT:
            return X @ Y.T
        case Kind.L1:
            return over_features(X, Y, add_absolute_difference)
        case Kind.MINSUM:
            return over_features(X, Y, add_minimum)
        case Kind.CHI2:
            return over_features(X, Y, add_chi_square)
        case Kind.CONJUNCTION:
            return over_features(X, Y, multiply_conjunct, start=1.0)
        case Kind.DIFFERENCE_PRODUCT:
            return tangent_product(X, Y, sign=False)
        case Kind.SIGN_PRODUCT:
            return tangent_product(X, Y, sign=True)
        case Kind.COMMON | Kind.DIFFERENT:
            return counted_bits(X, Y, leaf.kind == Kind.DIFFERENT)
    raise ValueError(f"a statistic that exists; got {leaf.kind!r}")


def run(
    program: Program,
    statistics: Sequence[Any],
    row_terms: Sequence[Any],
    column_terms: Sequence[Any],
    shape: tuple[int, int],
    dtype: Any,
    xp: Any = np,
) -> Any:
    """The program's value on one tile, by the functions of ``xp``: NumPy, or torch."""
    r: list[Any] = [*statistics, *[None] * (program.registers - len(statistics))]

    def second(b: int, source: int) -> Any:
        match source:
            case Source.ROW:
                return row_terms[b][:, None]
            case Source.COLUMN:
                return column_terms[b]
        return r[b]

    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for (op, out, a, b, source), (c, d) in zip(
            program.operations.tolist(), program.constants.tolist(), strict=True
        ):
            match op:
                case Op.ROW:
                    r[out] = row_terms[a][:, None]
                case Op.COLUMN:
                    r[out] = column_terms[a]
                case Op.CONSTANT:
                    r[out] = xp.asarray(c, dtype=dtype)
                case Op.AFFINE:
                    r[out] = c * r[a] + d if d else c * r[a]
                case Op.ADD:
                    r[out] = c * r[a] + d * second(b, source)
                case Op.MULTIPLY:
                    r[out] = c * r[a] * second(b, source) + d
                case Op.ACCUMULATE:
                    r[out] = r[out] + c * r[a] * second(b, source)
                case Op.DIVIDE:
                    divisor = second(b, source)
                    r[out] = xp.where(divisor == 0, c, xp.divide(r[a], divisor))
                case Op.INTEGER_POWER:
                    r[out] = r[a] ** int(c)
                case Op.REAL_POWER:
                    r[out] = xp.pow(r[a], c)
                case Op.EXP | Op.EXP_NEGATIVE:
                    r[out] = xp.exp(c * r[a])
                case Op.SQRT:
                    r[out] = xp.sqrt(r[a])
                case Op.TANH:
                    r[out] = xp.tanh(c * r[a] + d)
                case Op.LOG:
                    r[out] = xp.log(r[a])
                case Op.INVERSE_SQRT:
                    r[out] = xp.where(r[a] == 0, 0.0, xp.divide(1, xp.sqrt(r[a])))
                case Op.POSITIVE:
                    r[out] = xp.clip(r[a], 0, None)
                case Op.STEP:
                    r[out] = xp.asarray(r[a] > 0, dtype=r[a].dtype)
    return xp.broadcast_to(r[program.result], shape)


def take(array: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if array is None else array[rows]


class Pairs:
    """An expression over all pairs of two sets of points, evaluated tile by tile."""

    def __init__(
        self,
        program: Program,
        leaves: Sequence[Leaf],
        row_terms: Sequence[np.ndarray],
        column_terms: Sequence[np.ndarray],
        n: int,
        m: int,
        dtype: Any,
    ):
        self.program, self.leaves = program, leaves
        self.row_terms, self.column_terms = row_terms, column_terms
        self.n, self.m, self.dtype = n, m, dtype

    def _tile(self, rows: slice, columns: slice) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            statistics = [statistic(leaf, rows, columns) for leaf in self.leaves]
        return run(
            self.program,
            statistics,
            [term[rows] for term in self.row_terms],
            [term[columns] for term in self.column_terms],
            (rows.stop - rows.start, columns.stop - columns.start),
            self.dtype,
        )

    def _tiles(self) -> Iterator[tuple[slice, slice]]:
        for i in range(0, self.n, TILE):
            for j in range(0, self.m, TILE):
                yield slice(i, min(i + TILE, self.n)), slice(j, min(j + TILE, self.m))

    def gram(self, out: np.ndarray, symmetric: bool, threads: int) -> None:
        for rows, columns in self._tiles():
            if symmetric and columns.stop <= rows.start:
                continue
            out[rows, columns] = self._tile(rows, columns)
        if symmetric:
            lower = np.tril_indices_from(out, -1)
            out[lower] = out.T[lower]

    def some_rows(
        self,
        rows: np.ndarray,
        places: np.ndarray,
        first: int,
        last: int,
        out: np.ndarray,
        threads: int,
    ) -> None:
        leaves = [
            leaf._replace(
                X=leaf.X[rows],
                X_given=leaf.X_given[rows],
                X_norms=take(leaf.X_norms, rows),
                block=take(leaf.block, rows),
            )
            for leaf in self.leaves
        ]
        terms = [term[rows] for term in self.row_terms]
        part = Pairs(self.program, leaves, terms, self.column_terms, len(rows), self.m, self.dtype)
        for i in range(0, len(rows), TILE):
            for j in range(first, last, TILE):
                here = slice(i, min(i + TILE, len(rows))), slice(j, min(j + TILE, last))
                out[places[here[0]], here[1]] = part._tile(*here)

    def product(self, V: np.ndarray, threads: int) -> np.ndarray:
        return self.products(V, np.zeros((self.n, 0), dtype=self.dtype), threads)[0]

    def product_at(
        self,
        rows: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray | None]],
        terms: Sequence[np.ndarray],
        n: int,
        V: np.ndarray,
        threads: int,
    ) -> np.ndarray:
        leaves = [
            leaf._replace(X=X, X_given=given, X_norms=norms)
            for leaf, (X, given, norms) in zip(self.leaves, rows, strict=True)
        ]
        other = Pairs(self.program, leaves, terms, self.column_terms, n, self.m, self.dtype)
        return other.product(V, threads)

    def symmetric_product(self, V: np.ndarray, threads: int) -> np.ndarray:
        return self.product(V, threads)

    def products(self, V: np.ndarray, U: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
        out, side = np.zeros((self.n, V.shape[1])), np.zeros((self.m, U.shape[1]))
        for rows, columns in self._tiles():
            K = self._tile(rows, columns)
            out[rows] += K @ V[columns]
            side[columns] += K.T @ U[rows]
        return out, side

    def normal_product(
        self, V: np.ndarray, targets: np.ndarray | None, weight: np.ndarray | None, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        R = self.product(V, threads)
        if targets is not None:
            R = targets - R
        if weight is not None:
            R *= weight[:, None]
        nothing = np.zeros((self.m, 0), dtype=self.dtype)
        return self.products(nothing, R.astype(self.dtype), threads)[1], R.sum(axis=0)

    def log_sum_exp(self, log_weight: np.ndarray | None, threads: int) -> np.ndarray:
        out = np.full(self.n, -np.inf)
        for rows, columns in self._tiles():
            values = self._tile(rows, columns).astype(float)
            if log_weight is not None:
                values = values + log_weight[columns]
            top = np.maximum(values.max(axis=1), out[rows])
            safe = np.where(np.isfinite(top), top, 0.0)
            with np.errstate(divide="ignore"):
                total = np.exp(values - safe[:, None]).sum(axis=1) + np.exp(out[rows] - safe)
                out[rows] = safe + np.log(total)
        return out

    def tree_sums(self, weight: np.ndarray, rtol: float, atol: float, threads: int) -> np.ndarray:
        """By differences of the points: distances from norms have too few digits for small sums."""
        (leaf,) = self.leaves
        out = np.zeros(self.n)
        for rows, columns in self._tiles():
            points = leaf.X_given[rows], leaf.Y_given[columns]
            distances = over_features(*points, add_squared_difference)
            values = run(self.program, [distances], [], [], distances.shape, self.dtype)
            out[rows] += values @ weight[columns]
        return out

    def arg_min(self, threads: int) -> tuple[np.ndarray, np.ndarray]:
        least = np.full(self.n, np.inf, dtype=self.dtype)
        where = np.zeros(self.n, dtype=np.int64)
        for rows, columns in self._tiles():
            values = self._tile(rows, columns)
            values = np.where(np.isnan(values), np.inf, values)
            at = values.argmin(axis=1)
            found = values[np.arange(len(at)), at]
            better = found < least[rows]
            least[rows] = np.where(better, found, least[rows])
            where[rows] = np.where(better, at + columns.start, where[rows])
        return least, where
