"""The kernelised perceptron: coefficients change only on mistakes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from mercer.solvers.result import Monitor, Result, Status


@dataclass
class PerceptronState:
    """What the perceptron remembers: enough to go on, and to average over all steps so far.

    Attributes
    ----------
    coef : ndarray of shape (m, c)
        Coefficients of the m points seen, one column per machine.
    intercept : ndarray of shape (c,)
    steps : int
        Points visited so far.
    missed_coef, missed_intercept : ndarray
        Each change times the number of steps before it: what the average must leave out.
    support : ndarray of shape (s,)
        The points with coefficients, in the order in which they got them.
    mistakes : ndarray of shape (k, 2)
        Each mistake of the last run, in order: point and machine.
    """

    coef: np.ndarray
    intercept: np.ndarray
    steps: int
    missed_coef: np.ndarray
    missed_intercept: np.ndarray
    support: np.ndarray
    mistakes: np.ndarray

    @classmethod
    def zeros(cls, c: int) -> PerceptronState:
        """The state before anything was seen, for c machines."""
        nothing, none = np.zeros((0, c)), np.zeros((0, 2), dtype=np.intp)
        return cls(nothing, np.zeros(c), 0, nothing, np.zeros(c), none[:, 0], none)

    def trimmed(self) -> PerceptronState:
        """The same with its support points only, oldest first."""
        return replace(
            self,
            coef=self.coef[self.support],
            missed_coef=self.missed_coef[self.support],
            support=np.arange(len(self.support)),
        )

    def extended(self, n: int) -> PerceptronState:
        """A copy with room for n more points, their coefficients zero."""
        room = np.zeros((n, self.coef.shape[1]))
        return replace(
            self,
            coef=np.vstack([self.coef, room]),
            intercept=self.intercept.copy(),
            missed_coef=np.vstack([self.missed_coef, room]),
            missed_intercept=self.missed_intercept.copy(),
        )

    def add(self, j: int, change: np.ndarray, bias: np.ndarray | float, step: int) -> None:
        """Change point j's coefficients and the biases, ``step`` steps after the start."""
        self.coef[j] += change
        self.intercept += bias
        self.missed_coef[j] += step * change
        self.missed_intercept += step * bias

    def averaged(self) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients and biases after each step, averaged over all steps."""
        steps = max(self.steps, 1)
        return self.coef - self.missed_coef / steps, self.intercept - self.missed_intercept / steps


def perceptron(
    row: Callable[[int], np.ndarray],
    Y: np.ndarray,
    orders: Iterable[np.ndarray],
    *,
    budget: int | None = None,
    start: PerceptronState | None = None,
    scores: np.ndarray | None = None,
    stop_when_separated: bool = True,
) -> Result:
    r"""Run the perceptron over the points in the given orders, one order per epoch.

    For each point i in turn, a machine with ``y_i (sum_j alpha_j k(x_j, x_i) + b) <= 0`` makes a
    mistake (a score of zero is one) and sets ``alpha_i += y_i``, ``b += y_i``. Machines, one per
    column of ``Y``, see the points in the same order and do not otherwise meet.

    Parameters
    ----------
    row : callable
        ``row(j)`` is the ``(n,)`` vector of kernel values between point j and the n points being
        learned. The points of ``start`` come first, then those being learned.
    Y : ndarray of shape (n, c)
        Labels -1 and +1.
    orders : iterable of ndarray of shape (n,)
        Positions 0 .. n-1 in the order of each epoch.
    budget : int, optional
        Keep at most this many support points; the one that became support first is forgotten.
    start : PerceptronState, optional
        Where to go on from.
    scores : ndarray of shape (n, c), optional
        Scores of the points under ``start``, bias included.
    stop_when_separated : bool
        End after an epoch without mistakes, since nothing but averages would change after it.

    Returns
    -------
    Result
        ``value`` is a `PerceptronState`; ``gap`` and ``history`` hold the share of mistakes per
        epoch; the status is ``CONVERGED`` if the last epoch made none, else
        ``COMPLETED``.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[1.0, -2.0], [-2.0, 4.0]])
    >>> result = perceptron(K.__getitem__, np.array([[1.0], [-1.0]]), [np.arange(2)] * 5)
    >>> result.value.mistakes[:, 0], result.status.name
    (array([0]), 'CONVERGED')

    References
    ----------
    Freund and Schapire (1999), "Large margin classification using the perceptron algorithm".
    """
    n, c = Y.shape
    start = start or PerceptronState.zeros(c)
    known = len(start.coef)
    state = start.extended(n)
    F = np.zeros((n, c)) if scores is None else scores.astype(np.float64)
    support = deque(start.support.tolist())
    is_support = np.zeros(known + n, dtype=bool)
    is_support[start.support] = True
    mistakes: list[tuple[int, int]] = []
    monitor = Monitor(tol=0.0)

    for order in orders:
        before = len(mistakes)
        position = _next_mistake(Y, F, order, 0)
        while position < n:
            i = int(order[position])
            j = known + i
            change = np.where(Y[i] * F[i] <= 0, Y[i], 0.0)
            state.add(j, change, change, state.steps + position)
            F += np.outer(row(j), change) + change
            mistakes.extend((i, int(machine)) for machine in np.flatnonzero(change))
            if not is_support[j]:
                is_support[j] = True
                support.append(j)
            if budget is not None and len(support) > budget:
                oldest = support.popleft()
                is_support[oldest] = False
                F -= np.outer(row(oldest), state.coef[oldest])
                state.add(oldest, -state.coef[oldest], 0.0, state.steps + position)
            position = _next_mistake(Y, F, order, position + 1)
        state.steps += n
        if monitor.record((len(mistakes) - before) / (n * c)) and stop_when_separated:
            break

    state.support = np.array(support, dtype=np.intp)
    state.mistakes = np.array(mistakes, dtype=np.intp).reshape(-1, 2)
    gap = monitor.history[-1] if monitor.history else 0.0
    status = Status.CONVERGED if gap == 0.0 else Status.COMPLETED
    return monitor.result(state, gap, status=status, method="perceptron")


def _next_mistake(Y: np.ndarray, F: np.ndarray, order: np.ndarray, position: int) -> int:
    """The first position from here on where some machine errs under the current scores."""

    def errs(lo: int, hi: int) -> np.ndarray:
        points = order[lo:hi]
        return np.any(Y[points] * F[points] <= 0, axis=1)

    return first_true(errs, position, len(order))


def first_true(test: Callable[[int, int], np.ndarray], start: int, stop: int) -> int:
    """The first t in ``start .. stop`` at which ``test(lo, hi)``, a boolean per t, holds.

    Looks at stretches of doubling length, so that a near event costs little and a far one is
    still found by few vectorised tests. Returns ``stop`` if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> first_true(lambda lo, hi: np.arange(lo, hi) ** 2 > 50, 0, 100)
    8
    """
    length = 8
    while start < stop:
        end = min(start + length, stop)
        hits = test(start, end)
        first = int(np.argmax(hits))
        if hits[first]:
            return start + first
        start, length = end, 2 * length
    return stop
