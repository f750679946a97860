"""The kernelised perceptron: coefficients change only on mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mercer.operators import GramOperator
from mercer.solvers.online.score_cache import ScoreCache
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

    def averaged(self) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients and biases after each step, averaged over all steps."""
        steps = max(self.steps, 1)
        return self.coef - self.missed_coef / steps, self.intercept - self.missed_intercept / steps


def perceptron(
    K: GramOperator,
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

    A mistake costs a row of K, a visit without one nothing. An epoch makes a mistake at support
    points only, so this is never more than the support size per step.

    Parameters
    ----------
    K : GramOperator of shape (n, n) or (known + n, n)
        The kernel between the n points being learned; with a budget and a ``start`` the points of
        ``start`` come before them.
    Y : ndarray of shape (n, c)
        Labels -1 and +1.
    orders : iterable of ndarray of shape (n,)
        Positions 0 .. n-1 in the order of each epoch.
    budget : int, optional
        Keep at most this many support points; the one that became support first is forgotten. A
        step then costs at most the budget, or a row of K where K is stored.
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
    >>> from mercer.operators import DenseGram
    >>> K = DenseGram(np.array([[1.0, -2.0], [-2.0, 4.0]]))
    >>> result = perceptron(K, np.array([[1.0], [-1.0]]), [np.arange(2)] * 5)
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
    covered = slice(known + n - K.shape[0], None)
    learner = ScoreCache(
        K,
        Y,
        scores=None if scores is None else scores - start.intercept,
        coef=state.coef[covered],
        bias=start.intercept,
        inclusive=True,
        queue=start.support if K.shape[0] > n else None,
        budget=budget,
    )
    assert learner.bias is not None
    support = start.support
    mistakes, monitor = [], Monitor(tol=0.0)
    for order in orders:
        changed = learner.visit(order, np.zeros(n))
        where, which = np.nonzero(changed)
        erring = np.unique(where)
        change = changed[erring] * Y[order[erring]]
        missed = (state.steps + erring)[:, None] * change
        state.missed_coef[known + order[erring]] += missed
        state.missed_intercept += missed.sum(axis=0)
        state.steps += n
        mistakes.append(np.column_stack([order[where], which]))
        joined = known + order[erring]
        support = np.concatenate([support, joined[~np.isin(joined, support)]])
        if monitor.record(len(where) / (n * c)) and stop_when_separated:
            break

    state.coef[covered] = learner.coef.T
    state.intercept = learner.bias
    state.support = support if budget is None else learner.queue + covered.start
    state.mistakes = np.concatenate(mistakes) if mistakes else np.zeros((0, 2), dtype=np.intp)
    gap = monitor.history[-1] if monitor.history else 0.0
    status = Status.CONVERGED if gap == 0.0 else Status.COMPLETED
    return monitor.result(state, gap, status=status, method="perceptron")
