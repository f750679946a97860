"""An object and all it holds as a flat list of records, parts before wholes, and back.

A record is a list: the name of a form, then its parts. A part is None, a truth value, a number or a
text as it is; ``[i]`` for what record i makes; ``["nan"]`` and the like for floats that JSON lacks;
``{"tensor": name}`` for an array of numbers. A record refers to earlier ones only, so that no file
has cycles, and trees of any depth are read without recursion. What is shared stays shared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from mercer.arrays import as_numpy, is_tensor
from mercer.persistence import forms, objects, tables
from mercer.persistence.forms import Raw, Unsavable, plain_kind, require
from mercer.persistence.objects import are_alike, is_users, object_kind
from mercer.persistence.tables import pandas_kind
from mercer.solvers.whitening import TensorWhitening

FORMS = {**forms.FORMS, **tables.FORMS, **objects.FORMS}
# Forms whose parts are hashed, all of them or every second.
HASHED = {"dict": 2, "frozenset": 1, "numbering": 1, "set": 1}
# A key is hashed through all of its parts, and one part may be there any number of times.
LARGEST_KEY = 10_000
# Keys of one hash at most: a set of many takes time in proportion to their square.
MOST_ALIKE = 16
# A value may be part of several others. Written out, all of them have at most so many parts for
# each in the file, and so many more.
MOST_COPIES, COPIES_OF_FEW = 100, 1_000_000

# Where a value is: the place of what holds it, and the way from there.
Place: TypeAlias = "tuple[Place | None, str]"


class Packed:
    """An object in records.

    Attributes
    ----------
    records : list of lists
    tensors : dict of arrays
    functions : dict of str to objects
        What the records name without holding it.
    places : dict of str to str
        Where each of those was found.
    """

    def __init__(self, root: Any, name: str) -> None:
        self.records: list[list[Any]] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.functions: dict[str, Any] = {}
        self.places: dict[str, str] = {}
        self._number: dict[int, int] = {}
        self._walk(root, name)

    def _walk(self, root: Any, name: str) -> None:
        held = []  # so that no other object gets the address of one that was seen
        entered: set[int] = set()
        todo: list[tuple[Any, Place, Any]] = [(root, (None, name), None)]
        while todo:
            value, place, taken = todo.pop()
            if taken is not None:
                kind, parts = taken
                record = [kind, *(self._written(part) for part in parts)]
                self._number[id(value)] = len(self.records)
                self.records.append(record)
                continue
            if _stands_for_itself(value) or id(value) in self._number:
                continue
            if id(value) in entered:
                raise Unsavable(f"{_spelt(place)} cannot be saved: it contains itself")
            entered.add(id(value))
            kind, parts = self._taken_apart(value, place)
            held.append((value, parts))
            todo.append((value, place, (kind, parts)))
            for part, name in reversed(list(zip(parts, _names(kind, parts), strict=True))):
                if not isinstance(part, Raw):
                    todo.append((part, (place, name), None))

    def _taken_apart(self, value: Any, place: Place) -> tuple[str, list[Any]]:
        if is_tensor(value):  # which is an array where it is read
            value = as_numpy(value)
        if isinstance(value, TensorWhitening):
            value = value.on_host()
        kind = plain_kind(value) or pandas_kind(value) or object_kind(value)
        if kind is None and is_users(value):
            return "function", [self._function(value, place)]
        if kind is None:
            raise Unsavable(
                f"{_spelt(place)} cannot be saved: it is a {type(value).__qualname__} of "
                f"{type(value).__module__}, and files hold numbers, text, tables, and objects of "
                "mercer's own and of some of scikit-learn's preprocessing"
            )
        try:
            return kind, FORMS[kind].parts(value)
        except Unsavable as error:
            raise Unsavable(f"{_spelt(place)} cannot be saved: it {error}") from None

    def _function(self, value: Any, place: Place) -> str:
        """A name for what a file cannot hold, its own if no other has it."""
        own = getattr(value, "__name__", type(value).__name__)
        name, k = own, 1
        while not are_alike(self.functions.setdefault(name, value), value):
            k += 1
            name = f"{own} {k}"
        self.places.setdefault(name, _spelt(place))
        return name

    def _written(self, part: Any) -> Any:
        if isinstance(part, Raw):
            name = str(len(self.tensors))
            self.tensors[name] = part.array
            return {"tensor": name}
        if not _stands_for_itself(part):
            return [self._number[id(part)]]
        return [repr(part)] if isinstance(part, float) and not math.isfinite(part) else part


def _stands_for_itself(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _names(kind: str, parts: list[Any]) -> list[str]:
    """How one reaches each part from the whole, as one would write it."""
    if kind == "object":
        return ["", *(f".{name}" for name in parts[1::2] for _ in (0, 1))]
    if kind == "dict":
        return [f"[{key!r:.40}]" for key in parts[::2] for _ in (0, 1)]
    if kind in ("list", "tuple"):
        return [f"[{i}]" for i in range(len(parts))]
    return [""] * len(parts)


def _spelt(place: Place) -> str:
    names = []
    at: Place | None = place
    while at is not None:
        at, name = at
        names.append(name)
    return "".join(reversed(names))


def unpacked(records: Any, tensors: dict[str, np.ndarray], functions: Mapping[str, Any]) -> Any:
    """The object that records describe, or a ValueError that says which of them is wrong."""
    require(isinstance(records, list) and records, "it holds no records")
    made: list[Any] = []
    sizes: list[int] = []
    total = sum(len(record) for record in records if isinstance(record, list))
    largest = MOST_COPIES * total + COPIES_OF_FEW
    for i, record in enumerate(records):
        try:
            require(isinstance(record, list) and record, "it is none")
            kind, written = record[0], record[1:]
            below = [_reference(part, i) for part in written]
            parts = [
                _read(part, tensors) if at is None else made[at]
                for part, at in zip(written, below, strict=True)
            ]
            weights = [1 if at is None else sizes[at] for at in below]
            step = HASHED.get(kind, 0) if isinstance(kind, str) else 0
            if step:
                require(max(weights[::step], default=0) <= LARGEST_KEY, "a key is too large")
                _refuse_alike(parts[::step])
            made.append(_made(kind, parts, functions))
            sizes.append(1 + sum(weights))
            require(sizes[-1] <= largest, "it has too many parts, most of them again and again")
        except ImportError:
            raise
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"record {i} is wrong: {text}") from error
    used = {part["tensor"] for record in records for part in record[1:] if isinstance(part, dict)}
    unused = sorted(set(tensors) - used)
    require(not unused, f"nothing in it has the array {next(iter(unused), '')[:80]!r}")
    return made[-1]


def _refuse_alike(keys: list[Any]) -> None:
    """Raise where many keys have one hash; those of texts cannot be made alike on purpose."""
    hashes = [hash(key) for key in keys if not isinstance(key, str)]
    alike = max(Counter(hashes).values(), default=0)
    require(alike <= MOST_ALIKE, f"{alike} keys have the same hash")


def _made(kind: Any, parts: list[Any], functions: Mapping[str, Any]) -> Any:
    if kind == "function":
        (name,) = parts
        return functions[name]
    require(isinstance(kind, str) and kind in FORMS, f"nothing has the form {str(kind)[:80]!r}")
    return FORMS[kind].make(*parts)


def _reference(part: Any, here: int) -> int | None:
    """The record that a part refers to, if it does."""
    if not isinstance(part, list) or len(part) != 1 or type(part[0]) is not int:
        return None
    require(0 <= part[0] < here, f"it refers to record {part[0]}, which is not before it")
    return part[0]


def _read(part: Any, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(part, dict):
        require(set(part) == {"tensor"} and isinstance(part["tensor"], str), "a part is none")
        require(part["tensor"] in tensors, f"the array {part['tensor'][:80]!r} is not there")
        return tensors[part["tensor"]]
    if isinstance(part, list):
        require(part in (["nan"], ["inf"], ["-inf"]), "a part is none")
        return float(part[0])
    return part
