"""Kernel ridge on points that are tensors: the Gram matrix and its products stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import as_numpy, beside, doubled, free_memory, refuse_beyond_memory
from mercer.estimators.inputs import training_gram
from mercer.estimators.progress import reporter
from mercer.solvers.cholesky import solve_cholesky
from mercer.solvers.pcg import solve_pcg
from mercer.solvers.result import Result
from mercer.solvers.ridge import weighted_mean

SOLVERS = ("auto", "cholesky", "pcg", "nystrom")
MATRICES = 3  # that a factorisation holds


def solve_tensors(
    estimator: Any,
    X: Any,
    Y: np.ndarray,
    lam: np.ndarray,
    weight: np.ndarray | None,
    start: np.ndarray | None,
) -> tuple[Any, Result, np.ndarray, np.ndarray | None]:
    """Coefficients (n, t) as a tensor of X's, what the solver says, intercepts (t,) and bounds.

    By Cholesky while so many matrices fit the device's free memory, else by conjugate gradients.

    Parameters
    ----------
    estimator : with ``solver``, ``fit_intercept`` and what "pcg" takes
    X : (n, d) tensor
    Y : (n, t) array
    lam : (t,) array
    weight : (n,) array or None
    start : (n, t) array or None
    """
    if estimator.solver not in SOLVERS:
        raise ValueError(
            f"solver={estimator.solver!r} is not there for tensors; expected one of {SOLVERS}, or "
            "pass X.cpu().numpy()"
        )
    n, free = len(Y), free_memory(X)
    fits = free is None or MATRICES * 8 * n**2 <= free
    if estimator.solver == "cholesky" or (estimator.solver == "auto" and fits):
        return _by_cholesky(estimator, X, Y, lam, weight)
    wide = doubled(X)
    operator = training_gram(estimator, wide, estimator.kernel_, store=False)
    result = solve_pcg(
        operator,
        beside(Y, wide),
        lam,
        None if weight is None else beside(weight, wide),
        fit_intercept=estimator.fit_intercept,
        single=operator.single(),
        rank=estimator.n_centers,
        tol=estimator.tol,
        max_iter=1000 if estimator.max_iter is None else estimator.max_iter,
        max_time=estimator.max_time,
        start=start,
        random_state=estimator.random_state,
        report=reporter(estimator),
    )
    alpha, intercept, bounds = result.value
    return beside(alpha, X), result, as_numpy(intercept), bounds


def _by_cholesky(
    estimator: Any, X: Any, Y: np.ndarray, lam: np.ndarray, weight: np.ndarray | None
) -> tuple[Any, Result, np.ndarray, None]:
    refuse_beyond_memory(len(Y), MATRICES, X)
    wide = doubled(X)
    K = training_gram(estimator, wide, estimator.kernel_).dense()
    targets = beside(Y, wide)
    weights = None if weight is None else beside(weight, wide)
    try:
        result = solve_cholesky(K, targets, lam, weights, fit_intercept=estimator.fit_intercept)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"alpha={lam.min():.3g} is lost in the rounding of the Gram matrix, which with it is "
            "not positive definite; choose a larger alpha, or pass X.cpu().numpy() for the "
            "solution of minimum norm"
        ) from error
    intercept = np.zeros(Y.shape[1])
    if estimator.fit_intercept:
        ones = beside(np.ones(len(Y)), wide) if weights is None else weights
        intercept = as_numpy(weighted_mean(targets - K @ result.value, ones))
    return beside(result.value, X), result, intercept, None
