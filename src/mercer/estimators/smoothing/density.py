"""Parzen's density estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import Interval, StrOptions
from mercer.arrays import is_tensor, namespace, refuse_tensors, to_cpu, to_device_of
from mercer.arrays.remote import over_blocks
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import points_in_double, query_points, validated
from mercer.estimators.labels import checked_weights
from mercer.estimators.smoothing.bandwidth_rules import RULES
from mercer.estimators.smoothing.bandwidths import Bandwidth, resolve_bandwidth
from mercer.estimators.smoothing.density_engine import (
    fit_to_array,
    fit_to_tensor,
    refuse_other_metrics,
)
from mercer.estimators.smoothing.density_parts import conditional, marginal
from mercer.estimators.smoothing.density_values import density_on_grid, standard_errors
from mercer.estimators.smoothing.mixtures import METHODS, Mixture
from mercer.estimators.smoothing.supports import BoxSupport
from mercer.kernels.smoothing.window import SmoothingKernel
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS, Gaussian


class KernelDensity(BaseEstimator):
    r"""Parzen density: :math:`p(x) = \frac{1}{N h^D} \sum_n k\left(\frac{x - x_n}{h}\right)`.

    Every kernel is non-negative and integrates to one, so p does too. Evaluation is in the log
    domain and exact unless a tolerance is given. Far from the data `score_samples` is finite for
    the Gaussian, and -inf for kernels with compact support.

    Parameters
    ----------
    bandwidth : float, array-like of shape (d,) or (d, d), or str, default=1.0
        The number h; one h per feature; a matrix H, with which the Gaussian is exp(-½ uᵀ H⁻¹ u)
        (H = h² I is the same as the number h); or a rule:

        - "scott", "silverman": h_j = c σ_j n^(-1/(d+4)), with σ_j the standard deviation of
          feature j, c = 1 for Scott and (4/(d+2))^(1/(d+4)) for Silverman;
        - "isj": Improved Sheather-Jones, for densities of any shape, also with several modes. It is
          applied to each feature separately; for d features the bandwidths are multiplied by
          n^(1/5 - 1/(d+4)) and a constant, which is exact for a normal distribution;
        - "mlcv": one h per feature, by likelihood cross-validation;
        - "lscv": one h per feature, by least-squares cross-validation, which needs more data;
        - "plugin": a full matrix, for up to six features.

        All rules scale with the data. They are derived for the Gaussian; other kernels are scaled
        to the same standard deviation (that of a function is assumed to be 1).
    kernel : str or callable, default="gaussian"
        Functions of r = ‖u‖, normalised in R^d: "gaussian" exp(-r²/2), "exponential" exp(-r), and
        on the unit ball "tophat" 1, "epanechnikov" 1 - r², "biweight" (1 - r²)²,
        "triweight" (1 - r²)³, "triangular" (or "linear") 1 - r, "cosine" cos(πr/2).
        "hypercube" is 1 if every \|u_j\| <= 1/2: it counts the points in a cube of side h.
        A function maps scaled differences of shape (..., d) to values of shape (...). It must be
        non-negative and integrate to one, which is checked.
    method : {"auto", "exact", "tree", "grid"}, default="auto"
        How densities are evaluated: "exact" sums over all pairs; "tree" uses a tree of boxes, for
        radial kernels; "grid" interpolates, for smooth kernels and up to three features. "auto"
        chooses the fastest one within the tolerances.
    rtol, atol : float, default=0.0
        The error of p(x) is at most atol + rtol p(x), with every method. If both are zero, p is
        exact; kernels with compact support may still use a tree.
    bounds : pair, or sequence of d pairs, default=None
        Support of the data, (low, high), for all features or one pair per feature; None or an
        infinity is no bound. Mass outside is reflected at the bound, so p integrates to one inside.
    adaptive : float or array-like of shape (n,), default=0.0
        If positive, the bandwidth of each point is multiplied by s_n ∝ p(x_n)^-adaptive, where p
        is the density with adaptive=0 and the s_n have geometric mean one: kernels are wider where
        points are few. 0.5 is Abramson's choice. An array gives the s_n directly.
    metric : "euclidean", default="euclidean"
        The distance r. For the Mahalanobis distance use a matrix, ``bandwidth=H``.
    algorithm, breadth_first, leaf_size, metric_params
        Accepted for compatibility with scikit-learn and ignored; ``method`` chooses the evaluation.

    Attributes
    ----------
    bandwidth_ : float or ndarray
        The bandwidth used, a number, an array of shape (d,) or a matrix. Rules give one h per
        feature (a number for one feature), "plugin" a matrix.
    kernel_ : SmoothingKernel
        The kernel used.
    X_fit_ : ndarray of shape (n, d)
        Training points of positive weight.
    sample_weight_ : ndarray of shape (n,)
        Their weights, which sum to one.
    local_bandwidths_ : ndarray of shape (n,) or None
        The factors s_n of ``adaptive``.
    selection_ : dict or None
        For "mlcv" and "lscv": each ``bandwidth`` tried, (k, d), its ``score``, (k,), where lower is
        better, and ``per_feature``. This is False beyond 100 features, where only a common multiple
        of Silverman's bandwidths is chosen.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    For D > 1 the constant of the Gaussian is (2πh²)^(D/2).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.smoothing.density import KernelDensity
    >>> X = np.array([[0.0], [0.2], [0.4], [2.0]])
    >>> kde = KernelDensity(kernel="hypercube", bandwidth=0.5).fit(X)
    >>> kde.pdf([[0.1]])  # 2 of the 4 points lie in [-0.15, 0.35]: 2 / (4 * 0.5)
    array([1.])

    References
    ----------
    E. Parzen, On estimation of a probability density function and mode, Annals of Mathematical
    Statistics 33 (1962).
    """

    _arrays = ArraySupport(tensors="everywhere")
    n_features_in_: int
    bandwidth_: Any
    sample_weight_: np.ndarray
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bandwidth": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions(set(RULES)),
            "array-like",
        ],
        "kernel": [StrOptions(set(SMOOTHING_KERNELS)), callable, SmoothingKernel],
        "method": [StrOptions(set(METHODS))],
        "rtol": [Interval(Real, 0, None, closed="left")],
        "atol": [Interval(Real, 0, None, closed="left")],
        "bounds": ["array-like", None],
        "adaptive": [Interval(Real, 0, 1, closed="both"), "array-like"],
        "metric": [str],
        "algorithm": [StrOptions({"auto", "kd_tree", "ball_tree"})],
        "breadth_first": ["boolean"],
        "leaf_size": [Interval(Integral, 1, None, closed="left")],
        "metric_params": [None, dict],
    }

    def __init__(
        self,
        *,
        bandwidth=1.0,
        kernel="gaussian",
        method="auto",
        rtol=0.0,
        atol=0.0,
        bounds=None,
        adaptive=0.0,
        metric="euclidean",
        algorithm="auto",
        breadth_first=True,
        leaf_size=40,
        metric_params=None,
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.method = method
        self.rtol = rtol
        self.atol = atol
        self.bounds = bounds
        self.adaptive = adaptive
        self.metric = metric
        self.algorithm = algorithm
        self.breadth_first = breadth_first
        self.leaf_size = leaf_size
        self.metric_params = metric_params

    @atomic_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelDensity:
        """Store the points and choose the bandwidth.

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
        refuse_other_metrics(self)
        if is_tensor(X):
            return fit_to_tensor(self, X, checked_weights(sample_weight, X))
        X = points_in_double(self, X, reset=True)
        return fit_to_array(self, X, checked_weights(sample_weight, X))

    @atomic_fit
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelDensity:
        """Add points. Bandwidth rules are applied again to all points.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Additional points.
        y : None
            Ignored.
        sample_weight : array-like of shape (m,), default=None
            Their weights, relative to those of earlier points.

        Returns
        -------
        self : KernelDensity
        """
        first = not hasattr(self, "X_fit_")
        self._refuse_tensors("partial_fit", X)
        refuse_other_metrics(self)
        X = validated(self, X, dtype=np.float64, order="C", reset=first)
        weight = checked_weights(sample_weight, X)
        if not first:
            more = np.ones(len(X)) if weight is None else weight
            weight = np.concatenate([self.sample_weight_ * self._total_weight, more])
            X = np.concatenate([self.X_fit_, X])
        return fit_to_array(self, X, weight)

    @over_blocks
    def score_samples(self, X: Any) -> np.ndarray:
        """log p(x) at each row of ``X: (m, d)``, shape (m,)."""
        check_is_fitted(self)
        X = query_points(self, X)
        return to_device_of(self._log_density(X, self.method, self.rtol, self.atol), X)

    @over_blocks
    def pdf(self, X: Any) -> np.ndarray:
        """p(x) at each row of ``X: (m, d)``, shape (m,)."""
        return namespace(X).exp(self.score_samples(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Σ log p(x) over the rows of ``X: (m, d)``."""
        return float(to_cpu(self.score_samples(X)).sum())

    def grid(
        self, n_points: int | Sequence[int] = 256, low: Any = None, high: Any = None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """p on a grid over a box, by linear binning and a fast Fourier transform.

        The error is of the order of (spacing / bandwidth)²; `pdf` at the points of the grid is
        exact. With ``bounds``, ``adaptive`` or a function as kernel, and if the box is small
        compared with the reach of the kernel, `pdf` is used.

        Parameters
        ----------
        n_points : int or sequence of d ints, default=256
            Number of grid points along each feature.
        low, high : float or array-like of shape (d,), default=None
            The box; by default the range of the data plus four standard deviations of the kernel on
            each side, within ``bounds``.

        Returns
        -------
        axes : list of d ndarrays
            Grid points along each feature.
        density : ndarray of shape (n_points, ...)
        """
        check_is_fitted(self)
        self._refuse_tensors("grid", self.X_fit_)
        return density_on_grid(self, n_points, low, high)

    @over_blocks
    def standard_error(self, X: Any) -> np.ndarray:
        """Standard error of p(x) at each row of ``X: (m, d)``.

        It is √(Var[k/h^D] / N), with the variance over the training points. For "hypercube" and
        "tophat" this is the binomial standard error √(P(1-P)/N) / V, with the fraction P = K/N of
        points in the volume V. With weights, N is (Σw)²/Σw². It does not include the bias, and is
        zero if no kernel reaches x.
        """
        check_is_fitted(self)
        self._refuse_tensors("standard_error", self.X_fit_)
        return standard_errors(self, validated(self, X, dtype=np.float64, reset=False))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw from p: a training point, by weight, plus a draw from the kernel.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState or None, default=None
            Random seed.

        Returns
        -------
        X : ndarray of shape (n_samples, d)
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be a positive integer")
        self._refuse_tensors("sample", self.X_fit_)
        rng = check_random_state(random_state)
        return self._box().fold(self._mixture().sample(int(n_samples), rng))

    def marginal(self, features: Sequence[int | str]) -> KernelDensity:
        """The marginal density of some features.

        Exact for the Gaussian, the hypercube and powers of 1 - r²: their marginals belong to the
        same family.

        Parameters
        ----------
        features : sequence of int or str
            Columns to keep, in this order, by number or, for a DataFrame, by name.

        Returns
        -------
        density : KernelDensity
            A fitted density of these features.
        """
        check_is_fitted(self)
        self._refuse_tensors("marginal", self.X_fit_)
        return marginal(self, features)

    def conditional(self, given: Mapping[Any, float]) -> KernelDensity:
        """The conditional density of the other features, given values of some.

        Exact for the kernels of `marginal`. Points are weighted by their kernel at the given
        values. With a bandwidth matrix they are also moved along the regression of the other
        features on the given ones.

        Parameters
        ----------
        given : mapping from column to value
            Features, by number or name, and their values.

        Returns
        -------
        density : KernelDensity
            A fitted density of the other features, in their order.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[0.0, 1.0], [5.0, 2.0]])
        >>> KernelDensity().fit(X).conditional({0: 0.0}).pdf([[1.0]]).round(3)
        array([0.399])
        """
        check_is_fitted(self)
        self._refuse_tensors("conditional", self.X_fit_)
        return conditional(self, given)

    def _refuse_tensors(self, what: str, X: Any) -> None:
        for points in (X, getattr(self, "X_fit_", None)):
            refuse_tensors(points, what)

    def _log_density(
        self, X: np.ndarray, method: str = "exact", rtol: float = 0.0, atol: float = 0.0
    ) -> np.ndarray:
        mixture, box = self._mixture(), self._box()
        if not box.is_bounded:
            return mixture.log_density(X, method, rtol, atol)
        images = box.images(X, self._reach())
        parts = [mixture.log_density(image, method, rtol, atol / len(images)) for image in images]
        log_p = parts[0] if len(parts) == 1 else logsumexp(parts, axis=0)
        return np.where(box.contains(X), log_p, -np.inf)

    def _map(self) -> Bandwidth:
        return resolve_bandwidth(self.bandwidth_, self.n_features_in_)

    def _mixture(self) -> Mixture:
        return Mixture(
            self.kernel_, self._map(), self.X_fit_, self.sample_weight_, self.local_bandwidths_
        )

    def _box(self) -> BoxSupport:
        return self._bounds

    def _reach(self) -> np.ndarray:
        """How far the kernel of any point reaches along each feature, to 16 digits."""
        root = self._map().root
        width = np.sqrt((root**2).sum(axis=1)) if root.ndim == 2 else root
        support = self.kernel_.support
        if not np.isfinite(support):
            support = 9.0 if isinstance(self.kernel_, Gaussian) else 45.0
        local = self.local_bandwidths_
        return support * width * (1.0 if local is None else local.max())
