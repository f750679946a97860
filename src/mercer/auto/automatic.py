"""The search, the final fit and the prediction that automatic estimators share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from mercer._sklearn import Interval, StrOptions, check_n_features
from mercer.arrays import row_blocks
from mercer.arrays.remote import over_blocks
from mercer.arrays.threads import one_blas_thread
from mercer.auto import combination
from mercer.auto.graph_search import GraphSearch
from mercer.auto.leave_one_out import best_alpha, least_alpha, left_out, weighed
from mercer.auto.novelty import novelty
from mercer.auto.search import Search, take
from mercer.auto.table_search import TableSearch
from mercer.estimators import KernelRidge, KernelRidgeCV
from mercer.estimators.fitting import warn_of_convergence
from mercer.estimators.inputs import require_fitted
from mercer.solvers.result import Budget
from mercer.solvers.ridge_problem import float32_is_small
from mercer.tables.coding import TableCoding
from mercer.tables.graphs import is_of_graphs
from mercer.tables.leaks import possible_leaks
from mercer.tables.sparse import are_all_equal

# Rows up to which the final fit is exact, and centres beyond.
EXACT_AT_MOST = 5000
_CENTRES, _FEWEST_CENTRES = 1500, 20
# Rows that the final regulariser is chosen on, by this factor.
PATH_ROWS = 1000
_FACTOR = 4.0
# Factorisations that an exact fit takes, and as many of the centres' size for each row.
FACTORISATIONS = 2
# Columns and rows that are examined for leaks of the target.
_LEAK_COLUMNS, _LEAK_ROWS = 3, 1000
# Copies of a table, made dense, that its coding holds at once.
_COPIES = 8
# Multiplications of matrices that one thread has done in a few seconds.
_ONE_THREAD = 2**35


class AutoKernel(BaseEstimator):
    """What classification and regression share: search, final path, prediction."""

    _parameter_constraints: dict = {
        "quality": [StrOptions({"best", "fast"})],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state"],
    }

    def _search(
        self,
        X: Any,
        Y: np.ndarray,
        weight: np.ndarray | None,
        groups: Any,
        callback: Callable[[dict[str, Any]], Any] | None,
    ) -> Search:
        """Choose the coding and the kernel for targets (n, t)."""
        budget, random = Budget(max_time=self.max_time), check_random_state(self.random_state)
        with one_blas_thread():
            roots = None if weight is None else np.sqrt(weight)
            if sp.issparse(X):
                search = Search(X, Y, budget, random, roots)
            elif is_of_graphs(X):
                search = GraphSearch(X, Y, budget, random, roots)
            else:
                search = TableSearch(
                    X, Y, budget, random, roots, groups=groups, quality=self.quality
                )
            search.callback = callback
            try:
                search.run()
            except KeyboardInterrupt:
                search.stop()
                warn_of_convergence("the search was interrupted; fitting the best kernel so far")
        self.coding_ = search.coding
        self.n_features_in_ = search.coding.n_features_in_
        if hasattr(search.coding, "feature_names_in_"):
            self.feature_names_in_ = search.coding.feature_names_in_
        self.kernel_ = search.kernel
        search.seed = random.randint(2**31 - 1)
        return search

    def _fit_partitions(
        self,
        search: Search,
        y: np.ndarray,
        is_classes: bool,
        weight: np.ndarray | None,
        groups: Any,
    ) -> None:
        """Boosted partitions of the same points, where they are worth it."""
        self.partitions_, self.weights_ = None, None
        try:
            self.partitions_ = combination.boosted(
                search.coding,
                search.all_points(),
                y,
                is_classes=is_classes,
                weight=weight,
                groups=groups,
                seed=search.seed,
                seconds=0.0 if search.is_stopped else search.budget.time_left,
                quality=self.quality,
            )
        except KeyboardInterrupt:
            warn_of_convergence("interrupted; the model has no boosted partitions")

    def _centres(self, search: Search) -> int | None:
        """How many centres the final fit is on; None where there is time for an exact one."""
        n = len(search.Y)
        work = search.budget.time_left / max(FACTORISATIONS * search.pace, 1e-300)
        if n <= EXACT_AT_MOST and n**3 <= work:
            return None
        return min(int(np.clip(np.sqrt(work / n), _FEWEST_CENTRES, _CENTRES)), n)

    def _fit_squares(self, search: Search, Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Fit by least squares; returns leave-one-out predictions (n, t)."""
        points, n, centres = search.all_points(), len(Y), self._centres(search)
        if are_all_equal(points):
            return self._fit_nothing(points, Y)
        if centres is None:
            with one_blas_thread() if n <= PATH_ROWS else nullcontext():
                return self._fit_exactly(points, Y, weight, search)
        with one_blas_thread() if n * centres**2 <= _ONE_THREAD else nullcontext():
            return self._fit_on_centres(points, Y, weight, search.alpha, centres)

    def _report(
        self,
        search: Search,
        predictions: np.ndarray,
        Y: np.ndarray,
        weight: np.ndarray | None,
        ablation: dict[str, float],
    ) -> None:
        """``report_``, with the error of leave-one-out predictions of targets (n, t)."""
        errors = np.mean((predictions - Y) ** 2, axis=1)
        mean = np.average(Y, axis=0, weights=weight)
        error = float(np.average(errors, weights=weight))
        self.report_ = {
            "tried": search.tried,
            "ablation": ablation,
            "scaling": self.coding_.scaling,
            "kernel": repr(self.kernel_),
            "alpha": float(self.alpha_),
            "solver": self.model_.result_.method,
            "leave_one_out": error,
            "left_one_out": error,  # the name of the key before
            "baseline": float(np.average(np.mean((Y - mean) ** 2, axis=1), weights=weight)),
            "seconds": search.budget.seconds,
        }

    def _name_columns(self, search: Search, X: Any, y: np.ndarray, task: str) -> None:
        """In the report, the columns that are not learnt and those that may be leaks."""
        names = getattr(self, "feature_names_in_", None)

        def name(column: int) -> str:
            return str(column if names is None else names[column])

        identifiers = getattr(self.coding_, "identifiers_", {})
        self.report_["not_learnt"] = {name(k): why for k, why in identifiers.items()}
        self.report_["possible_leaks"] = leaks = {}
        # A column that gives the answer away moves the kernel more than most.
        columns = np.sort(search.strongest_columns()[:_LEAK_COLUMNS])
        if len(columns) < 2 or y.ndim > 1:
            return
        some = take(X, np.arange(min(len(y), _LEAK_ROWS)))
        if hasattr(some, "iloc"):
            some = some.iloc[:, columns].set_axis(
                [f"column {i}" for i in range(len(columns))], axis=1
            )
        else:
            some = some[:, columns]
        for found, score in possible_leaks(some, y[: some.shape[0]], task).items():
            leaks[name(columns[int(found.split()[-1])])] = score

    def _fit_nothing(self, points: Any, Y: np.ndarray) -> np.ndarray:
        """A table whose rows are all equal: the mean."""
        self.alpha_ = 1.0
        points = points if points.shape[1] else np.zeros((len(Y), 1))
        self.model_ = KernelRidge(kernel=self.kernel_).fit(points, 0 * Y)
        return np.zeros_like(Y)

    def _fit_exactly(
        self, points: Any, Y: np.ndarray, weight: np.ndarray | None, search: Search
    ) -> np.ndarray:
        """Fit with the best regulariser on many rows; returns leave-one-out predictions (n, t)."""
        n, budget, targets = len(Y), search.budget, search.Y
        G = weighed(np.asarray(self.kernel_(points), dtype=np.float64), search.roots)
        rows = np.sort(search.rows(PATH_ROWS))

        def report(alpha: float, error: float) -> None:
            name = f"alpha {alpha:.3g}, {'all' if len(rows) == n else len(rows)} rows"
            search.note(name, self.coding_, error)
            if budget.time_left < 2 * FACTORISATIONS * search.pace * n**3:
                raise TimeoutError

        part = G if len(rows) == n else G[np.ix_(rows, rows)]
        with one_blas_thread():
            error, alpha, residual = best_alpha(part, targets[rows], search.alpha, _FACTOR, report)
        self.alpha_ = max(alpha, least_alpha(G))
        if len(rows) < n or np.isinf(error):
            if float32_is_small(n, float(G.diagonal().max()), self.alpha_):
                G = G.astype(np.float32)
            error, residual = left_out(G, targets, self.alpha_)
            while np.isinf(error) and self.alpha_ < np.trace(G):
                self.alpha_ *= _FACTOR
                error, residual = left_out(G, targets, self.alpha_)
            search.note(f"alpha {self.alpha_:.3g}, all rows", self.coding_, error)
        self.model_ = KernelRidge(alpha=self.alpha_, kernel=self.kernel_).fit(points, Y, weight)
        return Y - (residual if search.roots is None else residual / search.roots[:, None])

    def _fit_on_centres(
        self, points: Any, Y: np.ndarray, weight: np.ndarray | None, alpha: float, n_centers: int
    ) -> np.ndarray:
        self.model_ = KernelRidgeCV(
            alphas=alpha * _FACTOR ** np.arange(-4.0, 4.5),
            kernel=self.kernel_,
            solver="nystrom",
            n_centers=n_centers,
            random_state=0,
        ).fit(points, Y, weight)
        self.alpha_ = self.model_.alpha_
        return np.asarray(self.model_.loo_predictions_).reshape(Y.shape)

    @over_blocks
    def novelty(self, X: Any) -> np.ndarray:
        """The fraction of training rows that are nearer to another one than each row is to any.

        Near one for rows unlike all of training: predictions for them are extrapolation. By the
        similarity of the kernel, in which columns count as much as they matter.

        Parameters
        ----------
        X : table

        Returns
        -------
        ndarray of shape (m,)
        """
        require_fitted(self)
        points = self.coding_.transform(X, self)
        if not points.shape[1]:
            return np.zeros(points.shape[0])
        return novelty(self.kernel_, points, self.model_.X_fit_)

    def _scores(self, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Scores of the kernel's function, and those of the partitions where there are some."""
        found = self._all_scores(X)
        if self.partitions_ is None:
            return found, None
        columns = found.shape[1] - len(self.partitions_.first_)
        return found[:, :columns], found[:, columns:]

    def _all_scores(self, X: Any) -> np.ndarray:
        require_fitted(self)
        if sp.issparse(X) and isinstance(self.coding_, TableCoding) and X.shape[0]:
            check_n_features(self, X, reset=False)
            X = X.tocsr()
            blocks = row_blocks(X.shape[0], _COPIES * 8 * X.shape[1])
            return np.concatenate([self._scores_of(X[rows].toarray()) for rows in blocks])
        return self._scores_of(X)

    def _scores_of(self, X: Any) -> np.ndarray:
        points = self.coding_.transform(X, self)
        if not points.shape[1]:
            return np.zeros((points.shape[0], self.model_.dual_coef_[0].size))
        found = np.asarray(self.model_.predict(points))
        found = found.reshape(len(found), -1)
        if self.partitions_ is None:
            return found
        more = combination.tree_scores(self.coding_, points, self.partitions_)
        return np.hstack([found, more])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.string = inputs.categorical = inputs.allow_nan = inputs.sparse = True
        return tags
