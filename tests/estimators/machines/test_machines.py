"""Kernel machines against ridge, support vector machines and linear models on features."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor
from sklearn.linear_model import QuantileRegressor as SklearnQuantileRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from machine_examples import classes, regression
from mercer import kernels as K
from mercer.estimators.machines.classification import KernelMachineClassifier
from mercer.estimators.machines.regression import KernelMachineRegressor
from mercer.estimators.ridge.regression import KernelRidge
from mercer.solvers.result import Status

CLASSIFIER_LOSSES = ["logistic", "hinge", "squared_hinge"]
REGRESSOR_LOSSES = ["squared", "absolute", "epsilon_insensitive", "huber", "quantile", "poisson"]


@parametrize_with_checks(
    [KernelMachineClassifier(loss) for loss in CLASSIFIER_LOSSES]
    + [KernelMachineRegressor(loss) for loss in REGRESSOR_LOSSES]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def test_squared_loss_is_kernel_ridge():
    X, y = regression()
    weight = np.random.default_rng(1).uniform(0.1, 2.0, size=60)
    ridge = KernelRidge(0.3, kernel="rbf", gamma=0.5).fit(X, y, sample_weight=weight)
    machine = KernelMachineRegressor("squared", alpha=0.3, gamma=0.5, fit_intercept=False)
    machine.fit(X, y, sample_weight=weight)
    assert_allclose(machine.dual_coef_, ridge.dual_coef_, atol=1e-9)
    assert machine.intercept_ == 0.0
    assert machine.result_.method == "newton: the loss is smooth"


def test_the_bias_is_not_penalised():
    X, y = regression()
    near = KernelMachineRegressor("squared", alpha=0.3).fit(X, y)
    far = KernelMachineRegressor("squared", alpha=0.3).fit(X, y + 1000.0)
    assert_allclose(far.predict(X) - 1000.0, near.predict(X), atol=1e-7)
    assert_allclose(near.dual_coef_.sum(), 0.0, atol=1e-9)


@pytest.mark.parametrize("C", [0.05, 1.0, 100.0])
@pytest.mark.parametrize("k", [2, 3])
def test_hinge_is_the_support_vector_machine(C, k):
    X, y = classes(k=k)
    machine = KernelMachineClassifier("hinge", alpha=1 / C, gamma=0.7).fit(X, y)
    assert machine.result_.gap < 1e-8
    if k == 2:
        svc = SVC(C=C, gamma=0.7, tol=1e-10).fit(X, y)
        assert_allclose(machine.decision_function(X), svc.decision_function(X), atol=1e-4)
        assert_array_equal(np.flatnonzero(np.abs(machine.dual_coef_) > 1e-8), np.sort(svc.support_))
    for one in range(k if k > 2 else 0):
        svc = SVC(C=C, gamma=0.7, tol=1e-10).fit(X, y == one)
        scores = machine.decision_function(X)[:, one]
        assert_allclose(scores, svc.decision_function(X), atol=1e-4)


def test_hinge_with_weights_is_the_weighted_support_vector_machine():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:200]
    y = y[:200]
    weight = np.random.default_rng(0).uniform(0.1, 2.0, size=200)
    # scikit-learn balances counts here, not weights.
    balance = {c: weight.sum() / (2 * weight[y == c].sum()) for c in (0, 1)}
    svc = SVC(C=2.0, gamma=0.02, tol=1e-9, class_weight=balance)
    svc.fit(X, y, sample_weight=weight)
    machine = KernelMachineClassifier("hinge", alpha=0.5, gamma=0.02, class_weight="balanced")
    machine.fit(X, y, sample_weight=weight)
    assert_allclose(machine.decision_function(X), svc.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_epsilon_insensitive_is_support_vector_regression(epsilon):
    X, y = regression()
    svr = SVR(C=4.0, epsilon=epsilon, gamma=0.5, tol=1e-10).fit(X, y)
    machine = KernelMachineRegressor(
        "epsilon_insensitive", alpha=0.25, epsilon=epsilon, gamma=0.5
    ).fit(X, y)
    assert_allclose(machine.predict(X), svr.predict(X), atol=1e-4)


@pytest.mark.parametrize("solver", ["exact", "nystrom"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("k", [2, 3])
def test_logistic_is_logistic_regression_on_the_feature_map(k, fit_intercept, solver):
    X, y = load_wine(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:, :4], np.minimum(y, k - 1)
    kernel = K.Polynomial(degree=2)
    Phi = kernel.feature_map().fit_transform(X)  # 15 features: 53 centres span them all
    weight = np.random.default_rng(0).uniform(0.2, 2.0, size=len(y))
    machine = KernelMachineClassifier(
        "logistic", alpha=0.5, kernel=kernel, fit_intercept=fit_intercept, tol=1e-13, solver=solver
    ).fit(X, y, sample_weight=weight)
    linear = LogisticRegression(
        C=2.0, solver="newton-cg", tol=1e-12, max_iter=10_000, fit_intercept=fit_intercept
    ).fit(Phi, y, sample_weight=weight)
    scores = linear.decision_function(Phi)
    if k > 2:  # a constant for all classes says nothing, and scikit-learn 1.7 leaves one
        scores = scores - scores.mean(axis=1, keepdims=True)
    assert_allclose(machine.decision_function(X), scores, atol=1e-6)
    assert_allclose(machine.predict_proba(X), linear.predict_proba(Phi), atol=1e-7)
    assert_allclose(machine.predict_log_proba(X), np.log(machine.predict_proba(X)), atol=1e-9)
    assert_array_equal(machine.predict(X), linear.predict(Phi))


def test_improbable_classes_have_finite_logarithms():
    X, y = np.array([[-1.0], [0.0], [1.0]]) * 1e3, np.array([0, 1, 2])
    machine = KernelMachineClassifier("logistic", kernel="linear", alpha=1e-4).fit(X, y)
    log = machine.predict_log_proba(1e3 * X)
    assert np.all(np.isfinite(log))
    assert np.min(machine.predict_proba(1e3 * X)) == 0.0


def test_squared_hinge_is_linear_svc_without_bias():
    X, y = classes()
    machine = KernelMachineClassifier(
        "squared_hinge", alpha=0.5, kernel="linear", fit_intercept=False, tol=1e-10
    ).fit(X, y)
    linear = LinearSVC(C=2.0, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(X, y)
    assert_allclose(machine.decision_function(X), linear.decision_function(X), atol=1e-4)


def test_poisson_is_poisson_regression_on_a_linear_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = rng.poisson(np.exp(X @ [0.5, -0.3, 0.1] + 1.0))
    machine = KernelMachineRegressor("poisson", alpha=2.0, kernel="linear", tol=1e-10).fit(X, y)
    linear = PoissonRegressor(alpha=2.0 / 80, tol=1e-10, max_iter=10_000).fit(X, y)
    assert_allclose(machine.predict(X), linear.predict(X), rtol=1e-5)
    with pytest.raises(ValueError, match="negative value"):
        machine.fit(X, y - 1.0)


def test_quantile_is_linear_quantile_regression_as_alpha_vanishes():
    X, y = regression(n=40)
    machine = KernelMachineRegressor("quantile", quantile=0.7, alpha=1e-9, kernel="linear")
    linear = SklearnQuantileRegressor(quantile=0.7, alpha=0.0, solver="highs").fit(X, y)
    assert_allclose(machine.fit(X, y).predict(X), linear.predict(X), atol=1e-4)


def test_half_the_absolute_loss_is_the_median_loss():
    X, y = regression(n=40)
    median = KernelMachineRegressor("quantile", alpha=0.2).fit(X, y)
    absolute = KernelMachineRegressor("absolute", alpha=0.4).fit(X, y)
    assert_allclose(median.predict(X), absolute.predict(X), atol=1e-6)


def test_huber_is_robust_and_ridge_for_a_large_delta():
    X, y = regression()
    wide = KernelMachineRegressor("huber", delta=1e6, alpha=0.3).fit(X, y)
    squared = KernelMachineRegressor("squared", alpha=0.3).fit(X, y)
    assert_allclose(wide.predict(X), squared.predict(X), atol=1e-8)
    spoilt = y.copy()
    spoilt[::10] += 100.0
    robust = KernelMachineRegressor("huber", alpha=0.3).fit(X, spoilt)
    fooled = KernelMachineRegressor("squared", alpha=0.3).fit(X, spoilt)
    errors = [np.median(np.abs(m.predict(X) - y)) for m in (robust, fooled)]
    assert errors[0] < 0.5 < errors[1]


def test_huber_minimises_what_scikit_learns_does_at_unit_scale():
    """HuberRegressor estimates a scale; at the scale it finds, the weights are the machine's."""
    X, y = regression(n=100)
    theirs = HuberRegressor(epsilon=1.5, alpha=0.01, tol=1e-10, max_iter=10_000).fit(X, y)
    s = theirs.scale_
    # s L_H(r / s) with twice our Huber, plus alpha ||w||^2.
    ours = KernelMachineRegressor(
        "huber", delta=1.5 * s, alpha=s * 0.01, kernel="linear", tol=1e-10
    )
    assert_allclose(ours.fit(X, y).predict(X), theirs.predict(X), atol=2e-3)


