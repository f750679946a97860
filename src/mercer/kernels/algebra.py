"""Sums, products and powers of kernels, each with its proof and its feature map."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from typing import Any

import numpy as np

from mercer._sklearn import Interval
from mercer.arrays import as_numbers
from mercer.expressions import Expression, View
from mercer.kernels import feature_maps as maps
from mercer.kernels.domains import ANYTHING, Domain
from mercer.kernels.expansions import Expansion, TooManyTerms, judge_powers
from mercer.kernels.kernel import Kernel
from mercer.kernels.validity import Validity, indefinite, valid
from mercer.kernels.vector_kernel import Parameters

ANY_DISTANCE = "any"  # what a constant is a function of


def as_kernel(operand: Any) -> Kernel:
    """A kernel as itself, a number as a constant kernel."""
    if isinstance(operand, Kernel):
        return operand
    value = as_numbers(operand)  # of a tensor, which torch may differentiate by
    if isinstance(value, Real) and not isinstance(value, bool):
        return Constant(as_float(value) if value is operand else operand)
    raise TypeError(
        f"a kernel cannot be combined with {operand!r} of type {type(operand).__name__}; "
        "expected a kernel or a number"
    )


def as_float(number: Real) -> float:
    try:
        return float(number)
    except OverflowError as error:
        raise ValueError("a number beyond the range of float64, 1.8e308") from error


def add(left: Any, right: Any) -> Any:
    """left + right; adding the number 0 changes nothing, so that ``sum([...])`` works."""
    if isinstance(left, Real) and left == 0:
        return right
    if isinstance(right, Real) and right == 0:
        return left
    return _combinable(Sum(as_kernel(left), as_kernel(right)))


def subtract(left: Any, right: Any) -> Kernel:
    return add(left, multiply(-1.0, right))


def multiply(left: Any, right: Any) -> Kernel:
    """left * right, a number always on the left."""
    left, right = as_kernel(left), as_kernel(right)
    if isinstance(right, Constant) and not isinstance(left, Constant):
        left, right = right, left
    return _combinable(Product(left, right))


def divide(kernel: Kernel, number: Any) -> Kernel:
    """kernel / number, which is scaling by 1 / number."""
    if isinstance(number, bool) or not isinstance(number, Real) or number == 0:
        raise TypeError(
            f"a kernel cannot be divided by {number!r}; expected a number other than zero"
        )
    with np.errstate(over="ignore"):
        factor = 1 / as_float(number)
    if not np.isfinite(factor):
        raise ValueError(f"a kernel cannot be divided by {number!r}: one over it overflows")
    return multiply(factor, kernel)


def _combinable(kernel: Kernel) -> Kernel:
    _ = kernel.domain  # raises where the parts have no points in common
    return kernel


class Constant(Kernel):
    r"""k(x, z) = value.

    Parameters
    ----------
    value : float, default=1.0
        A kernel when non-negative.

    Examples
    --------
    >>> Constant(2.0)([[0.0], [1.0]]).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    _parameter_constraints: dict = {"value": [Interval(Real, None, None, closed="neither")]}

    def __init__(self, value: float = 1.0):
        self.value = value

    def build(self, view: View, path: str) -> Expression:
        self._validate_params()
        return Parameters(self, path).value

    @property
    def domain(self) -> Domain:
        return ANYTHING

    def judge(self) -> Validity:
        self._validate_params()
        if self.value >= 0:
            return valid(f"{self!r} is a kernel", "the product of the constant feature sqrt(value)")
        return indefinite(self, np.zeros((1, 1)), "one point has a negative square")

    @property
    def is_stationary(self) -> bool:
        return True

    @property
    def distance(self) -> str:
        return ANY_DISTANCE

    @property
    def is_infinitely_divisible(self) -> bool:
        return self.value > 0

    def expand(self) -> Expansion:
        self._validate_params()
        return Expansion.of_number(self.value)

    def feature_map(self) -> maps.FeatureMap:
        if self.value < 0:
            return super().feature_map()
        return maps.ConstantMap(self.value)

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        return np.zeros((n, d))


