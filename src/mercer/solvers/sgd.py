"""Stochastic gradient descent for the soft-margin SVM with kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.solvers.perceptron import first_true
from mercer.solvers.result import Monitor, Result, Status


def kernel_sgd(
    K: Any,
    Y: np.ndarray,
    lam: float,
    draws: np.ndarray,
    *,
    average: bool = True,
) -> Result:
    r"""Minimise ``lam/2 ||w||^2 + 1/n sum_i max(0, 1 - y_i <w, phi(x_i)>)`` by T drawn steps.

    With ``beta`` at zero, step t = 1 .. T uses ``alpha^(t) = beta / (lam t)``, takes the drawn
    point i, and adds ``y_i`` to ``beta_i`` if ``y_i sum_j alpha_j^(t) k(x_j, x_i) < 1``. The
    answer is the average of ``alpha^(1) .. alpha^(T)``. What is added at step s is divided by
    ``lam t`` at each later t, so its part of the average is ``(H_T - H_s) / (lam T)`` with
    harmonic numbers H, and no step needs to touch more than the scores.

    Parameters
    ----------
    K : Gram operator of shape (n, n)
        Only ``rows`` and products are used.
    Y : ndarray of shape (n, c)
        Labels -1 and +1, one column per machine.
    lam : float
        Regulariser, positive.
    draws : ndarray of shape (T,)
        The points drawn, with replacement.
    average : bool
        Whether to return the average or the last iterate, ``alpha^(T)``.

    Returns
    -------
    Result
        ``value`` is ``alpha`` of shape (n, c); ``gap`` is the duality gap of the objective above,
        the worst over machines. All T steps are taken, so the status is ``COMPLETED``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.operators import DenseGram
    >>> result = kernel_sgd(DenseGram(np.eye(2)), np.array([[1.0], [-1.0]]), 1.0, np.array([0, 1]))
    >>> result.value.ravel()
    array([0.25, 0.  ])

    References
    ----------
    Shalev-Shwartz and Ben-David (2014), "Understanding Machine Learning", section 16.3.
    """
    monitor = Monitor(tol=0.0)
    T = len(draws)
    beta = np.zeros_like(Y, dtype=np.float64)
    averaged = np.zeros_like(beta)
    products = np.zeros_like(beta)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, T + 1))])
    thresholds = lam * np.arange(1, T + 1)[:, None]

    def violates(lo: int, hi: int) -> np.ndarray:
        drawn = draws[lo:hi]
        return np.any(Y[drawn] * products[drawn] < thresholds[lo:hi], axis=1)

    step = first_true(violates, 0, T)
    # Step T + 1 is never evaluated, so what the last step adds is in no iterate.
    while step < T - 1:
        i = draws[step]
        change = np.where(Y[i] * products[i] < thresholds[step], Y[i], 0.0)
        beta[i] += change
        averaged[i] += (harmonic[T] - harmonic[step + 1]) * change
        products += np.outer(K.rows([i])[0], change)
        step = first_true(violates, step + 1, T)
    alpha = averaged / (lam * T) if average else beta / (lam * T)
    monitor.n_iter = T
    gap = soft_margin_gap(K, Y, lam, alpha)
    return monitor.result(alpha, gap, status=Status.COMPLETED, method="sgd")


def soft_margin_gap(K: Any, Y: np.ndarray, lam: float, alpha: np.ndarray) -> float:
    """The duality gap at ``alpha``, taking the nearest feasible dual point to it.

    The dual is ``max_theta mean(theta) - ||sum_i theta_i y_i phi(x_i)||^2 / (2 lam n^2)`` over
    ``0 <= theta <= 1``; at the optimum ``alpha = theta y / (lam n)``.
    """
    n = len(Y)
    scores = K @ alpha
    primal = 0.5 * lam * np.sum(alpha * scores, axis=0)
    primal = primal + np.mean(np.maximum(0.0, 1.0 - Y * scores), axis=0)
    theta = np.clip(lam * n * Y * alpha, 0.0, 1.0)
    dual_alpha = theta * Y / (lam * n)
    norms = np.sum(dual_alpha * (K @ dual_alpha), axis=0)
    dual = np.mean(theta, axis=0) - 0.5 * lam * norms
    return float(np.max(primal - dual))
