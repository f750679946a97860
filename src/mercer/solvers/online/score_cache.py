"""Scores of points that are visited one after another, kept up to date as coefficients change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer import core
from mercer.arrays import row_major
from mercer.operators import DenseGram, GramOperator

# Points whose kernel with one another is computed at once, where it is not stored.
BLOCK = 128
# Entries of that kernel, with the points that may be forgotten, at most.
ENTRIES = 2**22
# Multiplications between two looks at whether the user has pressed Ctrl-C.
WORK = 2**26


class ScoreCache:
    """Coefficients that change by ``+y`` where a point falls short, and the scores that follow.

    A visit that changes nothing costs nothing; a change costs one row of the kernel, with the
    points being learned. Where the kernel is not stored, the points ahead are taken some at a time:
    within a block the changes of one point reach the others through their own small Gram matrix,
    and all other points by one product at its end. Under a budget scores are computed at every
    block from the points that have coefficients.

    Parameters
    ----------
    K : GramOperator of shape (s, n)
        Between the s points that may have coefficients and the n being learned, which are the last
        n of them; without a budget only those n.
    Y : ndarray of shape (n, c)
        Labels -1 and +1, one column per machine.
    scores : ndarray of shape (n, c) or None
        To start from, without bias; zero if None.
    coef : ndarray of shape (s, c) or None
        Coefficients to start from.
    bias : ndarray of shape (c,) or None
        Moves with the coefficients if there is one.
    inclusive : bool
        Whether a margin equal to its threshold falls short too.
    queue : ndarray or None
        The points with coefficients, oldest first.
    budget : int or None
        Most points with coefficients: beyond it the oldest is forgotten.
    """

    def __init__(
        self,
        K: GramOperator,
        Y: np.ndarray,
        *,
        scores: np.ndarray | None = None,
        coef: np.ndarray | None = None,
        bias: np.ndarray | None = None,
        inclusive: bool = False,
        queue: np.ndarray | None = None,
        budget: int | None = None,
    ):
        (s, n), c = K.shape, Y.shape[1]
        self.K, self.Y = K, np.ascontiguousarray(Y, dtype=np.float64)
        self.first = s - n
        self.F = np.zeros((c, n)) if scores is None else np.array(scores.T, float, order="C")
        self.coef = np.zeros((c, s)) if coef is None else np.array(coef.T, float, order="C")
        self.bias = None if bias is None else np.array(bias, dtype=np.float64)
        self.inclusive = inclusive
        self.queue = np.zeros(0, np.int64) if queue is None else np.asarray(queue, np.int64)
        self.budget = -1 if budget is None else budget
        self.values = _as_floats(K.dense()) if isinstance(K, DenseGram) else None

    def visit(self, order: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        """Visit points in this order; which machines changed at each step, shape (k, c), uint8.

        A machine changes where ``y (score + bias)`` is below the step's threshold.
        """
        order = np.asarray(order, dtype=np.int64)
        changed = np.zeros((len(order), len(self.coef)), dtype=np.uint8)
        step: Callable[[np.ndarray, np.ndarray], np.ndarray] = self._stored
        if self.values is None:
            step = self._block if self.budget < 0 else self._budgeted_block
        position = 0
        while position < len(order):
            part = slice(position, position + self._length())
            changed[part] = step(order[part], threshold[part])
            position = part.stop
            if self.values is None and self.budget < 0:
                position = self._next(order, threshold, position)
        return changed

    def _length(self) -> int:
        """How many points to take next."""
        if self.values is not None:
            return max(1, WORK // max(self.F.size, 1))
        return min(BLOCK, max(16, ENTRIES // (len(self.queue) + BLOCK)))

    def _next(self, order: np.ndarray, threshold: np.ndarray, start: int) -> int:
        """The first position from here on where some machine falls short as things are."""

        def short(lo: int, hi: int) -> np.ndarray:
            points = order[lo:hi]
            scores = self.F[:, points].T
            margin = self.Y[points] * (scores if self.bias is None else scores + self.bias)
            limit = threshold[lo:hi, None]
            return np.any(margin <= limit if self.inclusive else margin < limit, axis=1)

        return first_true(short, start, len(order))

    def _stored(self, order: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        assert self.values is not None
        changed, self.queue = core.learner().visit(
            self.values,
            self.Y,
            self.F,
            self.coef,
            self.bias,
            order,
            order + self.first,
            threshold,
            self.inclusive,
            self.queue,
            self.budget,
        )
        return changed

    def _block(self, order: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        points, at = np.unique(order, return_inverse=True)
        change = np.zeros((len(self.coef), len(points)))
        changed = self._visit(
            self.K.block(points, points), points, self.F[:, points], change, at, at, threshold
        )
        moved = np.flatnonzero(change.any(axis=0))
        if len(moved):
            self.coef[:, points[moved]] += change[:, moved]
            self.F += self.K.combination(points[moved], change[:, moved].T).T
        return changed

    def _budgeted_block(self, order: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        points, at = np.unique(order, return_inverse=True)
        old, own = self.queue, points + self.first
        sources = np.concatenate([old, np.setdiff1d(own, old)])
        place = np.argsort(sources)
        own = place[np.searchsorted(sources, own, sorter=place)]
        block = self.K.block(sources, points)
        coef = np.ascontiguousarray(self.coef[:, sources])
        scores = coef[:, : len(old)] @ np.asarray(block[: len(old)], dtype=np.float64)
        self.queue = np.arange(len(old))
        changed = self._visit(block, points, scores, coef, at, own[at], threshold)
        self.queue = sources[self.queue]
        self.coef[:, sources] = coef
        return changed

    def _visit(
        self,
        block: np.ndarray,
        points: np.ndarray,
        scores: np.ndarray,
        coef: np.ndarray,
        target: np.ndarray,
        source: np.ndarray,
        threshold: np.ndarray,
    ) -> np.ndarray:
        """Visit points of a block, given its kernel and the scores at its beginning."""
        changed, self.queue = core.learner().visit(
            _as_floats(block),
            self.Y[points],
            np.ascontiguousarray(scores),
            coef,
            self.bias,
            target,
            source,
            threshold,
            self.inclusive,
            self.queue,
            self.budget,
        )
        return changed


def _as_floats(K: np.ndarray) -> np.ndarray:
    return row_major(K, K.dtype if K.dtype == np.float32 else np.float64)


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
