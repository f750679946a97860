"""From a ridge estimator's parameters to a solver and its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from mercer.arrays import n_rows
from mercer.estimators.fitting import warn_of_convergence
from mercer.estimators.inputs import expand, stored, training_gram, validate_query
from mercer.estimators.later import LATER, not_yet
from mercer.estimators.progress import reporter
from mercer.operators import small_feature_map
from mercer.solvers.cholesky import solve_cholesky
from mercer.solvers.eigh import Eigensystem, solve_eigh
from mercer.solvers.gradient_descent import gradient_descent, largest_stable_step
from mercer.solvers.primal import solve_primal
from mercer.solvers.result import Result, Status
from mercer.solvers.ridge import is_negligible

LATER_SOLVERS = {entry.value: entry.instead for entry in LATER if entry.parameter == "solver"}
SOLVERS = {"auto", "cholesky", "eigh", "primal", "gd"}


class Fit(NamedTuple):
    """Dual coefficients ``(n, t)``, and weights ``(D, t)`` with their map if made in the primal."""

    dual_coef: np.ndarray
    result: Result
    coef: np.ndarray | None = None
    feature_map: Any = None
    path: np.ndarray | None = None


def fit_ridge(estimator: Any, X: Any, Y: np.ndarray, weight: np.ndarray | None) -> Fit:
    """Fit targets ``(n,)`` or ``(n, t)`` with the solver the estimator asks for."""
    if estimator.solver in LATER_SOLVERS:
        raise not_yet("solver", estimator.solver, LATER_SOLVERS[estimator.solver])
    Y = Y.reshape(len(Y), -1)
    lam = _regularisers(estimator.alpha, Y.shape[1])
    phi, reason = None, ""
    if estimator.solver == "primal":
        phi, reason = estimator.kernel_.feature_map().fit(X), "as asked"
    elif estimator.solver == "auto":
        phi, reason = small_feature_map(estimator.kernel_, X, n_rows(X))
    if phi is None:
        return _in_the_dual(estimator, X, Y, lam, weight, reason)
    return _in_the_primal(phi, X, Y, lam, weight, reason)


def store(estimator: Any, X: Any, fit: Fit, *, flat: bool) -> None:
    """Set the fitted attributes, as vectors where there is one target."""

    def shaped(coefficients: np.ndarray | None) -> np.ndarray | None:
        return coefficients[..., 0] if flat and coefficients is not None else coefficients

    estimator.X_fit_ = X
    estimator.dual_coef_ = shaped(fit.dual_coef)
    estimator.coef_ = shaped(fit.coef)
    estimator.feature_map_ = fit.feature_map
    estimator.result_, estimator.n_iter_ = fit.result, fit.result.n_iter
    if fit.path is not None:
        estimator.path_ = shaped(fit.path)


def evaluate(estimator: Any, X: Any) -> np.ndarray:
    """The fitted function at new points, by the map where there is one."""
    if estimator.feature_map_ is None:
        return expand(estimator, X, estimator.dual_coef_)
    return np.asarray(
        estimator.feature_map_.transform(validate_query(estimator, X)) @ estimator.coef_
    )


def _in_the_primal(
    phi: Any, X: Any, Y: np.ndarray, lam: np.ndarray, weight: np.ndarray | None, reason: str
) -> Fit:
    mapped = phi.transform(X)
    result = solve_primal(mapped, Y, lam, weight)
    solution = result.value
    if solution.rank < min(mapped.shape):
        _warn_undetermined(lam, solution.rank, min(mapped.shape))
    result = replace(result, method=f"{result.method}: {reason}")
    return Fit(solution.dual_coef, result, solution.coef, phi)


def _in_the_dual(
    estimator: Any, X: Any, Y: np.ndarray, lam: np.ndarray, weight: np.ndarray | None, reason: str
) -> Fit:
    operator = training_gram(estimator, X, estimator.kernel_)
    if estimator.solver == "gd":
        fit = _by_descent(estimator, operator, Y, lam, weight)
    else:
        fit = _by_factorisation(estimator.solver, stored(operator), Y, lam, weight, reason)
    path = None if fit.path is None else operator.carry(fit.path)
    return fit._replace(dual_coef=operator.carry(fit.dual_coef), path=path)


def _by_factorisation(
    solver: str,
    K: np.ndarray,
    Y: np.ndarray,
    lam: np.ndarray,
    weight: np.ndarray | None,
    reason: str,
) -> Fit:
    if solver == "auto":
        scale = np.trace(K) if weight is None else float(weight @ K.diagonal())
        negligible = any(is_negligible(value, scale) for value in lam)
        solver = "eigh" if negligible else "cholesky"
        reason = "alpha is lost in rounding" if negligible else reason
    if solver == "cholesky":
        try:
            result = solve_cholesky(K, Y, lam, weight)
        except LinAlgError:
            solver, reason = "eigh", "K + alpha I is not positive definite after rounding"
    if solver == "eigh":
        system = Eigensystem(K, weight)
        result = solve_eigh(system, Y, lam)
        warn_if_undetermined(system, lam)
    method = f"{result.method}: {reason}" if reason else result.method
    return Fit(result.value, replace(result, method=method))


def _by_descent(
    estimator: Any, operator: Any, Y: np.ndarray, lam: np.ndarray, weight: np.ndarray | None
) -> Fit:
    path: list[np.ndarray] | None = [] if estimator.keep_path else None
    result = gradient_descent(
        operator,
        Y,
        lam,
        weight,
        step_size=estimator.step_size,
        max_iter=1000 if estimator.max_iter is None else estimator.max_iter,
        tol=estimator.tol,
        path=path,
        report=reporter(estimator),
    )
    if result.status is Status.DIVERGED:
        limit = largest_stable_step(operator, float(np.max(lam)), weight)
        result = result.advised(f"the largest stable step_size is {limit:.6g}")
    return Fit(result.value, result, path=None if path is None else np.stack(path))


def _regularisers(alpha: Any, n_targets: int) -> np.ndarray:
    lam = np.atleast_1d(np.asarray(alpha, dtype=np.float64)).ravel()
    if len(lam) not in (1, n_targets):
        raise ValueError(
            f"alpha has {len(lam)} values and y has {n_targets} targets; give one alpha, or one "
            "per target"
        )
    if np.any(lam < 0) or not np.all(np.isfinite(lam)):
        raise ValueError(f"alpha={alpha!r}: expected finite numbers that are not negative")
    return np.broadcast_to(lam, (n_targets,))


def warn_if_undetermined(system: Eigensystem, lam: np.ndarray) -> None:
    """Warn where the smallest regulariser is lost beside eigenvalues that are noise."""
    in_use = int(np.count_nonzero(system.weight))
    if system.rank < in_use and np.any(lam <= system.cutoff):
        _warn_undetermined(lam, system.rank, in_use)


def _warn_undetermined(lam: np.ndarray, rank: int, n: int) -> None:
    warn_of_convergence(
        f"alpha={np.min(lam):.3g} leaves the solution undetermined: the Gram matrix has numerical "
        f"rank {rank} of {n}. The least squares solution of minimum norm is returned; a larger "
        "alpha gives a stable one."
    )
