"""Progress and stopping: the one module that knows scikit-learn's callbacks, still experimental."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.callback import CallbackSupportMixin
from sklearn.callback._callback_support import callback_management_context


@contextmanager
def announced(estimator: Any) -> Iterator[None]:
    """The time of a fit, told to the estimator's callbacks from begin to end."""
    if not isinstance(estimator, CallbackSupportMixin):
        yield
        return
    with callback_management_context(estimator):
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator)
        yield
        context.call_on_fit_task_end(estimator=estimator)


def reporter(estimator: Any) -> Callable[[int, float], bool] | None:
    """What a solver reports its iterations to; None where nobody listens.

    Callbacks see one task per recorded iteration, with ``n_iter`` and ``gap`` in its metadata; one
    that answers True stops the solver, which leaves a usable model.
    """
    if not getattr(estimator, "_skl_callbacks", None):
        return None
    context = estimator._callback_fit_ctx

    def report(n_iter: int, gap: float) -> bool:
        task = context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=estimator)
        told = {"n_iter": n_iter, "gap": gap}
        return task.call_on_fit_task_end(estimator=estimator, metadata=told)

    return report
