"""Regressions along one feature: the curve, its band, quantiles or tube, and the data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length

from mercer.arrays import as_dense, as_numpy
from mercer.plots.axes import BLUE, GREY, axes_or_new, circle, some
from mercer.plots.fitted import feature_names, last_step, like_table, support_rows


class RegressionDisplay:
    """A regression along one feature with its band, and the data.

    Parameters
    ----------
    x : ndarray of shape (q,)
    mean : ndarray of shape (q,) or (q, k)
        What is predicted, of k quantiles each.
    lower, upper : ndarrays of shape (q,) or None
        The pointwise band.
    points : tuple of ndarrays or None
        Feature and target of the data.
    names : tuple of str
    level : float
        Of the band.
    quantiles : ndarray of shape (k,) or None
        Levels of the curves, the first and last of which bound the band.
    tube : float or None
        Half-width of the tube of support vector regression.
    support : ndarray of shape (s, 2) or None
        Support vectors, feature and target.
    samples : ndarray of shape (q, s) or None
        Functions drawn from the posterior.
    band_of : str
        What the band is for.

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    line_ : the curve, or a list of those of quantiles
    band_ : the band, or None
    tube_ : list of the two edges of the tube, or None
    circles_ : the circles about support vectors, or None
    samples_ : list of the samples' curves
    """

    def __init__(
        self,
        *,
        x,
        mean,
        lower=None,
        upper=None,
        points=None,
        names=("x0", "y"),
        level=0.95,
        quantiles=None,
        tube=None,
        support=None,
        samples=None,
        band_of="the smoothed curve",
    ):
        self.x = x
        self.mean = mean
        self.lower = lower
        self.upper = upper
        self.points = points
        self.names = names
        self.level = level
        self.quantiles = quantiles
        self.tube = tube
        self.support = support
        self.samples = samples
        self.band_of = band_of

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X=None,
        y=None,
        *,
        feature=0,
        at=None,
        level=0.95,
        n_points=200,
        n_samples=0,
        ax=None,
        **line,
    ) -> RegressionDisplay:
        """From a fitted regressor on numbers with one output.

        Smoothers have their pointwise band, Gaussian processes one for new targets, several
        quantiles the one between the outermost, and support vector regression its tube and, where
        X and y are what it was fitted on, circles about its support vectors.

        Parameters
        ----------
        estimator : regressor
            One of mercer's, or a pipeline that ends in one.
        X : array-like or DataFrame of shape (n, d), default=None
            Points that set the range of the curve; by default the training points, where the
            estimator keeps them.
        y : array-like of shape (n,), default=None
            Their targets, to show them. Without X, smoothers show their training points.
        feature : int or str, default=0
            Along which feature, by number or name.
        at : array-like of shape (d,), default=None
            Where the other features stay; at their medians by default.
        level : float, default=0.95
            Of the pointwise band.
        n_points : int, default=200
        n_samples : int, default=0
            Functions drawn from the posterior of a Gaussian process.
        ax : matplotlib axes, default=None
        **line
            Of the curve.
        """
        last, _ = last_step(estimator)
        _require_numbers(estimator, last)
        points = regression_points(estimator, X)
        names = feature_names(estimator, points.shape[1], X)
        if feature not in (*range(len(names)), *names):
            raise ValueError(f"feature={feature!r} is none of {names}")
        feature = names.index(feature) if isinstance(feature, str) else feature
        x = _places(estimator, points, feature, n_points)
        Z = np.tile(np.median(points, axis=0) if at is None else np.asarray(at, float), (len(x), 1))
        Z[:, feature] = x
        with warnings.catch_warnings():
            # Points that were kept have lost the names of their features.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            found = _prediction(estimator, like_table(X, Z), level, n_samples)
        display = cls(
            x=x,
            **found,
            **_data(estimator, X, y, points, feature),
            names=(names[feature], str(getattr(y, "name", None) or "y")),
            level=level,
            tube=_tube(last),
        )
        return display.plot(ax=ax, **line)

    def plot(self, ax=None, **line) -> RegressionDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        if self.points is not None:
            points = np.column_stack(self.points)
            ax.plot(*points[some(len(points))].T, ".", color=GREY, markersize=4, alpha=0.5)
        self.samples_ = []
        if self.samples is not None:
            style = {"color": GREY, "linewidth": 0.6, "alpha": 0.8}
            self.samples_ = ax.plot(self.x, self.samples, **style)
        thin = {"linewidth": 0.8} if self.quantiles is not None else {}
        lines = ax.plot(self.x, self.mean, **{"color": BLUE, **thin, **line})
        self.line_ = lines[0] if self.quantiles is None else lines
        colour = lines[0].get_color()
        self.band_ = self.tube_ = None
        if self.lower is not None:
            edges = self.x, self.lower, self.upper
            style = {"color": colour, "alpha": 0.25, "linewidth": 0, "label": self._band_label()}
            self.band_ = ax.fill_between(*edges, **style)
        if self.tube is not None:
            style = {"color": colour, "linestyle": "--", "linewidth": 0.8}
            self.tube_ = ax.plot(self.x, self.mean[:, None] + [-self.tube, self.tube], **style)
            self.tube_[0].set_label(f"tube: ±{self.tube:.3g}")
        self.circles_ = circle(ax, self.support)
        if self.circles_ is not None:
            self.circles_.set_label("support vectors")
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        if ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _band_label(self) -> str:
        if self.quantiles is None:
            return f"{self.level:.0%} band for {self.band_of}"
        return f"quantiles {', '.join(f'{q:.3g}' for q in self.quantiles)}"


def _require_numbers(estimator: Any, last: Any) -> None:
    """Raise where there is no curve along a number to draw."""
    name = type(last).__name__
    if not is_regressor(estimator):
        raise TypeError(f"{name} is no regressor, and has no curve")
    if get_tags(estimator).input_tags.pairwise:
        raise TypeError(f"{name} was fitted on a Gram matrix, and a curve needs features")
    if hasattr(last, "y_fit_") and last.coding_ is not None:
        raise ValueError("a smoother of one output, without categories, can be shown")


def regression_points(estimator: Any, X: Any) -> np.ndarray:
    """The points that set the range of the curve: (n, d)."""
    own = getattr(estimator, "X_fit_", getattr(estimator, "X_train_", None))
    kept = own if X is None else X
    if kept is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} keeps no training points; pass X, for the range of the curve")
    try:
        points = np.asarray(as_numpy(as_dense(kept)), dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a curve is drawn along features that are numbers: {error}") from error
    if points.ndim != 2 or not len(points):
        raise ValueError(f"X has shape {points.shape}; expected points in rows, (n, d)")
    return points


def _places(estimator: Any, points: np.ndarray, feature: int, n_points: int) -> np.ndarray:
    """Places along the feature, about the points where all have the same."""
    low, high = points[:, feature].min(), points[:, feature].max()
    room = 0.0
    if low == high:
        reach = getattr(estimator, "bandwidth_", 0.5)
        room = np.broadcast_to(reach, points.shape[1])[feature]
    return np.linspace(low - room, high + room, n_points)


def _prediction(estimator: Any, Z: Any, level: float, n_samples: int) -> dict:
    """The curve, or those of quantiles, with the band and samples."""
    mean = as_numpy(estimator.predict(Z))
    mean = mean[:, 0] if mean.ndim == 2 and mean.shape[1] == 1 else mean
    last, Z = last_step(estimator, Z)
    if mean.ndim == 2 and not hasattr(last, "quantiles_"):
        raise ValueError(f"{mean.shape[1]} outputs are predicted, and one output can be shown")
    if mean.ndim == 2:
        ends = {"lower": mean[:, 0], "upper": mean[:, -1]}
        return {"mean": mean, "quantiles": last.quantiles_, **ends}
    if hasattr(last, "sample_functions") or (hasattr(last, "describe") and not n_samples):
        return {"mean": mean, **_of_process(last, Z, mean, level, n_samples)}
    if n_samples:
        raise ValueError(f"n_samples={n_samples}: {type(last).__name__} has no samples")
    if not hasattr(last, "confidence_band"):
        return {"mean": mean}
    lower, upper = last.confidence_band(Z, level)
    return {"mean": mean, "lower": as_numpy(lower).ravel(), "upper": as_numpy(upper).ravel()}


def _of_process(last: Any, Z: Any, mean: np.ndarray, level: float, n_samples: int) -> dict:
    """The band of a Gaussian process for new targets, and functions from its posterior."""
    std = last.predict(Z, return_std=True)[1]
    reach = ndtri(0.5 + level / 2) * std
    found = {"lower": mean - reach, "upper": mean + reach, "band_of": "new targets"}
    if n_samples:
        drawn = last.sample_functions(n_samples)
        found["samples"] = np.stack([sample(Z) for sample in drawn], axis=1)
    return found


def _data(estimator: Any, X: Any, y: Any, points: np.ndarray, feature: int) -> dict:
    """The points to show, and the support vectors among them."""
    if y is None:
        kept = None if X is not None else _own_targets(estimator)
        return {} if kept is None else {"points": (points[:, feature], as_numpy(kept).ravel())}
    if X is None:
        raise ValueError("y was given without X; pass the points that it belongs to")
    check_consistent_length(points, y)
    shown = np.column_stack([points[:, feature], np.asarray(y, dtype=float)])
    if shown.shape[1] > 2:
        raise ValueError(f"y has {shown.shape[1] - 1} columns, and one output can be shown")
    rows = support_rows(estimator, X)
    return {"points": tuple(shown.T), "support": None if rows is None else shown[rows]}


def _own_targets(estimator: Any) -> Any:
    """The targets that a smoother or a Gaussian process keeps."""
    if hasattr(estimator, "posterior_"):
        return estimator.y_train_ * estimator._y_train_std + estimator._y_train_mean
    if hasattr(estimator, "describe"):
        return estimator.y_train_
    return getattr(estimator, "y_fit_", None)


def _tube(last: Any) -> float | None:
    """Half-width of the tube within which errors cost nothing, where there is one."""
    if hasattr(last, "epsilon_"):  # found from nu
        return float(last.epsilon_)
    has_tube = hasattr(last, "support_") or getattr(last, "loss", None) == "epsilon_insensitive"
    return float(last.epsilon) if has_tube else None
