"""The evidence of a Gaussian process over two hyperparameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.plots.axes import ORANGE, axes_or_new
from mercer.plots.fitted import last_step

# Contours are drawn down to so much below the largest evidence.
DEPTH = 30.0


class EvidenceDisplay:
    """Contours of the evidence over two hyperparameters, the others as found.

    Parameters
    ----------
    first, second : ndarrays of shape (q,)
        Values of the hyperparameters.
    evidence : ndarray of shape (q, q)
        Row i is at ``second[i]``.
    found : tuple of float
        Where the model is.
    names : tuple of str

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    contours_ : the contours
    point_ : the mark at the model
    """

    def __init__(self, *, first, second, evidence, found, names):
        self.first = first
        self.second = second
        self.evidence = evidence
        self.found = found
        self.names = names

    @classmethod
    def from_estimator(
        cls, estimator, *, names=None, span=10.0, n_points=25, ax=None, **contours
    ) -> EvidenceDisplay:
        """From a fitted Gaussian process with at least two hyperparameters.

        Parameters
        ----------
        estimator : GaussianProcessRegressor or GaussianProcessClassifier of two classes
            Or a pipeline that ends in one.
        names : pair of str, default=None
            Two names of ``hyperparameters_``; by default the first two.
        span : float, default=10
            The factor by which each is divided and multiplied at the ends of the axes.
        n_points : int, default=25
            Values of each; the evidence is computed for all pairs.
        ax : matplotlib axes, default=None
        **contours
            Of ``ax.contour``.
        """
        last, _ = last_step(estimator)
        check_is_fitted(last)
        known = getattr(last, "hyperparameters_", None)
        if not isinstance(known, dict):
            raise TypeError(f"{type(last).__name__} has no evidence over hyperparameters to show")
        chosen = tuple(known)[:2] if names is None else tuple(names)
        if len(set(chosen)) != 2 or not set(chosen) <= set(known):
            raise ValueError(f"names={names!r}; expected two of {list(known)}")
        theta, places = np.log(list(known.values())), [list(known).index(n) for n in chosen]
        shift = np.linspace(-np.log(span), np.log(span), n_points)
        found = np.empty((n_points, n_points))
        for i, j in np.ndindex(*found.shape):
            at = theta.copy()
            at[places] += shift[[j, i]]
            found[i, j] = last.log_marginal_likelihood(at)
        first, second = (np.exp(theta[place] + shift) for place in places)
        display = cls(
            first=first,
            second=second,
            evidence=found,
            found=tuple(np.exp(theta[places])),
            names=chosen,
        )
        return display.plot(ax=ax, **contours)

    def plot(self, ax: Any = None, **contours: Any) -> EvidenceDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        top = self.evidence[np.isfinite(self.evidence)].max()
        levels = top - np.geomspace(DEPTH, 0.1, 12)
        shown = np.maximum(np.nan_to_num(self.evidence, neginf=top - 10 * DEPTH), top - 10 * DEPTH)
        self.contours_ = ax.contour(
            self.first, self.second, shown, **{"levels": levels, "cmap": "viridis", **contours}
        )
        (self.point_,) = ax.plot(*self.found, "x", color=ORANGE, markersize=8, label="found")
        ax.set(xscale="log", yscale="log", xlabel=self.names[0], ylabel=self.names[1])
        ax.set_title(f"log evidence, at most {top:.4g}")
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
