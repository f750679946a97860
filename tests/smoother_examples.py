"""Data and slow formulas for the smoothers."""

from __future__ import annotations

import numpy as np

from mercer.estimators.smoothing.smoothers import (
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
)

REGRESSORS = [NadarayaWatsonRegressor, LocalLinearRegressor]
EVERY = [*REGRESSORS, NadarayaWatsonClassifier]


def waves(n=50, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    return X, np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=n)


def slow_kernel(X, Z, h, name="gaussian"):
    """k((z - x_n)/h), one pair at a time, without the constant."""
    profile = {
        "gaussian": lambda r: np.exp(-(r**2) / 2),
        "epanechnikov": lambda r: max(0.0, 1 - r**2),
        "exponential": lambda r: np.exp(-r),
    }[name]
    return np.array([[profile(np.linalg.norm((z - x) / h)) for x in X] for z in Z])
