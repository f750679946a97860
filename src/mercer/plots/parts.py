"""The parts of a Gaussian process whose kernel is a sum."""

from __future__ import annotations

import warnings
from textwrap import fill
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from mercer.plots.axes import BLUE, pyplot
from mercer.plots.fitted import feature_names, last_step
from mercer.plots.regression import regression_points

# Letters of a kernel's text in a title, and of a line of a description.
MOST_LETTERS, LINE = 60, 80


class PartsDisplay:
    """Each term of a sum of kernels along one feature, with its band.

    Parameters
    ----------
    x : ndarray of shape (q,)
    parts : list of objects with ``kernel``, ``mean`` and ``std``
        With ``words`` and ``share`` these are the titles.
    name : str
        Of the feature.
    level : float
        Of the pointwise bands.

    Attributes
    ----------
    axes_, figure_ : array of matplotlib axes, one above another, and the figure
    """

    def __init__(self, *, x, parts, name="x0", level=0.95):
        self.x = x
        self.parts = parts
        self.name = name
        self.level = level

    @classmethod
    def from_estimator(
        cls, estimator, X=None, *, feature=0, level=0.95, n_points=200, axes=None, **line
    ) -> PartsDisplay:
        """From a Gaussian process or a `StructureSearch`, fitted on numbers with one target.

        Parameters
        ----------
        estimator : GaussianProcessRegressor or StructureSearch
        X : array-like of shape (n, d), default=None
            Points that set the range of the curves; by default the training points.
        feature : int, default=0
            Along which feature; the others stay at their medians.
        level : float, default=0.95
        n_points : int, default=200
        axes : array of matplotlib axes, one for each part, default=None
        **line
            Of the curves.
        """
        last, _ = last_step(estimator)
        if last is not estimator or not hasattr(last, "predict_parts"):
            raise TypeError(f"{type(estimator).__name__} has no parts; pass a Gaussian process")
        check_is_fitted(last)
        if last.y_train_.ndim > 1:
            raise ValueError(f"{last.y_train_.shape[1]} targets were fitted, and one can be shown")
        points = regression_points(estimator, X)
        x = np.linspace(points[:, feature].min(), points[:, feature].max(), n_points)
        Z = np.tile(np.median(points, axis=0), (n_points, 1))
        Z[:, feature] = x
        name = feature_names(estimator, points.shape[1], X)[feature]
        with warnings.catch_warnings():
            # Points that were kept have lost the names of their features.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            parts = last.predict_parts(Z)
        shown = last.axes_[feature].shown(x) if hasattr(last, "axes_") else x
        display = cls(x=shown, parts=parts, name=name, level=level)
        return display.plot(axes=axes, **line)

    def plot(self, axes: Any = None, **line: Any) -> PartsDisplay:
        """Draw on ``axes``, or on axes of its own."""
        count = len(self.parts)
        if axes is None:
            size = {"figsize": (6.4, 2.2 * count + 0.4), "layout": "constrained"}
            _, axes = pyplot().subplots(count, 1, sharex=True, squeeze=False, **size)
        self.axes_ = np.ravel(axes)
        reach = ndtri(0.5 + self.level / 2)
        for ax, part in zip(self.axes_, self.parts, strict=True):
            ax.plot(self.x, part.mean, **{"color": BLUE, **line})
            edges = part.mean - reach * part.std, part.mean + reach * part.std
            ax.fill_between(self.x, *edges, color=BLUE, alpha=0.25, linewidth=0)
            ax.set_title(_title(part), fontsize="small")
            ax.spines[["top", "right"]].set_visible(False)
        self.axes_[-1].set_xlabel(self.name)
        self.figure_ = self.axes_[0].figure
        return self


def _title(part: Any) -> str:
    """The description of a part, or its kernel."""
    if hasattr(part, "words"):
        return fill(f"{part.words}; {100 * part.share:.2g} % of the variance", LINE)
    text = repr(part.kernel)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"
