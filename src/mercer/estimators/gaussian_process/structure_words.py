"""Parts of a sum of kernels in plain English."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.estimators.gaussian_process.structure_moves import factors, feature_of, leaf
from mercer.kernels import (
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Transition,
)

# Days of units of time, by the name of one.
DAYS = {
    "year": 365.2425,
    "quarter": 91.31,
    "month": 30.437,
    "week": 7.0,
    "day": 1.0,
    "hour": 1 / 24,
    "minute": 1 / 1440,
    "second": 1 / 86400,
}
# Periods with a name of their own, if they are within this fraction of it.
NAMED = {"year": "yearly", "quarter": "quarterly", "month": "monthly", "week": "weekly"}
NAMED |= {"day": "daily", "hour": "hourly"}
CLOSE = 0.03
# Parts whose size differs by less than this factor between the ends are not called growing.
GROWTH = 1.25


@dataclass(frozen=True)
class Axis:
    """What a feature, scaled to [0, 1], is in the units of the data.

    Attributes
    ----------
    name : str
    low, span : float
        The smallest value and the range.
    unit : str or None
        A key of `DAYS`.
    epoch : bool
        Whether values are days since 1970.
    """

    name: str
    low: float
    span: float
    unit: str | None = None
    epoch: bool = False

    def length(self, size: float) -> str:
        """A length in [0, 1] in words.

        Examples
        --------
        >>> Axis("t", 0.0, 120.0, "month").length(0.5), Axis("depth", 0.0, 8.0).length(0.25)
        ('5 years', '2 units of depth')
        """
        if self.unit is None:
            return f"{size * self.span:.2g} units of {self.name}"
        days = size * self.span * DAYS[self.unit]
        unit = next((u for u in DAYS if u != "quarter" and days >= 1.5 * DAYS[u]), "second")
        count = days / DAYS[unit]
        if unit == "year" and count >= 25:
            return f"{round(count / 10) * 10:.0f} years"
        return f"{count:.2g} {unit}s"

    def shown(self, values: np.ndarray) -> np.ndarray:
        """Values of the feature for an axis of a plot: dates, if they are."""
        return np.round(86400 * values).astype("datetime64[s]") if self.epoch else values

    def place(self, t: float) -> str:
        """A place in [0, 1] in words."""
        value = self.low + t * self.span
        if self.epoch:
            return str(np.datetime64(round(value), "D").astype("datetime64[M]"))
        near = round(value, max(0, 2 - int(np.floor(np.log10(self.span)))))
        text = f"{near:.10g}"
        return text if self.unit is not None and 1000 <= value < 3000 else f"{self.name} = {text}"

    def period(self, size: float) -> str:
        """ "yearly", or how long a period in [0, 1] is."""
        if self.unit is not None:
            days = size * self.span * DAYS[self.unit]
            for unit, name in NAMED.items():
                if abs(days / DAYS[unit] - 1) < CLOSE:
                    return name
        return ""


def described(
    term: Kernel, axes: list[Axis], X: np.ndarray, mean: np.ndarray, scale: float = 1.0
) -> str:
    """A term of a sum as a phrase, with what its posterior mean does.

    Parameters
    ----------
    term : Kernel
        An amplitude times factors, as `structure_moves` makes them.
    axes : list of Axis
    X : (n, d) array in [0, 1]
    mean : (n,) array
        Posterior mean of the term at the points.
    scale : float
        Of the mean, in units of the data.
    """
    own = factors(term)
    several = len(axes) > 1
    main = _main(own)
    if main is None:
        return "a constant"
    axis, x = axes[feature_of(main)], X[:, feature_of(main)]
    ending = _of(axis) if several else ""
    text = _noun(leaf(main), axis, x, mean, scale) + ending
    rest = [f for f in own if f is not main]
    changes = [_change(leaf(f), axes[feature_of(f)]) for f in rest if _is(f, Transition)]
    for factor in rest:
        where = axes[feature_of(factor)]
        away = "" if feature_of(factor) == feature_of(main) else _of(where, " with ")
        kernel = leaf(factor)
        if isinstance(kernel, Matern | RationalQuadratic):
            what = "shape" if _is(main, Periodic) else "slope" if _is(main, Linear) else "form"
            text += f", whose {what} changes over {_length(kernel, where)}{away}"
        elif isinstance(kernel, Periodic):
            named = where.period(kernel.period)
            again = f"a {named} rhythm" if named else f"period {where.length(kernel.period)}"
            text += f", times a function with {again}{away}"
        elif isinstance(kernel, Polynomial | Linear):
            text += _growth(X[:, feature_of(factor)], mean, away)
    return text + "".join(changes)


def main_feature(term: Kernel) -> int:
    """Number of the feature that a description of the term begins with."""
    main = _main(factors(term))
    return 0 if main is None else feature_of(main)


def _is(factor: Kernel, kind: type) -> bool:
    return isinstance(leaf(factor), kind)


def _main(own: list[Kernel]) -> Kernel | None:
    """The factor that the phrase begins with."""
    for kind in (Periodic, Linear, Matern, RationalQuadratic, Polynomial):
        for factor in own:
            if _is(factor, kind):
                return factor
    return own[0] if own else None


def _of(axis: Axis, word: str = " in ") -> str:
    return f"{word}{axis.name}"


def _length(kernel: Matern | RationalQuadratic, axis: Axis) -> str:
    size = float(kernel.length_scale)
    return "longer than the data" if size > 1.5 else f"about {axis.length(size)}"


def _noun(kernel: Kernel, axis: Axis, x: np.ndarray, mean: np.ndarray, scale: float) -> str:
    if isinstance(kernel, Periodic):
        named = axis.period(kernel.period)
        return (
            f"a {named} pattern" if named else f"a pattern of period {axis.length(kernel.period)}"
        )
    direction = _direction(x, mean, scale)
    if isinstance(kernel, Linear | Polynomial):
        return f"a {direction} linear trend".replace("  ", " ")
    if isinstance(kernel, Matern):
        if kernel.length_scale > 0.15:
            return f"a smooth {direction or 'curve'}" + (
                " curve" if direction else f" that varies over {_length(kernel, axis)}"
            )
        return f"variation over about {axis.length(kernel.length_scale)}"
    if isinstance(kernel, RationalQuadratic):
        return f"variation on several scales around {axis.length(kernel.length_scale)}"
    if isinstance(kernel, Transition):
        side = "before" if kernel.falling else "after"
        return f"a change of level {side} {axis.place(kernel.location)}"
    return "a part"


def _direction(x: np.ndarray, mean: np.ndarray, scale: float) -> str:
    """ "rising" or "falling" for a mean that is monotone up to a tenth of its range."""
    order = np.argsort(x, kind="stable")
    moves = np.diff(mean[order])
    up, down = moves[moves > 0].sum(), -moves[moves < 0].sum()
    if max(up, down) <= 1e-3 * scale or min(up, down) > 0.1 * max(up, down):
        return ""
    return "rising" if up > down else "falling"


def _growth(x: np.ndarray, mean: np.ndarray, away: str) -> str:
    """Whether a part is larger at one end of a feature."""
    first, last = (np.std(mean[part]) for part in (x <= 1 / 3, x >= 2 / 3))
    if last > GROWTH * first:
        return f", whose size grows{away}"
    if first > GROWTH * last:
        return f", whose size shrinks{away}"
    return ""


def _change(kernel: Any, axis: Axis) -> str:
    word = "until" if kernel.falling else "from"
    end = "" if kernel.falling else " on"
    return f", {word} about {axis.place(kernel.location)}{end}"


def share_text(share: float) -> str:
    """A share of the variance as text.

    Examples
    --------
    >>> share_text(0.314), share_text(0.0004)
    ('31 % of the variance', 'less than 0.1 % of the variance')
    """
    if share < 0.001:
        return "less than 0.1 % of the variance"
    percent = 100 * share
    return (
        f"{percent:.0f} % of the variance"
        if percent >= 9.95
        else (f"{percent:.1f} % of the variance")
    )
