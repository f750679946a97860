"""Weights of words at positions: what a model of sequences of equal length goes by."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mercer.kernels.sequences import Alphabet, Symbols, part
from mercer.kernels.string.weighted_degree import WeightedDegree


class PositionWeights:
    """f(x) = Σ_i v_i k(x, s_i) as weights of the words at each position, for `WeightedDegree`.

    Parameters
    ----------
    kernel : WeightedDegree
    sequences : m parsed sequences s_i, all of one length
    V : (m, c) array
    """

    def __init__(self, kernel: WeightedDegree, sequences: list, V: np.ndarray) -> None:
        self.kernel, self.sequences, self.V = kernel, sequences, V
        self._alphabet = Alphabet()
        symbols, starts = self._alphabet.encode(sequences, grow=True)
        self._length = int(starts[1])
        self._codes = symbols.reshape(len(sequences), -1).astype(np.int64)
        self._betas = kernel.word_weights(self._length)
        self._shifts = kernel.shift_weights(self._length)

    def heaviest(self, column: int, count: int) -> list[tuple[tuple[int, Symbols], float]]:
        """Positions and words with the largest weights, ((position, word), weight)."""
        found, words = [], self._codes
        for d, beta in enumerate(self._betas, start=1):
            fits = self._length - d + 1
            if d > 1:
                words = words[:, :-1] * len(self._alphabet.code) + self._codes[:, d - 1 :]
            _, first, number = np.unique(words, return_index=True, return_inverse=True)
            words = number.reshape(words.shape)
            places = np.tile(np.arange(fits), len(words))
            weight = beta * np.repeat(self.V[:, column], fits)
            at = sp.coo_array((weight, (words.ravel(), places)), shape=(len(first), fits))
            at = (at.tocsr() @ self._between(fits)).tocoo()
            for k in np.argsort(-np.abs(at.data), kind="stable")[:count]:
                i, start = divmod(int(first[at.coords[0][k]]), fits)
                word = part(self.sequences[i], start, start + d)
                found.append(((int(at.coords[1][k]), word), float(at.data[k])))
        found.sort(key=lambda entry: -abs(entry[1]))
        return [entry for entry in found[:count] if entry[1]]

    def _between(self, n: int) -> sp.csr_array:
        """(n, n): what a word at one position counts for at another."""
        most = min(len(self._shifts), n)
        reach = range(1 - most, most)
        weights = [self._shifts[abs(r)] for r in reach]
        return sp.diags_array(weights, offsets=list(reach), shape=(n, n)).tocsr()

    def along(self, x: Symbols) -> np.ndarray:
        """(length, c): what the words at each place add to f, shared by their places."""
        if len(x) != self._length:
            raise ValueError(
                f"a sequence of {len(x)} symbols; the model has sequences of {self._length}"
            )
        code = self._alphabet.encode([x], grow=False)[0].astype(np.int64)
        change = np.zeros((self._length + 1, self.V.shape[1]))  # from one place to the next
        for r in range(1 - len(self._shifts), len(self._shifts)):
            start, other, fits = max(r, 0), max(-r, 0), self._length - abs(r)
            same = self._codes[:, other : other + fits] == code[start : start + fits]
            match = same
            for d, beta in enumerate(self._betas[:fits], start=1):
                if d > 1:
                    match = match[:, :-1] & same[:, d - 1 :]
                share = self._shifts[abs(r)] * beta / d * (match.T.astype(np.float64) @ self.V)
                change[start : start + len(share)] += share
                change[start + d : start + d + len(share)] -= share
        return np.cumsum(change, axis=0)[:-1]


def is_within(entry: tuple[int, Symbols], other: tuple[int, Symbols]) -> bool:
    """Whether a word at a position is part of another at its own."""
    (at, word), (start, longer) = entry, other
    from_ = at - start
    return 0 <= from_ <= len(longer) - len(word) and part(longer, from_, from_ + len(word)) == word
