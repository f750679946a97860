"""Bandwidths: what h or H does to the data, normal-reference rules, and leave-one-out search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.linalg import cholesky
from scipy.optimize import minimize, minimize_scalar

from mercer.arrays import backend, to_device_of

# Multipliers tried by the leave-one-out search, as powers of two, and how far down it may go on.
COARSE_POWERS, LOWEST_POWER, HIGHEST_POWER = range(-8, 6), -30, 14
# Points from which a search with slopes descends.
STARTS = 3
# Features up to which each has a bandwidth of its own. A descent with slopes evaluates the error
# some 2 d + 200 times, one without them some 50 d times; beyond, one common factor takes about 30.
FEATURES_WITH_SLOPES, FEATURES_WITHOUT_SLOPES = 100, 20
# Evaluations after which the search without slopes ends.
MOST_EVALUATIONS = 50 * FEATURES_WITHOUT_SLOPES


@dataclass(frozen=True)
class Bandwidth:
    """The linear map u = R⁻¹ x that brings data to the kernel's own scale.

    Attributes
    ----------
    root : ndarray of shape (d,) or (d, d)
        Bandwidths h, one for each feature, or the lower Cholesky factor R of the matrix H = R Rᵀ.

    Examples
    --------
    >>> import numpy as np
    >>> Bandwidth(np.array([2.0, 4.0])).shrink(np.array([[2.0, 2.0]]))
    array([[1. , 0.5]])
    """

    root: np.ndarray

    @property
    def is_matrix(self) -> bool:
        return self.root.ndim == 2

    @property
    def log_volume(self) -> float:
        """log |det R|, the volume by which densities are divided."""
        return float(np.log(np.diag(self.root) if self.is_matrix else self.root).sum())

    def shrink(self, X: np.ndarray) -> np.ndarray:
        """R⁻¹ x for each row x, of an array or a tensor."""
        if self.is_matrix:
            return backend(X).solve_rows(self.root, X)
        return X / to_device_of(self.root, X)

    def stretch(self, U: np.ndarray) -> np.ndarray:
        """R u for each row u."""
        return U @ self.root.T if self.is_matrix else U * self.root


def resolve_bandwidth(bandwidth: Any, d: int, name: str = "bandwidth") -> Bandwidth:
    """The map that a number h, a vector of h or a matrix H stands for, in R^d.

    Parameters
    ----------
    bandwidth : float, array-like of shape (d,) or (d, d)
        h > 0; one h > 0 for each feature; or a symmetric positive definite H, whose diagonal
        holds squares: H = h² I is the number h.
    d : int
        Number of features.
    name : str
        The parameter's name, for messages.

    Examples
    --------
    >>> resolve_bandwidth(0.5, 2).root
    array([0.5, 0.5])
    >>> resolve_bandwidth([[0.25, 0.0], [0.0, 4.0]], 2).root
    array([[0.5, 0. ],
           [0. , 2. ]])
    """
    if isinstance(bandwidth, Real):
        bandwidth = np.full(d, float(bandwidth))
    try:
        values = np.asarray(bandwidth, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}={bandwidth!r} is not numeric; expected a number, {d} numbers (one for each "
            f"feature) or a {d} x {d} matrix"
        ) from error
    if values.shape not in ((d,), (d, d)):
        raise ValueError(
            f"{name} has shape {values.shape}; expected a number, {d} numbers (one for each "
            f"feature) or a {d} x {d} matrix"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite; found {values[~np.isfinite(values)][0]}")
    if values.ndim == 2:
        return Bandwidth(_cholesky_root(values, name))
    if values.min() <= 0:
        raise ValueError(f"{name} must be positive; found {values.min()}")
    return Bandwidth(values)


def _cholesky_root(H: np.ndarray, name: str) -> np.ndarray:
    if not np.allclose(H, H.T, rtol=1e-10, atol=0):
        raise ValueError(f"{name} must be a symmetric matrix; symmetrise it as (H + H.T) / 2")
    try:
        return np.asarray(cholesky(H, lower=True))
    except np.linalg.LinAlgError as error:
        smallest = np.linalg.eigvalsh(H)[0]
        raise ValueError(
            f"{name} must be a positive definite matrix; its smallest eigenvalue is {smallest:.3g}"
        ) from error


def simplest_form(bandwidth: np.ndarray) -> float | np.ndarray:
    """One bandwidth as a number, more as an array."""
    return float(bandwidth[0]) if bandwidth.shape == (1,) else bandwidth


def feature_scales(X: np.ndarray, sample_weight: np.ndarray, ddof: int = 1) -> np.ndarray:
    """Weighted standard deviation of each column of ``X: (n, d)``; exactly 0 where constant.

    With ``ddof=1`` the variance is divided by 1 - Σ p², p the normalised weights, which is the
    usual (n - 1)/n when weights are equal.
    """
    p = sample_weight / sample_weight.sum()
    shifted = X - X[0]  # a constant column is now exactly zero, and so is its mean
    unit = np.abs(shifted).max(axis=0)  # whose square may be beyond all numbers
    shifted = np.divide(shifted, unit, out=shifted, where=unit > 0)
    variance = p @ (shifted - p @ shifted) ** 2
    if ddof:
        spare = 1 - p @ p
        variance = variance / spare if spare > 0 else np.zeros_like(variance)
    scales = unit * np.sqrt(variance)
    # Values that differ in their last digits only are as good as constant.
    scales[scales <= 8 * np.finfo(float).eps * np.abs(X).max(axis=0)] = 0.0
    return scales


def normal_reference(
    X: np.ndarray, rule: str, sample_weight: np.ndarray, variance: float = 1.0
) -> np.ndarray:
    """Scott's or Silverman's bandwidths, one for each feature.

    h_j = c σ_j n^(-1/(d+4)) / s, with c = 1 for Scott and (4/(d+2))^(1/(d+4)) for Silverman,
    σ_j the standard deviation of feature j, n = (Σw)²/Σw² the effective number of points, and s
    the standard deviation of one coordinate of the kernel, so that kernels of any shape smooth
    alike (s = 1 for the Gaussian). A constant feature gets 0.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    rule : {"scott", "silverman"}
    sample_weight : ndarray of shape (n,)
    variance : float
        s², the kernel's variance along one coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(5.0)[:, None]
    >>> normal_reference(X, "scott", np.ones(5)).round(4)
    array([1.146])
    >>> normal_reference(1000 * X, "scott", np.ones(5)).round(1)
    array([1146.])

    References
    ----------
    D. W. Scott, Multivariate Density Estimation (1992), section 6.3.2;
    B. W. Silverman, Density Estimation (1986), section 4.3.2.
    """
    d = X.shape[1]
    p = sample_weight / sample_weight.sum()
    factor = (p @ p) ** (1 / (d + 4))
    if rule == "silverman":
        factor *= (4 / (d + 2)) ** (1 / (d + 4))
    return factor * feature_scales(X, sample_weight) / np.sqrt(variance)


def loo_bandwidth(
    error: Callable[[np.ndarray], float], start: np.ndarray, per_feature: bool = False
) -> tuple[np.ndarray, dict[str, Any]]:
    """Bandwidths that make a leave-one-out error smallest.

    One multiplier of ``start`` is sought over powers of two, going on downwards while that helps,
    then refined between its neighbours; equal errors go to the multiplier nearest to one. With
    ``per_feature`` and at most FEATURES_WITHOUT_SLOPES features each bandwidth is then moved on its
    own by Powell's method.

    Parameters
    ----------
    error : callable
        The leave-one-out error as a function of bandwidths, ``(d,) -> float``.
    start : ndarray of shape (d,)
        Bandwidths to start from, on the data's own scale.
    per_feature : bool
        Whether to refine each feature's bandwidth.

    Returns
    -------
    h : ndarray of shape (d,)
    curve : dict
        ``factor``, the common multiples tried, in order, their ``score``, and whether the search
        went on ``per_feature``.

    Examples
    --------
    >>> import numpy as np
    >>> loo_bandwidth(lambda h: np.log(h[0] / 3) ** 2, np.array([1.0]))[0].round(1)
    array([3.])
    """

    def at(powers) -> float:
        value = error(start * np.exp2(powers))
        return value if np.isfinite(value) else np.inf

    errors = _refined(at, _tried(at, COARSE_POWERS, LOWEST_POWER))
    power, d = _first_smallest(errors), len(start)
    per_feature = per_feature and 1 < d <= FEATURES_WITHOUT_SLOPES
    curve = _curve(errors, per_feature)
    if not per_feature:
        return start * np.exp2(power), curve
    powers = np.full(len(start), float(power))
    powell: Any = minimize(
        at,
        powers,
        method="Powell",
        bounds=[(power - 6, power + 10)] * len(start),
        options={"xtol": 0.02, "ftol": 1e-4, "maxfev": MOST_EVALUATIONS},
    )
    return start * np.exp2(powell.x if powell.fun < errors[power] else powers), curve


def log_search(
    score: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    powers: Iterable[int] = COARSE_POWERS,
    lowest: float = LOWEST_POWER,
    highest: float = HIGHEST_POWER,
    starts: int = STARTS,
    value: Callable[[np.ndarray], float] | None = None,
    rtol: float = 1e-9,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Bandwidths, one for each feature, that make a score with known slopes smallest.

    Multiples of ``start`` by powers of two are tried first, then, with several features, points
    where one of them does not count or alone counts. From the best of these descent goes on in the
    logarithms by L-BFGS: bandwidths cannot become negative. Of more than FEATURES_WITH_SLOPES
    features the common multiple alone is refined.

    Parameters
    ----------
    score : callable
        ``h: (d,) -> (value, derivatives by log h)``.
    start : ndarray of shape (d,)
        Bandwidths on the data's own scale.
    powers : iterable of int
        The powers of two that are tried.
    lowest, highest : float
        How far each bandwidth may go, as powers of two.
    starts : int
        How many points to descend from, at most.
    value : callable, optional
        The score alone, where that is cheaper.
    rtol : float
        Descent ends where a step gains less than this part of the score.

    Returns
    -------
    h : ndarray of shape (d,)
    curve : dict
        As of `loo_bandwidth`.

    Examples
    --------
    >>> import numpy as np
    >>> def score(h):
    ...     t = np.log(h / [3.0, 0.1])
    ...     return t @ t, 2 * t
    >>> log_search(score, np.ones(2))[0].round(3)
    array([3. , 0.1])
    """
    d, two = len(start), np.log(2)

    def at(t: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = score(start * np.exp2(t))
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return np.inf, np.zeros(d)
        return value, slope * two

    def alone(t: float | np.ndarray) -> float:
        found = at(np.full(d, t))[0] if value is None else value(start * np.exp2(t))
        return found if np.isfinite(found) else np.inf

    tried = _tried(alone, powers, lowest)
    if d > FEATURES_WITH_SLOPES:
        tried = _refined(alone, tried)
        return start * np.exp2(_first_smallest(tried)), _curve(tried, per_feature=False)
    best = _first_smallest(tried)
    order = sorted(tried)
    values = [np.inf, *(tried[power] for power in order), np.inf]
    minima = [
        power
        for power, *three in zip(order, values, values[1:], values[2:], strict=False)
        if three[1] <= min(three[0], three[2]) and np.isfinite(three[1])
    ]
    begin = [(tried[power], np.full(d, power)) for power in minima]
    if d > 1 and np.isfinite(tried[best]):
        wide = min(highest, best + 6.0)
        for row in np.eye(d, dtype=bool):  # one feature that does not count, or that alone does
            for t in (np.where(row, wide, best - 0.5), np.where(row, best - 1.0, wide)):
                begin.append((alone(t), t))
    begin = [t for _, t in sorted(begin, key=lambda pair: pair[0])]
    found, least = np.full(d, best), tried[best]
    slack = 1e-9 * abs(least) + 1e-16 if np.isfinite(least) else 0.0
    for t in begin[:starts] if np.isfinite(least) else []:
        descent = minimize(
            at,
            np.clip(t, lowest, highest),
            jac=True,
            method="L-BFGS-B",
            bounds=[(lowest, highest)] * d,
            options={"maxiter": 60, "ftol": rtol, "gtol": 1e-6 * max(abs(least), 1e-12)},
        )
        if descent.fun < least - slack:
            found, least = descent.x, descent.fun
    return start * np.exp2(found), _curve(tried, per_feature=d > 1)


def _tried(
    at: Callable[[float], float], powers: Iterable[int], lowest: float
) -> dict[float, float]:
    """Errors at powers of two, and on downwards while that helps."""
    tried = {float(power): at(float(power)) for power in sorted(powers, key=abs)}
    while len(tried) > 1 and (best := _first_smallest(tried)) == min(tried) and best > lowest:
        tried[best - 1] = at(best - 1)
    return tried


def _refined(at: Callable[[float], float], tried: dict[float, float]) -> dict[float, float]:
    """The errors tried, and the smallest one between the neighbours of the best power."""
    best = _first_smallest(tried)
    fine: Any = minimize_scalar(
        at, bounds=(best - 1, best + 1), method="bounded", options={"xatol": 0.01}
    )
    return {**tried, fine.x: fine.fun}


def _curve(tried: dict[float, float], per_feature: bool) -> dict[str, Any]:
    order = sorted(tried)
    scores = np.array([tried[power] for power in order])
    return {"factor": np.exp2(order), "score": scores, "per_feature": per_feature}


def _first_smallest(errors: dict[float, float]) -> float:
    """The first key whose value is the smallest, up to rounding."""
    least = min(errors.values())
    slack = 1e-9 * abs(least) + 1e-16 if np.isfinite(least) else 0.0
    return next(key for key, value in errors.items() if value <= least + slack)
