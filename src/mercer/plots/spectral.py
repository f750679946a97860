"""Shares of variance, points along components, pre-images, and variates of two views."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.plots.axes import BLUE, GREY, ORANGE, axes_or_new, count_along, pyplot, some
from mercer.plots.fitted import last_step

# Labels up to which colours can be distinguished.
LABELS = 10


class ScreeDisplay:
    """The share of the variance that each component has, and that of all up to it.

    Parameters
    ----------
    ratio : ndarray of shape (k,)
        Shares of the components.
    uncertainty : ndarray of shape (k,) or None
        How far a share can be from that of an exact component.

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    bars_ : the bars of the shares
    line_ : the line of their sums
    """

    def __init__(self, *, ratio, uncertainty=None):
        self.ratio = ratio
        self.uncertainty = uncertainty

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **bars) -> ScreeDisplay:
        """From a fitted `KernelPCA`.

        Parameters
        ----------
        estimator : KernelPCA, or a pipeline that ends in one
        ax : matplotlib axes, default=None
        **bars
            Of the bars.
        """
        estimator, _ = last_step(estimator)
        ratio, values = estimator.explained_variance_ratio_, estimator.eigenvalues_
        total = values[0] / ratio[0] if len(values) and values[0] > 0 else np.inf
        return cls(ratio=ratio, uncertainty=estimator.residuals_ / total).plot(ax=ax, **bars)

    def plot(self, ax=None, **bars) -> ScreeDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        place = np.arange(1, len(self.ratio) + 1)
        sums = np.cumsum(self.ratio)
        self.bars_ = ax.bar(place, self.ratio, **{"color": BLUE, "label": "component", **bars})
        if self.uncertainty is not None and np.any(self.uncertainty > 1e-3 * self.ratio):
            top = np.minimum(self.uncertainty, 1 - np.minimum(self.ratio, 1))
            ax.errorbar(place, self.ratio, [np.zeros_like(top), top], fmt="none", ecolor=GREY)
        (self.line_,) = ax.plot(
            place, sums, color=ORANGE, marker="o", markersize=4, label="all up to it"
        )
        ax.set(xlabel="component", ylabel="share of the variance", ylim=(0, None))
        count_along(ax.xaxis)
        ax.legend(frameon=len(place) == 1)  # whose bar is all the ground there is
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class ProjectionDisplay:
    """Points along two components.

    Parameters
    ----------
    components : ndarray of shape (n, 2)
    y : ndarray of shape (n,) or None
        Labels or numbers to colour by.
    names : tuple of str

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    scatters_ : list of the points, one for each label
    """

    def __init__(self, *, components, y=None, names=("component 1", "component 2")):
        self.components = components
        self.y = y
        self.names = names

    @classmethod
    def from_estimator(
        cls, estimator, X=None, y=None, *, components=(0, 1), ax=None, **scatter
    ) -> ProjectionDisplay:
        """From a fitted `KernelPCA`.

        Parameters
        ----------
        estimator : KernelPCA, or a pipeline that ends in one
        X : points, default=None
            The training points by default.
        y : array-like of shape (n,), default=None
            Labels, or numbers beyond ten different ones.
        components : pair of int, default=(0, 1)
        ax : matplotlib axes, default=None
        **scatter
            Of the points.
        """
        estimator, X = last_step(estimator, X)
        _require(len(estimator.eigenvalues_), *components)
        if X is None:
            Z = estimator.eigenvectors_ * np.sqrt(estimator.eigenvalues_)
        else:
            Z = np.asarray(estimator.transform(X))
        ratio = estimator.explained_variance_ratio_
        names = tuple(f"component {k + 1} ({ratio[k]:.0%} of the variance)" for k in components)
        display = cls(
            components=Z[:, list(components)], y=None if y is None else np.asarray(y), names=names
        )
        return display.plot(ax=ax, **scatter)

    def plot(self, ax=None, **scatter) -> ProjectionDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        self.scatters_ = _scatter(ax, self.components, self.y, scatter)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class PreImageDisplay:
    """Pictures as they were given, and as their components give them back.

    Parameters
    ----------
    rows : dict of str to ndarray of shape (n, height, width)
        What each row of the grid shows.

    Attributes
    ----------
    axes_ : ndarray of matplotlib axes, one row for each entry
    figure_ : the matplotlib figure
    """

    def __init__(self, *, rows):
        self.rows = rows

    @classmethod
    def from_estimator(cls, estimator, X, *, shape, truth=None, figure=None, **image):
        """From a `KernelPCA` fitted with ``fit_inverse_transform``.

        Where all pre-images look alike, fit with a smaller ``alpha`` or another ``pre_image``.

        Parameters
        ----------
        estimator : KernelPCA, or a pipeline that ends in one
        X : array-like of shape (n, d)
            A few pictures, one in each row.
        shape : pair of int
            Height and width of a picture, d pixels in all.
        truth : array-like of shape (n, d), default=None
            The pictures without noise, where they are known.
        figure : matplotlib figure, default=None
        **image
            Of the pictures.
        """
        check_is_fitted(estimator)
        X = np.asarray(X)
        height, width = shape
        if X.shape[1] != height * width:
            raise ValueError(f"shape={shape} has {height * width} pixels and X has {X.shape[1]}")
        rows = {} if truth is None else {"without noise": np.asarray(truth)}
        rows |= {"given": X, "pre-image": estimator.inverse_transform(estimator.transform(X))}
        pictures = {name: row.reshape(-1, height, width) for name, row in rows.items()}
        return cls(rows=pictures).plot(figure=figure, **image)

    def plot(self, figure=None, **image) -> PreImageDisplay:
        """Draw on a figure, or on one of its own."""
        n = len(next(iter(self.rows.values())))
        if figure is None:
            figure = pyplot().figure(
                figsize=(0.8 * n + 1, 0.85 * len(self.rows)), layout="constrained"
            )
        self.axes_ = figure.subplots(len(self.rows), n, squeeze=False)
        first = next(iter(self.rows.values()))
        style = {"cmap": "gray_r", "vmin": first.min(), "vmax": first.max(), **image}
        for axes, (name, pictures) in zip(self.axes_, self.rows.items(), strict=True):
            for ax, picture in zip(axes, pictures, strict=True):
                ax.imshow(picture, **style)
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_visible(False)
            axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        self.figure_ = figure
        return self


class CanonicalDisplay:
    """A canonical variate of one view against that of another.

    Parameters
    ----------
    variates : ndarray of shape (n, 2)
    correlation : float
        Of these points; not a number where there is none, as of one point.
    y : ndarray of shape (n,) or None
        Labels or numbers to colour by.
    names : tuple of str

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    scatters_ : list of the points, one for each label
    """

    def __init__(self, *, variates, correlation, y=None, names=("view 1", "view 2")):
        self.variates = variates
        self.correlation = correlation
        self.y = y
        self.names = names

    @classmethod
    def from_estimator(
        cls, estimator, X, Y=None, *, y=None, component=0, views=(0, 1), ax=None, **scatter
    ) -> CanonicalDisplay:
        """From a fitted `KernelCCA`.

        Parameters
        ----------
        estimator : KernelCCA, or a pipeline that ends in one
        X, Y : the views of the points, as for `KernelCCA.transform`; new points show what the
            training points hide
        y : array-like of shape (n,), default=None
            Labels, or numbers beyond ten different ones.
        component : int, default=0
        views : pair of int, default=(0, 1)
            Which of several.
        ax : matplotlib axes, default=None
        **scatter
            Of the points.
        """
        estimator, X = last_step(estimator, X)
        _require(estimator.n_components_, component)
        found = estimator.transform(X, Y)
        if not isinstance(found, tuple):
            raise ValueError(
                "a variate of one view is plotted against another's: pass Y, or all views"
            )
        chosen = np.column_stack([np.asarray(found[v])[:, component] for v in views])
        steady = np.any(np.ptp(chosen, axis=0) == 0)
        correlation = np.nan if steady else float(np.corrcoef(chosen.T)[0, 1])
        names = tuple(f"variate {component + 1} of view {v + 1}" for v in views)
        y = None if y is None else np.asarray(y)
        display = cls(variates=chosen, correlation=correlation, y=y, names=names)
        return display.plot(ax=ax, **scatter)

    def plot(self, ax=None, **scatter) -> CanonicalDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        self.scatters_ = _scatter(ax, self.variates, self.y, scatter)
        title = f"correlation {self.correlation:.2f}"
        if np.isnan(self.correlation):
            title = "no correlation: a variate is constant"
        ax.set(xlabel=self.names[0], ylabel=self.names[1], title=title)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _require(k: int, *wanted: int) -> None:
    for component in wanted:
        if not 0 <= component < k:
            raise ValueError(
                f"component {component} of {k}, counted from 0: show others, or fit with a larger "
                "n_components"
            )


def _scatter(ax: Any, points: np.ndarray, y: np.ndarray | None, style: dict) -> list:
    """Points in one colour, in one for each label, or along a scale of numbers."""
    n = len(points)
    drawn = some(n)
    points, style = points[drawn], {"s": 12, "alpha": 0.7, "linewidths": 0, **style}
    if y is None:
        return [ax.scatter(*points.T, **{"color": BLUE, **style})]
    if len(y) != n:
        raise ValueError(f"y has {len(y)} entries for {n} points; expected one for each")
    y = y[drawn]
    labels = np.unique(y)
    if len(labels) > LABELS and y.dtype.kind in "iuf":
        scatter = ax.scatter(*points.T, c=y, cmap="viridis", **style)
        ax.figure.colorbar(scatter, ax=ax)
        return [scatter]
    import matplotlib

    colours = matplotlib.colormaps["tab10"]
    scatters = [
        ax.scatter(*points[y == label].T, color=colours(k % 10), label=str(label), **style)
        for k, label in enumerate(labels)
    ]
    ax.legend(frameon=False, markerscale=1.5, loc="upper left", bbox_to_anchor=(1, 1))
    return scatters
