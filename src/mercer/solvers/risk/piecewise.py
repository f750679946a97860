"""Piecewise linear losses over features, by interior points; several levels that do not cross."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from mercer.arrays.factorisation import factorised
from mercer.solvers.losses import BoxLoss
from mercer.solvers.predictor_corrector import STEP_TO_BOUNDARY, largest_step
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import EPS
from mercer.solvers.risk.feature_span import FeatureSpan, Solution

# So many steps in a row that do not halve the gap are taken as the work of rounding, near the end.
_STEPS_WITHOUT_PROGRESS = 8
_NEAR_SOLUTION = 1e-3


def piecewise_linear_primal(
    span: FeatureSpan,
    y: np.ndarray,
    losses: Sequence[BoxLoss],
    lam: float,
    *,
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise ``sum_j L_j(y, f_j) + 1/2 lam sum_j ||w_j||^2`` with ``f_1 <= f_2 <= ...``.

    The inequalities hold at the points; with one loss there are none. Each loss is a sum of hinges,
    ``c max(0, g - f)`` and ``c max(0, f - g)``. Mehrotra's predictor-corrector follows the path on
    which all products of slacks and multipliers are equal, towards zero. A step factorises one
    matrix of the size of the features per loss, from a pass over the points: machines meet only
    their neighbours, so the system is block tridiagonal.

    Parameters
    ----------
    span : FeatureSpan
    y : ndarray of shape (n,)
    losses : sequence of q BoxLoss
        In the order that their predictions must have.
    lam : float
        Regulariser, positive.
    tol, max_iter, max_time, report
        See `Monitor`; 100 steps at most if ``max_iter`` is None.

    Returns
    -------
    Result
        ``value`` is a `Solution`; ``gap`` is the relative duality gap.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.losses import Quantile
    >>> span = FeatureSpan.of(np.zeros((5, 1)), fit_intercept=True)
    >>> y = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    >>> piecewise_linear_primal(span, y, [Quantile(0.3), Quantile(0.5)], 1.0).value.z[-1].round(4)
    array([2., 3.])

    References
    ----------
    Mehrotra (1992), "On the implementation of a primal-dual interior point method"; Takeuchi, Le,
    Sears and Smola (2006), "Nonparametric quantile estimation", section 3.
    """
    max_iter = 100 if max_iter is None else max_iter
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    path = _CentralPath(span, y, losses, lam)
    best, status = path.certified(), None
    while not monitor.record(best[0], steps=int(len(monitor.history) > 0)):
        if not path.advance():
            status = Status.STALLED
            break
        best = min(best, path.certified(), key=lambda found: found[0])
        before = monitor.history[-_STEPS_WITHOUT_PROGRESS:][0]
        if (
            len(monitor.history) > _STEPS_WITHOUT_PROGRESS
            and 0.5 * before < best[0] < _NEAR_SOLUTION
        ):
            status = Status.STALLED
            break
    gap, found = best
    return monitor.result(found, gap, status=status, method="interior point")


@dataclass
class _Pieces:
    """Hinges ``c max(0, g - (A f))``, and with infinite c the constraints ``A f >= g``.

    For q machines the first q columns of A f are f, the next q are -f, then come the q - 1
    differences of neighbours. All arrays have shape (n, 3 q - 1).
    """

    c: np.ndarray
    g: np.ndarray
    q: int

    @classmethod
    def of(cls, y: np.ndarray, losses: Sequence[BoxLoss]) -> _Pieces:
        boxes = [loss.box(y) for loss in losses]
        order = np.zeros((len(y), len(losses) - 1))
        above, below = [hi for _, hi in boxes], [-lo for lo, _ in boxes]
        return cls(
            np.column_stack([*above, *below, order + np.inf]),
            np.column_stack(
                [*(y - loss.tube for loss in losses), *(-y - loss.tube for loss in losses), order]
            ),
            len(losses),
        )

    def forward(self, f: np.ndarray) -> np.ndarray:
        return np.hstack([f, -f, np.diff(f, axis=1)])

    def adjoint(self, a: np.ndarray) -> np.ndarray:
        above, below, order = np.split(a, [self.q, 2 * self.q], axis=1)
        net = above - below
        net[:, 1:] += order
        net[:, :-1] -= order
        return net


