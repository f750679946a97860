"""Kernels of histograms and fingerprints."""

from __future__ import annotations

from mercer.expressions import Expression, InRowUnits, Point, RowUnit, diagonal, divide, exp
from mercer.kernels import feature_maps as maps
from mercer.kernels.domains import NONNEGATIVE, Domain
from mercer.kernels.vector.dot_product import POSITIVE
from mercer.kernels.vector_kernel import Parameters, Statistics, VectorKernel


class Min(VectorKernel):
    r"""k(x, z) = Σ_j min(x_j, z_j) on non-negative vectors: histogram intersection.

    Examples
    --------
    >>> Min()([[1.0, 5.0]], [[3.0, 2.0]]).item()
    3.0
    """

    why = "min(x, z) is the integral over t of [t <= x][t <= z], a product of features"

    @property
    def domain(self) -> Domain:
        return NONNEGATIVE

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return s.minsum

    def feature_map(self) -> maps.FeatureMap:
        return maps.UnaryMap()


class Chi2(VectorKernel):
    r"""k(x, z) = exp(-gamma Σ_j (x_j - z_j)² / (x_j + z_j)), with 0/0 = 0, on non-negative vectors.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> Chi2()([[1.0, 0.0]], [[3.0, 0.0]]).round(4).item()
    0.3679
    """

    why = "exp of minus the chi-square distance, which is conditionally negative definite"
    _parameter_constraints: dict = {"gamma": [POSITIVE]}

    def __init__(self, gamma: float = 1.0):
        self.gamma = gamma

    @property
    def domain(self) -> Domain:
        return NONNEGATIVE

    @property
    def is_infinitely_divisible(self) -> bool:
        return True

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return exp(-p.gamma * s.chi2)


class Tanimoto(VectorKernel):
    r"""k(x, z) = x·z / (‖x‖² + ‖z‖² - x·z), with T(0, 0) = 1.

    On binary vectors this is the Jaccard index; it is a kernel on all real vectors.

    Examples
    --------
    >>> Tanimoto()([[1.0, 1.0, 0.0]], [[1.0, 0.0, 1.0]]).round(4).item()
    0.3333

    References
    ----------
    Ralaivola, Swamidass, Saigo and Baldi (2005), "Graph kernels for chemical informatics",
    Neural Networks 18.
    """

    why = "x·z times the integral over t > 0 of exp(-t‖x‖²) exp(t x·z) exp(-t‖z‖²), all kernels"

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        # With x = u x' for a power of two u, and z = v z', u v is divided out.
        u, v = (Point(RowUnit(), s.view, side) for side in (0, 1))
        dot = Statistics(s.view.then(InRowUnits())).dot
        total = diagonal(dot, 0) * u * v**-1 + diagonal(dot, 1) * v * u**-1
        return divide(dot, total - dot, at_zero=1.0)
