"""How alike two kernels see the same points, and whether two samples differ: on Gram operators."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.arrays import as_numpy, row_blocks
from mercer.torch_state import learning

# Columns multiplied at a time.
COLUMNS = 256
# Differences this small beside what is subtracted are none.
ROUNDING = 1e-13
EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Test:
    """A statistic and how often chance alone reaches it.

    Attributes
    ----------
    statistic : float
    pvalue : float
        (b + 1) / (m + 1), b the number of the m permutations whose statistic is at least as large:
        exact, in that it is at most p with probability at most p where the null hypothesis holds.
        NaN without permutations.
    null_distribution : (m,) array
        The statistic under each permutation.
    """

    statistic: float
    pvalue: float
    null_distribution: np.ndarray

    __test__ = False  # not for pytest

    @classmethod
    def of(cls, statistic: float, null: np.ndarray, magnitude: float) -> Test:
        """``magnitude`` is the size of what the statistic is the sum or difference of."""
        # Permutations that change nothing must count as ties, whatever their rounding.
        reached = int(np.sum(null >= statistic - ROUNDING * magnitude))
        pvalue = (reached + 1) / (len(null) + 1) if len(null) else float("nan")
        return cls(float(statistic), float(pvalue), null)


@learning
def centred_alignment(K: Any, L: Any) -> float:
    r"""The cosine of the angle between two Gram matrices of the same points, centred.

    .. math:: \frac{\langle HKH, HLH \rangle}{\|HKH\| \, \|HLH\|}, \qquad H = I - \tfrac1n 11^\top

    Between 0 and 1 for valid kernels. With L = y yᵀ it says how well a kernel suits targets y.

    Parameters
    ----------
    K, L : Gram operators or arrays of shape (n, n)

    References
    ----------
    Cortes, Mohri and Rostamizadeh, "Algorithms for learning kernels based on centered alignment",
    Journal of Machine Learning Research 13 (2012).

    Examples
    --------
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])
    >>> float(centred_alignment(np.outer(y, y), np.outer(2 * y, 2 * y) + 3))
    1.0
    """
    K, L = _Centred(K), _Centred(L)
    K.require_same(L)
    scale = K.size() * L.size()
    return K.inner(L) / scale if scale > 0 else 0.0


@learning
def hsic(K: Any, L: Any, n_permutations: int = 0, random_state: Any = None) -> Test:
    r"""The Hilbert-Schmidt independence criterion of two kernels on paired points.

    .. math:: \mathrm{HSIC} = \frac{1}{n^2} \operatorname{tr}(K H L H)

    Zero in the limit of many points if and only if the pairs are independent, for characteristic
    kernels such as `RBF`. The test permutes the points of L.

    Parameters
    ----------
    K, L : Gram operators or arrays of shape (n, n)
        Of the two halves of the pairs.
    n_permutations : int, default=0
        How many permutations make the p-value.
    random_state : int, RandomState or None

    Returns
    -------
    Test

    References
    ----------
    Gretton, Bousquet, Smola and Schölkopf, "Measuring statistical dependence with Hilbert-Schmidt
    norms", ALT 2005; Gretton et al., "A kernel statistical test of independence", NIPS 20 (2007).

    Examples
    --------
    >>> from mercer import gram, kernels
    >>> x = np.linspace(-2, 2, 60)[:, None]
    >>> K, L = gram(kernels.RBF(), x), gram(kernels.RBF(), x**2)
    >>> hsic(K, L, n_permutations=99, random_state=0).pvalue
    0.01
    """
    K, L = _Centred(K), _Centred(L)
    K.require_same(L)
    rng, n = check_random_state(random_state), K.n
    orders = [rng.permutation(n) for _ in range(_count(n_permutations))]
    null = np.array([K.inner(L, order) for order in orders])
    # What centring leaves is rounded as the largest entries are.
    rounded = (K.size() + L.size()) / n + EPS if orders else 0.0
    unit = K.scale * L.scale
    return Test.of(unit * K.inner(L) / n**2, unit * null / n**2, unit * rounded)


@learning
def mmd(K: Any, second: Any, n_permutations: int = 0, random_state: Any = None) -> Test:
    r"""The maximum mean discrepancy: how far apart the means of two samples are in feature space.

    .. math:: \mathrm{MMD}^2 = \Bigl\| \tfrac1m \sum_i \varphi(x_i)
              - \tfrac1n \sum_j \varphi(z_j) \Bigr\|^2

    The test permutes which points belong to which sample.

    Parameters
    ----------
    K : Gram operator or array of shape (m + n, m + n)
        Of the points of both samples together.
    second : (m + n,) array of bool
        Which of them belong to the second sample.
    n_permutations : int, default=0
    random_state : int, RandomState or None

    Returns
    -------
    Test

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf and Smola, "A kernel two-sample test", Journal of Machine
    Learning Research 13 (2012).

    Examples
    --------
    >>> from mercer import gram, kernels
    >>> X = np.random.default_rng(0).normal(size=(80, 1)) + np.repeat([0.0, 1.0], 40)[:, None]
    >>> mmd(gram(kernels.RBF(), X), np.repeat([False, True], 40), 199, random_state=0).pvalue
    0.005
    """
    K, second = _array_or_operator(K), np.asarray(second)
    if second.dtype != bool or second.shape != (K.shape[0],):
        raise ValueError(
            f"second has dtype {second.dtype} and shape {second.shape}; expected one True or False "
            f"for each of the {K.shape[0]} points"
        )
    if second.all() or not second.any():
        raise ValueError("second puts all points into one sample; both need at least one")
    rng = check_random_state(random_state)
    signs = np.where(second, -1 / second.sum(), 1 / (~second).sum())
    drawn = [signs, *(rng.permutation(signs) for _ in range(_count(n_permutations)))]
    values = []
    for start in range(0, len(drawn), COLUMNS):
        A = np.stack(drawn[start : start + COLUMNS], axis=1)
        values.append(np.einsum("ij,ij->j", A, np.asarray(K @ A)))
    found = np.concatenate(values)
    return Test.of(found[0], found[1:], float(np.max(np.abs(as_numpy(K.diagonal())))))


class _Centred:
    """HKH of a Gram operator or array, rows at a time, over ``scale``: about the largest K_ii."""

    def __init__(self, K: Any):
        self.K = K = _array_or_operator(K)
        self.n = K.shape[0]
        if K.shape != (self.n, self.n):
            raise ValueError(f"a Gram matrix of shape {K.shape}; expected a square one")
        self.means = np.asarray(K @ np.full(self.n, 1 / self.n), dtype=np.float64)
        entries = K if isinstance(K, np.ndarray) else as_numpy(K.diagonal())
        # A power of two, by which dividing rounds nothing.
        self.scale = float(np.ldexp(1.0, np.frexp(np.max(np.abs(entries)))[1] - 1))

    def require_same(self, other: _Centred) -> None:
        if self.n != other.n:
            raise ValueError(
                f"Gram matrices of {self.n} and {other.n} points; expected the same points"
            )

    def rows(self, index: np.ndarray) -> np.ndarray:
        rows = self.K[index] if isinstance(self.K, np.ndarray) else self.K.rows(index)
        rows = (rows - self.means) / self.scale
        return rows - rows.mean(axis=1, keepdims=True)

    def size(self) -> float:
        """‖HKH‖, zero where it is the rounding of K."""
        size = float(np.sqrt(self.inner(self)))
        return size if size > 8 * EPS * self.n else 0.0

    def inner(self, other: _Centred, order: np.ndarray | None = None) -> float:
        """⟨HKH, HLH⟩, with the points of L in another order."""
        total = 0.0
        for block in row_blocks(self.n, 64 * self.n):
            index = np.arange(block.start, block.stop)
            mine = self.rows(index)
            theirs = other.rows(index if order is None else order[index])
            theirs = theirs if order is None else theirs[:, order]
            total += float(np.einsum("ij,ij->", mine, theirs))
        return total


def _array_or_operator(K: Any) -> Any:
    return K if hasattr(K, "shape") else np.asarray(K)


def _count(n_permutations: Any) -> int:
    if not isinstance(n_permutations, Integral) or n_permutations < 0:
        raise ValueError(f"n_permutations={n_permutations!r}; expected a whole number >= 0")
    return int(n_permutations)
