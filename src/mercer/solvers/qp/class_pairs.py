"""Soft-margin classification for every pair of many classes, without Python for each pair."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from mercer import core
from mercer.core.reference.working_sets import State
from mercer.solvers.qp.quadratic_program import LARGEST_GAP, Solution
from mercer.solvers.result import Result, Status

# Steps of one pair after which other methods than `smo` may be faster.
_MOST_STEPS = 20_000


class ClassPairs(NamedTuple):
    """The solutions of all pairs (i, j), i < j, in the order of `itertools.combinations`.

    Attributes
    ----------
    layout : ndarray of shape (n_classes - 1, n)
        Coefficients in LIBSVM's layout, of the points class by class: for a point of class c, row
        j - 1 has the pair with class j > c, and row i the pair with class i < c.
    multipliers, squared_norms : ndarrays of shape (n_pairs,)
    result : Result
        Of all pairs together: ``value`` is a tuple of one `Solution` per pair.
    n_iter : ndarray of shape (n_pairs,)
    """

    layout: np.ndarray
    multipliers: np.ndarray
    squared_norms: np.ndarray
    result: Result
    n_iter: np.ndarray


def solve_class_pairs(
    K: np.ndarray, members: Sequence[np.ndarray], C: np.ndarray, fit_intercept: bool, tol: float
) -> ClassPairs | None:
    """``min ½ ‖w‖² + Σ C_i max(0, 1 - y_i f(x_i))`` for every pair of classes.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix of the points.
    members : sequence of int arrays
        The places of the points of each class.
    C : ndarray of shape (n,)
        The regularisation parameter of each point, positive and finite.
    fit_intercept : bool
    tol : float
        Largest violation of the optimality conditions.

    Returns
    -------
    ClassPairs, or None where a pair is not solved in the steps that `smo` is good for.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-1.0, 1.0, 3.0])
    >>> found = solve_class_pairs(np.outer(x, x), [[0], [1], [2]], np.full(3, 9.0), True, 1e-6)
    >>> found.layout
    array([[ 0.5  , -0.5  , -0.125],
           [ 0.125,  0.5  , -0.5  ]])
    """
    begun = time.perf_counter()
    sizes = np.array([len(some) for some in members])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    column = np.concatenate(members).astype(np.int64)
    first, second = np.triu_indices(len(sizes), 1)
    count = sizes[first] + sizes[second]
    different, which = np.unique(count, return_inverse=True)
    q = np.array([core.working_set_size(int(n)) for n in different], dtype=np.int64)[which]
    threads = core.threads(int(np.sum(count.astype(float) ** 2)), 0)
    found = core.solver().solve_pairs(
        K, starts, column, C, q, fit_intercept, tol, LARGEST_GAP, _MOST_STEPS, threads
    )
    a, F, multipliers, objectives, squared_norms, violations, gaps, n_iter, states = found
    if np.any(states != State.DONE):
        return None
    ends = np.concatenate([[0], np.cumsum(count)])
    layout = np.empty((len(sizes) - 1, len(column)))
    solutions = []
    for pair, (i, j) in enumerate(combinations(range(len(sizes)), 2)):
        variables = slice(ends[pair], ends[pair + 1])
        own = a[variables]
        layout[j - 1, starts[i] : starts[i + 1]] = own[: sizes[i]]
        layout[i, starts[j] : starts[j + 1]] = own[sizes[i] :]
        levels = multipliers[pair : pair + 1] if fit_intercept else multipliers[:0]
        solutions.append(
            Solution(
                own,
                F[variables],
                own,
                levels,
                objectives[pair],
                squared_norms[pair],
                violations[pair],
                gaps[pair],
            )
        )
    worst = int(np.argmax(gaps))
    result = Result(
        value=tuple(solutions) if len(solutions) > 1 else solutions[0],
        status=Status.CONVERGED,
        gap=float(gaps[worst]),
        n_iter=int(n_iter.sum()),
        seconds=time.perf_counter() - begun,
        history=(float(violations[worst]),),
        method=f"{len(count)} pairs of classes, the worst by smo" if len(count) > 1 else "smo",
    )
    return ClassPairs(layout, multipliers, squared_norms, result, n_iter)
