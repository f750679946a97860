"""Methods of fitted estimators over the blocks of a collection, computed when asked for."""

from __future__ import annotations

import importlib
import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.delayed import delayed
from sklearn import config_context

from mercer._sklearn import LISTENERS
from mercer.arrays import n_rows, row_major
from mercer.distributed.rows import is_table, placed, require_array_or_table
from mercer.distributed.workers import settle_here

# What a fit keeps to learn from more points, and who listens to it: no prediction needs them.
LEFT_HERE = ("centres_", "moments_", *LISTENERS)
# What a task may take for one temporary, such as kernel values: a worker runs several tasks.
MEGABYTES = 128


@dataclass(frozen=True)
class _Call:
    """A method with its other arguments; of several arrays that it returns, one."""

    method: str
    arguments: tuple
    named: dict
    part: int | None = None

    def __call__(
        self, block: Any, model: Any, nothing: np.ndarray, block_id: tuple[int, ...] | None = None
    ) -> Any:
        settle_here()
        found = nothing
        if n_rows(block):
            block = row_major(block) if isinstance(block, np.ndarray) else block
            try:
                with config_context(working_memory=MEGABYTES):
                    found = getattr(model, self.method)(block, *self.arguments, **self.named)
            except ValueError as error:
                place = "a block" if block_id is None else f"block {block_id[0]}"
                raise placed(error, place, X=block) from error
            found = found if self.part is None else found[self.part]
        return _indexed(block, found) if hasattr(block, "index") else np.asarray(found)


def map_blocks(model: Any, method: str, X: Any, *arguments: Any, **named: Any) -> Any:
    """The method of every block of rows, computed later.

    Of an array comes an array; of a table a column or a table, with its index.
    The model is one item of the graph: it goes to each worker once, and again where one is lost.
    The number of columns of the result is found from one row of zeros or, of a table, by its
    example.
    """
    require_array_or_table(X)
    model = copy(model)
    for name in LEFT_HERE:
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
    if not is_table(X):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        columns = {"drop_axis": 1} if example.ndim == 1 else {}
        chunks = (X.chunks[0], *((size,) for size in example.shape[1:]))
        return X.map_blocks(call, item, nothing, meta=nothing, chunks=chunks, name=name, **columns)
    meta = _indexed(X._meta, nothing)
    return X.map_partitions(call, item, nothing, meta=meta, token=f"mercer-{call.method}")


def _indexed(block: Any, found: np.ndarray) -> Any:
    """What was found for the rows of a table, with its index."""
    kind = "Series" if found.ndim == 1 else "DataFrame"
    return getattr(importlib.import_module("pandas"), kind)(found, index=block.index)


def _example(X: Any) -> Any:
    """One row of the kind that X has."""
    if is_table(X):
        return X._meta_nonempty.iloc[:1]
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)
