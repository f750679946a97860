"""Where data can lie: a box, at whose sides densities are reflected."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

# Reflections of one point, at most.
MOST_IMAGES = 4096


@dataclass(frozen=True)
class BoxSupport:
    """low_k <= x_k <= high_k; infinities are no bounds.

    Attributes
    ----------
    low, high : ndarray of shape (d,)

    Examples
    --------
    >>> import numpy as np
    >>> box = BoxSupport(np.array([0.0]), np.array([np.inf]))
    >>> [image.tolist() for image in box.images(np.array([[2.0]]), np.array([5.0]))]
    [[[2.0]], [[-2.0]]]
    >>> box.fold(np.array([[-3.0]]))
    array([[3.]])
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def read(cls, bounds: Any, d: int) -> BoxSupport:
        """The box that the parameter ``bounds`` stands for, in R^d."""
        if bounds is None:
            return cls(np.full(d, -np.inf), np.full(d, np.inf))
        rows = np.array(bounds, dtype=object)
        if rows.shape == (2,):
            rows = np.broadcast_to(rows, (d, 2))
        if rows.shape != (d, 2):
            raise ValueError(
                f"bounds={bounds!r}; expected a pair (low, high), or one for each of {d} features"
            )
        low = np.array([-np.inf if a is None else float(a) for a in rows[:, 0]])
        high = np.array([np.inf if b is None else float(b) for b in rows[:, 1]])
        if np.isnan(low).any() or np.isnan(high).any() or not np.all(low < high):
            raise ValueError(f"bounds={bounds!r}; each low must be below its high")
        return cls(low, high)

    @property
    def is_bounded(self) -> bool:
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    def part(self, features: list[int]) -> BoxSupport:
        return BoxSupport(self.low[features], self.high[features])

    def contains(self, X: np.ndarray) -> np.ndarray:
        return np.all((self.low <= X) & (self.high >= X), axis=1)

    def refuse_outside(self, X: np.ndarray) -> None:
        """Raise a ValueError that names the first point outside, if there is one."""
        if not self.is_bounded:
            return
        outside = (self.low > X) | (self.high < X)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"X has {X[row, column]:g} at row {row}, column {column}, outside bounds "
                f"({self.low[column]:g}, {self.high[column]:g})"
            )

    def images(self, X: np.ndarray, reach: np.ndarray) -> list[np.ndarray]:
        """The points and their reflections as far as a kernel of this reach sees them.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        reach : ndarray of shape (d,)
            How far a kernel reaches along each feature.
        """
        columns = [
            _reflections(x, low, high, far)
            for x, low, high, far in zip(X.T, self.low, self.high, reach, strict=True)
        ]
        count = np.prod([len(c) for c in columns])
        if count > MOST_IMAGES:
            raise ValueError(
                f"bounds ask for {count} reflections of each point: the bandwidth is wide "
                "compared with the box, or there are many bounded features; use a smaller one, or "
                "fewer bounds"
            )
        return [np.column_stack(chosen) for chosen in product(*columns)]

    def nearby(self, X: np.ndarray) -> np.ndarray:
        """Points moved by whole periods of the reflections, to half a width outside at most."""
        X = X.copy()
        for x, low, high in zip(X.T, self.low, self.high, strict=True):
            if np.isfinite(low) and np.isfinite(high):
                period = 2 * (high - low)
                x -= period * np.round((x - 0.5 * (low + high)) / period)
        return X

    def fold(self, X: np.ndarray) -> np.ndarray:
        """Points outside reflected into the box."""
        X = X.copy()
        for x, low, high in zip(X.T, self.low, self.high, strict=True):
            if np.isfinite(low) and np.isfinite(high):
                period = 2 * (high - low)
                x[:] = low + np.abs((x - low + period / 2) % period - period / 2)
            elif np.isfinite(low):
                x[:] = low + np.abs(x - low)
            elif np.isfinite(high):
                x[:] = high - np.abs(high - x)
        return X


def _reflections(x: np.ndarray, low: float, high: float, reach: float) -> list[np.ndarray]:
    if np.isfinite(low) and np.isfinite(high):
        # Copy j lies in the j-th box from this one, turned around where j is odd. Neighbours count
        # at any distance: far from all points they weigh as much as the place itself. A point may
        # be half a width outside.
        width = high - low
        turns = 1 + int(reach / width + 0.5)
        return [
            2 * low - x + (j + 1) * width if j % 2 else x + j * width
            for j in sorted(range(-turns, turns + 1), key=abs)
        ]
    if np.isfinite(low):
        return [x, 2 * low - x]
    if np.isfinite(high):
        return [x, 2 * high - x]
    return [x]
