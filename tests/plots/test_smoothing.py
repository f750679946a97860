"""Displays hold what the estimators say, and draw it."""

from __future__ import annotations

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from mercer import (  # noqa: E402
    KernelDensity,
    LocalLinearRegressor,
    NadarayaWatsonRegressor,
)
from mercer.plots import BandwidthDisplay, DensityDisplay  # noqa: E402


def points(n=300, d=1):
    return np.random.default_rng(0).normal(size=(n, d))


def test_density_of_one_feature():
    kde = KernelDensity(bandwidth="isj").fit(points())
    display = DensityDisplay.from_estimator(kde, color="black")
    x, p = display.line_.get_data()
    np.testing.assert_allclose(p, kde.pdf(x[:, None]), atol=2e-3)
    assert display.line_.get_color() == "black"
    assert display.ax_.get_ylabel() == "density"


def test_peaks_as_narrow_as_the_bandwidth_are_drawn():
    kde = KernelDensity(bandwidth=0.1).fit([[0.0], [60.0]])
    display = DensityDisplay.from_estimator(kde)
    assert display.density.max() == pytest.approx(kde.pdf([[0.0]]).item(), rel=0.1)


def test_density_of_two_features_with_contours_of_mass():
    kde = KernelDensity(bandwidth="silverman").fit(points(3000, 2))
    display = DensityDisplay.from_estimator(kde, n_points=128)
    cell = np.prod([axis[1] - axis[0] for axis in display.axes])
    lowest = display.contours_.levels[0]
    inside = display.density[display.density >= lowest].sum() * cell
    assert inside == pytest.approx(0.95, abs=0.01)
    with pytest.raises(ValueError, match="marginal"):
        DensityDisplay.from_estimator(KernelDensity().fit(points(50, 3)))


def test_a_plateau_has_one_contour_at_its_edge():
    kde = KernelDensity(kernel="tophat", bandwidth=1.0).fit(points(1, 2))
    display = DensityDisplay.from_estimator(kde, n_points=128)
    (level,) = display.contours_.levels
    assert 0.999 * display.density.max() < level < display.density.max()
    (path,) = display.contours_.get_paths()
    away = np.hypot(*(path.vertices - kde.X_fit_[0]).T)
    assert away.min() > 0.9


def test_the_curve_of_a_search():
    X = points(120)
    for model in (
        KernelDensity(bandwidth="mlcv").fit(X),
        NadarayaWatsonRegressor().fit(X, np.sin(X[:, 0])),
        NadarayaWatsonRegressor(bandwidth="loo_common").fit(X, np.sin(X[:, 0])),
        LocalLinearRegressor(kernel="tophat").fit(X, np.sin(X[:, 0])),
    ):
        display = BandwidthDisplay.from_estimator(model)
        h, score = display.line_.get_data()
        assert np.all(np.diff(h) > 0)
        least = h[np.argmin(score)]
        assert least / 2 <= display.chosen <= least * 2
    with pytest.raises(ValueError, match="no curve"):
        BandwidthDisplay.from_estimator(KernelDensity().fit(X))
