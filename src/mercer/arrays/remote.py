"""Points on other machines: what solvers ask of them, and who computes with Dask collections.

Dask is imported when the first collection comes.
"""

from __future__ import annotations

import functools
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._registry import LOADERS
from mercer.arrays.libraries import is_recorded, is_tensor, to_input_type, to_native
from mercer.arrays.torch_state import computing
from mercer.memory_errors import explained_call, is_bare


def is_collection(X: Any) -> bool:
    """Whether X is a Dask array or table, whose rows are remote."""
    return hasattr(type(X), "__dask_graph__")


class RemotePoints(ABC):
    """Training points on other machines, as the solvers of one machine see them.

    Attributes
    ----------
    shape : (n, d)
    dtype : numpy.dtype
    targets : (n, t) array that has nothing but its shape
    weights : what has ``sum()``, ``any()``, ``nonzero()`` and entries by rank; or None
    """

    shape: tuple[int, int]
    dtype: Any
    targets: Any
    weights: Any

    @abstractmethod
    def __getitem__(self, positions: Any) -> Any:
        """The points at these positions, in this machine's memory."""

    @abstractmethod
    def var(self) -> float:
        """The variance of all entries."""

    @abstractmethod
    def trace(self, kernel: Any) -> float:
        """The sum of k(x, x) over the points."""

    @abstractmethod
    def diagonal(self, kernel: Any) -> Any:
        """An array whose largest entry is the largest k(x, x)."""

    @abstractmethod
    def blocks(self, centres: Any, among: Any, dense: bool) -> Any:
        """All points, or some of them, with a method ``summed(sums)`` that adds up their parts."""

    @abstractmethod
    def span(self, centres: Any, fit_intercept: bool) -> Any:
        """The features of all points over the centres, as a `FeatureSpan` of `solvers.risk`."""


def is_remote(X: Any) -> bool:
    """Whether X stands for points on other machines."""
    return isinstance(X, RemotePoints)


def implementation() -> Any:
    """What has ``fitter`` and ``map_blocks`` for Dask collections, imported on first use."""
    return LOADERS["dask"]()


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
    @functools.wraps(method)
    def converted(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
        if is_collection(X):
            return implementation().map_blocks(self, method.__name__, X, *arguments, **named)
        given, others = to_native(X), map(to_native, arguments)
        named = {name: to_native(value) for name, value in named.items()}
        found = method(self, given, *others, **named)
        labels = method.__name__ == "predict" and hasattr(self, "classes_")
        if labels and is_tensor(given) and not getattr(self, "_labels_in_tensors", False):
            return found
        if is_recorded(X) and not labels:
            _refuse_lost_gradient(f"{type(self).__name__}.{method.__name__}", found)
        return to_input_type(found, X)

    @functools.wraps(method)
    def mapped(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
        plain = type(X) is np.ndarray and not (arguments or named or "torch" in sys.modules)
        try:
            return method(self, X) if plain else converted(self, X, *arguments, **named)
        except MemoryError as error:
            if is_bare(error):
                raise explained_call(error, method.__name__, (self, X), named) from error
            raise

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
