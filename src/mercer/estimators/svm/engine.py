"""What the support vector machines share: parameters, training, and predictions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import combinations
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from mercer import kernels as K
from mercer._sklearn import CallbackSupportMixin, Interval, StrOptions
from mercer.arrays import (
    as_dense,
    as_vectors,
    is_single,
    is_tensor,
    like,
    memory_budget,
    n_rows,
    take_rows,
    to_cpu,
    to_float64,
)
from mercer.arrays.libraries import is_recorded
from mercer.estimators.constraints import KERNEL, POSITIVE
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import (
    expand_tensor,
    input_tags,
    is_precomputed,
    refuse_indefinite_among,
    require_fitted,
    training_gram,
    validate_query,
)
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import validate_supervised, weights_of
from mercer.estimators.prediction_cache import cached_sum, has_fast_sum, packed_sums
from mercer.estimators.progress import reporter
from mercer.estimators.svm.forms import Expansion, Form
from mercer.estimators.svm.rounding import (
    are_few,
    expected_rounding,
    may_be_single,
    measured_rounding,
    with_error,
)
from mercer.expressions import tensors
from mercer.operators import GramOperator, expansion
from mercer.solvers.qp.quadratic_program import restrict
from mercer.solvers.qp.support_vectors import combined, followed, solve_programs
from mercer.solvers.result import Result, Status

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
NOT_FINITE = "The dual coefficients or intercepts are not finite:"
# Kernels of sparse points with more than this share of entries are computed faster from dense ones.
_DENSE_FROM = 0.01
# Columns of a given matrix are multiplied where they are, zeros for the others, if at least one of
# so many is needed.
MANY_COLUMNS = 4
# Kernel values of float32 points that are computed in double without a further look.
FEW_SINGLE = 2**17
# Values that a user's function of two sets of points is asked for at once.
AT_ONCE = 2**21
# Fraction of tol that is reserved for the measured rounding error of float32.
_DOUBT = 0.2


class Task(NamedTuple):
    """One function to learn: its points among all, their targets, and what each weighs."""

    index: np.ndarray
    targets: np.ndarray
    weight: np.ndarray

    def without(self, position: int) -> Task:
        """The same task with one of its points left out."""
        return Task(*(np.delete(part, position) for part in self))


class Training(NamedTuple):
    """What is made of the data before anything is solved, once for all prices and points left out.

    ``codes`` are the points' classes by number, zeros for machines without classes. The tasks, and
    the Gram matrix they are solved on, have the points in the given ``order``: class by
    class, so that the points of a pair of classes are two runs of every row.
    """

    X: Any
    y: np.ndarray
    codes: np.ndarray
    order: np.ndarray
    kernel: K.Kernel
    tasks: Any  # a sequence of Task
    begun: float

    def now(self) -> Training:
        """The same, with the clock of ``max_time`` set to zero."""
        return self._replace(begun=time.perf_counter())

    def as_given(self, values: np.ndarray) -> np.ndarray:
        """Values of the points in order, (n, c), as X has them."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


class Solved(NamedTuple):
    """Every task as a quadratic programme on one Gram matrix, and its solution."""

    operator: GramOperator
    forms: list[Form]
    results: list[Result]


