"""Kernel ridge by preconditioned conjugate gradients: the exact problem, products only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mercer.arrays import as_numpy, backend, like, namespace
from mercer.solvers.conjugate_gradients import conjugate_gradients, dots, relative
from mercer.solvers.pivoted_cholesky import LowRank, randomly_pivoted_cholesky
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import (
    EPS,
    as_columns,
    float32_is_small,
    is_negligible,
    rounding_advice,
    weighted_mean,
)

# The preconditioner's rank over sqrt(n): to build it then takes the time of a few products.
RANK = 11


class PcgSolution(NamedTuple):
    """Dual coefficients ``(n, t)``, intercepts ``(t,)``, and bounds ``(t,)`` on the distance.

    ``bound`` is at least ``||f - f_exact||_H`` for each target, so that
    ``|f - f_exact|(x) <= sqrt(k(x, x)) bound`` at every point x.
    """

    alpha: np.ndarray
    intercept: np.ndarray
    bound: np.ndarray


def solve_pcg(
    K: Any,
    Y: np.ndarray,
    lam: float | np.ndarray,
    sample_weight: np.ndarray | None = None,
    *,
    fit_intercept: bool = False,
    single: Any = None,
    rank: int | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    max_time: float | None = None,
    start: np.ndarray | None = None,
    random_state: Any = 0,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Solve ``(K + lam S^{-1}) alpha + b = y`` for all targets at once, from products with K.

    In the coordinates of ``A = S^{1/2} K S^{1/2} + lam I`` the preconditioner is
    ``P = F F^T + lam I`` with F from randomly pivoted Cholesky, so that P is at most A in the
    order of positive semidefinite matrices. Hence for the residual r

    .. math:: \lVert f - \hat f \rVert_H^2 \le r^T A^{-1} r \le r^T P^{-1} r .

    Also ``||r||^2 / (4 lam)`` and ``r^T S^{1/2} K S^{1/2} r / lam^2`` bound the same distance;
    the least of the three is reported. An intercept confines everything to the vectors
    orthogonal to ``S^{1/2} 1``.

    Parameters
    ----------
    K : Gram operator of shape (n, n)
        Symmetric positive semidefinite; products, some rows and the diagonal are taken.
    Y : ndarray or, for an operator of tensors, tensor of shape (n,) or (n, t)
    lam : float or ndarray of shape (t,)
        Positive regulariser, one for all targets or one each.
    sample_weight : ndarray of shape (n,), optional
    fit_intercept : bool
    single : operator of shape (n, n), optional
        Quicker products, of float32 accuracy. The residual is then computed afresh with K
        whenever it has shrunk a thousandfold, and K takes over where that shows no progress.
    rank : int, optional
        Of the preconditioner; None is 11 sqrt(n), or what the memory budget allows. Less is taken
        where the trace of what is left of the matrix falls below lam.
    tol : float
        Stop when the residual is at most this times the right-hand side.
    max_iter : int
        Products at most.
    max_time : float, optional
        Seconds at most.
    start : ndarray of shape (n, t), optional
        Coefficients to go on from.
    random_state : RandomState or int
    report : callable, optional
        ``report(n_iter, gap)``; a true return value stops the iteration.

    Returns
    -------
    Result
        ``value`` is a `PcgSolution`; ``gap`` is ``||r|| / ||S^{1/2} y||``, the worst over targets,
        computed with K; ``bound`` is the largest of the bounds.

    References
    ----------
    Díaz, Epperly, Frangella, Tropp and Webber (2023), "Robust, randomized preconditioning for
    kernel ridge regression".

    Examples
    --------
    >>> from mercer import gram, kernels
    >>> K = gram(kernels.Linear(), [[1.0], [2.0]])
    >>> solve_pcg(K, [3.0, 4.0], lam=1.0).value.alpha.ravel().round(3).tolist()
    [1.167, 0.333]
    """
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    Y, lams, weight = as_columns(Y, lam, sample_weight)
    system = _System(K, lams, weight, fit_intercept)
    _refuse_singular(system)
    low = system.low_rank(rank, random_state)
    precondition = Preconditioner(low.factor, lams, system.constant)
    xp = namespace(Y)
    mean = weighted_mean(Y, weight) if fit_intercept else like(np.zeros(Y.shape[1]), Y)
    B = system.root * (Y - mean)
    X = xp.zeros_like(B)
    if start is not None:
        rooted = xp.where(system.root > 0, system.root, 1.0)
        X = like(start.reshape(tuple(B.shape)), B) * (system.root > 0) / rooted
        X = system.projected(X)
    quick, largest = None, float(system.diagonal.max())
    if single is not None and float32_is_small(len(Y), largest, float(lams.min())):
        quick = partial(system.product, single)
    product = partial(system.product, K)

    def residual(X: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return B[:, columns] - product(X, columns)

    R, stalled = conjugate_gradients(residual, product, precondition, B, X, monitor, quick)
    bounds = _bounds(system, precondition, R)
    solution = PcgSolution(system.root * X, mean + system.level(X), bounds)
    result = monitor.result(
        solution,
        relative(R, B),
        status=Status.STALLED if stalled else None,
        method=f"pcg with a preconditioner of rank {low.factor.shape[1]}",
    )
    if stalled:
        result = result.advised(rounding_advice(precondition.largest(), lams))
    return replace(result, bound=float(bounds.max(initial=0.0)))


class Preconditioner:
    """``P^{-1}`` for ``P = F F^T + lam I`` by Woodbury's formula, one lam per column.

    Parameters
    ----------
    factor : ndarray of shape (n, r)
    lam : ndarray of shape (t,)
    constant : ndarray of shape (n,) or None
        A unit vector; P is then confined to those orthogonal to it.
    """

    def __init__(self, factor: np.ndarray, lam: np.ndarray, constant: np.ndarray | None = None):
        self.factor, self.lam, self.constant = factor, lam, constant
        arrays = backend(factor)
        self._inner = arrays.inner_products(factor)
        self._solve = {}
        for value in np.unique(lam):
            shifted = arrays.copy(self._inner)
            shifted.reshape(-1)[:: len(shifted) + 1] += value
            self._solve[value] = arrays.cholesky(shifted)
        if constant is not None:
            self._image = {v: self._plain(constant[:, None], v) for v in self._solve}

    def largest(self) -> float:
        """The largest eigenvalue of ``F F^T``."""
        inner = as_numpy(self._inner)
        return float(np.linalg.eigvalsh(inner)[-1]) if len(inner) else 0.0

    def _plain(self, R: np.ndarray, lam: float) -> np.ndarray:
        return (R - self.factor @ self._solve[lam](self.factor.T @ R)) / lam

    def __call__(self, R: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """``P^{-1} R`` for the columns of these numbers, shape (n, so many)."""
        Z, lams = namespace(R).empty_like(R), self.lam[columns]
        for lam in np.unique(lams):
            at = np.flatnonzero(lams == lam)
            Z[:, at] = self._plain(R[:, at], lam)
            if self.constant is not None:
                image = self._image[lam]
                Z[:, at] -= image * ((self.constant @ Z[:, at]) / (self.constant @ image))
        return Z


class _System:
    """``A = S^{1/2} K S^{1/2} + lam I``, confined to vectors orthogonal to the constant if asked.

    The constant is ``S^{1/2} 1`` at unit length.
    """

    def __init__(self, K: Any, lam: np.ndarray, weight: np.ndarray, fit_intercept: bool):
        self.K, self.lam = K, lam
        self.root = (weight**0.5)[:, None]
        self.weighted = bool((weight != 1.0).any())
        self.total = float(weight.sum())
        # The trace of K bounds its norm, and its diagonal its entries.
        self.diagonal = weight * like(K.diagonal(), weight)
        fit_intercept = fit_intercept and self.total > 0
        self.constant = self.root[:, 0] / self.total**0.5 if fit_intercept else None

    def projected(self, V: np.ndarray) -> np.ndarray:
        if self.constant is None:
            return V
        return V - self.constant[:, None] * (self.constant @ V)

    def product(self, K: Any, V: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """``A V`` for the columns of these numbers, by way of products with K."""
        lam = like(self.lam[columns], V)
        return self.projected(self.root * (K @ (self.root * V))) + lam * V

    def level(self, X: np.ndarray) -> np.ndarray:
        """The intercept minus the mean of y: the weighted mean of ``-K alpha``."""
        if self.constant is None:
            return like(np.zeros(X.shape[1]), X)
        # K times the weights, rather than K alpha, so that one column serves all targets.
        means = (self.K @ (self.root**2)).ravel()
        return -(means @ (self.root * X)) / self.total

    def low_rank(self, rank: int | None, random_state: Any) -> LowRank:
        n = len(self.root)
        if rank is None:
            rank = int(
                min(np.ceil(RANK * np.sqrt(n)), backend(self.root).budget(self.root) / (8.0 * n))
            )

        def rows(indices: np.ndarray) -> np.ndarray:
            K = self.K.rows(indices)
            return self.root[indices] * K * self.root[:, 0] if self.weighted else K

        # Beyond a trace of lam the condition number is below two.
        return randomly_pivoted_cholesky(
            rows,
            self.diagonal,
            max(1, rank),
            trace_tol=float(self.lam.min()),
            random_state=random_state,
        )


def _bounds(system: _System, precondition: Preconditioner, R: np.ndarray) -> np.ndarray:
    """Three bounds on the distance in H, the least for each target: shape (t,)."""
    every, lam = np.arange(R.shape[1]), system.lam
    by_preconditioner = dots(R, precondition(R, every))
    by_gradient = dots(R, system.product(system.K, R, every)) / lam**2 - dots(R, R) / lam
    squared = np.minimum(by_preconditioner, dots(R, R) / (4 * lam))
    # The difference of the last is rounding where it is small compared with its terms.
    rounding = len(R) * EPS * dots(R, R) * float(system.diagonal.sum()) / lam**2
    squared = np.minimum(squared, np.maximum(by_gradient, 0.0) + rounding)
    return np.sqrt(np.maximum(squared, 0.0))


def _refuse_singular(system: _System) -> None:
    """Raise a ValueError where lam is lost in the rounding of K."""
    lowest, trace = float(system.lam.min()), float(system.diagonal.sum())
    if is_negligible(lowest, trace):
        number = trace / lowest if lowest > 0 else np.inf
        raise ValueError(
            f"alpha={lowest:.3g} is below the rounding error of a Gram matrix of trace "
            f"{trace:.3g}: the condition "
            f"number is up to {number:.1e}. Choose a larger alpha, or solver='eigh', which returns "
            "the solution of minimum norm"
        )
