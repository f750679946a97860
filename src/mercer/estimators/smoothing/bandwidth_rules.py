"""Bandwidths from the data: Improved Sheather-Jones, cross-validation, and a plug-in matrix.

All are for the Gaussian kernel, and follow the data: scaled by 1000, they give 1000 times as much.
``weight: (n,)`` are positive weights of the points that sum to one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.fft import dct
from scipy.optimize import brentq

from mercer import core
from mercer.arrays import row_major
from mercer.estimators.smoothing.bandwidths import feature_scales, log_search, normal_reference
from mercer.estimators.smoothing.plugin_bandwidth import plugin_matrix

RULES = ("scott", "silverman", "isj", "mlcv", "lscv", "plugin")
# Bins and stages of Botev's method.
BINS, STAGES = 2**12, 7
# Cross-validation looks at multiples of the normal reference, as powers of two.
POWERS, LOWEST, HIGHEST = range(-5, 3), -9.0, 4.0


def refuse_degenerate(X: np.ndarray, weight: np.ndarray, rule: str) -> None:
    """Raise a ValueError that names the cause where data have no spread to go by."""
    with np.errstate(over="ignore", invalid="ignore"):
        scales = feature_scales(X, weight)
    if not np.isfinite(scales).all():
        column = int(np.flatnonzero(~np.isfinite(scales))[0])
        raise ValueError(
            f"bandwidth={rule!r} is a multiple of each feature's spread, and that of column "
            f"{column} of X is beyond the largest number; give X in larger units"
        )
    if scales.all():
        return
    column = int(np.flatnonzero(scales == 0)[0])
    cause = "there is one point" if len(X) == 1 else f"all {len(X)} values are equal"
    raise ValueError(
        f"bandwidth={rule!r} is a multiple of each feature's spread, and column {column} of X has "
        f"none: {cause}; drop the column, or give bandwidths as numbers"
    )


def rule_bandwidth(
    rule: str, X: np.ndarray, weight: np.ndarray, variance: float = 1.0
) -> tuple[np.ndarray, dict[str, Any] | None]:
    """Bandwidths (d,), or a matrix (d, d), by the rule of this name; and what a search has tried.

    Parameters
    ----------
    rule : one of ``RULES``
    X : ndarray of shape (n, d)
    weight : ndarray of shape (n,)
    variance : float
        Of the kernel along one coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> rule_bandwidth("scott", np.arange(5.0)[:, None], np.full(5, 0.2))[0].round(4)
    array([1.146])
    """
    refuse_degenerate(X, weight, rule)
    d = X.shape[1]
    if rule in ("scott", "silverman"):
        return normal_reference(X, rule, weight, variance), None
    if rule == "isj":
        return isj_per_feature(X, weight) / np.sqrt(variance), None
    if rule == "plugin":
        scales = feature_scales(X, weight, ddof=0)
        H = plugin_matrix(X / scales, weight) / variance
        return (scales * np.sqrt(H[0]) if d == 1 else _in_units(H, scales)), None
    start = normal_reference(X, "silverman", weight)
    h, curve = cross_validated(X, weight, rule, start)
    tried = curve["factor"][:, None] * start / np.sqrt(variance)
    seen = {"bandwidth": tried, "score": curve["score"], "per_feature": curve["per_feature"]}
    return h / np.sqrt(variance), seen


def _in_units(H: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """A matrix of standard units in those of the data, if their squares are numbers."""
    with np.errstate(over="ignore", under="ignore"):
        H = H * scales * scales[:, None]
    if not np.isfinite(H).all() or np.diag(H).min() < np.finfo(float).tiny:
        raise ValueError(
            "bandwidth='plugin' gives a matrix, which holds squares, and those of X, whose spread "
            f"is {scales.min():.3g} to {scales.max():.3g}, are beyond all numbers; give X in other "
            "units"
        )
    return H


# Improved Sheather-Jones.


def isj_per_feature(X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Improved Sheather-Jones for each feature of X: (n, d) separately, shape (d,).

    In d dimensions the best bandwidth falls as n^(-1/(d+4)) rather than n^(-1/5), and each is
    widened by what the two are apart for a normal law.
    """
    ratio = [normal_reference(Z, "silverman", weight)[0] for Z in (X, X[:, :1])]
    found = []
    for j, x in enumerate(X.T):
        try:
            found.append(improved_sheather_jones(x, weight))
        except ValueError as error:
            if X.shape[1] == 1:
                raise
            raise ValueError(f"column {j} of X: {error}") from error
    return np.array(found) * (ratio[0] / ratio[1])


