"""Smoothing kernels: non-negative functions of a difference that integrate to one.

These are the kernels of Parzen's density and of Nadaraya and Watson, not Mercer kernels: what
matters is k(u) >= 0 and ∫ k(u) du = 1, not positive semidefiniteness. A radial kernel is one
expression in r² = ‖u‖², which the core runs; everything else (its constant in any dimension, its
variance, draws from it) follows from the radial integral I(d) = ∫ r^(d-1) profile(r) dr and a law
for the radius. To add one, write a `RadialKernel` and put it in `SMOOTHING_KERNELS`.
Functions that users bring are in `densities`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import numpy as np
from scipy.special import betainc, betaln, gammaln, ndtr
from sklearn.utils import check_random_state

from mercer import core
from mercer.arrays import backend, row_major
from mercer.expressions import Point, View, positive, sqrt, statistic, step
from mercer.kernels.smoothing.window import Columns, FormulaKernel, RadialKernel, SmoothingKernel

# Features up to which an executor sums Gaussians from differences faster than from dot products.
FUSED_UP_TO = {"native": 48, "torch": 0}


class Gaussian(RadialKernel):
    """exp(-r²/2) / (2π)^(d/2)."""

    support = np.inf

    def log_profile(self, r2):
        return -0.5 * r2

    def log_sums(self, U, V, log_weight, powers=(1,), local=None):
        d = V.shape[1]
        if local is not None or d > FUSED_UP_TO[backend(U).executor]:
            return super().log_sums(U, V, log_weight, powers, local)
        centre = np.median(V[:: max(1, len(V) // 512)], axis=0)
        U, V = row_major(U - centre), row_major(V - centre)
        log_weight = row_major(log_weight, np.float64)
        threads = core.threads(len(U) * len(V), d)
        sums = [
            core.smoother().log_sums(power**0.5 * U, power**0.5 * V, log_weight, None, threads)
            for power in powers
        ]
        return np.array(sums) - self.log_normaliser(d) * np.array(powers)[:, None]

    def log_radial_integral(self, d):
        return (d / 2 - 1) * np.log(2) + gammaln(d / 2)

    def sample_radius(self, n, d, rng):
        return np.sqrt(rng.chisquare(d, size=n))

    def cdf(self, t):
        return ndtr(t)


class Exponential(RadialKernel):
    """exp(-r) / Z_d."""

    support = np.inf

    def log_profile(self, r2):
        return -sqrt(r2)

    def log_radial_integral(self, d):
        return gammaln(d)

    def sample_radius(self, n, d, rng):
        return rng.standard_gamma(d, size=n)

    def cdf(self, t):
        tail = 0.5 * np.exp(-np.abs(t))
        return np.where(t < 0, tail, 1 - tail)


class BallPower(RadialKernel):
    """(1 - r²)^power / Z_d in the open unit ball.

    Here r² of a draw has the law Beta(d/2, power + 1). Integrated over k of the coordinates it is
    a ball power again, of k/2 more: a marginal of an Epanechnikov density in the plane has 3/2.
    """

    def __init__(self, power: float):
        self.power = power

    def __repr__(self) -> str:
        return f"BallPower({self.power:g})"

    def profile(self, r2):
        return positive(1 - r2) ** self.power if self.power else step(1 - r2)

    def log_radial_integral(self, d):
        return betaln(d / 2, self.power + 1) - np.log(2)

    def sample_radius(self, n, d, rng):
        return np.sqrt(rng.beta(d / 2, self.power + 1, size=n))

    def cdf(self, t):
        inside = 0.5 * betainc(0.5, self.power + 1, np.minimum(np.square(t), 1))
        return 0.5 + np.sign(t) * inside


class Tophat(BallPower):
    """1 / Z_d in the open unit ball."""

    def __init__(self):
        super().__init__(0)

    __repr__ = SmoothingKernel.__repr__


class Epanechnikov(BallPower):
    """(1 - r²) / Z_d in the unit ball."""

    def __init__(self):
        super().__init__(1)

    __repr__ = SmoothingKernel.__repr__


class Biweight(BallPower):
    """(1 - r²)² / Z_d in the unit ball."""

    def __init__(self):
        super().__init__(2)

    __repr__ = SmoothingKernel.__repr__


class Triweight(BallPower):
    """(1 - r²)³ / Z_d in the unit ball."""

    def __init__(self):
        super().__init__(3)

    __repr__ = SmoothingKernel.__repr__


class Triangular(RadialKernel):
    """(1 - r) / Z_d in the unit ball."""

    def profile(self, r2):
        return positive(1 - sqrt(r2))

    def log_radial_integral(self, d):
        return betaln(d, 2)

    def sample_radius(self, n, d, rng):
        return rng.beta(d, 2, size=n)

    def cdf(self, t):
        tail = 0.5 * np.maximum(1 - np.abs(t), 0) ** 2
        return np.where(t < 0, tail, 1 - tail)


class Cosine(RadialKernel):
    """cos(π r / 2) / Z_d in the unit ball."""

    def profile(self, r2):
        # cos(π√s/2) = (1 - s) q(s) with q a power series in s, whose j-th coefficient is the sum of
        # the cosine's first j + 1, or of the rest with the other sign: it falls as fast as they do,
        # and the value keeps its digits where it goes to zero.
        terms = 13
        taylor = [(-1) ** i * (np.pi / 2) ** (2 * i) / factorial(2 * i) for i in range(terms + 8)]
        q = 0.0
        for j in reversed(range(terms)):
            q = q * r2 + -sum(reversed(taylor[j + 1 :]))
        return positive(1 - r2) * q

    def log_radial_integral(self, d):
        # With s = 1 - r the profile is sin(π s/2), and its Taylor series integrates to
        # Σ_j (-1)^j (π/2)^(2j+1) Γ(d)/Γ(d+2j+2): terms fall fast, without cancellation.
        j = np.arange(1, 20)
        ratios = -((np.pi / 2) ** 2) / ((d + 2 * j) * (d + 2 * j + 1))
        series = 1 + np.cumprod(ratios).sum()
        return np.log(np.pi / 2) - np.log(d) - np.log(d + 1) + np.log(series)

    def sample_radius(self, n, d, rng):
        # sin(π s/2) <= π s/2, so the triangular kernel's radius is an envelope: accepted with
        # probability sin(π s/2) / (π s/2) >= 2/π.
        def propose(size):
            radius = rng.beta(d, 2, size=size)
            return radius[rng.uniform(size=size) < np.sinc((1 - radius) / 2)]

        return draw_accepted(propose, n)

    def cdf(self, t):
        return 0.5 * (1 + np.sin(np.pi / 2 * np.clip(t, -1, 1)))


class Hypercube(FormulaKernel):
    """1 where |u_j| <= 1/2 for every j, else 0: counting the points in a cube of side one.

    A point on the boundary counts, also where rounding has moved it by a few units in the last
    place.
    """

    radial = False
    support = 0.5

    def formula(self, d, local=None):
        product, slack = 1.0, 2 * np.finfo(float).eps
        root = 1.0 if local is None else sqrt(local)
        for k in range(d):
            view = View((Columns((k,)),))
            size = Point(_absolute, view, 0) + Point(_absolute, view, 1)
            product = product * step(0.5 + slack * size - statistic("l1", view) * root)
        return product

    def variance(self, d):
        return 1 / 12

    def sample(self, n, d, random_state=None):
        return check_random_state(random_state).uniform(-0.5, 0.5, size=(n, d))

    def cdf(self, t):
        return np.clip(np.asarray(t) + 0.5, 0, 1)


def _absolute(P: np.ndarray) -> np.ndarray:
    return np.abs(P[:, 0])


SMOOTHING_KERNELS: dict[str, SmoothingKernel] = {
    "gaussian": Gaussian(),
    "hypercube": Hypercube(),
    "tophat": Tophat(),
    "epanechnikov": Epanechnikov(),
    "biweight": Biweight(),
    "triweight": Triweight(),
    "triangular": Triangular(),
    "linear": Triangular(),
    "cosine": Cosine(),
    "exponential": Exponential(),
}


def draw_accepted(propose: Callable[[int], np.ndarray], n: int) -> np.ndarray:
    """The first n draws of a rejection sampler; ``propose(size)`` returns the accepted ones."""
    accepted = [propose(n)]
    while (missing := n - sum(map(len, accepted))) > 0:
        accepted.append(propose(2 * missing))
    return np.concatenate(accepted)[:n]
