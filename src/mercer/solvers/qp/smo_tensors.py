"""Sequential minimal optimisation where the points are tensors: many machines at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mercer.arrays import LazyModule, as_numpy, device_budget, row_blocks
from mercer.operators import TensorGram
from mercer.solvers.qp.quadratic_program import (
    LARGEST_GAP,
    QuadraticProgram,
    Solution,
    certified_result,
)
from mercer.solvers.qp.row_cache import origin
from mercer.solvers.result import Budget, Monitor, Result, Status

torch: Any = LazyModule("torch")

# Variables of a working set: as many as give the most for one machine, fewer for many.
_LARGEST_WORKING_SET, _SMALLEST_WORKING_SET = 1024, 16
_WORKING_SET_ENTRIES = 2**25
# Steps within a set at most, for each of its variables.
_STEPS_PER_VARIABLE = 16
# In a set the violation is brought down to this share of what it is among all variables.
_VIOLATION_FRACTION = 0.1
# Gradients are computed afresh so many times at most, and so many times before kernel values in
# float32 are given up for float64.
_MOST_REFRESHES, _SINGLE_REFRESHES = 30, 5
# Rounds that do not halve the violation before that, for every set there is, and then at all.
_ROUNDS_WITHOUT_PROGRESS = 40, 1000
# On gradients that float32 has moved, this much of tol is left for what a fresh one shows.
_TOL_LEFT_TO_REFRESH = 0.9
# Numbers in double for every variable of a machine, and for every point, that are there at a time.
_DOUBLES_PER_VARIABLE, _DOUBLES_PER_POINT = 16, 3
# Machines at a time at most, which is what the second direction of a launch takes.
_MOST_PROGRAMS = 2**15


def is_on_device(program: QuadraticProgram) -> bool:
    """Whether the problem's Gram matrix is one of tensors."""
    return isinstance(origin(program.K)[0], TensorGram)


def smo_tensors(
    programs: Sequence[QuadraticProgram],
    *,
    tol: float,
    max_iter: int | None,
    max_time: float | None,
    starts: Sequence[np.ndarray | None],
    report: Callable[[int, float], bool | None] | None,
) -> list[Result]:
    """Minimise problems on parts of one Gram matrix of tensors, as many at a time as have room.

    Working sets as in `smo`, of all problems in one launch; kernel values are in float32 as long
    as that leads on, and gradients in float64 are computed afresh until those satisfy the
    conditions, too.

    Parameters
    ----------
    programs : sequence of QuadraticProgram
        With finite bounds, and all with sums to keep or all without, whose K are parts of one
        `TensorGram`.
    tol, max_iter, max_time, report
        As for `smo`; steps are counted per problem, and reported for all together.
    starts : sequence
        Where each starts, None for zero.
    """
    if not all(program.bounded for program in programs):
        raise ValueError(
            "a hard margin, C=inf, is not available for tensors on a device; use a finite C, or "
            "pass X.cpu()"
        )
    limits = Budget(None, max_time, report)
    gram: TensorGram = origin(programs[0].K)[0]
    n = max(len(program.p) for program in programs)
    matrix = _Matrix(gram.single())
    room = device_budget(gram.pairs.device)
    most = 8 * (_DOUBLES_PER_VARIABLE * n + _DOUBLES_PER_POINT * gram.shape[0])
    ends: list[_End] = []
    for some in row_blocks(len(programs), max(most, room / _MOST_PROGRAMS), room):
        ends += _together(programs[some], starts[some], matrix, limits, tol, max_iter,
                          sum(end.steps for end in ends))  # fmt: skip
    per_step = limits.seconds / sum(end.steps + 1 for end in ends)
    results = []
    for program, end in zip(programs, ends, strict=True):
        monitor = Monitor(tol=tol)
        monitor.n_iter, monitor.history = end.steps, end.history
        monitor.took = per_step * (end.steps + 1)
        results.append(
            certified_result(
                program,
                monitor,
                end.solution.a,
                tol,
                solution=end.solution,
                status=end.status,
                method=f"smo on {gram.pairs.device}",
            )
        )
    return results


class _End(NamedTuple):
    """Where a problem ended; with no status where its certificate decides."""

    solution: Solution
    status: Status | None
    steps: int
    history: list[float]


