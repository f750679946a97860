"""Support vector machines for many values of C, and their leave-one-out predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier

from mercer._sklearn import without_listeners
from mercer.arrays import backend, take_rows
from mercer.arrays.torch_state import learning
from mercer.estimators.fitting import validate_parameters, warn_of_convergence
from mercer.estimators.svm.engine import SupportVectorMachine
from mercer.estimators.svm.training import Solved, Task, Training, end_points, positive_weights
from mercer.operators import GramOperator
from mercer.solvers.result import Result


@dataclass(frozen=True)
class RegularisationPath:
    """Models fitted for several values of C, in the order given.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
    machines : list of fitted estimators
        ``machines[i]`` has ``C=Cs[i]``.
    scores : ndarray of shape (n_Cs,), or None
        Scores on the validation points, or means over folds.
    fold_scores : ndarray of shape (n_Cs, n_folds), or None
    """

    Cs: np.ndarray
    machines: list
    scores: np.ndarray | None
    fold_scores: np.ndarray | None = None

    @property
    def dual_coefs(self) -> np.ndarray:
        """Coefficients of all training points, shape (n_Cs, n_samples, n_functions)."""
        first = self.machines[0]
        coefs = np.zeros((len(self.Cs), first.shape_fit_[0], first._columns().shape[1]))
        for i, machine in enumerate(self.machines):
            coefs[i, machine.support_] = machine._columns()
        return coefs

    @property
    def dual_gaps(self) -> np.ndarray:
        """``dual_gap_`` of each, shape (n_Cs,)."""
        return np.array([machine.dual_gap_ for machine in self.machines])

    @property
    def n_supports(self) -> np.ndarray:
        """The number of support vectors of each, shape (n_Cs,)."""
        return np.array([len(machine.support_) for machine in self.machines])

    @property
    def best(self) -> Any:
        """The model with the highest score; of ties, that with the smallest C."""
        if self.scores is None:
            raise AttributeError("nothing was scored; give cv or validation=(X, y) to path")
        return max(zip(self.scores, -self.Cs, self.machines, strict=True), key=lambda t: t[:2])[2]


class LeaveOneOut(NamedTuple):
    """Prediction of each training point from the model fitted to all others.

    Attributes
    ----------
    values : ndarray
        ``decision_function`` of a classifier, ``predict`` of a regression, at each point.
    predictions : ndarray of shape (n_samples,)
    n_refits : int
        Number of points that needed a refit.
    """

    values: np.ndarray
    predictions: np.ndarray
    n_refits: int


@learning
def regularisation_path(
    machine: SupportVectorMachine,
    X: Any,
    y: Any,
    Cs: Any,
    sample_weight: Any = None,
    validation: tuple | None = None,
    cv: Any = None,
) -> RegularisationPath:
    """Fit the machine for each C, upward, each from where the last ended; see ``SVC.path``."""
    penalties = np.asarray(Cs, dtype=np.float64)
    if penalties.ndim != 1 or not len(penalties):
        raise ValueError(f"Cs={Cs!r}; expected a sequence of values of C, at least one")
    if cv is not None and validation is not None:
        raise ValueError("cv and validation were both given; expected one way to score")
    first = clone(machine)
    validate_parameters(first)
    training = first._training(X, y, sample_weight)
    learn, stored = LEARN[backend(training.X).executor]
    operator = first._operator(training, store=stored)
    folds = [] if cv is None else _folds(first, training, sample_weight, cv)
    trainings = [training, *(fold.training for fold in folds)]
    learned = learn(first, trainings, operator, penalties)
    machines = next(learned)
    scores = fold_scores = None
    if validation is not None:
        scores = np.array([fitted.score(*validation) for fitted in machines])
    elif cv is not None:
        held_out = zip(folds, learned, strict=True)
        fold_scores = np.array([[m.score(*fold.given) for m in fits] for fold, fits in held_out]).T
        scores = fold_scores.mean(axis=1)
    return RegularisationPath(penalties, machines, scores, fold_scores)


def _upward(
    first: SupportVectorMachine, trainings: list[Training], operator: GramOperator, penalties: Any
) -> Iterator[list]:
    """For each training, estimators like the first for each C, each started where another ended."""
    for training in trainings:
        machines: list = [None] * len(penalties)
        starts, last = None, 1.0
        for i in np.argsort(penalties, kind="stable"):
            fitted = _like(first, penalties[i])
            if starts is not None:
                moved = zip(starts, training.tasks, strict=True)
                starts = [_at_price(a, task.weight, last, fitted.C) for a, task in moved]
            machines[i] = fitted._train_on(
                training._replace(limits=fitted._limits()), operator, starts
            )
            starts, last = end_points(fitted.result_), fitted.C
        yield machines


def _at_once(
    first: SupportVectorMachine, trainings: list[Training], operator: GramOperator, penalties: Any
) -> Iterator[list]:
    """The same with all of them solved together, which a device is made for."""
    forms = [_like(first, C)._forms(part.tasks, operator) for part in trainings for C in penalties]
    flat = [form for some in forms for form in some]
    results = iter(first._solve(flat, [None] * len(flat), first._limits()))
    remaining = iter(forms)
    for training in trainings:
        machines = []
        for C, some in zip(penalties, remaining, strict=False):
            fitted = _like(first, C)
            fitted._set_fitted(training, Solved(operator, some, [next(results) for _ in some]))
            if not fitted.result_.status.ok:
                warn_of_convergence(f"C={C:g} stopped early. {fitted.result_.message}")
            machines.append(fitted)
        yield machines


# How an executor trains the machines of a path, and whether on a stored Gram matrix.
LEARN = {"native": (_upward, True), "torch": (_at_once, False)}


def _like(first: SupportVectorMachine, C: Any) -> Any:
    """The estimator with another C, and the training data of the first."""
    fitted = clone(first).set_params(C=float(C))
    validate_parameters(fitted)
    vars(fitted).update({name: value for name, value in vars(first).items() if name.endswith("_")})
    return fitted


class Fold(NamedTuple):
    """What is learned without the points of a fold, and what is given to ``score``."""

    training: Training
    given: tuple


def _folds(
    first: SupportVectorMachine, training: Training, sample_weight: Any, cv: Any
) -> list[Fold]:
    from sklearn.model_selection import check_cv  # slow to import

    X, y = training.X, training.y
    weight = np.maximum(positive_weights(sample_weight, X), 0.0)
    folds = []
    for train, test in check_cv(cv, y, classifier=is_classifier(first)).split(np.empty(len(y)), y):
        others = np.zeros_like(weight)
        others[train] = weight[train]
        _require_both_sides(training, others, weight[test], f"fold {len(folds)} of cv")
        given = (take_rows(X, test), y[test])
        given += () if sample_weight is None else (weight[test],)
        folds.append(Fold(training._replace(tasks=first._tasks(y, others)[2]), given))
    return folds


def _require_both_sides(
    training: Training, others: np.ndarray, held_out: np.ndarray, fold: str
) -> None:
    """Raise a ValueError where a fold has nothing to score, or leaves nothing to learn from."""
    if not np.any(held_out > 0):
        raise ValueError(
            f"{fold} holds out {len(held_out)} samples, none of positive weight, so it has no "
            "score; use fewer folds, or a splitter that shuffles"
        )
    missing = np.setdiff1d(training.codes, training.codes[others > 0])
    if len(missing):
        label = training.y[training.codes == missing[0]].tolist()[0]
        what = f"sample of class {label!r}" if training.codes.any() else "sample"
        raise ValueError(
            f"{fold} leaves no {what} of positive weight to learn from; use fewer folds, or for "
            "classes sklearn.model_selection.StratifiedKFold"
        )


def _at_price(a: np.ndarray, weight: np.ndarray, last: float, C: float) -> np.ndarray:
    """Where to start at C from the end at the last: what was at its bound stays there.

    Examples
    --------
    >>> _at_price(np.array([2.0, -1.0, -1.0]), np.array([2.0, 1.0, 3.0]), 1.0, 10.0)
    array([ 20., -10.,  -1.])
    """
    if not np.isfinite(C):
        return a
    bound = last * np.tile(weight, len(a) // len(weight))
    return np.where(np.abs(a) >= bound * (1 - 1e-12), a * (C / last), a)


@learning
def leave_one_out(machine: SupportVectorMachine, X: Any, y: Any, sample_weight: Any) -> LeaveOneOut:
    """What each point is taken for by a machine fitted to all others; see ``SVC.leave_one_out``."""
    machine = without_listeners(clone(machine))
    validate_parameters(machine)
    training = machine._training(X, y, sample_weight)
    has_classes = hasattr(machine, "classes_")
    for task in training.tasks:
        sides = np.sign(task.targets) if has_classes else np.zeros(len(task.index))
        side, counts = np.unique(sides, return_counts=True)
        if counts.min() < 2:
            alone = task.index[np.flatnonzero(sides == side[np.argmin(counts)])[0]]
            alone = training.order[alone]
            what = (
                f"class {training.y[[alone]].tolist()[0]!r}" if has_classes else "the training set"
            )
            raise ValueError(
                f"{what} has one sample of positive weight, and without it there is nothing to "
                "learn from; leave-one-out needs two"
            )
    values, n_refits = _values(machine, training)
    if not has_classes:
        return LeaveOneOut(values[:, 0], values[:, 0], n_refits)
    if len(machine.classes_) == 2:
        values = -values
    return LeaveOneOut(machine._shaped(values), machine._elected(values), n_refits)


def _values(machine: SupportVectorMachine, training: Training) -> tuple[np.ndarray, int]:
    """Every function at every point, learned without that point, (n, n_functions), and refits.

    A point with coefficient zero is on the right side of its margin, and the optimum without it
    is the same; only its part in the choice of b, where no variable is free, is not.
    """
    tasks, operator = training.tasks, machine._operator(training)
    forms = machine._forms(tasks, operator)
    results = machine._solve(forms, [None] * len(forms), training.limits)
    values = np.empty((len(training.codes), len(tasks)))
    worst, n_refits = results[0], 0
    for column, (task, form, result) in enumerate(zip(tasks, forms, results, strict=True)):
        worst = _worse(worst, result)
        model = machine._model(form, result)
        coefficients = np.zeros(len(values))
        coefficients[task.index] = model.coefficients
        values[:, column] = np.asarray(operator @ coefficients) + model.intercept
        a = result.value.a
        free = np.any((a > form.program.lo) & (a < form.program.hi))
        determined = bool(free) or not form.has_intercept
        per_point = a.reshape(-1, len(task.index))
        for position in np.flatnonzero(np.any(per_point, axis=0) | (not determined)):
            start = np.delete(per_point, position, axis=1).ravel()
            again, value = _refit(machine, training, operator, task, int(position), start)
            values[task.index[position], column] = value
            worst, n_refits = _worse(worst, again), n_refits + 1
    if not worst.status.ok:
        name = type(machine).__name__
        warn_of_convergence(f"{name} stopped early without one of the points. {worst.message}")
    return training.as_given(values), n_refits


def _refit(
    machine: SupportVectorMachine,
    training: Training,
    operator: GramOperator,
    task: Task,
    position: int,
    start: np.ndarray,
) -> tuple[Result, float]:
    """The task without one of its points, and the function so learned at that point."""
    others = task.without(position)
    (form,) = machine._forms([others], operator)
    (result,) = machine._solve([form], [start], training.limits)
    model = machine._model(form, result)
    point = task.index[position]
    row = operator.rows(np.array([point]))[0]
    return result, float(row[others.index] @ model.coefficients) + model.intercept


def _worse(one: Result, other: Result) -> Result:
    return min(one, other, key=lambda result: (result.status.ok, -result.gap))
