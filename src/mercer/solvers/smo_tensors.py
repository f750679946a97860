"""Sequential minimal optimisation where the points are tensors: many machines at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.arrays import Later, as_numpy, device_budget
from mercer.operators import TensorGram
from mercer.solvers.kept_rows import origin
from mercer.solvers.quadratic_program import LARGEST_GAP, QuadraticProgram, Solution, close
from mercer.solvers.result import Monitor, Result, Status

torch: Any = Later("torch")

# Variables of a working set: as many as give the most for one machine, fewer for many.
_LARGEST_SET, _SMALLEST_SET = 1024, 16
_SET_ENTRIES = 2**25
# Steps within a set at most, for each of its variables.
_STEPS = 16
# In a set the violation is brought down to this share of what it is among all variables.
_SHARE = 0.1
# Gradients are computed afresh, in double, so many times at most.
_MAX_REFRESHES = 30
# On gradients that float32 has moved, this much of tol is left for what a fresh one shows.
_DOUBT = 0.9


def is_on_device(program: QuadraticProgram) -> bool:
    """Whether the programme's Gram matrix is one of tensors."""
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
    """Minimise programmes on parts of one Gram matrix of tensors, all at the same time.

    Working sets as in `smo`, of all programmes in one launch; kernel values are in float32, and
    gradients in float64 are computed afresh until those satisfy the conditions, too.

    Parameters
    ----------
    programs : sequence of QuadraticProgram
        With finite bounds, whose K are parts of one `TensorGram`.
    tol, max_iter, max_time, report
        As for `smo`; steps are counted per programme.
    starts : sequence
        Where each starts, None for zero.
    """
    if not all(program.bounded for program in programs):
        raise ValueError("a hard margin is not there for tensors; use a finite C, or X.cpu()")
    clock = Monitor(tol=0.0, max_time=max_time)
    monitors = [Monitor(tol=tol, max_iter=max_iter) for _ in programs]
    points = [program.feasible(start) for program, start in zip(programs, starts, strict=True)]
    batch = _Batch(programs, points, max_iter)
    matrix = _Matrix(batch.gram)
    status: list[Status | None] = [Status.INFEASIBLE if a is None else None for a in points]
    solutions: list[Solution | None] = [None] * len(programs)
    going = [i for i, s in enumerate(status) if s is None]
    stop: Status | None = None

    def told(steps: int, violation: float) -> bool:
        nonlocal stop
        if report and report(steps, violation):
            stop = Status.STOPPED
        elif max_time is not None and clock.seconds >= max_time:
            stop = Status.MAX_TIME
        return stop is not None

    for refresh in range(_MAX_REFRESHES):
        batch.refresh()
        violation = as_numpy(batch.violation())
        left = []
        for i in going:
            monitors[i].history.append(float(violation[i]))
            if violation[i] <= tol:
                found = programs[i].solution(*batch.point(i))
                if found.gap <= LARGEST_GAP or violation[i] == 0:
                    solutions[i] = found
                    continue
                batch.target[i] = _SHARE * float(violation[i])
            elif batch.stuck(i):
                status[i] = Status.STALLED
                continue
            elif batch.steps[i] >= batch.limit[i]:
                status[i] = Status.MAX_ITER
                continue
            else:
                batch.target[i] = _DOUBT * tol if refresh < 2 else 0.5 * tol
            left.append(i)
        going = left
        if not going or stop:
            break
        batch.advance(going, matrix, told)
    for i in going:
        status[i] = stop or Status.STALLED
    taken = float(batch.steps.sum()) + len(programs)
    results = []
    for i, program in enumerate(programs):
        monitors[i].n_iter = int(batch.steps[i])
        monitors[i].took = clock.seconds * (monitors[i].n_iter + 1) / taken
        a, F = batch.point(i)
        solution = solutions[i] or program.solution(a, F)
        results.append(
            close(program, monitors[i], a, tol, solution=solution, status=status[i],
                  method=f"smo on {batch.device}")
        )  # fmt: skip
    return results


class _Matrix:
    """Kernel values in float32, stored where they fit."""

    def __init__(self, gram: TensorGram):
        self.pairs = gram.single().pairs
        n = gram.shape[0]
        self.K = self.pairs.gram() if 4 * n**2 <= device_budget(self.pairs.device) else None

    def tiles(self, points: Any) -> Any:
        """The Gram matrices of sets of points, (B, q) to (B, q, q)."""
        if self.K is not None:
            return self.K[points[:, :, None], points[:, None, :]]
        return torch.stack([self.pairs.block(p, p) for p in points])

    def follow(self, column: Any, F: Any, points: Any, amounts: Any) -> None:
        """F[b, v] += Σ_w amounts[b, w] k(points[b, w], column[b, v]), in place."""
        if self.K is None:
            for b in range(len(F)):
                some = torch.nonzero(amounts[b])[:, 0]
                image = self.pairs.combination(points[b, some], amounts[b, some, None])
                F[b] += image[:, 0][column[b].long()]
            return
        first = torch.sort((amounts == 0).int(), dim=1, stable=True).indices
        kernels().follow(
            self.K,
            column,
            F,
            torch.gather(points, 1, first).int(),
            torch.gather(amounts, 1, first).float(),
            (amounts != 0).sum(dim=1, dtype=torch.int32),
        )


