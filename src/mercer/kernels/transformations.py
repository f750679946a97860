"""Kernels made of one other kernel: exponential, normalised, rescaled, composed, on columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from mercer.arrays import n_rows
from mercer.expressions import (
    Check,
    Expression,
    Map,
    PairMatrix,
    Point,
    Statistic,
    View,
    diagonal,
    lower,
    normalised,
)
from mercer.expressions import Constant as Number
from mercer.expressions import exp as exp_node
from mercer.expressions import statistic as statistic_node
from mercer.kernels import feature_maps as maps
from mercer.kernels.algebra import bracketed, spectral_terms
from mercer.kernels.domains import ANYTHING, REALS, Domain
from mercer.kernels.kernel import Kernel
from mercer.kernels.validity import Validity, valid

# Normalisations within each other: the formulas of four can take minutes to write out.
MOST_NORMALISATIONS = 3


def exp(operand: Kernel | Expression) -> Any:
    """exp(k(x, z)) of a kernel; of a formula in `sqnorm`, the formula's exponential.

    exp(k) overflows for k > 709 in float64 (88 in float32). Its normalised form does not: see
    `Normalized`.
    """
    if isinstance(operand, Expression):
        return exp_node(operand)
    if not isinstance(operand, Kernel):
        raise TypeError(f"exp takes a kernel or a formula in sqnorm; got {operand!r}")
    return Exp(operand)


class Unary(Kernel, abstract=True):
    """A kernel made of one other; subclasses say what they do to its formula."""

    rule = ""
    kernel: Kernel

    def transform(self, inner: Expression, view: View) -> Expression:
        raise NotImplementedError

    def build(self, view: View, path: str) -> Expression:
        return self.transform(self.kernel.build(view, path + "kernel__"), view)

    @property
    def domain(self) -> Domain:
        return self.kernel.domain

    @property
    def is_infinitely_divisible(self) -> bool:
        return self.kernel.is_infinitely_divisible

    def judge(self) -> Validity:
        inner = self.kernel.judge()
        if inner.status == "valid":
            return valid(f"{self!r} is a kernel", self.rule, inner.proof)
        return self.searched(
            f"the rule ({self.rule}) needs a valid kernel inside, and no counterexample was found"
        )


class Exp(Unary):
    """exp(k(x, z)).

    Parameters
    ----------
    kernel : Kernel
    """

    rule = "exponential: a limit of polynomials with non-negative coefficients"

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def transform(self, inner: Expression, view: View) -> Expression:
        return exp_node(inner)

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    @property
    def distance(self) -> Hashable | None:
        return self.kernel.distance

    @property
    def is_infinitely_divisible(self) -> bool:
        return self.kernel.judge().status == "valid"

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        # exp(k) = Σ_m k^m / m!, in which the power m has the weight of a Poisson variable at m.
        _, weights = spectral_terms(self.kernel, d)
        powers = rng.poisson(weights.sum(), size=n)
        out = np.zeros((n, d))
        draws = self.kernel.frequencies(rng, int(powers.sum()), d)
        np.add.at(out, np.repeat(np.arange(n), powers), draws)
        return out

    def __repr__(self) -> str:
        return f"exp({self.kernel!r})"


class Normalized(Unary):
    """k(x, z) / sqrt(k(x, x) k(z, z)), zero where k(x, x) or k(z, z) is.

    Factors and terms are normalised one by one, so that nothing overflows on the way. The
    normalised exponential of k is exp(-D), with D = k(x,x)/2 + k(z,z)/2 - k(x,z).

    Parameters
    ----------
    kernel : Kernel
        Not one that is zero everywhere. At most three normalisations within each other.

    Notes
    -----
    Accuracy, with eps the rounding of the points' dtype:

    * ``diag(X)`` and the diagonal of ``k(X)`` are 1 up to a few eps, and exactly 1 for an
      exponential.
    * D is computed from distances for sums, products and integer powers of Linear, Polynomial, Min
      and kernels of a distance. It is exactly 0 at equal points, and its error is about
      eps sqrt(D k(x,x)) nearby.
    * For other exponents, such as Conjunction, and for points that are nearly opposed, the error of
      D is about eps k(x,x). So exp(k).normalize() has few digits where k(x,x) is above 1e12.
    * No value of an exponential is above 1 where its exponent is a kernel by one of these rules.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> K.exp(K.Polynomial(4)).normalize()([[30.0, 9.0], [30.0, 9.00001]]).round(6).tolist()
    [[1.0, 0.789576], [0.789576, 1.0]]
    """

    rule = "normalisation: f(x) k(x,z) f(z) with f(x) = k(x,x)^(-1/2), 0 where k(x,x) = 0"

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def build(self, view: View, path: str) -> Expression:
        levels = _normalisations(self)
        if levels > MOST_NORMALISATIONS:
            raise ValueError(
                f"{levels} normalisations within each other; at most {MOST_NORMALISATIONS} are "
                "possible, since each multiplies the length of the formula: normalise the parts "
                "only, or the whole"
            )
        return super().build(view, path)

    def transform(self, inner: Expression, view: View) -> Expression:
        self._refuse_zero(inner)
        return normalised(inner)

    def _refuse_zero(self, inner: Expression) -> None:
        kernel = self.kernel
        try:
            # Kernels of objects may hold large tables, which an expansion would compare.
            expanded = kernel.domain.is_vectors and kernel.expand().is_zero
            is_zero = expanded or lower(inner) == Number(0.0)
        except ValueError:  # an expansion too long to write out, or a diagonal that is negative
            return
        if is_zero:
            raise ValueError(
                f"{kernel!r} is zero everywhere and cannot be normalised: k(x,z) / "
                "sqrt(k(x,x) k(z,z)) is 0/0 for all points; check the signs of its terms"
            )

    def judge(self) -> Validity:
        self._refuse_zero(self.kernel.expression())
        return super().judge()

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    @property
    def distance(self) -> Hashable | None:
        return self.kernel.distance

    def feature_map(self) -> maps.FeatureMap:
        return maps.RescaledMap(self.kernel.feature_map(), self._factor)

    def _factor(self, X: Any) -> np.ndarray:
        squared = self.kernel.diag(X)
        return np.divide(1, np.sqrt(squared), out=np.zeros_like(squared), where=squared > 0)

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        return self.kernel.frequencies(rng, n, d)

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)}.normalize()"


def _normalisations(kernel: Kernel) -> int:
    """How many normalisations are within each other."""
    parts = [part for part in vars(kernel).values() if isinstance(part, Kernel)]
    return isinstance(kernel, Normalized) + max(map(_normalisations, parts), default=0)


sqnorm = statistic_node("dot")
"""‖x‖², for formulas given to ``rescale``: ``rescale(exp(-0.5 * sqnorm))``."""


class Rescaled(Unary):
    """f(x) k(x, z) f(z).

    Parameters
    ----------
    kernel : Kernel
    function : callable or Expression
        A function from n points to n numbers, or a formula in `sqnorm`. A formula is part of the
        kernel's expression, so its exponentials fuse with the kernel's own and do not overflow.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> gaussian = K.exp(1.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm))
    >>> float(gaussian([[1000.0]], [[1001.0]])[0, 0]) == float(K.RBF(0.5)([[0.0]], [[1.0]])[0, 0])
    True
    """

    rule = "f(x) k(x,z) f(z)"

    def __init__(self, kernel: Kernel, function: Any):
        self.kernel = kernel
        self.function = function

    def transform(self, inner: Expression, view: View) -> Expression:
        if isinstance(self.function, Expression):
            f = with_view(self.function, view.then(Check(REALS)))
            return inner * diagonal(f, 0) * diagonal(f, 1)
        if not callable(self.function):
            raise TypeError(
                f"rescale needs a function of points or a formula in sqnorm; got {self.function!r}"
            )
        return inner * Point(self.function, view, 0) * Point(self.function, view, 1)

    @property
    def is_infinitely_divisible(self) -> bool:
        return False  # unless f is positive, which nobody has said

    def feature_map(self) -> maps.FeatureMap:
        return maps.RescaledMap(self.kernel.feature_map(), self._factor)

    def _factor(self, X: Any) -> np.ndarray:
        if isinstance(self.function, Expression):
            f = with_view(self.function, View().then(Check(REALS)))
            return PairMatrix(diagonal(f, 0), X).diagonal()
        return np.asarray(self.function(X), dtype=float)

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)}.rescale({_function_text(self.function)})"


class Composed(Unary):
    """k(phi(x), phi(z)).

    Parameters
    ----------
    kernel : Kernel
    function : callable
        phi, from n points to n points of the kernel's domain.
    """

    rule = "composition with a map"

    def __init__(self, kernel: Kernel, function: Callable[[Any], Any]):
        self.kernel = kernel
        self.function = function

    def build(self, view: View, path: str) -> Expression:
        if not callable(self.function):
            raise TypeError(f"compose needs a function of points; got {self.function!r}")
        return self.kernel.build(view.then(Map(self._mapped)), path + "kernel__")

    def _mapped(self, X: Any) -> Any:
        mapped = self.function(X)
        if n_rows(mapped) != n_rows(X):
            raise ValueError(
                f"the function given to compose returned {n_rows(mapped)} points for {n_rows(X)}"
            )
        return mapped

    @property
    def domain(self) -> Domain:
        return ANYTHING

    def judge(self) -> Validity:
        inner = self.kernel.judge()
        if inner.status == "valid":
            return valid(f"{self!r} is a kernel", self.rule, inner.proof)
        return Validity(
            "unknown", reason="the kernel composed is not valid, but may be on the map's range"
        )

    def feature_map(self) -> maps.FeatureMap:
        return maps.ComposedMap(self._mapped, self.kernel.feature_map())

    def __repr__(self) -> str:
        return f"{bracketed(self.kernel)}.compose({_function_text(self.function)})"


def _function_text(function: Any) -> str:
    if isinstance(function, Expression):
        return f"<{function}>"
    return f"<{getattr(function, '__name__', type(function).__name__)}>"


def with_view(e: Expression, view: View) -> Expression:
    """A formula in statistics of the raw points, moved to the points a view shows."""
    if isinstance(e, Statistic):
        return Statistic(e.kind, view)
    return e.rebuild(tuple(with_view(c, view) for c in e.children()))
