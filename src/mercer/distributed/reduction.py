"""A map over blocks and a tree that merges what comes of them, always in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dask.base import compute, tokenize
from dask.delayed import delayed

from mercer.distributed.checkpoints import recalled
from mercer.distributed.workers import settle_here

# Results that one task merges.
ARITY = 8


def reduced(name: str, piece: Callable, common: Any, blocks: Sequence[tuple]) -> Any:
    """``piece(common, *block)`` of every block, merged two by two by their ``merged``.

    The tree depends on the number of blocks alone, so that the sums have the same bits whichever
    workers there are, and whether or not some of them fail. A checkpoint recalls what it has.

    Parameters
    ----------
    name : str
        Of the tasks, as the dashboard shows them.
    piece : function
    common : object
        The same for all blocks; part of the graph once.
    blocks : sequence of tuples
        Of Dask objects and others.

    Examples
    --------
    >>> from mercer.solvers.nystrom import Totals
    >>> class Size(Totals):
    ...     def __init__(self, unit, points):
    ...         self.n = unit * len(points)
    >>> reduced("size", Size, 2, [("ab",), ("c",), ("def",)]).n
    12
    """
    token = tokenize(piece, common, blocks)
    return recalled(name, token, lambda: _computed(name, token, piece, common, blocks))


def mapped(name: str, piece: Callable, common: Any, blocks: Sequence[tuple]) -> list[Any]:
    """``piece(common, *block)`` of every block, as Dask objects in the order of the blocks."""
    return _mapped(f"mercer-{name}", tokenize(piece, common, blocks), piece, common, blocks)


def _computed(name: str, token: str, piece: Callable, common: Any, blocks: Sequence[tuple]) -> Any:
    parts = _mapped(f"mercer-{name}", token, piece, common, blocks)
    level = 0
    while len(parts) > 1:
        groups = [parts[i : i + ARITY] for i in range(0, len(parts), ARITY)]
        merge, level = f"mercer-{name}-merge-{token}-{level}", level + 1
        parts = [
            delayed(_merged)(*group, dask_key_name=f"{merge}-{i}") for i, group in enumerate(groups)
        ]
    return compute(parts[0])[0]


def _mapped(
    name: str, token: str, piece: Callable, common: Any, blocks: Sequence[tuple]
) -> list[Any]:
    shared = delayed(common, name=f"{name}-common-{token}", traverse=False)
    return [
        delayed(_piece)(piece, shared, *block, dask_key_name=f"{name}-{token}-{i}")
        for i, block in enumerate(blocks)
    ]


def _piece(piece: Callable, common: Any, *block: Any) -> Any:
    settle_here()
    return piece(common, *block)


def _merged(first: Any, *others: Any) -> Any:
    for other in others:
        first = first.merged(other)
    return first
