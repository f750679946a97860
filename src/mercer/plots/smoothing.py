"""Densities with their data, bandwidths with their scores."""

from __future__ import annotations

import numpy as np

from mercer.plots.axes import BLUE, GREY, ORANGE, axes_or_new, some
from mercer.plots.fitted import feature_names, last_step


def _some(X: np.ndarray) -> np.ndarray:
    return X[some(len(X))]


class DensityDisplay:
    """A density of one or two features, with the data.

    Parameters
    ----------
    axes : list of ndarray
        Places along each feature.
    density : ndarray
        p on the grid of these places.
    X : ndarray of shape (n, d) or None
        Points to show.
    names : list of str
        What the features are called.

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    line_ : the curve of one feature, or None
    contours_ : the contours of two features, or None
    """

    def __init__(self, *, axes, density, X=None, names=None):
        self.axes = axes
        self.density = density
        self.X = X
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, X=None, *, n_points=None, ax=None, **line) -> DensityDisplay:
        """From a fitted `KernelDensity` of one or two features.

        Parameters
        ----------
        estimator : KernelDensity
            Or a pipeline that ends in one, whose features the picture has.
        X : array-like of shape (n, d), default=None
            Points to show; by default the training points that count for something.
        n_points : int, default=None
            Points of the grid along each feature; by default four to a bandwidth, at least 256 and
            at most 4096, or 512 of two features.
        ax : matplotlib axes, default=None
        **line
            Of the curve, or of the contours.
        """
        estimator, X = last_step(estimator, X)
        if not hasattr(estimator, "grid"):
            raise TypeError(f"{type(estimator).__name__} has no density; expected a KernelDensity")
        d = estimator.n_features_in_
        if d > 2:
            raise ValueError(
                f"the density has {d} features, and one or two can be shown; take "
                "estimator.marginal([0, 1])"
            )
        axes, density = estimator.grid(_n_points(estimator, d) if n_points is None else n_points)
        weight = estimator.sample_weight_
        points = estimator.X_fit_[weight > 1e-3 * weight.max()]
        points = points if X is None else np.asarray(X, dtype=float).reshape(-1, d)
        names = feature_names(estimator, d)
        return cls(axes=axes, density=density, X=points, names=names).plot(ax=ax, **line)

    def plot(self, ax=None, **line) -> DensityDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        self.line_ = self.contours_ = None
        names = self.names or [f"x{k}" for k in range(len(self.axes))]
        if len(self.axes) == 1:
            (self.line_,) = ax.plot(self.axes[0], self.density, **{"color": BLUE, **line})
            ax.fill_between(self.axes[0], self.density, color=self.line_.get_color(), alpha=0.15)
            if self.X is not None:
                low = np.full(len(_some(self.X)), -0.03 * self.density.max())
                ax.plot(_some(self.X)[:, 0], low, "|", color=GREY, markersize=7, alpha=0.6)
            ax.set(xlabel=names[0], ylabel="density")
        else:
            levels = _masses(self.density, [0.95, 0.8, 0.6, 0.4, 0.2, 0.05])
            mesh = (*self.axes, self.density.T)
            ax.contourf(
                *mesh, levels=[*levels, self.density.max() * 1.001], cmap="Blues", alpha=0.7
            )
            self.contours_ = ax.contour(
                *mesh, levels=levels, **{"colors": BLUE, "linewidths": 0.8, **line}
            )
            if self.X is not None:
                ax.plot(*_some(self.X).T, ".", color=ORANGE, markersize=3, alpha=0.6)
            ax.set(xlabel=names[0], ylabel=names[1])
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _n_points(estimator, d: int) -> int:
    """Along each feature, so that peaks as narrow as the bandwidth are seen."""
    h = np.asarray(estimator.bandwidth_, dtype=float)
    narrowest = np.sqrt(np.linalg.eigvalsh(h)[0]) if h.ndim == 2 else h.min()
    wanted = 4 * np.ptp(estimator.X_fit_, axis=0).max() / narrowest
    return int(np.clip(wanted, 256, 4096 if d == 1 else 512))


def _masses(density: np.ndarray, shares: list[float]) -> list[float]:
    """Heights above which these shares of the mass lie, rising."""
    sorted_ = np.sort(density.ravel())[::-1]
    mass = np.cumsum(sorted_) / sorted_.sum()
    heights = [float(sorted_[np.searchsorted(mass, share)]) for share in shares]
    # A plateau has one height, below it by more than its rounding.
    shares_of_top = np.unique((np.array(heights) / sorted_[0]).astype(np.float32))
    return list(shares_of_top * float(sorted_[0]) * (1 - 1e-6))


class BandwidthDisplay:
    """What a search for the bandwidth saw: scores against a common multiple of all bandwidths.

    Parameters
    ----------
    bandwidth : ndarray of shape (k,)
        Of the first feature.
    score : ndarray of shape (k,)
        Lower is better.
    chosen : float
        Where the search ended, for the first feature.
    names : tuple of str

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    line_ : the curve
    """

    def __init__(self, *, bandwidth, score, chosen, names=("bandwidth", "score")):
        self.bandwidth = bandwidth
        self.score = score
        self.chosen = chosen
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **line) -> BandwidthDisplay:
        """From a density fitted with "mlcv" or "lscv", or a smoother with "loo".

        Parameters
        ----------
        estimator : fitted estimator with ``selection_``, or a pipeline that ends in one
        ax : matplotlib axes, default=None
        **line
            Of the curve.
        """
        estimator, _ = last_step(estimator)
        seen = getattr(estimator, "selection_", None)
        if not hasattr(estimator, "bandwidth_"):
            raise TypeError(f"{type(estimator).__name__} has no bandwidth")
        if seen is None:
            raise ValueError(
                f"bandwidth={estimator.bandwidth!r} was not searched for: there is no curve to show"
            )
        d = seen["bandwidth"].shape[1]
        label = (
            "bandwidth"
            if d == 1
            else f"bandwidth of {feature_names(estimator, d)[0]}, others along"
        )
        score = {"mlcv": "negative log likelihood", "lscv": "integrated squared error + constant"}
        display = cls(
            bandwidth=seen["bandwidth"][:, 0],
            score=seen["score"],
            chosen=float(np.ravel(estimator.bandwidth_)[0]),
            names=(label, score.get(estimator.bandwidth, "leave-one-out error")),
        )
        return display.plot(ax=ax, **line)

    def plot(self, ax=None, **line) -> BandwidthDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        finite = np.isfinite(self.score)
        (self.line_,) = ax.plot(
            self.bandwidth[finite],
            self.score[finite],
            **{"color": BLUE, "marker": "o", "markersize": 4, **line},
        )
        ax.axvline(self.chosen, color=ORANGE, linestyle="--", label=f"chosen: {self.chosen:.3g}")
        ax.set(xscale="log", xlabel=self.names[0], ylabel=self.names[1])
        if finite.any() and 0 < 10 * np.min(self.score[finite]) < np.max(self.score[finite]):
            ax.set_yscale("log")
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
