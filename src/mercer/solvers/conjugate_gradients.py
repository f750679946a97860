"""Preconditioned conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.arrays import as_numpy, backend, like, namespace
from mercer.solvers.result import Monitor
from mercer.solvers.ridge_problem import gradient_ratio

# ``product(V, columns)`` is A V for the right-hand sides of these numbers, V having their columns
# only; so for residuals, and for what stands for A^{-1}. Arrays of n rows may be tensors.
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]

# A residual that has shrunk by so much since it was last computed afresh is computed afresh, if
# the products in between were quick ones.
REPLACE = 1e-3


def conjugate_gradients(
    residual: Product,
    product: Product,
    precondition: Product,
    B: np.ndarray,
    X: np.ndarray,
    monitor: Monitor,
    quick: Product | None = None,
) -> tuple[np.ndarray, bool]:
    """Solve ``A X = B``, improving X in place.

    Parameters
    ----------
    residual : callable
        ``B - A X``, in float64.
    product : callable
        ``A V``, in float64.
    precondition : callable
        Nearly ``A^{-1} V``.
    B, X : ndarray of shape (n, t)
    monitor : Monitor
        Its gap is the norm of the residual relative to that of B, the worst over columns.
    quick : callable, optional
        Quicker products, of float32 accuracy. The residual is then computed afresh whenever it
        has shrunk a thousandfold, and ``product`` takes over where that shows no progress.

    Returns
    -------
    R : ndarray of shape (n, t)
        The residual, computed afresh.
    stalled : bool
        Whether rounding stopped the iteration.

    References
    ----------
    Van der Vorst and Ye (2000), "Residual replacement strategies for Krylov subspace iterative
    methods".
    """
    step_product = product if quick is None else quick
    every = np.arange(B.shape[1])
    R = residual(X, every) if X.any() else backend(B).copy(B)
    goal = monitor.tol * norms(B)
    fresh = norms(R)  # of the residual when last computed afresh
    active = np.flatnonzero(fresh > goal)
    stalled, done = False, monitor.record(relative(R, B), steps=0)
    Z = precondition(R, every)
    D, slope = backend(Z).copy(Z), dots(R, Z)
    exact = True
    while not done and len(active):
        Q = step_product(D[:, active], active)
        curvature = dots(D[:, active], Q)
        moving = curvature > 0
        # A residual computed afresh need not be orthogonal to the last direction.
        fall = dots(R[:, active], D[:, active])
        step = np.divide(fall, curvature, out=np.zeros(len(moving)), where=moving)
        X[:, active] += like(step, D) * D[:, active]
        before = R[:, active]
        R[:, active] = before - like(step, D) * Q
        exact = False
        size = norms(R)
        reach = 0.0 if step_product is product else REPLACE * fresh
        due = np.isin(every, active) & (size <= np.maximum(goal, reach))
        due[active] |= ~moving
        if due.any():
            R[:, active] = residual(X[:, active], active)
            exact = True
            size = norms(R)
            if np.any(due & (size > goal) & (size > 0.5 * fresh)):
                stalled, step_product = step_product is product, product
            fresh[due] = size[due]
        Z = precondition(R[:, active], active)
        now = dots(R[:, active], Z)
        # The form that forgives products which are not all with the same matrix.
        turn = np.divide(now - dots(before, Z), slope[active], out=np.zeros(len(now)), where=moving)
        D[:, active] = Z + like(np.maximum(turn, 0.0), D) * D[:, active]
        slope[active] = now
        done = monitor.record(relative(R, B)) or stalled
        active = active[size[active] > goal[active]]
    if not exact:
        R = residual(X, every)
    return R, stalled and not bool(np.all(norms(R) <= goal))


def dots(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The inner product of each column of U with the same of V."""
    return as_numpy(namespace(U).einsum("ij,ij->j", U, V))


def norms(R: np.ndarray) -> np.ndarray:
    """The length of each column."""
    return np.sqrt(dots(R, R))


def relative(R: np.ndarray, B: np.ndarray) -> float:
    """The largest norm of a column of R over that of B's."""
    return gradient_ratio(dots(R, R), dots(B, B))
