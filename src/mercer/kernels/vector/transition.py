"""Smooth transitions, and kernels that change at a point."""

from __future__ import annotations

from typing import Any

from mercer.expressions import Check, Expression, Logistic, Shift, View
from mercer.kernels import feature_maps as maps
from mercer.kernels.kernel import Kernel
from mercer.kernels.vector.dot_product import ANY_REAL, POSITIVE
from mercer.kernels.vector_kernel import Parameters, Statistics, VectorKernel


class Transition(VectorKernel):
    r"""k(x, z) = Σ_j s(x_j) s(z_j) with s(t) = 1 / (1 + exp(-(t - location) / width)).

    A product with a kernel switches that kernel on at ``location``, or with ``falling`` off:
    ``Transition(c, w) * k`` is ``k.rescale(s)`` with a location and a width that can be learnt.

    Parameters
    ----------
    location : float, default=0.0
        Where s is one half.
    width : float, default=1.0
        s goes from 0.12 to 0.88 within four widths around the location.
    falling : bool, default=False
        Whether s is replaced by 1 - s.

    Examples
    --------
    >>> Transition(location=10.0)([[5.0], [10.0], [15.0]]).round(2).tolist()
    [[0.0, 0.0, 0.01], [0.0, 0.25, 0.5], [0.01, 0.5, 0.99]]
    """

    why = "the inner product of the features s(x_j)"
    _parameter_constraints: dict = {
        "location": [ANY_REAL],
        "width": [POSITIVE],
        "falling": ["boolean"],
    }

    def __init__(self, location: float = 0.0, width: float = 1.0, falling: bool = False):
        self.location = location
        self.width = width
        self.falling = falling

    def seen_through(self, view: View, path: str) -> View:
        return view.then(Check(self.domain), *self._steps(path))

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        return s.dot

    def feature_map(self) -> maps.FeatureMap:
        self._validate_params()
        return maps.ComposedMap(self._mapped, maps.IdentityMap())

    def _steps(self, path: str) -> tuple[Shift, Logistic]:
        location, width = float(self.location), float(self.width)
        return Shift(path + "location", location), Logistic(path + "width", width, self.falling)

    def _mapped(self, X: Any) -> Any:
        return self.seen_through(View(), "").apply(X, "X")


def change_point(before: Kernel, after: Kernel, location: float, width: float = 1.0) -> Kernel:
    """A kernel that is ``before`` far below ``location`` and ``after`` far above it.

    (1 - s(x)) before(x, z) (1 - s(z)) + s(x) after(x, z) s(z), with the s of `Transition`: the
    covariance of a function that goes over from one random function to another. It is a sum of
    products of kernels, so it has their proof.

    Parameters
    ----------
    before, after : Kernel
    location : float
    width : float, default=1.0

    Examples
    --------
    >>> from mercer import kernels as K
    >>> k = K.change_point(K.RBF(), K.Linear(), location=5.0, width=0.1)
    >>> k([[1.0], [9.0]]).round(6).tolist()
    [[1.0, 0.0], [0.0, 81.0]]
    >>> k.validity.status
    'valid'

    References
    ----------
    Lloyd, Duvenaud, Grosse, Tenenbaum and Ghahramani (2014), "Automatic construction and
    natural-language description of nonparametric regression models", AAAI.
    """
    return before * Transition(location, width, falling=True) + after * Transition(location, width)
