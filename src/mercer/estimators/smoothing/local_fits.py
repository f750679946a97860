"""Local means and lines with Gaussian weights, through the core, and their slopes in bandwidths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer import core
from mercer.arrays import row_major
from mercer.estimators.smoothing.bandwidths import Bandwidth
from mercer.estimators.smoothing.neighbourhoods import (
    Neighbourhoods,
    carried_targets,
    coordinate_units,
    linear_weights,
    local_linear,
)
from mercer.expressions import PairMatrix, Scale, View, gradient, statistic
from mercer.expressions.arithmetic import evaluate
from mercer.expressions.derivative import partial
from mercer.expressions.nodes import ZERO
from mercer.kernels.smoothing.densities import quiet_log
from mercer.kernels.smoothing.window import RadialKernel, SmoothingKernel
from mercer.kernels.smoothing.windows import FUSED_UP_TO, Gaussian

# A direction in which the spread of weighted points is below this part of their mean square
# distance along each coordinate is left to a decomposition that keeps more digits.
FLAT = 1e-6
# A sum without the point itself is trusted above this part of the kernel's peak.
REACHED = 1e-6

# A score takes bandwidths (d,) to its value and, if asked, its derivatives by their logarithms.
Score = Callable[[np.ndarray, bool], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class LocalFits:
    """y(u) of weighted least squares around u, with weights a_n exp(-‖u - v_n‖²/2).

    Attributes
    ----------
    V : ndarray of shape (n, d)
        Training points on the kernel's scale.
    mass : ndarray of shape (n,)
        a_n > 0, how many times each point counts.
    Y : ndarray of shape (n, c)
        Targets.
    linear : bool
        Whether a line is fitted, or a constant.
    lines : ndarray of int or None
        Coordinates along which lines may slope; all of them if None.
    """

    V: np.ndarray
    mass: np.ndarray
    Y: np.ndarray
    linear: bool = False
    lines: np.ndarray | None = None

    @staticmethod
    def serve(kernel: SmoothingKernel, d: int) -> bool:
        """Whether fits with this kernel in R^d can be had here."""
        return isinstance(kernel, Gaussian) and d <= FUSED_UP_TO["native"]

    def at(self, U: np.ndarray | None = None) -> LocalMoments:
        """Fits around each row of ``U: (m, d)``, or around each point without itself."""
        centre = np.median(self.V[:: max(1, len(self.V) // 512)], axis=0)
        V = row_major(self.V - centre)
        if U is None:
            queries, own = V, quiet_log(self.mass - np.minimum(self.mass, 1))
        else:
            queries, own = row_major(U - centre), None
        points = (queries, V, np.log(self.mass), own)
        threads = core.threads(len(queries) * len(V), V.shape[1])
        Y = row_major(self.Y)
        log_sum, means = core.smoother().local_moments(*points, Y, self.linear, threads)
        return LocalMoments(points, Y, log_sum, means, self.linear, threads, self.lines)


class LocalMoments:
    """Weighted means around queries, and the fits they give.

    Attributes
    ----------
    value : ndarray of shape (m, c)
        y(u); NaN where there is no weight.
    flat : ndarray of shape (m,)
        Whether the points in reach hardly spread in some direction, so that the slope is not to be
        trusted to many digits.
    """

    def __init__(self, points, Y, log_sum, means, linear, threads, lines):
        self.points, self.Y, self.log_sum, self.threads = points, Y, log_sum, threads
        (m, d), c = points[0].shape, Y.shape[1]
        self.value, self.flat = means[:, :c], np.zeros(m, dtype=bool)
        # The weight of a point in the fit is p_j (g_0 + g·D), D its place as seen from the query.
        self.g, self.slope = np.ones((m, 1)), np.zeros((m, 0, c))
        if linear:
            self._line(means, d, c, np.arange(d) if lines is None else lines)

    def _line(self, means: np.ndarray, d: int, c: int, lines: np.ndarray) -> None:
        m, offset = len(means), means[:, c : c + d]
        spread = np.zeros((m, d, d))
        a, b = np.tril_indices(d)
        spread[:, a, b] = spread[:, b, a] = means[:, c + d : c + d + len(a)]
        spread -= offset[:, :, None] * offset[:, None, :]
        crossed = means[:, c + d + len(a) :].reshape(m, d, c)
        crossed = crossed - offset[:, :, None] * self.value[:, None, :]
        offset, crossed, spread = offset[:, lines], crossed[:, lines], spread[:, lines][:, :, lines]
        spread[~np.isfinite(self.log_sum)] = 0.0
        unit = coordinate_units(np.diagonal(spread, axis1=1, axis2=2) + offset**2)
        offset, crossed = offset / unit, crossed / unit[:, :, None]
        spread = spread / (unit[:, :, None] * unit[:, None, :])
        # Where nothing moves there is no slope, and nothing to be careful about.
        spread += np.isinf(unit)[:, :, None] * np.eye(len(lines))
        values, vectors = np.linalg.eigh(spread)
        self.flat = values[:, 0] <= FLAT
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > FLAT)
        solve = np.einsum("mab,mb,mcb->mac", vectors, inverse, vectors)
        slope = solve @ crossed
        across = np.einsum("mab,mb->ma", solve, offset)
        self.value = self.value - np.einsum("md,mdc->mc", offset, slope)
        self.slope, self.g = np.zeros((m, d, c)), np.zeros((m, 1 + d))
        self.slope[:, lines] = slope / unit[:, :, None]
        self.g[:, 0] = 1 + np.sum(offset * across, axis=1)
        self.g[:, 1 + lines] = -across / unit

    def slopes(self, v: np.ndarray) -> np.ndarray:
        """Σ_i v_i · ∂y(u_i)/∂ log h_k for each k, (d,), with ``v: (m, c)``."""
        reached = np.isfinite(self.log_sum)
        v = np.where(reached[:, None], v, 0.0)
        value = np.where(reached[:, None], self.value, 0.0)
        b = np.column_stack([np.sum(v * value, axis=1), np.einsum("mdc,mc->md", self.slope, v)])
        found = core.smoother().local_slopes(
            *self.points,
            self.Y,
            self.log_sum,
            row_major(np.where(reached[:, None], self.g, 0.0)),
            row_major(v),
            row_major(np.where(reached[:, None], b, 0.0)),
            self.threads,
        )
        return found.sum(axis=0)


def squared_error(predicted: np.ndarray, Y: np.ndarray, weight: np.ndarray, scales: np.ndarray):
    """Σ_i w_i ((y_i - ŷ_i) / s)², its mean over the outputs, and the derivatives by ŷ."""
    residuals = (Y - predicted) / scales
    value = float((weight @ residuals**2).mean())
    return value, -2 * weight[:, None] * residuals / (scales * Y.shape[1])


def gaussian_score(
    X: np.ndarray,
    mass: np.ndarray,
    Y: np.ndarray,
    scales: np.ndarray,
    linear: bool,
    lines: np.ndarray | None = None,
) -> Score:
    """The leave-one-out squared error of local fits with Gaussian weights."""
    weight = mass / mass.sum()

    def score(h: np.ndarray, with_slopes: bool) -> tuple[float, np.ndarray]:
        fits = LocalFits(X / h, mass, Y, linear, lines).at()
        careful = np.flatnonzero(fits.flat)
        near = Neighbourhoods(Gaussian(), Bandwidth(h), X, mass, lines)
        for rows, U, W in near.blocks(None, 4 * X.shape[1], careful):
            fits.value[careful[rows]] = local_linear(W, U, near.sites, Y)[0]
        value, v = squared_error(fits.value, Y, weight, scales)
        if not (with_slopes and np.isfinite(value)):
            return value, np.zeros(len(h))
        v_moments = np.where(fits.flat[:, None], 0.0, v)
        slopes = fits.slopes(v_moments)
        for rows, U, W in near.blocks(None, 8 * X.shape[1], careful):
            slopes += _careful_slopes(W, U, near, careful[rows], Y, v[careful[rows]])
        return value, slopes

    return score


def _careful_slopes(W, U, near, at, Y, v):
    """Σ_i v_i · ∂y(u_i)/∂ log h_k for local lines by QR: weights times D_k² times residuals."""
    V = near.sites
    value, slope = local_linear(W, U, V, Y)
    residuals = carried_targets(U, V, Y, slope) - value[:, None]
    along = linear_weights(W, U, V) * np.einsum("mnk,mk->mn", residuals, v)
    return np.einsum("mn,mnd->d", along, (near.V - near.V[at][:, None]) ** 2)


def has_slopes(kernel: SmoothingKernel) -> bool:
    """Whether a kernel is an expression of the distance that changes other than in steps."""
    r2 = statistic("sqdist")
    return isinstance(kernel, RadialKernel) and partial(kernel.profile(r2), r2) != ZERO


def expression_score(
    kernel: RadialKernel, X: np.ndarray, mass: np.ndarray, Y: np.ndarray, scales: np.ndarray
) -> Score:
    """The leave-one-out squared error of local means, for a kernel that is an expression."""
    weight, own = mass / mass.sum(), np.minimum(mass, 1)
    X, rate = X - np.median(X, axis=0), _rate(kernel)

    def score(h: np.ndarray, with_slopes: bool) -> tuple[float, np.ndarray]:
        view = View((Scale("h", tuple(h)),))
        pairs = PairMatrix(kernel.profile(statistic("sqdist", view)), X)
        columns = mass[:, None] * np.column_stack([np.ones(len(X)), Y])
        sums = pairs.products(columns, np.zeros((len(X), 0)))[0]
        peak = float(kernel.values(np.zeros(1))[0])
        sums -= peak * own[:, None] * np.column_stack([np.ones(len(X)), Y])
        reached = sums[:, 0] > REACHED * peak
        predicted = sums[:, 1:] / np.where(reached, sums[:, 0], 1.0)[:, None]
        # What is left of other rows is rounding: their weights are formed in the log domain.
        careful, near = np.flatnonzero(~reached), Neighbourhoods(kernel, Bandwidth(h), X, mass)
        for rows, _, W in near.blocks(None, 2, careful):
            predicted[careful[rows]] = W @ Y
        value, v = squared_error(predicted, Y, weight, scales)
        if not (with_slopes and np.isfinite(value)):
            return value, np.zeros(len(h))
        slopes = np.zeros(len(h))
        for rows, U, W in near.blocks(None, 2 * X.shape[1] + 4, careful):
            at = careful[rows]
            D2 = (near.V - U[:, None]) ** 2
            residuals = np.einsum("mnc,mc->mn", Y - predicted[at][:, None], v[at])
            slopes -= 2 * np.einsum("mn,mnd->d", W * residuals * rate(D2.sum(axis=2)), D2)
        v = np.where(reached[:, None], v / np.where(reached, sums[:, 0], 1.0)[:, None], 0.0)
        left = np.column_stack([v, -np.sum(v * predicted, axis=1)])
        right = mass[:, None] * np.column_stack([Y, np.ones(len(X))])
        return value, slopes + np.asarray(gradient(pairs, left, right)["h"]) * h

    return score


def _rate(kernel: RadialKernel) -> Callable[[np.ndarray], np.ndarray]:
    """The derivative of log k by r² as a function of r²; 0 where k is zero."""
    s = statistic("sqdist")
    log_profile, tiny = kernel.log_profile(s), np.finfo(float).tiny
    if log_profile is not None:
        slope = partial(log_profile, s)
        return lambda r2: evaluate(slope, lambda leaf: np.maximum(r2, tiny))
    profile, slope = kernel.profile(s), partial(kernel.profile(s), s)

    def rate(r2: np.ndarray) -> np.ndarray:
        k, change = (evaluate(e, lambda leaf: np.maximum(r2, tiny)) for e in (profile, slope))
        return np.divide(change, k, out=np.zeros_like(k), where=k > 0)

    return rate
