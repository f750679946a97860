r"""Monomials of one degree after the other, weighted so that their inner products are powers.

The monomials of degree q in d variables are the multisets :math:`j_1 \le \dots \le j_q`, in
colexicographic order (by the last variable, then the one before it, ...). Those of degree q whose
last variable is j are the monomials of degree q - 1 in the variables up to j, times x_j: a leading
part of the list before. The weight :math:`\sqrt{q! / \prod_j e_j!}` grows with them, by
:math:`\sqrt{q / e_j}` when x_j joins for the e_j-th time. So :math:`\phi_q(x) \cdot \phi_q(z) =
(x \cdot z)^q`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import count

import numpy as np
import scipy.sparse as sp

from mercer.kernels.ragged import ragged_arange


def dense_monomials(X: np.ndarray) -> Iterator[np.ndarray]:
    """For q = 0, 1, 2, ... the weighted monomials of degree q, shape (n, C(d + q - 1, q)).

    Examples
    --------
    >>> _, linear, square = (M for M, _ in zip(dense_monomials(np.array([[3.0, 5.0]])), range(3)))
    >>> linear, square**2  # x², 2xy, y², squared
    (array([[3., 5.]]), array([[ 81., 450., 625.]]))
    """
    n, d = X.shape
    block = np.ones((n, 1))
    last, times = np.full(1, -1), np.zeros(1)  # the last variable of each monomial, and its power
    for q in count(1):
        yield block
        up_to = [math.comb(j + q - 1, q - 1) for j in range(d)]  # monomials in variables 0..j
        times = np.concatenate(
            [np.where(last[:m] == j, times[:m] + 1, 1.0) for j, m in enumerate(up_to)]
        )
        block = np.hstack([block[:, :m] * X[:, [j]] for j, m in enumerate(up_to)])
        block *= np.sqrt(q / times)
        last = np.repeat(np.arange(d), up_to)


def sparse_monomials(X: sp.csr_array) -> Iterator[sp.csr_array]:
    """The same for sparse rows, in time and memory that depend on their entries only."""
    X = X.sorted_indices()
    n, d = X.shape
    ends = X.indptr[1:]
    # One item for each monomial of each row: where in X its last variable stands, its power, the
    # monomial's number in colexicographic order, and its value.
    row, at = np.arange(n), X.indptr[:-1].astype(np.int64)
    times, number, value = np.zeros(n), np.zeros(n, dtype=np.int64), np.ones(n)
    before = np.ones(d, dtype=np.int64)  # C(j + q - 1, q): monomials of degree q in variables < j
    for q in count(1):
        width = math.comb(d + q - 2, q - 1)
        yield sp.csr_array((value, (row, number)), shape=(n, width))
        before = np.cumsum(before) - (1 if q == 1 else 0)
        more = ends[row] - at
        following = ragged_arange(at, more)
        same = np.repeat(at, more) == following if q > 1 else np.zeros(len(following), bool)
        times = np.where(same, np.repeat(times, more) + 1, 1.0)
        number = np.repeat(number, more) + before[X.indices[following]]
        value = np.repeat(value, more) * X.data[following] * np.sqrt(q / times)
        row, at = np.repeat(row, more), following


def n_sparse_monomials(X: sp.csr_array, degrees: Iterable[int]) -> int:
    """How many entries the monomials of these degrees have, and those they are made from."""
    sizes, rows = np.unique(np.diff(X.indptr), return_counts=True)
    most = max(degrees, default=0)
    # All degrees up to the last: C(m + q, q) monomials in the m entries of a row.
    return sum(math.comb(int(m) + most, most) * int(r) for m, r in zip(sizes, rows, strict=True))
