"""Kernel machines on a few centres: the optimum over their span, and how far the exact one is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from mercer import kernels as K
from mercer.estimators.losses import PointwiseLoss
from mercer.estimators.machines import engine as machine_solution
from mercer.estimators.machines.classification import KernelMachineClassifier
from mercer.estimators.machines.regression import KernelMachineRegressor
from mercer.solvers.result import Status

CLASSIFIER_LOSSES = ["logistic", "hinge", "squared_hinge"]
REGRESSOR_LOSSES = ["squared", "absolute", "epsilon_insensitive", "huber", "quantile", "poisson"]


def data(loss, n=120, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_t(4, size=n)
    if loss in CLASSIFIER_LOSSES:
        return X, np.digitize(signal, np.quantile(signal, np.arange(1, k) / k))
    return X, np.round(np.exp(signal)) if loss == "poisson" else signal


def machine(loss, **settings):
    kind = KernelMachineClassifier if loss in CLASSIFIER_LOSSES else KernelMachineRegressor
    return kind(loss, **({"kernel": K.RBF(0.5), "alpha": 0.3} | settings))


def function(model, X):
    return model.kernel_(X, model.X_fit_) @ model.dual_coef_ + model.intercept_


def distance(one, other):
    """``||f - g||`` in the kernel's space, over machines, without biases."""
    points = np.vstack([one.X_fit_, other.X_fit_])
    coef = np.concatenate([one.dual_coef_, -other.dual_coef_]).reshape(len(points), -1)
    squared = np.max(np.sum(coef * (one.kernel_(points) @ coef), axis=0))
    return np.sqrt(max(squared, 0.0))  # which rounding may leave below zero


def slack(exact, y):
    """How far an exact machine may be from the minimum itself, known to its gap or rounding."""
    size = len(y) * (1 + np.max(np.abs(y)) ** 2)
    return np.sqrt(2 * max(exact.result_.gap, 1e-13) * size / exact.alpha)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", CLASSIFIER_LOSSES + REGRESSOR_LOSSES)
