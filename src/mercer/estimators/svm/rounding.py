"""What a machine trained on kernel values in float32 may be off by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mercer.arrays import take_rows, to_float64
from mercer.estimators.svm.forms import Form
from mercer.solvers.qp.row_cache import origin
from mercer.solvers.result import Result

if TYPE_CHECKING:
    from mercer.estimators.svm.training import Training

# Points of more at which the rounding of a kernel in float32 is measured.
AUDITED = 64


def expected_rounding(forms: list[Form]) -> float:
    """How far rounding in float32 may move a gradient, roughly: errors of many signs add up."""
    worst = 0.0
    for form in forms:
        program = form.program
        room = np.minimum(program.hi - program.lo, np.inf)
        worst = max(worst, float(np.max(program.diagonal()) * np.sqrt(np.sum(room**2))))
    return float(np.finfo(np.float32).eps) * worst


def measured_rounding(training: Training, forms: list[Form], results: list[Result]) -> float:
    """The largest error of the gradients at some points spread over all, by float64 kernels."""
    X, n = take_rows(training.X, training.order), len(training.order)
    beta, images = np.zeros((n, len(forms))), np.full((n, len(forms)), np.nan)
    for column, (form, result) in enumerate(zip(forms, results, strict=True)):
        index, program = origin(form.program.K)[1], form.program
        beta[index, column] = result.value.coefficients
        image = (result.value.gradient - program.p)[: len(index)]
        images[index, column] = (
            image if program.signs is None else image * program.signs[: len(index)]
        )
    used = np.flatnonzero(np.any(beta, axis=1))
    if not len(used):
        return 0.0
    looked = np.unique(np.linspace(0, n - 1, AUDITED).astype(int))
    exact = training.kernel(to_float64(X[looked]), to_float64(X[used])) @ beta[used]
    return float(np.nanmax(np.abs(exact - images[looked]), initial=0.0))


def with_error(form: Form, result: Result, error: float) -> Result:
    """The result with its certificate widened by so much doubt about every gradient."""
    solution, program = result.value, form.program
    room = float(np.sum(np.where(solution.a != 0, program.hi - program.lo, 0.0)))
    gap = solution.gap + error * room / max(1.0, abs(solution.objective))
    widened = replace(solution, violation=solution.violation + 2 * error, gap=gap)
    return replace(result, value=widened, gap=gap)