@pytest.mark.parametrize("loss", CLASSIFIER_LOSSES + REGRESSOR_LOSSES)
def test_real_data_are_fitted_to_tolerance(loss):
    if loss in CLASSIFIER_LOSSES:
        X, y = load_breast_cancer(return_X_y=True)
        machine = KernelMachineClassifier(loss, alpha=0.1)
    else:
        X, y = load_diabetes(return_X_y=True)
        machine = KernelMachineRegressor(loss, alpha=0.01)
    X, y = StandardScaler().fit_transform(X)[:150], y[:150]
    machine.fit(X, y)
    assert machine.result_.status is Status.CONVERGED
    assert machine.result_.gap <= 1e-6
    assert machine.n_iter_ >= 1


def test_levels_are_looked_at_for_the_quantile_loss_only():
    X, y = regression(n=20)
    machine = KernelMachineRegressor("huber", quantile=[0.1, 0.9]).fit(X, y)
    assert machine.predict(X).shape == (20,)
    assert machine.score(X, y) > 0.5


def test_structured_and_precomputed_inputs():
    texts = ["aab", "aba", "baa", "bbb", "bba", "abb"] * 2
    labels = ["a", "a", "a", "b", "b", "b"] * 2
    kernel = K.Spectrum(k=1)
    machine = KernelMachineClassifier("logistic", kernel=kernel, alpha=0.01).fit(texts, labels)
    assert_array_equal(machine.predict(["aaaa", "bbbb"]), ["a", "b"])
    gram = kernel(texts)
    given = KernelMachineClassifier("logistic", kernel="precomputed", alpha=0.01).fit(gram, labels)
    assert_allclose(
        given.decision_function(kernel(["ab", "bb"], texts)),
        machine.decision_function(["ab", "bb"]),
        atol=1e-8,
    )


