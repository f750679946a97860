"""Numbered features in plain Python: the twin of the native ``KeyTable``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise, product

import numpy as np

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # starts, columns and values of sparse rows


class KeyTable:
    """Rows of ``width`` numbers, each numbered when it first comes."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._number: dict[tuple[int, ...], int] = {}

    @property
    def size(self) -> int:
        return len(self._number)

    def keys(self) -> np.ndarray:
        """(size, width) uint32, in the order of their numbers."""
        return np.array(list(self._number), dtype=np.uint32).reshape(-1, self.width)

    def count_keys(self, keys: np.ndarray, starts: np.ndarray, grow: bool) -> Rows:
        """How often each key comes in each object: sparse rows, one column per number.

        Parameters
        ----------
        keys : (N, width) uint32
        starts : (n + 1,) int64
            The keys of object i are those from starts[i] to starts[i + 1].
        grow : bool
            Whether keys that have no number get one; else they are left out.
        """
        rows = [map(tuple, keys[a:b].tolist()) for a, b in pairwise(starts.tolist())]
        return self._count(rows, grow)

    def count_words(
        self,
        symbols: np.ndarray,
        starts: np.ndarray,
        offsets: np.ndarray,
        mismatches: int,
        letters: int,
        grow: bool,
    ) -> Rows:
        """How often each word comes in each sequence.

        Parameters
        ----------
        symbols : (N,) uint32
        starts : (n + 1,) int64
        offsets : (patterns, width) int64, increasing from 0
            A word is what stands at these places from some position on.
        mismatches : int
            A word counts for all that differ from it in at most so many places.
        letters : int
            With mismatches, the symbols are those below this number.
        grow : bool
        """
        sequences = [symbols[a:b].tolist() for a, b in pairwise(starts.tolist())]
        patterns = offsets.tolist()
        return self._count((_words(x, patterns, mismatches, letters) for x in sequences), grow)

    def _count(self, rows: Iterable[Iterable[tuple[int, ...]]], grow: bool) -> Rows:
        starts, columns, values = [0], [], []
        for row in rows:
            number = self._number
            found: Counter[int] = Counter()
            for key in row:
                column = number.setdefault(key, len(number)) if grow else number.get(key)
                if column is not None:
                    found[column] += 1
            columns += sorted(found)
            values += [float(found[column]) for column in sorted(found)]
            starts.append(len(columns))
        return (
            np.array(starts, dtype=np.int64),
            np.array(columns, dtype=np.int64),
            np.array(values, dtype=np.float64),
        )


def _words(
    x: list[int], patterns: list[list[int]], mismatches: int, letters: int
) -> Iterator[tuple[int, ...]]:
    for pattern in patterns:
        for at in range(len(x) - pattern[-1]):
            yield from _neighbours(tuple(x[at + k] for k in pattern), mismatches, letters)


def _neighbours(word: tuple[int, ...], changes: int, letters: int) -> Iterator[tuple[int, ...]]:
    """The word and all that differ from it in at most so many places."""
    yield word
    for n in range(1, changes + 1):
        for places in combinations(range(len(word)), n):
            others = [[c for c in range(letters) if c != word[place]] for place in places]
            for change in product(*others):
                near = list(word)
                for place, symbol in zip(places, change, strict=True):
                    near[place] = symbol
                yield tuple(near)
