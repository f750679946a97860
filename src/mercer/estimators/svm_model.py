"""What the support vector machines share: parameters, the call of the solver, predictions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from mercer import kernels as K
from mercer.arrays import memory_budget, n_rows, take_rows
from mercer.estimators.constraints import KERNEL, POSITIVE
from mercer.estimators.inputs import input_tags, is_precomputed, training_gram, validate_query
from mercer.estimators.progress import reporter
from mercer.estimators.svm_forms import Form
from mercer.operators import GramOperator, gram
from mercer.solvers.kept_rows import origin
from mercer.solvers.quadratic_program import restrict
from mercer.solvers.result import Result, Status
from mercer.solvers.support_vectors import combined, solve_programs

PARAMETERS: dict = {
    **{name: KERNEL[name] for name in ("kernel", "gamma", "degree", "coef0", "indefinite")},
    "shrinking": ["boolean"],
    "tol": [POSITIVE],
    "cache_size": [POSITIVE],
    "verbose": ["verbose"],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "fit_intercept": ["boolean"],
    "solver": [StrOptions({"auto", "smo", "interior_point"})],
    "max_time": [POSITIVE, None],
    "warm_start": ["boolean"],
}
PENALTY = Interval(Real, 0, None, closed="right")
# Up to so many points a kernel in float32 saves no time; of more, so many show its rounding.
_FEW_POINTS = 1024
_AUDITED = 64
# What float32 leaves of tol to the measured rounding.
_DOUBT = 0.2
SHARE = Interval(Real, 0, 1, closed="right")


class SupportVectorMachine(CallbackSupportMixin, BaseEstimator):
    """Base of the five machines; `SVC` documents the parameters they share."""

    _kernel_callable = "gram"

    def _budget(self) -> float:
        """Bytes for the Gram: scikit-learn's ``working_memory``, or ``cache_size`` if larger."""
        return max(memory_budget(), self.cache_size * 2**20)

    def _solve(
        self,
        forms: list[Form],
        starts: list[np.ndarray | None],
        begun: float,
        tol: float | None = None,
    ) -> list[Result]:
        """Solve forms on one Gram matrix, in what is left of ``max_time``."""
        left = None
        if self.max_time is not None:
            left = max(0.0, self.max_time - (time.perf_counter() - begun))
        results = solve_programs(
            [form.program for form in forms],
            solver=self.solver,
            tol=self.tol if tol is None else tol,
            max_iter=None if self.max_iter == -1 else self.max_iter,
            max_time=left,
            starts=starts,
            budget=self._budget(),
            report=reporter(self),
        )
        if any(result.status is Status.INFEASIBLE for result in results):
            raise ValueError(self._infeasible())
        return results

    def _solve_on(
        self,
        X: Any,
        kernel: K.Kernel,
        forms_of: Callable[[GramOperator], list[Form]],
        begun: float,
    ) -> tuple[GramOperator, list[Form], list[Result]]:
        """The Gram operator of X, the forms on it and their solutions.

        Points in float32 have kernel values in float32 as long as their rounding is small beside
        tol, before by estimate and afterwards by measurement on some points; else in float64.
        """
        points = X if _may_be_single(X) else in_double(X)
        operator = training_gram(self, points, kernel, store=False)
        forms = forms_of(operator)
        if operator.dtype == np.float32 and _rounding(forms) > self.tol:
            points = in_double(X)
            operator = training_gram(self, points, kernel, store=False)
            forms = forms_of(operator)
        starts = [self._last_point(form, column) for column, form in enumerate(forms)]
        if operator.dtype != np.float32:
            return operator, forms, self._solve(forms, starts, begun)
        results = self._solve(forms, starts, begun, (1 - _DOUBT) * self.tol)
        error = _measured_rounding(kernel, X, forms, results)
        results = [_with_error(form, r, error) for form, r in zip(forms, results, strict=True)]
        if any(r.status.ok and r.value.violation > self.tol for r in results):
            operator = training_gram(self, in_double(X), kernel, store=False)
            forms = forms_of(operator)
            results = self._solve(forms, [r.value.a for r in results], begun)
        return operator, forms, results

    def _last_point(self, form: Form, column: int = 0) -> np.ndarray | None:
        """Where the last fit ended, if ``warm_start`` asks for it and it had as many variables."""
        if not self.warm_start or not hasattr(self, "result_"):
            return None
        value = self.result_.value
        solutions = value if isinstance(value, tuple) else (value,)
        last = solutions[column].a if column < len(solutions) else np.empty(0)
        return last if len(last) == len(form.program.p) else None

    def _infeasible(self) -> str:
        return f"no model satisfies the constraints of {self!r}"

    def _close(self, results: list[Result]) -> None:
        """Record how the solver did."""
        self.result_ = combined(results)
        self.dual_gap_ = self.result_.gap
        self.fit_status_ = 0 if self.result_.status.ok else 1
        if self.verbose:
            print(f"[{type(self).__name__}] {self.result_.message}")

    def _keep(self, X: Any, support: np.ndarray) -> None:
        """Remember the support points, which for a precomputed kernel are indices alone."""
        self.support_ = support.astype(np.int32)
        given = is_precomputed(self.kernel)
        self.support_vectors_ = np.empty((0, 0)) if given else take_rows(X, support)
        self.shape_fit_ = tuple(getattr(X, "shape", (n_rows(X),)))

    def _expand(self, X: Any, coefficients: np.ndarray) -> np.ndarray:
        """``sum_i coefficients_i k(x, x_i)`` over the support, a row per point of X."""
        check_is_fitted(self)
        X = validate_query(self, X)
        if is_precomputed(self.kernel):
            return np.asarray(X[:, self.support_] @ coefficients)
        if not len(self.support_):
            return np.zeros((n_rows(X), coefficients.shape[1]))
        return np.asarray(gram(self.kernel_, X, self.support_vectors_, store=False) @ coefficients)

    def _feature_weights(self, coefficients: np.ndarray) -> np.ndarray:
        """``sum_i coefficients_i x_i`` for the linear kernel, one row per column; read-only."""
        if not hasattr(self, "kernel_") or type(self.kernel_) is not K.Linear:
            raise AttributeError("coef_ is only available when using a linear kernel")
        weights = np.asarray((self.support_vectors_.T @ coefficients).T)
        weights.flags.writeable = False
        return weights

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


