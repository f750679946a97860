"""Machines over features: functions ``f = Phi w + b`` in the span of some points, by blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, lstsq

from mercer.arrays import as_numpy, backend, like, namespace
from mercer.arrays.remote import numbers
from mercer.solvers.losses import Loss
from mercer.solvers.risk_problem import best_intercept, shares

Rows = tuple[slice, Any]


class FeatureSpan:
    """Features of n points, and a column of ones where there is a bias.

    A machine's coordinates are ``z = (w, b)``, shape (p,) or (p, c) for c machines, with
    ``||w||`` the norm of its function.

    Parameters
    ----------
    blocks : callable
        ``blocks()`` goes through the features once: slices of rows, and ``Phi[rows]`` of shape
        (rows, r), in float64; where they are tensors, products are taken there, and all that comes
        and goes are arrays.
    n, r : int
    fit_intercept : bool
    keep : bool
        Whether the features are kept in memory; else every pass computes them anew.

    Attributes
    ----------
    moves : int
        What a line search should foresee, see `step_along`.
    """

    moves = 0

    def __init__(
        self,
        blocks: Callable[[], Iterable[Rows]],
        n: int,
        r: int,
        fit_intercept: bool,
        keep: bool = True,
    ):
        self.n, self.r, self.fit_intercept = n, r, fit_intercept
        self.p = r + fit_intercept
        self._blocks = blocks
        self._kept = list(blocks()) if keep else None

    @classmethod
    def of(cls, Phi: np.ndarray, fit_intercept: bool) -> FeatureSpan:
        """The span of the columns of a matrix (n, r)."""
        n, r = Phi.shape
        return cls(lambda: [(slice(0, n), Phi)], n, r, fit_intercept)

    def __iter__(self) -> Iterator[Rows]:
        return iter(self._blocks() if self._kept is None else self._kept)

    def penalties(self, lam: float) -> np.ndarray:
        """What the square of each coordinate is penalised by, shape (p,): nothing for the bias."""
        return np.append(np.full(self.r, lam), np.zeros(self.p - self.r))

    def predict(self, z: np.ndarray) -> np.ndarray:
        """``Phi w + b``, shape (n,) or (n, c)."""
        f = np.empty((self.n, *z.shape[1:]))
        w, b = z[: self.r], z[self.r :].sum(axis=0)
        for rows, Phi in self:
            f[rows] = as_numpy(Phi @ like(w, Phi)) + b
        return f

    def gather(self, u: np.ndarray) -> np.ndarray:
        """``Phi^T u`` and the sum of u, for u of shape (n,) or (n, c): shape (p,) or (p, c)."""
        total = np.zeros((self.p, *u.shape[1:]))
        for rows, Phi in self:
            total[: self.r] += as_numpy(Phi.T @ like(u[rows], Phi))
        total[self.r :] = u.sum(axis=0)
        return total

    def curvature(self, h: np.ndarray, single: bool = False) -> np.ndarray:
        """``Phi^T diag(h) Phi`` for h >= 0 of shape (n,): shape (p, p).

        With ``single`` products are taken in float32, and summed in float64 across blocks.
        """
        r = self.r
        total: Any = 0.0
        border = np.zeros(r)
        for rows, Phi in self:
            root = np.sqrt(h[rows, None])
            total = total + backend(Phi).scaled_inner_products(Phi, root, single)
            border += as_numpy(Phi.T @ like(h[rows], Phi))
        A = np.empty((self.p, self.p))
        A[:r, :r] = as_numpy(total)
        if self.fit_intercept:
            A[r, :r] = A[:r, r] = border
            A[r, r] = h.sum()
        return A

    def estimate(self, h: np.ndarray, single: bool = False) -> np.ndarray:
        """The curvature, or nearly so where that takes long: what preconditions."""
        return self.curvature(h, single)

    def newton_step(
        self, h: np.ndarray, penalty: np.ndarray, v: np.ndarray, single: bool = False
    ) -> np.ndarray:
        """``(Phi^T diag(h) Phi + diag(penalty))^{-1} v`` for v of shape (p,)."""
        A = self.curvature(h, single)
        A[np.diag_indices_from(A)] += penalty
        return solve_scaled(A, v)

    def squares(self, h: np.ndarray) -> float:
        """The trace of ``Phi^T diag(h) Phi``, without the bias."""
        return float(sum(_squares(Phi, like(h[rows], Phi)) for rows, Phi in self))

    def gather_sides(self, u: np.ndarray) -> np.ndarray:
        """What `gather` has of the positive and of the negative entries of u (n,): (p, 2)."""
        return self.gather(np.column_stack([np.maximum(u, 0.0), np.minimum(u, 0.0)]))

    def total(self, function: Callable[..., Sequence[float]], loss: Loss, *vectors: Any) -> Any:
        """``function(loss, *vectors)``: a few sums over the points, of vectors over them."""
        return function(loss, *vectors)

    def intercept(self, loss: Loss, y: np.ndarray) -> float:
        """The best bias where all else is zero."""
        return best_intercept(loss, y, np.zeros(self.n))

    def norms(self, z: np.ndarray) -> np.ndarray:
        """``||w||^2`` for each machine: shape () or (c,)."""
        return np.sum(z[: self.r] ** 2, axis=0)


def _squares(Phi: Any, h: Any) -> Any:
    return namespace(Phi).einsum("i,ij,ij->", h, Phi, Phi)


class Solution(NamedTuple):
    """A machine over features, and the dual point that certifies it.

    Attributes
    ----------
    z : ndarray of shape (p,) or (p, c)
        Coordinates.
    u : ndarray of shape (n,) or (n, c), or None
        Dual point, None where the penalty is the loss's own.
    excess : float
        The duality gap at u, not relative to anything.
    """

    z: np.ndarray
    u: np.ndarray | None = None
    excess: float = np.inf


@dataclass(frozen=True)
class Certificate:
    """Sums at a machine and at a dual point, from which its duality gap follows for any ``lam``.

    Attributes
    ----------
    z : ndarray of shape (p,)
    u : ndarray of shape (n,)
        Dual point.
    value, conjugate : float
        Of the loss at the predictions and at u; the second is not a number where it is unknown.
    norm, dual_norm : float
        ``||w||^2`` and ``||Phi^T u||^2``.
    slopes : ndarray of shape (p,)
        ``Phi^T g`` and the sum of g, for the gradient g of the loss.
    r : int
        Coordinates that are penalised.
    slack : float
        Where the conjugate is unknown: what the bias may still gain.
    curved : float
        The sum of the curvatures of the loss.
    """

    z: np.ndarray
    u: np.ndarray
    value: float
    conjugate: float
    norm: float
    dual_norm: float
    slopes: np.ndarray
    r: int
    slack: float
    curved: float

    def solution(self, lam: float) -> Solution:
        return Solution(self.z, self.u, self._excess(lam))

    def gap(self, lam: float) -> float:
        """Relative to the objective's size, as `Risk.gap`."""
        size = abs(self.value) + 0.5 * lam * self.norm
        if np.isfinite(self.conjugate):
            size = max(size, abs(self.conjugate) + 0.5 / lam * self.dual_norm)
        return self._excess(lam) / (size or 1.0)

    def _excess(self, lam: float) -> float:
        if np.isnan(self.conjugate):
            r = (self.slopes + lam * self.z)[: self.r]
            return 0.5 / lam * float(np.sum(r**2)) + self.slack
        ours, theirs = 0.5 * lam * self.norm, 0.5 / lam * self.dual_norm
        return max(self.value + ours + self.conjugate + theirs, 0.0)


