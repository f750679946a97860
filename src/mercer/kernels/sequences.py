"""Sequences: what every string kernel takes, and the forms the kernels work on.

A sequence is a finite list of symbols. The symbols of a ``str`` are its characters, those of
``bytes`` its single bytes, those of a list, tuple or one-dimensional array its items, which may be
anything hashable (words, integers, ...). Symbols are equal when Python says so: ``"ab"`` is the
same sequence as ``["a", "b"]``, ``b"ab"`` the same as ``[b"a", b"b"]``. ``"ab"`` shares no symbol
with ``b"ab"``: comparing the two is an error.
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
            "a str, bytes, or a list or tuple of hashable symbols; for objects of your own use "
            "kernels.FromFunction"
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


def one_kind(sequences: Iterable[Symbols], kind: str = "") -> str:
    """Which of "str" and "bytes" the sequences are, as those before are; "" where none is either.

    Raise a TypeError where they are both: such sequences share no symbol. Empty ones are of any
    kind.
    """
    for x in sequences:
        own = "str" if isinstance(x, str) else "bytes" if isinstance(x, bytes) else ""
        if not (own and len(x)):
            continue
        kind = kind or own
        if own != kind:
            raise TypeError(
                f"found {describe(x)} among sequences of type {kind}; the characters of a str "
                "equal no byte: make all sequences one type, for example with x.decode()"
            )
    return kind


class Alphabet:
    """Symbols, each with a number.

    Examples
    --------
    >>> symbols, starts = Alphabet().encode(["abba", ("b", "cat")], grow=True)
    >>> symbols, starts
    (array([0, 1, 1, 0, 1, 2], dtype=uint32), array([0, 4, 6]))
    """

    UNKNOWN = 2**32 - 1

    def __init__(self) -> None:
        self.code: dict[Hashable, int] = {}
        self.kind = ""  # "str" or "bytes", once such a sequence was seen

    def encode(self, sequences: Sequence[Symbols], grow: bool) -> tuple[np.ndarray, np.ndarray]:
        """Sequences as one array of numbers, and where each of them begins and the last ends.

        Symbols that are new get a number if the alphabet may grow, else all of them UNKNOWN.
        """
        self.kind = one_kind(sequences, self.kind)
        starts = np.zeros(len(sequences) + 1, dtype=np.int64)
        np.cumsum([len(x) for x in sequences], out=starts[1:])
        # A long text has few distinct characters: look up those, not every position.
        if all(isinstance(x, str) for x in sequences):
            text = "".join(cast("Sequence[str]", sequences)).encode("utf-32-le", "surrogatepass")
            return self._translate(np.frombuffer(text, dtype="<u4"), chr, grow), starts
        if all(isinstance(x, bytes) for x in sequences):
            text = b"".join(cast("Sequence[bytes]", sequences))
            points = np.frombuffer(text, dtype=np.uint8)
            return self._translate(points, lambda point: bytes([point]), grow), starts
        symbols = (symbol for x in sequences for symbol in spell(x))
        codes = np.fromiter(
            (self._number(symbol, grow) for symbol in symbols), np.uint32, int(starts[-1])
        )
        return codes, starts

    def _translate(self, points: np.ndarray, symbol_of: Any, grow: bool) -> np.ndarray:
        present = np.zeros(int(points.max(initial=0)) + 1, dtype=bool)
        present[points] = True
        code = np.zeros(len(present), dtype=np.uint32)
        for point in np.flatnonzero(present).tolist():
            code[point] = self._number(symbol_of(point), grow)
        return code[points]

    def _number(self, symbol: Hashable, grow: bool) -> int:
        if grow:
            return self.code.setdefault(symbol, len(self.code))
        return self.code.get(symbol, self.UNKNOWN)


def describe(x: Any) -> str:
    """A value and its type, on one short line, for error messages."""
    text = " ".join(repr(x).split())
    return f"{text if len(text) <= 40 else text[:37] + '...'} of type {type(x).__name__}"
