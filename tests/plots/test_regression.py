"""Curves of regressors, with what each shows besides."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

from mercer import (  # noqa: E402
    SVC,
    SVR,
    AutoKernelRegressor,
    KernelMachineRegressor,
    KernelRidge,
    KernelRidgeCV,
    LocalLinearRegressor,
    NadarayaWatsonRegressor,
    NuSVR,
)
from mercer import kernels as K  # noqa: E402
from mercer.plots import RegressionDisplay  # noqa: E402

x = np.linspace(0, 6, 50)[:, None]
t = np.sin(x[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=50)


def points(n=300, d=1):
    return np.random.default_rng(0).normal(size=(n, d))


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


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


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(kernel="rbf"),
        KernelRidgeCV(kernel="rbf"),
        KernelMachineRegressor(),
        SVR(),
        AutoKernelRegressor(),
        make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")),
    ],
    ids=lambda model: type(model).__name__,
)
def test_any_regressor_has_its_curve(model):
    table = pd.DataFrame({"hours": x[:, 0]})
    model.fit(table, t)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display = RegressionDisplay.from_estimator(model, table, pd.Series(t, name="height"))
        expected = model.predict(pd.DataFrame({"hours": display.x}))
    np.testing.assert_allclose(display.line_.get_ydata(), expected)
    assert display.band_ is None
    assert (display.x[0], display.x[-1]) == (0, 6)
    np.testing.assert_array_equal(np.column_stack(display.points), np.column_stack([x, t]))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("hours", "height")


def test_the_range_is_of_the_points_that_were_kept():
    table = pd.DataFrame({"hours": x[:, 0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display = RegressionDisplay.from_estimator(KernelRidge().fit(table, t))
    assert (display.x[0], display.x[-1]) == (0, 6)
    assert display.points is None
    assert display.ax_.get_legend() is None
    shorter = RegressionDisplay.from_estimator(LocalLinearRegressor().fit(x, t), x[:9])
    assert shorter.x[-1] == x[8, 0]
    assert shorter.points is None


def test_a_pipeline_has_the_band_of_its_last_step():
    model = make_pipeline(StandardScaler(), LocalLinearRegressor(bandwidth=0.5)).fit(x, t)
    display = RegressionDisplay.from_estimator(model, x, t)
    lower, upper = model[-1].confidence_band(model[:-1].transform(display.x[:, None]), 0.95)
    np.testing.assert_allclose([display.lower, display.upper], [lower, upper])
    assert legend(display) == ["95% band for the smoothed curve"]


def test_several_quantiles_have_a_curve_each():
    levels = [0.9, 0.1, 0.5]
    model = KernelMachineRegressor("quantile", quantile=levels, alpha=0.1).fit(x, t)
    display = RegressionDisplay.from_estimator(model)
    expected = model.predict(display.x[:, None])
    drawn = np.column_stack([line.get_ydata() for line in display.line_])
    np.testing.assert_allclose(drawn, expected)
    np.testing.assert_allclose([display.lower, display.upper], expected[:, [0, 2]].T)
    assert legend(display) == ["quantiles 0.1, 0.5, 0.9"]
    one = KernelMachineRegressor("quantile", quantile=[0.5]).fit(x, t)
    assert RegressionDisplay.from_estimator(one).band_ is None


@pytest.mark.parametrize(
    ("model", "tube"),
    [
        (SVR(epsilon=0.3), lambda model: 0.3),
        (NuSVR(), lambda model: model.epsilon_),
        (KernelMachineRegressor("epsilon_insensitive", epsilon=0.2), lambda model: 0.2),
    ],
    ids=["SVR", "NuSVR", "KernelMachineRegressor"],
)
def test_the_tube_is_about_the_curve(model, tube):
    display = RegressionDisplay.from_estimator(model.fit(x, t), x)
    below, above = (edge.get_ydata() for edge in display.tube_)
    np.testing.assert_allclose(below, display.mean - tube(model))
    np.testing.assert_allclose(above, display.mean + tube(model))
    assert legend(display) == [f"tube: ±{tube(model):.3g}"]


def test_support_vectors_are_circled_among_the_training_points():
    both = np.column_stack([x, t])
    alone = SVR(epsilon=0.2).fit(x, t)
    scaled = make_pipeline(StandardScaler(), SVR(epsilon=0.2)).fit(x, t)
    for model, support in ((alone, alone.support_), (scaled, scaled[-1].support_)):
        display = RegressionDisplay.from_estimator(model, x, t)
        assert 0 < len(support) < len(x)
        np.testing.assert_allclose(display.circles_.get_offsets(), both[support])
        others = RegressionDisplay.from_estimator(model, x + 0.1, t)
        assert others.circles_ is None


@pytest.mark.parametrize(("style", "ink"), [("default", "black"), ("dark_background", "white")])
def test_circles_are_seen_on_any_ground(style, ink):
    with plt.style.context(style):
        display = RegressionDisplay.from_estimator(SVR().fit(x, t), x, t)
    assert to_hex(display.circles_.get_edgecolors()[0]) == to_hex(ink)


@pytest.mark.parametrize(
    ("draw", "error", "told"),
    [
        (lambda draw: draw(SVR().fit(x, t)), ValueError, "SVR keeps no training points; pass X"),
        (
            lambda draw: draw(make_pipeline(StandardScaler(), KernelRidge()).fit(x, t)),
            ValueError,
            "pass X",
        ),
        (lambda draw: draw(SVC().fit(x, t > 0), x), TypeError, "SVC is no regressor"),
        (
            lambda draw: draw(KernelRidge(kernel="precomputed").fit(x @ x.T, t)),
            TypeError,
            "Gram matrix",
        ),
        (
            lambda draw: draw(KernelRidge(kernel=K.Spectrum(2)).fit(["ab", "ba"], [0.0, 1.0])),
            ValueError,
            "features that are numbers",
        ),
        (
            lambda draw: draw(KernelRidge().fit(x, np.column_stack([t, t]))),
            ValueError,
            "2 outputs are predicted",
        ),
        (lambda draw: draw(KernelRidge().fit(x, t), y=t), ValueError, "without X"),
        (lambda draw: draw(KernelRidge().fit(x, t), x, t[:9]), ValueError, "inconsistent"),
        (lambda draw: draw(KernelRidge().fit(x, t), x[:, 0]), ValueError, r"shape \(50,\)"),
        (
            lambda draw: draw(KernelRidge().fit(x, t), x, np.column_stack([t, t])),
            ValueError,
            "2 columns",
        ),
    ],
)
def test_what_has_no_curve_is_named(draw, error, told):
    with pytest.raises(error, match=told):
        draw(RegressionDisplay.from_estimator)