class _Binary(Kernel):
    def __init__(self, left: Kernel, right: Kernel):
        self.left = left
        self.right = right

    @property
    def domain(self) -> Domain:
        for part in (self.left, self.right):
            if getattr(part, "is_precomputed", False):
                raise TypeError(
                    "Precomputed() cannot be part of a sum or product; add the matrices instead"
                )
        return self.left.domain.intersect(self.right.domain)

    @property
    def is_stationary(self) -> bool:
        return self.left.is_stationary and self.right.is_stationary

    @property
    def distance(self) -> Hashable | None:
        left, right = self.left.distance, self.right.distance
        if left == ANY_DISTANCE:
            return right
        return left if right in (left, ANY_DISTANCE) else None

    def feature_map(self) -> maps.FeatureMap:
        terms = [t for t in linear_combination(self) if t.factor != 0]
        if any(t.factor < 0 for t in terms):
            return self._map_of_monomials() or super().feature_map()
        return reduce(maps.SumMap, [t.feature_map() for t in terms] or [maps.ConstantMap(0.0)])

    def _map_of_monomials(self) -> maps.FeatureMap | None:
        """The map of a polynomial in x·z without negative coefficients; None of other kernels."""
        try:
            powers = self.expand().by_degree(("Linear",))
        except TooManyTerms:
            return None
        if powers is None or any(c.value < 0 for c in powers.values()):
            return None
        return maps.MonomialMap({q: math.log(c.value) for q, c in powers.items()})

    def _parts(self, view: View, path: str) -> tuple[Expression, Expression]:
        return self.left.build(view, path + "left__"), self.right.build(view, path + "right__")


class Sum(_Binary):
    """left(x, z) + right(x, z).

    Parameters
    ----------
    left, right : Kernel
    """

    precedence = 0

    def build(self, view: View, path: str) -> Expression:
        left, right = self._parts(view, path)
        return left + right

    def judge(self) -> Validity:
        left, right = self.left.judge(), self.right.judge()
        if left.status == right.status == "valid":
            return valid(f"{self!r} is a kernel", "sum of kernels", left.proof, right.proof)
        return judge_expanded(self, "sum")

    def expand(self) -> Expansion:
        return self.left.expand() + self.right.expand()

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        # The spectrum of a sum is the mixture of the spectra, each as likely as it is heavy.
        terms, weights = spectral_terms(self, d)
        out = np.zeros((n, d))
        if weights.sum() > 0:
            owner = rng.choice(len(terms), size=n, p=weights / weights.sum())
            for i, term in enumerate(terms):
                own = owner == i
                out[own] = term.kernel.frequencies(rng, int(np.count_nonzero(own)), d)
        return out

    def __repr__(self) -> str:
        left = "Constant(value=0.0)" if _is_number(self.left, 0.0) else _operand(self.left, 0)
        right = self.right
        if isinstance(right, Product) and _is_number(right.left, -1.0):
            if not isinstance(right.right, Constant):
                return f"{left} - {_operand(right.right, 1)}"
            if right.right.value > 0 and not isinstance(self.left, Constant):
                return f"{left} - {float(as_numbers(right.right.value))!r}"
        if isinstance(self.left, Constant) and not isinstance(right, Constant):
            left = repr(float(as_numbers(self.left.value))) if self.left.value else left
        if isinstance(right, Constant) and right.value and not isinstance(self.left, Constant):
            return f"{left} + {float(as_numbers(right.value))!r}"
        return f"{left} + {_operand(right, 1)}"


class Product(_Binary):
    """left(x, z) * right(x, z).

    Parameters
    ----------
    left, right : Kernel
    """

    precedence = 1

    def build(self, view: View, path: str) -> Expression:
        left, right = self._parts(view, path)
        return left * right

    @property
    def is_infinitely_divisible(self) -> bool:
        return self.left.is_infinitely_divisible and self.right.is_infinitely_divisible

    def judge(self) -> Validity:
        left, right = self.left.judge(), self.right.judge()
        claim = f"{self!r} is a kernel"
        if left.status == right.status == "valid":
            if isinstance(self.left, Constant):
                return valid(claim, "non-negative scaling", right.proof)
            return valid(claim, "product of kernels", left.proof, right.proof)
        return judge_expanded(self, "product")

    def expand(self) -> Expansion:
        return self.left.expand() * self.right.expand()

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        # The spectrum of a product is the convolution of the spectra: frequencies add.
        return self.left.frequencies(rng, n, d) + self.right.frequencies(rng, n, d)

    def __repr__(self) -> str:
        if isinstance(self.left, Constant) and not isinstance(self.right, Constant):
            left = repr(float(as_numbers(self.left.value)))
        else:
            left = _operand(self.left, 1)
        return f"{left} * {_operand(self.right, 2)}"


