"""Displays hold what the estimators say, and draw it."""

from __future__ import annotations

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from mercer import (  # noqa: E402
    KernelDensity,
    KernelRidge,
    LocalLinearRegressor,
    NadarayaWatsonRegressor,
)
from mercer.plots import BandwidthDisplay, DensityDisplay, RegressionDisplay  # noqa: E402


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


def test_a_regression_where_all_points_are_in_one_place():
    model = NadarayaWatsonRegressor(bandwidth=[0.3, 0.5]).fit(np.zeros((5, 2)), np.arange(5.0))
    display = RegressionDisplay.from_estimator(model, feature=1)
    assert (display.x[0], display.x[-1]) == (-0.5, 0.5)
    np.testing.assert_allclose(display.mean, 2.0)


@pytest.mark.parametrize("estimator", [NadarayaWatsonRegressor, LocalLinearRegressor])
def test_regression_with_its_band(estimator):
    X = points(200, 2)
    model = estimator(bandwidth=0.5).fit(X, np.sin(X[:, 1]))
    display = RegressionDisplay.from_estimator(model, feature=1, level=0.9)
    Z = np.column_stack([np.full(200, np.median(X[:, 0])), display.x])
    np.testing.assert_allclose(display.line_.get_ydata(), model.predict(Z))
    lower, upper = model.confidence_band(Z, 0.9)
    np.testing.assert_allclose([display.lower, display.upper], [lower, upper])
    assert display.ax_.get_xlabel() == "x1"
    column = estimator(bandwidth=0.5).fit(X, np.sin(X[:, 1:]))
    named = RegressionDisplay.from_estimator(column, feature="x1", level=0.9)
    np.testing.assert_array_equal(named.line_.get_ydata(), display.line_.get_ydata())
    with pytest.raises(ValueError, match="none of"):
        RegressionDisplay.from_estimator(model, feature=2)
    with pytest.raises(ValueError, match="one output"):
        RegressionDisplay.from_estimator(estimator(bandwidth=0.5).fit(X, X))
    with pytest.raises(TypeError, match="KernelRidge has no band; expected a Nadaraya"):
        RegressionDisplay.from_estimator(KernelRidge().fit(X, X[:, 0]))


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
