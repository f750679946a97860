"""With as many centres as points, approximations on centres are exact."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer
from mercer import kernels as K

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=40)
KERNEL = K.Laplacian(0.5)

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


@pytest.mark.parametrize("passes_pay", [0, np.inf])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_ridge(passes_pay, fit_intercept, monkeypatch):
    monkeypatch.setattr("mercer.estimators.centres.PASSES_FROM_MULTIPLICATIONS", passes_pay)
    settings = {"alpha": 0.1, "kernel": KERNEL, "fit_intercept": fit_intercept, "tol": 1e-10}
    exact = mercer.KernelRidge(**settings, solver="cholesky").fit(X, Y)
    for centers in ("pivoted", "uniform", X):
        model = mercer.KernelRidge(**settings, solver="nystrom", n_centers=40, centers=centers)
        assert_allclose(model.fit(X, Y).predict(X), exact.predict(X), atol=1e-8)


def test_ridge_with_the_regulariser_chosen():
    settings = {"alphas": [0.01, 0.1, 1.0], "kernel": KERNEL}
    exact = mercer.KernelRidgeCV(**settings).fit(X, Y)
    model = mercer.KernelRidgeCV(**settings, solver="nystrom", n_centers=40).fit(X, Y)
    assert model.alpha_ == exact.alpha_
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
def test_regression_machines(loss):
    settings = {"alpha": 0.1, "kernel": KERNEL, "loss": loss, "tol": 1e-10}
    exact = mercer.KernelMachineRegressor(**settings).fit(X, Y)
    model = mercer.KernelMachineRegressor(**settings, n_centers=40).fit(X, Y)
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge"])
def test_classifying_machines(loss):
    settings = {"alpha": 0.1, "kernel": KERNEL, "loss": loss, "tol": 1e-10}
    exact = mercer.KernelMachineClassifier(**settings).fit(X, Y > 0)
    model = mercer.KernelMachineClassifier(**settings, n_centers=40).fit(X, Y > 0)
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("n_components", [3, 39, 40])
def test_components(n_components):
    settings = {"kernel": KERNEL, "n_components": n_components}
    exact = mercer.KernelPCA(**settings, eigen_solver="dense").fit(X)
    model = mercer.KernelPCA(**settings, eigen_solver="nystrom", n_centers=40).fit(X)
    assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=1e-10)
    assert_allclose(np.abs(model.transform(X))[:, :3], np.abs(exact.transform(X))[:, :3], atol=1e-8)


@pytest.mark.parametrize("repeated", [False, True])
def test_a_feature_map(repeated):
    points = np.repeat(X[:20], 2, axis=0) if repeated else X
    features = KERNEL.approximate_map(40, method="nystrom", random_state=0).fit_transform(points)
    assert_allclose(features @ features.T, KERNEL(points), atol=1e-10)
