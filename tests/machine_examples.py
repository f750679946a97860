"""Small data that kernel machines are tried on."""

from __future__ import annotations

import numpy as np


def regression(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_t(3, size=n)


def classes(n=60, k=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.normal(size=(n, 2)) + 1.5 * np.column_stack([np.cos(2 * y), np.sin(2 * y)]), y
