"""Words at the same positions of two sequences, or nearly so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky_banded

from mercer import core
from mercer.core.reference.sequences import common_words
from mercer.kernels.budget import BYTES_PER_NAME, quantity, refuse_features, refuse_oversized
from mercer.kernels.domains import STRINGS, Domain
from mercer.kernels.ragged import weighted_blocks
from mercer.kernels.sequences import Alphabet, Symbols, parse_sequence, part
from mercer.kernels.string.words import NATURAL, POSITIVE
from mercer.kernels.structured import PairwiseKernel, same_objects
from mercer.kernels.vocabulary import WORDS_AT_ONCE, sparse_rows

# Words that end at one position weigh less than 2^15 together, before normalisation.
LONGEST_SHORT = 180


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
        n, factor = len(x), self._factor(len(x))
        found: Counter[Hashable] = Counter()
        for d, beta in enumerate(self.word_weights(n), start=1):
            for start in range(n - d + 1):
                word = part(x, start, start + d)
                for j in range(max(0, start - len(factor) + 1), start + 1):
                    found[j, word] += np.sqrt(beta) * factor[start - j, j]
        return dict(found)

    def rows(self, objects: list, vocabulary: dict[Hashable, int], grow: bool) -> sp.csr_array:
        """`features` of many sequences; of equal ones of a position each name is made once."""
        if len({len(x) for x in objects}) != 1 or not len(objects[0]):
            return super().rows(objects, vocabulary, grow)
        n, factor = len(objects[0]), self._factor(len(objects[0]))
        weight = np.full(len(objects), n * min(self.degree, n) * len(factor))
        sizes, blocks, entries = list(weighted_blocks(weight, WORDS_AT_ONCE)), [], 0
        for block in sizes:
            blocks.append(self._rows(objects[block], factor, vocabulary, grow))
            entries += len(blocks[-1][0])
            refuse_features(block.stop, entries, len(vocabulary), BYTES_PER_NAME)
        width = max(1, len(vocabulary))
        parts = [
            sp.coo_array((values, (at, columns)), shape=(block.stop - block.start, width)).tocsr()
            for block, (values, at, columns) in zip(sizes, blocks, strict=True)
        ]
        joined = sp.vstack(parts, format="csr")
        return sparse_rows(joined.indptr, joined.indices, joined.data, width=len(vocabulary))

    def _rows(
        self, sequences: list, factor: np.ndarray, vocabulary: dict[Hashable, int], grow: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, rows and columns of features, some of them more than once, to be added."""
        codes = _equally_long(sequences).astype(np.int64)
        n, found, words = codes.shape[1], [], codes
        for d, beta in enumerate(self.word_weights(n), start=1):
            fits = n - d + 1
            if d > 1:  # numbers of words of d - 1 symbols, and one symbol more
                words = words[:, :-1] * (int(codes.max()) + 1) + codes[:, d - 1 :]
            _, first, number = np.unique(words, return_index=True, return_inverse=True)
            words = number.reshape(words.shape)
            for r in range(min(len(factor), fits)):  # (j, u) of words that start at j + r
                pairs = words[:, r:] * n + np.arange(fits - r)
                names, place = np.unique(pairs, return_inverse=True)
                columns = np.full(len(names), -1)
                for k, (u, j) in enumerate(zip(*np.divmod(names, n), strict=True)):
                    i, start = divmod(int(first[u]), fits)
                    name = int(j), part(sequences[i], start, start + d)
                    new = len(vocabulary) if grow else -1
                    columns[k] = (
                        vocabulary.setdefault(name, new) if grow else vocabulary.get(name, new)
                    )
                column = columns[place.ravel()]
                values = np.tile(np.sqrt(beta) * factor[r, : fits - r], len(words))
                at = np.repeat(np.arange(len(words)), fits - r)
                known = column >= 0
                found.append((values[known], at[known], column[known]))
        values, at, columns = map(np.concatenate, zip(*found, strict=True))
        return values, at, columns

    def _factor(self, n: int) -> np.ndarray:
        """R of T = R Rᵀ for sequences of n symbols, R_lj at [l - j, j], unless it is too large."""
        band = min(self.shift, max(n - 1, 0)) + 1
        most = n * min(self.degree, n) * band
        refuse_oversized(
            most * BYTES_PER_NAME,
            f"a sequence of {n} symbols with degree={self.degree} and shift={self.shift} has up "
            f"to {quantity(most)} features",
            "lower degree or shift",
        )
        toeplitz = np.repeat([[self._shift_weight(r)] for r in range(band)], n, axis=1)
        return cholesky_banded(toeplitz, lower=True)


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
