"""The permutation test of a canonical correlation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class PermutationTest:
    """Outcome of a permutation test.

    Attributes
    ----------
    statistic : float
        The observed leading canonical correlation.
    pvalue : float
        (b + 1) / (m + 1), where b of the m permutations are at least as correlated; with "loo",
        that of the best candidate.
    null_distribution : ndarray of shape (m,)
        The leading correlation under each permutation.
    """

    statistic: float
    pvalue: float
    null_distribution: np.ndarray = field(repr=False)