def test_an_unreached_tolerance_is_a_warning_with_advice():
    X, y = classes()
    machine = KernelMachineClassifier("logistic", alpha=1e-6, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached first"):
        machine.fit(X, y)
    assert machine.result_.status is Status.MAX_ITER
    assert machine.score(X, y) > 0.5


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_duplicates_with_both_labels_and_tiny_data(loss):
    X = np.array([[0.0], [0.0], [1.0]])
    machine = KernelMachineClassifier(loss, alpha=0.01).fit(X, [0, 1, 1])
    assert np.all(np.isfinite(machine.decision_function(X)))
    assert machine.predict([[1.0]])[0] == 1
    pair = KernelMachineClassifier(loss).fit([[0.0], [1.0]], ["no", "yes"])
    assert_array_equal(pair.predict([[0.0], [1.0]]), ["no", "yes"])


def test_a_single_point_is_fitted_by_the_bias():
    for loss in REGRESSOR_LOSSES:
        machine = KernelMachineRegressor(loss).fit([[1.0]], [3.0])
        assert_allclose(machine.predict([[1.0]]), [3.0], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"loss": "hinge"}, "loss"),
        ({"quantile": 1.0}, "quantile"),
        ({"delta": 0.0}, "delta"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"max_time": 0}, "max_time"),
    ],
)
def test_wrong_parameters_are_named(change, words):
    X, y = regression(n=10)
    with pytest.raises(ValueError, match=words):
        KernelMachineRegressor(**change).fit(X, y)


def test_a_class_without_weight_is_named():
    X, y = classes()
    with pytest.raises(ValueError, match=r"class .*1.* weight zero"):
        KernelMachineClassifier().fit(X, y, sample_weight=(y == 0).astype(float))


@pytest.mark.parametrize(
    ("machine", "scale"),
    [
        (KernelMachineClassifier("logistic", kernel="linear", alpha=1e-8), 1.0),
        (KernelMachineRegressor("huber", kernel="poly", gamma=1.0), 1.0),
        (KernelMachineRegressor("squared", kernel="linear", alpha=1e-3), 1e4),
    ],
)
def test_a_regulariser_lost_in_rounding_is_a_warning_with_advice(machine, scale):
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"standardise the features.*larger alpha"):
        machine.fit(scale * X, y)
    assert machine.result_.status is Status.STALLED
    assert machine.score(scale * X, y) > 0.5


@pytest.mark.parametrize(
    "machine",
    [
        KernelMachineClassifier("squared_hinge", alpha=1e-9),
        KernelMachineClassifier("logistic", alpha=1e-9),
        KernelMachineClassifier("logistic", kernel="poly", gamma=1.0),
        KernelMachineRegressor("huber", delta=0.1, alpha=1e-6),
    ],
)
def test_a_tiny_regulariser_is_reached(machine):
    X, y = load_breast_cancer(return_X_y=True)
    assert machine.fit(X, y).result_.status is Status.CONVERGED
