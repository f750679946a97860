"""Dask collections, as the estimators see them; Dask is imported when the first of them comes."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from mercer.arrays.libraries import handed_back, is_recorded, is_tensor, taken
from mercer.arrays.torch_state import computing
from mercer.memory_errors import explaining_memory


def is_collection(X: Any) -> bool:
    """Whether X is a Dask array or table, of which the rows are elsewhere."""
    return hasattr(type(X), "__dask_graph__")


def is_elsewhere(X: Any) -> bool:
    """Whether X stands for points on other machines, with ``blocks`` that are summed there."""
    return getattr(type(X), "elsewhere", False)


def distributed() -> Any:
    """What works on Dask collections, imported when the first of them comes."""
    return importlib.import_module("mercer.distributed")


def numbers(*values: Any) -> tuple[float, ...]:
    """Numbers as they are; those that Dask has yet to compute, all in one go.

    Not optimised: a task that several graphs share is then the same in all, as workers expect.
    """
    if any(is_collection(value) for value in values):
        values = importlib.import_module("dask").compute(*values, optimize_graph=False)
    return tuple(float(value) for value in values)


def over_blocks(method: Callable) -> Callable:
    """A method of points that, given a Dask collection of them, maps over its blocks, lazily.

    Arrays of other libraries are answered in kind; labels of tensors, if they were learned in kind.
    Numbers that depend on a tensor X have derivatives by it, or it is an error to want some.
    """

    @computing
    @explaining_memory
    @functools.wraps(method)
    def mapped(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
        if is_collection(X):
            return distributed().map_blocks(self, method.__name__, X, *arguments, **named)
        given, others = taken(X), map(taken, arguments)
        named = {name: taken(value) for name, value in named.items()}
        found = method(self, given, *others, **named)
        labels = method.__name__ == "predict" and hasattr(self, "classes_")
        if labels and is_tensor(given) and not getattr(self, "_labels_in_tensors", False):
            return found
        if is_recorded(X) and not labels:
            _refuse_lost_gradient(f"{type(self).__name__}.{method.__name__}", found)
        return handed_back(found, X)

    return mapped


def _refuse_lost_gradient(what: str, found: Any) -> None:
    """Raise a RuntimeError where numbers were computed outside of torch."""
    results = found if isinstance(found, tuple) else (found,)
    if any(map(_is_floating, results)) and not any(map(is_recorded, results)):
        raise RuntimeError(
            f"X requires a gradient, and {what} is computed outside of torch, without one; pass "
            "X.detach()"
        )


def _is_floating(values: Any) -> bool:
    if is_tensor(values):
        return values.is_floating_point()
    return getattr(getattr(values, "dtype", None), "kind", "") == "f"
