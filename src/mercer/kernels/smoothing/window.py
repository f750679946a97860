"""What a smoothing kernel is: a density at the origin, as a formula where it has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp
from sklearn.utils import check_random_state

from mercer.arrays import like, namespace, row_blocks
from mercer.expressions import Expression, PairMatrix, Point, View, exp, over, statistic
from mercer.expressions.arithmetic import evaluate


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


def log_sphere_surface(d: int) -> float:
    """log S_d, S_d = 2 π^(d/2) / Γ(d/2) the surface of the unit sphere in R^d."""
    return float(np.log(2) + d / 2 * np.log(np.pi) - gammaln(d / 2))
