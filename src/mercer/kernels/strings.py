"""Kernels that count words: contiguous, with mismatches, with gaps, and at fixed positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from itertools import combinations
from math import comb
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky_banded
from sklearn.utils._param_validation import Interval

from mercer import core
from mercer.core.sequences import common_words
from mercer.expressions import PairStatistic
from mercer.kernels.budget import BYTES_PER_NAME, BYTES_PER_WORD, quantity, refuse_oversized
from mercer.kernels.domains import STRINGS, Domain
from mercer.kernels.ragged import ragged_arange
from mercer.kernels.sequences import Alphabet, Symbols, join, parse_sequence, part, spell
from mercer.kernels.structured import (
    ExplicitKernel,
    PairwiseKernel,
    same_objects,
    sparse_products,
)
from mercer.kernels.vocabulary import WordVocabulary

POSITIVE = Interval(Integral, 1, None, closed="left")
NATURAL = Interval(Integral, 0, None, closed="left")
# With more words near each word sums over a model's points go by pairs of words as well.
FEW_NEIGHBOURS = 256
# So many pairs of words are compared in the time of one feature.
PAIRS_PER_NEIGHBOUR = 2000
# Words that end at one position weigh less than 2^15 together, before normalisation.
LONGEST_SHORT = 180


class _WordKernel(ExplicitKernel):
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


class Spectrum(_WordKernel):
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


class Mismatch(_WordKernel):
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

    def _block(self, F: Any, G: Any) -> np.ndarray:
        return self._windows(F, G) if isinstance(F, list) else sparse_products(F, G)

    def _squared_norms(self, A: list) -> np.ndarray:
        longest = max(map(len, A), default=0)
        if longest < PAIRS_PER_NEIGHBOUR * self._neighbours() and self._fits_bytes():
            return np.array([self._windows([a], [a])[0, 0] for a in A], dtype=np.float64)
        return super()._squared_norms(A)

    def _windows(self, A: list, B: list) -> np.ndarray:
        """K from the distances of all pairs of words."""
        alphabet, symmetric = Alphabet(), same_objects(A, B)
        alphabet.encode([self._symbols()], grow=True)
        left = alphabet.encode(A, grow=False)
        right = left if symmetric else alphabet.encode(B, grow=False)
        cells = len(left[0]) * len(right[0]) // max(1, len(A) * len(B))
        return core.sequence_routines().common_windows(
            left[0].astype(np.uint8),
            left[1],
            right[0].astype(np.uint8),
            right[1],
            int(self.k),
            self._common_neighbours(),
            symmetric,
            core.threads(len(A) * len(B), cells),
        )

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


class Gappy(_WordKernel):
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


class WeightedDegree(PairwiseKernel):
    r"""Words that two sequences of equal length have at the same positions, or nearly so.

    .. math:: K(s, t) = \sum_{d=1}^{D} \beta_d \sum_{l, l'} \delta_{|l - l'|}
              1[s_l \ldots s_{l+d-1} = t_{l'} \ldots t_{l'+d-1}], \qquad
              \beta_d = \frac{2 (D - d + 1)}{D (D + 1)}

    over all positions l and l' where a word of d symbols fits, with δ_0 = 1, δ_r = 1 / (2 (r + 1))
    for 1 <= r <= ``shift`` and 0 beyond; D = ``degree``.

    Parameters
    ----------
    degree : int, default=20
        Length of the longest word that counts, at least 1.
    shift : int, default=0
        Most positions by which a word may be displaced, at least 0.

    Notes
    -----
    K is a sum over words u of β x_uᵀ T z_u, where x_u and z_u indicate the positions at which u
    starts in s and in t, and T is the banded Toeplitz matrix of δ. T is positive definite: its
    symbol 1 + Σ_{r=1}^{shift} cos(rθ) / (r + 1) is at least 1/2 for all θ (Rogosinski and Szegő,
    1928). Its Cholesky factor gives `feature_map`.

    Examples
    --------
    >>> WeightedDegree(degree=2)(["ACGT", "ACTT"])  # β = 2/3, 1/3
    array([[3.66666667, 2.33333333],
           [2.33333333, 3.66666667]])

    References
    ----------
    Rätsch, Sonnenburg and Schölkopf, "RASE: recognition of alternatively spliced exons in C.
    elegans", Bioinformatics 21 (2005).
    """

    _parameter_constraints: dict = {"degree": [POSITIVE], "shift": [NATURAL]}

    def __init__(self, degree: int = 20, shift: int = 0) -> None:
        self.degree = degree
        self.shift = shift

    @property
    def domain(self) -> Domain:
        return STRINGS

    def parse_object(self, x: Any) -> Symbols:
        return parse_sequence(x)

    def proof_reason(self) -> str:
        if self.shift == 0:
            return "inner product of explicit features: the weighted words at each position"
        return (
            "sum over words of xᵀTz, with x and z the positions where the word starts and T the "
            "Toeplitz matrix of shift weights, positive definite since "
            "1 + sum of cos(rθ)/(r + 1) >= 1/2 (Rogosinski and Szegő 1928)"
        )

    def pairs(self, A: list, B: list) -> np.ndarray:
        symmetric = same_objects(A, B)
        codes = _equally_long(A if symmetric else [*A, *B])
        length = codes.shape[1]
        threads = core.threads(len(A) * len(B), length * (2 * self.shift + 1))
        if self.degree <= LONGEST_SHORT and codes.max(initial=0) < 2**15:
            codes = codes.astype(np.int16)
        else:
            codes = codes.astype(np.float64)
        S, T = codes[: len(A)], codes[len(codes) - len(B) :]
        weighted_degree = core.sequence_routines().weighted_degree
        return weighted_degree(
            S, T, float(self.degree), self.shift_weights(length), symmetric, threads
        )

    def self_pairs(self, A: list) -> np.ndarray:
        codes = _equally_long(A)
        return common_words(codes, codes, float(self.degree), self.shift_weights(codes.shape[1]))

    def shift_weights(self, length: int) -> np.ndarray:
        """δ_0, δ_1, ... as far as a sequence of this length allows."""
        return np.array([self._shift_weight(r) for r in range(min(self.shift + 1, max(length, 1)))])

    def word_weights(self, length: int) -> np.ndarray:
        """β_1, β_2, ... of the words that fit into a sequence of this length."""
        D, d = self.degree, np.arange(1, min(self.degree, length) + 1)
        return 2.0 * (D - d + 1) / (D * (D + 1.0))

    @staticmethod
    def _shift_weight(r: int) -> float:
        return 1.0 if r == 0 else 1 / (2 * (r + 1))

    def features(self, x: Symbols) -> dict[Hashable, float]:
        """Feature (j, u) is β^½ Σ_l R_lj over the positions l where u starts, with T = R Rᵀ."""
        n, band = len(x), min(self.shift, max(len(x) - 1, 0)) + 1
        most = n * min(self.degree, n) * band
        refuse_oversized(
            most * BYTES_PER_NAME,
            f"a sequence of {n} symbols with degree={self.degree} and shift={self.shift} has up "
            f"to {quantity(most)} features",
            "lower degree or shift",
        )
        toeplitz = np.repeat([[self._shift_weight(r)] for r in range(band)], n, axis=1)
        factor = cholesky_banded(toeplitz, lower=True)  # R_lj at [l - j, j]
        found: Counter[Hashable] = Counter()
        for d, beta in enumerate(self.word_weights(n), start=1):
            for start in range(n - d + 1):
                word = part(x, start, start + d)
                for j in range(max(0, start - band + 1), start + 1):
                    found[j, word] += np.sqrt(beta) * factor[start - j, j]
        return dict(found)


def _equally_long(sequences: list) -> np.ndarray:
    """(n, length) uint32: symbols as numbers."""
    symbols, starts = Alphabet().encode(sequences, grow=True)
    lengths = np.unique(np.diff(starts))
    if len(lengths) > 1:
        raise ValueError(
            f"sequences of {lengths[0]} and of {lengths[-1]} symbols; WeightedDegree compares "
            "position by position and needs equal lengths: cut or pad them first"
        )
    return symbols.reshape(len(sequences), int(lengths[0]) if len(lengths) else 0)
