"""Dask collections as blocks of rows: points, targets and weights that belong together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from dask.base import tokenize

from mercer.arrays import is_collection


class Block(NamedTuple):
    """Dask objects of some rows, in the order of the data; targets and weights may be None."""

    X: Any
    y: Any
    weight: Any


def row_blocks_of(X: Any, y: Any, weight: Any) -> list[Block]:
    """Blocks of rows of a collection, with the same rows of the targets and weights.

    An array's columns are brought together. Targets and weights of an array are cut as it is; those
    of a table must be cut alike already, as columns of one table are.
    """
    if getattr(X, "ndim", 2) != 2:
        raise ValueError(f"X has {X.ndim} dimensions; expected an array or table of 2")
    if hasattr(X, "numblocks") and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    points = _delayed(X)
    columns = [points]
    for name, given in (("y", y), ("sample_weight", weight)):
        found = [None] * len(points) if given is None else _delayed(_cut_as(X, given, name))
        if len(found) != len(points):
            raise ValueError(
                f"{name} has {len(found)} blocks and X has {len(points)}; give both from one "
                "table, or as arrays whose lengths are known (compute_chunk_sizes)"
            )
        columns.append(found)
    return [Block(*block) for block in zip(*columns, strict=True)]


def token_of(*collections: Any) -> str:
    """What tells these data from others: of collections the name, which their source determines."""
    return tokenize(*collections)


def _cut_as(X: Any, given: Any, name: str) -> Any:
    """Targets or weights in the blocks of X."""
    known = hasattr(X, "chunks") and not np.isnan(X.shape[0])
    if known and not is_collection(given):
        import dask.array as da

        given = np.asarray(given)
        given = np.broadcast_to(given, (X.shape[0],)) if given.ndim == 0 else given
        if len(given) == X.shape[0]:
            return da.from_array(given, chunks=(X.chunks[0], *((-1,) * (given.ndim - 1))))
    if not is_collection(given):
        raise TypeError(
            f"{name} is of type {type(given).__name__}, and the rows of X are not counted; give a "
            "Dask collection too"
        )
    if known and hasattr(given, "chunks") and not np.isnan(given.shape[0]):
        if given.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and {name} has {given.shape[0]}")
        return given.rechunk({0: X.chunks[0], **dict.fromkeys(range(1, given.ndim), -1)})
    return given


def _delayed(collection: Any) -> list[Any]:
    return list(np.ravel(np.asarray(collection.to_delayed(), dtype=object)))