def judge_expanded(kernel: Kernel, what: str) -> Validity:
    """What the coefficients show of a sum, product or power whose parts are not all valid."""
    undecided = f"no rule proves this {what} valid, and no counterexample was found"
    try:
        expansion = kernel.expand()
    except TooManyTerms:
        return kernel.searched(undecided)
    if all(c.value > 0 for c in expansion.coefficients.values()):
        used = {key for monomial in expansion.coefficients for key, _ in monomial}
        judged = [k.judge() for key, k in expansion.kernels.items() if key in used]
        if all(v.status == "valid" for v in judged):
            return valid(
                f"{kernel!r} = {written(expansion)} is a kernel",
                "expanded and like terms collected: no coefficient is negative",
                *(v.proof for v in judged),
            )
        return kernel.searched(undecided)
    powers = expansion.by_degree(("Linear",))
    return kernel.searched(undecided) if powers is None else judge_powers(kernel, powers)


def written(expansion: Expansion) -> str:
    """An expansion as text: ``0.3 + 0.5 * Linear() + 0.3 * Linear() ** 2``."""
    terms = []
    for c, factors in expansion.terms():
        shown = [bracketed(k) if p == 1 else f"{bracketed(k)} ** {p}" for k, p in factors]
        number = [] if c == 1 and shown else [f"{c:.6g}"]
        terms.append(" * ".join(number + shown))
    return " + ".join(terms) or "0"


def bracketed(kernel: Kernel) -> str:
    """A kernel as text that a method call or a power can follow."""
    return _operand(kernel, 3)


def _is_number(kernel: Kernel, value: float) -> bool:
    return isinstance(kernel, Constant) and kernel.value == value


def _operand(kernel: Kernel, level: int) -> str:
    """An operand as text, in brackets where it binds less tightly than its place needs."""
    text = repr(kernel)
    return f"({text})" if kernel.precedence < level else text


@dataclass(frozen=True)
class Term:
    """factor * kernel, where the kernel is neither a sum nor has a constant factor of its own."""

    factor: float
    kernel: Kernel

    def feature_map(self) -> maps.FeatureMap:
        k = self.kernel
        if isinstance(k, Product):
            phi = maps.ProductMap(k.left.feature_map(), k.right.feature_map())
        else:
            phi = k.feature_map()
        return phi if self.factor == 1 else maps.ProductMap(maps.ConstantMap(self.factor), phi)


def constant_factor(kernel: Kernel) -> tuple[float, Kernel]:
    """A product's constants multiplied together, and the kernel that remains."""
    if isinstance(kernel, Constant):
        return float(as_numbers(kernel.value)), Constant(1.0)
    if not isinstance(kernel, Product):
        return 1.0, kernel
    a, left = constant_factor(kernel.left)
    b, right = constant_factor(kernel.right)
    if left is kernel.left and right is kernel.right:
        return 1.0, kernel
    if _is_number(left, 1.0):
        return a * b, right
    if _is_number(right, 1.0):
        return a * b, left
    return a * b, Product(left, right)


def linear_combination(kernel: Kernel) -> list[Term]:
    """A kernel as Σ c_i k_i with like terms collected."""
    collected: dict[tuple, Term] = {}

    def visit(part: Kernel, scale: float) -> None:
        factor, rest = constant_factor(part)
        if isinstance(rest, Sum):
            visit(rest.left, scale * factor)
            visit(rest.right, scale * factor)
            return
        key = rest.key()
        before = collected[key].factor if key in collected else 0.0
        collected[key] = Term(before + scale * factor, rest)

    visit(kernel, 1.0)
    return list(collected.values())


def spectral_terms(kernel: Kernel, d: int) -> tuple[list[Term], np.ndarray]:
    """The terms of a stationary kernel, and what each of them contributes to k(0)."""
    terms = linear_combination(kernel)
    origin = np.zeros((1, d))
    weights = np.array([t.factor * t.kernel.diag(origin)[0] for t in terms])
    if np.any(weights < 0):
        raise ValueError(
            f"random Fourier features need non-negative weights in a sum, and {kernel!r} has a "
            f"term that adds {weights.min():g} to k(0); use method='nystrom'"
        )
    return terms, weights
