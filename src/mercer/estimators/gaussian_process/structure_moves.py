"""Kernels that are sums of products of simple ones, and the steps of a search among them.

A term is an amplitude times factors, each a function of one feature in [0, 1]. A step adds a term,
multiplies a term by a factor, switches a term on or off at a change point, or gives it other
parameters after one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ive

from mercer.estimators.gaussian_process.answers import summands
from mercer.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern,
    OnColumns,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    Transition,
)
from mercer.kernels.algebra import constant_factor
from mercer.kernels.hyperparameters import learnable, value_at

COMPONENTS = ("linear", "smooth", "periodic", "rational_quadratic", "change_point")
# Length scales, amplitudes and locations to begin with, in units of the feature's range and of the
# variance of y.
LENGTHS, AMPLITUDE, CHANGES = (0.3, 0.05), 0.3, (0.25, 0.5, 0.75)
CHANGE_WIDTH = 0.02
# A function of period p is looked for if the data have two periods, and three of the highest peaks
# of the periodogram are tried.
MOST_PERIOD, PEAKS, MOST_FREQUENCIES, OVERSAMPLING = 0.5, 3, 4000, 4
# A feature with fewer values has no periods and no change points.
FEWEST_VALUES = 12


@dataclass(frozen=True)
class Feature:
    """A feature of the points, scaled to [0, 1].

    Attributes
    ----------
    index : int
    alone : bool
        Whether it is the only one.
    gap : float
        Typical distance between neighbouring values.
    n_values : int
        Number of different values.
    """

    index: int
    alone: bool
    gap: float
    n_values: int

    @classmethod
    def all_of(cls, X: np.ndarray) -> list[Feature]:
        """The features of points in [0, 1] that are not constant."""
        found = []
        for j, column in enumerate(X.T):
            values = np.unique(column)
            if len(values) > 1:
                gap = float(np.median(np.diff(values)))
                found.append(cls(j, X.shape[1] == 1, max(gap, 1e-4), len(values)))
        return found

    def factor(self, kernel: Kernel) -> Kernel:
        """The kernel as a function of this feature."""
        return kernel if self.alone else kernel.on([self.index])


class Step(NamedTuple):
    """A kernel to try, and what was done to reach it."""

    kernel: Kernel
    words: str


def leaf(factor: Kernel) -> Any:
    """A factor as a kernel of its feature alone."""
    return factor.kernel if isinstance(factor, OnColumns) else factor


def feature_of(factor: Kernel) -> int:
    """Number of the feature that a factor is a function of."""
    return int(factor.columns[0]) if isinstance(factor, OnColumns) else 0


def factors(term: Kernel) -> list[Kernel]:
    """The factors of a term, without its amplitude.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> factors(2.0 * K.RBF() * K.Linear())
    [RBF(gamma=1.0), Linear()]
    """
    if isinstance(term, Product):
        return [*factors(term.left), *factors(term.right)]
    return [] if isinstance(term, Constant) else [term]


def separated(kernel: Kernel) -> list[tuple[Kernel, Kernel]]:
    """Terms of a sum, with the mean over a period of each periodic factor as a term of its own.

    A periodic kernel has the mean c = exp(-1/l²) I0(1/l²) over a period. Both c and the rest are
    kernels, since the Fourier coefficients of a periodic kernel are not negative. Without this a
    product of a line and a season would hold a trend.

    Returns
    -------
    list of pairs
        The kernel of a part, and the term that describes it. Constants are left out.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> [term for _, term in separated(2.0 * K.Periodic() * K.Linear() + 1.0)]
    [0.931519... * Linear(), 2.0 * Periodic(period=1.0, length_scale=1.0) * Linear()]
    """
    found = []
    for term in summands(kernel):
        own = factors(term)
        season = next((f for f in own if isinstance(leaf(f), Periodic)), None)
        if season is None:
            if own:
                found.append((term, term))
            continue
        level = float(ive(0, 1 / leaf(season).length_scale ** 2))
        rest = product(level * amplitude_of(term), [f for f in own if f is not season])
        if len(own) > 1:
            found.append((rest, rest))
        found.append((term - rest, term))
    return found


def product(amplitude: float, parts: list[Kernel]) -> Kernel:
    """amplitude times all parts."""
    found: Kernel = Constant(amplitude)
    for part in parts:
        found = found * part
    return found


def smooth(length: float) -> Matern:
    """The kernel of smooth functions, which have two derivatives.

    That of infinitely many, the Gaussian, is too sure of its extrapolations.
    """
    return Matern(2.5, length)


def steps(
    kernel: Kernel | None,
    features: list[Feature],
    components: tuple[str, ...],
    periods: dict[int, list[float]],
) -> Iterator[Step]:
    """All kernels one step from a sum of terms, or single terms if there is none.

    Parameters
    ----------
    kernel : Kernel or None
    features : list of Feature
    components : names of `COMPONENTS`
    periods : for the index of each feature, periods to try
    """
    terms = [] if kernel is None else summands(kernel)
    for feature in features:
        for name, new in _bases(feature, components, periods):
            yield Step(_sum([*terms, product(AMPLITUDE, [new])]), f"add {name}")
            for i, term in enumerate(terms):
                if _is_new(term, new):
                    more = _modifier(feature, new)
                    changed = [*terms[:i], term * more, *terms[i + 1 :]]
                    yield Step(_sum(changed), f"multiply part {i + 1} by {name}")
        if "change_point" in components and feature.n_values >= FEWEST_VALUES:
            yield from _change_points(terms, feature)
    for i, term in enumerate(terms):
        for words, new in _replacements(term, components):
            yield Step(_sum([*terms[:i], new, *terms[i + 1 :]]), f"{words} in part {i + 1}")
    for i in range(len(terms) if len(terms) > 1 else 0):
        yield Step(_sum([*terms[:i], *terms[i + 1 :]]), f"remove part {i + 1}")


def _replacements(term: Kernel, components: tuple[str, ...]) -> Iterator[tuple[str, Kernel]]:
    """The term with one of its smooth factors of another kind."""
    own, amplitude = factors(term), amplitude_of(term)
    for i, factor in enumerate(own):
        old = leaf(factor)
        found: list[tuple[str, Kernel]] = []
        if isinstance(old, Matern):
            found = [
                ("linear", Linear()),
                ("rational_quadratic", RationalQuadratic(1.0, old.length_scale)),
            ]
        elif isinstance(old, RationalQuadratic):
            found = [("smooth", smooth(old.length_scale))]
        elif isinstance(old, Linear):
            found = [("smooth", smooth(LENGTHS[0]))]
        for name, new in found:
            if name in components:
                other = new.on(factor.columns) if isinstance(factor, OnColumns) else new
                yield (
                    f"{name} for {type(old).__name__}",
                    product(amplitude, [*own[:i], other, *own[i + 1 :]]),
                )


def _sum(terms: list[Kernel]) -> Kernel:
    return sum(terms[1:], terms[0])


def _bases(
    feature: Feature, components: tuple[str, ...], periods: dict[int, list[float]]
) -> Iterator[tuple[str, Kernel]]:
    """New functions of a feature, with names."""
    if "linear" in components:
        yield "linear", feature.factor(Linear())
    if feature.n_values < 3:
        return
    if "smooth" in components:
        for length in LENGTHS:
            yield "smooth", feature.factor(smooth(max(length, feature.gap)))
    if "rational_quadratic" in components:
        yield "rational quadratic", feature.factor(RationalQuadratic(1.0, LENGTHS[0]))
    if "periodic" in components:
        for period in periods.get(feature.index, []):
            yield "periodic", feature.factor(Periodic(period, 1.0))


def _modifier(feature: Feature, new: Kernel) -> Kernel:
    """The factor by which a term gets this dependence on a feature.

    A linear one is 1 + gamma x z: it does not vanish where the feature is zero.
    """
    return feature.factor(Polynomial(1, 1.0, 1.0)) if isinstance(leaf(new), Linear) else new


def _is_new(term: Kernel, new: Kernel) -> bool:
    """Whether a product says more than the term: one of two smooth factors is a smooth one."""
    groups = ((Matern, RationalQuadratic), (Periodic,), (Linear, Polynomial))
    group = next(g for g in groups if isinstance(leaf(new), g))
    own = [leaf(f) for f in factors(term) if feature_of(f) == feature_of(new)]
    if any(isinstance(f, group) for f in own):
        return False
    # A curved trend is a line and a smooth function, whose extrapolation is a line too.
    if isinstance(leaf(new), groups[0]) and any(isinstance(f, Linear) for f in own):
        return False
    # A periodic function that forgets its shape over less than a period is not one.
    return not (isinstance(leaf(new), Periodic) and any(isinstance(f, groups[0]) for f in own))


def _change_points(terms: list[Kernel], feature: Feature) -> Iterator[Step]:
    for i, term in enumerate(terms):
        if any(isinstance(leaf(f), Transition) for f in factors(term)):
            continue
        for location in CHANGES:
            off, on = (
                feature.factor(Transition(location, CHANGE_WIDTH, falling))
                for falling in (True, False)
            )
            before, after = term * off, term * on
            for words, new in (
                ("ends", [before]),
                ("begins", [after]),
                ("changes", [before, after]),
            ):
                changed = [*terms[:i], *new, *terms[i + 1 :]]
                yield Step(_sum(changed), f"part {i + 1} {words} at a change point")


def bounds(kernel: Kernel, features: list[Feature]) -> dict[str, Any]:
    """Bounds of all hyperparameters of a sum of terms, by path."""
    by_index = {feature.index: feature for feature in features}
    found: dict[str, Any] = {}
    for entry in learnable(kernel):
        parents = entry.path.split("__")[:-1]
        owner, name = kernel, entry.path.split("__")[-1]
        index = 0
        for step in parents:
            index = feature_of(owner) if isinstance(owner, OnColumns) else index
            owner = getattr(owner, step)
        value = float(value_at(kernel, entry.path))
        found[entry.path] = _bounds_of(owner, name, value, by_index[index])
    return found


def _bounds_of(owner: Kernel, name: str, value: float, feature: Feature) -> Any:
    shortest, longest = feature.gap, 3.0
    match owner, name:
        case Constant(), _:
            return 1e-5, 1e3
        case _, "period":
            return 0.8 * value, 1.25 * value
        case Periodic(), "length_scale":
            return 0.2, 5.0
        case _, "length_scale":
            return shortest, longest
        case RationalQuadratic(), "alpha":
            return 0.05, 20.0
        case Polynomial(), "gamma":
            return 1e-2, 1e4
        case Polynomial(), _:
            return "fixed"
        case Transition(), "location":
            return 0.02, 0.98
        case Transition(), "width":
            return min(0.5 * feature.gap, 0.01), 0.1
    return 1e-5, 1e5


def likely_periods(x: np.ndarray, y: np.ndarray, gap: float) -> list[float]:
    """Periods of the highest peaks of the periodogram of y, a straight line taken away.

    Parameters
    ----------
    x : (n,) array, in [0, 1]
    y : (n,) array
    gap : float
        Distance between neighbouring values; a period spans at least two.

    Examples
    --------
    >>> x = np.linspace(0, 1, 120)
    >>> [round(period, 2) for period in likely_periods(x, np.sin(2 * np.pi * x / 0.1), 1 / 119)[:1]]
    [0.1]
    """
    from scipy.signal import lombscargle  # slow to import

    line = np.polynomial.Polynomial.fit(x, y, 1)
    left = y - line(x)
    scale = float(np.std(left))
    if scale <= 1e-9 * max(float(np.std(y)), 1e-300):
        return []
    highest = min(0.5 / gap, MOST_FREQUENCIES / OVERSAMPLING)
    count = int(OVERSAMPLING * (highest - 1 / MOST_PERIOD)) + 1
    if count < 3:
        return []
    frequency = np.linspace(1 / MOST_PERIOD, highest, count)
    power = lombscargle(x, left / scale, 2 * np.pi * frequency)
    inside = np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] >= power[2:])) + 1
    best = inside[np.argsort(-power[inside])][:PEAKS]
    return (1 / frequency[best]).tolist()


def amplitude_of(term: Kernel) -> float:
    """The constant factor of a term."""
    return constant_factor(term)[0]
