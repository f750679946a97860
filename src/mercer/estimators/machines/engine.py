"""From a kernel machine's parameters to losses, a solver and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mercer._sklearn import StrOptions
from mercer.arrays import backend, n_rows, to_device_of, to_float64
from mercer.arrays.remote import is_collection, is_remote
from mercer.estimators.centres import centres_of
from mercer.estimators.constraints import POSITIVE, at_least
from mercer.estimators.labels import weight_unit
from mercer.estimators.progress import reporter
from mercer.estimators.training_gram import stored, training_gram
from mercer.operators import DenseGram, GramOperator
from mercer.solvers import losses
from mercer.solvers.losses import BoxLoss, Logistic, Loss, PointwiseLoss, check_derivative
from mercer.solvers.nystrom.whitening import CentreWhitening
from mercer.solvers.qp.piecewise_linear_risk import piecewise_linear_dual
from mercer.solvers.result import Result
from mercer.solvers.risk.feature_span import FeatureSpan, Solution
from mercer.solvers.risk.lbfgs import lbfgs, span_lbfgs
from mercer.solvers.risk.newton import newton
from mercer.solvers.risk.piecewise import piecewise_linear_primal
from mercer.solvers.risk.smoothing_path import smoothing_path
from mercer.solvers.risk.softmax import softmax_machine
from mercer.solvers.risk.span_newton import span_newton

SOLVERS = {"auto", "exact", "nystrom"}
# Beyond so many points some twenty factorisations of the Gram matrix take minutes.
EXACT_AT_MOST = 5_000
# Beyond these values alpha changes no digit of the function, and its square exceeds float64.
SMALLEST_ALPHA, LARGEST_ALPHA = 1e-150, 1e150
# The bound on the distance from the exact machine takes n^2 values of the kernel: little compared
# with the fit where there are at most this many times as many points as centres, or few points.
BOUND_UP_TO_POINTS_PER_CENTRE, BOUND_UP_TO_POINTS = 20, 2_000

SOLUTION: dict = {
    "alpha": [POSITIVE],
    "fit_intercept": ["boolean"],
    "tol": [POSITIVE],
    "max_iter": [at_least(1), None],
    "max_time": [POSITIVE, None],
    "solver": [StrOptions(SOLVERS)],
    "n_centers": [at_least(1), None],
    "centers": [StrOptions({"pivoted", "uniform"}), "array-like", list],
    "random_state": ["random_state"],
}
CLASSIFICATION: dict[str, Callable[[], Loss]] = {
    "logistic": losses.Logistic,
    "hinge": losses.Hinge,
    "squared_hinge": losses.SquaredHinge,
}
REGRESSION: dict[str, Callable[[Any], Loss]] = {
    "squared": lambda machine: losses.Squared(),
    "absolute": lambda machine: losses.Absolute(),
    "epsilon_insensitive": lambda machine: losses.EpsilonInsensitive(machine.epsilon),
    "huber": lambda machine: losses.Huber(machine.delta),
    "poisson": lambda machine: losses.Poisson(),
}


def classification_loss(machine: Any) -> Loss:
    """The classifier's loss as an object."""
    return machine.loss if isinstance(machine.loss, Loss) else CLASSIFICATION[machine.loss]()


def regression_losses(machine: Any) -> list[Loss]:
    """The regressor's loss as an object, or one per quantile, in the order of their levels."""
    if isinstance(machine.loss, Loss):
        return [machine.loss]
    if machine.loss != "quantile":
        return [REGRESSION[machine.loss](machine)]
    return [losses.Quantile(float(level)) for level in np.sort(np.atleast_1d(machine.quantile))]


def is_logistic(loss: Loss) -> bool:
    """Whether the loss is the logistic one itself, whose scores give probabilities."""
    return type(loss) is Logistic


def has_levels(machine: Any) -> bool:
    """Whether a list of quantiles is asked for."""
    return (
        isinstance(machine.loss, str)
        and machine.loss == "quantile"
        and np.ndim(machine.quantile) > 0
    )