def certified(
    span: FeatureSpan,
    y: np.ndarray,
    loss: Loss,
    z: np.ndarray,
    f: np.ndarray,
    g: np.ndarray | None = None,
) -> Certificate:
    """The certificate of coordinates z with predictions f.

    The dual point is g, by default the gradient of the loss; balanced where there is a bias and the
    conjugate is known, as a sum of its two sides, whose products one pass over the points gives.
    """
    g = loss.gradient(y, f) if g is None else g
    sides = span.gather_sides(g)
    above, below = shares(*(sides[-1] * (1.0, -1.0))) if span.fit_intercept else (1.0, 1.0)
    u = g * np.where(g > 0, above, below) if span.fit_intercept else g
    value, conjugate, curved = map(float, span.total(_at_dual_point, loss, y, f, u))
    slopes, slack = sides.sum(axis=1), 0.0
    if np.isnan(conjugate) and span.fit_intercept:
        u, slack = g, abs(slopes[-1]) * (1.0 + numbers(np.max(np.abs(f)))[0])
    dual_norm = float(span.norms(sides @ (above, below)))
    norm = float(span.norms(z))
    return Certificate(z, u, value, conjugate, norm, dual_norm, slopes, span.r, slack, curved)


def _at_dual_point(loss: Loss, y: np.ndarray, f: np.ndarray, u: np.ndarray) -> list[float]:
    """Value, conjugate and curvature of the loss, summed."""
    conjugate, curvature = loss.conjugate(y, u), loss.curvature(y, f)
    return [
        loss.value(y, f),
        np.nan if conjugate is None else conjugate,
        0.0 if curvature is None else np.sum(np.maximum(curvature, 0.0)),
    ]


def solve_scaled(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    """``A^{-1} v`` for a positive semidefinite A, which is scaled to a unit diagonal first.

    Where A is singular to rounding, the solution of least norm after scaling.
    """
    size = np.sqrt(np.diagonal(A))
    size = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    unit = A * np.outer(size, size)
    unit[np.diag_indices_from(unit)] += size == 0
    side = (v.T * size).T
    try:
        np.linalg.cholesky(unit)  # raises an error where it is not positive definite
        solution = np.linalg.solve(unit, side)
    except LinAlgError:
        solution = lstsq(unit, side, lapack_driver="gelsy")[0]
    return (solution.T * size).T
