"""SGD for the soft-margin SVM against its textbook loop and the exact SVM."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.machines.classification import KernelMachineClassifier
from mercer.estimators.online.sgd import KernelSGDClassifier

# Draws are from places along the points, so that repeated points must stand beside each other.
ORDER = "scikit-learn's own SGDClassifier fails this check too: points are drawn in their order"
SHUFFLED = {
    f"check_sample_weight_equivalence_on_{kind}_data": ORDER for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [KernelSGDClassifier(n_iter=500)], expected_failed_checks=lambda model: SHUFFLED
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def section_16_3(kernel, X, y, lam, T, seed):
    """The book's procedure, line by line: the average and the last of alpha^(1) .. alpha^(T)."""
    rng = check_random_state(seed)
    gram, m = kernel(X), len(y)
    draws = rng.randint(m, size=T)
    beta, total = np.zeros(m), np.zeros(m)
    for t in range(1, T + 1):
        alpha = beta / (lam * t)
        total += alpha
        i = draws[t - 1]
        if y[i] * (alpha @ gram[i]) < 1:
            beta[i] += y[i]
    return total / T, alpha


@pytest.mark.parametrize("T", [1, 2, 50, 1000])
@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
def test_equals_the_procedure_of_the_book(T, lam):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1, -1)
    kernel = K.RBF(0.5)
    mean, last = section_16_3(kernel, X, y, lam, T, 7)
    averaged = KernelSGDClassifier(kernel, alpha=lam, n_iter=T, random_state=7).fit(X, y)
    final = KernelSGDClassifier(kernel, alpha=lam, n_iter=T, random_state=7, average=False)
    assert_allclose(averaged.dual_coef_, mean, atol=1e-9)
    assert_allclose(final.fit(X, y).dual_coef_, last, atol=1e-9)


def test_equals_sgd_in_the_feature_space():
    """Lemma 16.3, with the explicit map of a polynomial kernel."""
    X = np.random.default_rng(0).integers(-2, 3, size=(25, 2)).astype(float)
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    kernel = K.Polynomial(degree=2)
    Phi = kernel.feature_map().fit_transform(X)
    theta, total = np.zeros(Phi.shape[1]), np.zeros(Phi.shape[1])
    draws = check_random_state(3).randint(25, size=300)
    for t, i in enumerate(draws, start=1):
        w = theta / (0.05 * t)
        total += w
        if y[i] * (w @ Phi[i]) < 1:
            theta = theta + y[i] * Phi[i]
    model = KernelSGDClassifier(kernel, alpha=0.05, n_iter=300, random_state=3).fit(X, y)
    assert_allclose(Phi.T @ model.dual_coef_, total / 300, atol=1e-9)


@pytest.mark.parametrize("T", [300, 3000])
@pytest.mark.parametrize("k", [2, 3])
def test_many_points_of_which_few_are_drawn(T, k):
    """The Gram matrix is not stored, and of the points only those drawn are looked at."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=1200), [0.0, 0.5][: k - 1])
    kernel = K.RBF(0.5)
    model = KernelSGDClassifier(kernel, alpha=0.01, n_iter=T, random_state=7).fit(X, y)
    coef = model.dual_coef_.reshape(1200, -1)
    for machine, column in enumerate(coef.T):
        sign = np.where(y == (1 if k == 2 else machine), 1, -1)
        mean, _ = section_16_3(kernel, X, sign, 0.01, T, 7)
        assert_allclose(column, mean, atol=1e-9)


def test_a_regulariser_too_small_for_any_norm_has_an_infinite_gap():
    X, y = np.eye(3), [0, 1, 1]
    model = KernelSGDClassifier("linear", alpha=1e-300, n_iter=50, random_state=0).fit(X, y)
    assert model.result_.gap == np.inf
    assert np.all(np.isfinite(model.dual_coef_))


def test_more_classes_share_the_draws():
    X, y = load_iris(return_X_y=True)
    many = KernelSGDClassifier(gamma=0.5, n_iter=400, random_state=1).fit(X, y)
    for one in range(3):
        alone = KernelSGDClassifier(gamma=0.5, n_iter=400, random_state=1).fit(X, y == one)
        assert_allclose(many.dual_coef_[:, one], alone.dual_coef_, atol=1e-12)
    assert many.score(X, y) > 0.8


def test_nears_the_support_vector_machine_and_knows_how_near():
    """(16.5): C = 1 / (lambda m), so the machine's alpha is lambda m."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:120], y[:120]
    lam = 0.02
    exact = KernelMachineClassifier("hinge", alpha=lam * 120, gamma=0.03, fit_intercept=False)
    exact.fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    gram = K.RBF(0.03)(X)

    def objective(model):
        a = model.dual_coef_
        return np.mean(np.maximum(0, 1 - signs * (gram @ a))) + 0.5 * lam * a @ gram @ a

    excess = []
    for T in (300, 3_000, 30_000):
        sgd = KernelSGDClassifier(gamma=0.03, alpha=lam, n_iter=T, random_state=0).fit(X, y)
        excess.append(objective(sgd) - objective(exact))
        assert 0 <= excess[-1] <= sgd.result_.gap
    assert excess[0] > excess[1] > excess[2]
    assert excess[2] < 0.02


