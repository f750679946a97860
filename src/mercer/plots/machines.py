"""Regions of a decision with its margins, gaps over iterations, scores over alphas."""

from __future__ import annotations

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from mercer.plots.axes import (
    BLUE,
    GREY,
    ORANGE,
    axes_or_new,
    circle,
    count_along,
    ink,
    pyplot,
    some,
)
from mercer.plots.fitted import feature_names, kept_support, last_step, like_table, support_rows


class DecisionDisplay:
    """Where a classifier or a frontier of two features says what, with its support vectors.

    Parameters
    ----------
    x, y : ndarrays of shape (p,) and (q,)
        Places along the two features.
    regions : ndarray of shape (q, p)
        The number of the class predicted at each place.
    scores : ndarray of shape (q, p) or None
        Of two classes, the score whose zero divides them.
    points : tuple of ndarrays or None
        Points to show, (n, 2), and the number of the class of each.
    support : ndarray of shape (s, 2) or None
        Support vectors.
    classes, names : lists of str
        What the classes and the two features are called.
    levels : sequence of float
        Scores along which lines are drawn: the margins at ±1 and, solid, what divides the classes.

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    regions_ : the coloured regions
    margins_ : the contours of the score, or None
    circles_ : the circles about support vectors, or None
    """

    def __init__(
        self,
        *,
        x,
        y,
        regions,
        scores=None,
        points=None,
        support=None,
        classes=None,
        names=None,
        levels=(-1, 0, 1),
    ):
        self.x = x
        self.y = y
        self.regions = regions
        self.scores = scores
        self.points = points
        self.support = support
        self.classes = classes
        self.names = names
        self.levels = levels

    @classmethod
    def from_estimator(
        cls, estimator, X, y=None, *, n_points=200, ax=None, **scatter
    ) -> DecisionDisplay:
        """From a fitted classifier or a `OneClassSVM` of two features.

        Parameters
        ----------
        estimator : classifier or OneClassSVM
            One of mercer's, or a pipeline that ends in one.
        X : array-like or DataFrame of shape (n, 2)
            Points to show, which set the range of the axes.
        y : array-like of shape (n,), default=None
            Their classes, of a frontier 1 inside and -1 outside; by default those predicted.
        n_points : int, default=200
            Places along each feature.
        ax : matplotlib axes, default=None
        **scatter
            Of the points.
        """
        check_is_fitted(estimator)
        frontier = is_outlier_detector(estimator)
        if not (frontier or is_classifier(estimator)):
            raise TypeError(f"{type(estimator).__name__} is no classifier, and has no regions")
        points = np.asarray(X, dtype=float)
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(f"X has shape {points.shape}; regions are drawn for two features")
        low, high = points.min(axis=0), points.max(axis=0)
        room = 0.08 * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(low[k] - room[k], high[k] + room[k], n_points) for k in (0, 1)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        table = like_table(X, grid)
        classes = np.array([-1, 1]) if frontier else estimator.classes_
        codes = np.searchsorted(classes, estimator.predict(table))
        scores = None
        if len(classes) == 2 and hasattr(estimator, "decision_function"):
            scores = np.asarray(estimator.decision_function(table)).reshape(n_points, n_points)
        y = estimator.predict(X) if y is None else np.asarray(y)
        check_consistent_length(points, y)
        if not np.all(np.isin(y, classes)):
            raise ValueError(f"y has labels that are not among the classes {classes.tolist()}")
        labels = np.searchsorted(classes, y)
        return cls(
            x=axes[0],
            y=axes[1],
            regions=codes.reshape(n_points, n_points),
            scores=scores,
            points=(points, labels),
            support=_support_vectors(estimator, X, points),
            classes=["outside", "inside"] if frontier else [str(c) for c in classes],
            names=feature_names(estimator, 2, X),
            levels=[0] if frontier else [-1, 0, 1],
        ).plot(ax=ax, **scatter)

    def plot(self, ax=None, **scatter) -> DecisionDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        from matplotlib.colors import ListedColormap

        n = int(max(self.regions.max() + 1, len(self.classes or [])))
        colours = [BLUE, ORANGE] if n <= 2 else list(pyplot().get_cmap("tab10")(np.arange(n) % 10))
        colours = colours[:n]
        levels = np.arange(n + 1) - 0.5
        self.regions_ = ax.contourf(
            self.x, self.y, self.regions, levels=levels, cmap=ListedColormap(colours), alpha=0.18
        )
        self.margins_ = None
        if self.scores is not None:
            styles = {
                "colors": ink(ax),
                "linestyles": ["--" if level else "-" for level in self.levels],
                "linewidths": [0.8 if level else 1.4 for level in self.levels],
            }
            self.margins_ = ax.contour(self.x, self.y, self.scores, levels=self.levels, **styles)
        if self.points is not None:
            X, labels = self.points
            shown = some(len(X))
            X, labels = X[shown], labels[shown]
            names = self.classes or [str(c) for c in range(n)]
            for c in range(n):
                style = {"s": 14, "color": colours[c], "edgecolor": "white", "linewidth": 0.3}
                here = labels == c
                ax.scatter(*X[here].T, **{**style, "label": names[c], **scatter})
            ax.legend(framealpha=0.9, fontsize="small")  # on coloured ground
        self.circles_ = circle(ax, self.support)
        names = self.names or ["x0", "x1"]
        ax.set(xlabel=names[0], ylabel=names[1])
        # Support vectors beyond the regions would make a patch of these.
        ax.set(xlim=(self.x[0], self.x[-1]), ylim=(self.y[0], self.y[-1]))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _support_vectors(estimator, X, points: np.ndarray) -> np.ndarray | None:
    """Support vectors as points of the picture; in a pipeline, where X is what it was fitted on."""
    if not hasattr(estimator, "steps"):
        return kept_support(estimator)
    rows = support_rows(estimator, X)
    return None if rows is None else points[rows]