def _together(
    programs: Sequence[QuadraticProgram],
    starts: Sequence[np.ndarray | None],
    matrix: _Matrix,
    limits: Budget,
    tol: float,
    max_iter: int | None,
    before: int,
) -> list[_End]:
    """Minimise problems at the same time; others before them have taken so many steps."""
    points = [program.feasible(start) for program, start in zip(programs, starts, strict=True)]
    gram: TensorGram = origin(programs[0].K)[0]
    batch = _Batch(programs, points, gram, max_iter)
    history: list[list[float]] = [[] for _ in programs]
    ends: dict[int, tuple[Solution, Status | None]] = {}
    going = list(range(len(programs)))
    for refresh in range(_MOST_REFRESHES + 1):
        batch.refresh(going)
        violations, idle, spent = batch.look(going)
        left, target, coarse = [], [], refresh >= _SINGLE_REFRESHES
        for k, i in enumerate(going):
            violation = float(violations[k])
            history[i].append(violation)
            found = programs[i].solution(*batch.point(i)) if violation <= tol else None
            stop = limits.stop
            if points[i] is None:
                stop = Status.INFEASIBLE
            elif found and (found.gap <= LARGEST_GAP or violation == 0):
                ends[i] = found, None
                continue
            elif spent[k]:
                stop = Status.MAX_ITER
            elif refresh == _MOST_REFRESHES or (idle[k] and not matrix.single):
                stop = stop or Status.STALLED
            if stop:
                ends[i] = found or programs[i].solution(*batch.point(i)), stop
                continue
            left.append(i)
            coarse |= bool(idle[k])
            target.append(
                _VIOLATION_FRACTION * violation
                if found
                else (_TOL_LEFT_TO_REFRESH if refresh < 2 else 0.5) * tol
            )
        going = left
        if not going:
            break
        if matrix.single and coarse:
            matrix = _Matrix(gram.double())
        batch.advance(going, target, matrix, lambda n, v: limits.tick(before + n, v))
    steps = as_numpy(batch.steps).tolist()
    return [_End(*ends[i], steps[i], history[i]) for i in range(len(programs))]


class _Matrix:
    """Kernel values in the operator's precision, stored where they fit."""

    def __init__(self, gram: TensorGram):
        self.pairs, self.single = gram.pairs, gram.dtype == np.float32
        size = gram.dtype.itemsize * gram.shape[0] ** 2
        self.K = self.pairs.gram() if size <= device_budget(self.pairs.device) else None
        largest = float(gram.diagonal().max())
        # Below this curvature a direction is flat to rounding, as for repeated points.
        self.flat = max((1e-6 if self.single else 1e-12) * largest, 1e-150)

    def tiles(self, points: Any) -> Any:
        """The Gram matrices of sets of points, (B, q) to (B, q, q)."""
        if self.K is not None:
            return self.K[points[:, :, None], points[:, None, :]]
        return torch.stack([self.pairs.tiles(p, p).gram(False, None) for p in points])

    def follow(self, column: Any, F: Any, points: Any, amounts: Any) -> None:
        """F[b, v] += Σ_w amounts[b, w] k(points[b, w], column[b, v]), in place."""
        if self.K is None:
            for b in range(len(F)):
                some = torch.nonzero(amounts[b])[:, 0]
                if len(some):
                    image = self.pairs.combination(points[b, some], amounts[b, some, None])
                    F[b] += image[:, 0][column[b].long()]
            return
        first = torch.sort((amounts == 0).int(), dim=1, stable=True).indices
        kernels().follow(
            self.K,
            column,
            F,
            torch.gather(points, 1, first).int(),
            torch.gather(amounts, 1, first).to(self.K.dtype),
            (amounts != 0).sum(dim=1, dtype=torch.int32),
        )


