"""Data for the tests of kernel ridge."""

from __future__ import annotations

import numpy as np


def data(n=40, d=3, targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.sin(X @ rng.normal(size=(d, targets))) + 0.1 * rng.normal(size=(n, targets))
    return X, (Y[:, 0] if targets == 1 else Y)
