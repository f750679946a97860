"""Machines over features: functions ``f = Phi w + b`` in the span of some points, by blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, lstsq

from mercer.arrays import as_numpy, beside, is_tensor, namespace, row_blocks
from mercer.elsewhere import numbers
from mercer.solvers.losses import Loss
from mercer.solvers.risk import balanced, best_intercept, relative_gap

Rows = tuple[slice, Any]
# Rows that are scaled at a time, so that they stay in the processor's cache.
FEW = 2048


class Span:
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
    """

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
    def of(cls, Phi: np.ndarray, fit_intercept: bool) -> Span:
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
            f[rows] = as_numpy(Phi @ beside(w, Phi)) + b
        return f

    def gather(self, u: np.ndarray) -> np.ndarray:
        """``Phi^T u`` and the sum of u, for u of shape (n,) or (n, c): shape (p,) or (p, c)."""
        total = np.zeros((self.p, *u.shape[1:]))
        for rows, Phi in self:
            total[: self.r] += as_numpy(Phi.T @ beside(u[rows], Phi))
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
            total = total + _scaled_square(Phi, np.sqrt(h[rows, None]), single)
            border += as_numpy(Phi.T @ beside(h[rows], Phi))
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
        return float(sum(_squares(Phi, beside(h[rows], Phi)) for rows, Phi in self))

    def intercept(self, loss: Loss, y: np.ndarray) -> float:
        """The best bias where all else is zero."""
        return best_intercept(loss, y, np.zeros(self.n))

    def norms(self, z: np.ndarray) -> np.ndarray:
        """``||w||^2`` for each machine: shape () or (c,)."""
        return np.sum(z[: self.r] ** 2, axis=0)


def _scaled_square(Phi: Any, root: np.ndarray, single: bool) -> Any:
    """``Phi^T diag(root)^2 Phi`` in float64 for root of shape (b, 1): (r, r)."""
    if is_tensor(Phi):
        scaled = Phi * beside(root, Phi)
        scaled = scaled.float() if single else scaled
        return (scaled.T @ scaled).double()
    r = Phi.shape[1]
    total, room = np.zeros((r, r)), np.empty((FEW, r), np.float32 if single else np.float64)
    for few in row_blocks(len(Phi), bytes_per_row=1, budget=FEW):
        scaled = room[: few.stop - few.start]
        np.multiply(Phi[few], root[few], out=scaled, casting="same_kind")
        # NumPy's own, as all products here: the threads of two libraries get in each other's way.
        total += scaled.T @ scaled
    return total


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


def certified(
    span: Span,
    y: np.ndarray,
    loss: Loss,
    lam: float,
    z: np.ndarray,
    f: np.ndarray,
    g: np.ndarray | None = None,
) -> tuple[float, Solution]:
    """The relative duality gap of coordinates z with predictions f, as `Risk.gap`; and its parts.

    The dual point is g, by default the gradient of the loss.
    """
    g = loss.gradient(y, f) if g is None else g
    u = balanced(g) if span.fit_intercept else g
    conjugate = loss.conjugate(y, u)
    norm = 0.5 * lam * float(span.norms(z))
    if conjugate is None:
        (value,) = numbers(loss.value(y, f))
        r = span.gather(g) + lam * z
        gap = 0.5 / lam * float(span.norms(r))
        relative = relative_gap(gap, g, f, abs(value) + norm, span.fit_intercept)
        return relative, Solution(z, g, relative * ((abs(value) + norm) or 1.0))
    value, conjugate = numbers(loss.value(y, f), conjugate)
    dual_norm = 0.5 / lam * float(span.norms(span.gather(u)))
    size = max(abs(value) + norm, abs(conjugate) + dual_norm if np.isfinite(conjugate) else 0.0)
    excess = max(value + norm + conjugate + dual_norm, 0.0)
    return excess / (size or 1.0), Solution(z, u, excess)


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
        np.linalg.cholesky(unit)  # tells whether it is positive definite
        solution = np.linalg.solve(unit, side)
    except LinAlgError:
        solution = lstsq(unit, side, lapack_driver="gelsy")[0]
    return (solution.T * size).T
