"""The search for a kernel of dense tables: coordinates, learnt scales, then one common width."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.auto.leave_one_out import GAIN
from mercer.auto.scales import Learnt, Part, Slopes, kernel_of, learn, start, widened
from mercer.auto.search import Search
from mercer.solvers.result import Budget
from mercer.tables.coordinates import TableCoordinates

# Rows of each of the two samples that scales are learnt on, and rows that the width and the
# regulariser are chosen on.
_LEARNING_ROWS, _WIDTH_ROWS = 900, 1500
_FAST_ROWS = 300
# Steps of L-BFGS.
_STEPS, _FAST_STEPS = (14, 8), (6, 3)
# Widths go by this factor, regularisers by the next.
_WIDTH_FACTOR, _ALPHA_FACTOR = 2.0, 3.0
_WIDEST = 4.0


class TableSearch(Search):
    """A sum of a Laplacian and a Gaussian kernel on coordinates, with a scale per coordinate.

    As `Search`, whose parameters and attributes it has; texts are added in the same way.

    Parameters
    ----------
    groups : (n,) array, optional
        Rows of a group share a fold where target means are cross-fitted.
    quality : "best" or "fast"
        Fast: scales by fewer steps on fewer rows.
    """

    def __init__(
        self,
        X: Any,
        Y: np.ndarray,
        budget: Budget,
        random: np.random.RandomState,
        roots: np.ndarray | None = None,
        *,
        groups: np.ndarray | None = None,
        quality: str = "best",
    ):
        self.groups, self.quality = groups, quality
        self.targets, self.random = Y, random
        self.parts: list[Part] = []
        self._steps = _FAST_STEPS if quality == "fast" else _STEPS
        super().__init__(X, Y, budget, random, roots)

    def _fitted_coding(self) -> Any:
        coding = TableCoordinates(random_state=self.random.randint(2**31 - 1))
        weight = None if self.roots is None else self.roots**2
        self.training_points = coding.fit_transform(self.X, self.targets, weight, self.groups)
        return coding

    def all_points(self) -> Any:
        return self.training_points

    def _rows_of(self, coding: Any, rows: np.ndarray) -> Any:
        return self.training_points[rows]

    def strongest_columns(self) -> np.ndarray:
        if not self.parts:
            return super().strongest_columns()
        owners = self.coding.owners_
        X = self.training_points[:, : len(owners)].astype(np.float64)
        moves = np.max([part.amplitude * part.rates for part in self.parts], axis=0)
        by_column = np.zeros(self.coding.n_features_in_)
        np.maximum.at(by_column, owners, moves * X.std(axis=0))
        return np.argsort(-by_column, kind="stable")

    def run(self) -> TableSearch:
        D = len(self.coding.owners_)
        if D:
            self._numbers_of(D)
        if self.coding.texts_:
            self._texts(D)
        return self

    def _numbers_of(self, D: int) -> None:
        """Scales on some rows, again on others, then widths on more rows."""
        n, most = len(self.Y), _FAST_ROWS if self.quality == "fast" else _LEARNING_ROWS
        X = self.training_points[:, :D].astype(np.float64)
        count = min(n, most)
        begin = start(X, self.random)
        found = self._learnt(X, begin, np.sort(self.rows(count)), self._steps[0])
        if count < n:
            # Other rows correct what the first made of noise.
            rows = np.sort(self.rows(count, skip=n - count))
            found = self._learnt(X, found.parts, rows, self._steps[1], found.alpha)
        self.alpha, self.error, self.parts = found.alpha, found.after, found.parts
        self.kernel = kernel_of(found.parts)
        self._width(found.parts)

    def _learnt(
        self,
        X: np.ndarray,
        begin: list[Part],
        rows: np.ndarray,
        steps: int,
        alpha: float | None = None,
    ) -> Learnt:
        slopes = Slopes(X[rows], self.Y[rows], self.roots_of(rows))
        found = learn(slopes, begin, steps, self._late, alpha)
        name = "all scales equal" if alpha is None else "these scales"
        self.note(f"{name}, {len(rows)} rows", self.coding, found.before)
        self.note(f"learnt scales, {len(rows)} rows", self.coding, found.after)
        return found

    def _width(self, parts: list[Part]) -> None:
        """One factor on all scales."""
        rows = np.sort(self.rows(min(len(self.Y), _WIDTH_ROWS)))
        X, errors = self.points(self.coding, rows), {}

        def look(width: float) -> float:
            if width not in errors:
                kernel = kernel_of(widened(parts, width))
                errors[width], alpha = self._best(kernel, X, rows, _ALPHA_FACTOR)
                self.note(f"scales times {width:g}, {len(rows)} rows", self.coding, errors[width])
                if errors[width] <= min(errors.values()):
                    self.kernel, self.error, self.alpha = kernel, errors[width], alpha
            return errors[width]

        look(best := 1.0)
        for step in (1 / _WIDTH_FACTOR, _WIDTH_FACTOR):
            while not self._late() and 1 / _WIDEST <= best * step <= _WIDEST:
                if not look(best * step) < (1 - GAIN / 2) * errors[best]:
                    break
                best *= step
            if best != 1.0:
                break
