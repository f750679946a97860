"""Kernels that count words: contiguous, and with gaps."""

from __future__ import annotations

from itertools import combinations
from math import comb
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer._sklearn import Interval
from mercer.kernels.budget import BYTES_PER_WORD, quantity, refuse_oversized
from mercer.kernels.domains import STRINGS, Domain
from mercer.kernels.ragged import ragged_arange
from mercer.kernels.sequences import Symbols, join, parse_sequence, spell
from mercer.kernels.structured import ExplicitKernel
from mercer.kernels.vocabulary import WordVocabulary

POSITIVE = Interval(Integral, 1, None, closed="left")
NATURAL = Interval(Integral, 0, None, closed="left")


class WordKernel(ExplicitKernel, abstract=True):
    """A kernel whose features are words of k symbols."""

    k: int

    @property
    def domain(self) -> Domain:
        return STRINGS

    def parse_object(self, x: Any) -> Symbols:
        return parse_sequence(x)

    def vocabulary(self) -> WordVocabulary:
        return WordVocabulary(self.k)

    def rows(self, objects: list, vocabulary: WordVocabulary, grow: bool) -> sp.csr_array:
        longest = max(map(len, objects), default=0)
        return vocabulary.count(objects, self._patterns(longest), grow)

    def _patterns(self, longest: int) -> np.ndarray:
        """(p, k) where the symbols of a word may stand, in sequences no longer than this."""
        return np.arange(self.k, dtype=np.int64)[None]

    def words(self, x: Symbols) -> tuple[np.ndarray, list[Symbols]]:
        """Every word of a parsed sequence: the places of its symbols, (N, k), and the word."""
        patterns = self._patterns(len(x))
        counts = np.maximum(len(x) - patterns[:, -1], 0)
        starts = ragged_arange(np.zeros(len(counts), dtype=np.int64), counts)
        places = np.repeat(patterns, counts, axis=0) + starts[:, None]
        symbols = spell(x)
        return places, [join(tuple(symbols[i] for i in row)) for row in places.tolist()]


class Spectrum(WordKernel):
    r"""Common words of k symbols.

    .. math:: K(s, t) = \sum_{u \in \Sigma^k} |s|_u \, |t|_u

    where \|s\|_u is how often u occurs in s as k consecutive symbols, overlaps included. A sequence
    of fewer than k symbols has no features: K = 0.

    Parameters
    ----------
    k : int, default=3
        Length of a word, at least 1.

    Examples
    --------
    >>> Spectrum(k=2)(["abab", "ba"])
    array([[5., 1.],
           [1., 1.]])

    References
    ----------
    Leslie, Eskin and Noble, "The spectrum kernel: a string kernel for SVM protein classification",
    Pacific Symposium on Biocomputing (2002).
    """

    _parameter_constraints: dict = {"k": [POSITIVE]}

    def __init__(self, k: int = 3) -> None:
        self.k = k


class Gappy(WordKernel):
    r"""Common words of k symbols, spread over at most k + gaps positions.

    .. math:: K(s, t) = \sum_{u \in \Sigma^k} \phi_u(s) \phi_u(t), \qquad
              \phi_u(s) = \#\{i_1 < \ldots < i_k : s_{i_1} \ldots s_{i_k} = u,\;
                              i_k - i_1 < k + \mathrm{gaps}\}

    Each occurrence counts once, wherever it is: also near the ends, and in a sequence shorter than
    k + gaps. With gaps = 0 this is `Spectrum`. (The paper slides a window of k + gaps symbols along
    the sequence and counts in how many windows u occurs: the same occurrence counts again in each
    window that holds it, and a sequence shorter than a window has no features.)

    Parameters
    ----------
    k : int, default=5
        Symbols in a word, at least 1.
    gaps : int, default=2
        Most positions left out between the first symbol and the last, at least 0.

    Examples
    --------
    >>> Gappy(k=2, gaps=1)(["abc", "ac"])  # ab, bc, ac; ac
    array([[3., 1.],
           [1., 1.]])

    References
    ----------
    Leslie and Kuang, "Fast string kernels using inexact matching for protein sequences", Journal of
    Machine Learning Research 5 (2004).
    """

    _parameter_constraints: dict = {"k": [POSITIVE], "gaps": [NATURAL]}

    def __init__(self, k: int = 5, gaps: int = 2) -> None:
        self.k = k
        self.gaps = gaps

    def _patterns(self, longest: int) -> np.ndarray:
        reach = min(self.k + self.gaps, longest)
        most = longest * comb(max(reach - 1, 0), self.k - 1)
        refuse_oversized(
            most * BYTES_PER_WORD,
            f"a sequence of {longest} symbols with k={self.k} and gaps={self.gaps} has up to "
            f"{quantity(most)} features",
            "lower k or gaps",
        )
        found = [(0, *rest) for rest in combinations(range(1, reach), self.k - 1)]
        return np.array(found, dtype=np.int64).reshape(-1, self.k)
