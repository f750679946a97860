"""Kernel ridge regression with the regularisation parameter chosen by exact leave-one-out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import CallbackSupportMixin, StrOptions
from mercer.arrays import (
    backend,
    memory_budget,
    n_rows,
    refuse_beyond_memory,
    refuse_tensors,
    to_device_of,
    to_float64,
)
from mercer.arrays.remote import is_remote, over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.centres import centres_of
from mercer.estimators.constraints import KERNEL, at_least
from mercer.estimators.decision_values import decision_values
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags, is_precomputed
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import checked_weights, validate_supervised
from mercer.estimators.progress import reporter
from mercer.estimators.ridge.engine import Fit, store
from mercer.estimators.ridge.tensors import EIGH_MATRICES
from mercer.estimators.ridge.uncertainty import RidgeUncertainty
from mercer.estimators.ridge.undetermined import warn_if_undetermined
from mercer.estimators.scores import Regressor
from mercer.estimators.training_gram import training_gram
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.linear.eigh import solve_eigh
from mercer.solvers.nystrom.path import LeaveOneOutSums, NystromPath
from mercer.solvers.nystrom.ridge import solve_nystrom
from mercer.solvers.nystrom.sums import Block, accumulated, summed


class KernelRidgeCV(
    CallbackSupportMixin, RidgeUncertainty, MultiOutputMixin, Regressor, BaseEstimator
):
    r"""Kernel ridge regression with alpha chosen by the exact leave-one-out error.

    .. math:: y_i - f_{-i}(x_i) = \frac{(G y)_i}{G_{ii}}, \qquad G = (K + \alpha I)^{-1},

    is the leave-one-out residual of point i. One eigendecomposition of the Gram matrix gives it
    for every alpha, without refitting; similar formulas hold with sample weights, with an
    intercept and for whole folds. If the Gram matrix does not fit the memory,
    ``solver="nystrom"`` computes the leave-one-out error of a fit with fixed centres.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1, 10)
        Candidate values of alpha, non-negative.
    kernel, gamma, degree, coef0, kernel_params
        As in `KernelRidge`.
    fit_intercept : bool, default=False
        Whether to fit an unpenalised constant.
    solver : {"auto", "eigh", "nystrom"}, default="auto"
        "eigh" decomposes the Gram matrix. "nystrom" expands in centres and decomposes sums over the
        points, of the size of the centres. "auto" is "eigh" if the Gram matrix fits scikit-learn's
        ``working_memory`` and ``n_centers`` is not given.
    n_centers, centers, random_state
        For "nystrom", as in `KernelRidge`.
    cv : int, cross-validation generator, iterable, "gcv" or None, default=None
        None is leave-one-out. "gcv" is generalised cross-validation: every point has the mean
        leverage. Otherwise predictions of held-out folds, also exact; each point must be in one
        test set, and each training set must have all other points.
    scoring : str, callable or None, default=None
        A scorer as in scikit-learn, applied once to all held-out predictions; None is the negative
        mean squared error. Larger is better.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha; of ties, the first.
    best_score_ : float
        Its leave-one-out score.
    loo_scores_ : ndarray of shape (n_alphas,)
        The score of each alpha, in the order given.
    loo_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Held-out predictions of the training points for the chosen alpha; not for Dask collections.
    dual_coef_, intercept_, error_bound_, X_fit_, kernel_, n_iter_, result_
        As in `KernelRidge`.

    References
    ----------
    Allen (1974), "The relationship between variable selection and data augmentation and a method
    for prediction". Rifkin and Lippert (2007), "Notes on regularized least squares".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mercer.estimators.ridge.cross_validation import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(alphas=[1e-3, 1e-2, 0.1, 1], kernel="rbf", gamma=1.0).fit(X, y)
    >>> model.alpha_
    0.01
    """

    _arrays = ArraySupport(tensors="everywhere")
    _parameter_constraints: dict = {
        **KERNEL,
        "alphas": ["array-like"],
        "fit_intercept": ["boolean"],
        "solver": [StrOptions({"auto", "eigh", "nystrom"})],
        "n_centers": [at_least(1), None],
        "centers": [StrOptions({"pivoted", "uniform"}), "array-like", list],
        "random_state": ["random_state"],
        "cv": ["cv_object", StrOptions({"gcv"})],
        "scoring": [str, callable, None],
    }

    def __init__(
        self,
        alphas: Any = (0.1, 1, 10),
        *,
        kernel: Any = "linear",
        gamma: Any = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        fit_intercept: bool = False,
        solver: str = "auto",
        n_centers: int | None = None,
        centers: Any = "pivoted",
        random_state: Any = 0,
        cv: Any = None,
        scoring: Any = None,
        indefinite: str = "error",
    ):
        self.alphas = alphas
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.random_state = random_state
        self.cv = cv
        self.scoring = scoring
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidgeCV:
        """Choose alpha and fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or list of objects
            Training points; for a precomputed kernel the Gram matrix.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), optional
            Weights of the squared errors, in the fit and in the score.

        Returns
        -------
        self : KernelRidgeCV
        """
        X, y = validate_supervised(self, X, y, multi_output=True, y_numeric=True)
        weight = checked_weights(sample_weight, X)
        self._weight = weight
        self.kernel_ = resolve_kernel(self, X, weight)
        alphas = self._regularisers()
        y = np.asarray(y, dtype=np.float64)
        solver, reason = self._choice(X)
        choose = self._by_centres if solver == "nystrom" else self._by_decomposition
        fit = choose(X, y, alphas, weight)
        result = replace(fit.result, method=f"{fit.result.method}{reason}")
        store(self, X, fit._replace(result=result), flat=y.ndim == 1)
        return self

    def _regularisers(self) -> np.ndarray:
        alphas = np.asarray(self.alphas, dtype=np.float64).ravel()
        if not len(alphas) or not np.all(np.isfinite(alphas) & (alphas >= 0)):
            raise ValueError(f"alphas={self.alphas!r}: expected finite numbers, none negative")
        if self.cv == "gcv" and self.scoring is not None:
            raise ValueError(f"scoring={self.scoring!r} has no effect with cv='gcv'; leave it None")
        return alphas

    def _choice(self, X: Any) -> tuple[str, str]:
        """The solver and why."""
        refuse_tensors(self.centers, "KernelRidgeCV(centers=...)")
        if self.solver == "nystrom" or self.n_centers is not None:
            refuse_tensors(X, "solver='nystrom', with or without n_centers,", ValueError)
        if note := backend(X).note(X):
            return "eigh", f": {note}"
        if self.solver != "auto":
            return self.solver, ""
        if self.n_centers is not None:
            return "nystrom", ": n_centers is given"
        n = n_rows(X)
        mib, budget = 8 * n**2 / 2**20, memory_budget() / 2**20
        if mib <= budget or is_precomputed(self.kernel_):
            return "eigh", ""
        return "nystrom", f": {mib:.0f} MiB exceed the budget of {budget:.0f} MiB"

    def _by_decomposition(
        self, X: Any, y: np.ndarray, alphas: np.ndarray, weight: np.ndarray | None
    ) -> Fit:
        refuse_beyond_memory(n_rows(X), EIGH_MATRICES[backend(X).executor], X)
        operator = training_gram(self, to_float64(X), self.kernel_)
        K = backend(X).asarray(operator.dense(), np.float64)
        system = Eigensystem(K, weight, self.fit_intercept)
        if self.cv == "gcv":
            criteria, predictions = system.generalised(y, alphas)
            scores = -criteria.mean(axis=1)
        else:
            predictions = self._left_out(system, y, alphas)
            scores = [self._score(y, p.reshape(y.shape), weight) for p in predictions]
        best = self._choose(alphas, np.array(scores))
        self.loo_predictions_ = to_device_of(predictions[best].reshape(y.shape), X)
        warn_if_undetermined(system, alphas[[best]])
        result = solve_eigh(system, y, self.alpha_)
        if (report := reporter(self)) is not None:
            report(result.n_iter, result.gap)
        intercept = to_device_of(system.intercept(y, result.value), X)
        return Fit(to_device_of(operator.extend_coefficients(result.value), X), result, intercept)

    def _by_centres(
        self, X: Any, y: np.ndarray, alphas: np.ndarray, weight: np.ndarray | None
    ) -> Fit:
        Y = y.reshape(len(y), -1)
        centres = centres_of(self, X, weight)

        def blocks() -> Iterable[Block]:
            return centres.blocks(X, Y, weight)

        moments = accumulated(blocks(), centres.whitening, Y.shape[1])
        path = NystromPath(centres.whitening, moments, self.fit_intercept)
        if is_remote(X):  # remote points, and their predictions with them
            if self.cv == "gcv":
                scores = -path.generalised(alphas).mean(axis=1)
            else:
                found = summed(blocks(), centres.whitening, LeaveOneOutSums(path, alphas))
                scores = -found.errors / found.weight
            self._choose(alphas, scores)
        elif self.cv == "gcv":
            best = self._choose(alphas, -path.generalised(alphas).mean(axis=1))
            left_out = [path.leave_one_out(block, alphas[[best]], equal=True) for block in blocks()]
            self.loo_predictions_ = np.concatenate(left_out, axis=1)[0].reshape(y.shape)
        else:
            if self.cv is None:
                left_out = [path.leave_one_out(block, alphas) for block in blocks()]
                predictions = np.concatenate(left_out, axis=1)
            else:
                predictions = np.empty((len(alphas), *Y.shape))
                for fold in self._folds(y):
                    given = X, Y, weight, fold
                    left = accumulated(centres.blocks(*given), centres.whitening, Y.shape[1])
                    rest = moments.merged(left, sign=-1)
                    without = NystromPath(centres.whitening, rest, self.fit_intercept)
                    found = [without.predictions(b, alphas) for b in centres.blocks(*given)]
                    predictions[:, fold] = np.concatenate(found, axis=1)
            scores = [self._score(y, p.reshape(y.shape), weight) for p in predictions]
            best = self._choose(alphas, np.array(scores))
            self.loo_predictions_ = predictions[best].reshape(y.shape)
        lam = np.full(Y.shape[1], self.alpha_)
        result = solve_nystrom(
            blocks,
            centres.whitening,
            moments,
            lam,
            fit_intercept=self.fit_intercept,
            report=reporter(self),
        )
        points, dual_coef = centres.expansion(X, result.value.coef)
        return Fit(dual_coef, result, result.value.intercept, points=points)

    def _choose(self, alphas: np.ndarray, scores: np.ndarray) -> int:
        """Set what follows from the score of each alpha; the position of the best."""
        best = int(np.argmax(scores))
        self.loo_scores_ = scores
        self.alpha_, self.best_score_ = float(alphas[best]), float(scores[best])
        return best

    @over_blocks
    def predict(self, X: Any, return_std: bool = False, noise: float | None = None) -> Any:
        """Predict with the chosen alpha; see `KernelRidge.predict`."""
        check_is_fitted(self)
        found = decision_values(self, X)
        return (found, self._deviations(X, noise)) if return_std else found

    def _left_out(self, system: Eigensystem, y: np.ndarray, alphas: np.ndarray) -> Any:
        """For each alpha, what each point is predicted to be without it or its fold."""
        if self.cv is None:
            return system.leave_one_out_path(y, alphas)
        folds = self._folds(y)
        return [system.leave_folds_out(y, alpha, folds) for alpha in alphas]

    def _folds(self, y: np.ndarray) -> list[np.ndarray]:
        """The test sets of ``cv``, which together hold every point once."""
        from sklearn.model_selection import check_cv  # slow to import

        n, folds = len(y), []
        for train, test in check_cv(self.cv).split(np.empty((n, 0)), y):
            if len(train) + len(test) != n or np.intersect1d(train, test).size:
                raise ValueError(
                    f"cv={self.cv!r} has a split into {len(train)} and {len(test)} of {n} points; "
                    "a training set must hold all points outside its test set"
                )
            folds.append(np.asarray(test))
        if not np.array_equal(np.sort(np.concatenate(folds)), np.arange(n)):
            raise ValueError(f"cv={self.cv!r} does not leave out every point exactly once")
        return folds

    def _score(self, y: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None) -> float:
        if self.scoring is None:
            errors = ((y - predicted) ** 2).reshape(len(y), -1).mean(axis=1)
            return -float(np.average(errors, weights=weight))
        from sklearn.metrics import get_scorer  # slow to import

        scorer = get_scorer(self.scoring)
        if weight is None:
            return float(scorer(_Given(), predicted, y))
        try:
            return float(scorer(_Given(), predicted, y, sample_weight=weight))
        except TypeError as error:
            if "sample_weight" not in str(error):
                raise
            raise ValueError(
                f"scoring={self.scoring!r} takes no sample_weight, which fit was given; choose "
                "another scorer, or fit without weights"
            ) from error

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


class _Given(Regressor, BaseEstimator):
    """A regressor whose points are its predictions, so that any scorer can judge them."""

    def fit(self, X: Any, y: Any = None) -> _Given:
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True
