"""The ridge problem that several solvers share, and the one certificate they all report.

    J(w) = 1/2 sum_i s_i (y_i - <w, phi(x_i)>)^2 + 1/2 lam ||w||^2,    w = sum_i alpha_i phi(x_i)

With an intercept b, which is not penalised, y_i - b stands for y_i and J is minimal in b; the
solution is that of features and targets centred on their weighted means, and sum_i alpha_i = 0.

The gradient of J at w is ``-Phi^T u`` with ``u = s (y - K alpha) - lam alpha``, so its norm in
feature space needs the Gram matrix only: ``||grad J||^2 = u^T K u``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import as_numpy, backend, like, namespace

EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)
# What float32 rounding does to K must be so small compared with lam for float32 arithmetic to pay.
FLOAT32_ERROR_OVER_LAM = 0.02

# A direct solve leaves a relative gradient near rounding; far above it, rounding has won.
ROUNDING_LIMIT = 1e-6


def as_columns(Y: np.ndarray, lam: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Bring targets to ``(n, t)``, regularisers to ``(t,)`` and weights to ``(n,)``, in float64.

    Weights are of the targets' library; regularisers are numbers of NumPy's.
    """
    Y = backend(Y).asarray(Y, np.float64)
    Y = Y.reshape(len(Y), -1)
    lam = np.broadcast_to(np.asarray(lam, dtype=np.float64).ravel(), (Y.shape[1],))
    weight = like(np.ones(len(Y)) if sample_weight is None else sample_weight, Y)
    return Y, lam, weight


def weighted_mean(Y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The mean of each column of Y ``(n, t)``, shape (t,); zero where nothing weighs."""
    total = weight.sum()
    return weight @ Y / total if total > 0 else like(np.zeros(Y.shape[1]), Y)


def relative_gradient(
    K: Any,
    alpha: np.ndarray,
    Y: np.ndarray,
    lam: np.ndarray,
    weight: np.ndarray,
    fit_intercept: bool = False,
) -> float:
    """The certificate ``||grad J(w)|| / ||grad J(0)||``, the worst over targets.

    Parameters
    ----------
    K : array or Gram operator of shape (n, n)
    alpha : ndarray of shape (n, t)
    Y : ndarray of shape (n, t)
    lam : ndarray of shape (t,)
    weight : ndarray of shape (n,)
    fit_intercept : bool
        Whether J is minimal in an intercept too, which then is the weighted mean of y - K alpha.

    Returns
    -------
    float
        Zero at the optimum, one at ``w = 0``. With ``lam > 0`` the objective is at most
        ``||grad J(w)||^2 / (2 lam)`` above its minimum.
    """
    residual = Y - K @ alpha
    if fit_intercept:
        residual, Y = (R - weighted_mean(R, weight) for R in (residual, Y))
    now = weight[:, None] * residual - like(lam, alpha) * alpha
    start = weight[:, None] * Y
    # One product, for K may be recomputed.
    together = namespace(Y).hstack([now, start])
    return gradient_ratio(*np.split(_squared_norms(K, together), 2))


def gradient_ratio(now: np.ndarray, start: np.ndarray) -> float:
    """The largest square root of ``now / start``, where zero over zero is zero."""
    now, start = np.maximum(now, 0.0), np.maximum(start, 0.0)
    moved = start > 0
    if not moved.any():
        return 0.0
    return float(np.sqrt(np.max(now[moved] / start[moved])))


def is_negligible(lam: float, trace: float) -> bool:
    """Whether ``lam`` is lost in the rounding of a matrix with this trace."""
    return lam <= 10.0 * EPS * max(trace, 0.0)


def rounding_advice(largest: float, lam: np.ndarray) -> str:
    """What to do where rounding stops a solver; ``largest`` is K's largest eigenvalue or trace."""
    lowest = float(np.min(lam))
    number = (largest + lowest) / lowest if lowest > 0 else np.inf
    return (
        f"rounding stops further progress at a condition number of up to {number:.1e}: choose a "
        "larger alpha"
    )


def float32_is_small(n: int, largest: float, lam: float) -> bool:
    """Whether float32 rounding of n rows, random over their entries, is small compared with lam."""
    return EPS32 * np.sqrt(n) * largest <= FLOAT32_ERROR_OVER_LAM * lam


def _squared_norms(K: Any, U: np.ndarray) -> np.ndarray:
    return as_numpy(namespace(U).einsum("ij,ij->j", U, K @ U))
