"""Words that may differ in a few places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import core
from mercer.expressions import PairStatistic
from mercer.expressions.sparse_rows import sparse_products
from mercer.kernels.budget import BYTES_PER_WORD, quantity, refuse_oversized
from mercer.kernels.sequences import Alphabet, Symbols, parse_sequence, spell
from mercer.kernels.string.words import NATURAL, POSITIVE, WordKernel
from mercer.kernels.structured import same_objects
from mercer.kernels.vocabulary import WordVocabulary

# With more words near each word sums over a model's points go by pairs of words as well.
FEW_NEIGHBOURS = 256
# So many pairs of words are compared in the time of one feature.
PAIRS_PER_NEIGHBOUR = 2000


class Mismatch(WordKernel):
    r"""Common words of k symbols, up to m mismatches.

    .. math:: K(s, t) = \sum_{u \in \Sigma^k} \phi_u(s) \phi_u(t), \qquad
              \phi_u(s) = \sum_i 1[d_H(s_i \ldots s_{i+k-1}, u) \le m]

    with the Hamming distance d_H: every word of s counts for all words over the alphabet that
    differ from it in at most m places. With m = 0 this is `Spectrum`.

    Parameters
    ----------
    k : int, default=5
        Length of a word, at least 1.
    m : int, default=1
        Most mismatches allowed, between 0 and k.
    alphabet : str, bytes, list or tuple, default="ACGT"
        All symbols there are, each once. K depends on how many there are, so it is not guessed from
        the data; a symbol outside it is an error.

    Examples
    --------
    >>> Mismatch(k=2, m=1)(["AC", "AG", "TG"])  # AG is near seven words, four of them near AC
    array([[7., 4., 2.],
           [4., 7., 4.],
           [2., 4., 7.]])

    References
    ----------
    Leslie, Eskin, Cohen, Weston and Noble, "Mismatch string kernels for discriminative protein
    classification", Bioinformatics 20 (2004).
    """

    _parameter_constraints: dict = {
        "k": [POSITIVE],
        "m": [NATURAL],
        "alphabet": [str, bytes, list, tuple],
    }

    def __init__(self, k: int = 5, m: int = 1, alphabet: Any = "ACGT") -> None:
        self.k = k
        self.m = m
        self.alphabet = alphabet

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.m > self.k:
            raise ValueError(
                f"m={self.m} is more than k={self.k}: a word of k symbols has at most k mismatches"
            )
        symbols = self._symbols()
        if not symbols:
            raise ValueError("alphabet is empty; give all symbols that may occur")
        repeated = [symbol for symbol, n in Counter(symbols).items() if n > 1]
        if repeated:
            raise ValueError(
                f"alphabet has the symbol {repeated[0]!r} more than once; give each symbol once"
            )

    def _symbols(self) -> tuple[Hashable, ...]:
        return spell(parse_sequence(self.alphabet))

    def parse_object(self, x: Any) -> Symbols:
        sequence = super().parse_object(x)
        known = frozenset(self._symbols())
        if not known.issuperset(spell(sequence)):
            found = enumerate(spell(sequence))
            position, symbol = next(pair for pair in found if pair[1] not in known)
            raise ValueError(
                f"the symbol {symbol!r} at position {position} is not in "
                f"alphabet={self.alphabet!r}; remove it from the data or give the whole "
                "alphabet"
            )
        return sequence

    def _neighbours(self) -> int:
        """How many words a word counts for."""
        letters = len(self._symbols())
        return sum(comb(self.k, i) * (letters - 1) ** i for i in range(self.m + 1))

    def rows(self, objects: list, vocabulary: WordVocabulary, grow: bool) -> sp.csr_array:
        symbols, longest = self._symbols(), max(map(len, objects), default=0)
        most = min(max(longest - self.k + 1, 0) * self._neighbours(), len(symbols) ** self.k)
        refuse_oversized(
            most * BYTES_PER_WORD,
            f"a sequence of {longest} symbols with k={self.k}, m={self.m} and an alphabet of "
            f"{len(symbols)} has up to {quantity(most)} features",
            "lower k or m",
        )
        return vocabulary.count(objects, self._patterns(longest), grow, self.m, symbols)

    # Words near two words are as many as their distance says, so that sums over pairs of words do
    # without features: sooner where these are many and the pairs of words few.

    def statistic(self) -> PairStatistic:
        few = self._neighbours() <= FEW_NEIGHBOURS
        explicit = super().statistic()
        return replace(
            explicit,
            block=self._block,
            prepare=self._prepared,
            summed=explicit.summed if few else None,
        )

    def _prepared(self, A: list, B: list) -> Any:
        symbols = sum(map(len, B))
        if symbols < PAIRS_PER_NEIGHBOUR * self._neighbours() and self._fits_bytes():
            return A, B
        return self._shared_vocabulary(A, B)

    def _fits_bytes(self) -> bool:
        return self.k < 254 and len(self._symbols()) < 254

    def _squared_norms(self, A: list) -> np.ndarray:
        longest = max(map(len, A), default=0)
        if longest >= PAIRS_PER_NEIGHBOUR * self._neighbours() or not self._fits_bytes():
            return super()._squared_norms(A)
        symbols, starts = self._encoded(A)
        weight, out = self._common_neighbours(), np.empty(len(A))
        for i, (start, stop) in enumerate(pairwise(starts.tolist())):
            own = symbols[start:stop], np.array([0, stop - start])
            out[i] = self._windows(own, own, weight, True, 0)[0, 0]
        return out

    def _block(self, F: Any, G: Any) -> np.ndarray:
        if not isinstance(F, list):
            return sparse_products(F, G)
        symmetric = same_objects(F, G)
        left = self._encoded(F)
        right = left if symmetric else self._encoded(G)
        cells = len(left[0]) * len(right[0]) // max(1, len(F) * len(G))
        threads = core.threads(len(F) * len(G), cells)
        return self._windows(left, right, self._common_neighbours(), symmetric, threads)

    def _encoded(self, A: list) -> tuple[np.ndarray, np.ndarray]:
        alphabet = Alphabet()
        alphabet.encode([self._symbols()], grow=True)
        symbols, starts = alphabet.encode(A, grow=False)
        return symbols.astype(np.uint8), starts

    def _windows(self, left: Any, right: Any, weight: Any, symmetric: bool, threads: int) -> Any:
        """K of encoded sequences, from the distances of all pairs of words."""
        common_windows = core.sequence_routines().common_windows
        return common_windows(*left, *right, int(self.k), weight, symmetric, threads)

    def _common_neighbours(self) -> np.ndarray:
        """How many words are near both of two that differ in 0, 1, ... places.

        Of the d places in which they differ, i are as in one word and j as in the other; e of the
        places in which they agree are changed.
        """
        k, m, letters = int(self.k), int(self.m), len(self._symbols())
        return np.array(
            [
                sum(
                    comb(d, i)
                    * comb(d - i, j)
                    * max(letters - 2, 0) ** (d - i - j)
                    * comb(k - d, e)
                    * (letters - 1) ** e
                    for e in range(min(m, k - d) + 1)
                    for i in range(max(0, d + e - m), d + 1)
                    for j in range(max(0, d + e - m), d - i + 1)
                )
                for d in range(min(2 * m, k) + 1)
            ],
            dtype=np.float64,
        )
