"""Progress and stopping, by scikit-learn's callbacks, where its version has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mercer._sklearn import LISTENERS, callbacks_around, fit_context


@contextmanager
def fit_callbacks(estimator: Any) -> Iterator[None]:
    """Reports a fit to the estimator's callbacks, from begin to end."""
    if not any(name in vars(estimator) for name in LISTENERS):
        yield
        return
    with callbacks_around(estimator) as context:
        if context is None:
            yield
            return
        context.call_on_fit_task_begin(estimator=estimator)
        yield
        if hasattr(context, "report"):
            context.report.close()
        context.call_on_fit_task_end(estimator=estimator)


def reporter(estimator: Any) -> Callable[[int, float], bool] | None:
    """What a solver reports its iterations to; None where nobody listens.

    Callbacks see one task per recorded iteration, with ``n_iter`` and ``gap`` in its metadata; one
    that answers True stops the solver, which leaves a usable model.
    """
    if not vars(estimator).get(LISTENERS[0]):
        return None
    context = fit_context(estimator)
    if not hasattr(context, "report"):
        context.report = _Report(estimator)
    return context.report


class _Report:
    """Reports iterations to callbacks, under one task for every power of ten that the gap reaches.

    A progress bar so has a line per power, and shows the gap falling.
    """

    def __init__(self, estimator: Any):
        self.estimator = estimator
        self.level = math.inf
        self.reached: Any = None

    def __call__(self, n_iter: int, gap: float) -> bool:
        level = math.ceil(math.log10(gap)) if 0 < gap < math.inf else 0
        if level < self.level:
            self.close()
            self.level = level
            context = fit_context(self.estimator)
            self.reached = context.subcontext(f"gap below 1e{level:+03d}", max_subtasks=None)
            self.reached.call_on_fit_task_begin(estimator=self.estimator)
        task = self.reached.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=self.estimator)
        metadata = {"n_iter": n_iter, "gap": gap}
        return task.call_on_fit_task_end(estimator=self.estimator, metadata=metadata)

    def close(self) -> None:
        if self.reached is not None:
            self.reached.call_on_fit_task_end(estimator=self.estimator)
