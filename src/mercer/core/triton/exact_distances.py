"""Which squared distances may be made from norms and dot products, whose rounding they inherit."""

from __future__ import annotations

import math
from typing import Any

from mercer.arrays import LazyModule
from mercer.core.programs import Kind, Leaf, Program
from mercer.core.reference.interpreter import run
from mercer.core.torch.tiles import PairTiles

torch: Any = LazyModule("torch")

# How much of a value may be lost by rounding a squared distance before care is taken; at how many
# points that is looked at, the farthest and others; and how far apart pairs of them are taken to
# be, as shares of squared norms.
CARE = 32.0
FARTHEST, OTHERS = 64, 448
# Up to so many features all products are summed within the matrix unit: at 200 features its errors
# are twice those of torch.
CHAINED = 128
APART = (0.0, *(2.0**k for k in range(-39, 2, 4)))


def needs_exact_distances(pairs: PairTiles, i: int) -> bool:
    """Whether values would feel the rounding of the i-th statistic, a distance made from norms."""
    info, norms, n = torch.finfo(pairs.dtype), pairs.leaves[i].X_norms, pairs.n
    assert norms is not None
    others = torch.arange(0, n, max(1, -(-n // OTHERS)), device=pairs.device)
    at = torch.cat([torch.topk(norms, min(FARTHEST, n)).indices, others])
    apart = torch.tensor(APART, dtype=torch.float64, device=pairs.device)[:, None]
    statistics = [_nearly_at_one_point(other, at, apart) for other in pairs.leaves]
    rows = [term[at] for term in pairs.row_terms]
    columns = [term[at] for term in pairs.columns_next_to_rows]

    exact, rounding = statistics[i], _roundings(pairs.leaves[i]) * info.eps * norms[at]

    def values(rounded: Any) -> Any:
        statistics[i] = rounded
        shape = (len(APART), len(at))
        given = (statistics, rows, columns)
        flat = ([a.to(torch.float64).expand(shape).reshape(-1) for a in g] for g in given)
        return _flat_run(pairs.program, *flat)

    found = values(exact)
    above, below = ((values(exact + r) - found).abs() for r in (rounding, -rounding))
    # Where roots are taken, and are NaN here, distances below zero are made zero.
    lost = torch.maximum(above.max(), below.nan_to_num(0.0, math.inf).max())
    size = found.abs().max()
    enough = lost < CARE * info.eps * (1.0 if pairs.logarithmic else size)
    return not bool(enough & (size <= info.max))


def _roundings(leaf: Leaf) -> float:
    """Units in the last place of a squared norm that a distance made from it may be off by.

    Measured on an H200, where the accumulator of the matrix unit cuts digits off: the products of
    few features are all summed in it, those of more features outside it, in steps.
    """
    d = leaf.X.shape[1]
    return 2 + d / 8 if d <= CHAINED else min(8 + d / 1250, 24)


def _nearly_at_one_point(leaf: Leaf, at: Any, apart: Any) -> Any:
    """A statistic of some points with others next to them.

    What vanishes at one point is that of so far apart, by the size of all, not of each: close to
    the origin another statistic may be as large as elsewhere.
    """
    X = leaf.X_given[at]
    match leaf.kind:
        case Kind.DOT:
            return torch.sum(X * X, dim=1)
        case Kind.MINSUM:
            return torch.sum(X, dim=1)
        case Kind.CONJUNCTION:
            return torch.prod(1 + X * X, dim=1)
        case Kind.SQDIST:
            return apart * leaf.X_norms[at].max()
        case Kind.DIFFERENCE_PRODUCT:
            return apart * torch.sum(torch.abs(X[:, ::2] * X[:, 1::2]), dim=1).max()
        case Kind.CHI2:
            return apart * torch.sum(X, dim=1).max()
    return torch.sqrt(apart) * torch.sum(torch.abs(X), dim=1).max()


def _flat_run(program: Program, statistics: list, rows: list, columns: list) -> Any:
    """The program on pairs in a row: each a row and a column of its own."""
    statistics, columns = ([a[:, None] for a in given] for given in (statistics, columns))
    shape = (len(statistics[0]), 1)
    return run(program, statistics, rows, columns, shape, statistics[0].dtype, torch)
