"""Methods of fitted estimators over the blocks of a collection, computed when asked for."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from dask.base import tokenize

# What a fit keeps to learn from more points, which no prediction needs.
SUMS = ("centres_", "moments_")


@dataclass(frozen=True)
class _Call:
    """A method with its other arguments; of several arrays that it returns, one."""

    method: str
    arguments: tuple
    named: dict
    part: int | None = None

    def __call__(self, block: Any, model: Any, nothing: np.ndarray) -> np.ndarray:
        if not len(block):
            return nothing
        found = getattr(model, self.method)(block, *self.arguments, **self.named)
        return np.asarray(found if self.part is None else found[self.part])


def map_blocks(model: Any, method: str, X: Any, *arguments: Any, **named: Any) -> Any:
    """The method of every block of rows: a Dask array, nothing of which is computed yet.

    The model is one item of the graph: it goes to each worker once, and again where one is lost.
    How many columns come out is told by one row of zeros or, of a table, by its example.
    """
    model = copy(model)
    for name in SUMS:
        vars(model).pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = getattr(model, method)(_example(X), *arguments, **named)
    if not isinstance(example, tuple):
        return _mapped(X, model, _Call(method, arguments, named), example)
    calls = [_Call(method, arguments, named, part) for part in range(len(example))]
    return tuple(_mapped(X, model, *pair) for pair in zip(calls, example, strict=True))


def _mapped(X: Any, model: Any, call: _Call, example: np.ndarray) -> Any:
    identity, nothing = tokenize(model), example[:0]
    name = f"mercer-{call.method}-{tokenize(identity, call, X)}"
    item = delayed(model, name=f"mercer-model-{identity}", traverse=False)
    if hasattr(X, "chunks"):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        columns = {"drop_axis": 1} if example.ndim == 1 else {}
        chunks = (X.chunks[0], *((size,) for size in example.shape[1:]))
        return X.map_blocks(call, item, nothing, meta=nothing, chunks=chunks, name=name, **columns)
    parts = [
        da.from_delayed(
            delayed(call)(block, item, nothing, dask_key_name=f"{name}-{i}"),
            shape=(np.nan, *example.shape[1:]),
            meta=nothing,
        )
        for i, block in enumerate(X.to_delayed())
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _example(X: Any) -> Any:
    """One row of the kind that X has."""
    if hasattr(X, "_meta_nonempty"):
        return X._meta_nonempty.iloc[:1]
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)
