"""Sequences: what every string kernel takes, and the forms the kernels work on.

A sequence is a finite list of symbols. The symbols of a ``str`` are its characters, those of
``bytes`` its single bytes, those of a list, tuple or one-dimensional array its items, which may be
anything hashable (words, integers, ...). Symbols are equal when Python says so: ``"ab"`` is the
same sequence as ``["a", "b"]``, ``b"ab"`` the same as ``[b"a", b"b"]``, and ``"ab"`` shares no
symbol with ``b"ab"``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

Symbols: TypeAlias = "str | bytes | tuple[Hashable, ...]"


def parse_sequence(x: Any) -> Symbols:
    """A sequence as ``str``, ``bytes`` or a tuple of symbols.

    Examples
    --------
    >>> parse_sequence(["a", "b"]), parse_sequence(["to", "be"])
    ('ab', ('to', 'be'))
    """
    if isinstance(x, str | bytes):
        return x
    if isinstance(x, bytearray | memoryview):
        return bytes(x)
    if isinstance(x, np.ndarray) and x.ndim == 1:
        x = x.tolist()
    if not isinstance(x, list | tuple):
        raise TypeError(
            f"found {describe(x)} where a sequence was expected: "
            "a str, bytes, or a list or tuple of hashable symbols"
        )
    for position, symbol in enumerate(x):
        try:
            hash(symbol)
        except TypeError:
            raise TypeError(
                f"the symbol at position {position} is {describe(symbol)}, which is not hashable; "
                "use strings, numbers or tuples as symbols"
            ) from None
    return join(tuple(x))


def join(symbols: tuple[Hashable, ...]) -> Symbols:
    """The shortest form of some symbols: ``str`` or ``bytes`` where all of them allow it.

    Two tuples of symbols are equal exactly when their joined forms are, so these serve as features.
    """
    if all(isinstance(symbol, str) and len(symbol) == 1 for symbol in symbols):
        return "".join(cast("tuple[str, ...]", symbols))
    if all(isinstance(symbol, bytes) and len(symbol) == 1 for symbol in symbols):
        return b"".join(cast("tuple[bytes, ...]", symbols))
    return symbols


def part(x: Symbols, start: int, stop: int) -> Symbols:
    """The symbols from start to stop, joined."""
    piece = x[start:stop]
    return join(piece) if isinstance(piece, tuple) else piece


def spell(x: Symbols) -> tuple[Hashable, ...]:
    """The symbols of a sequence, one by one.

    Examples
    --------
    >>> spell("ab"), spell(b"ab")
    (('a', 'b'), (b'a', b'b'))
    """
    if isinstance(x, bytes):
        return tuple(x[i : i + 1] for i in range(len(x)))
    return tuple(x)


def encode(sequences: Iterable[Symbols]) -> list[np.ndarray]:
    """Sequences as arrays of non-negative integers, equal where the symbols are.

    Examples
    --------
    >>> encode(["abba", ("b", "cat")])
    [array([0, 1, 1, 0]), array([1, 2])]
    """
    code: dict[Hashable, int] = {}
    return [_encode_one(x, code) for x in sequences]


def _encode_one(x: Symbols, code: dict[Hashable, int]) -> np.ndarray:
    if isinstance(x, tuple):
        return np.array([code.setdefault(symbol, len(code)) for symbol in x], dtype=np.int64)
    # A long text has few distinct characters: look up those, not every position.
    if isinstance(x, bytes):
        points = np.frombuffer(x, dtype=np.uint8)
        distinct, where = np.unique(points, return_inverse=True)
        symbols: Sequence[Hashable] = [bytes([point]) for point in distinct]
    else:
        points = np.frombuffer(x.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        distinct, where = np.unique(points, return_inverse=True)
        symbols = [chr(point) for point in distinct]
    codes = np.array([code.setdefault(symbol, len(code)) for symbol in symbols], dtype=np.int64)
    return codes[where]


def pad(codes: Sequence[np.ndarray], filler: int) -> np.ndarray:
    """Encoded sequences as the rows of one array, filled up at the end."""
    out = np.full((len(codes), max(map(len, codes), default=0)), filler, dtype=np.int64)
    for row, code in zip(out, codes, strict=True):
        row[: len(code)] = code
    return out


def describe(x: Any) -> str:
    """A value and its type, on one short line, for error messages."""
    text = " ".join(repr(x).split())
    return f"{text if len(text) <= 40 else text[:37] + '...'} of type {type(x).__name__}"
