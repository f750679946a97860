"""From data to a fitted model and its summary, which JSON can hold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mercer
from mercer.arrays import take_rows
from mercer.cli import models, splits
from mercer.cli.targets import complete, numbers_meant, refuse_unlearnable, targets
from mercer.reports.comparison import compared
from mercer.reports.evaluation import evaluated
from mercer.reports.models import described, profile
from mercer.reports.novelty import stored_fingerprints
from mercer.reports.report import Training, explained, held_out
from mercer.reports.scores import METRICS, HeldOut, checked_metric
from mercer.reports.structure import refuse_unstructured, structure_of
from mercer.tables import kinds as columns
from mercer.tables.data import Data, refuse_repeated
from mercer.tables.leaks import possible_leaks

NO_BETTER = (
    "{} held-out rows do not show that the model is better than the baseline ({}): the columns may "
    "carry little information, there may be too few rows, or one class may dominate"
)
RANKS = (
    "its probabilities do rank the rows (AUC {:.3f}): choose the threshold with --metric f1 or "
    "--metric balanced_accuracy"
)
MANY_CLASSES = (
    "the target is text, such as {!r}, and is treated as {:,} classes; if it is a quantity, write "
    "it as plain numbers"
)
LEAK = (
    "column {!r} alone predicts the target ({} {:.3f}), a possible leak: if it is not known when "
    "predictions are needed, exclude it with --ignore {!r}"
)
# Rows up to which other models are fitted for comparison.
MOST_COMPARED = 200_000
NO_SCORE = "the target is {} in all held-out rows, so the model has no score"


def fit(
    data: Data,
    *,
    task: str | None = None,
    share: float = 0.25,
    max_time: float = 60.0,
    random_state: int = 0,
    refit: bool = False,
    metric: str | None = None,
    class_weight: Any = None,
    cv: int = 0,
    structure: bool = False,
    step: Callable[[str], None] = lambda name: None,
) -> tuple[Any, dict[str, Any]]:
    """A fitted model of the data, and its summary.

    Parameters
    ----------
    data : Data
    task : "classification", "regression" or None to infer it from the target
    share : float
        Fraction of rows to hold out for testing.
    max_time : float
        Seconds that the search for a model may take.
    random_state : int
    refit : bool
        Whether to fit the chosen kernel to all rows after testing.
    metric : str or None
        A key of `METRICS`; None for the default of the task.
    class_weight : "balanced", dict of class to weight, or None
    cv : int
        Folds of cross-validation in place of one split; 0 for the split.
    structure : bool
        Whether to look for parts of the target and describe them.
    step : callable
        Called with the name of each stage.
    """
    began = time.perf_counter()
    refuse_repeated(data, data.columns or (), ", or leave them out with --ignore {!r}")
    data, advice = numbers_meant(data, task)
    data, missing = complete(data)
    was_asked, task = task is not None, task or columns.task_of(data.y, text=data.is_text)
    y = targets(data.y, task)
    refuse_unlearnable(y, task, getattr(data.y.dtype, "kind", "O") in "iuf")
    data = replace(data, y=y)
    if task == "classification" and not was_asked and columns.may_be_quantities(y):
        advice.append(MANY_CLASSES.format(str(y[0]), len(np.unique(y))))
    if task == "regression" and class_weight is not None:
        raise ValueError("--class-weight: the task is regression, which has no classes")
    if structure:
        refuse_unstructured(data.X, task)
    chosen = checked_metric(metric, task, y)
    weights = _class_weights(class_weight, y)
    trainer = models.Trainer(task, max_time, random_state, chosen, weights)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tested = _tested(data, trainer, share, cv, refit, step)
    held, model = tested.held, tested.trained.model
    step("describing")
    found = evaluated(held, tested.y_train, chosen, tested.rows)
    advice += _advice_on(data, task, tested, found)
    summary = {
        "kind": "fit",
        "data": data.source,
        "rows": len(y),
        "trained on": len(tested.y_train),
        "tested on": len(held.y),
        "test": tested.words,
        **({"refitted on": tested.refitted_on} if tested.refitted_on else {}),
        "rows without a target": missing,
        "task": task,
        "target": data.target,
        "columns": _described(model, data.X),
        "training rows": stored_fingerprints(tested.X_trained),
        "left out": data.left_out or {},
        "read as": _read_as(data),
        "weights": class_weight if isinstance(class_weight, str | None) else str(class_weight),
        "threshold": _threshold(tested.trained),
        **found,
        **_explained(tested, random_state),
        **_comparison(data, tested, chosen, random_state),
        "tried": tested.trained.tried,
        "advice": [
            *advice,
            *dict.fromkeys(_line(w.message) for w in caught if _is_advice(w)),
        ],
        "mercer": mercer.__version__,
    }
    if structure:
        step("looking for structure")
        summary["structure"] = structure_of(data.X, y, max_time, random_state)
    summary |= described(model)
    summary["seconds"] = {"training": tested.seconds, "all": time.perf_counter() - began}
    return model, summary


@dataclass
class Tested:
    """A trained model and the test of it.

    Attributes
    ----------
    trained : Trained
        The model to save.
    held : HeldOut
        Predictions of models that were not trained on these rows.
    rows : (n,) array
        Their numbers.
    X_trained : table
        The rows that the model to save was trained on.
    X, y : table and array
        The rows that importances are computed on.
    tester : model
        A model that was not trained on X.
    X_tested, y_train, train_rows : table and arrays
        The tested model's training rows, their targets, and their numbers; no numbers after
        cross-validation.
    words : str
        How the test was done.
    refitted_on : int
        Rows of the fit that followed the test; 0 if there was none.
    seconds : float
    """

    trained: models.Trained
    held: HeldOut
    rows: np.ndarray
    X_trained: Any
    X: Any
    y: np.ndarray
    tester: Any
    X_tested: Any
    y_train: np.ndarray
    train_rows: np.ndarray
    words: str
    refitted_on: int
    seconds: float


def _tested(
    data: Data, trainer: models.Trainer, share: float, cv: int, refit: bool, step: Callable
) -> Tested:
    """Train and test: on given rows, on a split, or by cross-validation."""
    X, y, task = data.X, data.y, trainer.task
    if data.held_out is not None:
        if cv:
            raise ValueError(f"--cv: {data.source} says which rows are held out")
        X_test, y_test = data.held_out[0], targets(data.held_out[1], task)
        rows, train = np.arange(len(y_test)), np.arange(len(y))
        words = "the rows that the file holds out"
    elif cv:
        return _cross_validated(data, trainer, cv, step)
    else:
        kept = (data.groups, data.times)
        train, rows = splits.holdout(y, task, share, trainer.random_state, *kept)
        X_test, y_test = take_rows(X, rows), y[rows]
        words = "the latest rows" if data.times is not None else "random rows"
        words = "whole groups" if data.groups is not None else words
    step("training")
    started = time.perf_counter()
    X_trained = X_tested = take_rows(X, train)
    groups = data.groups
    trained = trainer.train(X_trained, y[train], None if groups is None else groups[train])
    seconds = time.perf_counter() - started
    step("testing")
    held = held_out(trained.model, X_test, y_test, task)
    final, refitted_on = trained, 0
    if refit:
        step("fitting the chosen kernel to all rows")
        if data.held_out is not None:
            groups = None
            X, y = _joined(X, X_test), np.concatenate([y, y_test])
        final, refitted_on, X_trained = trainer.refit(trained, X, y, groups), len(y), X
    return Tested(
        trained=final,
        held=held,
        rows=rows,
        X_trained=X_trained,
        X=X_test,
        y=y_test,
        tester=trained.model,
        X_tested=X_tested,
        y_train=data.y[train],
        train_rows=train,
        words=words,
        refitted_on=refitted_on,
        seconds=seconds,
    )


def _joined(X: Any, more: Any) -> Any:
    import scipy.sparse as sp

    return sp.vstack([X, more], format="csr") if sp.issparse(X) else np.concatenate([X, more])


def _cross_validated(data: Data, trainer: models.Trainer, cv: int, step: Callable) -> Tested:
    """Predictions for each fold by a model of the others, and a model of all rows."""
    y = data.y
    parts = splits.folds(y, trainer.task, cv, trainer.random_state, data.groups, data.times)
    short = replace(trainer, max_time=trainer.max_time / (cv + 1))
    started, held = time.perf_counter(), []
    trained = test = None
    for k, (train, test) in enumerate(parts, 1):
        step(f"training, fold {k} of {cv}")
        groups = None if data.groups is None else data.groups[train]
        trained = short.train(take_rows(data.X, train), y[train], groups)
        held.append(held_out(trained.model, take_rows(data.X, test), y[test], trainer.task))
    assert trained is not None
    assert test is not None
    step("training on all rows")
    final = short.train(data.X, y, data.groups)
    return Tested(
        trained=final,
        held=_concatenated(held),
        rows=np.concatenate([test for _, test in parts]),
        X_trained=data.X,
        X=take_rows(data.X, test),
        y=y[test],
        tester=trained.model,
        X_tested=data.X,
        y_train=y,
        train_rows=np.zeros(0, dtype=int),
        words=f"{cv}-fold cross-validation",
        refitted_on=0,
        seconds=time.perf_counter() - started,
    )


def _concatenated(parts: list[HeldOut]) -> HeldOut:
    """Predictions of all folds; without probabilities if folds differ in their classes."""
    y, predicted = (np.concatenate([getattr(p, n) for p in parts]) for n in ("y", "predicted"))
    first = parts[0].classes
    same = first is not None and all(
        list(() if p.classes is None else p.classes) == list(first) for p in parts
    )
    if not same:
        return HeldOut(parts[0].task, y, predicted)
    shares = np.concatenate([p.probabilities for p in parts if p.probabilities is not None])
    return HeldOut(parts[0].task, y, predicted, first, shares)


def _advice_on(data: Data, task: str, tested: Tested, found: dict[str, Any]) -> list[str]:
    """Notes on possible leaks, and on a score that shows little."""
    advice, X = [], data.X
    if hasattr(X, "columns") or isinstance(X, np.ndarray):
        name = "accuracy" if task == "classification" else "R²"
        leaks = possible_leaks(X, data.y, task)
        advice += [LEAK.format(column, name, value, column) for column, value in leaks.items()]
    score = found["score"]
    if np.isnan(score["value"]):
        advice.append(NO_SCORE.format(tested.held.y[0]))
    elif not score["better"]:
        line = NO_BETTER.format(f"{score['rows']:,}", score["baseline name"])
        area = next((s for s in found["scores"] if s["name"] == "AUC"), None)
        if area is not None and area["interval"][0] > 0.55 and score["metric"] == "accuracy":
            line += "; " + RANKS.format(area["value"])
        advice.append(line)
    return advice


def _explained(tested: Tested, random_state: int) -> dict[str, Any]:
    """Importances and single rows of the model that was tested last."""
    held = held_out(tested.tester, tested.X, tested.y, tested.held.task)
    training = None
    if len(tested.train_rows):
        training = Training(tested.X_tested, tested.y_train, tested.train_rows)
    numbers = tested.rows[-len(tested.y) :]
    return explained(tested.tester, tested.X, held, random_state, numbers, training)


def _comparison(data: Data, tested: Tested, metric: str, random_state: int) -> dict[str, Any]:
    """Other models on the same rows, by AUC where classes depend on a threshold."""
    if tested.words.endswith("cross-validation") or len(data.y) > MOST_COMPARED:
        return {}
    by_area = metric in models.THRESHOLDED and tested.held.is_binary
    metric = "auc" if by_area else metric
    found = compared(tested.held, tested.X, tested.X_tested, tested.y_train, metric, random_state)
    return {"comparison": found, "comparison metric": METRICS[metric].name}


def _class_weights(given: Any, y: np.ndarray) -> Any:
    """The weights by class, with the classes as they are in y."""
    if not isinstance(given, dict):
        return given
    by_name = {str(c): c for c in np.unique(y)}
    for name in given:
        if name not in by_name:
            raise ValueError(
                f"--class-weight {name}={given[name]:g}: there is no such class; there are "
                f"{', '.join(by_name)}"
            )
    return {c: float(given.get(name, 1.0)) for name, c in by_name.items()}


def _threshold(trained: models.Trained) -> dict[str, Any] | None:
    if trained.threshold is None:
        return None
    return {"class": str(trained.model.classes_[1]), "value": trained.threshold}


def _described(model: Any, X: Any) -> list[dict[str, Any]]:
    """One entry per column, or one for all columns without names."""
    if hasattr(X, "columns"):
        return profile(model, X, model.coding_.kinds_)
    if isinstance(X, list):
        sizes = [graph.n_nodes for graph in X]
        held = f"{min(sizes)} to {max(sizes)} nodes"
        return [{"name": "graphs", "kind": "graph", "missing": 0, "holds": held}]
    name = f"{X.shape[1]:,} columns"
    if not hasattr(X, "tocsr"):
        return [{"name": name, "kind": "numbers", "missing": 0, "holds": ""}]
    held = f"{X.nnz:,} entries, {X.nnz / X.shape[0]:.3g} per row"
    return [{"name": name, "kind": "sparse numbers", "missing": 0, "holds": held}]


def _is_advice(caught: warnings.WarningMessage) -> bool:
    from sklearn.exceptions import ConvergenceWarning

    repeats = str(caught.message).startswith("The number of unique classes")  # as MANY_CLASSES
    return issubclass(caught.category, ConvergenceWarning | UserWarning) and not repeats


def _read_as(data: Data) -> dict[str, str]:
    """How marked numbers were read: the target first, then the features."""
    used = (data.target, *(data.columns or ()))
    return {str(name): data.read_as[name] for name in used if name in data.read_as}


def _line(message: Any) -> str:
    return " ".join(str(message).split())
