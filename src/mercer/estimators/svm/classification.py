"""Support vector classification with the regularisation parameter C or nu."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import backend
from mercer.estimators.measured import SECONDS_PER_ENTRY, SECONDS_PER_PAIR
from mercer.estimators.progress import reporter
from mercer.estimators.svm.engine import PENALTY
from mercer.estimators.svm.forms import Form, c_svc
from mercer.estimators.svm.pairs import CLASSIFICATION, PairwiseMachine
from mercer.estimators.svm.path import (
    LeaveOneOut,
    RegularisationPath,
    leave_one_out,
    regularisation_path,
)
from mercer.estimators.svm.training import Training, are_few
from mercer.operators import CorrectedGram, GramOperator
from mercer.solvers.qp.class_pairs import ClassPairs, solve_class_pairs


class SVC(PairwiseMachine):
    r"""Support vector classification.

    .. math:: \min_{w, b} \; \tfrac12 \lVert w \rVert^2 + C \sum_i \max(0, 1 - y_i f(x_i)), \qquad
              f(x) = \langle w, \varphi(x) \rangle + b, \quad y_i \in \{-1, +1\}

    A drop-in replacement for scikit-learn's class of the same name, with any kernel. With more than
    two classes, one binary problem is solved per pair of classes, on a shared Gram matrix.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation parameter; larger C means less regularisation. ``inf`` is the hard margin,
        which raises an error if the classes cannot be separated.
    kernel : str, Kernel or callable, default="rbf"
        A kernel object, a name ("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed",
        ...) or a function of two arrays that returns their Gram matrix.
    degree : int, default=3
        For "poly".
    gamma : float, "scale", "auto" or None, default="scale"
        For named kernels with this parameter. "scale" is 1 / (n_features * variance of X), "auto"
        and None are 1 / n_features.
    coef0 : float, default=0.0
        For "poly" and "sigmoid".
    shrinking : bool, default=True
        Accepted for compatibility and ignored. The solver shrinks if that saves time, and checks
        all points before it ends.
    probability : bool, default="deprecated"
        Deprecated, as in scikit-learn 1.9. True also fits calibrated probabilities on five folds;
        use ``CalibratedClassifierCV(SVC(), ensemble=False)`` instead.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, as in LIBSVM. If ``dual_gap_`` is still
        above 0.01 at this tolerance, as it may be for large C, the solver continues until it is
        not.
    cache_size : float, default=200
        Memory for the Gram matrix in megabytes, if larger than scikit-learn's ``working_memory``.
    class_weight : dict, "balanced" or None, default=None
        Factor of C per class; every weight must be positive.
    verbose : bool, default=False
        Print the solver's result.
    max_iter : int, default=-1
        Maximum number of solver steps per pair of classes; -1 for no limit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Whether ``decision_function`` returns a value per class or per pair of classes.
    break_ties : bool, default=False
        Whether ``predict`` breaks ties between votes by the decision values.
    random_state : int, RandomState or None, default=None
        Random seed for the folds of ``probability=True``; nothing else is random.
    fit_intercept : bool, default=True
        Whether to fit the intercept b.
    solver : {"auto", "smo", "interior_point"}, default="auto"
        "smo" is sequential minimal optimisation. "auto" is SMO, switching to an active-set or
        interior-point method if convergence is slow.
    max_time : float or None, default=None
        Time limit in seconds from the start of ``fit``, checked between rounds of steps and between
        pairs of classes. Explicit features, the whole Gram matrix of a slow kernel and its
        correction by ``indefinite`` are not interrupted. After the limit, the current iterate is
        the model, with a ConvergenceWarning, which also reports if no step was taken.
    warm_start : bool, default=False
        Start SMO from the solution of the last fit, if it had the same number of points in each
        class. Interior-point methods ignore it.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors, class by class.
    support_vectors_ : ndarray of shape (n_SV, n_features), or list of objects
        With the type and precision of X; empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV), sparse if X is
        Coefficients in LIBSVM's layout: for the pair of classes i < j, row j - 1 has the
        coefficients of class i and row i those of class j. With more than two classes and
        ``indefinite="clip"`` or ``"flip"``, predictions also need coefficients at points of other
        classes, which this layout cannot hold. Then ``dual_coef_`` has the coefficients for the
        corrected kernel, and predictions use ``pair_coef_``.
    pair_coef_ : ndarray of shape (n_SV, n_pairs)
        Coefficients of every pair of classes over all support vectors, used for predictions.
    intercept_ : ndarray of shape (n_pairs,)
    coef_ : ndarray of shape (n_pairs, n_features), sparse if X is
        Weights of the features, for the linear kernel only.
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    dual_gap_ : float
        Duality gap of the returned model divided by max(1, abs(objective)), computed at the end;
        the largest over pairs of classes.
    margin_ : float, or ndarray of shape (n_pairs,) for more than two classes
        1 / ‖w‖.
    result_ : Result
        The solver's result: its gap, number of steps and status.
    kernel_ : Kernel
        The kernel used.
    fit_status_ : int
        0 if the tolerance was reached, else 1.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps of the solver.
    shape_fit_ : tuple
        Shape of the training points.

    References
    ----------
    Cortes and Vapnik (1995), "Support-vector networks"; Chang and Lin (2011), "LIBSVM: a library
    for support vector machines".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.svm import SVC
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), [0, 0, 1, 1]
    >>> machine = SVC(kernel="linear", C=np.inf).fit(X, y)
    >>> machine.support_, round(machine.margin_, 6)
    (array([1, 2], dtype=int32), 1.0)
    """

    _parameter_constraints: dict = {**CLASSIFICATION, "C": [PENALTY]}

    def __init__(
        self,
        *,
        C: float = 1.0,
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
        self.C = C
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

    def path(
        self,
        X: Any,
        y: Any,
        Cs: Any,
        *,
        sample_weight: Any = None,
        validation: Any = None,
        cv: Any = None,
    ) -> RegularisationPath:
        """Fit for several values of C in ascending order, each started from the last solution.

        All fits share one Gram matrix. The estimator itself is not changed.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        Cs : array-like of shape (n_Cs,)
            Values of C in any order; may include ``inf``.
        validation : (X, y) or (X, y, sample_weight), optional
            Held-out points to score each model on.
        cv : int or splitter, optional
            Score each C by cross-validation instead. All folds use parts of the same Gram matrix;
            ``gamma="scale"`` and ``class_weight="balanced"`` are computed from all points.

        Returns
        -------
        RegularisationPath
            The fitted ``machines`` in the order of ``Cs``, their ``dual_coefs``, ``dual_gaps`` and
            ``n_supports``; with ``validation`` or ``cv`` also ``scores``, ``fold_scores`` and the
            ``best``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from mercer.estimators.svm import SVC
        >>> X, y = load_iris(return_X_y=True)
        >>> path = SVC().path(X[::2], y[::2], [0.1, 1.0, 10.0], validation=(X[1::2], y[1::2]))
        >>> path.scores.round(2), path.best.C
        (array([0.93, 0.93, 0.97]), 10.0)
        """
        return regularisation_path(self, X, y, Cs, sample_weight, validation, cv)

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any = None) -> LeaveOneOut:
        """Predict each point from the model fitted to all others.

        Only support vectors need a refit, which starts from the solution for all points.
        ``gamma="scale"`` and ``class_weight="balanced"`` are computed from all points. The
        estimator itself is not changed.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        LeaveOneOut
            ``values`` with the shape of `decision_function`, ``predictions``, and ``n_refits``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from mercer.estimators.svm import SVC
        >>> X, y = load_iris(return_X_y=True)
        >>> left_out = SVC().leave_one_out(X, y)
        >>> int((left_out.predictions != y).sum()), left_out.n_refits < len(y)
        (5, True)
        """
        return leave_one_out(self, X, y, sample_weight)

    def _form(self, gram_matrix: Any, y: np.ndarray, weight: np.ndarray) -> Form:
        return c_svc(gram_matrix, y, self._penalties(weight), self.fit_intercept)

    def _solve_all_pairs(self, training: Training) -> tuple[GramOperator, ClassPairs] | None:
        n, tasks = len(training.order), training.tasks
        at_once = (
            (are_few(n) or len(tasks) * SECONDS_PER_PAIR > n**2 * SECONDS_PER_ENTRY)
            and np.inf > self.C
            and self.solver != "interior_point"
            and self.max_iter == -1
            and self.max_time is None
            and not self.warm_start
            and reporter(self) is None
            and backend(training.X).executor == "native"
            and 8 * n**2 <= self._budget()
        )
        if not at_once:
            return None
        operator = self._operator(training, store=False)
        C = self.C * tasks.weight
        if isinstance(operator, CorrectedGram) or not np.all(C[np.concatenate(tasks.members)] > 0):
            return None
        K = np.ascontiguousarray(operator.dense(), dtype=np.float64)
        found = solve_class_pairs(K, tasks.members, C, self.fit_intercept, self.tol)
        return None if found is None else (operator, found)

    def _infeasible(self) -> str:
        C, other = self._hard()
        return (
            f"{C} asks for a hard margin, and the classes cannot be separated with "
            f"kernel={self.kernel!r}; use {other}, or a richer kernel"
        )
