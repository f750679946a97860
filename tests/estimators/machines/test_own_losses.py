"""Kernel machines with losses of one's own."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from machine_examples import classes, regression
from mercer import kernels as K
from mercer.estimators import losses
from mercer.estimators.losses import Loss, PointwiseLoss
from mercer.estimators.machines.classification import KernelMachineClassifier
from mercer.estimators.machines.regression import KernelMachineRegressor
from mercer.solvers.result import Status


class Spread(Loss):
    """A loss that is no sum over points: the largest softened error, and a penalty of its own."""

    def value(self, y, f):
        r = y - f
        return float(np.log(np.sum(np.cosh(r))))

    def gradient(self, y, f):
        r = y - f
        return -np.sinh(r) / np.sum(np.cosh(r))

    def penalty(self, norm):
        return 0.01 * norm**3

    def penalty_slope(self, norm):
        return 0.03 * norm**2


def test_a_users_loss_sees_all_predictions_and_may_bring_its_penalty():
    X, y = regression(n=20)
    kernel = K.Polynomial(degree=2)
    machine = KernelMachineRegressor(Spread(), kernel=kernel, fit_intercept=False, tol=1e-9)
    machine.fit(X, y)
    assert machine.result_.status is Status.CONVERGED
    assert machine.result_.method == "l-bfgs: the loss has its own penalty"
    Phi = kernel.feature_map().fit_transform(X)

    def objective(w):
        return Spread().value(y, Phi @ w) + Spread().penalty(np.linalg.norm(w))

    w = Phi.T @ machine.dual_coef_
    slow = minimize(objective, np.zeros(Phi.shape[1]) + 0.01, method="BFGS", tol=1e-9)
    assert objective(w) <= slow.fun + 1e-7
    assert_allclose(w, slow.x, atol=1e-3)


def test_no_direction_outside_the_span_helps():
    """Representer theorem: adding a part orthogonal to the data only raises the penalty."""
    X, y = regression(n=4)
    kernel = K.Polynomial(degree=3)
    Phi = kernel.feature_map().fit_transform(X)
    machine = KernelMachineRegressor(Spread(), kernel=kernel, fit_intercept=False).fit(X, y)
    w = Phi.T @ machine.dual_coef_
    outside = np.linalg.svd(Phi)[2][4:]
    rng = np.random.default_rng(0)
    base = Spread().value(y, Phi @ w) + Spread().penalty(np.linalg.norm(w))
    for _ in range(10):
        v = w + rng.normal(size=len(outside)) @ outside
        assert Spread().value(y, Phi @ v) + Spread().penalty(np.linalg.norm(v)) > base


class Quadratic(PointwiseLoss):
    """(y - f)^2 by its values and slopes alone."""

    def values(self, y, f):
        return (y - f) ** 2

    def slopes(self, y, f):
        return 2 * (f - y)


def test_a_pointwise_loss_needs_no_more_than_values_and_slopes():
    X, y = regression(n=30)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, size=30)
    machine = KernelMachineRegressor(Quadratic(), alpha=1.0, tol=1e-8)
    machine.fit(X, y, sample_weight=weight)
    known = KernelMachineRegressor("squared", alpha=0.5).fit(X, y, sample_weight=weight)
    assert machine.result_.method == "l-bfgs: the loss has no curvature"
    assert_allclose(machine.predict(X), known.predict(X), atol=1e-5)


def test_a_loss_of_all_predictions_takes_no_weights():
    X, y = regression(n=10)
    with pytest.raises(ValueError, match="weigh the points inside the loss"):
        KernelMachineRegressor(Spread()).fit(X, y, sample_weight=np.ones(10))


def test_a_loss_without_its_parts_says_so():
    X, y = regression(n=10)
    with pytest.raises(NotImplementedError, match="Loss must define gradient"):
        KernelMachineRegressor(Loss()).fit(X, y)


def test_a_users_classification_loss_works_like_the_built_in():
    X, y = classes(k=3)
    ours = KernelMachineClassifier(losses.Logistic(), alpha=0.1).fit(X, y)
    named = KernelMachineClassifier("logistic", alpha=0.1).fit(X, y)
    assert_array_equal(ours.predict_proba(X), named.predict_proba(X))
    assert not hasattr(KernelMachineClassifier("hinge"), "predict_proba")


class Sharper(losses.Logistic):
    """A loss of the user's that borrows from a built-in one is not that one."""

    def values(self, y, f):
        return super().values(y, 2 * f)

    def slopes(self, y, f):
        return 2 * super().slopes(y, 2 * f)

    def curvatures(self, y, f):
        return 4 * super().curvatures(y, 2 * f)

    def conjugates(self, y, u):
        return super().conjugates(y, u / 2)


def test_a_loss_derived_from_the_logistic_keeps_its_own_formulas():
    X, y = classes(k=3)
    machine = KernelMachineClassifier(Sharper(), alpha=0.4).fit(X, y)
    assert machine.result_.gap < 1e-6
    assert not hasattr(machine, "predict_proba")
    one = KernelMachineClassifier("logistic", alpha=0.1).fit(X, y == 0)
    assert_allclose(2 * machine.decision_function(X)[:, 0], one.decision_function(X), atol=1e-4)


class Backwards(PointwiseLoss):
    """Its slopes have the wrong sign."""

    def values(self, y, f):
        return 0.5 * (y - f) ** 2

    def slopes(self, y, f):
        return y - f


class Nowhere(Backwards):
    def values(self, y, f):
        return np.full(len(f), np.nan)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Backwards(), r"gradient \(or slopes\) of Backwards is not that of its value"),
        (Nowhere(), "Nowhere has no finite value"),
    ],
)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_slopes_that_are_not_those_of_the_values_are_refused(loss, message, size):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match=message):
        KernelMachineRegressor(loss=loss).fit(X, size * (3.0 + X[:, 0]))
