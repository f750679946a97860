"""What the support vector machines share: parameters, training, and predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from mercer import kernels as K
from mercer._sklearn import CallbackSupportMixin, Interval, StrOptions
from mercer.arrays import as_dense, backend, memory_budget, n_rows, take_rows, to_cpu, to_float64
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.constraints import KERNEL, POSITIVE
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, is_precomputed
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import validate_supervised
from mercer.estimators.progress import reporter
from mercer.estimators.svm.forms import Expansion, Form
from mercer.estimators.svm.layout import pairwise_layout
from mercer.estimators.svm.rounding import expected_rounding, measured_rounding, with_error
from mercer.estimators.svm.training import (
    NOT_FINITE,
    Solved,
    Task,
    Training,
    are_few,
    end_points,
    in_fastest_form,
    is_function,
    may_be_single,
    positive_weights,
    refuse_overflow,
    sparse_like,
)
from mercer.estimators.training_gram import refuse_indefinite_among, training_gram
from mercer.operators import GramOperator
from mercer.solvers.qp.restricted_gram import restrict
from mercer.solvers.qp.support_vectors import joint_result, solve_programs
from mercer.solvers.result import Budget, Result, Status

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
SHARE = Interval(Real, 0, 1, closed="right")
# Fraction of tol that is reserved for the measured rounding error of float32.
RESERVED_FOR_ROUNDING = 0.2


class SupportVectorMachine(CallbackSupportMixin, BaseEstimator):
    """Base of the five machines; `SVC` documents the parameters they share."""

    _arrays = ArraySupport(
        tensors="triton",
        function_of="sets",
        answers=(
            "support_vectors_", "dual_coef_", "pair_coef_", "intercept_", "offset_", "margin_"
        ),
    )  # fmt: skip

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,)
            Class labels, or target values for a regression.
        sample_weight : array-like of shape (n_samples,), optional
            Factors of C; points of zero or negative weight are dropped.

        Returns
        -------
        self
        """
        return self._train(self._training(X, y, sample_weight))

    def _form(self, gram_matrix: Any, targets: np.ndarray, weight: np.ndarray) -> Form:
        raise NotImplementedError

    def _penalties(self, weight: np.ndarray) -> np.ndarray:
        """C times the weight of each point, which may be infinite."""
        with np.errstate(over="ignore"):
            return self.C * weight

    def _hard(self) -> tuple[str, str]:
        """What allows no error, and what to use instead, for messages."""
        if np.isinf(self.C):
            return f"C={self.C!r}", "a finite C"
        return f"C={self.C!r}, times the weight of a point,", "a smaller C"

    def _model(self, form: Form, result: Result) -> Expansion:
        return form.expansion(result.value)

    def _infeasible(self) -> str:
        return f"no model satisfies the constraints of {self!r}"

    def _checked(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        X, y = validate_supervised(self, X, y, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _tasks(
        self, y: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Sequence[Task]]:
        """The class of every point by number, their order, and what to learn of them in it."""
        index = np.flatnonzero(weight > 0)
        codes, order = np.zeros(len(y), dtype=np.intp), np.arange(len(y))
        return codes, order, [Task(index, y[index], weight[index])]

    def _training(self, X: Any, y: Any, sample_weight: Any) -> Training:
        """Check the data, settle the kernel, and bring the points in order."""
        limits = self._limits()
        X, y = self._checked(X, y)
        codes, order, tasks = self._tasks(y, positive_weights(sample_weight, X))
        if not (is_function(self.kernel) or is_precomputed(self.kernel)):
            refuse_overflow(X)
        kernel = resolve_kernel(self, X)
        return Training(X, y, codes, order, kernel, tasks, limits)

    def _limits(self) -> Budget:
        """The steps and seconds of a fit that begins now."""
        return Budget(None if self.max_iter == -1 else self.max_iter, self.max_time, reporter(self))

    def _train(self, training: Training) -> Self:
        """Solve every task and keep what was learned."""
        return self._set_fitted(training, self._solve_tasks(training))

    def _set_fitted(self, training: Training, solved: Solved) -> Self:
        """Keep what was learned."""
        results = solved.results
        models = [self._model(f, r) for f, r in zip(solved.forms, results, strict=True)]
        found = np.zeros((len(training.codes), len(models)))
        for column, (task, model) in enumerate(zip(training.tasks, models, strict=True)):
            found[task.index, column] = model.coefficients
        carried = solved.operator.extend_coefficients(found)
        given = training.as_given(found)
        applied = given if carried is found else training.as_given(carried)
        self._set_coefficients(training, given, applied, models)
        self._refuse_indefinite_support(training, solved.operator)
        self._set_results(results)
        return self

    def _refuse_indefinite_support(self, training: Training, operator: GramOperator) -> None:
        """Refuse a kernel of unknown validity that is indefinite on the support points."""
        places = np.empty_like(training.order)
        places[training.order] = np.arange(len(places))
        refuse_indefinite_among(
            self, operator, training.X, training.kernel, places[self.support_], self.support_
        )

    @atomic_fit
    def _train_on(
        self, training: Training, operator: GramOperator, starts: list[np.ndarray] | None
    ) -> Self:
        """`_train` on a Gram operator made before, with all that goes around a fit."""
        forms = self._forms(training.tasks, operator)
        results = self._solve(forms, starts or self._last_points(forms), training.limits)
        return self._set_fitted(training, Solved(operator, forms, results))

    def _forms(self, tasks: Sequence[Task], gram_matrix: Any) -> list[Form]:
        """Every task as a quadratic program on its part of the Gram matrix."""
        return [self._form(restrict(gram_matrix, task.index), *task[1:]) for task in tasks]

    def _operator(self, training: Training, double: bool = True, store: bool = True) -> Any:
        """The Gram operator of the points in order."""
        X = training.X
        if not np.any(np.diff(training.order) != 1):
            return self._operator_of(X, training.kernel, double, store)
        ordered = take_rows(X, training.order)
        ordered = ordered[:, training.order] if is_precomputed(self.kernel) else ordered
        try:
            return self._operator_of(ordered, training.kernel, double, store)
        except (TypeError, ValueError):
            # The error may name a point, by its number; that is to be its number in X.
            self._operator_of(X, training.kernel, double, store)
            raise

    def _operator_of(self, X: Any, kernel: K.Kernel, double: bool, store: bool) -> Any:
        """The Gram operator of some points."""
        X = in_fastest_form(to_float64(X) if double else X, self.kernel)
        return training_gram(self, X, kernel, store=store)

    def _solve_tasks(self, training: Training) -> Solved:
        """Every task solved, from where the last fit ended if ``warm_start`` says so."""
        by_executor = {"native": self._solve_on_host, "torch": self._solve_on_device}
        return by_executor[backend(training.X).executor](training)

    def _solve_on_device(self, training: Training) -> Solved:
        """The solver itself measures in float64 what it finds in float32."""
        operator = self._operator(training, double=False, store=False)
        forms = self._forms(training.tasks, operator)
        results = self._solve(forms, self._last_points(forms), training.limits)
        return Solved(operator, forms, results)

    def _solve_on_host(self, training: Training) -> Solved:
        """Every task solved on operators that are computed here.

        Points in float32 have kernel values in float32 as long as their rounding is small
        compared with tol, first by an estimate and then measured at some points; else in float64.
        """
        single = may_be_single(training.X)
        operator = self._operator(training, double=not single, store=False)
        n = len(training.order)
        few = are_few(n) and 8 * n**2 <= self._budget()
        matrix = np.asarray(operator.dense(), dtype=np.float64) if few else operator
        forms = self._forms(training.tasks, matrix)
        if single and expected_rounding(forms) > self.tol:
            single, operator = False, self._operator(training, store=False)
            forms = self._forms(training.tasks, operator)
        starts = self._last_points(forms)
        if not single:
            return Solved(operator, forms, self._solve(forms, starts, training.limits))
        tol = (1 - RESERVED_FOR_ROUNDING) * self.tol
        results = self._solve(forms, starts, training.limits, tol)
        error = measured_rounding(training, forms, results)
        results = [with_error(form, r, error) for form, r in zip(forms, results, strict=True)]
        if any(r.status.ok and r.value.violation > self.tol for r in results):
            operator = self._operator(training, store=False)
            forms = self._forms(training.tasks, operator)
            ends, taken = [r.value.a for r in results], max(r.n_iter for r in results)
            again = self._solve(forms, ends, training.limits, taken=taken)
            results = [s.after(r) for r, s in zip(results, again, strict=True)]
        return Solved(operator, forms, results)

    def _budget(self) -> float:
        """Bytes for the Gram: scikit-learn's ``working_memory``, or ``cache_size`` if larger."""
        return max(memory_budget(), self.cache_size * 2**20)

    def _solve(
        self,
        forms: list[Form],
        starts: Sequence[np.ndarray | None],
        limits: Budget,
        tol: float | None = None,
        taken: int = 0,
    ) -> list[Result]:
        """Solve forms on one Gram matrix, in what is left of ``max_time`` after steps taken."""
        results = solve_programs(
            [form.program for form in forms],
            solver=self.solver,
            tol=self.tol if tol is None else tol,
            max_iter=limits.steps_left(taken),
            max_time=limits.seconds_left,
            starts=starts,
            budget=self._budget(),
            report=limits.report,
        )
        if any(result.status is Status.INFEASIBLE for result in results):
            raise ValueError(self._infeasible())
        return results

    def _last_points(self, forms: list[Form]) -> list[np.ndarray | None]:
        """Where the last fit ended, if ``warm_start`` asks for it and it had as many variables."""
        ends = end_points(self.result_) if self.warm_start and hasattr(self, "result_") else []
        ends += [np.empty(0)] * (len(forms) - len(ends))
        alike = zip(ends, forms, strict=False)
        return [end if len(end) == len(form.program.p) else None for end, form in alike]

    def _set_coefficients(
        self, training: Training, found: np.ndarray, applied: np.ndarray, models: list[Expansion]
    ) -> None:
        """Set what was learned, in LIBSVM's layout; for two classes f is positive for the later.

        ``found`` holds a column of coefficients per task, ``applied`` those for new points. For a
        precomputed kernel the support points are indices alone.
        """
        codes = training.codes
        used = np.any(found, axis=1)
        support = np.flatnonzero(used if applied is found else used | np.any(applied, axis=1))
        support = support[np.argsort(codes[support], kind="stable")]
        k = int(codes.max()) + 1
        sign = -1.0 if k == 2 else 1.0
        columns = sign * applied[support]
        dual = columns.T if k <= 2 else pairwise_layout(found[support], codes[support], k)
        if not np.all(np.isfinite(columns)):
            raise ValueError(f"{NOT_FINITE} the kernel's values on X are not; scale X")
        # Adding zero turns a flipped zero into a positive one.
        intercepts = sign * np.array([model.intercept for model in models]) + 0.0
        self._set_layout(training, support, dual, intercepts, [m.margin for m in models])

    def _set_layout(
        self,
        training: Training,
        support: np.ndarray,
        dual: np.ndarray,
        intercepts: np.ndarray,
        margins: Any,
    ) -> None:
        """Set what was learned from coefficients of the support points in LIBSVM's layout."""
        X, codes = training.X, training.codes
        if not (np.all(np.isfinite(dual)) and np.all(np.isfinite(intercepts))):
            raise ValueError(f"{NOT_FINITE} the kernel's values on X are not; scale X")
        given = is_precomputed(self.kernel)
        self.kernel_ = training.kernel
        self.support_ = support.astype(np.int32)
        self.support_vectors_ = np.empty((0, 0)) if given else take_rows(X, support)
        self.n_support_ = np.bincount(codes[support], minlength=codes.max() + 1).astype(np.int32)
        self.dual_coef_ = sparse_like(self.support_vectors_, dual)
        self.intercept_ = intercepts
        margins = np.asarray(margins)
        self.margin_ = margins if len(margins) > 1 else float(margins[0])
        self.shape_fit_ = tuple(getattr(X, "shape", (n_rows(X),)))

    def _set_results(self, results: list[Result]) -> None:
        """Record how the solver did."""
        self._set_result(joint_result(results))
        self.n_iter_: Any = int(results[0].n_iter)

    def _set_result(self, result: Result) -> None:
        """Record how the solver did, all tasks together."""
        self.result_ = result
        if not (result.advice or result.status.ok):
            self.result_ = self.result_.advised(self._advice(self.result_))
        self.dual_gap_ = self.result_.gap
        self.fit_status_ = 0 if self.result_.status.ok else 1
        if self.verbose:
            print(f"[{type(self).__name__}] {self.result_.message}")

    def _advice(self, result: Result) -> str:
        """What to do about a fit that stopped early; scikit-learn's words where it has some."""
        status, again = (
            result.status,
            "warm_start=True lets the next fit go on where this one ended",
        )
        if status is Status.MAX_TIME and result.n_iter == 0:
            return (
                f"max_time={self.max_time:g} was over before the first step, and nothing was "
                f"learned: raise it, or fit fewer points; {again}"
            )
        if status is Status.MAX_ITER:
            return (
                f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing "
                "your data with StandardScaler or MinMaxScaler. Or raise max_iter or tol; " + again
            )
        return f"{status.advice}; {again}" if status is not Status.STALLED else status.advice

    def _columns(self) -> np.ndarray:
        """Coefficients of every function over the support points, (n_SV, n_functions)."""
        return as_dense(to_cpu(self.dual_coef_)).T

    def _sums_by_class(self) -> bool:
        """Whether functions are summed over the support vectors of one class at a time."""
        return False

    def _summed(self, product: Callable[[slice, np.ndarray], np.ndarray]) -> np.ndarray:
        """All functions, (m, n_functions), from products of k(X, some support points) and V."""
        return product(slice(None), self._columns())

    def _largest_norm(self) -> float:
        """The largest norm of the coefficients of a function."""
        return float(np.linalg.norm(self._columns(), axis=0).max())

    @property
    def coef_(self) -> Any:
        """Weights of the features for the linear kernel, one row per function; read-only."""
        if not hasattr(self, "kernel_") or type(self.kernel_) is not K.Linear:
            raise AttributeError("coef_ is only available when using a linear kernel")
        points = to_cpu(self.support_vectors_)
        weights = sparse_like(points, np.asarray((points.T @ self._columns()).T))
        (weights.data if sp.issparse(weights) else weights).flags.writeable = False
        return weights

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())
