"""Gaussian process classification against scikit-learn, and against sampling."""

import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier as Theirs
from sklearn.gaussian_process import kernels as S
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import GaussianProcessClassifier
from mercer import kernels as K

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
LABELS = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=60) > 0, "yes", "no")
NEW = RNG.normal(size=(9, 2))
IRIS, SPECIES = load_iris(return_X_y=True)
IRIS, SPECIES = IRIS[::3], SPECIES[::3]


@pytest.mark.parametrize(
    "kernel",
    [2.0 * S.RBF([1.0, 0.7]), S.Matern(0.9, nu=1.5) + S.WhiteKernel(0.3), S.Matern(nu=0.7)],
)
def test_kernels_of_scikit_learn_give_its_numbers(kernel):
    theirs, ours = (
        each(kernel, optimizer=None).fit(X, LABELS) for each in (Theirs, GaussianProcessClassifier)
    )
    theta = theirs.kernel_.theta
    for at in (theta, theta + 0.3):
        found = ours.log_marginal_likelihood(at, eval_gradient=True)
        expected = theirs.log_marginal_likelihood(at, eval_gradient=True)
        assert found[0] == pytest.approx(expected[0], rel=1e-8)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-4)
    for both in zip(
        ours.latent_mean_and_variance(NEW), theirs.latent_mean_and_variance(NEW), strict=True
    ):
        np.testing.assert_allclose(*both, rtol=1e-4, atol=1e-5)
    # Theirs approximates the logistic function by a sum of five error functions.
    np.testing.assert_allclose(ours.predict_proba(NEW), theirs.predict_proba(NEW), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(NEW), theirs.predict(NEW))
    np.testing.assert_allclose(ours.base_estimator_.pi_, theirs.base_estimator_.pi_, atol=1e-4)
    np.testing.assert_allclose(ours.base_estimator_.L_, theirs.base_estimator_.L_, atol=1e-4)


def test_the_evidence_found_is_as_good_as_theirs():
    kernel = 1.0 * S.RBF([1.0, 1.0])
    theirs, ours = (each(kernel).fit(X, LABELS) for each in (Theirs, GaussianProcessClassifier))
    value = ours.log_marginal_likelihood_value_
    assert value > theirs.log_marginal_likelihood_value_ - 1e-4
    assert ours.result_.status.ok
    assert ours.result_.gap < 1e-8


def test_the_gradient_for_our_kernels():
    model = GaussianProcessClassifier(1.0 * K.RBF(scales=[1.0, 2.0]), optimizer=None)
    model.fit(X, LABELS)
    theta = np.log([1.5, 0.8, 1.1])
    _, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    differences = approx_fprime(theta, model.log_marginal_likelihood, 1e-6)
    np.testing.assert_allclose(slope, differences, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
def test_several_classes_as_theirs(multi_class):
    kernel = 1.0 * S.RBF()
    theirs, ours = (
        each(kernel, multi_class=multi_class, optimizer=None).fit(IRIS, SPECIES)
        for each in (Theirs, GaussianProcessClassifier)
    )
    np.testing.assert_array_equal(ours.predict(IRIS), theirs.predict(IRIS))
    value = ours.log_marginal_likelihood_value_
    assert value == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)
    assert ours.kernel_ == theirs.kernel_
    assert len(ours.estimators_) == 3
    theta = np.log([2.0, 0.5])
    for at in (theta, np.tile(theta, 3)):
        assert ours.log_marginal_likelihood(at) == pytest.approx(
            theirs.log_marginal_likelihood(at), rel=1e-6
        )
    with pytest.raises(ValueError, match="Shape of theta"):
        ours.log_marginal_likelihood(np.zeros(5))
    with pytest.raises(NotImplementedError):
        ours.log_marginal_likelihood(theta, eval_gradient=True)
    if multi_class == "one_vs_rest":
        np.testing.assert_allclose(ours.predict_proba(IRIS), theirs.predict_proba(IRIS), atol=2e-3)
    else:
        with pytest.raises(ValueError, match="one_vs_rest"):
            ours.predict_proba(IRIS)


def test_the_mode_is_stationary():
    model = GaussianProcessClassifier(3.0 * K.RBF(), optimizer=None).fit(X, LABELS)
    posterior = model.estimators_[0].posterior
    a, s = posterior.alpha, posterior.problem.s
    f = posterior.prior.gram(X) @ a
    np.testing.assert_allclose(a, s / (1 + np.exp(s * f)), atol=1e-9)


