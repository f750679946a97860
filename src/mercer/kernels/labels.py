"""Labels of tree and graph nodes: which values may be one, and a digest that is stable.

Structured kernels map one object at a time, in any process, so a feature must have the same name
wherever it turns up. Python's own `hash` is salted per process and `repr` may hold an address;
the bytes below depend on the label's value alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any

import numpy as np

DIGEST_BYTES = 16


def as_label(value: Any, where: str) -> Any:
    """The label as a plain Python value, or an error that says where the bad one is.

    Parameters
    ----------
    value : str, bytes, number, bool, None, or a tuple of these
        Labels are compared by value, so 1, 1.0 and True are the same label, as in a dict.
    where : str
        What the label belongs to, for the message.

    Examples
    --------
    >>> as_label(np.int64(3), "node 0")
    3
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bytes | Integral):
        return value
    if isinstance(value, Real):
        if not math.isfinite(value):
            raise ValueError(
                f"{where} has the label {value!r}, which does not equal itself or is "
                "infinite; use a finite number or a string"
            )
        return value
    if isinstance(value, tuple):
        return tuple(as_label(part, where) for part in value)
    raise TypeError(
        f"{where} has a label of type {type(value).__name__}; expected a string, a number, None or "
        "a tuple of these: convert it first, for example with str"
    )


class Numbering(dict[Any, int]):
    """Labels, numbered in the order in which they come; equal labels have one number.

    A label is looked at when it is new, so that indexing is as fast as in a dict.

    Examples
    --------
    >>> alphabet = Numbering()
    >>> alphabet.codes(["C", "O", "C"], "node")
    [0, 1, 0]
    >>> list(alphabet)
    ['C', 'O']
    """

    def __missing__(self, label: Any) -> int:
        return self.setdefault(as_label(label, "something"), len(self))

    def codes(self, labels: Iterable[Any], kind: str, owners: Iterable[Any] | None = None) -> list:
        """The numbers of the labels, new ones included, of so many owners of some kind."""
        labels = list(labels)
        try:
            return list(map(self.__getitem__, labels))
        except (TypeError, ValueError):
            for owner, label in zip(owners or range(len(labels)), labels, strict=True):
                as_label(label, f"{kind} {owner!r}")
            raise

    def names(self) -> np.ndarray:
        """The labels' digests, as a (k, 2) array of uint64."""
        digests = b"".join(digest(label_bytes(label)) for label in self)
        return np.frombuffer(digests, dtype="<u8").reshape(-1, 2).astype(np.uint64)


def label_bytes(label: Any) -> bytes:
    """Bytes that are equal for equal labels and different for different ones."""
    if label is None:
        return b"n"
    if isinstance(label, str):
        return b"s" + label.encode("utf-8", "surrogatepass")
    if isinstance(label, bytes):
        return b"b" + label
    if isinstance(label, tuple):
        return b"t" + joined(label_bytes(part) for part in label)
    if label == int(label):
        return b"i%d" % int(label)
    return b"f" + float(label).hex().encode()


def joined(parts: Iterable[bytes]) -> bytes:
    """The parts one after the other, each preceded by its length so that no two lists collide."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def digest(*parts: bytes) -> bytes:
    """A 128-bit name for a sequence of byte strings.

    Examples
    --------
    >>> digest(b"ab", b"c") == digest(b"a", b"bc")
    False
    """
    return blake2b(joined(parts), digest_size=DIGEST_BYTES).digest()
