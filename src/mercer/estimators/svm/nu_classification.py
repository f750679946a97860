"""Support vector classification with a bound on the fraction of margin errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.estimators.svm.engine import SHARE
from mercer.estimators.svm.forms import Expansion, Form, nu_svc
from mercer.estimators.svm.pairs import CLASSIFICATION, PairwiseMachine
from mercer.solvers.result import Budget, Result, Status


class NuSVC(PairwiseMachine):
    r"""Support vector classification with a bound nu on the fraction of margin errors.

    .. math:: \min_{w, b, \rho} \; \tfrac12 \lVert w \rVert^2 - \nu n \rho
              + \sum_i \max(0, \rho - y_i f(x_i)),

    then f is divided by rho, so that the margin is at ±1.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: an upper bound on the fraction of margin errors and a lower bound on the fraction
        of support vectors. For each pair of classes it must not exceed twice the fraction of the
        smaller class.
    class_weight : dict, "balanced" or None, default=None
        Factor of the sample weights per class, which LIBSVM ignores here; "balanced" makes every nu
        feasible.
    kernel, degree, gamma, coef0, shrinking, probability, tol, cache_size, verbose, max_iter, \
decision_function_shape, break_ties, random_state, fit_intercept, solver, max_time, warm_start, \
indefinite
        As in `SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, pair_coef_, intercept_, coef_, classes_, \
class_weight_, dual_gap_, margin_, result_, kernel_, fit_status_, n_iter_, shape_fit_
        As in `SVC`.

    References
    ----------
    Schölkopf, Smola, Williamson and Bartlett (2000), "New support vector algorithms".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.estimators.svm import NuSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = NuSVC(nu=0.2).fit(X, y)
    >>> bool(machine.score(X, y) > 0.95), machine.n_support_.sum() >= 0.2 * len(y)
    (True, np.True_)
    """

    _parameter_constraints: dict = {**CLASSIFICATION, "nu": [SHARE]}
    _refusal_of_one_class = "specified nu is infeasible"

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Any = "deprecated",
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_time: float | None = None,
        warm_start: bool = False,
        indefinite: str = "error",
    ):
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_time = max_time
        self.warm_start = warm_start
        self.indefinite = indefinite

    def _form(self, gram_matrix: Any, y: np.ndarray, weight: np.ndarray) -> Form:
        smaller = min(weight[y > 0].sum(), weight[y < 0].sum())
        largest = 2 * smaller / weight.sum()
        if self.fit_intercept and self.nu > largest * (1 + 1e-12):
            raise ValueError(
                f"specified nu is infeasible: nu={self.nu!r} for two classes whose weights allow "
                f"at most {largest:.4g}; choose a smaller nu, or class_weight='balanced'"
            )
        return nu_svc(gram_matrix, y, self.nu, weight, self.fit_intercept)

    def _solve(
        self,
        forms: list[Form],
        starts: Sequence[np.ndarray | None],
        limits: Budget,
        tol: float | None = None,
        taken: int = 0,
    ) -> list[Result]:
        results = super()._solve(forms, starts, limits, tol, taken)
        wanted = self.tol if tol is None else tol
        # f is going to be divided by rho, and its violations with it: they are to be within tol
        # then, so where rho is small the solver goes on.
        for i, (form, result) in enumerate(zip(forms, results, strict=True)):
            rho = form.expansion(result.value).width
            if result.status.ok and result.value.violation > wanted * rho:
                finest = 1e-12 * np.max(form.program.diagonal()) * np.abs(form.program.totals).sum()
                finer = max(0.5 * wanted * rho, finest)
                steps = taken + result.n_iter
                (second,) = super()._solve([form], [result.value.a], limits, finer, steps)
                results[i] = self._with_margin(form, result, second.after(result))
        return results

    def _with_margin(self, form: Form, coarse: Result, fine: Result) -> Result:
        """The finer of two results; the coarser if at the optimum there is no margin to divide by.

        LIBSVM returns such an iterate silently. At the optimum the margin is zero, and f cannot be
        normalised.
        """
        # A margin that is there keeps its width, of which the violation is now a small part.
        if not fine.status.ok or form.expansion(fine.value).width > 10 * fine.value.violation:
            return fine
        advice = (
            f"nu={self.nu!r} leaves no margin between two classes, whose reduced convex hulls "
            "meet: choose a larger nu, or a richer kernel"
        )
        stalled = replace(fine, value=coarse.value, gap=coarse.gap, status=Status.STALLED)
        return stalled.advised(advice)

    def _model(self, form: Form, result: Result) -> Expansion:
        model = form.expansion(result.value)
        rho = model.width
        # Stopped early, there may be no margin yet to be the unit.
        unit = rho if rho > 0 else 1.0
        return Expansion(model.coefficients / unit, model.intercept / unit, model.norm / unit, rho)