def test_words_and_several_kernels_of_ours():
    words = ["".join(RNG.choice(list(letters), size=6)) for letters in ("abc", "bcd", "aad") * 10]
    labels = [0, 1, 2] * 10
    model = GaussianProcessClassifier(1.0 * K.Spectrum(1).normalize()).fit(words, labels)
    assert model.score(words, labels) > 0.8
    assert len(model.kernel_) == len(model.hyperparameters_) == 3
    assert model.predict_proba(words[:2]).shape == (2, 3)
    pairs = GaussianProcessClassifier(K.Spectrum(1).normalize(), multi_class="one_vs_one", n_jobs=2)
    assert pairs.fit(words, labels).score(words, labels) > 0.8


def test_extreme_amplitudes_find_a_mode():
    for amplitude in (1e-8, 1e5):
        model = GaussianProcessClassifier(amplitude * K.RBF(), optimizer=None).fit(X, LABELS)
        assert model.result_.status.ok
        found = model.predict_proba(NEW)
        assert np.all((found >= 0) & (found <= 1))
        np.testing.assert_allclose(found.sum(axis=1), 1)


def test_too_few_newton_steps_are_reported():
    model = GaussianProcessClassifier(100.0 * K.RBF(), optimizer=None, max_iter_predict=1)
    with pytest.warns(ConvergenceWarning, match="max_iter_predict"):
        model.fit(X, LABELS)


def test_a_warm_start_needs_fewer_steps():
    model = GaussianProcessClassifier(10.0 * K.RBF(), optimizer=None, warm_start=True)
    cold = model.fit(X, LABELS).estimators_[0].posterior.result.n_iter
    warm = model.fit(X, LABELS).estimators_[0].posterior.result.n_iter
    assert warm == 0 < cold


def test_what_is_refused():
    with pytest.raises(ValueError, match="one class only"):
        GaussianProcessClassifier().fit(X, np.ones(60))
    with pytest.raises(ValueError, match="CompoundKernel"):
        GaussianProcessClassifier(S.CompoundKernel([S.RBF()])).fit(X, LABELS)
    with pytest.raises(ValueError, match="bounds names"):
        GaussianProcessClassifier(K.RBF(), bounds={"noise": (1, 2)}).fit(X, LABELS)


def test_pickles():
    model = GaussianProcessClassifier(1.0 * S.RBF()).fit(X, LABELS)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(NEW), model.predict_proba(NEW))


@parametrize_with_checks([GaussianProcessClassifier(), GaussianProcessClassifier(1.0 * K.RBF())])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("choice", [{"engine": "inducing"}, {"n_inducing": 25}])
def test_inducing_points_predict_as_all_points(choice):
    kernel = 1.0 * K.RBF()
    exact, few = (GaussianProcessClassifier(kernel, **each).fit(X, LABELS) for each in ({}, choice))
    assert few.result_.method.startswith("variational")
    assert few.log_marginal_likelihood_value_ < exact.log_marginal_likelihood_value_ + 1.0
    np.testing.assert_allclose(few.predict_proba(NEW), exact.predict_proba(NEW), atol=0.1)
    theta = np.log(list(few.hyperparameters_.values()))
    value = few.log_marginal_likelihood(theta)
    assert value == pytest.approx(few.log_marginal_likelihood_value_, rel=1e-6)


def test_inducing_points_for_several_classes_and_words():
    model = GaussianProcessClassifier(K.RBF(), n_inducing=10, optimizer=None).fit(IRIS, SPECIES)
    assert model.score(IRIS, SPECIES) > 0.9
    words = ["ab", "abb", "bba", "cd", "cdd", "dcd"] * 3
    model = GaussianProcessClassifier(K.Spectrum(1).normalize(), n_inducing=4, optimizer=None)
    assert model.fit(words, [0, 0, 0, 1, 1, 1] * 3).score(words, [0, 0, 0, 1, 1, 1] * 3) == 1


def test_inducing_points_are_chosen_by_size(monkeypatch):
    monkeypatch.setattr("mercer.estimators.gaussian_process.binary.EXACT_AT_MOST", 50)
    model = GaussianProcessClassifier(1.0 * K.RBF(), optimizer=None).fit(X, LABELS)
    assert "60 points" in model.result_.method
    assert model.result_.method.startswith("variational")


def test_inducing_points_refuse_white_noise():
    kernel = S.RBF() + S.WhiteKernel()
    with pytest.raises(ValueError, match="no white noise"):
        GaussianProcessClassifier(kernel, engine="inducing").fit(X, LABELS)
