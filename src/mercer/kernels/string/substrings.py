"""Common substrings of every length at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from mercer import core
from mercer._sklearn import Interval, StrOptions
from mercer.arrays import memory_budget
from mercer.expressions import PairStatistic
from mercer.kernels.budget import BYTES_PER_NAME, quantity, refuse_oversized
from mercer.kernels.domains import STRINGS, Domain
from mercer.kernels.feature_maps import FeatureMap
from mercer.kernels.kernel import NoFiniteFeatureMap
from mercer.kernels.sequences import Alphabet, Symbols, join, parse_sequence, part
from mercer.kernels.structured import PairwiseKernel, same_objects

# Sorted suffixes and the arrays on the way there.
BYTES_PER_SYMBOL = 48


class Substring(PairwiseKernel):
    r"""Common substrings of all lengths between ``min_length`` and ``max_length``.

    .. math:: K(s, t) = \sum_u w(|u|) \, f_u(s) \, f_u(t)

    over all non-empty contiguous u with min_length <= \|u\| <= max_length, where f_u(s) says
    whether u occurs in s (``count="presence"``: with the default weighting K is the number of
    distinct common substrings) or how often it does (``count="occurrences"``, overlaps included).
    Substrings are never listed: suffixes are sorted once for many sequences, in linear time, and
    each row of the Gram matrix is a pass over them. Predictions of a model walk along the automaton
    of all its sequences, in time linear in the new one however many support vectors there are.

    Parameters
    ----------
    count : {"presence", "occurrences"}, default="presence"
        What f_u is.
    weighting : {"constant", "exponential", "bounded"}, default="constant"
        w(l) = 1, w(l) = ``decay`` ** l, or w(l) = 1 with a ``max_length`` that must be given.
    min_length : int, default=1
        Shortest substring that counts, at least 1.
    max_length : int, optional
        Longest substring that counts; None for no limit.
    decay : float, default=0.5
        Base of the exponential weighting, in (0, 1].

    Notes
    -----
    Counts are exact up to 2^53. The diagonal grows with the square of the length (a sequence of n
    symbols has about n²/2 substrings, most of them found nowhere else): for long sequences set
    ``max_length``, or normalise.

    Examples
    --------
    >>> Substring()(["abab", "ba"])  # both have a, b and ba
    array([[7., 3.],
           [3., 3.]])
    >>> Substring(count="occurrences", max_length=1)(["abab", "ba"])
    array([[8., 4.],
           [4., 2.]])

    References
    ----------
    Shalev-Shwartz and Ben-David, "Understanding Machine Learning" (2014), section 16.2.1;
    Vishwanathan and Smola, "Fast kernels for string and tree matching", NIPS 15 (2002).
    """

    _parameter_constraints: dict = {
        "count": [StrOptions({"presence", "occurrences"})],
        "weighting": [StrOptions({"constant", "exponential", "bounded"})],
        "min_length": [Interval(Integral, 1, None, closed="left")],
        "max_length": [Interval(Integral, 1, None, closed="left"), None],
        "decay": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        count: str = "presence",
        weighting: str = "constant",
        min_length: int = 1,
        max_length: int | None = None,
        decay: float = 0.5,
    ) -> None:
        self.count = count
        self.weighting = weighting
        self.min_length = min_length
        self.max_length = max_length
        self.decay = decay

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.max_length is None:
            if self.weighting == "bounded":
                raise ValueError(
                    'max_length is None, but weighting="bounded" needs the longest length that '
                    "counts; give it as an integer"
                )
        elif self.max_length < self.min_length:
            raise ValueError(
                f"max_length={self.max_length} is less than min_length={self.min_length}; "
                "then no substring counts"
            )

    @property
    def domain(self) -> Domain:
        return STRINGS

    def parse_object(self, x: Any) -> Symbols:
        return parse_sequence(x)

    def proof_reason(self) -> str:
        feature = "presence" if self.count == "presence" else "number of occurrences"
        return f"inner product of explicit features: the weighted {feature} of each substring"

    def statistic(self) -> PairStatistic:
        return replace(super().statistic(), summed=self.summed)

    def pairs(self, A: list, B: list) -> np.ndarray:
        if len(A) > len(B):  # each sequence of A is a pass over everything: make the fewer passes
            return self.pairs(B, A).T
        if same_objects(A, B) and _n_symbols(A) <= _symbol_budget():
            return self._rows(A, len(A))
        out = np.empty((len(A), len(B)))
        for rows in _blocks(A):
            for columns in _blocks(B):
                n = rows.stop - rows.start
                out[rows, columns] = self._rows([*A[rows], *B[columns]], n)[:, n:]
        return out

    def self_pairs(self, A: list) -> np.ndarray:
        return np.array([self._rows([a], 1)[0, 0] for a in A], dtype=np.float64)

    def _rows(self, sequences: list, n: int) -> np.ndarray:
        """K of the first n sequences with all of them."""
        alphabet = Alphabet()
        symbols, starts = alphabet.encode(sequences, grow=True)
        weight = self._cumulative_weight(int(np.diff(starts).max(initial=0)))
        depth = len(weight) - 1
        routines = core.suffix_routines()
        suffixes = routines.Suffixes(symbols, starts, len(alphabet.code), depth)
        threads = core.threads(len(symbols) * n, 1)
        return suffixes.rows(np.arange(n), weight, self.count == "presence", threads)

    def summed(self, B: list, V: np.ndarray) -> SummedSubstrings:
        """Σ_i v_i K(·, b_i) over parsed sequences, for each column v of V."""
        longest = max(map(len, B), default=0)
        return SummedSubstrings(B, V, self._cumulative_weight(longest), self.count == "presence")

    def _cumulative_weight(self, longest: int) -> np.ndarray:
        """w(1) + ... + w(l) for l = 0, 1, ...: what the prefixes of l symbols weigh together."""
        if self.max_length is not None:
            longest = min(longest, int(self.max_length))
        length = np.arange(longest + 1)
        weight = (
            float(self.decay) ** length if self.weighting == "exponential" else np.ones(len(length))
        )
        weight[: self.min_length] = 0
        return np.cumsum(weight)

    def features(self, x: Symbols) -> dict[Hashable, float]:
        n = len(x)
        longest = n if self.max_length is None else min(n, self.max_length)
        most = n * max(0, longest - self.min_length + 1)
        refuse_oversized(
            most * BYTES_PER_NAME,
            f"a sequence of {n} symbols has up to {quantity(most)} features",
            "lower max_length",
        )
        found: Counter[Symbols] = Counter()
        for length in range(self.min_length, longest + 1):
            found.update(part(x, i, i + length) for i in range(n - length + 1))
        if self.count == "presence":
            found = Counter(dict.fromkeys(found, 1))
        decay = self.decay if self.weighting == "exponential" else 1.0
        return {word: count * decay ** (len(word) / 2) for word, count in found.items()}

    def feature_map(self) -> FeatureMap:
        if self.max_length is None:
            raise NoFiniteFeatureMap(
                f"{self!r} has as many features as there are sequences; set max_length"
            )
        return super().feature_map()


class SummedSubstrings:
    """f(t) = Σ_i v_i K(t, s_i), for each column v of V, as a function of new sequences.

    Parameters
    ----------
    sequences : m parsed sequences s_i
    V : (m, c) array
    weight : (l + 1,) array
        What substrings of up to so many symbols weigh together.
    presence : bool
    """

    def __init__(self, sequences: list, V: np.ndarray, weight: np.ndarray, presence: bool) -> None:
        self._alphabet = Alphabet()
        self._symbols, starts = self._alphabet.encode(sequences, grow=True)
        letters, V = len(self._alphabet.code), np.ascontiguousarray(V, dtype=np.float64)
        self._sum = core.suffix_routines().SubstringSum(
            self._symbols, starts, letters, V, weight, presence
        )

    def __call__(self, sequences: list) -> np.ndarray:
        """(n, c)"""
        symbols, starts = self._alphabet.encode(sequences, grow=False)
        return self._sum.values(symbols, starts, core.threads(len(symbols), 1))

    def along(self, sequence: Symbols) -> np.ndarray:
        """(length, c): what the substrings at each place add to f, shared by their places."""
        return self._sum.along(self._alphabet.encode([sequence], grow=False)[0], 1)

    def heaviest(self, column: int, count: int) -> list[tuple[Symbols, float]]:
        """The substrings with the largest weights; of those that always stand together, one."""
        names = list(self._alphabet.code)
        found = zip(*(a.tolist() for a in self._sum.heaviest(column, count)), strict=True)
        return [
            (join(tuple(names[c] for c in self._symbols[end - length : end])), weight)
            for end, length, weight in found
        ]


def _n_symbols(sequences: list) -> int:
    return sum(map(len, sequences))


def _symbol_budget() -> int:
    return memory_budget() // BYTES_PER_SYMBOL


def _blocks(sequences: list) -> Iterator[slice]:
    """Slices of the sequences, each with at most half the symbols that memory allows, or one."""
    start, size = 0, 0
    for stop, x in enumerate(sequences):
        if stop > start and size + len(x) > _symbol_budget() // 2:
            yield slice(start, stop)
            start, size = stop, 0
        size += len(x)
    yield slice(start, len(sequences))
