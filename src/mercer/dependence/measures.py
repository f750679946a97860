"""How alike two kernels see the same points, and whether two samples differ: on Gram operators."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Number
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from mercer.arrays import (
    as_dense,
    as_numpy,
    as_vectors,
    backend,
    memory_budget,
    n_rows,
    refuse_masked,
    row_blocks,
    to_cpu,
)
from mercer.arrays.libraries import to_native
from mercer.arrays.torch_state import learning
from mercer.kernels.given import asymmetric_pair, last_digits
from mercer.kernels.kernel import Kernel
from mercer.kernels.vector.distance import RBF
from mercer.operators.choice import gram

# Permutations by default: p-values as small as 0.005.
PERMUTATIONS = 199
# The median distance is that of at most about this many points.
MEDIAN_POINTS = 2000
# Stored rows are multiplied a few at a time, so that they stay in the processor's cache.
CACHE_BYTES = 2**23
# Columns multiplied at a time.
COLUMNS = 256
# Differences this small compared with what is subtracted are none.
ROUNDING = 1e-13
EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class PermutationTest:
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
    def of(cls, statistic: float, null: np.ndarray, magnitude: float) -> PermutationTest:
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
    _refuse_kernels({"K": K, "L": L}, "centred_alignment(gram({0}, X), gram({0}, Y))")
    K, L = _Centred(K), _Centred(L)
    K.require_same(L)
    scale = K.size() * L.size()
    return K.inner(L) / scale if scale > 0 else 0.0


@learning
def hsic(
    X: Any,
    Y: Any,
    n_permutations: int = PERMUTATIONS,
    random_state: Any = 0,
    *,
    kernel_x: Kernel | None = None,
    kernel_y: Kernel | None = None,
) -> PermutationTest:
    r"""The Hilbert-Schmidt independence criterion of paired points (x_i, y_i).

    .. math:: \mathrm{HSIC} = \frac{1}{n^2} \operatorname{tr}(K H L H), \qquad
              H = I - \tfrac1n 11^\top

    K is the Gram matrix of X and L that of Y. Zero in the limit of many points if and only if the
    pairs are independent, for characteristic kernels such as `RBF`. The test permutes the points
    of Y.

    Parameters
    ----------
    X, Y : n points each, or a Gram operator or Gram matrix of shape (n, n)
        Row i of X is paired with row i of Y. A symmetric array of shape (n, n) is read as a Gram
        matrix, unless its kernel is given.
    n_permutations : int, default=199
        Number of permutations for the p-value, whose smallest value is 1 / (n_permutations + 1).
    random_state : int, RandomState or None, default=0
    kernel_x, kernel_y : Kernel or None, default=None
        The kernels of X and of Y. None is the Gaussian exp(-r² / (2 m²)), m the median distance
        between the points that differ.

    Returns
    -------
    PermutationTest

    References
    ----------
    Gretton, Bousquet, Smola and Schölkopf, "Measuring statistical dependence with Hilbert-Schmidt
    norms", ALT 2005; Gretton et al., "A kernel statistical test of independence", NIPS 20 (2007).

    Examples
    --------
    >>> from mercer import gram, kernels
    >>> x = np.linspace(-2, 2, 60)[:, None]
    >>> hsic(x, x**2).pvalue
    0.005
    >>> hsic(x, x**2, kernel_x=kernels.Linear()).pvalue > 0.5  # x and x**2 are uncorrelated
    True
    >>> hsic(gram(kernels.RBF(), x), gram(kernels.RBF(), x**2), n_permutations=99).pvalue
    0.01
    """
    _refuse_kernels({"X": X, "Y": Y}, "hsic(X, Y, kernel_x={0}, kernel_y={0})")
    K = _Centred(_gram_of(X, kernel_x, "X", "kernel_x"))
    L = _Centred(_gram_of(Y, kernel_y, "Y", "kernel_y"))
    K.require_same(L)
    rng, n = check_random_state(random_state), K.n
    orders = [rng.permutation(n) for _ in range(_count(n_permutations))]
    null = np.array([K.inner(L, order) for order in orders])
    # What centring leaves is rounded as the largest entries are.
    rounded = (K.size() + L.size()) / n + EPS if orders else 0.0
    unit = K.scale * L.scale
    return PermutationTest.of(unit * K.inner(L) / n**2, unit * null / n**2, unit * rounded)


@learning
def mmd(
    X: Any,
    Y: Any,
    n_permutations: int = PERMUTATIONS,
    random_state: Any = 0,
    *,
    kernel: Kernel | None = None,
) -> PermutationTest:
    r"""The maximum mean discrepancy: how far apart the means of two samples are in feature space.

    .. math:: \mathrm{MMD}^2 = \Bigl\| \tfrac1m \sum_i \varphi(x_i)
              - \tfrac1n \sum_j \varphi(y_j) \Bigr\|^2

    The test permutes which points belong to which sample.

    Parameters
    ----------
    X : m points
        Or the points of both samples, or their Gram operator or Gram matrix of shape
        (m + n, m + n), where Y says which belong to the second sample.
    Y : n points, or (m + n,) array of bool
    n_permutations : int, default=199
        Number of permutations for the p-value, whose smallest value is 1 / (n_permutations + 1).
    random_state : int, RandomState or None, default=0
    kernel : Kernel or None, default=None
        None is the Gaussian exp(-r² / (2 m²)), m the median distance between the points of both
        samples that differ.

    Returns
    -------
    PermutationTest

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf and Smola, "A kernel two-sample test", Journal of Machine
    Learning Research 13 (2012).

    Examples
    --------
    >>> from mercer import gram, kernels
    >>> X = np.random.default_rng(0).normal(size=(80, 1)) + np.repeat([0.0, 1.0], 40)[:, None]
    >>> mmd(X[:40], X[40:]).pvalue
    0.005
    >>> mmd(X[:40], X[40:], kernel=kernels.Laplacian()).pvalue
    0.005
    >>> mmd(gram(kernels.RBF(), X), np.repeat([False, True], 40)).pvalue
    0.005
    """
    _refuse_kernels({"X": X, "Y": Y}, "mmd(X, Y, kernel={0})")
    second = _membership(X, Y)
    if second is None:
        second = np.repeat([False, True], [n_rows(X), n_rows(Y)])
        X = _pooled(X, Y, kernel)
    K = _gram_of(X, kernel, "X", "kernel")
    if second.dtype != bool or second.shape != (K.shape[0],):
        raise ValueError(
            f"Y has dtype {second.dtype} and shape {second.shape}; expected one True or False "
            f"for each of the {K.shape[0]} points of X"
        )
    if second.all() or not second.any():
        raise ValueError("Y puts all points into one sample; both need at least one")
    rng = check_random_state(random_state)
    signs = np.where(second, -1 / second.sum(), 1 / (~second).sum())
    drawn = [signs, *(rng.permutation(signs) for _ in range(_count(n_permutations)))]
    values = []
    for start in range(0, len(drawn), COLUMNS):
        A = np.stack(drawn[start : start + COLUMNS], axis=1)
        values.append(np.einsum("ij,ij->j", A, np.asarray(K @ A)))
    found = np.concatenate(values)
    return PermutationTest.of(found[0], found[1:], float(np.max(np.abs(as_numpy(K.diagonal())))))


def _refuse_kernels(given: dict[str, Any], call: str) -> None:
    """Raise a TypeError that shows the call, where a kernel stands in the place of points."""
    for name, points in given.items():
        if isinstance(points, Kernel):
            raise TypeError(
                f"{name} is the kernel {points!r}, where points or a Gram operator are expected; "
                f"call {call.format(repr(points))}"
            )


def _gram_of(X: Any, kernel: Kernel | None, name: str, argument: str) -> Any:
    """The Gram operator or matrix of what was given: points, or the Gram itself."""
    if isinstance(X, LinearOperator):
        if kernel is not None:
            raise TypeError(
                f"{name} is a Gram operator, which includes its kernel; leave out {argument}, or "
                f"pass points as {name}"
            )
        return X
    X = _points(X, kernel, name)
    if kernel is None and _is_gram(X):
        return X
    return gram(median_gaussian(X) if kernel is None else kernel, X)


def _is_gram(X: Any) -> bool:
    """Whether points are a square matrix that is symmetric up to rounding."""
    if not isinstance(X, np.ndarray) or X.shape[0] != X.shape[1]:
        return False
    return asymmetric_pair(X, last_digits(X)) is None


def _points(X: Any, kernel: Kernel | None, name: str) -> Any:
    """Points as the kernel takes them; numbers without columns are points of one feature."""
    X = to_native(X)
    if isinstance(kernel, Kernel) and not kernel.domain.is_vectors:
        return X
    flat = isinstance(X, list | tuple) and all(isinstance(x, Number) for x in X)
    if flat or len(getattr(X, "shape", ())) == 1:
        refuse_masked(X, name)
        X = backend(X).asarray(X).reshape(-1, 1)
    return as_vectors(X, name)


def median_gaussian(X: Any) -> RBF:
    """exp(-r² / (2 m²)), m the median distance between those of the points that differ."""
    some = as_dense(X[:: -(-n_rows(X) // MEDIAN_POINTS)])
    some = as_numpy(some).astype(np.float64)
    size = float(np.abs(some).max()) or 1.0  # so that no square overflows
    between = pdist(some / size)
    between = between[between > 0]
    median = size * float(np.median(between)) if len(between) else 1.0
    return RBF(0.5, scales=np.full(some.shape[1], median))


def _pooled(X: Any, Y: Any, kernel: Kernel | None) -> Any:
    """The points of both samples."""
    X, Y = _points(X, kernel, "X"), _points(Y, kernel, "Y")
    widths = [A.shape[1] for A in (X, Y) if len(getattr(A, "shape", ())) == 2]
    if len(set(widths)) > 1:
        raise ValueError(f"X has {widths[0]} features and Y has {widths[1]}; expected as many")
    if sp.issparse(X) != sp.issparse(Y):
        X, Y = sp.csr_array(X), sp.csr_array(Y)
    return backend(X).join((X, Y))


def _membership(X: Any, Y: Any) -> np.ndarray | None:
    """Y as one entry per point of X, where it says which sample each belongs to; else None."""
    listed = isinstance(Y, list | tuple) and all(isinstance(y, Number | np.bool_) for y in Y)
    if not (listed or hasattr(Y, "dtype")):
        return None
    second = np.asarray(to_cpu(Y))
    both = second.dtype == bool or len(getattr(X, "shape", ())) == 2
    return second if second.ndim == 1 and both else None


class _Centred:
    """HKH of a Gram operator or array over ``scale``, which is about the largest K_ii.

    Stored where it takes a quarter of the memory budget at most, otherwise made rows at a time.
    """

    def __init__(self, K: Any):
        self.K = K = _array_or_operator(K)
        self.n = K.shape[0]
        if K.shape != (self.n, self.n):
            raise ValueError(f"a Gram matrix of shape {K.shape}; expected a square one")
        self.means = np.asarray(K @ np.full(self.n, 1 / self.n), dtype=np.float64)
        entries = K if isinstance(K, np.ndarray) else as_numpy(K.diagonal())
        # A power of two, by which dividing rounds nothing.
        self.scale = float(np.ldexp(1.0, np.frexp(np.max(np.abs(entries)))[1] - 1))
        small = 32 * self.n**2 <= memory_budget()
        self.stored = self._rows(np.arange(self.n)) if small else None

    def require_same(self, other: _Centred) -> None:
        if self.n != other.n:
            raise ValueError(
                f"Gram matrices of {self.n} and {other.n} points; expected the same points"
            )

    def rows(self, index: np.ndarray) -> np.ndarray:
        return self._rows(index) if self.stored is None else self.stored[index]

    def _rows(self, index: np.ndarray) -> np.ndarray:
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
        both_stored = self.stored is not None and other.stored is not None
        for block in row_blocks(self.n, 64 * self.n, CACHE_BYTES if both_stored else None):
            index = np.arange(block.start, block.stop)
            mine = self.rows(index)
            theirs = other.rows(index if order is None else order[index])
            theirs = theirs if order is None else theirs.take(order, axis=1)
            total += float(np.einsum("ij,ij->", mine, theirs))
        return total


def _array_or_operator(K: Any) -> Any:
    return K if hasattr(K, "shape") else np.asarray(K)


def _count(n_permutations: Any) -> int:
    if not isinstance(n_permutations, Integral) or n_permutations < 0:
        advice = "; pass a kernel by name: kernel=..." if callable(n_permutations) else ""
        raise ValueError(f"n_permutations={n_permutations!r}; expected a whole number >= 0{advice}")
    return int(n_permutations)
