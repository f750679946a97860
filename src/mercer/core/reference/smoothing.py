"""Gaussian sums around points, and linear binning: the NumPy twin of smoothing.hpp.

Points come on the kernel's own scale, so that k(u) = exp(-‖u‖²/2). Throughout, ``U: (n, d)`` are
queries, ``V: (m, d)`` points, ``log_weight: (m,)`` the logarithms of their weights w_j. ``own``,
where it is given, says that U and V are the same points and what log weight each has in its own
row: -inf leaves it out. ``threads`` is accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

PAIRS_AT_ONCE = 2**19


def _exponents(
    U: np.ndarray, V: np.ndarray, log_weight: np.ndarray, own: np.ndarray | None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Rows, and log w_j - ‖u_i - v_j‖²/2 for them."""
    step = max(1, PAIRS_AT_ONCE // len(V))
    for start in range(0, len(U), step):
        rows = slice(start, min(start + step, len(U)))
        y = np.broadcast_to(log_weight, (rows.stop - start, len(V))).copy()
        for u, v in zip(U[rows].T, V.T, strict=True):
            y -= 0.5 * (u[:, None] - v) ** 2
        if own is not None:
            i = np.arange(rows.stop - start)
            y[i, start + i] = own[rows]
        yield rows, y


def _log_total(y: np.ndarray) -> np.ndarray:
    top = y.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(y - top[:, None]).sum(axis=1))


def log_sums(
    U: np.ndarray, V: np.ndarray, log_weight: np.ndarray, own: np.ndarray | None, threads: int
) -> np.ndarray:
    """log Σ_j w_j k(u_i - v_j), shape (n,)."""
    return np.concatenate([_log_total(y) for _, y in _exponents(U, V, log_weight, own)])


def local_moments(
    U: np.ndarray,
    V: np.ndarray,
    log_weight: np.ndarray,
    own: np.ndarray | None,
    Y: np.ndarray,
    linear: bool,
    threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The log sums, and means with weights p_ij ∝ w_j k(u_i - v_j); NaN where all are zero.

    Means of the targets ``Y: (m, c)``; if ``linear``, those of D = v_j - u_i (d of them), then of
    D_k D_l for l <= k (row by row of the triangle), then of D_k y_c (c for each k).
    """
    d = U.shape[1]
    log_sum, means = np.empty(len(U)), []
    lower = np.tril_indices(d)
    for rows, y in _exponents(U, V, log_weight, own):
        log_sum[rows] = _log_total(y)
        with np.errstate(invalid="ignore"):
            P = np.exp(y - log_sum[rows, None])
        parts = [P @ Y]
        if linear:
            D = V - U[rows, None]
            PD = P[:, :, None] * D
            second = np.einsum("ijk,ijl->ikl", PD, D)[:, *lower]
            crossed = np.einsum("ijk,jc->ikc", PD, Y).reshape(len(P), -1)
            parts += [PD.sum(axis=1), second, crossed]
        means.append(np.hstack(parts))
    return log_sum, np.concatenate(means)


def local_slopes(
    U: np.ndarray,
    V: np.ndarray,
    log_weight: np.ndarray,
    own: np.ndarray | None,
    Y: np.ndarray,
    log_sum: np.ndarray,
    g: np.ndarray,
    v: np.ndarray,
    b: np.ndarray,
    threads: int,
) -> np.ndarray:
    """Σ_j p_ij D_k² (g_i0 + g_i·D) (v_i·y_j - b_i0 - b_i·D) for each k, shape (n, d).

    D = v_j - u_i and p_ij = w_j k(u_i - v_j) / exp(log_sum_i): how local fits move with the
    bandwidths. g and b are (n, 1 + d), or (n, 1) without slopes; v is (n, c). Rows without weight
    give zero.
    """
    out = np.zeros(U.shape)
    for rows, y in _exponents(U, V, log_weight, own):
        reached = np.isfinite(log_sum[rows])
        top = np.where(reached, log_sum[rows], 0.0)
        P = np.exp(y - top[:, None]) * reached[:, None]
        D = V - U[rows, None]
        left, right = g[rows, :1], v[rows] @ Y.T - b[rows, :1]
        if g.shape[1] > 1:
            left = left + np.einsum("ijk,ik->ij", D, g[rows, 1:])
            right = right - np.einsum("ijk,ik->ij", D, b[rows, 1:])
        out[rows] = np.einsum("ij,ijk->ik", P * left * right, D**2)
    return out


def bin_linear(
    X: np.ndarray,
    weight: np.ndarray | None,
    low: np.ndarray,
    step: np.ndarray,
    shape: np.ndarray,
) -> np.ndarray:
    """Weights shared out linearly among the corners of grid cells, as a flat array in C order."""
    at = np.clip((X - low) / step, 0, shape - 1)
    cell = np.minimum(at.astype(np.int64), shape - 2)
    part = at - cell
    grid = np.zeros(int(np.prod(shape)))
    for corner in np.ndindex(*(2,) * len(shape)):
        share = np.prod(np.where(corner, part, 1 - part), axis=1)
        index = np.ravel_multi_index(tuple((cell + corner).T), tuple(shape))
        grid += np.bincount(index, share if weight is None else weight * share, minlength=len(grid))
    return grid
