"""Programs over pairs of points in torch's own operations: on any device, and without Triton.

It is the twin of `mercer.core.triton.tiles`, to be read, compared with and fallen back on.
Values of a block of rows with all columns are made at a time, and nothing larger is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mercer.arrays import LazyModule, device_budget, dtype_of, row_blocks
from mercer.core.programs import Kind, Leaf, Program
from mercer.core.reference.interpreter import EXACT_FEATURES, NEAR, run

torch: Any = LazyModule("torch")

# Arrays of the size of a block of values that are alive at a time, and the largest block.
ALIVE, BLOCK_BYTES = 6, 2**30
GATHERED = 2**22  # numbers of near pairs that are gathered at a time


@dataclass(eq=False, repr=False)
class PairTiles:
    """An expression over n times m pairs.

    Parameters
    ----------
    program : Program
    leaves : the statistics, whose points are tensors
    row_terms, column_terms : tensors of shape (n,) and (m,)
    n, m : int
    device, dtype : of the arithmetic
    precision : "fp16x3", "tf32x3" or "tf32"
        Of dot products in float32, where the matrix unit is asked how to form them.
    logarithmic : bool
        Whether it is the exponentials of the values that count.
    columns_next_to_rows : tensors of shape (n,)
        The column terms that the rows' points would have.
    """

    program: Program
    leaves: Sequence[Leaf]
    row_terms: Sequence[Any]
    column_terms: Sequence[Any]
    n: int
    m: int
    device: Any
    dtype: Any
    precision: str = "fp16x3"
    logarithmic: bool = False
    columns_next_to_rows: Sequence[Any] = ()


class Tiles(PairTiles):
    """The values of some rows at a time, by torch."""

    def part(self, rows: Any, columns: Any) -> Tiles:
        """The same for some rows and columns, by position; None for all of them."""
        return replace(
            self,
            leaves=[at(leaf, rows, columns) for leaf in self.leaves],
            row_terms=[some(term, rows) for term in self.row_terms],
            column_terms=[some(term, columns) for term in self.column_terms],
            n=self.n if rows is None else len(rows),
            m=self.m if columns is None else len(columns),
        )

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Some rows at a time, and their values."""
        size = 8 if self.dtype == torch.float64 else 4
        budget = min(BLOCK_BYTES, device_budget(self.device))
        for rows in row_blocks(self.n, ALIVE * size * self.m, budget):
            yield rows, self.values(rows)

    def values(self, rows: slice) -> Any:
        """The values of some rows with all columns."""
        statistics = [statistic(leaf, rows) for leaf in self.leaves]
        terms = [term[rows] for term in self.row_terms]
        shape = (rows.stop - rows.start, self.m)
        found = run(self.program, statistics, terms, self.column_terms, shape, self.dtype, torch)
        return found.to(self.device)  # where it is a constant

    def product(self, V: Any) -> Any:
        """K V of shape (n, c), in float64."""
        out = torch.zeros((self.n, V.shape[1]), dtype=torch.float64, device=self.device)
        for rows, K in self.blocks():
            out[rows] = (K @ V.to(self.dtype)).to(torch.float64)
        return out

    def transposed_product(self, U: Any) -> Any:
        """Kᵀ U of shape (m, c), in float64."""
        out = torch.zeros((self.m, U.shape[1]), dtype=torch.float64, device=self.device)
        for rows, K in self.blocks():
            out += (K.T @ U[rows].to(self.dtype)).to(torch.float64)
        return out

    def gram(self, symmetric: bool, diagonal: Any) -> Any:
        """All values, (n, m); a symmetric matrix has equal halves and its own diagonal."""
        K = torch.empty((self.n, self.m), dtype=self.dtype, device=self.device)
        for rows, values in self.blocks():
            K[rows] = values
            if symmetric:
                above = torch.triu(K[rows, rows], 1)
                K[rows, rows] = above + above.T
                K[rows, : rows.start] = K[: rows.start, rows].T
        if symmetric:
            K.diagonal().copy_(diagonal)
        return K

    def log_sum_exp(self, log_weight: Any) -> Any:
        """log Σ_j w_j exp(k_ij) of shape (n,), in float64; ``log_weight`` has shape (m,)."""
        out = torch.empty(self.n, dtype=torch.float64, device=self.device)
        for rows, K in self.blocks():
            out[rows] = torch.logsumexp(K.to(torch.float64) + log_weight, 1)
        return out


def at(leaf: Leaf, rows: Any, columns: Any) -> Leaf:
    """A leaf restricted to some rows and columns."""
    X, Y = some(leaf.X, rows), some(leaf.Y, columns)
    return Leaf(
        leaf.kind,
        X,
        Y,
        X if leaf.X_given is leaf.X else some(leaf.X_given, rows),
        Y if leaf.Y_given is leaf.Y else some(leaf.Y_given, columns),
        some(leaf.X_norms, rows),
        some(leaf.Y_norms, columns),
    )


def some(A: Any, chosen: Any) -> Any:
    return A if A is None or chosen is None else A[chosen]


def statistic(leaf: Leaf, rows: slice) -> Any:
    """One statistic of some rows with all columns."""
    X, Y = leaf.X[rows], leaf.Y
    match leaf.kind:
        case Kind.DOT:
            return X @ Y.T
        case Kind.SQDIST:
            return _sqdist(leaf, rows)
        case Kind.CONJUNCTION:
            out = torch.ones((len(X), len(Y)), dtype=X.dtype, device=X.device)
        case _:
            out = torch.zeros((len(X), len(Y)), dtype=X.dtype, device=X.device)
    tangent = leaf.kind in (Kind.DIFFERENCE_PRODUCT, Kind.SIGN_PRODUCT)
    for k in range(0, X.shape[1], 2 if tangent else 1):
        x, z = X[:, k, None], Y[:, k]
        difference = x - z
        match leaf.kind:
            case Kind.L1:
                out += torch.abs(difference)
            case Kind.MINSUM:
                out += torch.minimum(x, z)
            case Kind.CHI2:
                total = x + z
                out += difference / torch.where(total == 0, 1, total) * difference
            case Kind.CONJUNCTION:
                out *= 1 + x * z
            case Kind.DIFFERENCE_PRODUCT:
                out += difference * (X[:, k + 1, None] - Y[:, k + 1])
            case Kind.SIGN_PRODUCT:
                out += torch.sign(difference) * (X[:, k + 1, None] - Y[:, k + 1])
            case _:
                raise ValueError(f"a statistic that torch computes; got {leaf.kind!r}")
    return out


def _sqdist(leaf: Leaf, rows: slice) -> Any:
    """Squared distances from dot products; where points nearly coincide, from differences."""
    X, Y = leaf.X[rows], leaf.Y
    given = leaf.X_given[rows]
    if X.shape[1] <= EXACT_FEATURES:
        return sum((given[:, k, None] - leaf.Y_given[:, k]) ** 2 for k in range(X.shape[1]))
    norms = leaf.X_norms[rows, None] + leaf.Y_norms
    distances = norms - 2 * (X @ Y.T)
    near = NEAR[dtype_of(X)]
    i, j = torch.nonzero(~(distances > near * norms), as_tuple=True)
    step = max(1, GATHERED // X.shape[1])
    for k in range(0, len(i), step):
        a, b = i[k : k + step], j[k : k + step]
        distances[a, b] = torch.sum((given[a] - leaf.Y_given[b]) ** 2, dim=1)
    return distances
