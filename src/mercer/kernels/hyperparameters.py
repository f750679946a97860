"""The numbers of a kernel that may be learnt, as a vector of logarithms.

Every positive number that the kernel's formula depends on is one: ``gamma``, the value of a
constant factor, each of d scales. Where a kernel has scales, its width is held fixed, since both
together say the same thing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from mercer._sklearn import parameter_names
from mercer.arrays import as_numbers
from mercer.kernels.kernel import Kernel

# What one divisor per feature makes superfluous, in the order of who has it first.
WIDTHS = ("period", "gamma", "length_scale")
BOUNDS = (1e-5, 1e5)


class Entry(NamedTuple):
    """One number of a kernel, whose value is ``exp(rate * theta_j)`` up to a constant factor.

    Attributes
    ----------
    path : str
        As in ``kernel.get_params()``: ``left__gamma``.
    index : int or None
        Which entry of a vector.
    rate : float
        d log(value) / d theta_j.
    """

    path: str
    index: int | None = None
    rate: float = 1.0

    @property
    def name(self) -> str:
        return self.path if self.index is None else f"{self.path}[{self.index}]"


def learnable(kernel: Kernel) -> tuple[Entry, ...]:
    """Every positive number of the kernel that changes its values.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> [entry.name for entry in learnable(2.0 * K.RBF(scales=[1.0, 3.0]) + K.Linear())]
    ['left__left__value', 'left__right__scales[0]', 'left__right__scales[1]']
    """
    entries = []
    sizes = kernel.expression().parameters()
    for path in sorted(sizes, key=_place(kernel)):
        if sizes[path] is None:
            if value_at(kernel, path) > 0 and not _is_superfluous(kernel, path, sizes):
                entries.append(Entry(path))
        else:
            entries += [Entry(path, j) for j in range(int(sizes[path] or 0))]
    return tuple(entries)


def value_at(kernel: Kernel, path: str) -> Any:
    """The number, or the vector of numbers, at a path."""
    found: Any = kernel
    for name in path.split("__"):
        found = getattr(found, name)
    return as_numbers(found)


def values(kernel: Kernel, entries: Sequence[Entry]) -> np.ndarray:
    """The number of each entry: (p,)."""
    found = (value_at(kernel, e.path) for e in entries)
    pairs = zip(entries, found, strict=True)
    return np.array([float(v if e.index is None else np.asarray(v)[e.index]) for e, v in pairs])


def with_values(kernel: Kernel, entries: Sequence[Entry], new: np.ndarray) -> Kernel:
    """A clone of the kernel with these numbers, (p,).

    Examples
    --------
    >>> from mercer import kernels as K
    >>> with_values(2.0 * K.RBF(gamma=3.0), [Entry("right__gamma")], np.array([0.5]))
    2.0 * RBF(gamma=0.5)
    """
    vectors: dict[str, np.ndarray] = {}
    changed: dict[str, Any] = {}
    for entry, value in zip(entries, new, strict=True):
        if entry.index is None:
            changed[entry.path] = float(value)
            continue
        if entry.path not in vectors:
            vectors[entry.path] = np.array(value_at(kernel, entry.path), dtype=float)
        vectors[entry.path][entry.index] = value
    changed |= {path: tuple(vector.tolist()) for path, vector in vectors.items()}
    return clone(kernel).set_params(**changed)


def _place(kernel: Kernel) -> Any:
    """Paths in the order the kernel is written in."""
    names = {path: i for i, path in enumerate(_paths(kernel, ""))}
    return lambda path: names.get(path, len(names))


def _paths(kernel: Kernel, prefix: str) -> list[str]:
    found = []
    for name in parameter_names(type(kernel)):
        value = getattr(kernel, name)
        found.append(prefix + name)
        if isinstance(value, Kernel):
            found += _paths(value, f"{prefix}{name}__")
    return found


def _is_superfluous(kernel: Kernel, path: str, sizes: Mapping[str, int | None]) -> bool:
    """Whether scales with this width are redundant."""
    prefix, name = path[: len(path) - len(path.split("__")[-1])], path.split("__")[-1]
    if sizes.get(prefix + "scales") is None:
        return False
    return name == next((width for width in WIDTHS if prefix + width in sizes), None)
