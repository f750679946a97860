"""Sorted suffixes in NumPy: all substrings of a collection of sequences, in linear space.

Every substring is a prefix of a suffix. Once the suffixes of all sequences are sorted, those that
share a prefix stand together, and the lengths of the prefixes that neighbours share (``lcp``) say
everything about which substrings occur where: the longest common prefix of two suffixes is the
smallest ``lcp`` between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mercer.cached import cached_property


class Suffixes:
    """What the native class of this name does.

    Parameters
    ----------
    symbols : (N,) uint32
    starts : (n + 1,) int64
        Sequence i is ``symbols[starts[i]:starts[i + 1]]``.
    letters : int
        The symbols are below this number.
    depth : int
        Substrings of up to so many symbols are compared.
    """

    def __init__(self, symbols: np.ndarray, starts: np.ndarray, letters: int, depth: int) -> None:
        parts = pairwise(starts.tolist())
        self._sorted = SortedSuffixes([symbols[a:b].astype(np.int64) for a, b in parts], depth)

    def rows(
        self, which: np.ndarray, weight: np.ndarray, presence: bool, threads: int = 0
    ) -> np.ndarray:
        """Substrings that the sequences of these numbers share with each sequence.

        Parameters
        ----------
        which : (r,) int64
        weight : (depth + 1,) float64
            What the lengths 1, ..., l weigh together, for l = 0, 1, ...
        presence : bool
            Whether each substring counts once, or for every pair of occurrences.

        Returns
        -------
        (r, n) float64
        """
        suffixes = self._sorted
        out = np.empty((len(which), suffixes.n_sequences))
        for row, i in zip(out, which.tolist(), strict=True):
            if presence:
                # A common substring is counted at the first suffix of its sequence it begins.
                new = weight[suffixes.longest_match(i)] - weight[suffixes.lcp_within]
                value = np.maximum(new, 0)
            else:
                value = suffixes.weighted_matches(i, weight)
            row[:] = np.bincount(suffixes.owner, weights=value, minlength=len(row))
        return out


class SubstringSum:
    """f(t) = Σ_i alpha_i K(s_i, t) for the substrings of sequences; the native one is linear in t.

    Parameters
    ----------
    symbols, starts, letters : the sequences s_i, as in `Suffixes`
    alpha : (n, c) float64
    weight : (depth + 1,) float64
        As in `Suffixes.rows`; longer substrings weigh nothing.
    presence : bool
    """

    def __init__(
        self,
        symbols: np.ndarray,
        starts: np.ndarray,
        letters: int,
        alpha: np.ndarray,
        weight: np.ndarray,
        presence: bool,
    ) -> None:
        self._symbols, self._starts = symbols, starts
        self._alpha, self._weight, self._presence = alpha, weight, presence

    def values(self, symbols: np.ndarray, starts: np.ndarray, threads: int = 0) -> np.ndarray:
        """(m, c): f of m sequences; symbols that no s_i has may have any number above theirs."""
        n = len(self._starts) - 1
        together = np.concatenate([self._symbols, symbols])
        ends = np.concatenate([self._starts, starts[1:] + self._starts[-1]])
        depth = len(self._weight) - 1
        suffixes = Suffixes(together, ends, int(together.max(initial=0)) + 1, depth)
        reach = suffixes._sorted.length.max(initial=0)
        weight = self._weight[: reach + 1]
        rows = suffixes.rows(np.arange(n, len(ends) - 1), weight, self._presence)
        return rows[:, :n] @ self._alpha

    def along(self, symbols: np.ndarray, threads: int = 0) -> np.ndarray:
        """(N, c): f of one sequence, what a substring adds shared equally by the places it has."""
        weights, _ = self._listed
        out, seen = np.zeros((len(symbols), self._alpha.shape[1])), set()
        for end in range(1, len(symbols) + 1):
            for length in range(1, min(end, len(self._weight) - 1) + 1):
                u = tuple(symbols[end - length : end].tolist())
                if u in weights and not (self._presence and u in seen):
                    out[end - length : end] += weights[u] * self._step(length) / length
                seen.add(u)
        return out

    def heaviest(self, column: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends, lengths and weights of the substrings with the largest weights in a column of f.

        Of substrings that end at the same places only the longest is given.
        """
        weights, ends = self._listed
        rows = []
        for u, w in weights.items():
            longer = any(v[1:] == u and ends[v] == ends[u] for v in weights if len(v) == len(u) + 1)
            value = float(w[column] * self._step(len(u)))
            if value and not longer:
                rows.append((-abs(value), -len(u), ends[u][0], value))
        rows = sorted(rows)[:count]
        return (
            np.array([end for _, _, end, _ in rows], dtype=np.int64),
            np.array([-length for _, length, _, _ in rows], dtype=np.int64),
            np.array([value for *_, value in rows], dtype=np.float64),
        )

    def _step(self, length: int) -> float:
        return float(self._weight[length] - self._weight[length - 1])

    @cached_property
    def _listed(self) -> tuple[dict, dict]:
        """Every substring with its weight in f, lengths left aside, and with where it ends."""
        weights: dict[tuple[int, ...], np.ndarray] = {}
        ends: dict[tuple[int, ...], list[int]] = {}
        for i, (start, stop) in enumerate(pairwise(self._starts.tolist())):
            own = set()
            for end in range(start + 1, stop + 1):
                for length in range(1, min(end - start, len(self._weight) - 1) + 1):
                    u = tuple(self._symbols[end - length : end].tolist())
                    ends.setdefault(u, []).append(end)
                    if not (self._presence and u in own):
                        weights[u] = weights.get(u, 0.0) + self._alpha[i]
                    own.add(u)
        return weights, ends


