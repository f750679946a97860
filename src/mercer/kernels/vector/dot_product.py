"""Kernels of the dot product."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from mercer._sklearn import Interval
from mercer.expressions import Expression, normalised, tanh
from mercer.kernels import feature_maps as maps
from mercer.kernels.expansions import Expansion
from mercer.kernels.validity import Validity, indefinite, valid
from mercer.kernels.vector_kernel import Parameters, Statistics, VectorKernel

POSITIVE = Interval(Real, 0, None, closed="neither")
ANY_REAL = Interval(Real, None, None, closed="neither")


class Linear(VectorKernel):
    r"""k(x, z) = x·z.

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]]).item()
    11.0
    """

    why = "the inner product of the points themselves"

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return s.dot

    def feature_map(self) -> maps.FeatureMap:
        return maps.IdentityMap()


class Polynomial(VectorKernel):
    r"""k(x, z) = (gamma x·z + coef0)^degree.

    Parameters
    ----------
    degree : int, default=3
    gamma : float, default=1.0
    coef0 : float, default=1.0
        0 gives the homogeneous kernel; below 0 it is not a kernel.

    Examples
    --------
    >>> Polynomial(degree=2)([[1.0, 2.0]], [[3.0, 4.0]]).item()
    144.0
    """

    why = "a polynomial in x·z with non-negative coefficients: sums and products of kernels"
    _parameter_constraints: dict = {
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [POSITIVE],
        "coef0": [ANY_REAL],
    }

    def __init__(self, degree: int = 3, gamma: float = 1.0, coef0: float = 1.0):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return (p.gamma * s.dot + p.coef0) ** self.degree

    def judge(self) -> Validity:
        self._validate_params()
        if self.degree == 0:
            return valid(f"{self!r} is a kernel on {self.domain}", "the constant 1")
        if self.coef0 >= 0:
            return super().judge()
        # At ±x with gamma |x|^2 = -coef0 the diagonal vanishes and the rest does not.
        x = math.sqrt(-self.coef0 / self.gamma)
        return indefinite(self, np.array([[x], [-x]]), "coef0 < 0")

    def expand(self) -> Expansion:
        self._validate_params()
        gamma, coef0 = Expansion.of_number(self.gamma), Expansion.of_number(self.coef0)
        return (gamma * Linear().expand() + coef0) ** int(self.degree)

    def tensor_sketch(self, n_components: int, random_state: Any) -> Any:
        """scikit-learn's tensor sketch of this kernel, unfitted; None where it has none."""
        from sklearn.kernel_approximation import PolynomialCountSketch  # slow to import

        if self.coef0 < 0:
            return None
        return PolynomialCountSketch(
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            n_components=n_components,
            random_state=random_state,
        )

    def feature_map(self) -> maps.FeatureMap:
        self._validate_params()
        if self.coef0 < 0 < self.degree:
            return super().feature_map()
        p, g = int(self.degree), math.log(self.gamma)
        maps.refuse_degree(p)
        if self.coef0 == 0 or p == 0:
            return maps.MonomialMap({p: p * g})
        c = math.log(self.coef0)
        return maps.MonomialMap(
            {q: math.log(math.comb(p, q)) + q * g + (p - q) * c for q in range(p + 1)}
        )


class Sigmoid(VectorKernel):
    r"""k(x, z) = tanh(gamma x·z + coef0): a similarity that is never a kernel.

    Parameters
    ----------
    gamma : float, default=1.0
    coef0 : float, default=0.0

    Examples
    --------
    >>> Sigmoid(coef0=1.0).validity.status
    'indefinite'

    References
    ----------
    Smola, Óvári and Williamson (2001), "Regularization with dot-product kernels", NIPS.
    """

    _parameter_constraints: dict = {"gamma": [POSITIVE], "coef0": [ANY_REAL]}

    def __init__(self, gamma: float = 1.0, coef0: float = 0.0):
        self.gamma = gamma
        self.coef0 = coef0

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return tanh(p.gamma * s.dot + p.coef0)

    def judge(self) -> Validity:
        self._validate_params()
        unit = 1 / math.sqrt(self.gamma)
        c = self.coef0
        if c < 0:
            return indefinite(self, np.zeros((1, 1)), "k(0, 0) = tanh(coef0) < 0")
        if c < 4:
            # tanh saturates: k(x,z)² exceeds k(x,x) k(z,z) for a short x and a long z.
            points = unit * np.array([[0.1], [30.0]])
            return indefinite(self, points, "tanh saturates")
        # Three long vectors at 120 degrees: ones on the diagonal, almost -1 elsewhere.
        angles = 2 * np.pi * np.arange(3) / 3
        points = unit * math.sqrt(2 * c + 40) * np.column_stack([np.cos(angles), np.sin(angles)])
        return indefinite(self, points, "three vectors are pairwise opposed")


class Conjunction(VectorKernel):
    r"""k(x, z) = Π_j (1 + x_j z_j): the inner product over all conjunctions of features.

    Examples
    --------
    >>> Conjunction()([[1.0, 1.0, 0.0]], [[1.0, 1.0, 1.0]]).item()
    4.0
    """

    why = "a product over features of 1 + x_j z_j, each a sum of two kernels"

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return s.conjunction

    def feature_map(self) -> maps.FeatureMap:
        return maps.ConjunctionMap()


class Cosine(VectorKernel):
    r"""k(x, z) = x·z / (‖x‖ ‖z‖), zero where x or z is.

    Examples
    --------
    >>> Cosine()([[3.0, 4.0]], [[4.0, 3.0]]).round(4).item()
    0.96
    """

    why = "normalisation of the linear kernel"

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return normalised(s.dot)

    def judge(self) -> Validity:
        return valid(f"{self!r} is a kernel on {self.domain}", self.why, Linear().judge().proof)

    def feature_map(self) -> maps.FeatureMap:
        return Linear().normalize().feature_map()


def truncated_exponential(gamma: float, order: int) -> Any:
    """The map of Σ_{q <= order} (2 gamma x·z)^q / q!, a truncated exp(2 gamma x·z)."""
    maps.refuse_degree(order)
    return maps.MonomialMap(
        {q: q * math.log(2 * gamma) - math.lgamma(q + 1) for q in range(order + 1)}
    )
