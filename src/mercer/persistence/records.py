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

from mercer.arrays import to_cpu
from mercer.estimators.centres import TensorCentres
from mercer.persistence import forms, limits, objects, registry, tables
from mercer.persistence.forms import Raw, Unsavable, plain_kind, require
from mercer.persistence.objects import are_alike, is_users, object_kind
from mercer.persistence.tables import pandas_kind
from mercer.solvers.nystrom.whitening import TensorCentreWhitening

FORMS = {**forms.FORMS, **tables.FORMS, **objects.FORMS}
# Forms whose parts are hashed, all of them or every second.
HASHED = {"dict": 2, "frozenset": 1, "numbering": 1, "set": 1}
LARGEST_NUMBER = 10**limits.MOST_DIGITS

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

    def versions(self) -> dict[str, int]:
        """The ids in the records, with their versions."""
        names = {name for record in self.records for name in named_in(record)}
        return {name: registry.version(name) for name in sorted(names)}

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
        value = to_cpu(value)  # a tensor is an array where it is read
        if isinstance(value, TensorCentreWhitening | TensorCentres):
            value = value.to_cpu()
        kind = plain_kind(value) or pandas_kind(value) or object_kind(value)
        if kind is None and is_users(value):
            return "function", [self._function(value, place)]
        if kind is None:
            raise Unsavable(
                f"{_spelt(place)} cannot be saved: it is a {type(value).__qualname__} of "
                f"{type(value).__module__}, and files hold numbers, text, tables, and objects of "
                "mercer and of scikit-learn's preprocessing and linear models"
            )
        try:
            return kind, FORMS[kind].parts(value)
        except Unsavable as error:
            raise Unsavable(f"{_spelt(place)} cannot be saved: it {error}") from None

    def _function(self, value: Any, place: Place) -> str:
        """A name for what a file cannot hold, its own if no other has it."""
        own = getattr(value, "__name__", type(value).__name__)[:200]
        name, k = own, 1
        while not are_alike(self.functions.setdefault(name, value), value):
            k += 1
            name = f"{own} {k}"
        self.places.setdefault(name, _spelt(place)[: limits.LONGEST_NAME])
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


# What is read.


def refuse_large(records: Any) -> None:
    """Raise where records are none, or describe more than `limits` allow; nothing is made."""
    require(isinstance(records, list) and records, "it holds no records")
    require(len(records) <= limits.MOST_RECORDS, f"it has {len(records):,} records")
    sizes: list[int] = []
    depths: list[int] = []
    total = sum(len(record) for record in records if isinstance(record, list))
    largest = limits.MOST_COPIES * total + limits.COPIES_OF_FEW
    try:
        for i, record in enumerate(records):
            require(isinstance(record, list) and record, "it is none")
            below = [_reference(part, i) for part in record[1:]]
            weights = [1 if at is None else sizes[at] for at in below]
            step = HASHED.get(record[0], 0) if isinstance(record[0], str) else 0
            if step:
                largest_key = max(weights[::step], default=0)
                require(largest_key <= limits.LARGEST_KEY, "a key is too large")
            size = 1 + sum(weights)
            depth = 1 + max((depths[at] for at in below if at is not None), default=0)
            require(size <= largest, "it has too many parts, most of them again and again")
            require(depth <= limits.DEEPEST, f"it is more than {limits.DEEPEST:,} levels deep")
            sizes.append(size)
            depths.append(depth)
    except ValueError as error:
        raise _numbered(len(depths), error) from error


def _reference(part: Any, here: int) -> int | None:
    """The record that a part refers to, if it does; a ValueError where the part is too long."""
    if isinstance(part, str):
        if len(part) > limits.LONGEST_TEXT:
            raise ValueError(f"a text has {len(part):,} characters")
    elif type(part) is int:
        if abs(part) >= LARGEST_NUMBER:
            raise ValueError(f"a number has more than {limits.MOST_DIGITS:,} digits")
    elif _is_reference(part):
        if not 0 <= part[0] < here:
            raise ValueError(f"it refers to record {str(part[0])[:20]}, which is not before it")
        return part[0]
    return None


def _is_reference(part: Any) -> bool:
    return type(part) is list and len(part) == 1 and type(part[0]) is int


def refuse_versions(records: list[Any], versions: Mapping[str, int]) -> None:
    """Raise where records name what the library does not know, or a later version of it."""
    for name, at in versions.items():
        if name not in registry.ids():
            raise registry.unlisted(name)
        newest = registry.version(name)
        require(
            at <= newest,
            f"it holds {name} of version {at}, and this mercer reads versions up to {newest}; "
            "use the mercer that wrote it, or a later one",
        )
    for i, record in enumerate(records):
        for name in named_in(record):
            if not isinstance(name, str) or name not in registry.ids():
                raise _numbered(i, registry.unlisted(name))
            require(name in versions, f"its header has no version of {name}")


def named_in(record: Any) -> list[Any]:
    """The id in a record, if it has one."""
    named = isinstance(record, list) and record and isinstance(record[0], str)
    at = registry.PLACES.get(record[0], len(record)) if named else 0
    return record[at : at + 1] if at else []


def unpacked(
    records: list[Any],
    tensors: dict[str, np.ndarray],
    functions: Mapping[str, Any],
    versions: Mapping[str, int],
) -> Any:
    """The object that records describe, or a ValueError that says which of them is wrong."""
    refuse_large(records)
    refuse_versions(records, versions)
    made: list[Any] = []
    try:
        for kind, *written in records:
            parts = [
                made[part[0]] if _is_reference(part) else _read(part, tensors) for part in written
            ]
            step = HASHED.get(kind, 0) if isinstance(kind, str) else 0
            if step:
                _refuse_alike(parts[::step])
            made.append(_made(kind, parts, functions, versions))
    except ImportError:
        raise
    except Exception as error:
        raise _numbered(len(made), error) from error
    used = {part["tensor"] for record in records for part in record[1:] if isinstance(part, dict)}
    unused = sorted(set(tensors) - used)
    require(not unused, f"nothing in it has the array {next(iter(unused), '')[:80]!r}")
    return made[-1]


def _numbered(i: int, error: Exception) -> ValueError:
    """Any error as a ValueError with the number of the record."""
    return ValueError(f"record {i} is wrong: {str(error) or type(error).__name__}")


def _refuse_alike(keys: list[Any]) -> None:
    """Raise where many keys have one hash; those of texts cannot be made alike on purpose."""
    hashes = [hash(key) for key in keys if not isinstance(key, str)]
    alike = max(Counter(hashes).values(), default=0)
    require(alike <= limits.MOST_ALIKE, f"{alike} keys have the same hash")


def _made(
    kind: Any, parts: list[Any], functions: Mapping[str, Any], versions: Mapping[str, int]
) -> Any:
    if kind == "function":
        (name,) = parts
        return functions[name]
    require(isinstance(kind, str) and kind in FORMS, f"nothing has the form {str(kind)[:80]!r}")
    if kind == "object":
        return objects.made_object(parts[0], versions[parts[0]], parts[1:])
    return FORMS[kind].make(*parts)


def _read(part: Any, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(part, dict):
        require(set(part) == {"tensor"} and isinstance(part["tensor"], str), "a part is none")
        require(part["tensor"] in tensors, f"the array {part['tensor'][:80]!r} is not there")
        return tensors[part["tensor"]]
    if isinstance(part, list):
        require(part in (["nan"], ["inf"], ["-inf"]), "a part is none")
        return float(part[0])
    return part