class SortedSuffixes:
    """The suffixes of some sequences in alphabetical order, a prefix after what it begins.

    Parameters
    ----------
    codes : sequence of (n_i,) integer arrays
        The sequences, as `encode` gives them.
    depth : int, optional
        Compare and measure suffixes by their first ``depth`` symbols only.

    Attributes
    ----------
    owner : (N,) which sequence each suffix belongs to.
    length : (N,) how many symbols it has, at most ``depth``.
    lcp : (N,) how many of them it shares with the suffix before it; 0 for the first.

    Examples
    --------
    >>> suffixes = SortedSuffixes([np.array([1, 0, 2, 0, 2, 0])])  # banana
    >>> suffixes.length, suffixes.lcp  # anana ana a banana nana na
    (array([5, 3, 1, 6, 4, 2]), array([0, 3, 1, 0, 0, 2]))

    References
    ----------
    Manber and Myers, "Suffix arrays: a new method for on-line string searches", SIAM Journal on
    Computing 22 (1993).
    """

    def __init__(self, codes: Sequence[np.ndarray], depth: int | None = None) -> None:
        sizes = np.array([len(code) for code in codes], dtype=np.int64)
        longest = int(sizes.max(initial=0))
        depth = longest if depth is None else min(depth, longest)
        text, ends = _separated(codes, sizes)
        ranks = _doubled_ranks(text, depth)
        # Separators rank highest: they come last here, where they are dropped.
        order = np.argsort(ranks[-1], kind="stable")[: int(sizes.sum())]
        self.n_sequences = len(codes)
        self.owner = np.searchsorted(ends, order)
        self.length = np.minimum(ends[self.owner] - order, depth)
        self.lcp = np.minimum(_common_prefixes(order, ranks), depth)

    @cached_property
    def lcp_within(self) -> np.ndarray:
        """(N,) symbols shared with the suffix of the same sequence before it; 0 for the first."""
        out = np.zeros_like(self.lcp)
        for i in range(self.n_sequences):
            places = np.flatnonzero(self.owner == i)
            if len(places) > 1:
                gaps = np.minimum.reduceat(self.lcp[: places[-1] + 1], places[:-1] + 1)
                out[places[1:]] = gaps
        return out

    def longest_match(self, i: int) -> np.ndarray:
        """(N,) the length of the longest prefix of each suffix that occurs in sequence i."""
        mine = self.owner == i
        from_above = np.where(mine, self.length, self.lcp)
        from_below = np.where(mine, self.length, np.roll(self.lcp, -1))
        return np.maximum(
            _running_minimum(from_above, mine),
            _running_minimum(from_below[::-1], mine[::-1])[::-1],
        )

    def weighted_matches(self, i: int, weight: np.ndarray) -> np.ndarray:
        """(N,) for each suffix, the sum of weight[lcp] over all suffixes of sequence i."""
        mine = self.owner == i
        above, below = self._ancestries
        out = above.sums(mine, weight) + below.sums(mine[::-1], weight)[::-1]
        out[mine] += weight[self.length[mine]]
        return out

    @cached_property
    def _ancestries(self) -> tuple[_Ancestry, _Ancestry]:
        return _Ancestry(self.lcp), _Ancestry(np.roll(self.lcp[::-1], 1))


