"""Stochastic gradient descent for the soft-margin SVM with kernels."""

from __future__ import annotations

import numpy as np

from mercer.arrays import memory_budget
from mercer.operators import DenseGram, FeatureGram, GramOperator
from mercer.solvers.online.score_cache import ScoreCache
from mercer.solvers.result import Monitor, Result, Status


def kernel_sgd(
    K: GramOperator,
    Y: np.ndarray,
    lam: float,
    draws: np.ndarray,
    *,
    average: bool = True,
    share: np.ndarray | None = None,
) -> Result:
    r"""Minimise ``lam/2 ||w||^2 + 1/n sum_i max(0, 1 - y_i <w, phi(x_i)>)`` by T drawn steps.

    With ``beta`` at zero, step t = 1 .. T uses ``alpha^(t) = beta / (lam t)``, takes the drawn
    point i, and adds ``y_i`` to ``beta_i`` if ``y_i sum_j alpha_j^(t) k(x_j, x_i) < 1``. The
    answer is the average of ``alpha^(1) .. alpha^(T)``. What is added at step s is divided by
    ``lam t`` at each later t, so its part of the average is ``(H_T - H_s) / (lam T)`` with
    harmonic numbers H, and no step needs to touch more than the scores of the points drawn.

    Parameters
    ----------
    K : GramOperator of shape (n, n)
        Only what it has between the points drawn, and products, are used.
    Y : ndarray of shape (n, c)
        Labels -1 and +1, one column per machine.
    lam : float
        Regulariser, positive.
    draws : ndarray of shape (T,)
        The points drawn, with replacement.
    average : bool
        Whether to return the average or the last iterate, ``alpha^(T)``.
    share : ndarray of shape (n,), optional
        What each point counts in the mean, in place of 1/n; the draws are from these shares.

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
    # Step T + 1 is never evaluated, so what step T adds is in no iterate.
    steps = np.arange(1, T)
    drawn, at = np.unique(draws[:-1], return_inverse=True)
    learner = ScoreCache(_among(K, drawn, T), Y[drawn])
    changed = learner.visit(at, lam * steps)
    alpha = np.zeros(Y.shape)
    if average:
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, T + 1))])
        parts = (harmonic[T] - harmonic[steps])[:, None] * changed * Y[draws[:-1]]
        for machine in range(Y.shape[1]):
            sums = np.bincount(at, weights=parts[:, machine], minlength=len(drawn))
            alpha[drawn, machine] = sums / (lam * T)
    else:
        alpha[drawn] = learner.coef.T / (lam * T)
    monitor.n_iter = T
    gap = soft_margin_gap(K, Y, lam, alpha, share)
    return monitor.result(alpha, gap, status=Status.COMPLETED, method="sgd")


def _among(K: GramOperator, drawn: np.ndarray, T: int) -> GramOperator:
    """The kernel between the points drawn: stored where it fits and each is likely to be used."""
    m, n = len(drawn), K.shape[0]
    part = K if m == n else K.part(drawn)
    if part is None or isinstance(K, DenseGram):
        return K if m == n else DenseGram(K.block(drawn, drawn))
    if isinstance(part, FeatureGram) or m > T // 2 or 8 * m**2 > memory_budget():
        return part
    return DenseGram(part.dense())


def soft_margin_gap(
    K: GramOperator,
    Y: np.ndarray,
    lam: float,
    alpha: np.ndarray,
    share: np.ndarray | None = None,
) -> float:
    """The duality gap at ``alpha``, taking the nearest feasible dual point to it.

    With points of share s, 1/n by default, the dual is
    ``max_theta sum_i s_i theta_i - ||sum_i s_i theta_i y_i phi(x_i)||^2 / (2 lam)`` over
    ``0 <= theta <= 1``; at the optimum ``alpha = s theta y / lam``. One product with the columns
    of the points that have coefficients is all it takes.
    """
    share = np.full(len(Y), 1 / len(Y)) if share is None else share
    s = share[:, None]
    # A regulariser so small that norms overflow leaves the gap unknown: infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        weighed = np.clip(lam * Y * alpha, 0.0, s)
        dual_alpha = weighed * Y / lam
        used = np.flatnonzero(alpha.any(axis=1))
        both = K.combination(used, np.hstack([alpha, dual_alpha])[used])
        scores, dual_scores = np.hsplit(both, 2)
        primal = 0.5 * lam * np.sum(alpha * scores, axis=0)
        primal = primal + share @ np.maximum(0.0, 1.0 - Y * scores)
        norms = np.sum(dual_alpha * dual_scores, axis=0)
        gap = float(np.max(primal - (np.sum(weighed, axis=0) - 0.5 * lam * norms)))
    return gap if np.isfinite(gap) else np.inf
