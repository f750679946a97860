"""Displays of a pipeline show its last step, with X as that step sees it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from mercer import (  # noqa: E402
    KernelCCA,
    KernelCentroidClassifier,
    KernelDensity,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
)
from mercer import kernels as K  # noqa: E402
from mercer.plots import (  # noqa: E402
    BandwidthDisplay,
    CanonicalDisplay,
    DensityDisplay,
    GapDisplay,
    PreImageDisplay,
    ProjectionDisplay,
    RegularizationDisplay,
    ScreeDisplay,
)

X = 5 + 3 * np.random.default_rng(0).normal(size=(60, 4))
SCALED = StandardScaler().fit_transform(X)


def after_scaling(model, *targets):
    return make_pipeline(StandardScaler(), model).fit(X, *targets)


def test_components():
    model = after_scaling(KernelPCA(2, kernel=K.RBF(0.1)))
    shares = model[-1].explained_variance_ratio_
    np.testing.assert_allclose(ScreeDisplay.from_estimator(model).ratio, shares)
    drawn = ProjectionDisplay.from_estimator(model, X[:9]).components
    np.testing.assert_allclose(drawn, model.transform(X[:9]))
    kept = ProjectionDisplay.from_estimator(model).components
    np.testing.assert_allclose(kept, model.transform(X), atol=1e-12)


def test_pre_images_are_in_the_features_that_were_given():
    model = after_scaling(KernelPCA(4, kernel=K.Linear(), fit_inverse_transform=True, alpha=1e-9))
    display = PreImageDisplay.from_estimator(model, X[:3], shape=(2, 2))
    np.testing.assert_allclose(display.rows["pre-image"].reshape(3, 4), X[:3], atol=1e-5)


def test_variates():
    views = X, X**2
    model = after_scaling(KernelCCA(1, kernel=K.RBF(0.1), regularization=0.1), views[1])
    found = CanonicalDisplay.from_estimator(model, *views).variates
    np.testing.assert_allclose(found, np.column_stack(model[-1].transform(SCALED, views[1])))


def test_gaps_and_regularisers():
    model = after_scaling(KernelRidge(kernel="rbf", solver="pcg", tol=1e-8), X[:, 0])
    assert list(GapDisplay.from_estimator(model).history) == list(model[-1].result_.history)
    with pytest.raises(ValueError, match="KernelCentroidClassifier has no record"):
        GapDisplay.from_estimator(after_scaling(KernelCentroidClassifier(), X[:, 0] > 5))
    model = after_scaling(KernelRidgeCV([0.1, 1.0], kernel="rbf"), X[:, 0])
    assert RegularizationDisplay.from_estimator(model).chosen == model[-1].alpha_


def test_densities_and_their_bandwidths():
    model = make_pipeline(make_pipeline(StandardScaler(), PCA(1)), KernelDensity(bandwidth="mlcv"))
    model.fit(X)
    display = DensityDisplay.from_estimator(model, X[:9])
    np.testing.assert_allclose(display.X, model[:-1].transform(X[:9]))
    assert BandwidthDisplay.from_estimator(model).chosen == model[-1].bandwidth_


def test_a_pipeline_in_a_pipeline_ends_where_its_last_does():
    inner = make_pipeline(PCA(2), KernelPCA(2, kernel=K.RBF(0.1)))
    model = after_scaling(inner)
    drawn = ProjectionDisplay.from_estimator(model, X[:9]).components
    np.testing.assert_allclose(drawn, model.transform(X[:9]))


def test_searches_show_their_best_estimator():
    pipeline = make_pipeline(StandardScaler(), KernelPCA(2))
    search = GridSearchCV(pipeline, {"kernelpca__n_components": [2]}, scoring=lambda *_: 0.0)
    display = ScreeDisplay.from_estimator(search.fit(X))
    assert len(display.ratio) == 2