def test_all_points_as_centres_give_the_exact_machine(loss, fit_intercept):
    X, y = data(loss)
    weight = np.random.default_rng(1).uniform(0.2, 2.0, size=len(y))
    exact = machine(loss, solver="exact", fit_intercept=fit_intercept, tol=1e-10)
    centred = machine(loss, n_centers=120, fit_intercept=fit_intercept, tol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some stall short of so tight a tolerance
        exact.fit(X, y, sample_weight=weight)
        centred.fit(X, y, sample_weight=weight)
    assert exact.result_.gap < 1e-7
    assert centred.result_.gap < 1e-7
    assert_allclose(function(centred, X), function(exact, X), atol=5e-3)
    assert "n_centers is given" in centred.result_.method
    # The bound covers the distance, and is small where there is none.
    assert distance(centred, exact) <= centred.result_.bound + slack(exact, y)
    assert centred.result_.bound < 0.05


@settings(max_examples=40, deadline=None)
@given(
    loss=st.sampled_from(CLASSIFIER_LOSSES + REGRESSOR_LOSSES),
    seed=st.integers(0, 10**6),
    n_centers=st.integers(1, 30),
    alpha=st.floats(0.01, 100),
    fit_intercept=st.booleans(),
    k=st.sampled_from([2, 3]),
)
def test_the_bound_is_never_violated(loss, seed, n_centers, alpha, fit_intercept, k):
    X, y = data(loss, n=40, k=k, seed=seed)
    settings = {"alpha": alpha, "fit_intercept": fit_intercept, "tol": 1e-8}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = machine(loss, solver="exact", **settings).fit(X, y)
        few = machine(loss, n_centers=n_centers, random_state=seed, **settings).fit(X, y)
    assert distance(few, exact) <= few.result_.bound + slack(exact, y)


def test_a_low_rank_kernel_is_exact_on_centres():
    X, y = data("logistic", n=90)
    exact = KernelMachineClassifier(kernel="linear", solver="exact", tol=1e-12).fit(X, y)
    few = KernelMachineClassifier(kernel="linear", n_centers=20, tol=1e-12, random_state=0)
    few.fit(X, y)
    assert_allclose(few.decision_function(X), exact.decision_function(X), atol=1e-5)
    assert len(few.X_fit_) == 2
    assert few.result_.bound < 1e-3


def test_many_points_are_fitted_on_centres_and_it_is_said_why(monkeypatch):
    monkeypatch.setattr(machine_solution, "EXACT_AT_MOST", 100)
    X, y = data("huber")
    model = machine("huber", random_state=0).fit(X, y)
    assert model.result_.status is Status.CONVERGED
    centres = len(model.X_fit_)
    assert centres <= 44
    assert model.result_.method == (
        f"nystrom with {centres} centres, newton: the loss is smooth; "
        "120 points are more than the 100 of an exact fit"
    )
    assert machine("huber", solver="exact").fit(X, y).X_fit_.shape == X.shape


def test_features_that_do_not_fit_are_computed_again(monkeypatch):
    X, y = data("logistic")
    kept = machine("logistic", n_centers=20, random_state=0).fit(X, y)
    monkeypatch.setattr("mercer.arrays.Backend.room", lambda self, X: 0)
    again = machine("logistic", n_centers=20, random_state=0).fit(X, y)
    assert_allclose(again.decision_function(X), kept.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_more_classes_on_centres(loss):
    X, y = load_iris(return_X_y=True)
    model = KernelMachineClassifier(loss, alpha=0.1, n_centers=30, random_state=0).fit(X, y)
    assert model.dual_coef_.shape == (len(model.X_fit_), 3)
    assert model.score(X, y) > 0.95


def test_strings_precomputed_and_corrected_kernels_on_centres():
    texts = ["aab", "aba", "baa", "bbb", "bba", "abb"] * 3
    labels = ["a", "a", "a", "b", "b", "b"] * 3
    kernel = K.Spectrum(k=1)
    settings = {"alpha": 0.01, "n_centers": 5, "random_state": 0}
    few = KernelMachineClassifier(kernel=kernel, **settings).fit(texts, labels)
    assert_array_equal(few.predict(["aaaa", "bbbb"]), ["a", "b"])
    given = KernelMachineClassifier(kernel="precomputed", **settings).fit(kernel(texts), labels)
    assert_allclose(
        given.decision_function(kernel(["ab", "bb"], texts)),
        few.decision_function(["ab", "bb"]),
        atol=1e-6,
    )
    X, y = data("logistic", n=60)
    clipped = KernelMachineClassifier(
        kernel=K.Sigmoid(coef0=1.0), indefinite="clip", n_centers=10, random_state=0
    ).fit(X, y)
    assert np.all(np.isfinite(clipped.decision_function(X)))


def test_given_centres_are_used():
    X, y = data("huber")
    model = machine("huber", solver="nystrom", centers=X[:7]).fit(X, y)
    assert {tuple(x) for x in model.X_fit_} <= {tuple(x) for x in X[:7]}


class AsymmetricSquare(PointwiseLoss):
    """Expectile regression, by three short methods and nothing else."""

    def values(self, y, f):
        return np.where(y > f, 0.9, 0.1) * (y - f) ** 2

    def slopes(self, y, f):
        return 2 * np.where(y > f, 0.9, 0.1) * (f - y)

    def curvatures(self, y, f):
        return 2 * np.where(y > f, 0.9, 0.1)


@pytest.mark.parametrize("settings", [{}, {"n_centers": 25, "random_state": 0}])
def test_a_loss_of_three_methods_is_fitted_by_newton_and_certified(settings):
    X, y = data("squared")
    weight = np.random.default_rng(3).uniform(0.5, 1.5, size=120)
    model = KernelMachineRegressor(
        AsymmetricSquare(), kernel=K.RBF(0.5), alpha=0.2, tol=1e-12, **settings
    ).fit(X, y, sample_weight=weight)
    assert model.result_.status is Status.CONVERGED
    assert "newton: the loss is smooth" in model.result_.method
    # An expectile by its own definition: repeated weighted ridge until the weights stay.
    points, f = model.X_fit_, np.zeros(120)
    G, M = model.kernel_(X, points), model.kernel_(points)
    for _ in range(60):
        s = 2 * weight * np.where(y > f, 0.9, 0.1)
        A = np.block(
            [[G.T @ (s[:, None] * G) + 0.2 * M, (G.T @ s)[:, None]], [(s @ G)[None], s.sum()]]
        )
        solution = np.linalg.lstsq(A, np.append(G.T @ (s * y), s @ y), rcond=1e-13)[0]
        f = G @ solution[:-1] + solution[-1]
    assert_allclose(model.predict(X), f, atol=1e-5)
    better = np.mean(y > f)
    assert 0.05 < better < 0.35
