"""Kernels written out as polynomials in simpler kernels, with exact coefficients.

``0.3 * Polynomial(2) - 0.1 * Linear()`` is ``0.3 + 0.5 * Linear() + 0.3 * Linear() ** 2``. Where no
coefficient is negative, that is a proof. The coefficients are rational numbers, made of the
parameters as they are stored, so that no rounding decides about a sign.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from mercer.arrays import as_numbers
from mercer.kernels.validity import Validity, is_clearly_negative, shrink

Monomial = frozenset[tuple[Hashable, int]]  # keys of kernels, and their powers
MOST_TERMS = 500
LARGEST_DEGREE = 100
# A coefficient below so many roundings of the terms that it is the sum of may be meant as zero.
ROUNDINGS = 8
# Points of a counterexample on a circle, and logarithms to base 2 of the squared radii tried: the
# one closest to 1 whose eigenvalue is, up to a factor, as clearly negative as any.
MOST_POINTS = 64
RADII = np.arange(-40, 40.25, 0.25)
AS_CLEAR = 0.9


class TooManyTerms(ValueError):
    """An expansion is too long to be of use."""


class Coefficient(NamedTuple):
    """A coefficient, and the sum of the absolute values that it is the sum of."""

    value: Fraction
    size: Fraction

    @property
    def is_rounding(self) -> bool:
        """Whether it may be zero but for the rounding of the parameters to floating point."""
        return abs(self.value) <= ROUNDINGS * Fraction(np.finfo(float).eps) * self.size


@dataclass(frozen=True)
class Expansion:
    """Σ c Π k_i^(p_i), a polynomial in kernels k_i.

    Attributes
    ----------
    kernels : dict of key to kernel
    coefficients : dict of monomial to Coefficient, none of them zero
    """

    kernels: dict[Hashable, Any]
    coefficients: dict[Monomial, Coefficient]

    @classmethod
    def of_number(cls, value: float) -> Expansion:
        c = Fraction(as_numbers(value))
        return cls({}, _collected([(frozenset(), c, abs(c))]))

    @classmethod
    def of_kernel(cls, kernel: Any) -> Expansion:
        key = kernel.key()
        return cls({key: kernel}, {frozenset([(key, 1)]): Coefficient(Fraction(1), Fraction(1))})

    def __add__(self, other: Expansion) -> Expansion:
        both = [*self.coefficients.items(), *other.coefficients.items()]
        terms = [(monomial, c.value, c.size) for monomial, c in both]
        return Expansion(self.kernels | other.kernels, _collected(terms))

    def __mul__(self, other: Expansion) -> Expansion:
        if self.degree + other.degree > LARGEST_DEGREE:
            raise TooManyTerms
        terms = (
            (_product(a, b), c.value * d.value, c.size * d.size)
            for a, c in self.coefficients.items()
            for b, d in other.coefficients.items()
        )
        return Expansion(self.kernels | other.kernels, _collected(terms))

    def __pow__(self, exponent: int) -> Expansion:
        if exponent > LARGEST_DEGREE:
            raise TooManyTerms
        result = Expansion.of_number(1.0)
        for _ in range(exponent):
            result = result * self
        return result

    @property
    def degree(self) -> int:
        return max((sum(p for _, p in monomial) for monomial in self.coefficients), default=0)

    @property
    def is_zero(self) -> bool:
        return not self.coefficients

    def terms(self) -> list[tuple[float, list[tuple[Any, int]]]]:
        """Each coefficient with its kernels and their powers, by degree."""
        found = [
            (float(c.value), [(self.kernels[key], power) for key, power in monomial])
            for monomial, c in self.coefficients.items()
        ]
        return sorted(found, key=lambda term: sum(power for _, power in term[1]))

    def by_degree(self, key: Hashable) -> dict[int, Coefficient] | None:
        """The coefficients of a polynomial in one kernel; None where there are others."""
        if any(other != key for monomial in self.coefficients for other, _ in monomial):
            return None
        return {sum(p for _, p in monomial): c for monomial, c in self.coefficients.items()}


def _product(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for key, power in b:
        powers[key] = powers.get(key, 0) + power
    return frozenset(powers.items())


def _collected(terms: Iterable[tuple[Monomial, Fraction, Fraction]]) -> dict[Monomial, Coefficient]:
    found: dict[Monomial, Coefficient] = {}
    for monomial, value, size in terms:
        before = found.get(monomial, Coefficient(Fraction(0), Fraction(0)))
        found[monomial] = Coefficient(before.value + value, before.size + size)
        if len(found) > MOST_TERMS:
            raise TooManyTerms
    return {monomial: c for monomial, c in found.items() if c.value}


def judge_powers(kernel: Any, coefficients: dict[int, Coefficient]) -> Validity:
    """Σ a_q (x·z)^q with some a_q < 0, on points that show that it is not a kernel.

    The monomials of x are linearly independent, so it is a kernel only if no a_q is negative.
    """
    q, c = min(coefficients.items(), key=lambda term: term[1].value)
    reason = f"the coefficient of (x·z)^{q} is {float(c.value):.6g}"
    if all(c.is_rounding for c in coefficients.values() if c.value < 0):
        return Validity(
            "unknown", reason=f"{reason}: zero up to the rounding of the kernel's parameters"
        )
    try:
        points = _points_against({q: float(c.value) for q, c in coefficients.items()})
        K, E = kernel(points), kernel.rounding(points)
    except (OverflowError, ValueError):  # beyond the range of float64, or outside the domain
        found = kernel.searched(f"{reason}, but no counterexample was found")
    else:
        if is_clearly_negative(K, E):
            return Validity("indefinite", counterexample=shrink(points, K, E), reason=reason)
        found = kernel.searched(f"{reason}, too small to show beyond rounding in a Gram matrix")
    return found if found.counterexample is None else replace(found, reason=reason)


def _points_against(coefficients: dict[int, float]) -> np.ndarray:
    """Points whose Gram matrix Σ a_q (x·z)^q has an eigenvalue as negative as a circle shows.

    On a circle the Gram matrix is circulant: its eigenvalues are the Fourier coefficients of one
    row. That of frequency q has the sign of a_q where the circle is small.
    """
    degree = max(coefficients)
    if degree == 0:
        return np.zeros((1, 1))
    a = np.array([coefficients.get(q, 0.0) for q in range(degree + 1)])
    angles = np.linspace(0, 2 * np.pi, min(2 * degree + 2, MOST_POINTS), endpoint=False)
    squared = 2.0**RADII
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.polynomial.polynomial.polyval(squared[:, None] * np.cos(angles), a)
        rows /= np.abs(rows).max(axis=1)[:, None]
    eigenvalues = np.fft.fft(np.where(np.isfinite(rows), rows, 0.0)).real
    clearness = -eigenvalues.min(axis=1) / np.maximum(np.abs(eigenvalues).max(axis=1), 1e-300)
    clear = np.flatnonzero(clearness >= AS_CLEAR * clearness.max())
    best = clear[np.argmin(np.abs(RADII[clear]))]
    return np.sqrt(squared[best]) * np.column_stack([np.cos(angles), np.sin(angles)])