class _Ancestry:
    """Chains of previous smaller values, to sum over everything above a suffix at once.

    Let p(j) be the last place before j with lcp[p] < lcp[j]. The suffixes p(j), ..., j - 1 share
    exactly lcp[j] symbols with j, and those before p(j) share with j what they share with p(j).
    So the sum for j is weight[lcp[j]] * #{own suffixes in p(j)..j-1} plus the sum for p(j): a sum
    along a chain, taken for all j together by doubling the stride.
    """

    def __init__(self, lcp: np.ndarray) -> None:
        self.lcp = lcp
        self.previous = _previous_smaller(lcp)
        self.strides = []
        stride = self.previous
        while stride.any():
            self.strides.append(stride)
            stride = stride[stride]

    def sums(self, mine: np.ndarray, weight: np.ndarray) -> np.ndarray:
        before = np.cumsum(mine) - mine  # own suffixes before each place
        out = weight[self.lcp] * (before - before[self.previous])
        for stride in self.strides:
            out += out[stride]
        return out


def _separated(codes: Sequence[np.ndarray], sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sequences one after another, each ended by a symbol of its own, and where those are."""
    ends = np.cumsum(sizes + 1) - 1
    alphabet = max((int(code.max(initial=-1)) for code in codes), default=-1) + 1
    text = np.empty(int(sizes.sum()) + len(codes), dtype=np.int64)
    for i, (code, end) in enumerate(zip(codes, ends, strict=True)):
        text[end - len(code) : end] = code
        text[end] = alphabet + i
    return text, ends


def _doubled_ranks(text: np.ndarray, depth: int) -> list[np.ndarray]:
    """Ranks of the substrings of length 1, 2, 4, ... that start at each place, up to ``depth``."""
    n = len(text)
    rank = np.unique(text, return_inverse=True)[1].astype(np.int64)
    ranks, width = [rank], 1
    while width < depth and rank.max(initial=0) < n - 1:
        key = rank * (n + 1)
        key[:-width] += rank[width:] + 1
        order = np.argsort(key, kind="stable")
        rank = np.empty_like(rank)
        rank[order] = np.cumsum(np.diff(key[order], prepend=key[order[:1]]) != 0)
        ranks.append(rank)
        width *= 2
    return ranks


def _common_prefixes(order: np.ndarray, ranks: list[np.ndarray]) -> np.ndarray:
    """How far neighbours agree: the binary digits of that length, highest first."""
    lcp = np.zeros(len(order), dtype=np.int64)
    first, second, shared = order[:-1], order[1:], lcp[1:]
    for level in reversed(range(len(ranks))):
        rank = ranks[level]
        shared += (rank[first + shared] == rank[second + shared]).astype(np.int64) << level
    return lcp


def _running_minimum(values: np.ndarray, restart: np.ndarray) -> np.ndarray:
    """Minimum of the values since the last restart, that place included; 0 before the first."""
    block = np.cumsum(restart)
    # Each block is shifted below all earlier ones, so that one running minimum serves them all.
    shift = block * (values.max(initial=0) + 1)
    out = np.minimum.accumulate(values - shift) + shift
    out[block == 0] = 0
    return out


def _previous_smaller(values: np.ndarray) -> np.ndarray:
    """For each place the last earlier place with a smaller value, or 0."""
    value, previous = values.tolist(), [0] * len(values)
    for j in range(1, len(value)):
        p = j - 1
        while p and value[p] >= value[j]:
            p = previous[p]
        previous[j] = p
    return np.array(previous, dtype=np.int64)
