"""From a kernel machine's parameters to a loss, a solver and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.estimators.inputs import expand, stored, training_gram
from mercer.estimators.progress import reporter
from mercer.solvers import losses
from mercer.solvers.box import box_machine
from mercer.solvers.lbfgs import lbfgs
from mercer.solvers.losses import BoxLoss, Loss, PointwiseLoss
from mercer.solvers.newton import newton
from mercer.solvers.result import Result

CLASSIFICATION: dict[str, Callable[[Any], Loss]] = {
    "logistic": lambda machine: losses.Logistic(),
    "hinge": lambda machine: losses.Hinge(),
    "squared_hinge": lambda machine: losses.SquaredHinge(),
}
REGRESSION: dict[str, Callable[[Any], Loss]] = {
    "squared": lambda machine: losses.Squared(),
    "absolute": lambda machine: losses.Absolute(),
    "epsilon_insensitive": lambda machine: losses.EpsilonInsensitive(machine.epsilon),
    "huber": lambda machine: losses.Huber(machine.delta),
    "quantile": lambda machine: losses.Quantile(machine.quantile),
    "poisson": lambda machine: losses.Poisson(),
}


def loss_of(machine: Any, named: dict[str, Callable[[Any], Loss]]) -> Loss:
    """The machine's loss as an object."""
    return machine.loss if isinstance(machine.loss, Loss) else named[machine.loss](machine)


def scores_of(machine: Any, X: Any) -> np.ndarray:
    """The fitted function at new points, ``(m,)`` or one column per machine."""
    return expand(machine, X, machine.dual_coef_) + machine.intercept_


def fit_machines(
    machine: Any,
    X: Any,
    targets: np.ndarray,
    weight: np.ndarray | None,
    named: dict[str, Callable[[Any], Loss]],
) -> None:
    """Fit one machine per column of ``targets`` on one Gram matrix, and set the attributes."""
    loss = loss_of(machine, named)
    if weight is not None:
        if not isinstance(loss, PointwiseLoss):
            raise ValueError(
                f"sample_weight was given, and loss={type(loss).__name__}() is not a sum over "
                "points; weigh the points inside the loss, or derive it from PointwiseLoss"
            )
        loss = loss.weighted(weight)
    operator = training_gram(machine, X, machine.kernel_)
    K = stored(operator)
    results = []
    for y in targets.T:
        loss.check_targets(y)
        results.append(_solve(machine, K, np.ascontiguousarray(y), loss))
    coefficients = operator.carry(np.column_stack([result.value.alpha for result in results]))
    intercepts = np.array([result.value.intercept for result in results])
    flat = len(results) == 1
    machine.X_fit_ = X
    machine.dual_coef_ = coefficients[:, 0] if flat else coefficients
    machine.intercept_ = float(intercepts[0]) if flat else intercepts
    worst = max(results, key=lambda result: (not result.status.ok, result.gap))
    machine.result_ = replace(worst, seconds=sum(result.seconds for result in results))
    machine.n_iter_ = max(result.n_iter for result in results)


def _solve(machine: Any, K: np.ndarray, y: np.ndarray, loss: Loss) -> Result:
    """The method that suits the loss: box dual for corners, Newton for curves, else L-BFGS."""
    solver: Callable[..., Result] = lbfgs
    reason, max_iter = "the loss has no curvature", 10_000
    if loss.penalty is not None:
        reason = "the loss has its own penalty"
    elif isinstance(loss, BoxLoss):
        solver, reason, max_iter = box_machine, "the loss is piecewise linear", 100
    elif loss.curvature(y, np.zeros_like(y)) is not None:
        solver, reason, max_iter = newton, "the loss is smooth", 100
    result = solver(
        K,
        y,
        loss,
        machine.alpha,
        fit_intercept=machine.fit_intercept,
        tol=machine.tol,
        max_iter=max_iter if machine.max_iter is None else machine.max_iter,
        max_time=machine.max_time,
        report=reporter(machine),
    )
    return replace(result, method=f"{result.method}: {reason}")
