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
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from scipy.special import betainc, betaln, gammaln, logsumexp, ndtr
from sklearn.utils import check_random_state

from mercer import core
from mercer.arrays import backend, like, namespace, row_blocks, row_major
from mercer.expressions import (
    Expression,
    PairMatrix,
    Point,
    View,
    exp,
    over,
    positive,
    sqrt,
    statistic,
    step,
)
from mercer.expressions.arithmetic import evaluate

# Features up to which an executor sums Gaussians from differences faster than from dot products.
FUSED_UP_TO = {"native": 48, "torch": 0}


@dataclass(frozen=True)
class Columns:
    """Some columns of the points."""

    chosen: tuple[int, ...]

    def apply(self, X: np.ndarray, name: str) -> np.ndarray:
        return X[:, self.chosen]


def _last(P: np.ndarray) -> np.ndarray:
    return P[:, -1]


class SmoothingKernel:
    """A density k(u) on R^d, with unit bandwidth."""

    # Whether k depends on ‖u‖ only, so that a full bandwidth matrix has one meaning.
    radial = True
    # Beyond this distance k is zero.
    support = np.inf

    def log_pairs(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """log k(u_i - v_j) for ``U: (m, d)`` and ``V: (n, d)``, shape (m, n)."""
        raise NotImplementedError

    def log_sums(
        self,
        U: np.ndarray,
        V: np.ndarray,
        log_weight: np.ndarray,
        powers: tuple[int, ...] = (1,),
        local: np.ndarray | None = None,
    ) -> np.ndarray:
        """log Σ_j w_j k((u_i - v_j) / s_j)^power for ``U: (m, d)`` and ``V: (n, d)``.

        ``local: (n,)`` holds the s_j, all one where it is not given. A row of shape (m,) for each
        power.
        """
        sums = np.empty((len(powers), len(U)))
        s = np.ones(1) if local is None else local
        for rows in row_blocks(len(U), len(V) * self.bytes_per_pair(V.shape[1])):
            if local is None:
                block = self.log_pairs(U[rows], V)
            else:
                origin = np.zeros((1, V.shape[1]))
                scaled = (U[rows, None] - V) / s[:, None]
                block = self.log_pairs(scaled.reshape(-1, V.shape[1]), origin)
                block = block.reshape(-1, len(V))
            for row, power in zip(sums, powers, strict=True):
                row[rows] = logsumexp(power * block + log_weight, axis=1)
        return sums

    def cdf(self, t: np.ndarray) -> np.ndarray:
        """∫ k from -∞ to t, on the line."""
        raise NotImplementedError(f"{self!r} has no distribution function")

    def variance(self, d: int) -> float:
        """Variance of one coordinate of a draw from k in R^d."""
        raise NotImplementedError

    def sample(self, n: int, d: int, random_state: Any = None) -> np.ndarray:
        """Draws from k, shape (n, d)."""
        raise NotImplementedError

    def bytes_per_pair(self, d: int) -> int:
        """Working memory that `log_pairs` takes for one pair of points."""
        return 48

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class FormulaKernel(SmoothingKernel):
    """A kernel given by an expression of the two points, so that the core sums it unseen."""

    def formula(self, d: int, local: Expression | None = None) -> Expression:
        """k(u - v) without its constant; ``local`` is 1/s², the inverse square of a scale of v."""
        raise NotImplementedError

    def log_formula(self, d: int, local: Expression | None = None) -> Expression | None:
        """Its logarithm, of kernels that are positive everywhere."""
        return None

    def log_normaliser(self, d: int) -> float:
        """log Z_d = log ∫ formula over R^d."""
        return 0.0

    def log_pairs(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        d = V.shape[1]
        log_k = self.log_formula(d)
        if log_k is None:
            with np.errstate(divide="ignore"):
                values = np.log(PairMatrix(self.formula(d), U, V).gram())
        else:
            values = PairMatrix(log_k, U, V).gram()
        return values - self.log_normaliser(d)

    def log_sums(self, U, V, log_weight, powers=(1,), local=None):
        d, scale = V.shape[1], None
        if local is not None:
            scale = Point(_last, View(), 1)
            V = np.column_stack([V, local**-2.0])
            U = np.column_stack([U, np.ones(len(U))])
        log_k = self.log_formula(d, scale)
        sums = [
            _log_sum_of_values(self.formula(d, scale) ** power, U, V, log_weight)
            if log_k is None
            else over(power * log_k, U, V).log_sum_exp(log_weight)
            for power in powers
        ]
        shift = self.log_normaliser(d) * np.array(powers)[:, None]
        return namespace(U).stack(sums) - like(shift, sums[0])


def _log_sum_of_values(e: Expression, U, V, log_weight) -> np.ndarray:
    top = log_weight.max()
    weight, nothing = np.exp(log_weight - top)[:, None], np.zeros((len(U), 0))
    sums = over(e, U, V).products(weight, nothing)[0]
    with np.errstate(divide="ignore"):
        return namespace(U).log(sums[:, 0]) + top


class RadialKernel(FormulaKernel):
    """k(u) = profile(‖u‖) / Z_d with Z_d = S_d I(d), S_d the surface of the unit sphere in R^d."""

    support = 1.0

    def profile(self, r2: Expression) -> Expression:
        """profile(r) as an expression in r², without the constant."""
        log_profile = self.log_profile(r2)
        assert log_profile is not None
        return exp(log_profile)

    def log_profile(self, r2: Expression) -> Expression | None:
        """log profile(r), of kernels that are positive everywhere."""
        return None

    def formula(self, d, local=None):
        return self.profile(_squared_distance(d, local))

    def log_formula(self, d, local=None):
        return self.log_profile(_squared_distance(d, local))

    def values(self, r2: np.ndarray) -> np.ndarray:
        """profile(r) for an array of r²."""
        return evaluate(self.profile(statistic("sqdist")), lambda leaf: r2)

    def log_radial_integral(self, d: float) -> float:
        """log I(d), I(d) = ∫ r^(d-1) profile(r) dr."""
        raise NotImplementedError

    def sample_radius(self, n: int, d: int, rng: np.random.RandomState) -> np.ndarray:
        """Draws of r = ‖u‖, whose density is r^(d-1) profile(r) / I(d)."""
        raise NotImplementedError

    def log_normaliser(self, d: int) -> float:
        return float(log_sphere_surface(d) + self.log_radial_integral(d))

    def variance(self, d: int) -> float:
        # E r² = I(d + 2) / I(d), shared equally by d coordinates.
        return float(np.exp(self.log_radial_integral(d + 2) - self.log_radial_integral(d)) / d)

    def sample(self, n: int, d: int, random_state: Any = None) -> np.ndarray:
        rng = check_random_state(random_state)
        directions = rng.standard_normal((n, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return directions * self.sample_radius(n, d, rng)[:, None]


def _squared_distance(d: int, local: Expression | None) -> Expression:
    if local is None:
        return statistic("sqdist")
    return statistic("sqdist", View((Columns(tuple(range(d))),))) * local


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


def log_sphere_surface(d: int) -> float:
    """log S_d, S_d = 2 π^(d/2) / Γ(d/2) the surface of the unit sphere in R^d."""
    return float(np.log(2) + d / 2 * np.log(np.pi) - gammaln(d / 2))


def draw_accepted(propose: Callable[[int], np.ndarray], n: int) -> np.ndarray:
    """The first n draws of a rejection sampler; ``propose(size)`` returns the accepted ones."""
    accepted = [propose(n)]
    while (missing := n - sum(map(len, accepted))) > 0:
        accepted.append(propose(2 * missing))
    return np.concatenate(accepted)[:n]