class GapDisplay:
    """How a solver closed in on the optimum: the gap after every recorded iteration.

    A gap of zero, which has no place on a logarithmic scale, is a mark at the bottom.

    Parameters
    ----------
    history : sequence of float
    name : str
        What solved it.

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    line_ : the curve
    zeros_ : the marks of gaps of zero, or None
    """

    def __init__(self, *, history, name=""):
        self.history = history
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **line) -> GapDisplay:
        """From any fitted estimator with a ``result_``.

        Parameters
        ----------
        estimator : estimator, or a pipeline that ends in one
        ax : matplotlib axes, default=None
        **line
            Of the curve.
        """
        estimator, _ = last_step(estimator)
        result = getattr(estimator, "result_", None)
        if result is None or not len(result.history):
            raise ValueError(
                f"{type(estimator).__name__} has no record of its iterations: it was solved at once"
            )
        return cls(history=result.history, name=result.method).plot(ax=ax, **line)

    def plot(self, ax=None, **line) -> GapDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        gaps = np.asarray(self.history, dtype=float)
        steps = np.arange(1, len(gaps) + 1)
        finite = np.isfinite(gaps) & (gaps > 0)
        marker = {"marker": "."} if finite.sum() < 50 else {}
        (self.line_,) = ax.plot(steps[finite], gaps[finite], **{"color": BLUE, **marker, **line})
        if len(gaps) == 1 and finite[0]:
            self.line_.set_label(f"the only record: {gaps[0]:.1e}")
        self.zeros_ = None
        exact = steps[gaps == 0]
        if len(exact):
            style = {"color": self.line_.get_color(), "marker": "v", "linestyle": "none"}
            (self.zeros_,) = ax.plot(
                exact,
                np.zeros(len(exact)),
                transform=ax.get_xaxis_transform(),
                clip_on=False,
                label="zero",
                **style,
            )
        if len(exact) or len(gaps) == 1:
            ax.legend(frameon=False)
        if not finite.all():
            ax.set_xlim(0.5, len(gaps) + 0.5)
        count_along(ax.xaxis)
        ax.set(xlabel="recorded iteration", ylabel="gap", title=self.name)
        if finite.any():
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=0)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class RegularizationDisplay:
    """The leave-one-out score at every regulariser, and the one that was chosen.

    Parameters
    ----------
    alphas, scores : ndarrays of shape (a,)
    chosen : float
    label : str
        What the score is.

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    line_ : the curve
    """

    def __init__(self, *, alphas, scores, chosen, label="leave-one-out score"):
        self.alphas = alphas
        self.scores = scores
        self.chosen = chosen
        self.label = label

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **line) -> RegularizationDisplay:
        """From a fitted `KernelRidgeCV`.

        Parameters
        ----------
        estimator : KernelRidgeCV, or a pipeline that ends in one
        ax : matplotlib axes, default=None
        **line
            Of the curve.
        """
        estimator, _ = last_step(estimator)
        if not hasattr(estimator, "loo_scores_"):
            raise TypeError(f"{type(estimator).__name__} has no scores; expected a KernelRidgeCV")
        label = "leave-one-out score" if estimator.scoring else "−mean squared leave-one-out error"
        return cls(
            alphas=np.asarray(estimator.alphas, dtype=float),
            scores=np.asarray(estimator.loo_scores_),
            chosen=estimator.alpha_,
            label=label,
        ).plot(ax=ax, **line)

    def plot(self, ax=None, **line) -> RegularizationDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        order = np.argsort(self.alphas)
        style = {"color": BLUE, "marker": ".", **line}
        (self.line_,) = ax.plot(self.alphas[order], self.scores[order], **style)
        ax.axvline(self.chosen, color=GREY, linestyle=":", label=f"chosen: {self.chosen:.3g}")
        ax.set(xlabel="alpha", ylabel=self.label)
        positive = self.alphas[self.alphas > 0]
        if len(positive) == len(self.alphas):
            ax.set_xscale("log")
        elif len(positive):  # linear from zero to the least
            ax.set_xscale("symlog", linthresh=float(positive.min()))
            ax.set_xlim(left=-0.5 * float(positive.min()))
        if len(positive) and np.ptp(self.alphas) == 0:
            ax.set_xlim(self.chosen / 10, self.chosen * 10)
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
