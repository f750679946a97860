"""Kernel ridge by one eigendecomposition, which then serves every regulariser.

It also gives minimum-norm least squares and exact leave-one-out predictions. The Gram matrix and
its eigenvectors stay where they are, which may be a device; vectors are on the host.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.arrays import like
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import (
    ROUNDING_LIMIT,
    as_columns,
    relative_gradient,
    rounding_advice,
)


def solve_eigh(system: Eigensystem, Y: np.ndarray, lam: float | np.ndarray) -> Result:
    """Solve weighted kernel ridge by an eigendecomposition, of minimum norm where it is free.

    Parameters
    ----------
    system : Eigensystem
        Decomposed once, good for any number of regularisers.
    Y : ndarray of shape (n,) or (n, t)
    lam : float or ndarray of shape (t,)
        Regulariser, zero allowed.

    Returns
    -------
    Result
        ``value`` is ``alpha`` of shape (n, t); ``gap`` is `relative_gradient`.

    Examples
    --------
    >>> import numpy as np
    >>> solve_eigh(Eigensystem(np.eye(2)), np.array([1.0, 2.0]), lam=1.0).value.ravel()
    array([0.5, 1. ])

    References
    ----------
    Rifkin and Lippert (2007), "Notes on regularized least squares".
    """
    monitor = Monitor(tol=ROUNDING_LIMIT)
    Y, lams, weight = as_columns(Y, lam, system.weight)
    alpha = system.coefficients(Y, lams)
    a, targets, s = (like(A, system.gram) for A in (alpha, Y, weight))
    gap = relative_gradient(system.gram, a, targets, lams, s, system.fit_intercept)
    monitor.record(gap)
    status = Status.EXACT if gap <= ROUNDING_LIMIT else Status.STALLED
    result = monitor.result(alpha, gap, status=status, method="eigh")
    result = result.advised(rounding_advice(float(system.values.max(initial=0.0)), lams))
    return replace(result, seconds=result.seconds + system.seconds)
