"""Kernels of a distance, or of the difference x - z."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from mercer._sklearn import Options, StrOptions
from mercer.arrays import as_numbers
from mercer.expressions import Check, Circle, Expression, Within, exp, sqrt
from mercer.expressions.views import View
from mercer.kernels import feature_maps as maps
from mercer.kernels.kernel import WIDTHS
from mercer.kernels.vector.dot_product import POSITIVE, truncated_exponential
from mercer.kernels.vector_kernel import Parameters, ScaledKernel, Statistics

# A positive number, or a rule that is applied to the training points.
WIDTH: list = [POSITIVE, StrOptions(set(WIDTHS))]
CONVENTIONS = {
    "gaussian": lambda sigma: 1 / (2 * sigma**2),
    "variance": lambda sigma: 1 / (2 * sigma),
    "squared": lambda sigma: 1 / sigma**2,
}


class _Stationary(ScaledKernel):
    """A function of x - z that is infinitely divisible, as all of these are."""

    @property
    def is_stationary(self) -> bool:
        return True

    @property
    def distance(self) -> str | None:
        return "euclidean" if self.scales is None else None

    @property
    def is_infinitely_divisible(self) -> bool:
        return True

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        self._validate_params()
        w, scales = self.unscaled_frequencies(rng, n, d), self.checked_scales()
        return w if scales is None else w / scales

    def unscaled_frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        """Draws from the spectrum of the kernel without scales, where it is known."""
        return super().frequencies(rng, n, d)  # the refusal


class RBF(_Stationary):
    r"""k(x, z) = exp(-gamma ‖x - z‖²), the Gaussian kernel.

    Parameters
    ----------
    gamma : float, "scale" or "median", default=1.0
        The rules are applied to the training points when an estimator is fitted.
    scales : (d,) array or None
        One divisor per feature.

    Examples
    --------
    >>> RBF(gamma=0.5)([[0.0]], [[2.0]]).round(4).item()
    0.1353
    """

    why = "the Fourier transform of a Gaussian, which is positive (Bochner)"
    _parameter_constraints: dict = {**ScaledKernel._parameter_constraints, "gamma": WIDTH}

    def __init__(self, gamma: float = 1.0, scales: Any = None):
        self.gamma = gamma
        self.scales = scales

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return exp(-p.gamma * s.sqdist)

    @classmethod
    def from_sigma(cls, sigma: float, convention: str = "gaussian") -> RBF:
        """The kernel of width sigma.

        Parameters
        ----------
        sigma : float
        convention : {"gaussian", "variance", "squared"}
            exp(-r²/2σ²), exp(-r²/2σ) or exp(-r²/σ²).
        """
        if convention not in CONVENTIONS:
            raise ValueError(f"convention={convention!r}; expected one of {sorted(CONVENTIONS)}")
        return cls(gamma=CONVENTIONS[convention](_positive_sigma(sigma)))

    def unscaled_frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        return rng.standard_normal((n, d)) * math.sqrt(2 * self.gamma)

    def truncated_map(self, order: int) -> maps.FeatureMap:
        r"""The first terms of the Gaussian's infinite feature map.

        Features :math:`e^{-\gamma\|x\|^2} \sqrt{(2\gamma)^q / \prod_j e_j!} \prod_j x_j^{e_j}` of
        every monomial of degree q up to ``order``; their inner products converge to the kernel.
        """
        self._validate_params()
        if not isinstance(order, Integral) or order < 0:
            raise ValueError(f"order={order!r}; expected a non-negative integer")
        inner = truncated_exponential(self.gamma, int(order))
        envelope = maps.RescaledMap(inner, _Envelope(self.gamma))
        return envelope if self.scales is None else maps.ComposedMap(self._in_scales, envelope)

    def _in_scales(self, X: Any) -> Any:
        return self.seen_through(View(), "").apply(X, "X")


class _Envelope:
    """exp(-gamma ‖x‖²), as a function that pickles."""

    def __init__(self, gamma: float):
        self.gamma = gamma

    def __call__(self, X: Any) -> np.ndarray:
        from mercer.kernels.vector.dot_product import Linear

        return np.exp(-self.gamma * Linear().diag(X))


class Exponential(_Stationary):
    r"""k(x, z) = exp(-gamma ‖x - z‖₂), with the Euclidean distance.

    Parameters
    ----------
    gamma : float, "scale" or "median", default=1.0
        The rules are applied to the training points when an estimator is fitted.
    scales : (d,) array or None
        One divisor per feature.

    Examples
    --------
    >>> Exponential()([[0.0, 0.0]], [[3.0, 4.0]]).round(4).item()
    0.0067
    """

    why = "a mixture of Gaussians of all widths: Matérn with nu = 1/2"
    _parameter_constraints: dict = {**ScaledKernel._parameter_constraints, "gamma": WIDTH}

    def __init__(self, gamma: float = 1.0, scales: Any = None):
        self.gamma = gamma
        self.scales = scales

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return exp(-p.gamma * sqrt(s.sqdist))

    @classmethod
    def from_sigma(cls, sigma: float) -> Exponential:
        """exp(-r / 2σ²)."""
        return cls(gamma=1 / (2 * _positive_sigma(sigma) ** 2))

    def unscaled_frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        return self.gamma * _student(rng, n, d, 1.0)


class Laplacian(_Stationary):
    r"""k(x, z) = exp(-gamma ‖x - z‖₁), with the city-block distance.

    Parameters
    ----------
    gamma : float, "scale" or "median", default=1.0
        The rules are applied to the training points when an estimator is fitted.
    scales : (d,) array or None
        One divisor per feature.

    Examples
    --------
    >>> Laplacian()([[0.0, 0.0]], [[1.0, 2.0]]).round(4).item()
    0.0498
    """

    why = "a product over features of exp(-gamma |x_j - z_j|), the transform of a Cauchy density"
    _parameter_constraints: dict = {**ScaledKernel._parameter_constraints, "gamma": WIDTH}

    def __init__(self, gamma: float = 1.0, scales: Any = None):
        self.gamma = gamma
        self.scales = scales

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return exp(-p.gamma * s.l1)

    @property
    def distance(self) -> str | None:
        return "city-block" if self.scales is None else None

    @classmethod
    def from_sigma(cls, sigma: float) -> Laplacian:
        """exp(-‖x - z‖₁ / σ)."""
        return cls(gamma=1 / _positive_sigma(sigma))

    def unscaled_frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        return self.gamma * rng.standard_cauchy((n, d))


class Matern(_Stationary):
    r"""The Matérn kernel of smoothness nu, with r = ‖x - z‖ / length_scale.

    nu = 1/2: exp(-r); 3/2: (1 + √3 r) exp(-√3 r); 5/2: (1 + √5 r + 5r²/3) exp(-√5 r);
    inf: exp(-r²/2).

    Parameters
    ----------
    nu : 0.5, 1.5, 2.5 or inf, default=1.5
    length_scale : float, "scale" or "median", default=1.0
    scales : (d,) array or None
        One divisor per feature.

    Examples
    --------
    >>> Matern(nu=1.5)([[0.0]], [[1.0]]).round(4).item()
    0.4834

    References
    ----------
    Rasmussen and Williams (2006), "Gaussian processes for machine learning", section 4.2.
    """

    why = "the Fourier transform of a multivariate t density, which is positive (Bochner)"
    _parameter_constraints: dict = {
        **ScaledKernel._parameter_constraints,
        "nu": [Options(Real, {0.5, 1.5, 2.5, math.inf})],
        "length_scale": WIDTH,
    }

    def __init__(self, nu: float = 1.5, length_scale: float = 1.0, scales: Any = None):
        self.nu = nu
        self.length_scale = length_scale
        self.scales = scales

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        if self.nu == math.inf:
            return exp(-0.5 * s.sqdist * p.length_scale**-2)
        t = math.sqrt(2 * self.nu) * sqrt(s.sqdist) * p.length_scale**-1
        polynomial = {0.5: 1, 1.5: 1 + t, 2.5: 1 + t * (1 + t / 3)}[float(self.nu)]
        return polynomial * exp(-t)

    def unscaled_frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        if self.nu == math.inf:
            return rng.standard_normal((n, d)) / self.length_scale
        return _student(rng, n, d, 2 * self.nu) / self.length_scale


class RationalQuadratic(_Stationary):
    r"""k(x, z) = (1 + ‖x - z‖² / (2 alpha length_scale²))^(-alpha).

    Parameters
    ----------
    alpha : float, default=1.0
    length_scale : float, "scale" or "median", default=1.0
    scales : (d,) array or None
        One divisor per feature.

    Examples
    --------
    >>> RationalQuadratic(alpha=2.0)([[0.0]], [[2.0]]).item()
    0.25
    """

    why = "a mixture of Gaussians whose precision has a gamma distribution"
    _parameter_constraints: dict = {
        **ScaledKernel._parameter_constraints,
        "alpha": [POSITIVE],
        "length_scale": WIDTH,
    }

    def __init__(self, alpha: float = 1.0, length_scale: float = 1.0, scales: Any = None):
        self.alpha = alpha
        self.length_scale = length_scale
        self.scales = scales

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return (1 + 0.5 * s.sqdist * p.alpha**-1 * p.length_scale**-2) ** (-p.alpha)

    def unscaled_frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        precision = rng.gamma(self.alpha, 1 / self.alpha, size=(n, 1))
        return rng.standard_normal((n, d)) * np.sqrt(precision) / self.length_scale


class Periodic(_Stationary):
    r"""k(x, z) = exp(-2 Σ_j sin²(π (x_j - z_j) / period) / length_scale²).

    The Gaussian kernel of (cos, sin) of each coordinate, so valid in any dimension.

    Parameters
    ----------
    period : float, default=1.0
    length_scale : float, "scale" or "median", default=1.0
    scales : (d,) array or None
        One divisor per feature; feature j then has the period ``period * scales[j]``.

    Examples
    --------
    >>> Periodic(period=2.0)([[0.25]], [[4.25]]).round(12).item()
    1.0
    """

    why = "the Gaussian kernel composed with the map of each coordinate to a circle"
    _parameter_constraints: dict = {
        **ScaledKernel._parameter_constraints,
        "period": [POSITIVE],
        "length_scale": WIDTH,
    }

    def __init__(self, period: float = 1.0, length_scale: float = 1.0, scales: Any = None):
        self.period = period
        self.length_scale = length_scale
        self.scales = scales

    def seen_through(self, view: View, path: str) -> View:
        scales, period = self.checked_scales(), float(as_numbers(self.period))
        if scales is not None:
            view = view.then(Check(self.domain), Within(tuple((period * scales).tolist())))
        return super().seen_through(view, path).then(Circle(path + "period", period))

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        # On the circle ‖x - z‖² is Σ 4 sin²(...).
        return exp(-0.5 * s.sqdist * p.length_scale**-2)

    @property
    def distance(self) -> None:
        return None

    def unscaled_frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        # exp(c (cos t - 1)) = Σ_q e^{-c} I_q(c) cos(q t): q has a Skellam distribution.
        c = 1 / self.length_scale**2
        harmonics = rng.poisson(c / 2, (n, d)) - rng.poisson(c / 2, (n, d))
        return harmonics * (2 * np.pi / self.period)


def _student(rng: np.random.Generator, n: int, d: int, degrees: float) -> np.ndarray:
    """Multivariate t: a Gaussian divided by the root of an independent chi-square mean."""
    return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(degrees, size=(n, 1)) / degrees)


def _positive_sigma(sigma: float) -> float:
    if not isinstance(sigma, Real) or not sigma > 0 or not math.isfinite(sigma):
        raise ValueError(f"sigma={sigma!r}; expected a positive number")
    return float(sigma)
