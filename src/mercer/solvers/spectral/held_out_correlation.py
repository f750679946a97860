"""Canonical correlation of held-out points, exact and without refitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg

from mercer.arrays import product, row_blocks
from mercer.solvers.spectral.canonical import WhitenedView, products_of_views, split_by_view


def leave_one_out_correlation(views: Sequence[WhitenedView], penalties: Sequence[float]) -> float:
    """Correlation of first canonical variates, each point's predicted from all the others.

    Removing point i, with whitened rows e_v = B_v[i] and g = n / (n - 1), changes the pencil
    (N, I) of the whitened problem to

        N - g E 1 1^T E^T,    I - g E E^T,    E = [e_1 ... e_m] (block columns),

    so the largest eigenvalue mu without point i is the largest at which the m-by-m matrix
    T(mu) = (g H)^-1 - E^T (N - mu)^-1 E is singular, H = 1 1^T - mu. Its null vector y gives the
    direction (N - mu)^-1 E y. One eigendecomposition therefore serves all n points exactly. The
    penalties are held at their values for all points.

    Parameters
    ----------
    views : sequence of WhitenedView
        At least two, over the same n >= 3 points.
    penalties : sequence of float
        c_v > 0, one per view.

    Returns
    -------
    float
        Mean over pairs of views of sum_i z_vi z_wi / (|z_v| |z_w|), z_vi the variate of point i
        under the fit without it, centred by the mean of the others.

    References
    ----------
    Leurgans, Moyeed, Silverman, "Canonical correlation analysis when the data are curves",
    JRSS B 55 (1993), for the criterion.
    """
    whitened = [view.whitened(c) for view, c in zip(views, penalties, strict=True)]
    nu, vectors = _all_eigenpairs(whitened)
    parts = split_by_view(vectors, whitened)
    g = len(whitened[0]) / (len(whitened[0]) - 1)
    scores = []
    for rows in row_blocks(len(whitened[0]), bytes_per_row=8 * (len(views) + 3) * len(nu)):
        # E: (rows, m, R), the points' whitened rows in the eigenbasis of N.
        E = np.stack([product(B[rows], V) for B, V in zip(whitened, parts, strict=True)], axis=1)
        scores.append(_held_out_variates(_largest_roots(nu, E, g), nu, E, g, parts))
    return _mean_cosine(np.vstack(scores))


def _all_eigenpairs(whitened: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Every eigenpair of N; for two views 1 +- s from the singular values s."""
    if len(whitened) != 2:
        nu, vectors = scipy.linalg.eigh(products_of_views(whitened))
        return nu, vectors
    P, s, Qt = scipy.linalg.svd(products_of_views(whitened), full_matrices=True)
    k, Q = len(s), Qt.T
    half = np.sqrt(0.5)
    upper = np.hstack([P[:, :k] * half, P[:, :k] * half, P[:, k:], np.zeros((len(P), len(Q) - k))])
    lower = np.hstack([Q[:, :k] * half, -Q[:, :k] * half, np.zeros((len(Q), len(P) - k)), Q[:, k:]])
    nu = np.concatenate([1.0 + s, 1.0 - s, np.ones(len(P) + len(Q) - 2 * k)])
    return nu, np.vstack([upper, lower])


def _secular(mu: np.ndarray, nu: np.ndarray, E: np.ndarray, g: float) -> np.ndarray:
    """T(mu_i) for every point i, shape (n, m, m)."""
    m = E.shape[1]
    resolvent = 1.0 / _away_from_zero(nu - mu[:, None])
    inner = (E * resolvent[:, None]) @ E.transpose(0, 2, 1)
    inverse_H = 1.0 / (mu * _away_from_zero(m - mu))[:, None, None] - np.eye(m) / mu[:, None, None]
    return inverse_H / g - inner


def _away_from_zero(x: np.ndarray) -> np.ndarray:
    """x, a fresh difference of numbers near one, with zeros moved to half their rounding."""
    x[x == 0.0] = np.finfo(float).epsneg
    return x


def _largest_roots(nu: np.ndarray, E: np.ndarray, g: float) -> np.ndarray:
    """Bisection on the number of eigenvalues above mu, which Sylvester's law of inertia counts.

    Exactly one eigenvalue of H is positive for 1 < mu < m, hence the -1.
    """
    n, m, _ = E.shape
    low, high = np.ones(n), np.full(n, float(m))
    for _ in range(44):
        mu = (low + high) / 2
        positive = (np.linalg.eigvalsh(_secular(mu, nu, E, g)) > 0).sum(axis=1)
        above = (nu > mu[:, None]).sum(axis=1) + positive - 1
        low, high = np.where(above > 0, mu, low), np.where(above > 0, high, mu)
    return (low + high) / 2


def _nearest_zero(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each symmetric matrix the eigenvalue of least size, and its eigenvector."""
    values, vectors = np.linalg.eigh(T)
    least = np.abs(values).argmin(axis=1)[:, None]
    value = np.take_along_axis(values, least, axis=1)[:, 0]
    return value, np.take_along_axis(vectors, least[:, None], axis=2)[:, :, 0]


def _held_out_variates(
    mu: np.ndarray, nu: np.ndarray, E: np.ndarray, g: float, parts: list[np.ndarray]
) -> np.ndarray:
    """z_vi, shape (n, m), with each direction scaled to unit regularised variance."""
    remainder, y = _nearest_zero(_secular(mu, nu, E, g))
    direction = np.einsum("nvr,nv->nr", E, y) / _away_from_zero(nu - mu[:, None])
    size = np.maximum(np.linalg.norm(direction, axis=1), np.finfo(float).tiny)
    direction /= size[:, None]
    scores = np.einsum("nvr,nr->nv", E, direction)
    # remainder / size^2 is a Newton step, near zero at a root. Where it is not, mu is a pole of
    # T: the direction stayed as it was, since the point lies at zero along it.
    scores[np.abs(remainder) > 1e-10 * size**2] = 0.0
    for v, V in enumerate(parts):
        size = np.sum((direction @ V.T) ** 2, axis=1) - g * scores[:, v] ** 2
        scores[:, v] /= np.sqrt(np.maximum(size, np.finfo(float).eps))
    return scores


def _mean_cosine(scores: np.ndarray) -> float:
    norms = np.linalg.norm(scores, axis=0)
    cosines = scores.T @ scores / np.maximum(np.outer(norms, norms), np.finfo(float).tiny)
    m = scores.shape[1]
    return float(cosines[np.triu_indices(m, k=1)].mean())