def fit_machines(
    machine: Any, X: Any, targets: np.ndarray, losses: list[Loss], weight: np.ndarray | None
) -> None:
    """Fit machines on one Gram matrix or one set of centres, and set the attributes.

    One per column of ``targets`` (n, t); for several losses one each, on the same target, whose
    predictions have the order of the losses.
    """
    lam = machine.alpha
    if isinstance(weight, np.ndarray) and losses[0].penalty is None:
        unit = weight_unit(weight)
        weight, lam = weight / unit, lam / unit  # the same function
    lam = float(np.clip(lam, SMALLEST_ALPHA, LARGEST_ALPHA))
    if weight is not None:
        losses = [_weighted(loss, weight) for loss in losses]
    for y in targets.T:
        losses[0].check_targets(y)
        check_derivative(losses[0], y)
    solver, reason = _choice(machine, X)
    softmax = is_logistic(losses[0]) and targets.shape[1] > 1
    if solver == "exact" and not softmax and len(losses) == 1:
        fit = _over_points(machine, X, targets, losses[0], lam)
    else:
        fit = _over_features(machine, X, targets, losses, lam, weight, solver, softmax)
    flat = len(fit.intercept) == 1 and not has_levels(machine)
    coef: Any = fit.coef
    intercept: Any = fit.intercept
    coef, intercept = (to_device_of(A, fit.points) for A in (coef, intercept))
    reason = "; ".join(filter(None, (reason, backend(fit.points).note(fit.points))))
    machine.X_fit_ = fit.points
    machine.dual_coef_ = coef[:, 0] if flat else coef
    machine.intercept_ = float(fit.intercept[0]) if flat else intercept
    worst = max(fit.results, key=lambda result: (not result.status.ok, result.gap))
    method = f"{worst.method}; {reason}" if reason else worst.method
    seconds = sum(result.seconds for result in fit.results)
    bounds = [result.bound for result in fit.results if result.bound is not None]
    bound = max(bounds) if len(bounds) == len(fit.results) else None
    machine.result_ = replace(worst, seconds=seconds, method=method, bound=bound)
    machine.n_iter_ = max(result.n_iter for result in fit.results)


class _Fit(NamedTuple):
    """Points expanded in, coefficients (m, c), biases (c,), and one result per problem solved."""

    points: Any
    coef: Any
    intercept: np.ndarray
    results: list[Result]


def _choice(machine: Any, X: Any) -> tuple[str, str]:
    """The solver, and why where it was not asked for."""
    n = n_rows(X)
    if machine.solver != "auto":
        return machine.solver, ""
    if is_remote(X):
        return "nystrom", "the points are remote"
    if machine.n_centers is not None:
        return "nystrom", "n_centers is given"
    if n > EXACT_AT_MOST:
        return "nystrom", f"{n} points are more than the {EXACT_AT_MOST} of an exact fit"
    return "exact", ""


def _weighted(loss: Loss, weight: np.ndarray) -> Loss:
    if not isinstance(loss, PointwiseLoss):
        raise ValueError(
            f"sample_weight was given, and loss={type(loss).__name__}() is not a sum over "
            "points; weigh the points inside the loss, or derive it from PointwiseLoss"
        )
    return loss.weighted(weight)


def _over_points(machine: Any, X: Any, targets: np.ndarray, loss: Loss, lam: float) -> _Fit:
    """One machine per target, each with a coefficient for every point."""
    operator, K = _stored_gram(machine, X)
    solvers = {"box": piecewise_linear_dual, "newton": newton, "lbfgs": lbfgs}
    results = []
    for y in targets.T:
        y = np.ascontiguousarray(y)
        name, reason, max_iter = _method(loss, y)
        result = solvers[name](
            K,
            y,
            loss,
            lam,
            fit_intercept=machine.fit_intercept,
            **_stopping(machine, max_iter),
        )
        results.append(replace(result, method=f"{result.method}: {reason}"))
    alpha = np.column_stack([result.value.alpha for result in results])
    intercept = np.array([result.value.intercept for result in results])
    return _Fit(X, operator.extend_coefficients(alpha), intercept, results)


def _stored_gram(machine: Any, X: Any) -> tuple[GramOperator, np.ndarray]:
    """The operator to train on, and its matrix on the host, where few points are solved for."""
    operator = training_gram(machine, to_float64(X), machine.kernel_)
    return operator, stored(operator)


def _over_features(
    machine: Any,
    X: Any,
    targets: np.ndarray,
    losses: list[Loss],
    lam: float,
    weight: np.ndarray | None,
    solver: str,
    softmax: bool,
) -> _Fit:
    """Machines in the span of all points or of a few centres, in coordinates of that span."""
    span, expansion, product = _span(machine, X, weight, solver)
    if softmax:
        T = (targets > 0).astype(np.float64)
        result = softmax_machine(span, T, lam, weight=weight, **_stopping(machine, 100))
        results = [replace(result, method=f"{result.method}: all classes together")]
    elif len(losses) > 1:
        boxes = [loss for loss in losses if isinstance(loss, BoxLoss)]
        result = piecewise_linear_primal(
            span, targets[:, 0], boxes, lam, **_stopping(machine, None)
        )
        results = [replace(result, method=f"{result.method}: quantiles that do not cross")]
    else:
        columns = (targets[:, j] for j in range(targets.shape[1]))
        results = [_in_span(machine, span, y, losses[0], lam) for y in columns]
    results = [_bounded(result, span, lam, product) for result in results]
    if is_remote(X):  # the dual point is with the points
        results = [replace(result, value=result.value._replace(u=None)) for result in results]
    if solver == "nystrom":
        words = f"nystrom with {span.r} centres"
        results = [replace(result, method=f"{words}, {result.method}") for result in results]
    z = np.hstack([result.value.z.reshape(span.p, -1) for result in results])
    intercept = z[-1] if machine.fit_intercept else np.zeros(z.shape[1])
    return _Fit(*expansion(z[: span.r]), intercept, results)


