"""Preconditioned conjugate gradients that give log-determinants along with solutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

from mercer.solvers.conjugate_gradients import dots

Product = Callable[[np.ndarray], np.ndarray]


class Solved(NamedTuple):
    """Solutions of ``C X = B``, and quadratic forms of the logarithm.

    Attributes
    ----------
    X : (n, c) array
    logs : (c,) array
        ``w^T log(L^-1 C L^-T) w`` with ``w = L^-1 b`` for each column b, where ``P = L L^T``.
    left : (c,) array
        ``r^T P^-1 r`` for the residuals r, as the iteration has them.
    n_iter : int
    """

    X: np.ndarray
    logs: np.ndarray
    left: np.ndarray
    n_iter: int


def solve_with_logs(
    product: Product, solve: Product, B: np.ndarray, goal: np.ndarray, max_iter: int
) -> Solved:
    """Conjugate gradients for each column, one product for all of them at a time.

    The steps of each column are the Lanczos process for ``L^-1 C L^-T`` from w, whose Gauss
    quadrature sums up the logarithms.

    Parameters
    ----------
    product : callable
        C V.
    solve : callable
        P^-1 V.
    B : (n, c) array
    goal : (c,) array
        A column is solved when ``r^T P^-1 r`` is at most its goal.
    max_iter : int

    References
    ----------
    Golub and Meurant (1994), "Matrices, moments and quadrature". Gardner, Pleiss, Bindel,
    Weinberger and Wilson (2018), "GPyTorch: blackbox matrix-matrix Gaussian process inference".

    Examples
    --------
    >>> import numpy as np
    >>> C = np.diag([1.0, np.e])
    >>> found = solve_with_logs(lambda V: C @ V, lambda V: V, np.ones((2, 1)), np.zeros(1), 2)
    >>> found.logs.round(6).tolist()
    [1.0]
    """
    X, R = np.zeros_like(B), B.copy()
    Z = solve(R)
    D, left = Z.copy(), dots(R, Z)
    first = left.copy()
    steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    active = np.flatnonzero(left > goal)
    while len(active) and len(steps) < max_iter:
        Q = product(D[:, active])
        curvature = dots(D[:, active], Q)
        moving = curvature > 0
        active, Q, curvature = active[moving], Q[:, moving], curvature[moving]
        if not len(active):
            break
        step = left[active] / curvature
        X[:, active] += step * D[:, active]
        R[:, active] -= step * Q
        Z = solve(R[:, active])
        now = np.maximum(dots(R[:, active], Z), 0.0)
        turn = now / left[active]
        D[:, active] = Z + turn * D[:, active]
        left[active] = now
        steps.append((active, step, turn))
        active = active[now > goal[active]]
    return Solved(X, first * _logs(steps, B.shape[1]), left, len(steps))


def _logs(steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]], c: int) -> np.ndarray:
    """The first diagonal entry of the logarithm of each column's tridiagonal matrix: (c,)."""
    sizes, turns = np.zeros((2, len(steps), c))
    count = np.zeros(c, dtype=int)
    for i, (active, step, turn) in enumerate(steps):
        sizes[i, active], turns[i, active] = step, turn
        count[active] += 1
    found = np.zeros(c)
    for j, k in enumerate(count):
        if k:
            inverse, turn = 1 / sizes[:k, j], turns[: k - 1, j]
            diagonal = inverse.copy()
            diagonal[1:] += turn * inverse[:-1]
            values, vectors = eigh_tridiagonal(diagonal, np.sqrt(turn) * inverse[:-1])
            tiny = np.finfo(float).tiny
            found[j] = vectors[0] ** 2 @ np.log(np.maximum(values, tiny))
    return found
