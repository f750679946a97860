"""Displays of components and variates hold what the estimators say, and draw it."""

from __future__ import annotations

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from sklearn.datasets import load_digits  # noqa: E402

from mercer import KernelCCA, KernelPCA  # noqa: E402
from mercer import kernels as K  # noqa: E402
from mercer.plots import (  # noqa: E402
    CanonicalDisplay,
    PreImageDisplay,
    ProjectionDisplay,
    ScreeDisplay,
)


def points(n=60, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_shares_of_the_variance_and_their_sums():
    pca = KernelPCA(4, kernel=K.RBF(0.3)).fit(points())
    display = ScreeDisplay.from_estimator(pca, color="black")
    heights = [bar.get_height() for bar in display.bars_]
    np.testing.assert_allclose(heights, pca.explained_variance_ratio_)
    np.testing.assert_allclose(display.line_.get_ydata(), np.cumsum(heights))
    assert display.bars_[0].get_facecolor()[:3] == (0, 0, 0)
    assert not display.ax_.collections  # nothing uncertain to show
    rough = KernelPCA(4, kernel=K.RBF(0.3), eigen_solver="nystrom", n_centers=6, random_state=0)
    display = ScreeDisplay.from_estimator(rough.fit(points()))
    (bars,) = display.ax_.collections
    top = [segment[1, 1] for segment in bars.get_segments()]
    assert np.all(top > rough.explained_variance_ratio_)
    one = ScreeDisplay(ratio=np.array([0.7])).plot()
    assert all(tick == round(tick) for tick in one.ax_.get_xticks())
    # What a constant has is nothing.
    ScreeDisplay.from_estimator(KernelPCA(1, kernel=K.RBF()).fit(np.ones((5, 1))))


def test_points_along_components():
    X, y = points(), np.repeat(["a", "b", "c"], 20)
    pca = KernelPCA(3, kernel=K.RBF(0.3)).fit(X)
    display = ProjectionDisplay.from_estimator(pca, components=(0, 2))
    np.testing.assert_allclose(display.components, pca.fit_transform(X)[:, [0, 2]])
    np.testing.assert_allclose(display.scatters_[0].get_offsets(), display.components)
    display = ProjectionDisplay.from_estimator(pca, points(seed=1), y, s=3)
    np.testing.assert_allclose(display.components, pca.transform(points(seed=1))[:, :2])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["a", "b", "c"]
    np.testing.assert_allclose(display.scatters_[1].get_offsets(), display.components[20:40])
    numbers = ProjectionDisplay.from_estimator(pca, X, X[:, 0])
    np.testing.assert_allclose(numbers.scatters_[0].get_array(), X[:, 0])
    with pytest.raises(ValueError, match=r"component 3 of 3.*n_components"):
        ProjectionDisplay.from_estimator(pca, components=(0, 3))
    with pytest.raises(ValueError, match="y has 5 entries for 60 points"):
        ProjectionDisplay.from_estimator(pca, X, y[:5])


def test_a_part_of_many_points_is_drawn():
    display = ProjectionDisplay(components=points(5000, 2)).plot()
    assert len(display.scatters_[0].get_offsets()) == 2000


def test_pictures_and_their_pre_images():
    X = load_digits().data[:80] / 16
    pca = KernelPCA(10, kernel=K.RBF(0.05), fit_inverse_transform=True).fit(X)
    noisy = X[:5] + 0.1
    display = PreImageDisplay.from_estimator(pca, noisy, shape=(8, 8), truth=X[:5])
    assert list(display.rows) == ["without noise", "given", "pre-image"]
    assert display.axes_.shape == (3, 5)
    expected = pca.inverse_transform(pca.transform(noisy)).reshape(-1, 8, 8)
    np.testing.assert_allclose(display.axes_[2, 3].images[0].get_array(), expected[3])
    assert PreImageDisplay.from_estimator(pca, noisy, shape=(8, 8)).axes_.shape == (2, 5)
    with pytest.raises(ValueError, match="63 pixels"):
        PreImageDisplay.from_estimator(pca, noisy, shape=(9, 7))


def test_variates_of_two_views():
    X = points()
    cca = KernelCCA(2, kernel=K.RBF(0.3)).fit(X, X**2)
    display = CanonicalDisplay.from_estimator(cca, X, X**2, component=1)
    a, b = cca.transform(X, X**2)
    np.testing.assert_allclose(display.variates, np.c_[a[:, 1], b[:, 1]])
    assert display.correlation == pytest.approx(np.corrcoef(a[:, 1], b[:, 1])[0, 1])
    assert f"{display.correlation:.2f}" in display.ax_.get_title()
    lone = CanonicalDisplay.from_estimator(cca, X[:1], X[:1] ** 2)
    assert lone.ax_.get_title() == "no correlation: a variate is constant"
    three = KernelCCA(1, kernel=K.RBF(0.3)).fit([X, X**2, X**3])
    display = CanonicalDisplay.from_estimator(three, [X, X**2, X**3], views=(2, 0))
    assert display.ax_.get_xlabel() == "variate 1 of view 3"
    with pytest.raises(ValueError, match="pass Y"):
        CanonicalDisplay.from_estimator(cca, X)
    with pytest.raises(ValueError, match="component 2 of 2"):
        CanonicalDisplay.from_estimator(cca, X, X**2, component=2)