def _in_span(machine: Any, span: FeatureSpan, y: np.ndarray, loss: Loss, lam: float) -> Result:
    y = y if is_collection(y) else np.ascontiguousarray(y)
    name, reason, max_iter = _method(loss, y)
    stopping = _stopping(machine, max_iter)
    if name == "box":
        assert isinstance(loss, BoxLoss)
        if is_collection(y):
            result = smoothing_path(span, y, loss, lam, **stopping)
        else:
            result = piecewise_linear_primal(span, y, [loss], lam, **stopping)
    else:
        solver = span_newton if name == "newton" else span_lbfgs
        result = solver(span, y, loss, lam, **stopping)
    return replace(result, method=f"{result.method}: {reason}")


def _method(loss: Loss, y: np.ndarray) -> tuple[str, str, int | None]:
    """What suits the loss, why, and how many steps it may take; None for what the solver has."""
    if loss.penalty is not None:
        return "lbfgs", "the loss has its own penalty", 10_000
    if isinstance(loss, BoxLoss):
        return "box", "the loss is piecewise linear", None
    if loss.curvature(y, np.zeros_like(y)) is not None:
        return "newton", "the loss is smooth", 100
    return "lbfgs", "the loss has no curvature", 10_000


def _stopping(machine: Any, max_iter: int | None) -> dict[str, Any]:
    return {
        "tol": machine.tol,
        "max_iter": max_iter if machine.max_iter is None else machine.max_iter,
        "max_time": machine.max_time,
        "report": reporter(machine),
    }


def _span(
    machine: Any, X: Any, weight: np.ndarray | None, solver: str
) -> tuple[FeatureSpan, Callable[[np.ndarray], tuple[Any, np.ndarray]], Callable | None]:
    """The span, what takes weights to points and coefficients, and products with the exact K.

    The last is None where the span has all the points, or where they are too many.
    """
    n = n_rows(X)
    if solver == "exact":
        operator, K = _stored_gram(machine, X)
        kept, W, Phi = np.arange(1), np.zeros((1, 1)), np.zeros((n, 1))
        if K.diagonal().any():
            whitening = CentreWhitening(K)
            kept, W = whitening.kept, whitening.W
            Phi = whitening.features(DenseGram(K[:, kept]))

        def at_points(w: np.ndarray) -> tuple[Any, np.ndarray]:
            alpha = np.zeros((n, w.shape[1]))
            alpha[kept] = W @ w
            return X, operator.extend_coefficients(alpha)

        return FeatureSpan.of(Phi, machine.fit_intercept), at_points, None
    centres = centres_of(machine, X, X.weights if is_remote(X) else weight)
    whitening, r = centres.whitening, len(centres.whitening.kept)
    product = None
    if is_remote(X):
        span = X.span(centres, machine.fit_intercept)
        return span, lambda w: centres.expansion(X, whitening.apply(w)), product
    kept = 8 * n * r <= backend(centres.points).room(centres.points)
    span = FeatureSpan(lambda: centres.features(X), n, r, machine.fit_intercept, kept)
    if n <= max(BOUND_UP_TO_POINTS_PER_CENTRE * r, BOUND_UP_TO_POINTS):
        product = centres.whole(X).__matmul__
    return span, lambda w: centres.expansion(X, whitening.apply(w)), product


def _bounded(result: Result, span: FeatureSpan, lam: float, product: Callable | None) -> Result:
    """The result with a bound on the distance from the exact machine, where it is to be had.

    The dual at u with the exact K lies below the exact minimum, and the objective rises from there
    at least as fast as ``1/2 lam`` times the squared distance.
    """
    found: Solution = result.value
    if product is None or found.u is None or not np.isfinite(found.excess):
        return result
    u = found.u.reshape(span.n, -1)
    missing = float(np.sum(u * product(u))) - float(np.sum(span.norms(span.gather(u))))
    excess = found.excess + max(missing, 0.0) / (2 * lam)
    return replace(result, bound=float(np.sqrt(2 * excess / lam)))
