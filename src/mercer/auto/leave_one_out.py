"""The squared error of kernel ridge regression left one out, and how it moves with the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf, dtrtri

from mercer.expressions import entrywise_gradient
from mercer.kernels import Kernel

# Regularisers looked at together, relative to the mean of K's diagonal.
PATH = np.logspace(-7, 2, 28)


def path_errors(K: np.ndarray, Y: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """The mean squared leave-one-out error of each alpha, by one eigendecomposition.

    Parameters
    ----------
    K : (n, n) array
    Y : (n, t) array
        Targets, centred.
    alphas : (a,) array

    Examples
    --------
    >>> import numpy as np
    >>> path_errors(np.eye(2), np.array([[1.0], [-1.0]]), np.array([1.0]))
    array([1.])
    """
    values, Q = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    QY, squares = Q.T @ Y, Q**2
    errors = np.empty(len(alphas))
    for i, alpha in enumerate(alphas):
        inverse = 1 / (values + alpha)
        residual = (Q @ (inverse[:, None] * QY)) / (squares @ inverse)[:, None]
        errors[i] = np.mean(residual**2)
    return errors


def best_on_path(kernel: Kernel, X: Any, Y: np.ndarray) -> tuple[float, float]:
    """The least error of a kernel over all regularisers, and the regulariser."""
    K = np.asarray(kernel(X), dtype=np.float64)
    alphas = PATH * float(np.mean(K.diagonal()))
    alphas = alphas[alphas >= least_alpha(K)]
    errors = path_errors(K, Y, alphas)
    best = int(np.argmin(errors))
    return float(errors[best]), float(alphas[best])


def least_alpha(K: np.ndarray) -> float:
    """The least regulariser with which rounding leaves a solution half its digits."""
    return 1e-9 * float(np.trace(K))


def left_out(K: np.ndarray, Y: np.ndarray, alpha: float) -> tuple[float, np.ndarray, np.ndarray]:
    """The error at one alpha, the residuals left one out, and (K + alpha I)⁻¹."""
    shifted = K.copy()
    shifted.flat[:: len(K) + 1] += alpha
    G = np.linalg.inv(shifted)
    residual = (G @ Y) / G.diagonal()[:, None]
    return float(np.mean(residual**2)), residual, G


def left_out_of_many(K: np.ndarray, Y: np.ndarray, alpha: float) -> tuple[float, np.ndarray]:
    """The same error and residuals without the inverse, of which the diagonal will do."""
    shifted = K.copy()
    shifted.flat[:: len(K) + 1] += alpha
    U, failed = dpotrf(shifted.T, lower=0, overwrite_a=1)
    if failed:
        return np.inf, np.full_like(Y, np.inf)
    solution = cho_solve((U, False), Y, check_finite=False)
    inverse, _ = dtrtri(U, lower=0, overwrite_c=1)
    residual = solution / np.einsum("ij,ij->i", inverse, inverse)[:, None]
    return float(np.mean(residual**2)), residual


def error_and_slopes(
    kernel: Kernel, X: Any, Y: np.ndarray, alpha: float
) -> tuple[float, np.ndarray, float]:
    r"""The error, and its derivatives by every scale of the kernel and by alpha.

    With :math:`G = (K + \alpha I)^{-1}`, :math:`a = GY` and residuals :math:`e_i = a_i / G_{ii}`,
    the error :math:`\tfrac1n \sum e_i^2` changes with K by

    .. math:: \tfrac2n \left(G\,\mathrm{diag}(e^2)\,\mathrm{diag}(G)^{-1} G
              - G\,\mathrm{diag}(G)^{-1} e\, a^\top\right).
    """
    pairs = kernel.over(X)
    error, e, G = left_out(np.asarray(pairs.gram(), dtype=np.float64), Y, alpha)
    g = G.diagonal()
    S = (G * (np.sum(e**2, axis=1) / g)) @ G - (G @ (e / g[:, None])) @ (G @ Y).T
    S *= 2 / Y.size
    S = 0.5 * (S + S.T)
    slopes = entrywise_gradient(pairs, S, ["scales"])["scales"]
    return error, np.asarray(slopes), float(np.trace(S))
