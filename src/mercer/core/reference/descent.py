"""Quadratic programs of explicit features, one variable at a time: the twin in NumPy."""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp


class CoordinateDescent:
    """Minimise ½ aᵀQa + pᵀa over lo <= a <= hi, with the sums of groups given.

    Q_ij = s_i s_j φ_i·φ_j for features φ.

    Parameters
    ----------
    starts, columns, values : (m + 1,) int64, (N,) int32, (N,) float64
        The features, in sparse rows of this ``width``; variable v belongs to point v modulo m.
    width : int
    a : (n,) float64, changed in place
    p, lo, hi : (n,) float64
    sign : (n,) float64, or None for all +1
    group : (n,) int32, or None where nothing is said of sums
    totals : (G,) float64
        What the variables of each group sum to; they do so to about ``tol``.
    tol : float
        The largest range of the projected gradient.
    seed : int

    Attributes
    ----------
    rounds : int
    steps : int
        How often a variable was optimised.
    violation : float
        At the last round that looked at all variables; infinite if none did.
    """

    def __init__(
        self,
        starts: np.ndarray,
        columns: np.ndarray,
        values: np.ndarray,
        width: int,
        a: np.ndarray,
        p: np.ndarray,
        lo: np.ndarray,
        hi: np.ndarray,
        sign: np.ndarray | None,
        group: np.ndarray | None,
        totals: np.ndarray,
        tol: float,
        seed: int,
    ) -> None:
        phi = sp.csr_array((values, columns, starts), shape=(len(starts) - 1, width))
        self.phi = phi.toarray()
        self.a, self.p, self.lo, self.hi = a, p, lo, hi
        self.sign = np.ones(len(a)) if sign is None else sign
        self.group, self.totals, self.tol = group, totals, tol
        self.point = np.arange(len(a)) % len(self.phi)
        self.curvature = np.sum(self.phi**2, axis=1)
        self.penalty = float(self.curvature.mean()) if len(totals) else 0.0
        self.w = (self.sign * a) @ self.phi[self.point]
        self.sums, self.multipliers = np.zeros(len(totals)), np.zeros(len(totals))
        if group is not None:
            np.add.at(self.sums, group, a)
        self.rng = np.random.default_rng(seed)
        self.rounds, self.steps, self.violation = 0, 0, np.inf

    def run(self, rounds: int, seconds: float) -> None:
        """Go on for so many rounds or seconds, or until all is within the tolerance."""
        begun = time.monotonic()
        for _ in range(rounds):
            if self.violation <= self.tol or time.monotonic() - begun > seconds:
                return
            projected = [self._step(v) for v in self.rng.permutation(len(self.a))]
            self.rounds += 1
            step = self.penalty * (self.sums - self.totals)
            self.multipliers += step
            off = float(np.abs(step).max(initial=0.0))
            self.violation = max(max(projected) - min(projected), off)

    def _step(self, v: int) -> float:
        """Optimise one variable; the projected gradient before."""
        a, x, s = self.a[v], self.phi[self.point[v]], self.sign[v]
        gradient = s * (x @ self.w) + self.p[v]
        if self.group is not None:
            g = self.group[v]
            gradient += self.multipliers[g] + self.penalty * (self.sums[g] - self.totals[g])
        if a <= self.lo[v]:
            projected = min(gradient, 0.0)
        else:
            projected = max(gradient, 0.0) if a >= self.hi[v] else gradient
        if projected == 0:
            return 0.0
        self.steps += 1
        room = self.curvature[self.point[v]] + self.penalty
        if room > 0:
            to = min(max(a - gradient / room, self.lo[v]), self.hi[v])
        else:
            to = self.lo[v] if gradient > 0 else self.hi[v]
        self.a[v] = to
        self.w += s * (to - a) * x
        if self.group is not None:
            self.sums[self.group[v]] += to - a
        return projected