class _CentralPath:
    """Coordinates, slacks s and t of the hinges, and multipliers a and c - a."""

    def __init__(self, span: FeatureSpan, y: np.ndarray, losses: Sequence[BoxLoss], lam: float):
        self.span, self.y, self.losses, self.lam = span, y, losses, lam
        self.pieces = _Pieces.of(y, losses)
        self.penalty = span.penalties(lam)[:, None]
        self.z = np.zeros((span.p, len(losses)))
        if span.fit_intercept:
            self.z[-1] = [span.intercept(loss, y) for loss in losses]
        self.f = span.predict(self.z)
        c = self.pieces.c
        self.on, self.finite = c > 0, (c > 0) & np.isfinite(c)
        short = self.pieces.g - self.pieces.forward(self.f)
        spread = float(np.mean(np.abs(short[self.finite]))) if self.finite.any() else 1.0
        spread = spread or 1.0
        typical = float(np.mean(c[self.finite])) if self.finite.any() else 1.0
        self.s = np.where(self.finite, np.maximum(short, 0.0) + spread, 1.0)
        self.t = np.where(self.finite, self.s - short, np.maximum(-short, spread))
        self.a = np.where(self.finite, 0.5 * c, 0.1 * typical * self.on)
        self.rest = np.where(self.finite, 0.5 * c, 1.0)  # c - a, carried for its accuracy

    def certified(self) -> tuple[float, Solution]:
        """The relative duality gap, at multipliers balanced so that each machine's sum to zero."""
        span, pieces, q = self.span, self.pieces, self.pieces.q
        a = self.a.copy()
        if span.fit_intercept:
            excess = pieces.adjoint(a).sum(axis=0)
            for j, over in enumerate(excess):
                side = j if over > 0 else q + j
                total = a[:, side].sum()
                if not total > abs(over):  # zero will do, if nothing better
                    a = np.zeros_like(a)
                    break
                a[:, side] *= 1.0 - abs(over) / total
        norm = 0.5 * self.lam * float(np.sum(span.norms(self.z)))
        # What functions that still cross would pay for it.
        crossing = float(np.sum(a[:, 2 * q :] * np.maximum(-np.diff(self.f, axis=1), 0.0)))
        value = sum(loss.value(self.y, self.f[:, j]) for j, loss in enumerate(self.losses))
        linear = float(np.sum(np.where(self.on, pieces.g * a, 0.0)))
        u = -pieces.adjoint(a)
        dual_norm = 0.5 / self.lam * float(np.sum(span.norms(span.gather(u))))
        # No loss is negative, which is a bound of its own.
        excess = max(value + norm + crossing - max(linear - dual_norm, 0.0), 0.0)
        # Losses this small are the rounding of y - f.
        weights = np.where(self.finite, pieces.c, 0.0)
        rounding = 4 * EPS * float(np.sum(weights * np.abs(pieces.g))) + 1e-300
        relative = excess / (value + norm) if excess > rounding else 0.0
        return relative, Solution(self.z, u, excess)

    def advance(self) -> bool:
        """One predictor-corrector step; False if rounding stops it."""
        on, finite = self.on, self.finite
        count = int(on.sum() + finite.sum())
        products = self._products(self.a, self.t, self.rest, self.s)
        if count == 0 or not products > 0:
            return False
        mu = products / count
        bend = np.where(on, self.t / np.where(on, self.a, 1.0), 1.0)
        bend = bend + np.where(finite, self.s / self.rest, 0.0)
        D = np.where(on, 1.0 / bend, 0.0)
        solve = self._factorise(D)
        if solve is None:
            return False
        none = np.zeros_like(D)
        _, _, da, dt, ds = self._direction(solve, D, none, none)
        step = self._largest_step(da, dt, ds)
        ahead = self._products(
            self.a + step * da, self.t + step * dt, self.rest - step * da, self.s + step * ds
        )
        centre = mu * (ahead / count / mu) ** 3
        dz, df, da, dt, ds = self._direction(solve, D, centre - da * dt, centre + da * ds)
        step = min(1.0, STEP_TO_BOUNDARY * self._largest_step(da, dt, ds))
        if not (np.all(np.isfinite(dz)) and step > 1e-8):
            return False
        self.z, self.f = self.z + step * dz, self.f + step * df
        self.a = np.where(on, self.a + step * da, 0.0)
        self.t = np.where(on, self.t + step * dt, 1.0)
        self.rest = np.where(finite, self.rest - step * da, 1.0)
        self.s = np.where(finite, self.s + step * ds, 1.0)
        return True

    def _products(self, a: np.ndarray, t: np.ndarray, rest: np.ndarray, s: np.ndarray) -> float:
        return float(np.sum((a * t)[self.on]) + np.sum((rest * s)[self.finite]))

    def _direction(
        self, solve: Callable, D: np.ndarray, toward_a: np.ndarray, toward_rest: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Newton's direction towards these products of multipliers and slacks."""
        on, finite, pieces = self.on, self.finite, self.pieces
        a, rest = np.where(on, self.a, 1.0), np.where(finite, self.rest, 1.0)
        from_a = np.where(on, toward_a / a - self.t, 0.0)
        from_rest = np.where(finite, toward_rest / rest - self.s, 0.0)
        # Hinges start with slacks that fit; the order of machines may not hold at first.
        missing = self.t - np.where(finite, self.s, 0.0) + pieces.g - pieces.forward(self.f)
        e = np.where(on, from_a - from_rest + missing, 0.0)
        pull = self.span.gather(pieces.adjoint(self.a * on + D * e)) - self.penalty * self.z
        dz = solve(pull)
        df = self.span.predict(dz)
        da = D * (e - pieces.forward(df))
        dt = np.where(on, from_a - self.t / a * da, 0.0)
        ds = np.where(finite, from_rest + self.s / rest * da, 0.0)
        return dz, df, da, dt, ds

    def _largest_step(self, da: np.ndarray, dt: np.ndarray, ds: np.ndarray) -> float:
        return largest_step(
            (self.on, self.a, da),
            (self.on, self.t, dt),
            (self.finite, self.rest, -da),
            (self.finite, self.s, ds),
        )

    def _factorise(self, D: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        """Solves ``(lam I + Phi^T A^T D A Phi) x = v``, v of shape (p, q); None if it is no use."""
        q = self.pieces.q
        above, below, order = np.split(D, [q, 2 * q], axis=1)
        diagonal = above + below
        diagonal[:, 1:] += order
        diagonal[:, :-1] += order
        factors, links = [], []
        for j in range(q):
            H = self.span.curvature(diagonal[:, j])
            H[np.diag_indices_from(H)] += self.penalty[:, 0]
            if j:
                links.append(-self.span.curvature(order[:, j - 1]))
                H -= links[-1] @ factors[-1](links[-1])
            factor = _scaled_factor(H)
            if factor is None:
                return None
            factors.append(factor)

        def solve(v: np.ndarray) -> np.ndarray:
            x = v.copy()
            for j in range(1, q):
                x[:, j] -= links[j - 1] @ factors[j - 1](x[:, j - 1])
            x[:, q - 1] = factors[q - 1](x[:, q - 1])
            for j in range(q - 2, -1, -1):
                x[:, j] = factors[j](x[:, j] - links[j] @ x[:, j + 1])
            return x

        return solve


def _scaled_factor(H: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Solves with H, scaled to a unit diagonal to which a trace is added where rounding asks it."""
    size = np.sqrt(np.maximum(np.diagonal(H), 0.0))
    size = np.divide(1.0, size, out=np.ones_like(size), where=size > 0)
    unit = H * np.outer(size, size)
    for trace in (0.0, 1e-14, 1e-12, 1e-10):
        try:
            shifted = unit.copy()
            shifted[np.diag_indices_from(shifted)] += trace
            factor = factorised(shifted)
        except LinAlgError:
            continue
        return lambda v: (size * cho_solve(factor, (v.T * size).T).T).T
    return None