class SupportVectorMachine(CallbackSupportMixin, BaseEstimator):
    """Base of the five machines; `SVC` documents the parameters they share."""

    _kernel_callable = "gram"
    _follows = (
        "support_vectors_", "dual_coef_", "pair_coef_", "intercept_", "offset_", "margin_"
    )  # fmt: skip

    @staticmethod
    def _takes_tensors(X: Any) -> bool:
        """Tensors are worked on where they are on a device; the host has faster ways."""
        return tensors.by_triton(X.device.type)

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
        return self._learn(self._prepare(X, y, sample_weight))

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

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        """Check the data, settle the kernel, and bring the points in order."""
        begun = time.perf_counter()
        X, y = self._checked(X, y)
        codes, order, tasks = self._tasks(y, positive_weights(sample_weight, X))
        if not (self._is_function() or is_precomputed(self.kernel)):
            refuse_overflow(X)
        kernel = resolve_kernel(self, X)
        return Training(X, y, codes, order, kernel, tasks, begun)

    def _learn(self, training: Training) -> Self:
        """Solve every task and keep what was learned."""
        return self._conclude(training, self._solve_tasks(training))

    def _conclude(self, training: Training, solved: Solved) -> Self:
        """Keep what was learned."""
        results = solved.results
        models = [self._model(f, r) for f, r in zip(solved.forms, results, strict=True)]
        found = np.zeros((len(training.codes), len(models)))
        for column, (task, model) in enumerate(zip(training.tasks, models, strict=True)):
            found[task.index, column] = model.coefficients
        carried = solved.operator.extend_coefficients(found)
        given = training.as_given(found)
        applied = given if carried is found else training.as_given(carried)
        self._keep(training, given, applied, models)
        self._judge_support(training, solved.operator)
        self._close(results)
        return self

    def _judge_support(self, training: Training, operator: GramOperator) -> None:
        """Refuse a kernel of unknown validity that is indefinite on the support points."""
        if is_tensor(training.X):
            return
        places = np.empty_like(training.order)
        places[training.order] = np.arange(len(places))
        refuse_indefinite_among(
            self, operator, training.X, training.kernel, places[self.support_], self.support_
        )

    @atomic_fit
    def _learn_alone(
        self, training: Training, operator: GramOperator, starts: list[np.ndarray] | None
    ) -> Self:
        """`_learn` on a Gram operator made before, with all that goes around a fit."""
        forms = self._forms(training.tasks, operator)
        results = self._solve(forms, starts or self._last_points(forms), training.begun)
        return self._conclude(training, Solved(operator, forms, results))

    def _forms(self, tasks: Sequence[Task], gram_matrix: Any) -> list[Form]:
        """Every task as a quadratic programme on its part of the Gram matrix."""
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
        X = self._readable(to_float64(X) if double else X)
        return training_gram(self, X, kernel, store=store)

    def _solve_tasks(self, training: Training) -> Solved:
        """Every task solved, from where the last fit ended if ``warm_start`` says so.

        Points in float32 have kernel values in float32 as long as their rounding is small beside
        tol, before by estimate and afterwards by measurement on some points; else in float64.
        """
        if is_tensor(training.X):  # whose solver measures in double what it finds in float32
            operator = self._operator(training, double=False, store=False)
            forms = self._forms(training.tasks, operator)
            return Solved(
                operator, forms, self._solve(forms, self._last_points(forms), training.begun)
            )
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
            return Solved(operator, forms, self._solve(forms, starts, training.begun))
        results = self._solve(forms, starts, training.begun, (1 - _DOUBT) * self.tol)
        error = measured_rounding(training, forms, results)
        results = [with_error(form, r, error) for form, r in zip(forms, results, strict=True)]
        if any(r.status.ok and r.value.violation > self.tol for r in results):
            operator = self._operator(training, store=False)
            forms = self._forms(training.tasks, operator)
            ends, taken = [r.value.a for r in results], max(r.n_iter for r in results)
            again = self._solve(forms, ends, training.begun, taken=taken)
            results = [followed(r, s) for r, s in zip(results, again, strict=True)]
        return Solved(operator, forms, results)

    def _budget(self) -> float:
        """Bytes for the Gram: scikit-learn's ``working_memory``, or ``cache_size`` if larger."""
        return max(memory_budget(), self.cache_size * 2**20)

    def _solve(
        self,
        forms: list[Form],
        starts: Sequence[np.ndarray | None],
        begun: float,
        tol: float | None = None,
        taken: int = 0,
    ) -> list[Result]:
        """Solve forms on one Gram matrix, in what is left of ``max_time`` after steps taken."""
        left = None
        if self.max_time is not None:
            left = max(0.0, self.max_time - (time.perf_counter() - begun))
        results = solve_programs(
            [form.program for form in forms],
            solver=self.solver,
            tol=self.tol if tol is None else tol,
            max_iter=None if self.max_iter == -1 else max(0, self.max_iter - taken),
            max_time=left,
            starts=starts,
            budget=self._budget(),
            report=reporter(self),
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

    def _keep(
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
        self._keep_layout(training, support, dual, intercepts, [m.margin for m in models])

    def _keep_layout(
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

    def _close(self, results: list[Result]) -> None:
        """Record how the solver did."""
        self._close_result(combined(results))
        self.n_iter_: Any = int(results[0].n_iter)

    def _close_result(self, result: Result) -> None:
        """Record how the solver did, all tasks together."""
        self.result_ = result
        if not self.result_.advice:
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

    def _points(self) -> Any:
        """The support vectors as they are computed with: on the host, or a tensor that stays."""
        points = self.support_vectors_
        return points if is_tensor(points) and self._takes_tensors(points) else to_cpu(points)

    def _expand(self, X: Any) -> np.ndarray:
        """Every function at the points of X, (m, n_functions)."""
        values = self._expand_plain(X)
        if values is not None:
            return values + to_cpu(self.intercept_)
        require_fitted(self)
        given, X = X, validate_query(self, X)
        if is_recorded(given) and not is_precomputed(self.kernel):
            return self._expand_tensor(as_vectors(given), self._columns())
        if is_tensor(X):
            return self._expand_tensor(X, self._columns())
        if is_precomputed(self.kernel):
            values = self._summed(lambda some, V: _given_product(X, self.support_[some], V))
        elif not len(self.support_):
            values = np.zeros((n_rows(X), len(to_cpu(self.intercept_))))
        else:
            values = self._expand_points(X)
        return np.asarray(values, dtype=np.float64) + to_cpu(self.intercept_)

    def _expand_plain(self, X: Any) -> np.ndarray | None:
        """The functions without intercepts at rows of plain numbers; None for anything else."""
        points = vars(self).get("support_vectors_")
        if type(points) is not np.ndarray or not len(points) or self._sums_by_class():
            return None
        if is_single(X) and type(X) is np.ndarray and X.ndim == 2:
            # Few values take less time in double than to find out whether single will do.
            if not is_single(points) or len(X) * len(points) > FEW_SINGLE:
                return None
            X = to_float64(X)
        return packed_sums(self, X, points, self._columns())

    def _sums_by_class(self) -> bool:
        """Whether functions are summed over the support vectors of one class at a time."""
        return False

    def _expand_points(self, X: Any) -> np.ndarray:
        """The functions without intercepts, from kernel values of X and the support vectors."""
        points = self._points()
        if self._is_function() and n_rows(X) * n_rows(points) <= AT_ONCE:
            if not self._single_is_enough(X):
                X, points = to_float64(X), to_float64(points)
            function: Any = self.kernel_
            return self._summed(lambda some, V: function.block(X, take_rows(points, some)) @ V)
        if has_fast_sum(self.kernel_) and (kept := cached_sum(self, points, self._columns())):
            return kept(X)
        if not self._single_is_enough(X):
            X, points = to_float64(X), to_float64(points)
        X, points = self._readable(X), self._readable(points)
        return self._summed(lambda some, V: expansion(self.kernel_, X, take_rows(points, some), V))

    def _summed(self, product: Callable[[slice, np.ndarray], np.ndarray]) -> np.ndarray:
        """All functions, (m, n_functions), from products of k(X, some support points) and V."""
        return product(slice(None), self._columns())

    def _expand_tensor(self, X: Any, coefficients: np.ndarray) -> Any:
        level = like(self.intercept_, X)
        if not len(self.support_):
            return X[:, :0].sum(1)[:, None] + level
        exact = X
        if not self._single_is_enough(X.detach()):
            exact, level = to_float64(X), to_float64(level)
        values = expand_tensor(self.kernel_, exact, self.support_vectors_, coefficients) + level
        return like(values, X)

    def _is_function(self) -> bool:
        return callable(self.kernel) and not isinstance(self.kernel, K.Kernel)

    def _readable(self, X: Any) -> Any:
        """X for the kernel: dense where sparse points have so many entries that it is faster.

        A function of the user's sees what the user gave.
        """
        if not sp.issparse(X) or self._is_function():
            return X
        n, d = X.shape
        few = X.nnz <= _DENSE_FROM * n * d or X.dtype.itemsize * n * d > memory_budget()
        return X if few else X.toarray()

    def _largest_norm(self) -> float:
        """The largest norm of the coefficients of a function."""
        return float(np.linalg.norm(self._columns(), axis=0).max())

    def _single_is_enough(self, X: Any) -> bool:
        """Whether kernel values in float32 give f to within ``tol``: roundings of many signs."""
        points = self._points()
        if not (is_single(X) and is_single(points)):
            return False
        ends = [float(self.kernel_.diag(P).max()) for P in (X, points)]
        largest = np.sqrt(ends[0] * ends[1])
        rounding = 16 * np.finfo(np.float32).eps * largest * self._largest_norm()
        return bool(rounding <= self.tol)

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


def end_points(result: Result) -> list[np.ndarray]:
    """The variables of every programme solved, where it ended."""
    value = result.value
    return [solution.a for solution in (value if isinstance(value, tuple) else (value,))]


def pairwise_layout(coefficients: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Coefficients of all pairs, (n_SV, n_pairs), in LIBSVM's layout, (n_classes - 1, n_SV).

    Examples
    --------
    >>> import numpy as np
    >>> pairwise_layout(np.array([[1.0, 2.0, 0.0], [-1.0, 0.0, 3.0]]), np.array([0, 1]), 3)
    array([[ 1., -1.],
           [ 2.,  3.]])
    """
    layout = np.zeros((n_classes - 1, len(codes)))
    members = [np.flatnonzero(codes == c) for c in range(n_classes)]
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        layout[j - 1, members[i]] = coefficients[members[i], column]
        layout[i, members[j]] = coefficients[members[j], column]
    return layout


def pairwise_columns(layout: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """The inverse of `pairwise_layout`, for support points in the order of their classes.

    Examples
    --------
    >>> import numpy as np
    >>> pairwise_columns(np.array([[1.0, -1.0], [2.0, 3.0]]), np.array([1, 1, 0]))
    array([[ 1.,  2.,  0.],
           [-1.,  0.,  3.]])
    """
    k, ends = len(n_support), np.concatenate([[0], np.cumsum(n_support)])
    columns = np.zeros((ends[-1], k * (k - 1) // 2))
    for column, (i, j) in enumerate(combinations(range(k), 2)):
        for one, other in ((i, j - 1), (j, i)):
            rows = slice(ends[one], ends[one + 1])
            columns[rows, column] = layout[other, rows]
    return columns


def sparse_like(points: Any, array: np.ndarray) -> Any:
    """The array in the sparse form of the points, where they are sparse, as in scikit-learn."""
    return type(points)(array) if sp.issparse(points) else array.copy()


def refuse_overflow(X: Any) -> None:
    """Raise a ValueError where the squared length of a point may exceed what float64 holds."""
    if not (isinstance(X, np.ndarray) or sp.issparse(X)) or X.dtype.kind != "f":
        return
    largest = float(abs(X).max())
    if largest > np.sqrt(np.finfo(np.float64).max / X.shape[1]):
        raise ValueError(
            f"{NOT_FINITE} X has values of {largest:.1e}, whose squares exceed what float64 holds; "
            "scale X, for example with sklearn.preprocessing.StandardScaler"
        )


def _given_product(K: Any, columns: np.ndarray, V: np.ndarray) -> np.ndarray:
    """``K[:, columns] @ V`` of a matrix that is large: copying many of its columns takes longer
    than multiplying all of them."""
    if sp.issparse(K) or MANY_COLUMNS * len(columns) < K.shape[1]:
        return K[:, columns] @ V
    everywhere = np.zeros((K.shape[1], V.shape[1]), dtype=K.dtype)
    everywhere[columns] = V
    return K @ everywhere


def positive_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Weights of shape (n,), one where none are given; as in LIBSVM some must be positive."""
    if sample_weight is None:
        return np.ones(n_rows(X))
    weight = weights_of(sample_weight, X, allow_all_zero_weights=True)
    if not np.any(weight > 0):
        raise ValueError(
            "Invalid input - all samples have zero or negative weights: sample_weight is at most "
            f"{weight.max():g}; give some samples a positive weight"
        )
    return weight
