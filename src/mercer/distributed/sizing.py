"""Blocks of rows worth about a second of work, made of those that were given."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.delayed import delayed

from mercer.arrays import backend, take_rows
from mercer.estimators.measured import MULTIPLICATIONS_PER_VALUE

# Multiplications that a thread does in a second, and bytes of numbers that a block may have.
MULTIPLICATIONS_PER_SECOND, BLOCK_BYTES = 2e10, 2**26
# Blocks that keep workers busy to the end, made as long as the shortest share of a second pays.
BLOCKS, SHORTEST = 64, 0.05


def rows_per_block(n: int, centres: int, features: int, targets: int, squares: bool) -> int:
    """Rows whose pass takes one thread about a second; fewer where they are long, or few in all.

    The rate is a constant: one that is measured would cut the blocks, and round the sums, in
    another way each time.

    Parameters
    ----------
    n, centres, features, targets : int
    squares : bool
        Whether passes sum M x M numbers over all rows, and not only M for each target.

    Examples
    --------
    >>> rows_per_block(10**9, 1000, 10, 1, squares=False)
    762600
    >>> rows_per_block(10**9, 1000, 10, 1, squares=True)
    19493
    >>> rows_per_block(10**6, 1000, 10, 1, squares=False)
    38130
    """
    work = centres * (features + MULTIPLICATIONS_PER_VALUE + targets + (centres if squares else 0))
    most = min(MULTIPLICATIONS_PER_SECOND / work, BLOCK_BYTES / (8 * (features + targets)))
    return max(1, int(min(most, max(n / BLOCKS, SHORTEST * most))))


def resized(blocks: list[Any], lengths: np.ndarray, rows: int) -> tuple[list[Any], np.ndarray]:
    """Blocks of about so many rows, in the same order, and their lengths.

    Neighbours are joined that have no more together, and a block twice as long or longer is cut
    into equal parts. How depends on the lengths alone.

    Parameters
    ----------
    blocks : list of Dask objects of tuples (points, targets, weights)
    lengths : ndarray of shape (n_blocks,)
        All positive.
    rows : int
    """
    found, sizes, waiting = [], [], []

    def join() -> None:
        if waiting:
            found.append(_join([blocks[i] for i in waiting]))
            sizes.append(int(lengths[waiting].sum()))
            waiting.clear()

    for i, length in enumerate(lengths):
        if length + lengths[waiting].sum() > rows:
            join()
        waiting.append(i)
        if length >= 2 * rows:
            waiting.clear()
            ends = np.linspace(0, length, round(length / rows) + 1).astype(int).tolist()
            found += [_cut(blocks[i], *between) for between in pairwise(ends)]
            sizes += np.diff(ends).tolist()
    join()
    return found, np.array(sizes)


def _join(blocks: list[Any]) -> Any:
    if len(blocks) == 1:
        return blocks[0]
    name = f"mercer-join-{tokenize([block.key for block in blocks])}"
    return delayed(_joined)(blocks, dask_key_name=name)


def _joined(blocks: list[tuple]) -> tuple:
    return tuple(
        None if parts[0] is None else backend(parts[0]).join(parts)
        for parts in zip(*blocks, strict=True)
    )


def _cut(block: Any, start: int, stop: int) -> Any:
    name = f"mercer-cut-{tokenize(block.key, start, stop)}"
    return delayed(_part)(block, start, stop, dask_key_name=name)


def _part(block: tuple, start: int, stop: int) -> tuple:
    return tuple(None if each is None else take_rows(each, slice(start, stop)) for each in block)
