r"""Means of the logistic likelihood over normal variables, by rules accurate to rounding.

The trapezoidal rule converges geometrically for two forms of the same integrals. Over the normal
variable it is used where its spread is at most that of the logistic distribution. Otherwise over a
logistic variable e, since :math:`\sigma(f) = P(e \le f)`:

.. math::
    E\, \sigma(f) = E\, \Phi(z), \qquad E\, \sigma'(f) = E\, \varphi(z) / s, \qquad
    E \log \sigma(f) = -E\, [s \varphi(z) - (\mu - e)\, \Phi(-z)], \quad z = (\mu - e) / s
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, ndtr

# Steps and ends of the trapezoidal rule, whose error is of the order of rounding.
STEP_OF_NORMAL, END_OF_NORMAL = 0.2, 9.0
STEP_OF_LOGISTIC, END_OF_LOGISTIC = 0.5, 38.0
# Points whose integrals are summed at once.
POINTS = 4096


class Moments(NamedTuple):
    """Means over f of log sigma(f), sigma(f) and the derivative of sigma at f, each (m,)."""

    log: np.ndarray
    value: np.ndarray
    slope: np.ndarray


def logistic_moments(mean: np.ndarray, variance: np.ndarray) -> Moments:
    """For normal variables with these means and variances, (m,) each.

    Examples
    --------
    >>> import numpy as np
    >>> found = logistic_moments(np.array([0.0, 0.0]), np.array([0.0, 9.0]))
    >>> print(found.log.round(4), found.slope.round(4))
    [-0.6931 -1.3941] [0.25   0.1148]
    """
    found = np.empty((3, len(mean)))
    spread = np.sqrt(variance)
    for start in range(0, len(mean), POINTS):
        some = slice(start, start + POINTS)
        found[:, some] = _moments(mean[some], spread[some])
    return Moments(*found)


def mean_logistic(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E sigma(f) for f normal: (m,).

    Examples
    --------
    >>> import numpy as np
    >>> mean_logistic(np.array([0.0, 1.0, 1.0]), np.array([4.0, 0.0, 1e4])).round(6)
    array([0.5     , 0.731059, 0.503989])
    """
    return logistic_moments(mean, variance).value


def _moments(mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    found, narrow = np.empty((3, len(mean))), spread <= 1.0
    t = np.arange(-END_OF_NORMAL, END_OF_NORMAL + STEP_OF_NORMAL / 2, STEP_OF_NORMAL)
    weight = np.exp(-0.5 * t**2)
    weight /= weight.sum()
    f = mean[narrow][:, None] + np.outer(spread[narrow], t)
    p = expit(f)
    found[:, narrow] = log_expit(f) @ weight, p @ weight, (p * expit(-f)) @ weight
    e = np.arange(-END_OF_LOGISTIC, END_OF_LOGISTIC + STEP_OF_LOGISTIC / 2, STEP_OF_LOGISTIC)
    weight = expit(e) * expit(-e)
    weight /= weight.sum()
    left, s = mean[~narrow][:, None] - e, spread[~narrow][:, None]
    z = left / s
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    log = left * ndtr(-z) - s * density
    found[:, ~narrow] = log @ weight, ndtr(z) @ weight, (density / s) @ weight
    return found
