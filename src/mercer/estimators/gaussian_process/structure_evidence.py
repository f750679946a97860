"""The evidence of sums of products of simple kernels, for the many fits of a structure search.

A candidate is fitted to a few hundred points in some hundred evaluations. Compiling its formula
anew for each would take longer than computing with it, so each factor has its values and slopes
here as NumPy expressions, from distances and products that all candidates share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack

from mercer.estimators.gaussian_process.answers import summands
from mercer.estimators.gaussian_process.structure_moves import (
    factors,
    feature_of,
    leaf,
)
from mercer.kernels import (
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Transition,
)
from mercer.solvers.evidence.problem import Evidence

# From the numbers of a factor to its values, and the slopes by their logarithms.
Values = tuple[np.ndarray, list[np.ndarray]]


def smooth(D: np.ndarray, length: float) -> Values:
    t = np.sqrt(5) / length * D
    falling = np.exp(-t)
    return (1 + t * (1 + t / 3)) * falling, [t * t * (1 + t) / 3 * falling]


def rational_quadratic(D: np.ndarray, alpha: float, length: float) -> Values:
    s = (0.5 / (alpha * length**2)) * D**2
    K = (1 + s) ** -alpha
    ratio = s / (1 + s)
    return K, [alpha * K * (ratio - np.log1p(s)), 2 * alpha * K * ratio]


def periodic(D: np.ndarray, period: float, length: float) -> Values:
    angle = np.pi / period * D
    sine = np.sin(angle)
    s = 2 * sine**2 / length**2
    K = np.exp(-s)
    return K, [4 * sine * np.cos(angle) * angle * K / length**2, 2 * s * K]


def transition(x: np.ndarray, location: float, width: float, falling: bool) -> Values:
    t = (x - location) / width
    sign = -1.0 if falling else 1.0
    s = 0.5 + 0.5 * np.tanh(0.5 * sign * t)
    slope = sign * s * (1 - s)
    K = np.outer(s, s)
    moved = [np.outer(slope * move, s) for move in (-location / width * np.ones(len(x)), -t)]
    return K, [change + change.T for change in moved]


class Slot(NamedTuple):
    """A number of the kernel that is learnt: its term, factor and place in the factor's slopes.

    Of an amplitude the factor is -1.
    """

    term: int
    factor: int
    place: int


# The numbers of each kind of factor, in the order of its slopes.
NAMES = {
    Matern: ("length_scale",),
    RationalQuadratic: ("alpha", "length_scale"),
    Periodic: ("period", "length_scale"),
    Linear: (),
    Polynomial: ("gamma",),
    Transition: ("location", "width"),
}


class Pairs:
    """Distances and products of all pairs of points, for each feature.

    Parameters
    ----------
    X : (n, d) array
    """

    def __init__(self, X: np.ndarray):
        self.X = X
        self.distances = [np.abs(x[:, None] - x) for x in X.T]
        self.products = [np.outer(x, x) for x in X.T]

    def values(self, factor: Kernel) -> Values:
        """A factor's Gram matrix, and its slopes by the logarithms of its `NAMES`."""
        kernel, j = leaf(factor), feature_of(factor)
        match kernel:
            case Matern():
                return smooth(self.distances[j], kernel.length_scale)
            case RationalQuadratic():
                return rational_quadratic(self.distances[j], kernel.alpha, kernel.length_scale)
            case Periodic():
                return periodic(self.distances[j], kernel.period, kernel.length_scale)
            case Polynomial():
                slope = kernel.gamma * self.products[j]
                return kernel.coef0 + slope, [slope]
            case Transition():
                args = (kernel.location, kernel.width, kernel.falling)
                return transition(self.X[:, j], *args)
            case Linear():
                return self.products[j], []
        raise TypeError(f"{kernel!r} is no factor of a structure")


class SumEvidence:
    """log p(y | theta) for a sum of terms with noise and a constant of unknown value.

    theta has the logarithms of the numbers of the kernel, in the order of ``slots``, and of the
    noise.

    Parameters
    ----------
    pairs : Pairs
    y : (n,) array
    at : callable
        The kernel at the logarithms of its numbers.
    slots : list of Slot
    """

    def __init__(
        self, pairs: Pairs, y: np.ndarray, at: Callable[[np.ndarray], Kernel], slots: list[Slot]
    ):
        self.pairs, self.y, self.at, self.slots = pairs, y, at, slots

    def __call__(self, theta: np.ndarray, gradient: bool = True) -> Evidence:
        with np.errstate(all="ignore"):
            terms, slopes = self._terms(self.at(theta[:-1]))
        n, noise = len(self.y), float(np.exp(theta[-1]))
        C = sum(terms, np.zeros((n, n)))
        C[np.diag_indices(n)] += noise
        U, info = lapack.dpotrf(C, lower=0) if np.isfinite(C).all() else (C, 1)
        if info:
            return Evidence(-np.inf, np.zeros(len(theta)))
        solved = cho_solve((U, False), np.column_stack([self.y, np.ones(n)]))
        total = solved[:, 1].sum()
        alpha = solved[:, 0] - solved[:, 1] * (solved[:, 0].sum() / total)
        log_det = 2 * np.log(U.diagonal()).sum() + np.log(total)
        value = -0.5 * (self.y @ alpha + log_det + (n - 1) * np.log(2 * np.pi))
        if not gradient:
            return Evidence(float(value))
        inverse, _ = lapack.dpotri(U, lower=0)
        W = np.triu(inverse) + np.triu(inverse, 1).T
        W = np.outer(alpha, alpha) + np.outer(solved[:, 1], solved[:, 1]) / total - W
        found = np.array([0.5 * np.vdot(W, slopes[slot]) for slot in self.slots])
        return Evidence(float(value), np.append(found, 0.5 * noise * np.trace(W)))

    def _terms(self, kernel: Kernel) -> tuple[list[np.ndarray], dict[Slot, np.ndarray]]:
        """The Gram matrix of each term, and the slopes of all slots."""
        terms, slopes = [], {}
        for i, term in enumerate(summands(kernel)):
            amplitude = _amplitude(term)
            known = [self.pairs.values(factor) for factor in factors(term)]
            matrices = [K for K, _ in known]
            terms.append(_product(amplitude, matrices))
            slopes[Slot(i, -1, 0)] = terms[-1]
            for f, (_, changes) in enumerate(known):
                if changes:
                    rest = _product(amplitude, [*matrices[:f], *matrices[f + 1 :]])
                for place, change in enumerate(changes):
                    slopes[Slot(i, f, place)] = rest * change
        return terms, slopes


def _product(amplitude: float, matrices: list[np.ndarray]) -> Any:
    found: Any = amplitude
    for K in matrices:
        found = found * K
    return found


def _amplitude(term: Any) -> float:
    while not hasattr(term, "value"):
        term = term.left
    return float(term.value)


def slots(kernel: Kernel, paths: list[str]) -> list[Slot]:
    """Which number of which factor each path of a sum of terms is."""
    terms, found = summands(kernel), []
    for path in paths:
        names, i = path.split("__"), 0
        owner: Any = kernel
        for name in names[:-1]:
            owner = getattr(owner, name)
            i = next((k for k, term in enumerate(terms) if owner is term), i)
        if names[-1] == "value":
            found.append(Slot(i, -1, 0))
            continue
        f = next(f for f, factor in enumerate(factors(terms[i])) if leaf(factor) is owner)
        found.append(Slot(i, f, NAMES[type(owner)].index(names[-1])))
    return found
