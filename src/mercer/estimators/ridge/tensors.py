"""Kernel ridge on points that are tensors: the Gram matrix and its products stay where they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.arrays import as_numpy, backend, like, refuse_beyond_memory, to_float64
from mercer.estimators.progress import reporter
from mercer.estimators.ridge.undetermined import warn_if_undetermined
from mercer.estimators.training_gram import training_gram
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.linear.cholesky import solve_cholesky
from mercer.solvers.linear.eigh import solve_eigh
from mercer.solvers.linear.pcg import solve_pcg
from mercer.solvers.result import Result
from mercer.solvers.ridge_problem import is_negligible, weighted_mean

SOLVERS = ("auto", "cholesky", "eigh", "pcg", "nystrom")
# Matrices that a factorisation holds, and those of a decomposition with its workspace.
MATRICES, EIGH_MATRICES = 3, {"native": 3, "torch": 6}


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
            f"solver={estimator.solver!r} is not available for tensors; expected one of {SOLVERS}, "
            "or pass X.cpu().numpy()"
        )
    n, free = len(Y), backend(X).free_memory(X)
    fits = free is None or MATRICES * 8 * n**2 <= free
    if estimator.solver in ("cholesky", "eigh") or (estimator.solver == "auto" and fits):
        return _by_factorisation(estimator, X, Y, lam, weight)
    wide = to_float64(X)
    operator = training_gram(estimator, wide, estimator.kernel_, store=False)
    result = solve_pcg(
        operator,
        like(Y, wide),
        lam,
        None if weight is None else like(weight, wide),
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
    return like(alpha, X), result, as_numpy(intercept), bounds


def _by_factorisation(
    estimator: Any, X: Any, Y: np.ndarray, lam: np.ndarray, weight: np.ndarray | None
) -> tuple[Any, Result, np.ndarray, None]:
    """By Cholesky, or by an eigendecomposition where that is asked for or alpha is too small."""
    most = EIGH_MATRICES["torch"] if estimator.solver == "eigh" else MATRICES
    refuse_beyond_memory(len(Y), most, X)
    wide = to_float64(X)
    K = training_gram(estimator, wide, estimator.kernel_).dense()
    weights = like(np.ones(len(Y)) if weight is None else weight, wide)
    lost = any(is_negligible(value, float(weights @ K.diagonal())) for value in lam)
    if estimator.solver == "eigh" or (estimator.solver == "auto" and lost):
        reason = "" if estimator.solver == "eigh" else ", alpha is below the rounding error of K"
        return _by_eigh(estimator, X, K, Y, lam, weight, reason)
    targets = like(Y, wide)
    try:
        given = None if weight is None else weights
        result = solve_cholesky(K, targets, lam, given, fit_intercept=estimator.fit_intercept)
    except np.linalg.LinAlgError:
        reason = ", K + alpha I is not positive definite after rounding"
        return _by_eigh(estimator, X, K, Y, lam, weight, reason)
    intercept = np.zeros(Y.shape[1])
    if estimator.fit_intercept:
        intercept = as_numpy(weighted_mean(targets - K @ result.value, weights))
    return like(result.value, X), result, intercept, None


def _by_eigh(
    estimator: Any,
    X: Any,
    K: Any,
    Y: np.ndarray,
    lam: np.ndarray,
    weight: np.ndarray | None,
    reason: str,
) -> tuple[Any, Result, np.ndarray, None]:
    refuse_beyond_memory(len(Y), EIGH_MATRICES["torch"] - 1, X)
    system = Eigensystem(K, weight, estimator.fit_intercept)
    result = solve_eigh(system, Y, lam)
    warn_if_undetermined(system, lam)
    result = replace(result, method=f"{result.method}{reason}")
    return like(result.value, X), result, system.intercept(Y, result.value), None
