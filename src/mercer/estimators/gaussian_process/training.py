"""Training points and targets of Gaussian processes: copies, joins, scales, and advice."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def variance_of(Y: np.ndarray) -> float:
    """The variance of the targets, the mean over them; 1 if there is none."""
    found = float(np.mean(np.var(Y, axis=0)))
    return found if found > 0 else max(float(np.mean(Y**2)), 1e-300) if Y.any() else 1.0


def copied(X: Any) -> Any:
    """The points, in memory of their own."""
    return X.copy() if hasattr(X, "copy") else list(X)


def joined(X: Any, more: Any) -> Any:
    """The points of both, in the form of X."""
    if sp.issparse(X):
        return sp.vstack([X, more], format="csr")
    if hasattr(X, "iloc"):
        import pandas as pd  # only where X is of pandas

        return pd.concat([X, more])
    if hasattr(X, "shape"):
        return np.concatenate([X, more])
    return [*X, *more]


def singular_advice(kernel: Any, X: Any) -> str:
    """What to do about a covariance that is not positive definite."""
    words = (
        f"The kernel, {kernel}, is not returning a positive definite matrix. Try gradually "
        "increasing the 'alpha' parameter of your GaussianProcessRegressor estimator."
    )
    if isinstance(X, np.ndarray) and X.ndim == 2:
        distinct = len(np.unique(X, axis=0))
        if distinct < len(X):
            words += (
                f" X has {len(X) - distinct} rows that repeat others, which no function without "
                "noise can tell apart; noise='learn' learns the variance of the noise."
            )
    return words