def weighed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=40), [-0.5, 0.5])]
    return X, y, rng.integers(0, 4, size=40)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", K.Polynomial(2)])
def test_weights_are_repeated_points(kernel, average):
    X, y, weight = weighed()
    model = KernelSGDClassifier(kernel, random_state=0, n_iter=2000, average=average)
    times = np.repeat(np.arange(40), weight)
    repeated = clone(model).fit(X[times], y[times], sample_weight=1.0)
    model.fit(X, y, sample_weight=weight)
    assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=1e-9)
    sums = [np.sum(repeated.dual_coef_[times == i], axis=0) for i in range(40)]
    assert_allclose(model.dual_coef_, sums, atol=1e-9)
    there = weight > 0
    absent = clone(model).fit(X[there], y[there], sample_weight=weight[there])
    assert_allclose(absent.dual_coef_, model.dual_coef_[there], atol=1e-12)
    assert not np.any(model.dual_coef_[~there])
    assert absent.result_.gap == pytest.approx(model.result_.gap)
    louder = clone(model).fit(X, y, sample_weight=8.0 * weight)
    assert_allclose(louder.dual_coef_, model.dual_coef_)


def test_weighted_draws_near_the_weighted_machine():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X[:200])
    y, m = y[:200], 200
    weight, lam = np.where(y == 1, 5.0, 0.5) * np.linspace(0.5, 1.5, m), 0.02
    kernel = K.RBF(0.05)
    # mean by shares + lam / 2 is sum by weights + alpha / 2, up to a factor.
    exact = KernelMachineClassifier(
        kernel=kernel, loss="hinge", alpha=lam * weight.sum(), fit_intercept=False
    ).fit(X, y, sample_weight=weight)
    model = KernelSGDClassifier(kernel, alpha=lam, n_iter=50_000, random_state=0)
    model.fit(X, y, sample_weight=weight)

    def objective(alpha):
        gram, sign = kernel(X), 2 * y - 1
        loss = np.maximum(0, 1 - sign * (gram @ alpha))
        return 0.5 * lam * alpha @ gram @ alpha + np.average(loss, weights=weight)

    least = objective(exact.decision_function(X) @ np.linalg.pinv(kernel(X), rcond=1e-12))
    excess = objective(model.dual_coef_) - least
    assert -1e-6 < excess <= model.result_.gap < 0.05


def test_a_class_without_weight_is_named():
    X, y, _ = weighed()
    with pytest.raises(ValueError, match="all samples of class 'b' have weight zero"):
        KernelSGDClassifier().fit(X, y, sample_weight=1.0 * (y != "b"))


def test_reproducible_and_precomputed():
    X, y = load_iris(return_X_y=True)
    kernel = K.RBF(0.5)
    model = KernelSGDClassifier(kernel, n_iter=300, random_state=0).fit(X, y)
    assert_array_equal(model.dual_coef_, clone(model).fit(X, y).dual_coef_)
    given = KernelSGDClassifier("precomputed", n_iter=300, random_state=0).fit(kernel(X), y)
    assert_allclose(given.decision_function(kernel(X[:5], X)), model.decision_function(X[:5]))
    clipped = KernelSGDClassifier(K.Sigmoid(coef0=1.0), n_iter=50, indefinite="flip").fit(X, y)
    assert np.all(np.isfinite(clipped.decision_function(X)))


@pytest.mark.parametrize(
    ("change", "words"), [({"alpha": 0.0}, "alpha"), ({"n_iter": 0}, "n_iter")]
)
def test_wrong_parameters_are_named(change, words):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=words):
        KernelSGDClassifier(**change).fit(X, y)
