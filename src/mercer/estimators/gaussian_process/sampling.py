"""Samples of normal vectors."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh


def gaussian_samples(
    mean: np.ndarray, cov: np.ndarray, n_samples: int, rng: np.random.RandomState
) -> np.ndarray:
    """Draws from N(mean, cov): (m, n_samples), or (m, t, n_samples) for t independent targets.

    Parameters
    ----------
    mean : (m,) or (m, t) array
    cov : (m, m) or (m, m, t) array
    n_samples : int
    rng : RandomState
    """
    if mean.ndim == 1:
        return mean[:, None] + _root(cov) @ rng.standard_normal((len(mean), n_samples))
    parts = [
        gaussian_samples(mean[:, j], cov[..., j], n_samples, rng) for j in range(mean.shape[1])
    ]
    return np.stack(parts, axis=1)


def _root(cov: np.ndarray) -> np.ndarray:
    """R with R R^T = cov, whose negative eigenvalues, from rounding, count as zero."""
    values, vectors = eigh(cov, check_finite=False)
    return vectors * np.sqrt(np.maximum(values, 0.0))
