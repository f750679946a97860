"""Subsequences with gaps, weighted by how far they are spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from mercer.arrays import memory_budget, row_blocks
from mercer.kernels.domains import STRINGS, Domain
from mercer.kernels.sequences import Symbols, encode, pad, parse_sequence
from mercer.kernels.structured import PairwiseKernel, same_objects

# The tables of a batch should stay in cache; how many arrays of its size are alive at once.
BATCH_BYTES = 2**23
TABLES = 5


class Subsequence(PairwiseKernel):
    r"""Gap-weighted subsequences of one length.

    .. math:: K(s, t) = \sum_{u \in \Sigma^p} \sum_{i : s[i] = u} \sum_{j : t[j] = u}
              \lambda^{(i_p - i_1 + 1) + (j_p - j_1 + 1)}

    with p = ``length`` and λ = ``decay``; i runs over increasing index tuples, so every occurrence
    of u counts, less the further it is spread. Sequences shorter than p have K = 0. Time is
    O(p \|s\| \|t\|) for each pair.

    Parameters
    ----------
    length : int, default=5
        How many symbols a subsequence has, at least 1.
    decay : float, default=0.5
        Weight of each position that a subsequence spans, in (0, 1]; 1 counts all alike.

    Examples
    --------
    >>> Subsequence(length=2, decay=0.5)(["cat", "car", "bar"])
    array([[0.140625, 0.0625  , 0.      ],
           [0.0625  , 0.140625, 0.0625  ],
           [0.      , 0.0625  , 0.140625]])

    References
    ----------
    Lodhi, Saunders, Shawe-Taylor, Cristianini and Watkins, "Text classification using string
    kernels", Journal of Machine Learning Research 2 (2002).
    """

    _parameter_constraints: dict = {
        "length": [Interval(Integral, 1, None, closed="left")],
        "decay": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(self, length: int = 5, decay: float = 0.5) -> None:
        self.length = length
        self.decay = decay

    @property
    def domain(self) -> Domain:
        return STRINGS

    def parse_object(self, x: Any) -> Symbols:
        return parse_sequence(x)

    def proof_reason(self) -> str:
        return (
            "inner product of explicit features: feature u sums decay^span over the "
            "occurrences of the subsequence u"
        )

    def pairs(self, A: list, B: list) -> np.ndarray:
        codes = encode([*A, *B])
        S, T = codes[: len(A)], codes[len(A) :]
        symmetric = same_objects(A, B)
        out = np.zeros((len(A), len(B)))
        # Neighbours in order of length need little padding.
        order = np.argsort([len(t) for t in T], kind="stable")
        for i, s in enumerate(S):
            columns = order[order >= i] if symmetric else order
            for chosen in _batches(columns, T, len(s)):
                out[i, chosen] = self._matches([s], [T[j] for j in chosen])
                if symmetric:
                    out[chosen, i] = out[i, chosen]
        return out

    def self_pairs(self, A: list) -> np.ndarray:
        S = encode(A)
        out = np.zeros(len(A))
        order = np.argsort([len(s) for s in S], kind="stable")
        for chosen in _batches(order, S, max(map(len, S), default=0)):
            batch = [S[i] for i in chosen]
            out[chosen] = self._matches(batch, batch)
        return out

    def _matches(self, S: Sequence[np.ndarray], T: Sequence[np.ndarray]) -> np.ndarray:
        """K of S[b] (or of the only S) and T[b], for each b.

        ends[b, i, j] is the weight of all common subsequences whose last symbols are at i in s and
        at j in t. One more symbol may follow anywhere below and to the right, at a cost of decay
        per step: a first-order recursive filter along each axis. The rows of long sequences are
        taken in strips, between which the filters along columns hand on their state.
        """
        from scipy.signal import lfilter  # slow to import

        s, t = pad(S, -1), pad(T, -2)  # fillers match nothing
        step = [0.0, 1.0], [1.0, -self.decay]
        states = np.zeros((self.length - 1, len(t), 1, t.shape[1]))
        out = np.zeros(len(t))
        if t.shape[1] == 0:
            return out
        strip_bytes = _table_bytes(1, t.shape[1]) * len(t)
        for rows in row_blocks(s.shape[1], strip_bytes, _batch_bytes()):
            match = np.where(s[:, rows, None] == t[:, None, :], self.decay**2, 0.0)
            ends = match
            for state in states:
                above, state[:] = lfilter(*step, ends, axis=1, zi=state)
                ends = match * lfilter(*step, above, axis=2)
            out += ends.sum(axis=(1, 2))
        return out


def _batches(order: np.ndarray, T: Sequence[np.ndarray], length: int) -> Iterator[np.ndarray]:
    """Sequences to compare at once with one of this length, each batch within the budget."""
    longest = len(T[order[-1]]) if len(order) else 0
    for block in row_blocks(len(order), _table_bytes(length, longest), _batch_bytes()):
        yield order[block]


def _table_bytes(n: int, m: int) -> int:
    return 8 * TABLES * max(1, n * m)


def _batch_bytes() -> int:
    return min(BATCH_BYTES, memory_budget())
