"""Weights of training points around a query, and the local fits made with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mercer.arrays import row_blocks
from mercer.estimators.smoothing.bandwidths import Bandwidth
from mercer.expressions.statistics import sqdist
from mercer.kernels.smoothing.densities import quiet_log
from mercer.kernels.smoothing.window import SmoothingKernel

# A local fit takes W (m, n), U (m, d), V (n, d), Y (n, k): the weights of training points v_n, with
# targets y_n, around queries u_i. It returns the value at each query, (m, k), and the slope there,
# (m, d, k), or None for a constant.
LocalFit = Callable[
    [np.ndarray, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]
]


# Coordinates this small compared with the others are rounding.
NOTHING = 1e-13


@dataclass(frozen=True)
class Neighbourhoods:
    """w_n(x) = a_n k(u - u_n) / Σ_m a_m k(u - u_m), u = R⁻¹ x: weights that sum to one.

    They are formed in the log domain, so a Gaussian far from all data still has weights (on the
    nearest point). Where a compact kernel reaches no point, the nearest points share the weight,
    which is the same rule taken to the limit.

    Attributes
    ----------
    kernel : SmoothingKernel
    bandwidth : Bandwidth
    X : ndarray of shape (n, d)
        Training points.
    mass : ndarray of shape (n,)
        a_n > 0, how many times each point counts.
    lines : ndarray of int or None
        Coordinates along which a local line may slope; all of them if None.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS
    >>> X = np.array([[0.0], [1.0]])
    >>> near = Neighbourhoods(
    ...     SMOOTHING_KERNELS["gaussian"], Bandwidth(np.array([0.1])), X, np.ones(2)
    ... )
    >>> [W for _, _, W in near.blocks(np.array([[0.5], [900.0]]))]
    [array([[0.5, 0.5],
           [0. , 1. ]])]
    """

    kernel: SmoothingKernel
    bandwidth: Bandwidth
    X: np.ndarray
    mass: np.ndarray
    lines: np.ndarray | None = None

    @property
    def V(self) -> np.ndarray:
        """Training points on the kernel's scale."""
        return self.bandwidth.shrink(self.X)

    @property
    def sites(self) -> np.ndarray:
        """Training points as local fits see them: their coordinates along ``lines``."""
        return self._along(self.V)

    def _along(self, points: np.ndarray) -> np.ndarray:
        return points if self.lines is None else points[:, self.lines]

    def blocks(
        self,
        X: np.ndarray | None = None,
        floats_per_pair: int = 2,
        chosen: np.ndarray | None = None,
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Rows, scaled queries along ``lines`` and weights (m, n), block by block.

        ``X=None`` stands for the training points, each without itself: one unit of its mass is
        taken away (all, where it has less), so that a point that counts twice weighs as two
        points would. A lone point gets NaN. Of the training points, ``chosen`` are asked for, or
        all. ``floats_per_pair`` is what the caller holds besides the weights.
        """
        V = self.V
        places = np.arange(len(V)) if chosen is None else chosen
        U = V[places] if X is None else self.bandwidth.shrink(X)
        per_pair = self.kernel.bytes_per_pair(V.shape[1]) + 8 * floats_per_pair
        for rows in row_blocks(len(U), len(V) * per_pair):
            mass = np.broadcast_to(self.mass, (len(U[rows]), len(V)))
            if X is None:
                mass = mass.copy()
                own = np.arange(len(U[rows])), places[rows]
                mass[own] -= np.minimum(mass[own], 1)
            yield rows, self._along(U[rows]), self._weights(U[rows], V, mass)

    def _weights(self, U: np.ndarray, V: np.ndarray, mass: np.ndarray) -> np.ndarray:
        W = self.kernel.log_pairs(U, V)
        W += quiet_log(mass)
        peak = W.max(axis=1, keepdims=True)
        alone = ~np.isfinite(peak[:, 0])
        W -= np.where(np.isfinite(peak), peak, 0)
        np.exp(W, out=W)
        if alone.any():
            W[alone] = _nearest(U[alone], V, mass[alone])
        with np.errstate(invalid="ignore"):
            W /= W.sum(axis=1, keepdims=True)
        return W


def _nearest(U: np.ndarray, V: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The mass of the nearest points, zero elsewhere."""
    distances = np.where(mass > 0, sqdist(U, V), np.inf)
    return np.where(distances == distances.min(axis=1, keepdims=True), mass, 0.0)


def local_constant(W, U, V, Y):
    """y(x) = Σ w_n(x) y_n, the local fit of Nadaraya and Watson."""
    return W @ Y, None


def local_linear(W, U, V, Y):
    """a of the weighted least squares fit min Σ w_n (y_n - a - bᵀ(u_n - u))², with slope b.

    About weighted means the slope solves a least squares problem of its own, done by QR with one
    small SVD. In directions where the points in reach do not spread, the slope is zero, so that a
    singular design falls back to the local constant.
    """
    design, offset, unit = _centred_design(W, U, V)
    mean = W @ Y
    root = np.sqrt(W)[:, :, None]
    d = U.shape[1]
    if d > len(V):
        slope = _wide_slope(root * design, root * (Y - mean[:, None, :]))
    else:
        stacked = np.concatenate([root * design, root * (Y - mean[:, None, :])], axis=2)
        R = np.asarray(np.linalg.qr(stacked, mode="r"))
        P, s, Qt = np.linalg.svd(R[:, :d, :d], full_matrices=False)
        projected = np.swapaxes(P, 1, 2) @ R[:, :d, d:]
        slope = np.swapaxes(Qt, 1, 2) @ (_inverse_spread(s)[:, :, None] * projected)
    return mean - np.einsum("md,mdk->mk", offset, slope), slope / unit[:, :, None]


def _wide_slope(design, targets):
    """The slope of minimum norm for more features than points, by QR of the transposed design."""
    Q, R = np.linalg.qr(np.swapaxes(design, 1, 2))
    P, s, Qt = np.linalg.svd(np.swapaxes(R, 1, 2))
    projected = np.swapaxes(P, 1, 2) @ targets
    return Q @ (np.swapaxes(Qt, 1, 2) @ (_inverse_spread(s)[:, :, None] * projected))


def linear_weights(W, U, V):
    """l_n(x) with y(x) = Σ l_n(x) y_n the local linear fit; rows sum to one, entries may be < 0."""
    design, offset, _ = _centred_design(W, U, V)
    root = np.sqrt(W)
    Q, R = np.linalg.qr(root[:, :, None] * design)
    P, s, Qt = np.linalg.svd(R, full_matrices=False)
    along = np.einsum("mrd,md->mr", Qt, offset) * _inverse_spread(s)
    tilt = root * np.einsum("mna,mar,mr->mn", Q, P, along, optimize=True)
    # Centred columns are orthogonal to the roots of the weights, but for rounding.
    return W * (1 + tilt.sum(axis=1, keepdims=True)) - tilt


def _centred_design(W, U, V):
    """u_n - ū(x) of shape (m, n, d), and ū(x) - u of shape (m, d), ū the weighted mean.

    Both are in ``unit: (m, d)``, the size of each coordinate, so that a feature of a large
    bandwidth, along which points hardly move, is none without spread.
    """
    # About the heaviest point first: where it has nearly all the weight, the mean is next to it,
    # and their difference would be lost in distances from the query.
    heaviest = V[W.argmax(axis=1)]
    design = V - heaviest[:, None, :]
    mean = np.einsum("mn,mnd->md", W, design)
    design -= mean[:, None, :]
    offset = heaviest - U + mean
    unit = coordinate_units(np.einsum("mn,mnd->md", W, design**2) + offset**2)
    return design / unit[:, None], offset / unit, unit


def coordinate_units(squares: np.ndarray) -> np.ndarray:
    """Roots of mean squares, (m, d); infinite where they are rounding compared with the others."""
    return np.where(
        squares > NOTHING**2 * squares.sum(axis=1, keepdims=True), np.sqrt(squares), np.inf
    )


def _inverse_spread(s):
    """1/s, and 0 where s is so small compared with the unit that half its digits are lost."""
    spread = s > np.sqrt(np.finfo(float).eps)
    return np.divide(1.0, s, out=np.zeros_like(s), where=spread)


def carried_targets(
    U: np.ndarray, V: np.ndarray, Y: np.ndarray, slope: np.ndarray | None
) -> np.ndarray:
    """Targets moved along the local slope to each query, (m, n, k); (1, n, k) for a constant."""
    if slope is None:
        return Y[None]
    return Y - np.einsum("mnd,mdk->mnk", V - U[:, None, :], slope)


def leave_one_out(
    neighbourhoods: Neighbourhoods,
    Y: np.ndarray,
    local_fit: LocalFit,
    chosen: np.ndarray | None = None,
) -> np.ndarray:
    """What training points, all or those chosen, are predicted to be by the others, (m, k).

    NaN for a lone point.
    """
    V = neighbourhoods.sites
    out = np.empty((len(Y) if chosen is None else len(chosen), Y.shape[1]))
    for rows, U, W in neighbourhoods.blocks(None, 3 * (V.shape[1] + Y.shape[1]), chosen):
        alone = np.isnan(W[:, 0])
        W[alone] = 0
        out[rows] = local_fit(W, U, V, Y)[0]
        out[rows][alone] = np.nan
    return out