def improved_sheather_jones(x: np.ndarray, weight: np.ndarray) -> float:
    """Botev's bandwidth for points on the line, (n,): the fixed point of seven plug-in stages.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).normal(size=2000)
    >>> round(improved_sheather_jones(x, np.full(2000, 1 / 2000)), 2)  # 0.23 is best
    0.22

    References
    ----------
    Z. I. Botev, J. F. Grotowski and D. P. Kroese, Kernel density estimation via diffusion, Annals
    of Statistics 38 (2010).
    """
    low, high = x.min(), x.max()
    spread = high - low
    start, width = low - spread / 10, 1.2 * spread
    step = width / BINS
    # Bins at the middles of cells, for the cosines are reflected at the edges.
    bins = core.smoother().bin_linear(
        row_major(x[:, None] - start, np.float64),
        row_major(weight, np.float64),
        np.array([step / 2]),
        np.array([step]),
        np.array([BINS]),
    )
    squares = (dct(bins)[1:] / 2) ** 2
    n = min(len(np.unique(x)), 1 / np.sum(weight**2))
    frequencies = np.arange(1, BINS) ** 2.0

    def norm(s: int, t: float) -> float:
        """‖f^(s)‖², of the density smoothed up to time t."""
        exponent = -frequencies * np.pi**2 * t
        return 2 * np.pi ** (2 * s) * float(np.sum(frequencies**s * squares * np.exp(exponent)))

    def excess(t: float) -> float:
        f = norm(STAGES, t)
        for s in range(STAGES - 1, 1, -1):
            odd = np.prod(np.arange(1, 2 * s, 2)) / np.sqrt(2 * np.pi)
            constant = (1 + 0.5 ** (s + 0.5)) / 3
            f = norm(s, (2 * constant * odd / (n * f)) ** (2 / (3 + 2 * s)))
        return t - (2 * n * np.sqrt(np.pi) * f) ** (-0.4)

    times = np.geomspace(1e-9, 0.1, 50)
    before = excess(times[0])
    with np.errstate(all="ignore"):
        for earlier, later in pairwise(times):
            after = excess(later)
            if before < 0 <= after:
                return float(np.sqrt(brentq(excess, earlier, later, xtol=1e-14)) * width)
            before = after
    raise ValueError(
        f"bandwidth='isj' found no fixed point: {len(np.unique(x))} distinct values of {len(x)} "
        "are too few or too even for it; use bandwidth='silverman' or 'mlcv'"
    )


# Cross-validation.


class LeaveOneOut:
    """Sums over all other points, and how they move with the logarithm of each bandwidth."""

    def __init__(self, X: np.ndarray, weight: np.ndarray):
        self.X = X - np.median(X, axis=0)
        self.log_weight = np.log(weight)
        self.none, self.out = None, np.full(len(X), -np.inf)
        self.threads = core.threads(len(X) ** 2, X.shape[1])

    def __call__(self, h: np.ndarray, own: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """log Σ_j w_j exp(-D/2), (n,), and its derivatives by log h, (n, d)."""
        U, routines = row_major(self.X / h), core.smoother()
        empty, ones = np.zeros((len(U), 0)), np.ones((len(U), 1))
        points = (U, U, self.log_weight, own)
        log_sum = routines.log_sums(*points, self.threads)
        slopes = routines.local_slopes(*points, empty, log_sum, ones, empty, -ones, self.threads)
        return log_sum, slopes


def likelihood_score(X: np.ndarray, weight: np.ndarray):
    """-Σ w_i log p_{-i}(x_i) and its derivatives by log h, as a function of h: (d,).

    Features are measured in their standard deviations, so that the score does not depend on units.
    """
    sums, d = LeaveOneOut(X, weight), X.shape[1]
    unit = np.log(feature_scales(X, weight, ddof=0)).sum()
    constant = d / 2 * np.log(2 * np.pi) + weight @ np.log1p(-weight) - unit

    def score(h: np.ndarray) -> tuple[float, np.ndarray]:
        log_sum, slopes = sums(h, sums.out)
        return float(np.log(h).sum() - weight @ log_sum + constant), 1 - weight @ slopes

    return score


def squares_score(X: np.ndarray, weight: np.ndarray):
    """∫p² - 2 Σ w_i p_{-i}(x_i) and its derivatives by log h, as a function of h: (d,).

    Features are measured in their standard deviations, so that the score does not depend on units.
    """
    sums, d = LeaveOneOut(X, weight), X.shape[1]
    unit = np.log(feature_scales(X, weight, ddof=0)).sum()

    def score(h: np.ndarray) -> tuple[float, np.ndarray]:
        log_volume = np.log(h).sum() - unit
        both, both_slopes = sums(h * np.sqrt(2), sums.none)
        others, other_slopes = sums(h, sums.out)
        square = weight * np.exp(both - d / 2 * np.log(4 * np.pi) - log_volume)
        cross = weight / (1 - weight) * np.exp(others - d / 2 * np.log(2 * np.pi) - log_volume)
        slope = square @ (both_slopes - 1) - 2 * cross @ (other_slopes - 1)
        return float(square.sum() - 2 * cross.sum()), slope

    return score


SCORES = {"mlcv": likelihood_score, "lscv": squares_score}


def cross_validated(
    X: np.ndarray, weight: np.ndarray, rule: str, start: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    """Bandwidths that cross-validation finds best, one for each feature, and the curve it saw.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weight : ndarray of shape (n,)
    rule : {"mlcv", "lscv"}
    start : ndarray of shape (d,)
        Where to look around: the normal reference.

    Returns
    -------
    h : ndarray of shape (d,)
    curve : dict
        ``factor``, multiples of ``start`` that were tried, and ``score``, lower being better.
    """
    if len(np.unique(X, axis=0)) < 3:
        raise ValueError(
            f"bandwidth={rule!r} leaves out one point at a time, and X has "
            f"{len(np.unique(X, axis=0))} distinct ones; give bandwidths as numbers"
        )
    score = SCORES[rule](X, weight)
    h, curve = log_search(score, start, POWERS, LOWEST, HIGHEST)
    if np.any(h <= start * np.exp2(LOWEST) * 1.001):
        repeated = len(X) - len(np.unique(X, axis=0))
        cause = (
            f"{repeated} of {len(X)} points repeat others, and a bandwidth below the spacing of "
            "values that were rounded fits them best"
            if repeated
            else "the density seems to have a pole, which no bandwidth is small enough for"
        )
        raise ValueError(
            f"bandwidth={rule!r} goes to zero: {cause}; use bandwidth='silverman' or 'plugin'"
        )
    return h, curve


# The plug-in matrix.
