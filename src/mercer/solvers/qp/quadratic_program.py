"""The quadratic program behind every support vector machine, and its certificates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.arrays import as_numpy, memory_budget
from mercer.cached import cached_property
from mercer.core import symmetric_times
from mercer.core.reference.working_sets import best_multiplier, box_gap
from mercer.operators import FeatureGram
from mercer.solvers.qp.restricted_gram import RestrictedGram, restrict
from mercer.solvers.result import Monitor, Result, Status

# The largest relative duality gap of an answer that counts as found. LIBSVM's measure, the largest
# violation, leaves the objective undecided by up to the sum of all C_i times that violation;
# within a hundredth of the optimum, what is missing is less than a change of C by as much makes.
LARGEST_GAP = 1e-2

# Features pay where there are this many times fewer of them than points.
POINTS_PER_FEATURE = 4

# With an infinite bound the needed norm ||w||, in units of max|p| / max sqrt(K_ii), grows without
# limit exactly when no model satisfies the constraints; beyond 3e6 rounding decides the answer.
_SQUARED_NORM_LIMIT = 1e13


@dataclass(frozen=True)
class QuadraticProgram:
    r"""Minimise ``½ aᵀQa + pᵀa`` over a box, with the sums of groups of variables given.

    .. math::
        \min_a \tfrac12 a^\top Q a + p^\top a \quad\text{s.t.}\quad
        lo \le a \le hi,\qquad \sum_{i \in g} a_i = b_g,\qquad Q_{ij} = s_i s_j K_{ij}

    The forms of LIBSVM are written in signed coefficients, a_i = y_i alpha_i, so that Q is the
    Gram matrix itself: C-SVC has p = -y and one group that sums to zero; ``nu`` forms have one
    group per sign; leaving out the intercept leaves out the groups. In support vector regression
    every point owns two variables: p then has twice as many entries as K has rows, and variable
    ``i`` belongs to point ``i % m``.

    Parameters
    ----------
    K : ndarray or Gram operator of shape (m, m)
        Symmetric positive semidefinite.
    p : ndarray of shape (n,)
        Linear term; n is m or a multiple of m.
    lo, hi : ndarray of shape (n,)
        Bounds with ``lo < hi``; either may be infinite.
    groups : ndarray of int of shape (n,), optional
        The group of each variable, 0 to G - 1; None for no equality constraint.
    totals : ndarray of shape (G,)
        What the variables of each group sum to.
    signs : ndarray of shape (n,), optional
        The signs s, all +1 if None.

    Examples
    --------
    >>> import numpy as np
    >>> program = QuadraticProgram(
    ...     K=np.eye(2), p=np.array([-1.0, 1.0]), lo=np.array([0.0, -5.0]), hi=np.array([5.0, 0.0]),
    ...     groups=np.zeros(2, dtype=int), totals=np.zeros(1))
    >>> program.solution(np.array([1.0, -1.0])).objective
    -1.0

    References
    ----------
    Chang and Lin (2011), "LIBSVM: a library for support vector machines", sections 2 and 4.
    """

    K: Any
    p: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    groups: np.ndarray | None = None
    totals: np.ndarray | tuple = ()
    signs: np.ndarray | None = None

    def __post_init__(self) -> None:
        m, n = self.K.shape[0], len(self.p)
        if m == 0 or n % m:
            raise ValueError(f"p has {n} entries; expected a positive multiple of K's {m} rows")
        if not (self.lo < self.hi).all():
            i = int(np.flatnonzero(~(self.lo < self.hi))[0])
            raise ValueError(
                f"lo[{i}] = {self.lo[i]!r} is not below hi[{i}] = {self.hi[i]!r}; "
                "leave out variables that cannot move"
            )
        if self.groups is None and len(self.totals):
            raise ValueError("totals are given without groups; give groups too")

    @property
    def n_points(self) -> int:
        return int(self.K.shape[0])

    @property
    def n_groups(self) -> int:
        return len(self.totals)

    @cached_property
    def bounded(self) -> bool:
        """Whether every variable has two finite bounds."""
        return bool(-np.inf < self.lo.min() and self.hi.max() < np.inf)

    def stored(self) -> QuadraticProgram:
        """The same with K in float64: of few features those, else an array of shape (m, m)."""
        features = few_features(self.K)
        if features is not None:
            return replace(self, K=FeatureGram(features, features))
        K = self.K if isinstance(self.K, np.ndarray) else self.K.dense()
        return replace(self, K=np.ascontiguousarray(K, dtype=np.float64))

    def part(self, points: np.ndarray, a: np.ndarray, F: np.ndarray) -> QuadraticProgram:
        """How far the variables of some points should move from a, with the others held there.

        F is the gradient at a. Sums stay as they are, and zero is where to start.
        """
        chosen = self.variables(points)
        groups, totals = None, np.zeros(0)
        if self.groups is not None:
            present, groups = np.unique(self.groups[chosen], return_inverse=True)
            totals = np.zeros(len(present))
        return QuadraticProgram(
            K=restrict(self.K, points),
            p=F[chosen],
            lo=self.lo[chosen] - a[chosen],
            hi=self.hi[chosen] - a[chosen],
            groups=groups,
            totals=totals,
            signs=None if self.signs is None else self.signs[chosen],
        )

    def moved(self, points: np.ndarray, a: np.ndarray, move: np.ndarray) -> np.ndarray:
        """The point a after a move found by `part`: what went all the way to a bound is on it."""
        chosen = self.variables(points)
        lo, hi = self.lo[chosen], self.hi[chosen]
        moved = a.copy()
        moved[chosen] = np.clip(a[chosen] + move, lo, hi)
        moved[chosen[move <= lo - a[chosen]]] = lo[move <= lo - a[chosen]]
        moved[chosen[move >= hi - a[chosen]]] = hi[move >= hi - a[chosen]]
        return moved

    def variables(self, points: np.ndarray) -> np.ndarray:
        """The places of all variables of some points."""
        copies = np.arange(len(self.p) // self.n_points)
        return (self.n_points * copies[:, None] + points).ravel()

    def fits(self, budget: float | None = None) -> bool:
        """Whether K takes no more than the memory budget, dense or by its features."""
        dense = 8 * self.n_points**2 <= (memory_budget() if budget is None else budget)
        return dense or few_features(self.K) is not None

    def net(self, a: np.ndarray) -> np.ndarray:
        """The coefficient of every point, ``sum of s_i a_i`` over its variables, (m,)."""
        signed = a.copy() if self.signs is None else self.signs * a
        if len(signed) == self.n_points:
            return signed
        return signed.reshape(-1, self.n_points).sum(axis=0)

    def spread(self, v: np.ndarray) -> np.ndarray:
        """The transpose of `net`: one value per point, copied to its variables with signs."""
        copies = np.tile(v, len(self.p) // self.n_points)
        return copies if self.signs is None else self.signs * copies

    def diagonal(self) -> np.ndarray:
        """The diagonal of Q, (n,)."""
        diagonal = as_numpy(self.K.diagonal()).astype(np.float64)
        return np.tile(diagonal, len(self.p) // self.n_points)

    def gradient(self, a: np.ndarray) -> np.ndarray:
        """``Qa + p``, (n,)."""
        net = self.net(a)
        used = np.flatnonzero(net)
        if isinstance(self.K, np.ndarray) and self.K.dtype == np.float64:
            image = symmetric_times(self.K, net[:, None])[:, 0]
        elif isinstance(self.K, np.ndarray) or 2 * len(used) > len(net):
            image = np.asarray(self.K @ net, dtype=np.float64)
        else:
            image = self.K.combination(used, net[used])
        return self.spread(image) + self.p

    def feasible(self, start: np.ndarray | None = None) -> np.ndarray | None:
        """A point that satisfies the constraints, near ``start`` or zero; None if there is none."""
        a = np.zeros(len(self.p)) if start is None else np.array(start, dtype=np.float64)
        if start is None and not np.any(self.totals) and self.lo.max() <= 0 <= self.hi.min():
            return a
        np.clip(a, self.lo, self.hi, out=a)
        for g, total in enumerate(self.totals):
            members = np.flatnonzero(self.groups == g)
            missing = total - a[members].sum()
            # What rounding leaves is not worth taking a variable off its bound.
            rounding = 1e-13 * (abs(total) + np.abs(a[members]).sum())
            if abs(missing) <= rounding:
                continue
            bound = (self.hi if missing > 0 else self.lo)[members]
            room = np.minimum(np.abs(bound - a[members]), abs(missing))
            before = np.cumsum(room) - room
            move = np.clip(abs(missing) - before, 0.0, room)
            if abs(missing) - move.sum() > 10 * rounding:
                return None
            moved = a[members] + np.sign(missing) * move
            full = move >= (1 - 1e-12) * np.abs(bound - a[members])
            a[members] = np.where(full, bound, moved)
        return a

    def violation(self, a: np.ndarray, F: np.ndarray) -> float:
        """LIBSVM's stopping measure: how far the gradient F is from the optimality conditions.

        Within a group, ``max F`` over the variables that can fall minus ``min F`` over those that
        can rise; without groups the largest component of the projected gradient.
        """
        can_rise, can_fall = a < self.hi, a > self.lo
        if self.groups is None:
            rise = np.max(-F, where=can_rise, initial=0.0)
            return float(max(rise, np.max(F, where=can_fall, initial=0.0)))
        worst = 0.0
        for g in range(self.n_groups):
            inside = self.groups == g
            top = np.max(F, where=inside & can_fall, initial=-np.inf)
            worst = max(worst, top - np.min(F, where=inside & can_rise, initial=np.inf))
        return float(worst)

    def multipliers(self, a: np.ndarray, F: np.ndarray) -> np.ndarray:
        """The multiplier of each group, (G,): the one of the smallest duality gap.

        With infinite bounds it is LIBSVM's mean of F over free variables instead.
        """
        if self.groups is not None and self.bounded:
            members = [np.flatnonzero(self.groups == g) for g in range(self.n_groups)]
            return np.array([best_multiplier(a[g], F[g], self.lo[g], self.hi[g]) for g in members])
        free = (a > self.lo) & (a < self.hi)
        values = np.zeros(self.n_groups)
        for g in range(self.n_groups):
            inside = self.groups == g
            if np.any(inside & free):
                values[g] = F[inside & free].mean()
                continue
            below = np.max(F, where=inside & (a >= self.hi), initial=-np.inf)
            above = np.min(F, where=inside & (a <= self.lo), initial=np.inf)
            ends = [end for end in (below, above) if np.isfinite(end)]
            values[g] = sum(ends) / len(ends) if ends else 0.0
        return values

    def reduced_gradient(self, F: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """``F`` minus the multiplier of each variable's group, (n,)."""
        return F if self.groups is None else F - np.asarray(multipliers)[self.groups]

    def duality_gap(self, a: np.ndarray, F: np.ndarray, multipliers: np.ndarray) -> float:
        """Objective at ``a`` minus the dual objective at these multipliers, never negative.

        With r the reduced gradient this is ``sum max(r (a - lo), r (a - hi))``: the value of the
        model's loss, margin and intercept as returned, less a lower bound on the optimum.

        An infinite bound asks for r of one sign. Where r misses it, the weights are scaled up
        until the hard constraints hold; where no scaling does, the bound is read as twice the
        largest coefficient.
        """
        r = self.reduced_gradient(F, multipliers)
        gap = box_gap(r, a, self.lo, self.hi)
        if np.isfinite(gap):
            return gap
        scaled = self._scaled_gap(a, F, np.asarray(multipliers))
        if np.isfinite(scaled):
            return scaled
        reach = 2.0 * np.max(np.abs(a))
        return box_gap(r, a, np.maximum(self.lo, -reach), np.minimum(self.hi, reach))

    def _scaled_gap(self, a: np.ndarray, F: np.ndarray, multipliers: np.ndarray) -> float:
        """The gap against the dual point ``(c a, c multipliers)`` for the least feasible c."""
        Qa = F - self.p
        pull = self.reduced_gradient(Qa, multipliers)
        side = np.isinf(self.hi).astype(float) - np.isinf(self.lo)
        need = -side * self.p
        binding = (side != 0) & (need > 0)
        if not np.any(binding) or np.any(side[binding] * pull[binding] <= 0):
            return np.inf
        c = np.max(need[binding] / (side[binding] * pull[binding]))
        r = c * pull + self.p
        r[binding & (side * r < 0)] = 0.0  # what is left there is rounding
        best_linear = -box_gap(r, np.zeros_like(a), self.lo, self.hi)
        lower = -0.5 * c**2 * (a @ Qa) + best_linear + c * np.dot(self.totals, multipliers)
        return float(0.5 * (a @ Qa) + self.p @ a - lower)

    def unbounded_along(self, a: np.ndarray, F: np.ndarray) -> bool:
        """Whether ``a`` shows that the objective falls without end, within rounding.

        The best multiple of a direction a lowers the objective by ``(pᵀa)² / (2 aᵀQa)``, which
        bounds the norm of any model that satisfies the constraints from below.
        """
        fall = -float(self.p @ a)
        steepest = float(np.max(np.abs(self.p)))
        if self.bounded or fall <= 0:
            return False
        sums = np.abs([a[self.groups == g].sum() for g in range(self.n_groups)])
        if np.any(sums > 1e-9 * np.abs(a).sum()):
            return False
        scale = float(np.max(self.diagonal()))
        return float(a @ (F - self.p)) * _SQUARED_NORM_LIMIT <= scale * (fall / steepest) ** 2

    def solution(self, a: np.ndarray, F: np.ndarray | None = None) -> Solution:
        """Everything measured at the point ``a``, in float64, from F or afresh."""
        F = self.gradient(a) if F is None else F
        multipliers = self.multipliers(a, F)
        squared_norm = max(0.0, float(a @ (F - self.p)))
        objective = float(0.5 * (a @ (F - self.p)) + self.p @ a)
        return Solution(
            a=a,
            gradient=F,
            coefficients=self.net(a),
            multipliers=multipliers,
            objective=objective,
            squared_norm=squared_norm,
            violation=self.violation(a, F),
            gap=self.duality_gap(a, F, multipliers) / max(1.0, abs(objective)),
        )


