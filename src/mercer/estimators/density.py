"""Parzen's density estimator."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Hidden, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mercer.estimators.bandwidths import (
    Bandwidth,
    normal_reference,
    resolve_bandwidth,
    simplest_form,
)
from mercer.estimators.fitting import fitting
from mercer.estimators.later import LATER, not_yet
from mercer.kernels.densities import smoothing_kernel
from mercer.kernels.smoothing import SMOOTHING_KERNELS, SmoothingKernel

RULES = ("scott", "silverman")
LATER_RULES = {entry.value: entry.instead for entry in LATER if entry.parameter == "bandwidth"}


class KernelDensity(BaseEstimator):
    r"""Parzen density: :math:`p(x) = \frac{1}{N h^D} \sum_n k\left(\frac{x - x_n}{h}\right)`.

    Every kernel is non-negative and integrates to one in the dimension of the data, so p does
    too. Evaluation is exact and in the log domain: far from the data `score_samples` stays
    finite for the Gaussian, and is -inf where no compact kernel reaches.

    Parameters
    ----------
    bandwidth : float, array-like of shape (d,) or (d, d), or str, default=1.0
        The number h; one h for each feature; a matrix H, so that the Gaussian is
        exp(-½ uᵀ H⁻¹ u) and H = h² I equals the number h; or a rule, "scott" or "silverman".

        The rules follow the scale of the data: h_j = c σ_j n^(-1/(d+4)) / s, with σ_j the standard
        deviation of feature j, c = 1 for Scott and (4/(d+2))^(1/(d+4)) for Silverman, and s the
        standard deviation of the kernel's own coordinate (1 for the Gaussian, and taken to be 1
        for a function), so that every kernel smooths by as much as the Gaussian would.
    kernel : str or callable, default="gaussian"
        Functions of r = ‖u‖, normalised in R^d: "gaussian" exp(-r²/2), "exponential" exp(-r), and
        on the unit ball "tophat" 1, "epanechnikov" 1 - r², "biweight" (1 - r²)²,
        "triweight" (1 - r²)³, "triangular" (or "linear") 1 - r, "cosine" cos(πr/2).
        "hypercube" is 1 where every \|u_j\| <= 1/2: it counts the points in a cube of side h.
        A function takes scaled differences of shape (..., d) to values of shape (...); it is
        refused unless it is non-negative and integrates to one.

    Attributes
    ----------
    bandwidth_ : float or ndarray
        The bandwidth in use, in the form of the parameter; rules give one h for each feature (a
        number when there is one feature).
    kernel_ : SmoothingKernel
        The kernel in use.
    X_fit_ : ndarray of shape (n, d)
        Training points of positive weight.
    sample_weight_ : ndarray of shape (n,)
        Their weights, which sum to one.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    For D > 1 the constant of the Gaussian is (2πh²)^(D/2).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.density import KernelDensity
    >>> X = np.array([[0.0], [0.2], [0.4], [2.0]])
    >>> kde = KernelDensity(kernel="hypercube", bandwidth=0.5).fit(X)
    >>> kde.pdf([[0.1]])  # 2 of the 4 points lie in [-0.15, 0.35]: 2 / (4 * 0.5)
    array([1.])

    References
    ----------
    E. Parzen, On estimation of a probability density function and mode, Annals of Mathematical
    Statistics 33 (1962).
    """

    n_features_in_: int
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bandwidth": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions(set(RULES)),
            Hidden(StrOptions(set(LATER_RULES))),
            "array-like",
        ],
        "kernel": [StrOptions(set(SMOOTHING_KERNELS)), callable, SmoothingKernel],
    }

    def __init__(self, *, bandwidth=1.0, kernel="gaussian"):
        self.bandwidth = bandwidth
        self.kernel = kernel

    @fitting
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelDensity:
        """Keep the points and settle the bandwidth.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights; only their ratios matter.

        Returns
        -------
        self : KernelDensity
        """
        X = validate_data(self, X, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        X, weight = X[weight > 0], weight[weight > 0]
        self.kernel_ = smoothing_kernel(self.kernel, X.shape[1])
        self.bandwidth_ = self._settle_bandwidth(X, weight)
        self.X_fit_ = X
        self.sample_weight_ = weight / weight.sum()
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """log p(x) at each row of ``X: (m, d)``, shape (m,)."""
        return self._log_means(X, 1)[0] - self._map().log_volume

    def pdf(self, X: Any) -> np.ndarray:
        """p(x) at each row of ``X: (m, d)``, shape (m,)."""
        return np.exp(self.score_samples(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Σ log p(x) over the rows of ``X: (m, d)``."""
        return float(np.sum(self.score_samples(X)))

    def standard_error(self, X: Any) -> np.ndarray:
        """Standard error of p(x) at each row of ``X: (m, d)``, over samples of the same size.

        It is √(Var[k/h^D] / N), the variance taken over the training points. For "hypercube" and
        "tophat" that is the binomial law's: K ~ Bin(N, P) in a volume V, estimated by P = K/N,
        gives √(P(1-P)/N) / V. With weights, N is (Σw)²/Σw². It says nothing of the bias, and is
        zero where no point is in reach.
        """
        log_mean, log_square = self._log_means(X, 1, 2)
        reached = np.isfinite(log_mean)
        excess = np.expm1(log_square[reached] - 2 * log_mean[reached])
        # Of one point, or equal ones, nothing is left but rounding.
        excess[excess < 1e-14 * (1 + np.abs(log_mean[reached]))] = 0
        se = np.zeros(len(log_mean))
        se[reached] = np.exp(log_mean[reached] - self._map().log_volume)
        se[reached] *= np.sqrt(excess)
        return se * np.sqrt(np.sum(self.sample_weight_**2))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw from p: a training point by weight, moved by a draw from the kernel.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState or None, default=None
            Source of randomness.

        Returns
        -------
        X : ndarray of shape (n_samples, d)
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be a positive integer")
        rng = check_random_state(random_state)
        centres = rng.choice(len(self.X_fit_), size=n_samples, p=self.sample_weight_)
        steps = self.kernel_.sample(int(n_samples), self.n_features_in_, rng)
        return self.X_fit_[centres] + self._map().stretch(steps)

    def _settle_bandwidth(self, X: np.ndarray, weight: np.ndarray) -> float | np.ndarray:
        d = X.shape[1]
        if isinstance(self.bandwidth, str):
            if self.bandwidth in LATER_RULES:
                raise not_yet("bandwidth", self.bandwidth, LATER_RULES[self.bandwidth])
            h = normal_reference(X, self.bandwidth, weight, self.kernel_.variance(d))
            if not h.all():
                column = int(np.flatnonzero(h == 0)[0])
                raise ValueError(
                    f"bandwidth={self.bandwidth!r} is a multiple of each feature's spread, and "
                    f"column {column} of X has none ({len(X)} points); drop the column, or give "
                    "bandwidths as numbers"
                )
            return simplest_form(h)
        if resolve_bandwidth(self.bandwidth, d).is_matrix and not self.kernel_.radial:
            raise ValueError(
                f"bandwidth is a matrix, which turns the axes that kernel={self.kernel!r} depends "
                "on; give one bandwidth for each feature, or use a radial kernel"
            )
        if isinstance(self.bandwidth, Real):
            return float(self.bandwidth)
        return np.array(self.bandwidth, dtype=float)

    def _map(self) -> Bandwidth:
        return resolve_bandwidth(self.bandwidth_, self.n_features_in_)

    def _log_means(self, X: Any, *powers: int) -> np.ndarray:
        """log Σ_n w_n k(u - u_n)^power at each row of ``X: (m, d)``: (m,) for each power."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        shrink, log_weight = self._map().shrink, np.log(self.sample_weight_)
        return self.kernel_.log_sums(shrink(X), shrink(self.X_fit_), log_weight, powers)
