"""Coordinate descent: quadratic programs of explicit features, without their Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import core
from mercer.arrays import memory_budget
from mercer.operators import FeatureGram
from mercer.solvers.qp.quadratic_program import QuadraticProgram
from mercer.solvers.qp.row_cache import origin

# Seconds between two looks at whether to stop.
_SECONDS_PER_LOOK = 0.2
_MOST_ROUNDS = 20_000
# What a sparse entry takes.
_ENTRY_BYTES = 12


def descend(
    program: QuadraticProgram,
    a: np.ndarray,
    tol: float,
    max_steps: int,
    seconds_left: Callable[[], float],
    report: Callable[[int, float], Any],
) -> tuple[np.ndarray, int] | None:
    """A point near the solution of a problem whose matrix is that of explicit features.

    Each step optimises one variable at the cost of one row of features. Sums hold to about the
    tolerance, not exactly: another solver makes them so, and certifies the result.

    Parameters
    ----------
    program : QuadraticProgram
    a : (n,) array
        Where to start, within the bounds.
    tol : float
        The largest range of the projected gradient.
    max_steps : int
        How many times a variable may be optimised, at most.
    seconds_left : callable
        How long the search may take, asked now and then.
    report : callable
        ``report(steps, violation)``; a true value ends the search.

    Returns
    -------
    (n,) array and the steps taken, or None where the problem is not of this kind, its bounds are
    infinite, or so few steps would not do for all variables.
    """
    n = len(program.p)
    features = _sparse_features(program.K) if program.bounded and max_steps >= n else None
    if features is None:
        return None
    a = a.copy()
    p, lo, hi = (_double(v) for v in (program.p, program.lo, program.hi))
    signs, groups = program.signs, program.groups
    descent = core.coordinate_descent(
        *features,
        a,
        p,
        lo,
        hi,
        None if signs is None else _double(signs),
        None if groups is None else np.ascontiguousarray(groups, dtype=np.int32),
        _double(program.totals),
        tol,
        0,
    )
    while descent.violation > tol and seconds_left() > 0:
        rounds = min(_MOST_ROUNDS - descent.rounds, (max_steps - descent.steps) // n)
        if rounds <= 0:
            break
        descent.run(rounds, min(_SECONDS_PER_LOOK, seconds_left()))
        if report(descent.steps, descent.violation):
            break
    return a, descent.steps


def _double(v: Any) -> np.ndarray:
    return np.ascontiguousarray(v, dtype=np.float64)


def _sparse_features(K: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, int] | None:
    whole, index = origin(K)
    if not isinstance(whole, FeatureGram):
        return None
    phi = whole.left if whole is K else whole.left[index]
    entries = phi.nnz if sp.issparse(phi) else phi.size
    if not sp.issparse(phi) and _ENTRY_BYTES * entries > memory_budget():
        return None
    phi = sp.csr_array(phi)
    if phi.shape[1] >= 2**31:
        return None
    starts, columns = phi.indptr.astype(np.int64), phi.indices.astype(np.int32)
    return starts, columns, phi.data.astype(np.float64), phi.shape[1]
