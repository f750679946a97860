"""Training points and targets of Gaussian processes: copies, joins, scales, and advice."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def variance_of(Y: np.ndarray) -> float:
    """The variance of the targets, the mean over them; 1 if there is none."""
    found = float(np.mean(np.var(Y, axis=0)))
    return found if found > 0 else max(float(np.mean(Y**2)), 1e-300) if Y.any() else 1.0


def check_count(y: np.ndarray, n_targets: int | None) -> None:
    """Raise an error if y has another number of targets than the parameter says."""
    seen = 1 if y.ndim == 1 else y.shape[1]
    if n_targets is not None and n_targets != seen:
        raise ValueError(
            "The number of targets seen in `y` is different from the parameter `n_targets`. "
            f"Got {seen} != {n_targets}."
        )


def normalised(y: np.ndarray, normalize: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The targets (n, t) less their mean over their standard deviation, and both."""
    mean, std = np.zeros(y.shape[1:] or 1), np.ones(y.shape[1:] or 1)
    if normalize:
        mean, spread = y.mean(axis=0), y.std(axis=0)
        negligible = spread <= 10 * np.finfo(np.float64).eps * np.abs(mean)
        std = np.where(negligible | (spread == 0), 1.0, spread)
    return ((y - mean) / std).reshape(len(y), -1), mean, std


def known_noise(alpha: Any, n: int) -> np.ndarray:
    """The known variance of the noise of each target, (n,)."""
    alpha = np.ravel(np.asarray(alpha, dtype=np.float64))
    if len(alpha) not in (1, n):
        raise ValueError(
            "alpha must be a scalar or an array with same number of entries as y. "
            f"({len(alpha)} != {n})"
        )
    if not np.all((alpha >= 0) & np.isfinite(alpha)):
        raise ValueError("alpha has entries that are negative or not finite")
    return np.broadcast_to(alpha, (n,)).copy()


def copied(X: Any) -> Any:
    """The points, in memory of their own; those of a memory map stay on the disk."""
    if _is_mapped(X):
        return X
    return X.copy() if hasattr(X, "copy") else list(X)


def _is_mapped(X: Any) -> bool:
    """Whether an array is a memory map or a view of one."""
    while isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
        X = X.base
    return isinstance(X, np.memmap)


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
