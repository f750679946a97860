"""Slopes of Σ_ij G_ij k(x_i, z_j) by the points, in torch's own operations and tile by tile.

A kernel's value is a program of pair statistics and one-sided terms. torch differentiates the
program, which works on each pair separately; what its slope by a statistic means for the points is
written here for each statistic, in differences of the points as given, so that points that
coincide have a slope of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mercer.arrays import LazyModule, device_budget, dtype_of, row_blocks
from mercer.core.programs import Kind, Leaf, Program
from mercer.core.reference.interpreter import EXACT_FEATURES, NEAR, run
from mercer.core.torch.smooth import SMOOTH
from mercer.core.torch.tiles import ALIVE, BLOCK_BYTES, GATHERED, Tiles, statistic
from mercer.core.triton.tiles import TritonTiles

torch: Any = LazyModule("torch")

# Statistics whose slope is zero wherever they are.
VANISHING = (Kind.SQDIST, Kind.L1, Kind.CHI2)
# Arrays of the size of a block that torch keeps for each operation of a program.
KEPT = 2


@dataclass
class Layout:
    """A program over pairs, and where its operands are in a list of tensors.

    Attributes
    ----------
    program : Program
    leaves : for each statistic its kind and the places of the fields of its `Leaf`
    row_terms, column_terms, next_to_rows : places
    n, m, device, dtype, precision, by_triton : as of `TritonTiles` or `Tiles`
    """

    program: Program
    leaves: list[tuple[Kind, list[int | None]]]
    row_terms: list[int]
    column_terms: list[int]
    next_to_rows: list[int]
    n: int
    m: int
    device: Any
    dtype: Any
    precision: str
    by_triton: bool
    ready: Callable[..., Any] | None = None  # gives tiles that are there already

    def tiles(self, tensors: Sequence[Any], logarithmic: bool = False) -> Any:
        """What computes values, as fast as there is."""
        if self.ready is not None:
            return self.ready(logarithmic=logarithmic)
        given = {**self._given(tensors), "logarithmic": logarithmic}
        if not self.by_triton:
            return Tiles(**given)
        return TritonTiles(**given, columns_next_to_rows=[tensors[i] for i in self.next_to_rows])

    def twin(self, tensors: Sequence[Any]) -> Tiles:
        """The same by torch's operations."""
        return Tiles(**self._given(tensors))

    def _given(self, tensors: Sequence[Any]) -> dict[str, Any]:
        leaves = [
            Leaf(kind, *(None if i is None else tensors[i] for i in places))
            for kind, places in self.leaves
        ]
        return {
            "program": self.program,
            "leaves": leaves,
            "row_terms": [tensors[i] for i in self.row_terms],
            "column_terms": [tensors[i] for i in self.column_terms],
            "n": self.n,
            "m": self.m,
            "device": self.device,
            "dtype": self.dtype,
            "precision": self.precision,
        }


@dataclass
class Operands:
    """Tensors that programs are given, each once."""

    tensors: list[Any] = field(default_factory=list)

    def place(self, tensor: Any) -> int:
        for i, other in enumerate(self.tensors):
            if other is tensor:
                return i
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def places(self, tensors: Sequence[Any]) -> list[int]:
        return [self.place(tensor) for tensor in tensors]

    def leaf(self, leaf: Leaf) -> tuple[Kind, list[int | None]]:
        """The places of a statistic's operands: only points as given have a slope."""
        fixed = [
            A.detach() if A is not None and A is not given and A.requires_grad else A
            for A, given in zip(leaf[1:3] + leaf[5:7], leaf[3:5] * 2, strict=True)
        ]
        fields = (*fixed[:2], leaf.X_given, leaf.Y_given, *fixed[2:])
        return leaf.kind, [None if A is None else self.place(A) for A in fields]


def slopes(layout: Layout, tensors: Sequence[Any], outer: Callable[[slice, Any], Any]) -> list[Any]:
    """Σ_ij G_ij ∂k_ij/∂p for each tensor p, None for those that have no slope.

    Parameters
    ----------
    layout : Layout
    tensors : its operands
    outer : callable
        ``outer(rows, K)`` gives some rows of G, (b, m), from the values there.
    """
    tiles, total = layout.twin(tensors), _Totals(tensors)
    for rows in _blocks(tiles):
        statistics = [statistic(leaf, rows) for leaf in tiles.leaves]
        terms = [term[rows] for term in tiles.row_terms]
        by = _by_operands(tiles, rows, [*statistics, *terms, *tiles.column_terms], outer)
        for leaf, (kind, places), D in zip(tiles.leaves, layout.leaves, statistics, strict=True):
            S = next(by)
            if S is None:
                continue
            if kind in VANISHING:
                S = S.masked_fill(D == 0, 0.0)
            left, right = pulled(leaf, rows, S)
            total.add(places[2], rows, left)
            total.add(places[3], slice(None), right)
        for at, places in ((rows, layout.row_terms), (slice(None), layout.column_terms)):
            for place in places:
                total.add(place, at, next(by))
    return total.found()


def contraction(layout: Layout, tensors: Sequence[Any], outer: Callable[[slice], Any]) -> Any:
    """Σ_ij G_ij k_ij, with ``outer(rows)`` some rows of G, (b, m)."""
    tiles = layout.twin(tensors)
    total = torch.zeros((), dtype=torch.float64, device=layout.device)
    for rows in _blocks(tiles):
        total += (outer(rows) * tiles.values(rows)).sum(dtype=torch.float64)
    return total


