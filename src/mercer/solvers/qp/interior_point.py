"""A primal-dual interior-point method: support vector machines in some twenty factorisations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_solve
from scipy.linalg.lapack import dpstrf

from mercer.arrays.factorisation import factorised
from mercer.operators import FeatureGram
from mercer.solvers.predictor_corrector import STEP_TO_BOUNDARY, largest_step
from mercer.solvers.qp.crossover import crossover
from mercer.solvers.qp.diagonal_shifts import DiagonalShifts, Solve
from mercer.solvers.qp.quadratic_program import (
    POINTS_PER_FEATURE,
    QuadraticProgram,
    certified_result,
)
from mercer.solvers.result import Monitor, Result, Status

# Complementarity, relative to the objective, at which bounds can be distinguished from free
# variables.
_COMPLEMENTARITY = 1e-14
# Steps in a row that do not halve it, near the solution, after which rounding is the cause.
_STEPS_WITHOUT_PROGRESS = 4
_NEAR_SOLUTION = 1e-3
# Points from which systems are solved by conjugate gradients, to these tolerances.
_ITERATIVE_FROM_POINTS = 1500
_PREDICTOR_TOL, _CORRECTOR_TOL = 1e-1, 1e-2
# Complementarity that is reached with such inexact directions.
_ITERATIVE_COMPLEMENTARITY = 1e-5
# Points whose rank is estimated before that of all.
_POINTS_FOR_RANK = 400

Solver = Callable[[list[np.ndarray], float], list[np.ndarray]]


def interior_point(
    program: QuadraticProgram,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``½ aᵀQa + pᵀa`` over a box with given sums, by Mehrotra's predictor-corrector.

    Newton's method follows the path on which each distance to a bound times its multiplier is the
    same number mu, towards mu = 0. One step takes one Cholesky factorisation of ``K`` plus a
    diagonal, m³/3 operations, even where a point owns two variables; where K has a small rank r, as
    with few features, it takes m r² instead. The number of steps hardly depends on the data, on C
    or on tol. A crossover then puts variables exactly on their bounds
    and solves for the free ones.

    Parameters
    ----------
    program : QuadraticProgram
        K is made dense, and two copies of it are held, unless few explicit features are known.
    tol : float
        Largest violation of the optimality conditions, as in LIBSVM, for the status to be ok;
        the answer is as a rule accurate to rounding.
    max_iter : int, optional
        Number of steps at most, 100 if None.
    max_time : float, optional
        Seconds at most, but for the step under way.
    report : callable, optional
        ``report(n_iter, complementarity)``; a true return value stops the solver.

    Returns
    -------
    Result
        ``value`` is a `Solution`; ``gap`` is the relative duality gap; ``history`` holds the
        relative complementarity, then the gaps of the crossover. The status is ``INFEASIBLE`` as
        for `smo`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.qp.quadratic_program import QuadraticProgram
    >>> x, y = np.array([-1.0, 1.0]), np.array([-1.0, 1.0])
    >>> program = QuadraticProgram(np.outer(x, x), -y, np.minimum(0, 9 * y), np.maximum(0, 9 * y),
    ...                            groups=np.zeros(2, dtype=int), totals=np.zeros(1))
    >>> interior_point(program).value.coefficients.round(9)
    array([-0.5,  0.5])

    References
    ----------
    Mehrotra (1992), "On the implementation of a primal-dual interior point method"; Fine and
    Scheinberg (2001), "Efficient SVM training using low-rank kernel representations".
    """
    max_iter = 100 if max_iter is None else max_iter
    monitor = Monitor(tol=_COMPLEMENTARITY, max_iter=max_iter, max_time=max_time, report=report)
    method = "interior point"
    if program.feasible() is None:
        a = np.clip(np.zeros(len(program.p)), program.lo, program.hi)
        return certified_result(program, monitor, a, tol, status=Status.INFEASIBLE, method=method)
    program = program.stored()
    path = _CentralPath(program)
    while True:
        # Directions that are not exact lead near enough, as a rule; else exact ones go on.
        monitor.tol = _COMPLEMENTARITY if path.shifts is None else _ITERATIVE_COMPLEMENTARITY
        monitor.max_iter = max_iter
        if not _follow(path, monitor):
            return certified_result(
                program, monitor, path.a, tol, status=Status.INFEASIBLE, method=method
            )
        monitor.max_iter = None  # of the path, not of the crossover

        def stop(gap: float) -> bool:
            monitor.record(gap, steps=0)
            return monitor.status in (Status.MAX_TIME, Status.STOPPED)

        a = crossover(program, path.a, path.reduced_gradient(), tol, path.size, stop)
        result = certified_result(program, monitor, a, tol, method=method)
        early = monitor.status in (Status.MAX_ITER, Status.MAX_TIME, Status.STOPPED)
        if result.status.ok or early or path.shifts is None:
            return result
        path.shifts, monitor.status = None, None


