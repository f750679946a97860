"""Subsequences with gaps, weighted by how far they are spread."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from mercer import core
from mercer._sklearn import Interval
from mercer.arrays import row_blocks
from mercer.kernels.domains import STRINGS, Domain
from mercer.kernels.sequences import Alphabet, Symbols, parse_sequence
from mercer.kernels.structured import PairwiseKernel, same_objects


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
        symmetric = same_objects(A, B)
        sizes = np.array([len(b) for b in B], dtype=np.int64)
        order = np.argsort(sizes, kind="stable")  # neighbours in order of length need no padding
        out = np.empty((len(A), len(B)))
        for rows in row_blocks(len(A), 24 * len(B)):
            left = np.repeat(np.arange(rows.start, rows.stop), len(B))
            right = np.tile(order, rows.stop - rows.start)
            if symmetric:
                upper = left <= right
                left, right = left[upper], right[upper]
            out[left, right] = self._matches([*A, *B], left, right + len(A))
        return np.triu(out) + np.triu(out, 1).T if symmetric else out

    def self_pairs(self, A: list) -> np.ndarray:
        order = np.argsort([len(a) for a in A], kind="stable")
        out = np.empty(len(A))
        out[order] = self._matches(A, order, order)
        return out

    def _matches(self, sequences: list, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """K of the sequences of these numbers, pair by pair."""
        symbols, starts = Alphabet().encode(sequences, grow=True)
        lengths = np.diff(starts)
        cells = int((lengths[left] * lengths[right]).sum())
        return core.sequence_routines().common_subsequences(
            symbols.astype(np.float64),
            starts,
            left,
            right,
            int(self.length),
            float(self.decay),
            core.threads(cells, self.length),
        )