class _Totals:
    """Sums over blocks of rows, in double."""

    def __init__(self, tensors: Sequence[Any]):
        self.tensors, self.sums = tensors, [None] * len(tensors)

    def add(self, place: Any, rows: slice, found: Any) -> None:
        if found is None:
            return
        if self.sums[place] is None:
            self.sums[place] = torch.zeros_like(self.tensors[place], dtype=torch.float64)
        self.sums[place][rows] += found

    def found(self) -> list[Any]:
        return [
            total if total is None else total.to(tensor.dtype)
            for total, tensor in zip(self.sums, self.tensors, strict=True)
        ]


def _blocks(tiles: Tiles) -> Iterator[slice]:
    """Rows at a time for which what torch keeps of a program has room."""
    size = 8 if tiles.dtype == torch.float64 else 4
    alive = ALIVE + KEPT * (len(tiles.leaves) + len(tiles.program.operations))
    if any(leaf.kind == Kind.CONJUNCTION for leaf in tiles.leaves):
        alive += max(leaf.X.shape[1] for leaf in tiles.leaves)  # products of all but one factor
    budget = min(BLOCK_BYTES, device_budget(tiles.device))
    return row_blocks(tiles.n, alive * size * tiles.m, budget)


def _by_operands(
    tiles: Tiles, rows: slice, operands: list[Any], outer: Callable[[slice, Any], Any]
) -> Iterator[Any]:
    """Slopes of a block's sum by the values of its statistics and terms; None for no slope."""
    operands = [A.detach().requires_grad_() for A in operands]
    k, r = len(tiles.leaves), len(tiles.leaves) + len(tiles.row_terms)
    shape = (rows.stop - rows.start, tiles.m)
    given = operands[:k], operands[k:r], operands[r:]
    with torch.enable_grad():
        values = run(tiles.program, *given, shape, tiles.dtype, SMOOTH)
    if not values.requires_grad:  # a constant
        return iter([None] * len(operands))
    G = outer(rows, values.detach()).to(values.dtype)
    return iter(torch.autograd.grad(values, operands, G, allow_unused=True))


def pulled(leaf: Leaf, rows: slice, S: Any) -> tuple[Any, Any]:
    """Σ_j S_ij ∂s_ij/∂x_i, (b, d), and Σ_i S_ij ∂s_ij/∂z_j, (m, d), of one statistic s."""
    if leaf.kind == Kind.DOT:
        return S @ leaf.Y, S.T @ leaf.X[rows]
    if leaf.kind == Kind.SQDIST and leaf.X.shape[1] > EXACT_FEATURES:
        return _of_distances(leaf, rows, S)
    X, Y = leaf.X_given[rows], leaf.Y_given
    if leaf.kind == Kind.CONJUNCTION:
        return _of_conjunctions(X, Y, S)
    left, right = torch.empty_like(X), torch.empty_like(Y)
    for k in range(X.shape[1]):
        by_x, by_z = _of_a_feature(leaf.kind, X, Y, k)
        left[:, k], right[:, k] = (S * by_x).sum(1), (S * by_z).sum(0)
    return left, right


def _of_a_feature(kind: Kind, X: Any, Y: Any, k: int) -> tuple[Any, Any]:
    """∂s/∂x_k and ∂s/∂z_k of a statistic that is a sum over features."""
    x, z = X[:, k, None], Y[:, k]
    difference = x - z
    match kind:
        case Kind.SQDIST:
            return 2 * difference, -2 * difference
        case Kind.L1:
            return torch.sign(difference), -torch.sign(difference)
        case Kind.MINSUM:
            below = torch.heaviside(-difference, difference.new_tensor(0.5))
            return below, 1 - below
        case Kind.CHI2:
            total = x + z
            q = difference / torch.where(total == 0, 1, total)
            return 2 * q - q * q, -2 * q - q * q
        case Kind.DIFFERENCE_PRODUCT:  # whose features alternate x_k, dx_k
            other = X[:, k ^ 1, None] - Y[:, k ^ 1]
            return other, -other
        case Kind.SIGN_PRODUCT:
            sign = torch.sign(X[:, k - 1, None] - Y[:, k - 1]) if k % 2 else 0 * difference
            return sign, -sign
    raise ValueError(f"a statistic that torch differentiates; got {kind!r}")


def _of_distances(leaf: Leaf, rows: slice, S: Any) -> tuple[Any, Any]:
    """From products with the points or, where these nearly coincide, from differences."""
    X, Y, given = leaf.X[rows], leaf.Y, leaf.X_given[rows]
    norms = leaf.X_norms[rows, None] + leaf.Y_norms
    near = ~(norms - 2 * (X @ Y.T) > NEAR[dtype_of(X)] * norms)
    far = S.masked_fill(near, 0.0)
    left = 2 * (far.sum(1)[:, None] * X - far @ Y)
    right = 2 * (far.sum(0)[:, None] * Y - far.T @ X)
    i, j = torch.nonzero(near & (S != 0), as_tuple=True)
    step = max(1, GATHERED // X.shape[1])
    for k in range(0, len(i), step):
        a, b = i[k : k + step], j[k : k + step]
        change = 2 * S[a, b][:, None] * (given[a] - leaf.Y_given[b])
        left.index_put_((a,), change, accumulate=True)
        right.index_put_((b,), -change, accumulate=True)
    return left, right


def _of_conjunctions(X: Any, Y: Any, S: Any) -> tuple[Any, Any]:
    """Each feature by the product of the factors before it and after it: none is divided by."""
    before = [S]
    for k in range(X.shape[1] - 1):
        before.append(before[-1] * (1 + X[:, k, None] * Y[:, k]))
    after = torch.ones_like(S)
    left, right = torch.empty_like(X), torch.empty_like(Y)
    for k in reversed(range(X.shape[1])):
        rest = before.pop() * after
        left[:, k], right[:, k] = rest @ Y[:, k], rest.T @ X[:, k]
        after = after * (1 + X[:, k, None] * Y[:, k])
    return left, right
