"""Sequential minimal optimisation: support vector machines a working set of variables at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer import core
from mercer.arrays import memory_budget
from mercer.core.reference.working_sets import MOST_WORK, State
from mercer.solvers.qp.quadratic_program import QuadraticProgram
from mercer.solvers.qp.restricted_gram import RestrictedGram
from mercer.solvers.qp.row_cache import CachedRows, cache_bytes, origin
from mercer.solvers.qp.shrinking import Returns, undecided
from mercer.solvers.qp.smo_search import Search, Watch
from mercer.solvers.result import Budget, Result

# Multiplications between two looks at the clock, some hundredths of a second.
_MULTIPLICATIONS_PER_LOOK = 2 * MOST_WORK
# Before the first of many reports; then four times as many, and so on.
_MULTIPLICATIONS_BEFORE_FIRST_REPORT = 1e3
# Drift below this share of tol is left alone where a fresh gradient takes as long as the search.
_DRIFT_PER_TOL = 1e-3


# On part of the points the violation is brought down to this share of what it is on all.
_VIOLATION_FRACTION = 0.1
# Shrinking pays where there is room for so many times more points than are in a working set.
_POINTS_PER_WORKING_SET = 4


def smo(
    program: QuadraticProgram,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_time: float | None = None,
    start: np.ndarray | None = None,
    budget: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``½ aᵀQa + pᵀa`` over a box with given sums, a few variables at a time.

    Some hundred variables that violate the optimality conditions most, half of them new, are
    optimised with the others held fixed; then the gradient of all follows. Within such a working
    set each step moves ``a_i`` up and ``a_j`` down by the same amount, so sums stay as they are.
    The first is the variable with the smallest gradient among those that can rise; the second
    gains most by the second-order model, ``(F_j - F_i)² / (Q_ii + Q_jj - 2 Q_ij)``. With two groups
    the pair is the better of the groups' pairs. Without groups the variable whose best move lowers
    the objective most moves alone.

    Parameters
    ----------
    program : QuadraticProgram
    tol : float
        Largest violation of the optimality conditions, as in LIBSVM; where the relative duality
        gap is still above a hundredth then, as with a large C, the search goes on.
    max_iter : int, optional
        Number of steps at most; as in LIBSVM, the larger of ten million and 100 n if None.
    max_time : float, optional
        Seconds at most.
    start : ndarray of shape (n,), optional
        Where to start; clipped to the box, and moved so that the sums hold. Zero if None.
    budget : float, optional
        Bytes for K. Where all of it fits, rows are computed when first needed and kept, else
        products with K are computed tile by tile; scikit-learn's ``working_memory`` if None.
    report : callable, optional
        ``report(n_iter, violation)``; a true return value stops the solver.

    Returns
    -------
    Result
        ``value`` is a `Solution`, whose ``violation`` is at most tol and whose ``gap`` at most
        0.01 if the status is ok; ``gap`` is the relative duality gap; ``history`` holds violations.
        The status is ``INFEASIBLE`` if no point satisfies the constraints, or if infinite bounds
        let the objective fall without end, which is so when no model satisfies the hard
        constraints.

    Examples
    --------
    Two points at -1 and 1: the widest margin is 1, with both coefficients a half.

    >>> import numpy as np
    >>> x, y = np.array([-1.0, 1.0]), np.array([-1.0, 1.0])
    >>> program = QuadraticProgram(np.outer(x, x), -y, np.minimum(0, 9 * y), np.maximum(0, 9 * y),
    ...                            groups=np.zeros(2, dtype=int), totals=np.zeros(1))
    >>> smo(program).value.coefficients
    array([-0.5,  0.5])

    References
    ----------
    Joachims (1998), "Making large-scale SVM learning practical"; Fan, Chen and Lin (2005),
    "Working set selection using second order information for training support vector machines".
    """
    return smo_together(
        [program],
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        starts=[start],
        budget=budget,
        report=report,
    )[0]


def smo_together(
    programs: Sequence[QuadraticProgram],
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_time: float | None = None,
    starts: Sequence[np.ndarray | None] | None = None,
    budget: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
    watches: Sequence[Watch | None] | None = None,
) -> list[Result]:
    """Minimise problems on parts of one Gram matrix by `smo`, at the same time.

    Where the whole matrix fits the budget, a row that one problem has asked for serves the
    others; where it does not, they are solved one after the other.

    Parameters
    ----------
    programs : sequence of QuadraticProgram
    tol, max_iter, max_time, budget, report
        As for `smo`; steps are counted per problem, and reported for all together.
    starts : sequence, optional
        Where each starts.
    watches : sequence, optional
        For each a function of its steps, violation and point that ends it by a true value, or None.
    """
    starts = starts or [None] * len(programs)
    watches = watches or [None] * len(programs)
    budget = memory_budget() if budget is None else budget
    limits = Budget(None, max_time, report)
    searches = [
        Search(program, start, watch, tol, max_iter, limits)
        for program, start, watch in zip(programs, starts, watches, strict=True)
    ]
    whole = origin(programs[0].K)[0]
    shared = all(origin(program.K)[0] is whole for program in programs)
    going = [search for search in searches if search.status is None]
    if shared and cache_bytes(whole) <= budget:
        _by_rows(going, whole, limits, parts=True)
    else:
        for search in going:
            if limits.is_over():
                search.status = limits.stop
                continue
            if cache_bytes(search.program.K) <= budget:
                _by_rows([search], search.program.K, limits, parts=False)
            else:
                search.descend()
                if not search.over:
                    _by_products(search, limits, budget)
            if isinstance(search.program.K, RestrictedGram):
                search.program.K.forget()  # the points of all pairs of classes are many times X
    taken = sum(search.monitor.n_iter + 1 for search in searches)
    return [search.certified(limits.seconds / taken) for search in searches]


