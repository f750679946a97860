"""Quadratic programs solved a working set at a time: the native routines and their NumPy twin.

A `Problem` carries the coefficients a of

    min ½ aᵀQa + pᵀa,  lo <= a <= hi,  the sum over each group as it is,
    Q[v, w] = sign[v] sign[w] K[column[v mod m], column[w mod m]],

and their gradient F = Qa + p. It chooses the variables to work on, and solves for them by pairs
(or, without groups, one by one); `advance` does so for many problems on one Gram matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import combinations

import numpy as np

# Multiplications on one working set at most, some hundredths of a second.
MOST_WORK = 4e6
# The most variables that a working set is made larger for.
MOST_TOGETHER = 1024
# Where the violation is within tol and the gap still large, the search goes on to this share of it.
TIGHTER = 0.1


class State(IntEnum):
    """How far `advance` came with a problem."""

    GOING = 0
    WAITING = 1
    DONE = 2
    STUCK = 3
    UNBOUNDED = 4


class Problem:
    """The twin of the native class; a and F are changed in place.

    Parameters
    ----------
    a, F, p, lo, hi : float64 arrays of shape (n,)
    group : int32 array of shape (n,)
        0 to groups - 1; not read where there are no groups.
    groups : int
    column : int64 array of shape (m,)
        The place of each point in the Gram matrix.
    sign : float64 array of shape (n,) or None
    q : int
        Variables at a time.
    tol : float
    flat : float
        Curvature below which rounding makes it.
    """

    inner = 0.1  # a small problem is solved to this share of the violation

    def __init__(
        self,
        a: np.ndarray,
        F: np.ndarray,
        p: np.ndarray,
        lo: np.ndarray,
        hi: np.ndarray,
        group: np.ndarray,
        groups: int,
        column: np.ndarray,
        sign: np.ndarray | None,
        q: int,
        tol: float,
        flat: float,
    ):
        self.a, self.F, self.p, self.lo, self.hi = a, F, p, lo, hi
        self.groups, self.column, self.sign = groups, column, sign
        self.group = group if groups else np.zeros(len(a), dtype=np.int32)
        self.q, self.tol, self.flat = q, tol, flat
        self.violation = np.inf
        self.set = np.empty(0, dtype=np.int32)
        self.needed = np.empty(0, dtype=np.int64)
        self.waiting = self.fresh = False
        self.inside = np.empty(0)  # the gradient of the working set after the last work on it

    def select(self, grow: bool = False) -> bool:
        """Look at the violation and, where it is too large, choose the next working set.

        ``grow`` where rows of K are stored, so that larger sets cost little.
        """
        lowest, highest = self._ranges()
        spread = highest - lowest if self.groups else np.maximum(highest, -lowest)
        self.violation = float(np.max(spread, initial=0.0))
        if self.violation <= self.tol:
            return False
        if not self.waiting:
            q = self._room() if grow else self.q
            self.set = self._choose(q, lowest[self.group], highest[self.group])
        return True

    def _ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest F of variables that can rise and the largest of those that can fall."""
        count = max(self.groups, 1)
        # A variable alone gains as if it were paired with one of gradient zero.
        lowest = np.full(count, np.inf if self.groups else 0.0)
        highest = np.full(count, -np.inf if self.groups else 0.0)
        rise, fall = self.a < self.hi, self.a > self.lo
        np.minimum.at(lowest, self.group[rise], self.F[rise])
        np.maximum.at(highest, self.group[fall], self.F[fall])
        return lowest, highest

    def _choose(self, q: int, lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
        """Half the most violating, half of the last set with free variables first; or all."""
        last = self.set
        if q >= len(self.a):
            return np.argsort(self.group, kind="stable").astype(np.int32)
        shuffled = np.arange(len(self.a), dtype=np.uint32) * np.uint32(2654435769)
        sides = []
        for able, gain in (
            (self.a < self.hi, highest - self.F),
            (self.a > self.lo, self.F - lowest),
        ):
            found = np.flatnonzero(able & (gain > 0))
            sides.append(found[np.lexsort((shuffled[found], -gain[found]))][:q])
        turns = [v for pair in _in_turn(*sides) for v in pair]
        free = (self.lo[last] < self.a[last]) & (self.a[last] < self.hi[last])
        room = max(2, q // 2) if len(last) else q
        first = list(dict.fromkeys(turns))[:room]
        order = dict.fromkeys([*first, *last[free].tolist(), *last[~free].tolist(), *turns])
        chosen = np.array(list(order)[:q], dtype=np.int32)
        return chosen[np.argsort(self.group[chosen], kind="stable")]

    def _room(self) -> int:
        """Variables of the next set: q, and if not too many all free ones and half as many more."""
        free = int(np.count_nonzero((self.lo < self.a) & (self.a < self.hi)))
        if self.q + free > MOST_TOGETHER:
            return self.q
        return min(self.q + free + free // 2, MOST_TOGETHER)

    def work(self, tile: np.ndarray, steps: int) -> tuple[int, bool, bool, np.ndarray]:
        """Solve over the working set with its part of K; steps, stuck, unbounded, net moves."""
        index, m = self.set, len(self.column)
        Q = tile.astype(np.float64)
        if self.sign is not None:
            Q *= np.outer(self.sign[index], self.sign[index])
        small = _Small(self, Q)
        taken = stuck = unbounded = 0
        # With all variables at hand, nothing is learned from a look at the others.
        whole = len(index) == len(self.a)
        tol = self.tol if whole else max(self.tol, self.inner * self.violation)
        while taken < steps:
            moved, stuck, unbounded = (small.pair_step if self.groups else small.free_step)(tol)
            if not moved:
                break
            taken += 1
        net = np.zeros(m)
        move = small.a - self.a[index]
        np.add.at(net, index % m, move if self.sign is None else self.sign[index] * move)
        self.a[index] = small.a
        self.fresh = False
        self.inside = small.F
        return taken, bool(stuck), bool(unbounded), net

    def follow(self, change: np.ndarray) -> None:
        """F after a change of K times the net coefficients, (m,)."""
        copies = np.tile(change, len(self.a) // len(change))
        self.F += copies if self.sign is None else self.sign * copies

    def coefficients(self) -> np.ndarray:
        """The coefficient of each point, (m,)."""
        signed = self.a if self.sign is None else self.sign * self.a
        return signed.reshape(-1, len(self.column)).sum(axis=0)

    def measure(self) -> tuple[np.ndarray, float, float, float, float]:
        """Multipliers, objective, squared norm, violation and relative gap, for finite bounds."""
        a, F, p, lo, hi = self.a, self.F, self.p, self.lo, self.hi
        members = [np.flatnonzero(self.group == g) for g in range(self.groups)]
        multipliers = np.array([best_multiplier(a[g], F[g], lo[g], hi[g]) for g in members])
        r = F - multipliers[self.group] if self.groups else F
        lowest, highest = self._ranges()
        spread = highest - lowest if self.groups else np.maximum(highest, -lowest)
        squared_norm = float(a @ (F - p))
        objective = 0.5 * squared_norm + float(p @ a)
        gap = box_gap(r, a, lo, hi) / max(1.0, abs(objective))
        violation = float(np.max(spread, initial=0.0))
        return multipliers, objective, max(0.0, squared_norm), violation, gap


def flat_below(largest_diagonal: float) -> float:
    """Below this curvature a direction is flat to rounding, as for repeated points."""
    return max(1e-12 * largest_diagonal, 1e-150)


def best_multiplier(a: np.ndarray, F: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> float:
    """The multiplier of one group that leaves the smallest duality gap, for finite bounds.

    The gap is convex in it and piecewise linear, with a kink at every F; where it is flat, as with
    no free variable at the optimum, the middle.

    Examples
    --------
    >>> zero, one = np.zeros(2), np.ones(2)
    >>> best_multiplier(np.array([0.0, 1.0]), np.array([3.0, 1.0]), zero, one)
    2.0
    """
    order = np.argsort(F, kind="stable")
    a, F, lo, hi = a[order], F[order], lo[order], hi[order]
    # The slope of the gap beyond each kink, from minus all room to fall to all room to rise.
    slope = np.cumsum(hi - lo) - np.sum(a - lo)
    rounding = 1e-12 * np.sum(hi - lo)
    lower, upper = np.searchsorted(slope, [-rounding, rounding])
    last = len(F) - 1
    return float(F[min(lower, last)] + F[min(upper, last)]) / 2


def box_gap(r: np.ndarray, a: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> float:
    """``sum of r_i a_i - min of r_i x_i over lo <= x_i <= hi``, infinite if the minimum is."""
    bound = np.where(r > 0, lo, np.where(r < 0, hi, a))
    return float(np.sum(r * (a - bound)))


class _Small:
    """The problem over a working set."""

    def __init__(self, problem: Problem, Q: np.ndarray):
        index = problem.set
        self.Q, self.diagonal, self.flat = Q, Q.diagonal().copy(), problem.flat
        self.a, self.F = problem.a[index], problem.F[index]
        self.lo, self.hi, self.group = problem.lo[index], problem.hi[index], problem.group[index]
        self.groups = problem.groups

    def pair_step(self, tol: float) -> tuple[bool, bool, bool]:
        """Raise one variable and lower another of its group, the pair that gains most."""
        rise = np.where(self.a < self.hi, self.F, np.inf)
        fall = np.where(self.a > self.lo, self.F, -np.inf)
        best, i, j, violation = 0.0, -1, -1, 0.0
        for g in range(self.groups):
            inside = self.group == g
            up, down = np.where(inside, rise, np.inf), np.where(inside, fall, -np.inf)
            first = int(np.argmin(up)) if len(up) else 0
            gap = np.max(down, initial=-np.inf) - np.min(up, initial=np.inf)
            violation = max(violation, gap)
            if not gap > tol:
                continue
            curvature = self.diagonal + self.diagonal[first] - 2 * self.Q[first]
            gain = np.maximum(down - up[first], 0) ** 2 / np.maximum(curvature, self.flat)
            second = int(np.argmax(gain))
            if gain[second] > best:
                best, i, j = gain[second], first, second
        if violation <= tol or i < 0:
            return False, False, False
        curvature = self.diagonal[i] + self.diagonal[j] - 2 * self.Q[i, j]
        room_i, room_j = self.hi[i] - self.a[i], self.a[j] - self.lo[j]
        if curvature <= self.flat and np.isinf(room_i) and np.isinf(room_j):
            return False, False, True
        step = (self.F[j] - self.F[i]) / max(curvature, self.flat)
        new_i, new_j = self.a[i] + step, self.a[j] - step
        if step >= min(room_i, room_j):
            step = min(room_i, room_j)
            new_i = self.hi[i] if room_i <= step else self.a[i] + step
            new_j = self.lo[j] if room_j <= step else self.a[j] - step
        if new_i == self.a[i] and new_j == self.a[j]:
            return False, True, False
        self.a[i], self.a[j] = new_i, new_j
        self.F += step * (self.Q[i] - self.Q[j])
        return True, False, False

    def free_step(self, tol: float) -> tuple[bool, bool, bool]:
        """Without groups: the best move of one variable, then the best of a second one."""
        rise = np.max(-self.F, where=self.a < self.hi, initial=0.0)
        if max(rise, np.max(self.F, where=self.a > self.lo, initial=0.0)) <= tol:
            return False, False, False
        i = self._best_move(self.F, self.diagonal)
        if i < 0:
            return False, True, False
        room = self.hi[i] - self.a[i] if self.F[i] < 0 else self.a[i] - self.lo[i]
        if self.diagonal[i] <= self.flat and np.isinf(room):
            return False, False, True
        row = self.Q[i]
        step = self._alone(i, self.F[i]) - self.a[i]
        # Where the first meets no bound it can follow, which lowers the curvature of the others.
        follows = self.lo[i] < self.a[i] + step < self.hi[i]
        bend = 1.0 / max(self.diagonal[i], self.flat) if follows else 0.0
        j = self._best_move(self.F + step * row, self.diagonal - bend * row**2)
        if j in (-1, i):
            moved = self._move(i, self.a[i] + step)
            return moved, not moved, False
        curvature = max(self.diagonal[j] - bend * row[j] ** 2, self.flat)
        to_j = self.a[j] - (self.F[j] + step * row[j]) / curvature
        to_j = min(max(to_j, self.lo[j]), self.hi[j])
        to_i = self._alone(i, self.F[i] + row[j] * (to_j - self.a[j]))
        to_j = self._alone(j, self.F[j] + row[j] * (to_i - self.a[i]))
        moved = [self._move(i, to_i), self._move(j, to_j)]
        return any(moved), not any(moved), False

    def _best_move(self, F: np.ndarray, curvature: np.ndarray) -> int:
        """The variable whose best move gains most, -1 for none."""
        curvature = np.maximum(curvature, self.flat)
        move = np.clip(self.a - F / curvature, self.lo, self.hi) - self.a
        gain = -move * (F + 0.5 * curvature * move)
        best = int(np.argmax(gain))
        return best if gain[best] > 0 else -1

    def _alone(self, i: int, slope: float) -> float:
        """Where a variable is best with this gradient and the others as they are."""
        to = self.a[i] - slope / max(self.diagonal[i], self.flat)
        return float(min(max(to, self.lo[i]), self.hi[i]))

    def _move(self, i: int, to: float) -> bool:
        move = to - self.a[i]
        self.a[i] = to
        self.F += move * self.Q[i]
        return move != 0.0


def advance(
    problems: Sequence[Problem],
    rows: np.ndarray,
    slots: Sequence[np.ndarray],
    work: float,
    max_steps: Sequence[int],
    threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Work on each problem until it is done, waits for rows, or has had its share of the work.

    That is looked at between working sets, so the path is the same however large the share is.

    Parameters
    ----------
    problems : sequence of Problem
    rows : array of shape (k, n)
        The rows of the Gram matrix that there are.
    slots : sequence of int64 arrays of shape (n,)
        For each problem the place of each row among them, -1 where it is missing.
    work : float
        About so many multiplications per problem.
    max_steps : sequence of int
        Steps per problem at most.
    threads : int

    Returns
    -------
    states : int32 array, values of `State`
    steps : int64 array
    """
    found = [
        _advance(problem, rows, slot, work, most)
        for problem, slot, most in zip(problems, slots, max_steps, strict=True)
    ]
    states, steps = zip(*found, strict=True) if found else ((), ())
    return np.array(states, dtype=np.int32), np.array(steps, dtype=np.int64)


def solve_pairs(
    K: np.ndarray,
    starts: np.ndarray,
    column: np.ndarray,
    C: np.ndarray,
    q: np.ndarray,
    intercept: bool,
    tol: float,
    largest_gap: float,
    max_steps: int,
    threads: int,
) -> tuple[np.ndarray, ...]:
    """Soft-margin classification for every pair of classes on one Gram matrix.

    The pair (i, j), i < j, has p = -y with y = +1 for
    class i and -1 for class j, and bounds 0 and y C.

    Parameters
    ----------
    K : array of shape (n, n)
    starts : int64 array of shape (classes + 1,)
        Class c has the points column[starts[c]:starts[c + 1]].
    column : int64 array of shape (starts[-1],)
        Places of the points in K.
    C : array of shape (n,)
        The regularisation parameter of each point.
    q : int64 array of shape (pairs,)
        Variables at a time.
    intercept : bool
    tol, largest_gap : float
        What the violation and the relative gap are brought down to.
    max_steps : int
        Of each pair.
    threads : int

    Returns
    -------
    a, F : arrays of shape (starts[-1] * (classes - 1),)
        Variables and gradients, pair by pair.
    multiplier, objective, squared_norm, violation, gap : arrays of shape (pairs,)
    steps : int64 array of shape (pairs,)
    state : int32 array of shape (pairs,), values of `State`
    """
    n, classes = len(K), len(starts) - 1
    slot = np.arange(n, dtype=np.int64)
    variables, gradients, measures, counts, states = [], [], [], [], []
    for pair, (i, j) in enumerate(combinations(range(classes), 2)):
        points = np.concatenate([column[starts[c] : starts[c + 1]] for c in (i, j)])
        y = np.ones(len(points))
        y[starts[i + 1] - starts[i] :] = -1.0
        order = np.argsort(points, kind="stable")  # in which K has them
        points, y = points[order], y[order]
        box = np.minimum(y * C[points], 0.0), np.maximum(y * C[points], 0.0)
        a, flat = np.zeros(len(y)), flat_below(float(K.diagonal()[points].max()))
        group = np.zeros(len(y), dtype=np.int32)
        problem = Problem(
            a, -y, -y, *box, group, int(intercept), points, None, int(q[pair]), tol, flat
        )
        taken = 0
        while True:
            state, steps = _advance(problem, K, slot, np.inf, max_steps - taken)
            taken += steps
            multipliers, *measured = problem.measure()
            if state != State.DONE or measured[-1] <= largest_gap or problem.violation == 0:
                break
            problem.tol = TIGHTER * problem.violation
        as_given = np.empty_like(order)
        as_given[order] = np.arange(len(order))
        variables.append(a[as_given])
        gradients.append(problem.F[as_given])
        measures.append((multipliers[0] if intercept else 0.0, *measured))
        counts.append(taken)
        states.append(state)
    return (
        np.concatenate(variables),
        np.concatenate(gradients),
        *np.array(measures).T,
        np.array(counts, dtype=np.int64),
        np.array(states, dtype=np.int32),
    )


def _advance(
    problem: Problem, rows: np.ndarray, slot: np.ndarray, work: float, max_steps: int
) -> tuple[State, int]:
    taken = 0
    column = problem.column
    if np.isinf(problem.violation) and not _refresh(problem, rows, slot):
        return State.WAITING, taken
    while True:
        if not problem.select(grow=True):
            if problem.fresh:
                return State.DONE, taken
            if not _refresh(problem, rows, slot):
                return State.WAITING, taken
            continue
        if work <= 0 or taken >= max_steps:
            return State.GOING, taken
        points = column[problem.set % len(column)]
        problem.needed = points[slot[points] < 0]
        problem.waiting = len(problem.needed) > 0
        if problem.waiting:
            return State.WAITING, taken
        most = min(max_steps - taken, int(MOST_WORK / len(points)) + 1)
        steps, _, unbounded, net = problem.work(rows[np.ix_(slot[points], points)], most)
        taken += steps
        if unbounded or steps == 0:
            return State.UNBOUNDED if unbounded else State.STUCK, taken
        moved = np.flatnonzero(net)
        if len(problem.set) == len(problem.a):  # of all variables the gradient is known
            problem.F[problem.set] = problem.inside
        else:
            problem.follow(_multiply(rows, slot, column, net))
        work -= (steps + 1) * len(points) + len(column) * (len(moved) + 1)


def _refresh(problem: Problem, rows: np.ndarray, slot: np.ndarray) -> bool:
    """F computed afresh; False where rows of coefficients that are not zero are missing."""
    net = problem.coefficients()
    points = problem.column[np.flatnonzero(net)]
    problem.needed = points[slot[points] < 0]
    if len(problem.needed):
        return False
    problem.F[:] = problem.p
    problem.follow(_multiply(rows, slot, problem.column, net))
    problem.fresh = True
    return True


def _multiply(
    rows: np.ndarray, slot: np.ndarray, column: np.ndarray, net: np.ndarray
) -> np.ndarray:
    moved = np.flatnonzero(net)
    return net[moved] @ rows[slot[column[moved]]][:, column].astype(np.float64)


def _in_turn(first: np.ndarray, second: np.ndarray) -> list[tuple[int, ...]]:
    """Entries of both, one of each at a time, as long as there are any."""
    longest = max(len(first), len(second))
    return [
        tuple(int(side[k]) for side in (first, second) if k < len(side)) for k in range(longest)
    ]
