"""From a ridge estimator's parameters to a solver and its answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from mercer.arrays import (
    as_numpy,
    backend,
    is_tensor,
    memory_budget,
    n_rows,
    physical_memory,
    refuse_beyond_memory,
    to_device_of,
    to_float64,
)
from mercer.estimators.centres import fit_nystrom, numbers_per_point
from mercer.estimators.fitting import warn_of_convergence
from mercer.estimators.inputs import is_precomputed
from mercer.estimators.measured import (
    CHOLESKYS_PER_EIGH,
    ENOUGH_STEPS,
    MULTIPLICATIONS_PER_VALUE,
    REFINED_FROM_POINTS,
    STEPS_FROM_POINTS,
    STORED_FROM_FEATURES,
)
from mercer.estimators.progress import reporter
from mercer.estimators.ridge.tensors import solve_tensors
from mercer.estimators.ridge.undetermined import warn_if_undetermined, warn_undetermined
from mercer.estimators.training_gram import stored, training_gram
from mercer.operators import FeatureGram, GramOperator, TiledGram, gram, small_feature_map
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.linear.cholesky import solve_cholesky
from mercer.solvers.linear.eigh import solve_eigh
from mercer.solvers.linear.gradient_descent import gradient_descent, largest_stable_step
from mercer.solvers.linear.pcg import solve_pcg
from mercer.solvers.linear.primal import solve_primal
from mercer.solvers.linear.refinement import solve_refined
from mercer.solvers.result import Result, Status
from mercer.solvers.ridge_problem import float32_is_small, is_negligible, weighted_mean

SOLVERS = {"auto", "cholesky", "eigh", "primal", "pcg", "nystrom", "gd"}
# Beyond so many points the exact solution takes minutes per ten products.
EXACT_AT_MOST = 100_000


class Fit(NamedTuple):
    """Coefficients and all that goes with them.

    Attributes
    ----------
    dual_coef : ndarray of shape (m, t)
        Over the training points, or over ``points``.
    result : Result
    intercept : ndarray of shape (t,)
    coef, feature_map : ndarray of shape (D, t) and its map, where the fit was made in the primal
    path : ndarray of shape (steps, n, t), where it was kept
    bounds : ndarray of shape (t,), or None
        On the distance from the exact solution in the kernel's space.
    points : the points expanded in, where they are not the training points
    centres, moments : of a Nyström fit, for points to come
    """

    dual_coef: np.ndarray
    result: Result
    intercept: np.ndarray
    coef: np.ndarray | None = None
    feature_map: Any = None
    path: np.ndarray | None = None
    bounds: np.ndarray | None = None
    points: Any = None
    centres: Any = None
    moments: Any = None


def fit_ridge(
    estimator: Any,
    X: Any,
    Y: np.ndarray,
    weight: np.ndarray | None,
    start: np.ndarray | None = None,
) -> Fit:
    """Fit targets ``(n,)`` or ``(n, t)`` with the solver the estimator asks for.

    ``start`` has coefficients (n, t) that "pcg" may go on from. Where points and targets are
    float32, float32 accuracy will do.
    """
    if is_tensor(X):
        return _on_tensors(estimator, X, Y, weight, start)
    steps = _steps_that_pay(X, Y)
    Y = np.asarray(Y, dtype=np.float64).reshape(len(Y), -1)
    lam = regularisers(estimator.alpha, Y.shape[1])
    solver, reason, phi = _choice(estimator, X, lam)
    fit = None
    if steps and solver == "direct" and _steps_may_do(estimator.kernel_, X, lam, weight):
        fit = _in_the_dual(estimator, "pcg", X, Y, lam, weight, start, steps)
        reason = "points and targets are float32"
        if fit.result.status in (Status.MAX_ITER, Status.STALLED):
            fit, reason = None, f"pcg had not converged after {fit.result.n_iter} steps"
    if fit is not None:
        pass
    elif solver == "primal":
        fit = _in_the_primal(estimator, phi, X, Y, lam, weight)
    elif solver == "nystrom":
        fit = fit_on_centres(estimator, X, Y, lam, weight)
    else:
        fit = _in_the_dual(estimator, solver, X, Y, lam, weight, start)
    return fit._replace(result=_because(fit.result, reason)) if reason else fit


def _because(result: Result, reason: str) -> Result:
    """The result with the reason for its method, unless it has one."""
    name, mark, rest = result.method.partition("; ")
    return result if ": " in name else replace(result, method=f"{name}: {reason}{mark}{rest}")


def fit_on_centres(estimator: Any, X: Any, Y: np.ndarray, lam: np.ndarray, weight: Any) -> Fit:
    """Fit targets (n, t) over the span of a few centres."""
    centres, moments, result, bounds = fit_nystrom(estimator, X, Y, lam, weight)
    points, dual_coef = centres.expansion(X, result.value.coef)
    fit = Fit(dual_coef, result, result.value.intercept, bounds=bounds, points=points)
    return where_points_are(fit._replace(centres=centres, moments=moments))


def where_points_are(fit: Fit) -> Fit:
    """The same, with intercepts and bounds in the library of the points."""
    note = backend(fit.points).note(fit.points)
    result = _because(fit.result, note) if note else fit.result
    bounds = None if fit.bounds is None else to_device_of(fit.bounds, fit.points)
    return fit._replace(
        result=result, intercept=to_device_of(fit.intercept, fit.points), bounds=bounds
    )


def _on_tensors(
    estimator: Any, X: Any, Y: np.ndarray, weight: np.ndarray | None, start: np.ndarray | None
) -> Fit:
    Y = np.asarray(Y, dtype=np.float64).reshape(len(Y), -1)
    lam = regularisers(estimator.alpha, Y.shape[1])
    if estimator.solver == "nystrom" or (
        estimator.solver == "auto" and estimator.n_centers is not None
    ):
        return fit_on_centres(estimator, X, Y, lam, weight)
    start = None if start is None else start.reshape(Y.shape)
    dual_coef, result, intercept, bounds = solve_tensors(estimator, X, Y, lam, weight, start)
    return where_points_are(Fit(dual_coef, result, intercept, bounds=bounds, points=X))


def _steps_that_pay(X: Any, Y: np.ndarray) -> int:
    """Steps of "pcg" that take half the time of a factorisation; 0 where they are too few."""
    kinds = {getattr(X, "dtype", None), Y.dtype}
    if len(Y) < STEPS_FROM_POINTS or kinds != {np.dtype(np.float32)}:
        return 0
    steps = int(len(Y) ** 2 / (6 * (numbers_per_point(X) + MULTIPLICATIONS_PER_VALUE) * Y.size))
    return steps if steps >= ENOUGH_STEPS else 0


def _steps_may_do(kernel: Any, X: Any, lam: np.ndarray, weight: np.ndarray | None) -> bool:
    """Whether values are cheap to recompute, and float32 rounding small compared with lam."""
    pairs = kernel.over(X)
    diagonal = pairs.diagonal() if weight is None else weight * pairs.diagonal()
    return pairs.native and float32_is_small(n_rows(X), float(diagonal.max()), float(lam.min()))


def _choice(estimator: Any, X: Any, lam: np.ndarray) -> tuple[str, str, Any]:
    """The solver, why it was chosen, and the feature map of the primal."""
    kernel, n = estimator.kernel_, n_rows(X)
    if estimator.solver == "primal":
        return "primal", "as asked", kernel.feature_map().fit(X)
    if estimator.solver != "auto":
        return estimator.solver, "", None
    if estimator.n_centers is not None:
        return "nystrom", "n_centers is given", None
    phi, reason = small_feature_map(kernel, X, n)
    if phi is not None and 8 * (phi.n_features_out_ or 0) ** 2 <= memory_budget():
        return "primal", reason, phi
    if is_precomputed(kernel) or kernel.validity.status != "valid":
        return _direct(lam), reason, None
    mib, budget = 8 * n**2 / 2**20, memory_budget() / 2**20
    if mib <= budget:
        return _direct(lam), reason, None
    pairs, present = kernel.over(X, None), physical_memory()
    trace = float(np.sum(pairs.diagonal(), dtype=np.float64))
    fits = present is None or 3 * 8 * n**2 <= present
    beyond = f"{mib:.0f} MiB exceed the budget of {budget:.0f} MiB"
    if any(is_negligible(value, trace) for value in lam):
        solver = "eigh" if phi is None else "primal"
        return solver, "alpha is below the rounding error of K", phi
    by_features = isinstance(gram(kernel, X, store=False), FeatureGram)
    if fits and not pairs.native and not by_features:
        return _direct(lam), "kernel evaluations are expensive", None
    if by_features or n <= EXACT_AT_MOST:
        return "pcg", beyond, None
    return "nystrom", f"{beyond}, and {n} points are many for the exact problem", None


def _direct(lam: np.ndarray) -> str:
    return "eigh" if len(np.unique(lam)) >= CHOLESKYS_PER_EIGH else "direct"


def last_coefficients(estimator: Any, size: int) -> np.ndarray | None:
    """Coefficients to go on from, if asked for and if the last fit left so many."""
    last = getattr(estimator, "dual_coef_", None) if estimator.warm_start else None
    if last is None:
        return None
    last = as_numpy(last)
    return last if last.size == size else None


def store(estimator: Any, X: Any, fit: Fit, *, flat: bool) -> None:
    """Set the fitted attributes, as vectors where there is one target."""

    def shaped(coefficients: np.ndarray | None) -> np.ndarray | None:
        return coefficients[..., 0] if flat and coefficients is not None else coefficients

    estimator.X_fit_ = X if fit.points is None else fit.points
    estimator.intercept_ = float(fit.intercept[0]) if flat else fit.intercept
    estimator.error_bound_ = shaped(fit.bounds)
    estimator.dual_coef_ = shaped(fit.dual_coef)
    estimator.coef_ = shaped(fit.coef)
    estimator.feature_map_ = fit.feature_map
    estimator.result_, estimator.n_iter_ = fit.result, fit.result.n_iter
    if fit.path is not None:
        estimator.path_ = shaped(fit.path)
    if fit.moments is not None:
        estimator.centres_, estimator.moments_ = fit.centres, fit.moments
    elif hasattr(estimator, "moments_"):
        del estimator.centres_, estimator.moments_


def _in_the_primal(
    estimator: Any, phi: Any, X: Any, Y: np.ndarray, lam: np.ndarray, weight: np.ndarray | None
) -> Fit:
    mapped = phi.mapped(X)
    result = solve_primal(mapped, Y, lam, weight, fit_intercept=estimator.fit_intercept)
    solution = result.value
    # Centring takes one dimension from the points.
    full = min(mapped.shape[0] - estimator.fit_intercept, mapped.shape[1])
    if solution.rank < full:
        warn_undetermined(lam, solution.rank, full)
    return Fit(solution.dual_coef, result, solution.intercept, solution.coef, phi)


def _in_the_dual(
    estimator: Any,
    solver: str,
    X: Any,
    Y: np.ndarray,
    lam: np.ndarray,
    weight: np.ndarray | None,
    start: np.ndarray | None,
    steps: int = 1000,
) -> Fit:
    """By way of K; "pcg" takes so many steps at most unless the estimator has a number."""
    wide = len(getattr(X, "shape", ())) == 2 and X.shape[1] >= STORED_FROM_FEATURES
    store = solver == "gd" or (solver != "pcg" and (wide or n_rows(X) < REFINED_FROM_POINTS))
    operator = training_gram(estimator, to_float64(X), estimator.kernel_, store)
    if solver == "pcg":
        fit = _by_products(estimator, operator, Y, lam, weight, start, steps)
    elif solver == "gd":
        fit = _by_descent(estimator, operator, Y, lam, weight)
    else:
        fit = _by_factorisation(solver, operator, Y, lam, weight, estimator.fit_intercept)
    path = None if fit.path is None else operator.extend_coefficients(fit.path)
    return fit._replace(dual_coef=operator.extend_coefficients(fit.dual_coef), path=path)


def _by_products(
    estimator: Any,
    operator: Any,
    Y: np.ndarray,
    lam: np.ndarray,
    weight: np.ndarray | None,
    start: np.ndarray | None,
    steps: int,
) -> Fit:
    result = solve_pcg(
        operator,
        Y,
        lam,
        weight,
        fit_intercept=estimator.fit_intercept,
        single=operator.single() if isinstance(operator, TiledGram) else None,
        rank=estimator.n_centers,
        tol=estimator.tol,
        max_iter=steps if estimator.max_iter is None else estimator.max_iter,
        max_time=estimator.max_time,
        start=start,
        random_state=estimator.random_state,
        report=reporter(estimator),
    )
    alpha, intercept, bounds = result.value
    return Fit(alpha, result, intercept, bounds=bounds)


def _by_factorisation(
    solver: str,
    operator: GramOperator,
    Y: np.ndarray,
    lam: np.ndarray,
    weight: np.ndarray | None,
    fit_intercept: bool,
) -> Fit:
    """By Cholesky or eigendecomposition; "direct" is Cholesky unless rounding forbids it."""
    reason, K = "", operator
    if solver == "direct":
        diagonal = operator.diagonal()
        scale = float(np.sum(diagonal) if weight is None else weight @ diagonal)
        negligible = any(is_negligible(value, scale) for value in lam)
        solver = "eigh" if negligible else "cholesky"
        reason = ": alpha is below the rounding error of K" if negligible else ""
    result = None
    if solver == "cholesky" and len(Y) >= REFINED_FROM_POINTS:
        with suppress(LinAlgError):
            refuse_beyond_memory(len(Y), 1)
            result = solve_refined(operator, Y, lam, weight, fit_intercept=fit_intercept)
    if result is None:
        K = stored(operator)
    if result is None and solver == "cholesky":
        try:
            result = solve_cholesky(K, Y, lam, weight, fit_intercept=fit_intercept)
        except LinAlgError:
            solver, reason = "eigh", ": K + alpha I is not positive definite after rounding"
        # Whether rounding makes a pivot of a singular matrix negative or tiny is a matter of luck.
        if result is not None and not result.status.ok:
            result, reason = None, ": K + alpha I is singular after rounding"
        elif result is not None and result.advice:
            warn_of_convergence(result.advice)
    if result is None:
        system = Eigensystem(K, weight, fit_intercept)
        result = solve_eigh(system, Y, lam)
        warn_if_undetermined(system, lam)
    result = replace(result, method=f"{result.method}{reason}")
    return Fit(result.value, result, _intercept(K, result.value, Y, weight, fit_intercept))


def _intercept(
    K: Any, alpha: np.ndarray, Y: np.ndarray, weight: np.ndarray | None, fit_intercept: bool
) -> np.ndarray:
    """What goes with the coefficients: the weighted mean of y - K alpha, shape (t,)."""
    if not fit_intercept:
        return np.zeros(Y.shape[1])
    return weighted_mean(Y - K @ alpha, np.ones(len(Y)) if weight is None else weight)


def _by_descent(
    estimator: Any, operator: Any, Y: np.ndarray, lam: np.ndarray, weight: np.ndarray | None
) -> Fit:
    path: list[np.ndarray] | None = [] if estimator.keep_path else None
    result = gradient_descent(
        operator,
        Y,
        lam,
        weight,
        fit_intercept=estimator.fit_intercept,
        step_size=estimator.step_size,
        max_iter=1000 if estimator.max_iter is None else estimator.max_iter,
        tol=estimator.tol,
        path=path,
        report=reporter(estimator),
    )
    if result.status is Status.DIVERGED:
        limit = largest_stable_step(operator, float(np.max(lam)), weight)
        result = result.advised(f"the largest stable step_size is {limit:.6g}")
    intercept = _intercept(operator, result.value, Y, weight, estimator.fit_intercept)
    return Fit(result.value, result, intercept, path=None if path is None else np.stack(path))


def regularisers(alpha: Any, n_targets: int) -> np.ndarray:
    lam = np.atleast_1d(np.asarray(alpha, dtype=np.float64)).ravel()
    if len(lam) not in (1, n_targets):
        raise ValueError(
            f"alpha has {len(lam)} values and y has {n_targets} targets; give one alpha, or one "
            "per target"
        )
    if np.any(lam < 0) or not np.all(np.isfinite(lam)):
        raise ValueError(f"alpha={alpha!r}: expected finite numbers that are not negative")
    return np.broadcast_to(lam, (n_targets,))
