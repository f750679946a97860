"""Every regulariser of a Nyström fit at once, and its predictions of held-out points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from mercer.solvers.nystrom.sums import Block, FeatureMoments, Totals
from mercer.solvers.nystrom.whitening import CentreWhitening
from mercer.solvers.ridge_problem import EPS


class NystromPath:
    """One eigendecomposition of the moments, good for every regulariser.

    Parameters
    ----------
    whitening : CentreWhitening
    moments : FeatureMoments
    fit_intercept : bool
    """

    def __init__(
        self, whitening: CentreWhitening, moments: FeatureMoments, fit_intercept: bool = False
    ):
        self.whitening, self.moments, self.fit_intercept = whitening, moments, fit_intercept
        H, G, self._squares = moments.system(fit_intercept)
        values, self._vectors = eigh(H)
        self._values = np.maximum(values, 0.0)
        self._spectrum = self._vectors.T @ G

    def generalised(self, lams: np.ndarray) -> np.ndarray:
        """Generalised cross-validation, ``n RSS / (n - trace of the hat matrix)^2``: (a, t)."""
        n, found = self.moments.n, []
        for lam in lams:
            filtered = self._filter(lam)[:, None] * self._spectrum
            fit = 2 * self._spectrum - self._values[:, None] * filtered
            squares = self._squares - np.einsum("ij,ij->j", filtered, fit)
            freedom = float(self._values @ self._filter(lam)) + self.fit_intercept
            free = max(n - freedom, n * EPS)
            found.append(n * np.maximum(squares, 0.0) / free**2)
        return np.array(found)

    def predictions(self, block: Block, lams: np.ndarray) -> np.ndarray:
        """The fit at the points of the block: (a, b, t)."""
        Z = self.whitening.features(block.gram) @ self._vectors
        weights = [self._filter(lam)[:, None] * self._spectrum for lam in lams]
        level = [self.moments.intercept(self._vectors @ w, self.fit_intercept) for w in weights]
        return np.array([Z @ w + b for w, b in zip(weights, level, strict=True)])

    def leave_one_out(self, block: Block, lams: np.ndarray, equal: bool = False) -> np.ndarray:
        """What each point of the block is predicted to be without it: (a, b, t).

        The centres stay; each point is left out of the sums. With ``equal`` all points have the
        mean leverage, as in generalised cross-validation.
        """
        Z = self.whitening.features(block.gram) @ self._vectors
        moments, Y = self.moments, block.Y
        s = np.ones(len(Y)) if block.weight is None else block.weight
        filters = np.stack([self._filter(lam) for lam in lams], axis=1)  # (r, a)
        level, own = np.zeros(Y.shape[1]), np.zeros(len(Y))
        if self.fit_intercept and moments.weight > 0:
            Z -= (moments.sums / moments.weight) @ self._vectors
            level, own = moments.target_sums / moments.weight, s / moments.weight
        leverage = own[:, None] + s[:, None] * (Z**2 @ filters)  # (b, a)
        if equal:
            freedom = self._values @ filters + self.fit_intercept
            leverage = np.outer(s > 0, freedom / max(moments.n, 1))
        predictions = []
        for j in range(len(lams)):
            residual = Y - level - Z @ (filters[:, [j]] * self._spectrum)
            left = np.maximum(1.0 - leverage[:, [j]], EPS)
            # A point of no weight is predicted alike with and without it: its leverage is zero.
            predictions.append(Y - residual / left)
        return np.array(predictions)

    def _filter(self, lam: float) -> np.ndarray:
        cutoff = len(self._values) * EPS * float(self._values.max(initial=0.0))
        seen = (self._values > cutoff) | (lam > cutoff)
        return np.divide(1.0, self._values + lam, out=np.zeros(len(seen)), where=seen)


class LeaveOneOutErrors(Totals):
    """Weighted leave-one-out squared errors, the mean over targets: (a,), and the weight."""

    def __init__(self, a: int):
        self.errors, self.weight = np.zeros(a), 0.0


@dataclass(frozen=True)
class LeaveOneOutSums:
    """The errors of leaving out one point at a time, for every regulariser."""

    path: NystromPath
    lams: np.ndarray

    def start(self, whitening: CentreWhitening) -> LeaveOneOutErrors:
        return LeaveOneOutErrors(len(self.lams))

    def add(self, totals: LeaveOneOutErrors, block: Block, whitening: CentreWhitening) -> None:
        s = np.ones(len(block.Y)) if block.weight is None else block.weight
        errors = (block.Y - self.path.leave_one_out(block, self.lams)) ** 2
        totals.errors += errors.mean(axis=2) @ s
        totals.weight += float(s.sum())
