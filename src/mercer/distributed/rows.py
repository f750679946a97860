"""Dask collections as blocks of rows: points, targets and weights that belong together."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from scipy.sparse import issparse

from mercer.arrays import refuse_non_finite
from mercer.arrays.remote import is_collection


def row_blocks_of(X: Any, y: Any, weight: Any) -> list[Any]:
    """Dask objects of tuples (points, targets, weights), one per block of rows of X.

    What is not given is None. Reading a block and its parts is one task. An array's columns are
    brought together, and its targets and weights cut as it is; those of a table must be columns of
    it, or made from them.
    """
    require_array_or_table(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions; expected an array or table of 2")
    per_row = {"y": y, "sample_weight": weight}
    if is_table(X):
        for name, given in per_row.items():
            if given is not None and not is_table(given):
                raise TypeError(
                    f"{name} is of type {type(given).__name__} and X is a table; give columns of "
                    "the same table"
                )
            if given is not None and given.npartitions != X.npartitions:
                raise ValueError(
                    f"{name} has {given.npartitions} partitions and X has {X.npartitions}; give "
                    "columns of the same table"
                )
        together = X.map_partitions(
            _together, y, weight, meta=X._meta, enforce_metadata=False, align_dataframes=False
        )
        return together.to_delayed()
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    parts: list[Any] = [X, "ij"]
    for name, given in per_row.items():
        given = None if given is None else _cut_as(X, given, name)
        parts += [given, None if given is None else "ik"[: given.ndim]]
    nothing = np.empty((0, 0), dtype=object)
    together = da.blockwise(_together, "ij", *parts, meta=nothing, concatenate=True)
    return together.to_delayed().ravel().tolist()


def is_table(X: Any) -> bool:
    """Whether X is a Dask table or a column of one."""
    return hasattr(type(X), "_meta_nonempty")


def require_array_or_table(X: Any) -> None:
    """Raise a TypeError for any other of Dask's collections."""
    if not (is_table(X) or isinstance(X, da.Array)):
        raise TypeError(
            f"X is of type {type(X).__name__}; of Dask's collections give an array or a table"
        )


def places_of(X: Any) -> list[str]:
    """What each block of rows is called in errors, and the row it begins with where that is known.

    Examples
    --------
    >>> places_of(da.zeros((5, 2), chunks=(3, 2)))
    ['block 0 (from row 0 on)', 'block 1 (from row 3 on)']
    """
    if is_table(X):
        return [f"block {i}" for i in range(X.npartitions)]
    starts = np.append(0, np.cumsum(X.chunks[0]))[:-1]
    return [
        f"block {i}" + ("" if np.isnan(start) else f" (from row {int(start)} on)")
        for i, start in enumerate(starts)
    ]


def placed(error: Exception, place: str, **parts: Any) -> Exception:
    """What is wrong with a block of points, targets and weights, and where.

    Of numbers that are missing or infinite the first is named, as scikit-learn does not.
    """
    for name, part in parts.items():
        if "NaN" in str(error) or "infinity" in str(error):
            try:
                refuse_non_finite(_numbers(part), name, list(getattr(part, "columns", [])))
            except ValueError as found:
                error = found
    return type(error)(f"in {place}: {error}")


def _numbers(part: Any) -> Any:
    """Numbers as a matrix; none where there are none."""
    if part is None or issparse(part):
        return np.zeros((0, 0)) if part is None else part
    try:
        values = np.asarray(part, dtype=np.float64)
    except (TypeError, ValueError):
        return np.zeros((0, 0))
    return values.reshape(len(values), -1)


def _together(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    return X, y, weight


def _cut_as(X: Any, given: Any, name: str) -> Any:
    """Targets or weights in the blocks of the array X."""
    if is_table(given):
        raise TypeError(f"{name} is a table and X is an array; give {name}.to_dask_array()")
    if not is_collection(given):
        if np.isnan(X.shape[0]):
            raise TypeError(
                f"{name} is of type {type(given).__name__}, and the rows of X are not counted; "
                "give a Dask array, or call X.compute_chunk_sizes() first"
            )
        given = np.asarray(given)
        given = np.broadcast_to(given, X.shape[:1]) if given.ndim == 0 else given
        given = da.from_array(given, name=None)
    if not np.isnan([X.shape[0], given.shape[0]]).any():
        if given.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and {name} has {given.shape[0]}")
        return given.rechunk({0: X.chunks[0], **dict.fromkeys(range(1, given.ndim), -1)})
    if given.numblocks[0] != X.numblocks[0] or not np.isnan([X.shape[0], given.shape[0]]).all():
        raise ValueError(
            f"{name} has {given.numblocks[0]} blocks and X has {X.numblocks[0]}, and the lengths "
            "are not all known; call compute_chunk_sizes() on both first"
        )
    return given