class SingleMachine(SupportVectorMachine):
    """Base of the machines with one function f: the two regressions and the one-class machine."""

    def _form(self, gram_matrix: Any, targets: np.ndarray, weight: np.ndarray) -> Form:
        raise NotImplementedError

    def _fit_one(
        self, X: Any, kernel: K.Kernel, targets: np.ndarray, weight: np.ndarray
    ) -> tuple[Form, Result]:
        """Solve for the points of positive weight, and set what is learned."""
        begun = time.perf_counter()
        n = len(weight)
        index = np.flatnonzero(weight > 0)

        def forms_of(operator: GramOperator) -> list[Form]:
            return [self._form(restrict(operator, index), targets[index], weight[index])]

        operator, (form,), (result,) = self._solve_on(X, kernel, forms_of, begun)
        expansion = form.expansion(result.value)
        coefficients = np.zeros(n)
        coefficients[index] = expansion.coefficients
        coefficients = operator.carry(coefficients)
        support = np.flatnonzero(coefficients)
        self.kernel_ = kernel
        self._keep(X, support)
        self.n_support_ = np.array([len(support)], dtype=np.int32)
        self.dual_coef_ = coefficients[None, support]
        self.intercept_ = np.array([expansion.intercept])
        self.margin_ = float(expansion.margin)
        self.n_iter_ = int(result.n_iter)
        return form, result

    def _values(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._expand(X, self.dual_coef_.T)[:, 0] + self.intercept_[0]

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, shape (1, n_features), for the linear kernel."""
        return self._feature_weights(getattr(self, "dual_coef_", np.empty((1, 0))).T)


def in_double(X: Any) -> Any:
    """Numbers in float64, whatever they came in; other objects as they are."""
    return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X


def _may_be_single(X: Any) -> bool:
    """Whether X is a dense array of float32 of many points; few are as fast in float64."""
    return isinstance(X, np.ndarray) and X.dtype == np.float32 and len(X) > _FEW_POINTS


def _rounding(forms: list[Form]) -> float:
    """How far rounding in float32 may move a gradient, roughly: errors of many signs add up."""
    worst = 0.0
    for form in forms:
        program = form.program
        room = np.minimum(program.hi - program.lo, np.inf)
        worst = max(worst, float(np.max(program.diagonal()) * np.sqrt(np.sum(room**2))))
    return float(np.finfo(np.float32).eps) * worst


def _measured_rounding(kernel: K.Kernel, X: Any, forms: list[Form], results: list[Result]) -> float:
    """The largest error of the gradients at some points spread over all, by float64 kernels."""
    n = n_rows(X)
    beta, images = np.zeros((n, len(forms))), np.full((n, len(forms)), np.nan)
    for column, (form, result) in enumerate(zip(forms, results, strict=True)):
        index, program = origin(form.program.K)[1], form.program
        beta[index, column] = result.value.coefficients
        image = (result.value.gradient - program.p)[: len(index)]
        images[index, column] = (
            image if program.signs is None else image * program.signs[: len(index)]
        )
    used = np.flatnonzero(np.any(beta, axis=1))
    if not len(used):
        return 0.0
    looked = np.unique(np.linspace(0, n - 1, _AUDITED).astype(int))
    exact = kernel(in_double(X[looked]), in_double(X[used])) @ beta[used]
    return float(np.nanmax(np.abs(exact - images[looked]), initial=0.0))


def _with_error(form: Form, result: Result, error: float) -> Result:
    """The result with its certificate widened by so much doubt about every gradient."""
    solution, program = result.value, form.program
    room = float(np.sum(np.where(solution.a != 0, program.hi - program.lo, 0.0)))
    gap = solution.gap + error * room / max(1.0, abs(solution.objective))
    widened = replace(solution, violation=solution.violation + 2 * error, gap=gap)
    return replace(result, value=widened, gap=gap)


def positive_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Weights of shape (n,), one where none are given; as in LIBSVM some must be positive."""
    # scikit-learn's check wants something with a length and a dtype, which a list of trees lacks.
    stand_in = np.empty((n_rows(X), 0))
    weight = _check_sample_weight(
        sample_weight, stand_in, dtype=np.float64, allow_all_zero_weights=True
    )
    if not np.any(weight > 0):
        raise ValueError(
            "Invalid input - all samples have zero or negative weights: sample_weight is at most "
            f"{weight.max()!r}; give some samples a positive weight"
        )
    return weight
