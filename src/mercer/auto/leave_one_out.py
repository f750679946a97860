"""The leave-one-out error of kernel ridge regression, and its gradient by the kernel.

All of it goes by Cholesky factors: a few large calls to one library, however many threads it has.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve, get_lapack_funcs
from scipy.linalg.blas import dgemm, dsyrk

from mercer.expressions.derivative import partial
from mercer.kernels import Kernel
from mercer.solvers.ridge_problem import ROUNDING_LIMIT

# A first regulariser, and the largest, relative to the mean of K's diagonal.
_FIRST, _LARGEST = 1e-3, 1e2
# The part of a solver's limit on what rounding leaves that is kept to.
_SAFE = 0.3
# What a step must gain to be worth it.
GAIN = 1e-2


def weighed(K: np.ndarray, roots: np.ndarray | None) -> np.ndarray:
    """``roots_i K_ij roots_j``: with targets ``roots_i y_i`` a weighted problem is a plain one.

    Leave-one-out residuals are then multiplied by the roots, and their squares by the weights.

    Parameters
    ----------
    K : (n, n) array
    roots : (n,) array or None
        Square roots of the weights; None where there are none.
    """
    return K if roots is None else roots[:, None] * K * roots


def left_out(K: np.ndarray, Y: np.ndarray, alpha: float) -> tuple[float, np.ndarray]:
    """The mean squared leave-one-out error, and the residuals (n, t); infinite if rounding fails.

    Parameters
    ----------
    K : (n, n) array
        In float32 or float64, as the arithmetic will be.
    Y : (n, t) array
        Targets, centred.
    alpha : float

    Examples
    --------
    >>> import numpy as np
    >>> left_out(np.eye(2), np.array([[1.0], [-1.0]]), 1.0)[0]
    1.0
    """
    potrf, trtri = get_lapack_funcs(("potrf", "trtri"), (K,))
    U, failed = potrf(_shifted(K, alpha).T, lower=0, overwrite_a=1)
    if failed:
        return np.inf, np.full_like(Y, np.inf)
    solution = cho_solve((U, False), Y.astype(K.dtype), check_finite=False)
    if K.dtype == np.float64 and _is_lost(K, Y, alpha, solution):
        return np.inf, np.full_like(Y, np.inf)
    inverse, _ = trtri(U, lower=0, overwrite_c=1)
    residual = solution / np.einsum("ij,ij->i", inverse, inverse)[:, None]
    return float(np.mean(np.square(residual, dtype=np.float64))), residual


def _is_lost(K: np.ndarray, Y: np.ndarray, alpha: float, solution: np.ndarray) -> bool:
    """Whether a solver may find that rounding leaves too much of the gradient.

    How much it leaves is a matter of luck, and its bound is not: with residuals u of the equations
    it is uᵀKu, at most ‖u‖² times the trace. Targets that K does not see have no gradient but
    rounding's.
    """
    left = Y - K @ solution - alpha * solution
    most = np.trace(K) * np.einsum("ij,ij->j", left, left)
    begun = np.einsum("ij,ij->j", Y, K @ Y)
    unseen = least_alpha(K) * np.einsum("ij,ij->j", Y, Y)
    return bool(np.any(most > (_SAFE * ROUNDING_LIMIT) ** 2 * np.maximum(begun, unseen)))


def _shifted(K: np.ndarray, alpha: float) -> np.ndarray:
    shifted = K.copy()
    shifted.flat[:: len(K) + 1] += alpha
    return shifted


def least_alpha(K: np.ndarray) -> float:
    """The least regulariser with which rounding leaves a solution half its digits."""
    return 1e-9 * float(np.trace(K))


def best_alpha(
    K: np.ndarray,
    Y: np.ndarray,
    alpha: float | None = None,
    factor: float = 10.0,
    report: Callable[[float, float], None] | None = None,
) -> tuple[float, float, np.ndarray]:
    """Downhill from a regulariser by some factor: the least error, its place and its residuals.

    ``report(alpha, error)`` is called for each one tried, and may raise `TimeoutError` to
    end the walk.
    """
    level = float(np.mean(K.diagonal()))
    least, most = least_alpha(K), max(_LARGEST * level, least_alpha(K))
    seen: dict[float, tuple[float, np.ndarray]] = {}

    def look(value: float) -> float:
        if value not in seen:
            seen[value] = left_out(K, Y, value)
            if report is not None:
                report(value, seen[value][0])
        return seen[value][0]

    first = best = float(np.clip(_FIRST * level if alpha is None else alpha, least, most))
    try:
        look(first)
        for step in (1 / factor, factor):
            while least <= best * step <= most and look(best * step) < (1 - GAIN) * look(best):
                best *= step
            if best != first:
                break
    except TimeoutError:
        best = min(seen, key=lambda value: seen[value][0])
    return seen[best][0], best, seen[best][1]


class Slopes:
    r"""The error for a radial kernel of points divided by scales, and how it moves with them.

    With :math:`G = (K + \alpha I)^{-1}`, :math:`a = GY` and residuals :math:`e_i = a_i / G_{ii}`,
    the error :math:`\tfrac1n \sum e_i^2` changes with K by

    .. math:: S = \tfrac2n \left(G\,\mathrm{diag}(e^2)\,\mathrm{diag}(G)^{-1} G
              - G\,\mathrm{diag}(G)^{-1} e\, a^\top\right)

    and K, through the squared distances, with the logarithm of scale k by
    :math:`-2 \tfrac{\partial K}{\partial D} (x_{ik} - x_{jk})^2`.

    Parameters
    ----------
    kernel : Kernel
        A function of squared distances, whose scales are 1.
    X : (n, d) array
    Y : (n, t) array
        Multiplied by the roots, where there are some.
    roots : (n,) array, optional
        As for `weighed`.
    """

    def __init__(
        self, kernel: Kernel, X: np.ndarray, Y: np.ndarray, roots: np.ndarray | None = None
    ):
        self.X, self.Y, self.roots = X - np.median(X, axis=0), Y, roots
        self.pairs = kernel.over(self.X)
        (distance,) = self.pairs.lowering.leaves
        self.by_distance = self.pairs.like(partial(self.pairs.expression, distance), np.float64)

    def at(self, scales: np.ndarray, alpha: float) -> tuple[float, np.ndarray, float]:
        """The error, and its derivatives by the logarithm of every scale and by alpha."""
        X = self.X / scales
        K = np.asarray(self.pairs.at(X).gram(), dtype=np.float64)
        S, error = self._by_gram(weighed(K, self.roots), alpha)
        M = weighed(S, self.roots) * self.by_distance.at(X).gram()
        slopes = -4 * (M.sum(axis=1) @ X**2 - np.sum(X * (M @ X), axis=0))
        return error, slopes, float(np.trace(S))

    def _by_gram(self, K: np.ndarray, alpha: float) -> tuple[np.ndarray, float]:
        potrf, potri = get_lapack_funcs(("potrf", "potri"), (K,))
        U, failed = potrf(_shifted(K, alpha).T, lower=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the matrix is not positive definite after rounding")
        a = cho_solve((U, False), self.Y, check_finite=False)
        G = _mirrored(potri(U, lower=0, overwrite_c=1)[0])
        g = G.diagonal()[:, None]
        e = a / g
        weighted = G * np.sqrt(np.sum(e**2, axis=1) / g[:, 0])
        other = dgemm(1.0, dgemm(1.0, G, e / g), a, trans_b=1)
        S = _mirrored(dsyrk(1.0, weighted.T, trans=1)) - 0.5 * (other + other.T)
        return S * (2 / a.size), float(np.mean(e**2))


def _mirrored(upper: np.ndarray) -> np.ndarray:
    """The symmetric matrix of which a triangle is known."""
    whole = np.triu(upper, 1)
    whole += whole.T
    whole.flat[:: len(whole) + 1] = upper.diagonal()
    return whole