class _Batch:
    """Problems side by side: rows of tensors, made up to one length with variables that rest."""

    def __init__(
        self,
        programs: Sequence[QuadraticProgram],
        points: Sequence[np.ndarray | None],
        gram: TensorGram,
        max_iter: int | None,
    ):
        self.programs = programs
        self.exact = gram.double().pairs
        self.device = self.exact.device
        self.groups = max(program.n_groups for program in programs)
        n = max(len(program.p) for program in programs) + 1  # the last of all is nobody's
        shape = (len(programs), n)
        a, p, lo, hi = (np.zeros(shape) for _ in range(4))
        sign, group, column = np.ones(shape), np.zeros(shape), np.zeros(shape, dtype=np.int32)
        for b, (program, start) in enumerate(zip(programs, points, strict=True)):
            own = np.s_[b, : len(program.p)]
            p[own], lo[own], hi[own] = program.p, program.lo, program.hi
            a[own] = np.clip(0.0, program.lo, program.hi) if start is None else start
            column[own] = np.tile(origin(program.K)[1], len(program.p) // program.n_points)
            if program.signs is not None:
                sign[own] = program.signs
            if program.groups is not None:
                group[own] = program.groups
        self.a, self.p, self.lo, self.hi, self.sign = (
            torch.as_tensor(A, device=self.device) for A in (a, p, lo, hi, sign)
        )
        self.column = torch.as_tensor(column, device=self.device)
        self.group = torch.as_tensor(group.astype(np.int32), device=self.device)
        self.F = self.p.clone()
        count = {"dtype": torch.int32, "device": self.device}
        self.steps = torch.zeros(len(programs), **count)
        most = max(10_000_000, 100 * n) if max_iter is None else max_iter
        self.limit = torch.full((len(programs),), min(most, 2**31 - 1), **count)
        self.target = torch.zeros(len(programs), dtype=torch.float64, device=self.device)
        self.idle = torch.zeros(len(programs), dtype=torch.bool, device=self.device)
        self.signed = bool((self.sign != 1).any())
        self.size = _LARGEST_WORKING_SET
        while self.size > _SMALLEST_WORKING_SET and (
            len(programs) * self.size**2 > _WORKING_SET_ENTRIES or self.size >= 2 * n
        ):
            self.size //= 2

    def point(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """The variables and the gradient of a problem."""
        n = len(self.programs[i].p)
        return as_numpy(self.a[i, :n]).copy(), as_numpy(self.F[i, :n]).copy()

    def look(self, going: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The violation of each, whether it could not move, and whether its steps are spent."""
        rows = torch.as_tensor(going, device=self.device)
        spent = self.steps[rows] >= self.limit[rows]
        return as_numpy(self.violation(rows)), as_numpy(self.idle[rows]), as_numpy(spent)

    def refresh(self, going: list[int]) -> None:
        """Gradients afresh, in double."""
        rows = torch.as_tensor(going, device=self.device)
        sign, column = self.sign[rows], self.column[rows].long()
        shape = (self.exact.shape[0], len(rows))
        coefficients = torch.zeros(shape, dtype=torch.float64, device=self.device)
        place = (column, torch.arange(len(rows), device=self.device)[:, None].expand_as(column))
        coefficients.index_put_(place, sign * self.a[rows], accumulate=True)
        used = torch.nonzero(coefficients.any(dim=1))[:, 0]
        gradients = self.p[rows]
        if len(used):
            gradients += sign * self.exact.combination(used, coefficients[used])[place]
        self.F[rows] = gradients

    def _levels(self, rows: Any) -> tuple[Any, Any]:
        """Gradients of the variables that can rise, else inf; of those that can fall, else -inf."""
        a, F = self.a[rows], self.F[rows]
        rising = torch.where(a < self.hi[rows], F, torch.inf)
        return rising, torch.where(a > self.lo[rows], F, -torch.inf)

    def violation(self, rows: Any) -> Any:
        """LIBSVM's measure for each problem, (B,)."""
        rising, falling = self._levels(rows)
        if not self.groups:
            return torch.maximum(-rising.amin(dim=1), falling.amax(dim=1)).clamp(min=0)
        worst = torch.zeros(len(rising), dtype=torch.float64, device=self.device)
        for g in range(self.groups):
            low, high = _ends(rising, falling, self.group[rows] == g)
            worst = torch.maximum(worst, high - low)
        return worst

    def advance(self, going: list[int], target: list[float], matrix: _Matrix, report: Any) -> None:
        """Working set after working set, until the violations are on target or fall no more."""
        rows = torch.as_tensor(going, device=self.device)
        patience = _ROUNDS_WITHOUT_PROGRESS[not matrix.single] * (1 + self.a.shape[1] // self.size)
        kept, low = None, torch.full_like(self.target[rows], torch.inf)
        since = torch.zeros_like(rows)  # rounds since the violation was halved
        self.target[rows] = torch.as_tensor(target, dtype=torch.float64, device=self.device)
        self.idle[rows] = False
        while True:
            violation = self.violation(rows)
            open_ = (violation > self.target[rows]) & (self.steps[rows] < self.limit[rows])
            since = torch.where(violation < 0.5 * low, 0, since + 1)
            low = torch.where(since == 0, violation, low)
            self.idle[rows] |= since > patience
            open_ &= ~self.idle[rows]
            alive, worst, steps = torch.stack(
                [open_.sum().double(), violation.max(), self.steps.sum().double()]
            ).tolist()
            if report(int(steps), worst) or not alive:
                return
            if alive < len(rows):
                kept = None if kept is None else kept[open_]
                rows, violation, low, since = (A[open_] for A in (rows, violation, low, since))
            kept = self._round(rows, violation, kept, matrix)

    def _round(self, rows: Any, violation: Any, kept: Any, matrix: _Matrix) -> Any:
        """One working set of each of these problems; the variables that were new in it."""
        chosen, new = self._select(rows, kept)
        a = torch.gather(self.a[rows], 1, chosen)
        F, lo, hi, sign = (
            torch.gather(A[rows], 1, chosen) for A in (self.F, self.lo, self.hi, self.sign)
        )
        group, points = (torch.gather(A[rows], 1, chosen) for A in (self.group, self.column))
        Q = matrix.tiles(points.long())
        if self.signed:
            Q = Q * (sign[:, :, None] * sign[:, None, :]).to(Q.dtype)
        steps = torch.zeros_like(self.steps[rows])
        before = a.clone()
        target = torch.maximum(0.5 * self.target[rows], _VIOLATION_FRACTION * violation)
        kernels().work(
            a, F, lo, hi, group, Q.contiguous(), target, self.limit[rows] - self.steps[rows],
            steps, matrix.flat, _STEPS_PER_VARIABLE * a.shape[1], self.groups,
        )  # fmt: skip
        self.steps[rows] += steps
        self.idle[rows] = (a == before).all(dim=1)
        moved = self.a[rows]
        moved.scatter_(1, chosen, a)
        self.a[rows] = moved
        gradients = self.F[rows]
        if self.signed:
            image = torch.zeros_like(gradients)
            matrix.follow(self.column[rows], image, points, sign * (a - before))
            gradients += self.sign[rows] * image
        else:
            matrix.follow(self.column[rows], gradients, points, a - before)
        self.F[rows] = gradients
        return new

    def _select(self, rows: Any, kept: Any) -> tuple[Any, Any]:
        """Places of variables: those kept, and those that violate the conditions most, (B, q)."""
        rising, falling = self._levels(rows)
        n = rising.shape[1]
        if self.groups == 2:
            for g in range(2):
                member = self.group[rows] == g
                low, high = _ends(rising, falling, member)
                level = (low + high).nan_to_num(0.0, 0.0, 0.0)[:, None] / 2
                rising = torch.where(member, rising - level, rising)
                falling = torch.where(member, falling - level, falling)
        count = self.size // (2 if kept is None else 4)
        taken = torch.zeros((len(rows), n), dtype=torch.bool, device=self.device)
        taken[:, -1] = True
        if kept is not None:
            taken.scatter_(1, kept, True)
        new = []
        for scores, largest in ((rising, False), (falling, True)):
            none = -torch.inf if largest else torch.inf
            found = torch.topk(
                scores.masked_fill(taken, none), min(count, n), dim=1, largest=largest
            )
            place = torch.where(found.values == none, n - 1, found.indices)
            place = torch.nn.functional.pad(place, (0, max(0, count - n)), value=n - 1)
            taken.scatter_(1, place, True)
            new.append(place)
        chosen = torch.cat(new if kept is None else [kept, *new], dim=1)
        return chosen, torch.cat([place[:, : self.size // 4] for place in new], dim=1)


def _ends(rising: Any, falling: Any, member: Any) -> tuple[Any, Any]:
    """The lowest gradient of a group that can rise and the highest that can fall, (B,) each."""
    low = torch.where(member, rising, torch.inf).amin(dim=1)
    return low, torch.where(member, falling, -torch.inf).amax(dim=1)


def kernels() -> Any:
    """The kernels of working sets, imported when there is a device for them."""
    return importlib.import_module("mercer.core.triton.working_sets")
