"""The report of a fitted model on held-out rows, as an object."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_regressor

import mercer
from mercer.arrays import n_rows
from mercer.reports import cases
from mercer.reports import importances as importance
from mercer.reports.comparison import compared
from mercer.reports.evaluation import evaluated
from mercer.reports.models import described, profile
from mercer.reports.scores import HeldOut, checked_metric
from mercer.reports.summaries import facts, plain
from mercer.whole_files import write_whole


class Report:
    """What is known of a model: scores, importances, dependence, comparison, kernel and proof.

    Parameters
    ----------
    summary : dict
        In types that JSON can hold.
    title : str
    """

    def __init__(self, summary: dict[str, Any], title: str = "Report"):
        self.summary = summary
        self.title = title

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the report in types that JSON can hold; None for those not finite."""
        return plain(self.summary)

    def html(self) -> str:
        """The report as one self-contained page."""
        from mercer.reports.pages import page

        return page(self.title, [plain(self.summary)])

    def save(self, path: Any) -> None:
        """Write the page to a file, whole or not at all."""
        write_whole(str(path), self.html().encode())

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that styles of the notebook do not mix with it."""
        from html import escape

        style = 'style="width:100%;height:44rem;border:0"'
        inside = f'srcdoc="{escape(self.html())}"'
        return f'<iframe title="{escape(self.title)}" {style} {inside}></iframe>'

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in facts(self.summary))


def report(
    model: Any,
    X: Any,
    y: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    metric: str | None = None,
    title: str | None = None,
    random_state: int = 0,
) -> Report:
    """Report on a fitted model, tested on rows that it was not trained on.

    Parameters
    ----------
    model : fitted classifier or regressor
        Of mercer or scikit-learn.
    X : DataFrame, array, sparse matrix or list of objects
        Held-out rows.
    y : (n,) array
    X_train, y_train : optional
        Training rows, for the comparison with a constant, a linear model and boosted trees.
        Without ``y_train`` the constant is that of y.
    metric : str, optional
        "accuracy", "balanced_accuracy", "f1", "auc", "log_loss", "r2", "rmse" or "mae"; accuracy
        or R² by default, and balanced accuracy if one class has more than 80 % of the rows.
    title : str, optional
    random_state : int, default=0
        For permutations and samples.

    Returns
    -------
    Report
        Shown as a page in notebooks; ``to_dict()`` has the numbers, ``save("page.html")`` writes
        the page, which needs matplotlib.

    Examples
    --------
    >>> import mercer
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = mercer.KernelRidge(kernel="rbf", gamma=1.0, alpha=0.1).fit(X[:300], y[:300])
    >>> found = mercer.report(model, X[300:], y[300:], X_train=X[:300], y_train=y[:300])
    >>> [row["model"] for row in found.to_dict()["comparison"]]
    ['this model', 'predicting the mean', 'ridge regression', 'boosted trees']
    """
    y = np.asarray(y)
    task = _task_of(model)
    if n_rows(X) != len(y):
        raise ValueError(f"X has {n_rows(X)} rows and y has {len(y)}")
    if y.ndim != 1 or len(y) < 2:
        raise ValueError(f"y has shape {y.shape}; expected (n,) with at least two rows")
    known = y if y_train is None else np.asarray(y_train)
    chosen = checked_metric(metric, task, y)
    held = held_out(model, X, y, task)
    training = None
    if X_train is not None and y_train is not None:
        training = Training(X_train, known, np.arange(len(known)))
    summary: dict[str, Any] = {
        "kind": "report",
        "data": title or "",
        "rows": len(y),
        "task": task,
        "target": getattr(y, "name", None),
        "columns": _profile(model, X),
        **evaluated(held, known, chosen),
        **explained(model, X, held, random_state, training=training),
        "advice": [],
        **described(model),
        "mercer": mercer.__version__,
    }
    if training is not None:
        summary["trained on"], summary["tested on"] = len(known), len(y)
        summary["comparison"] = compared(held, X, X_train, known, chosen, random_state)
        summary["comparison metric"] = summary["score"]["name"]
    return Report(summary, title or f"{type(model).__name__}: {summary['score']['name']}")


def held_out(model: Any, X: Any, y: np.ndarray, task: str) -> HeldOut:
    """Predictions, with probabilities if the model has them."""
    predicted = np.asarray(model.predict(X))
    if task == "regression":
        return HeldOut(task, y.astype(float), predicted.astype(float))
    if not hasattr(model, "predict_proba"):
        return HeldOut(task, y, predicted)
    return HeldOut(task, y, predicted, np.asarray(model.classes_), model.predict_proba(X))


class Training(NamedTuple):
    """The training rows of a model, and their numbers in the data."""

    X: Any
    y: np.ndarray
    numbers: np.ndarray


def explained(
    model: Any,
    X: Any,
    held: HeldOut,
    random_state: int,
    numbers: np.ndarray | None = None,
    training: Training | None = None,
) -> dict[str, Any]:
    """Importances, partial dependence, interactions, residuals by column, and one row in detail.

    Parameters
    ----------
    X : the rows of ``held``
    numbers : (n,) array, optional
        What the report calls these rows.
    training : Training, optional
        For the training rows that are most similar to the row shown in detail.
    """
    y, task = held.y, held.task
    losses = importance.importances(model, X, y, task, random_state)
    top = [row["column"] for row in losses or [] if row["mean"] > 0]
    names = top or (importance.column_names(X) or [])
    found: dict[str, Any] = {"importances": losses}
    if losses:
        found["dependence"] = importance.dependence(model, X, top, random_state)
        found["interactions"] = importance.interactions(model, X, top, random_state)
    if task == "regression":
        found["residuals by column"] = cases.residuals_by_column(X, held, names)
        found["prediction intervals"] = cases.interval_coverage(model, X, y)
    row = cases.largest_error(held)
    number = row if numbers is None else int(numbers[row])
    found["what if"] = cases.what_if(model, X, held, row, number, names)
    if training is not None:
        near = cases.nearest_training_rows(model, X, row, *training)
        found["similar rows"] = {"row": number, "rows": near} if near else None
    return found


def _task_of(model: Any) -> str:
    if is_classifier(model):
        return "classification"
    if is_regressor(model):
        return "regression"
    raise TypeError(f"{type(model).__name__} is neither a classifier nor a regressor")


def _profile(model: Any, X: Any) -> list[dict[str, Any]]:
    if not hasattr(X, "iloc"):
        return []
    kinds = getattr(getattr(model, "coding_", None), "kinds_", None)
    if kinds is None or len(kinds) != X.shape[1]:
        kinds = ["number" if d.kind in "biufM" else "category" for d in X.dtypes]
    return profile(model, X, kinds)
