"""Common substrings of every length at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from mercer.arrays import memory_budget
from mercer.kernels.budget import BYTES_PER_NAME, quantity, refuse_oversized
from mercer.kernels.domains import STRINGS, Domain
from mercer.kernels.feature_maps import FeatureMap
from mercer.kernels.kernel import NoFiniteFeatureMap
from mercer.kernels.sequences import Symbols, encode, parse_sequence, part
from mercer.kernels.structured import PairwiseKernel, same_objects
from mercer.kernels.suffixes import SortedSuffixes

# Sorted suffixes and the arrays of one pass over them, a generous estimate.
BYTES_PER_SYMBOL = 256


class Substring(PairwiseKernel):
    r"""Common substrings of all lengths between ``min_length`` and ``max_length``.

    .. math:: K(s, t) = \sum_u w(|u|) \, f_u(s) \, f_u(t)

    over all non-empty contiguous u with min_length <= \|u\| <= max_length, where f_u(s) says
    whether u occurs in s (``count="presence"``: with the default weighting K is the number of
    distinct common substrings) or how often it does (``count="occurrences"``, overlaps included).
    Substrings are never listed: suffixes are sorted once for many sequences, and each row of the
    Gram matrix is a pass over them, so a pair costs time proportional to its length, times log².

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

    def pairs(self, A: list, B: list) -> np.ndarray:
        if len(A) > len(B):  # each sequence of A is a pass over everything: make the fewer passes
            return self.pairs(B, A).T
        symmetric = same_objects(A, B)
        S = encode(A if symmetric else [*A, *B])
        weight = self._cumulative_weight(S)
        if symmetric and _n_symbols(S) <= _symbol_budget():
            return self._rows(S, range(len(A)), weight)
        S, T = S[: len(A)], S[-len(B) :]
        out = np.empty((len(A), len(B)))
        for rows in _blocks(S):
            for columns in _blocks(T):
                n = rows.stop - rows.start
                found = self._rows(S[rows] + T[columns], range(n), weight)
                out[rows, columns] = found[:, n:]
        return out

    def _rows(self, codes: list[np.ndarray], rows: range, weight: np.ndarray) -> np.ndarray:
        """K of the sequences in ``rows`` with all of them."""
        suffixes = SortedSuffixes(codes, self.max_length)
        out = np.empty((len(rows), len(codes)))
        for i in rows:
            if self.count == "presence":
                # A common substring is counted at the first suffix of its sequence it begins.
                new = weight[suffixes.longest_match(i)] - weight[suffixes.lcp_within]
                value = np.maximum(new, 0)
            else:
                value = suffixes.weighted_matches(i, weight)
            out[i] = np.bincount(suffixes.owner, weights=value, minlength=len(codes))
        return out

    def _cumulative_weight(self, codes: list[np.ndarray]) -> np.ndarray:
        """w(1) + ... + w(l) for l = 0, 1, ...: what the prefixes of l symbols weigh together."""
        length = np.arange(max(map(len, codes), default=0) + 1)
        weight = (
            float(self.decay) ** length if self.weighting == "exponential" else np.ones(len(length))
        )
        weight[: self.min_length] = 0
        if self.max_length is not None:
            weight[self.max_length + 1 :] = 0
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


def _n_symbols(codes: list[np.ndarray]) -> int:
    return sum(map(len, codes))


def _symbol_budget() -> int:
    return memory_budget() // BYTES_PER_SYMBOL


def _blocks(codes: list[np.ndarray]) -> Iterator[slice]:
    """Slices of the sequences, each with at most half the symbols that memory allows, or one."""
    start, size = 0, 0
    for stop, code in enumerate(codes):
        if stop > start and size + len(code) > _symbol_budget() // 2:
            yield slice(start, stop)
            start, size = stop, 0
        size += len(code)
    yield slice(start, len(codes))