class _Batch:
    """Programmes side by side: rows of tensors, made up to one length with variables that rest."""

    def __init__(
        self,
        programs: Sequence[QuadraticProgram],
        points: Sequence[np.ndarray | None],
        max_iter: int | None,
    ):
        self.programs = programs
        self.gram: TensorGram = origin(programs[0].K)[0]
        self.exact = self.gram.double().pairs
        self.device = self.exact.device
        self.groups = max(program.n_groups for program in programs)
        n = max(len(program.p) for program in programs) + 1  # the last of all is nobody's
        shape = (len(programs), n)
        a, p, lo, hi = (np.zeros(shape) for _ in range(4))
        sign, group, column = np.ones(shape), np.zeros(shape), np.zeros(shape, dtype=np.int32)
        for b, (program, start) in enumerate(zip(programs, points, strict=True)):
            own = np.s_[b, : len(program.p)]
            p[own], lo[own], hi[own] = program.p, program.lo, program.hi
            a[own] = 0.0 if start is None else start
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
        self.flat = max(1e-12 * float(self.exact.diagonal().max()), 1e-150)
        self.signed = bool((self.sign != 1).any())
        self.size = _LARGEST_SET
        while self.size > _SMALLEST_SET and (
            len(programs) * self.size**2 > _SET_ENTRIES or self.size >= 2 * n
        ):
            self.size //= 2

    def point(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """The variables and the gradient of a programme."""
        n = len(self.programs[i].p)
        return as_numpy(self.a[i, :n]).copy(), as_numpy(self.F[i, :n]).copy()

    def stuck(self, i: int) -> bool:
        return bool(self.idle[i])

    def refresh(self) -> None:
        """All gradients afresh, in double."""
        n = self.gram.shape[0]
        coefficients = torch.zeros((n, len(self.a)), dtype=torch.float64, device=self.device)
        machine = torch.arange(len(self.a), device=self.device)[:, None].expand_as(self.column)
        place = (self.column.long(), machine)
        coefficients.index_put_(place, self.sign * self.a, accumulate=True)
        used = torch.nonzero(coefficients.any(dim=1))[:, 0]
        self.F = self.p.clone()
        if len(used):
            image = self.exact.combination(used, coefficients[used])
            self.F += self.sign * image[place]

    def _levels(self, rows: Any) -> tuple[Any, Any, Any]:
        """The lowest gradient that can rise and the highest that can fall of each group."""
        a, F = self.a[rows], self.F[rows]
        rising = torch.where(a < self.hi[rows], F, torch.inf)
        falling = torch.where(a > self.lo[rows], F, -torch.inf)
        if not self.groups:
            rising, falling = (
                torch.cat([part, torch.zeros_like(part[:, :1])], dim=1)
                for part in (rising, falling)
            )
        return rising, falling, F

    def violation(self, rows: Any = slice(None)) -> Any:
        """LIBSVM's measure for each programme, (B,)."""
        rising, falling, _ = self._levels(rows)
        if not self.groups:
            return torch.maximum(-rising.amin(dim=1), falling.amax(dim=1)).clamp(min=0)
        worst = None
        for g in range(self.groups):
            member = self.group[rows] == g
            low = torch.where(member, rising, torch.inf).amin(dim=1)
            high = torch.where(member, falling, -torch.inf).amax(dim=1)
            worst = high - low if worst is None else torch.maximum(worst, high - low)
        return worst.clamp(min=0)

    def advance(self, going: Sequence[int], matrix: _Matrix, told: Callable) -> None:
        """Working set after working set, until the violations are on target."""
        rows = torch.as_tensor(going, device=self.device)
        kept = None
        self.idle[rows] = False
        while True:
            violation = self.violation(rows)
            open_ = (violation > self.target[rows]) & (self.steps[rows] < self.limit[rows])
            open_ &= ~self.idle[rows]
            alive, worst, steps = torch.stack(
                [open_.sum().double(), violation.max(), self.steps.sum().double()]
            ).tolist()
            if told(int(steps), worst) or not alive:
                return
            if alive < len(rows):
                kept = None if kept is None else kept[open_]
                rows, violation = rows[open_], violation[open_]
            kept = self._round(rows, violation, kept, matrix)

    def _round(self, rows: Any, violation: Any, kept: Any, matrix: _Matrix) -> Any:
        """One working set of each of these programmes; the variables that were new in it."""
        chosen, new = self._select(rows, kept)
        a = torch.gather(self.a[rows], 1, chosen)
        F, lo, hi, sign = (
            torch.gather(A[rows], 1, chosen) for A in (self.F, self.lo, self.hi, self.sign)
        )
        group, points = (torch.gather(A[rows], 1, chosen) for A in (self.group, self.column))
        Q = matrix.tiles(points.long())
        if self.signed:
            Q = Q * (sign[:, :, None] * sign[:, None, :]).float()
        steps = torch.zeros_like(self.steps[rows])
        before = a.clone()
        target = torch.maximum(0.5 * self.target[rows], _SHARE * violation)
        kernels().work(
            a, F, lo, hi, group, Q.contiguous(), target, self.limit[rows] - self.steps[rows],
            steps, self.flat, _STEPS * a.shape[1], self.groups,
        )  # fmt: skip
        self.steps[rows] += steps
        self.idle[rows] = steps == 0
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
        rising, falling, F = self._levels(rows)
        n = F.shape[1]
        rising, falling = rising[:, :n], falling[:, :n]
        if self.groups == 2:
            for g in range(2):
                member = self.group[rows] == g
                low = torch.where(member, rising, torch.inf).amin(dim=1, keepdim=True)
                high = torch.where(member, falling, -torch.inf).amax(dim=1, keepdim=True)
                level = (low + high).nan_to_num(0.0, 0.0, 0.0) / 2
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


def kernels() -> Any:
    """The kernels of working sets, imported when there is a device for them."""
    return importlib.import_module("mercer.core.triton_sets")
