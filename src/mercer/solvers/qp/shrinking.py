"""Which variables a problem over all may still move: the others can be left out for a while."""

from __future__ import annotations

import numpy as np

from mercer.solvers.qp.quadratic_program import QuadraticProgram


class Returns:
    """Counts how often the same rows of a Gram matrix are asked for.

    Where each is needed once, nothing is gained by keeping any; where most come back, it is time
    to work on fewer points, whose rows can be kept.

    Examples
    --------
    >>> returns = Returns(4)
    >>> returns.note(np.array([0, 1])), returns.note(np.array([1])), returns.note(np.array([0]))
    (False, False, True)
    """

    def __init__(self, n: int):
        self.asked = np.zeros(n, dtype=bool)
        self.count = 0

    def note(self, points: np.ndarray) -> bool:
        """Whether the rows asked for, with those of these points, were asked for twice each."""
        self.asked[points] = True
        self.count += len(points)
        return bool(self.count >= 2 * np.count_nonzero(self.asked))


def undecided(program: QuadraticProgram, a: np.ndarray, F: np.ndarray, most: int) -> np.ndarray:
    """Points that the problem may still move, at most so many, sorted.

    A variable at a bound is decided where no other of its group violates the optimality conditions
    together with it. Where the undecided are too many, the worst violators come first, as
    many as half of the place, then variables inside the box.

    Parameters
    ----------
    program : QuadraticProgram
    a, F : ndarray of shape (n,)
        Where it is, and the gradient there.
    most : int

    Examples
    --------
    >>> program = QuadraticProgram(np.eye(4), np.zeros(4), np.zeros(4), np.ones(4),
    ...                            np.zeros(4, dtype=int), np.ones(1))
    >>> a, F = np.array([0.0, 0.5, 0.5, 0.0]), np.array([3.0, 1.0, 0.5, 0.8])
    >>> undecided(program, a, F, 4), undecided(program, a, F, 2)
    (array([1, 2, 3]), array([1, 2]))
    """
    can_rise, can_fall = a < program.hi, a > program.lo
    gain = np.zeros(len(a))
    for g in range(max(program.n_groups, 1)):
        inside = np.ones(len(a), dtype=bool) if program.groups is None else program.groups == g
        # A variable alone gains as if it were paired with one of gradient zero.
        start = (np.inf, -np.inf) if program.n_groups else (0.0, 0.0)
        lowest = np.min(F, where=inside & can_rise, initial=start[0])
        highest = np.max(F, where=inside & can_fall, initial=start[1])
        np.maximum(gain, highest - F, out=gain, where=inside & can_rise)
        np.maximum(gain, F - lowest, out=gain, where=inside & can_fall)
    free = can_rise & can_fall
    points = np.unique(np.flatnonzero(free | (gain > 0)) % program.n_points)
    if len(points) <= most:
        return points
    by_gain = np.argsort(-gain, kind="stable") % program.n_points
    inside = np.flatnonzero(free) % program.n_points
    _, first = np.unique(by_gain, return_index=True)
    by_gain = by_gain[np.sort(first)]
    ordered = np.concatenate([by_gain[: max(1, most // 2)], inside, by_gain])
    _, first = np.unique(ordered, return_index=True)
    return np.sort(ordered[np.sort(first)][:most])
