"""Smoothing kernels: non-negative functions of a difference that integrate to one.

These are the kernels of Parzen's density and of Nadaraya and Watson, not Mercer kernels: what
matters is k(u) >= 0 and ∫ k(u) du = 1, not positive semidefiniteness. A radial kernel is one
profile of r² = ‖u‖²; everything else (its constant in any dimension, its variance, draws from it)
follows from the radial integral I(d) = ∫ r^(d-1) profile(r) dr and a law for the radius.
To add one, write a `RadialKernel` and put it in `SMOOTHING_KERNELS`.
Functions that users bring are in `densities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, logsumexp
from sklearn.utils import check_random_state

from mercer.arrays import row_blocks
from mercer.expressions import Expression, Pairs, sqrt, statistic
from mercer.expressions.statistics import sqdist


class SmoothingKernel:
    """A density k(u) on R^d, with unit bandwidth."""

    # Whether k depends on ‖u‖ only, so that a full bandwidth matrix has one meaning.
    radial = True

    def log_pairs(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """log k(u_i - v_j) for ``U: (m, d)`` and ``V: (n, d)``, shape (m, n)."""
        raise NotImplementedError

    def log_sums(
        self, U: np.ndarray, V: np.ndarray, log_weight: np.ndarray, powers: tuple[int, ...] = (1,)
    ) -> np.ndarray:
        """log Σ_j w_j k(u_i - v_j)^power for ``U: (m, d)`` and ``V: (n, d)``.

        A row of shape (m,) for each power.
        """
        sums = np.empty((len(powers), len(U)))
        for rows in row_blocks(len(U), len(V) * self.bytes_per_pair(V.shape[1])):
            block = self.log_pairs(U[rows], V)
            for row, power in zip(sums, powers, strict=True):
                row[rows] = logsumexp(power * block + log_weight, axis=1)
        return sums

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


class RadialKernel(SmoothingKernel):
    """k(u) = profile(‖u‖) / Z_d with Z_d = S_d I(d), S_d the surface of the unit sphere in R^d."""

    support = 1.0

    def log_profile(self, r2: np.ndarray) -> np.ndarray:
        """log profile(r) as a function of r², without the constant; -inf outside the support."""
        raise NotImplementedError

    def log_formula(self, r2: Expression) -> Expression | None:
        """log profile(r) as an expression in r², where it is one; then pairs are not stored."""
        return None

    def log_radial_integral(self, d: int) -> float:
        """log I(d), I(d) = ∫ r^(d-1) profile(r) dr."""
        raise NotImplementedError

    def sample_radius(self, n: int, d: int, rng: np.random.RandomState) -> np.ndarray:
        """Draws of r = ‖u‖, whose density is r^(d-1) profile(r) / I(d)."""
        raise NotImplementedError

    def log_normaliser(self, d: int) -> float:
        """log Z_d = log ∫ profile(‖u‖) du over R^d."""
        return float(log_sphere_surface(d) + self.log_radial_integral(d))

    def log_pairs(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        # Distances do not see a common shift, but their rounding does.
        centre = V.mean(axis=0)
        log_k = self.log_profile(sqdist(U - centre, V - centre))
        log_k -= self.log_normaliser(V.shape[1])
        return log_k

    def log_sums(
        self, U: np.ndarray, V: np.ndarray, log_weight: np.ndarray, powers: tuple[int, ...] = (1,)
    ) -> np.ndarray:
        log_k = self.log_formula(statistic("sqdist"))
        if log_k is None:
            return super().log_sums(U, V, log_weight, powers)
        sums = [Pairs(power * log_k, U, V).log_sum_exp(log_weight) for power in powers]
        return np.array(sums) - self.log_normaliser(V.shape[1]) * np.array(powers)[:, None]

    def variance(self, d: int) -> float:
        # E r² = I(d + 2) / I(d), shared equally by d coordinates.
        return float(np.exp(self.log_radial_integral(d + 2) - self.log_radial_integral(d)) / d)

    def sample(self, n: int, d: int, random_state: Any = None) -> np.ndarray:
        rng = check_random_state(random_state)
        directions = rng.standard_normal((n, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return directions * self.sample_radius(n, d, rng)[:, None]


class Gaussian(RadialKernel):
    """exp(-r²/2) / (2π)^(d/2)."""

    support = np.inf

    def log_profile(self, r2):
        return -0.5 * r2

    def log_formula(self, r2):
        return -0.5 * r2

    def log_radial_integral(self, d):
        return (d / 2 - 1) * np.log(2) + gammaln(d / 2)

    def sample_radius(self, n, d, rng):
        return np.sqrt(rng.chisquare(d, size=n))


class Exponential(RadialKernel):
    """exp(-r) / Z_d."""

    support = np.inf

    def log_profile(self, r2):
        return -np.sqrt(r2)

    def log_formula(self, r2):
        return -sqrt(r2)

    def log_radial_integral(self, d):
        return gammaln(d)

    def sample_radius(self, n, d, rng):
        return rng.standard_gamma(d, size=n)


class BallPower(RadialKernel):
    """(1 - r²)^power / Z_d in the open unit ball: tophat, Epanechnikov, biweight, triweight.

    Here r² of a draw has the law Beta(d/2, power + 1).
    """

    power = 0

    def log_profile(self, r2):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(r2 < 1, self.power * np.log1p(-r2), -np.inf)

    def log_radial_integral(self, d):
        return betaln(d / 2, self.power + 1) - np.log(2)

    def sample_radius(self, n, d, rng):
        return np.sqrt(rng.beta(d / 2, self.power + 1, size=n))


class Tophat(BallPower):
    """1 / Z_d in the open unit ball."""

    power = 0


class Epanechnikov(BallPower):
    """(1 - r²) / Z_d in the unit ball."""

    power = 1


class Biweight(BallPower):
    """(1 - r²)² / Z_d in the unit ball."""

    power = 2


class Triweight(BallPower):
    """(1 - r²)³ / Z_d in the unit ball."""

    power = 3


class Triangular(RadialKernel):
    """(1 - r) / Z_d in the unit ball."""

    def log_profile(self, r2):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(r2 < 1, np.log1p(-np.sqrt(r2)), -np.inf)

    def log_radial_integral(self, d):
        return betaln(d, 2)

    def sample_radius(self, n, d, rng):
        return rng.beta(d, 2, size=n)


class Cosine(RadialKernel):
    """cos(π r / 2) / Z_d in the unit ball."""

    def log_profile(self, r2):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(r2 < 1, np.log(np.cos(np.pi / 2 * np.sqrt(r2))), -np.inf)

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


class Hypercube(SmoothingKernel):
    """1 where |u_j| <= 1/2 for every j, else 0: counting the points in a cube of side one.

    A point on the boundary counts, also where rounding has moved it by a few units in the last
    place.
    """

    radial = False

    def log_pairs(self, U, V):
        inside = np.ones((len(U), len(V)), dtype=bool)
        slack = 2 * np.finfo(float).eps
        for u, v in zip(U.T[:, :, None], V.T, strict=True):
            inside &= np.abs(u - v) <= 0.5 + slack * (np.abs(u) + np.abs(v))
        return np.where(inside, 0.0, -np.inf)

    def variance(self, d):
        return 1 / 12

    def sample(self, n, d, random_state=None):
        return check_random_state(random_state).uniform(-0.5, 0.5, size=(n, d))


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