def _by_rows(searches: list[Search], K: Any, limits: Budget, parts: bool) -> None:
    """Solve problems on one Gram matrix, or parts of it, whose rows are cached."""
    diagonal = np.asarray(K.diagonal(), dtype=np.float64)
    columns = [
        origin(search.program.K)[1] if parts else np.arange(len(diagonal), dtype=np.int64)
        for search in searches
    ]
    for search, column in zip(searches, columns, strict=True):
        search.begin(column, diagonal[column])
    kept = CachedRows(K, columns)
    number = {id(search): i for i, search in enumerate(searches)}
    solver = core.solver()
    going = [search for search in searches if not search.over]
    work = _MULTIPLICATIONS_BEFORE_FIRST_REPORT if limits.report else _MULTIPLICATIONS_PER_LOOK
    while going:
        # About what it takes to solve a problem whose variables all fit a working set.
        likely = min(work, sum(3.0 * len(s.a) ** 2 for s in going))
        states, steps = solver.advance(
            [search.problem for search in going],
            kept.rows,
            [kept.slots[number[id(search)]] for search in going],
            work / len(going),
            [search.steps_until_report(work) for search in going],
            core.threads(int(likely / core.FEATURES_OF_EXP), 0),
        )
        waiting = np.flatnonzero(states == State.WAITING)
        if len(waiting):
            kept.fetch([(number[id(going[i])], going[i].problem.needed) for i in waiting])
        _look(going, states, steps, limits, searches)
        going = [search for search in going if not search.over]
        work = min(4 * work, _MULTIPLICATIONS_PER_LOOK)


def _look(
    going: list[Search],
    states: Sequence[int],
    steps: Sequence[int],
    limits: Budget,
    searches: Sequence[Search],
) -> None:
    for search, taken in zip(going, steps, strict=True):
        search.monitor.n_iter += int(taken)
    worst = max(search.problem.violation for search in searches)
    limits.tick(sum(search.monitor.n_iter for search in searches), float(worst))
    for search, state, taken in zip(going, states, steps, strict=True):
        search.note(State(state), int(taken))


def _by_products(search: Search, limits: Budget, budget: float) -> None:
    """Solve a problem whose Gram matrix is too large to be stored.

    Rows are computed where they are needed, and not kept, as long as few of them come back. Then
    it is time to shrink: the points that may still move, or as many as have room for their part
    of K, are worked on with the others held fixed, and after that all are looked at again.
    """
    program, m = search.program, search.program.n_points
    room = int((budget / cache_bytes(program.K)) ** 0.5 * m)
    returns = Returns(m)
    shrinks = False
    K = program.K
    search.begin(np.arange(m, dtype=np.int64), np.asarray(K.diagonal(), dtype=np.float64))
    problem = search.problem
    if np.any(search.a):
        search.F[:] = program.gradient(search.a)
    # F is a sum of products each of which is exact to a few units in its last place: all together
    # they stray by no more than this times what the coefficients have moved.
    unit = 64 * np.finfo(np.float64).eps * max(1.0, float(np.max(program.diagonal())))
    drift = 0.0
    while not search.over:
        if not problem.select():
            if drift > _DRIFT_PER_TOL * search.tol:
                search.F[:] = program.gradient(search.a)
                drift = 0.0
                continue
            _look([search], [State.DONE], [0], limits, [search])
            continue
        if shrinks and room >= _POINTS_PER_WORKING_SET * len(problem.set) and search.bounded:
            moved = _shrunk(search, limits, room)
            drift += unit * moved
            search.check_limits()
            shrinks = moved > 0
            continue
        points = problem.set % m
        tile = np.ascontiguousarray(K.block(points, points))
        most = min(search.steps_left, int(MOST_WORK / len(points)) + 1)
        steps, _, unbounded, net = problem.work(tile, most)
        state = State.GOING
        if unbounded or steps == 0:
            state = State.UNBOUNDED if unbounded else State.STUCK
        else:
            moved = np.flatnonzero(net)
            shrinks = returns.note(moved)
            drift += unit * float(np.sum(np.abs(net)))
            problem.follow(np.ascontiguousarray(K.combination(moved, net[moved])))
        _look([search], [state], [steps], limits, [search])


def _shrunk(search: Search, limits: Budget, most: int) -> float:
    """Work on the points that are undecided, and let all others follow; how far they moved."""
    program, problem, a, F = search.program, search.problem, search.a, search.F
    points = undecided(program, a, F, most)
    part = program.part(points, a, F)
    tol = max(problem.tol, _VIOLATION_FRACTION * problem.violation)
    inner = Search(part, None, search.watch, tol, search.max_iter, limits)
    inner.rough = True
    inner.monitor.n_iter = search.monitor.n_iter
    _by_rows([inner], part.K, limits, parts=False)
    search.monitor.n_iter = inner.monitor.n_iter
    search.monitor.history.append(inner.monitor.history[-1])
    a[:] = program.moved(points, a, inner.a)
    net = part.net(inner.a)
    moved = np.flatnonzero(net)
    if len(moved):
        problem.follow(np.ascontiguousarray(program.K.combination(points[moved], net[moved])))
        F[program.variables(points)] = inner.F
    return float(np.sum(np.abs(net)))