def _follow(path: _CentralPath, monitor: Monitor) -> bool:
    """Steps until the monitor or rounding ends them; False if the objective falls without end."""
    before = len(monitor.history)
    while not monitor.record(path.complementarity(), steps=int(len(monitor.history) > before)):
        moved = path.advance()
        if path.program.unbounded_along(path.a, path.F):
            return False
        if not moved or _stalled(monitor.history[before:]):
            break
    return True


def _stalled(history: list[float]) -> bool:
    """Whether the last few steps have hardly lowered an already small complementarity."""
    if len(history) <= _STEPS_WITHOUT_PROGRESS:
        return False
    before = min(history[:-_STEPS_WITHOUT_PROGRESS])
    return before < _NEAR_SOLUTION and min(history[-_STEPS_WITHOUT_PROGRESS:]) > 0.5 * before


class _CentralPath:
    """The current point, its distances to the bounds and their multipliers."""

    def __init__(self, program: QuadraticProgram):
        self.program = program
        self.K = program.K
        known = isinstance(self.K, FeatureGram)
        self.features = self.K.left if known else low_rank(self.K)
        many = self.features is None and len(self.K) >= _ITERATIVE_FROM_POINTS
        self.shifts = DiagonalShifts(self.K) if many else None
        n, G = len(program.p), program.n_groups
        self.E = np.zeros((G, n))
        for g in range(G):
            self.E[g] = program.groups == g
        self.flat = 1e-12 * max(float(self.K.diagonal().max()), 1e-300)
        self.has_lo, self.has_hi = np.isfinite(program.lo), np.isfinite(program.hi)
        self.a, margin = self._start()
        # Distances are carried along rather than recomputed, to keep their relative accuracy.
        self.to_lo = np.where(self.has_lo, self.a - program.lo, 1.0)
        self.to_hi = np.where(self.has_hi, program.hi - self.a, 1.0)
        self.F = program.gradient(self.a)
        self.nu = np.array([np.median(self.F[row > 0]) for row in self.E])
        r = self.reduced_gradient()
        # A typical coefficient and objective, which the optimum itself may be far below; in a box
        # about zero the start is zero, and its margin is the better estimate.
        typical = np.maximum(np.abs(self.a), margin)
        self.size = float(np.mean(typical))
        self.scale = float(typical @ (np.abs(program.p) + np.abs(self.F - program.p)))
        push = max(float(np.mean(np.abs(r))), 1e-3 * float(np.max(np.abs(program.p), initial=0.0)))
        push = push or 1.0
        self.z_lo = np.where(self.has_lo, np.maximum(r, 0.0) + push, 0.0)
        self.z_hi = np.where(self.has_hi, np.maximum(-r, 0.0) + push, 0.0)

    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        """Near equal shares of the totals, away from the bounds; and how far away at least.

        How far is the geometric mean of the box and of a coefficient that would fit one point
        alone: the optimum may have either size.
        """
        program = self.program
        target = np.zeros(len(program.p))
        if program.groups is not None:
            target = (np.asarray(program.totals) / self.E.sum(axis=1))[program.groups]
        typical = np.max(np.abs(program.p)) / max(float(program.diagonal().mean()), 1e-300)
        width = program.hi - program.lo
        alone = typical or 1.0
        between = np.minimum(0.25 * width, np.sqrt(width) * np.sqrt(typical or np.inf))
        margin = np.where(np.isfinite(width), between, alone)
        return np.clip(target, program.lo + margin, program.hi - margin), margin

    def reduced_gradient(self) -> np.ndarray:
        return self.program.reduced_gradient(self.F, self.nu)

    def complementarity(self) -> float:
        """Distances times multipliers plus what is missing of feasibility, relative."""
        program, a = self.program, self.a
        products = self.to_lo @ self.z_lo + self.to_hi @ self.z_hi
        dual = np.abs(self.reduced_gradient() - self.z_lo + self.z_hi) @ np.abs(a)
        sums = np.abs(self.E @ a - program.totals) @ np.abs(self.nu)
        objective = 0.5 * (a @ (self.F - program.p)) + program.p @ a
        return float((products + dual + sums) / max(abs(objective), 1e-6 * self.scale, 1e-300))

    def advance(self) -> bool:
        """One predictor-corrector step; False if rounding stops it."""
        count = self.has_lo.sum() + self.has_hi.sum()
        mu = (self.to_lo @ self.z_lo + self.to_hi @ self.z_hi) / count
        if not 0 < mu < np.inf:
            return False
        none = np.zeros_like(self.a)
        try:
            solve = self._factorise()
            found = solve([*self.E, self._pull(none, none)], _PREDICTOR_TOL)
            self.M_E = np.array(found[:-1]).reshape(self.E.shape).T
            da, dnu, dz_lo, dz_hi = self._direction(found[-1], none, none)
            step = self._largest_step(da, dz_lo, dz_hi)
            ahead = (self.to_lo + step * da) @ (self.z_lo + step * dz_lo)
            ahead += (self.to_hi - step * da) @ (self.z_hi + step * dz_hi)
            centre = mu * (ahead / count / mu) ** 3
            targets = centre - da * dz_lo, centre + da * dz_hi
            (found,) = solve([self._pull(*targets)], _CORRECTOR_TOL)
            da, dnu, dz_lo, dz_hi = self._direction(found, *targets)
        except LinAlgError:
            if self.shifts is None:
                return False
            self.shifts = None
            return self.advance()
        step = min(1.0, STEP_TO_BOUNDARY * self._largest_step(da, dz_lo, dz_hi))
        if not np.all(np.isfinite(da)) or step < 1e-8:
            return False
        self.a = self.a + step * da
        self.to_lo = np.where(self.has_lo, self.to_lo + step * da, 1.0)
        self.to_hi = np.where(self.has_hi, self.to_hi - step * da, 1.0)
        self.nu = self.nu + step * dnu
        self.z_lo = self.z_lo + step * dz_lo
        self.z_hi = self.z_hi + step * dz_hi
        self.F = self.program.gradient(self.a)
        return True

    def _from_bounds(
        self, target_lo: np.ndarray, target_hi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How the multipliers would change with a where it is."""
        from_lo = np.where(self.has_lo, target_lo / self.to_lo - self.z_lo, 0.0)
        return from_lo, np.where(self.has_hi, target_hi / self.to_hi - self.z_hi, 0.0)

    def _pull(self, target_lo: np.ndarray, target_hi: np.ndarray) -> np.ndarray:
        """The right-hand side of Newton's system, for these products of distance and multiplier."""
        from_lo, from_hi = self._from_bounds(target_lo, target_hi)
        return -(self.reduced_gradient() - self.z_lo + self.z_hi) + from_lo - from_hi

    def _direction(
        self, da: np.ndarray, target_lo: np.ndarray, target_hi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Newton's direction from the solution of its system, with the sums put right."""
        E, missing = self.E, self.program.totals - self.E @ self.a
        dnu = np.zeros(len(E))
        if len(E):
            dnu = np.linalg.lstsq(E @ self.M_E, missing - E @ da)[0]
            da = da + self.M_E @ dnu
        from_lo, from_hi = self._from_bounds(target_lo, target_hi)
        dz_lo = from_lo - self.z_lo / self.to_lo * da
        return da, dnu, dz_lo, from_hi + self.z_hi / self.to_hi * da

    def _largest_step(self, da: np.ndarray, dz_lo: np.ndarray, dz_hi: np.ndarray) -> float:
        return largest_step(
            (self.has_lo, self.to_lo, da),
            (self.has_hi, self.to_hi, -da),
            (self.has_lo, self.z_lo, dz_lo),
            (self.has_hi, self.z_hi, dz_hi),
        )

    def _factorise(self) -> Solver:
        """A function that solves ``(Q + diag(theta)) x = h`` for several h, by systems of size m.

        With B the map from variables to points, Q = BᵀKB. The net change v = Bx satisfies
        ``(K + 1/w) v = B(h / theta) / w``, where w sums ``1 / theta`` over a point's variables.
        """
        program, m = self.program, self.program.n_points
        theta = self.z_lo / self.to_lo + self.z_hi / self.to_hi
        # Directions in which Q is flat would otherwise be limited by nothing but rounding.
        theta = np.maximum(theta, self.flat)
        w = (1.0 / theta).reshape(-1, m).sum(axis=0)
        if self.features is not None:
            return self._factorise_features(self.features, theta, w)
        inner = self._factorise_points(1.0 / w) if self.shifts is None else self.shifts.at(1.0 / w)
        # The variable of each point that moves most easily takes what the others leave of v.
        easiest = np.argmin(theta.reshape(-1, m), axis=0) * m + np.arange(m)
        signs = np.ones(len(theta)) if program.signs is None else program.signs

        def solve(right: list[np.ndarray], tol: float) -> list[np.ndarray]:
            pulled = [program.net(h / theta) for h in right]
            found = []
            V = inner(np.array(pulled).T / w[:, None], tol)
            for h, net, v in zip(right, pulled, V.T, strict=True):
                x = (h - program.spread((net - v) / w)) / theta
                x[easiest] = 0.0
                x[easiest] = signs[easiest] * (v - program.net(x))
                found.append(x)
            return found

        return solve

    def _factorise_points(self, d: np.ndarray) -> Solve:
        shifted = self.K.copy()
        shifted.flat[:: len(d) + 1] += d
        factor = factorised(shifted)
        return lambda B, tol: cho_solve(factor, B, check_finite=False)

    def _factorise_features(self, features: np.ndarray, theta: np.ndarray, w: np.ndarray) -> Solver:
        """The same where ``K = Phi Phiᵀ``, by a factorisation of the size of the features.

        With ``u = Phiᵀ v`` the system is ``(I + Phiᵀ w Phi) u = Phiᵀ B(h / theta)``.
        """
        inner = features.T @ (w[:, None] * features)
        inner.flat[:: len(inner) + 1] += 1.0
        factor = factorised(inner)

        def solve(right: list[np.ndarray], tol: float) -> list[np.ndarray]:
            found = []
            for h in right:
                pulled = features.T @ self.program.net(h / theta)
                image = features @ cho_solve(factor, pulled, check_finite=False)
                found.append((h - self.program.spread(image)) / theta)
            return found

        return solve


def low_rank(K: np.ndarray) -> np.ndarray | None:
    """Phi of shape (m, rank) with ``K = Phi Phiᵀ`` to rounding, where that has few columns.

    Examples
    --------
    >>> import numpy as np
    >>> low_rank(np.ones((4, 4))).shape
    (4, 1)
    """
    flat = 1e-13 * float(K.diagonal().max())
    if len(K) > 2 * _POINTS_FOR_RANK:
        # The rank of all is no less than that of some, which takes no time to find.
        some = np.linspace(0, len(K) - 1, _POINTS_FOR_RANK).astype(int)
        if dpstrf(K[np.ix_(some, some)], tol=flat, lower=True)[2] == _POINTS_FOR_RANK:
            return None
    factor, order, rank, _ = dpstrf(K, tol=flat, lower=True)
    if POINTS_PER_FEATURE * rank > len(K):
        return None
    features = np.empty((len(K), rank))
    features[order - 1] = np.tril(factor[:, :rank])
    return features
