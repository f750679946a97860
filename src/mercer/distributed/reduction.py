"""A map over blocks and a tree that merges what comes of them, always in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dask._task_spec import Alias, GraphNode, Task, convert_legacy_graph
from dask.base import compute, tokenize
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.utils import ensure_dict

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
    >>> from mercer.solvers.nystrom.sums import Totals
    >>> class Size(Totals):
    ...     def __init__(self, unit, points):
    ...         self.n = unit * len(points)
    >>> reduced("size", Size, 2, [("ab",), ("c",), ("def",)]).n
    12
    """
    token = tokenize(piece, common, blocks)
    return recalled(name, token, lambda: _computed(name, token, piece, common, blocks))


def mapped(
    name: str, piece: Callable, common: Any, blocks: Sequence[tuple], tail: tuple = ()
) -> list[Any]:
    """``piece(common, *block)`` of every block, as Dask objects with keys ``(name, i, *tail)``."""
    token = tokenize(piece, common, blocks)
    keys = [(f"mercer-{name}-{token}", i, *tail) for i in range(len(blocks))]
    shared = delayed(common, name=f"mercer-{name}-common-{token}", traverse=False)
    return fused(
        delayed(_piece)(piece, shared, *block, dask_key_name=key)
        for key, block in zip(keys, blocks, strict=True)
    )


def _computed(name: str, token: str, piece: Callable, common: Any, blocks: Sequence[tuple]) -> Any:
    parts, level = mapped(name, piece, common, blocks), 0
    while len(parts) > 1:
        groups = [parts[i : i + ARITY] for i in range(0, len(parts), ARITY)]
        merge, level = f"mercer-{name}-merge-{token}-{level}", level + 1
        parts = [
            delayed(_merged)(*group, dask_key_name=f"{merge}-{i}") for i, group in enumerate(groups)
        ]
    return compute(parts[0])[0]


def fused(parts: Iterable[Any]) -> list[Any]:
    """The same Dask objects, each with all that nothing else needs in one task with it.

    So to read a block, or several, and to sum over it costs the scheduler one task.
    """
    parts = list(parts)
    graph = ensure_dict(HighLevelGraph.merge(*(part.dask for part in parts)))
    nodes = convert_legacy_graph(graph)
    needed_by: dict[Any, set] = {}
    for key, node in nodes.items():
        for needed in node.dependencies:
            needed_by.setdefault(needed, set()).add(key)
    for part in parts:
        inside, more = {part.key: nodes[part.key]}, [*nodes[part.key].dependencies]
        while more:
            key = more.pop()
            if isinstance(nodes.get(key), Task | Alias) and needed_by[key] <= inside.keys():
                inside[key] = nodes[key]
                more += nodes[key].dependencies
        for key in inside:
            del graph[key]
        graph[part.key] = GraphNode.fuse(*inside.values(), key=part.key)
    return [Delayed(part.key, graph) for part in parts]


def _piece(piece: Callable, common: Any, *block: Any) -> Any:
    settle_here()
    return piece(common, *block)


def _merged(first: Any, *others: Any) -> Any:
    for other in others:
        first = first.merged(other)
    return first