@dataclass(frozen=True)
class Solution:
    """A point of a `QuadraticProgram` and what was measured there.

    Attributes
    ----------
    a : ndarray of shape (n,)
        The variables.
    gradient : ndarray of shape (n,)
        ``Qa + p``, from which the rest was measured.
    coefficients : ndarray of shape (m,)
        The signed coefficient of each point.
    multipliers : ndarray of shape (G,)
        One per group; with one group the intercept is its negative.
    objective : float
    squared_norm : float
        ``aᵀQa``, the squared norm of the weights.
    violation : float
        Largest violation of the optimality conditions, as LIBSVM measures it.
    gap : float
        Duality gap divided by ``max(1, |objective|)``.
    """

    a: np.ndarray
    gradient: np.ndarray
    coefficients: np.ndarray
    multipliers: np.ndarray
    objective: float
    squared_norm: float
    violation: float
    gap: float


def few_features(K: Any) -> np.ndarray | None:
    """Explicit features Phi with ``K = Phi Phiᵀ``, where they are known and far fewer than points.

    Examples
    --------
    >>> few_features(FeatureGram(X := np.ones((4, 1)), X)).shape
    (4, 1)
    """
    whole = K.K if isinstance(K, RestrictedGram) else K
    if not isinstance(whole, FeatureGram) or POINTS_PER_FEATURE * whole.left.shape[1] > K.shape[0]:
        return None
    features = whole.features
    return features if features is None or whole is K else features[K.index]


def certified_result(
    program: QuadraticProgram,
    monitor: Monitor,
    a: np.ndarray,
    tol: float,
    *,
    solution: Solution | None = None,
    status: Status | None = None,
    method: str,
) -> Result:
    """Measure ``a``, unless it has been, and report how the solver ended.

    Ok only if the violation is within tol and the gap within `LARGEST_GAP`.
    """
    solution = solution or program.solution(a)
    if status is None and solution.violation <= tol and solution.gap <= LARGEST_GAP:
        status = Status.CONVERGED
    elif status is None and (monitor.status is None or monitor.status.ok):
        status = Status.STALLED
    return monitor.result(solution, solution.gap, status=status, method=method)
