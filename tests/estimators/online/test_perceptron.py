"""The kernelised perceptron against the explicit one of the notes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.online.perceptron import KernelPerceptron
from mercer.operators import TiledGram
from mercer.solvers.result import Status


@parametrize_with_checks(
    [KernelPerceptron(), KernelPerceptron(average=True), KernelPerceptron(budget=50)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def explicit_perceptron(Phi, y, epochs, seed):
    """Algorithm 2 of the notes: weights and a bias in feature space, and the mistakes made."""
    rng = check_random_state(seed)
    w, b, mistakes, history = np.zeros(Phi.shape[1]), 0.0, [], []
    for _ in range(epochs):
        for n in rng.permutation(len(y)):
            if np.sign(w @ Phi[n] + b) != y[n]:
                w, b = w + y[n] * Phi[n], b + y[n]
                mistakes.append(n)
            history.append((w, b))
    average = np.mean([w for w, _ in history], axis=0), np.mean([b for _, b in history])
    return w, b, mistakes, average


def integers(n=40, d=3, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, size=(n, d)).astype(float)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "kernel", [K.Linear(), K.Polynomial(degree=2), K.Conjunction()], ids=lambda k: type(k).__name__
)
def test_makes_the_mistakes_of_the_explicit_perceptron(kernel, seed):
    X = integers(seed=seed)
    if isinstance(kernel, K.Polynomial):
        # Its map has roots of two, which round: a score of zero is then one in one form only.
        X = X + np.random.default_rng(seed).uniform(size=X.shape)
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0, 1, -1)
    Phi = kernel.feature_map().fit_transform(X)
    w, b, mistakes, _ = explicit_perceptron(Phi, y, 7, seed)
    model = KernelPerceptron(kernel, n_epochs=7, random_state=seed).fit(X, y)
    # A clean epoch ends the kernelised run, and no mistakes come after it in the other.
    assert_array_equal(model.mistakes_, mistakes)
    assert model.n_mistakes_ == len(mistakes)
    assert model.intercept_ == b
    assert_allclose(model.decision_function(X), Phi @ w + b, atol=1e-8)


@pytest.mark.parametrize("settings", [{}, {"average": True}, {"budget": 15}, {"n_epochs": 1}])
@pytest.mark.parametrize("k", [2, 4])
def test_a_gram_matrix_that_is_not_stored_makes_the_same_mistakes(k, settings, monkeypatch):
    """Points in blocks, with the kernel computed where it is asked for: small whole numbers."""
    X = integers(n=400)
    y = (X[:, 0] * X[:, 1] + X[:, 2]).astype(int) % k
    model = KernelPerceptron(K.Polynomial(degree=2), **{"random_state": 2} | settings)
    stored = clone(model).fit(X, y)
    monkeypatch.setattr("mercer.estimators.online.perceptron.STORED", 0)
    if "budget" not in settings:
        assert isinstance(model.fit(X, y)._by_formula(X), TiledGram)
    again = model.fit(X, y)
    assert_array_equal(np.hstack(stored.mistakes_), np.hstack(again.mistakes_))
    assert_array_equal(stored.support_, again.support_)
    assert_array_equal(stored.dual_coef_, again.dual_coef_)
    assert_array_equal(stored.intercept_, again.intercept_)


def test_averages_over_every_step():
    X = integers()
    y = np.where(X[:, 0] > X[:, 1], 1, -1)
    _, _, _, (w, b) = explicit_perceptron(X, y, 5, 3)
    model = KernelPerceptron("linear", n_epochs=5, average=True, random_state=3).fit(X, y)
    assert_allclose(model.decision_function(X), X @ w + b)
    assert_allclose(model.intercept_, b)


def test_coefficients_count_mistakes():
    X = integers()
    y = np.where(X.sum(axis=1) > 0, "up", "down")
    model = KernelPerceptron("rbf", random_state=0).fit(X, y)
    counts = np.bincount(model.mistakes_, minlength=len(X))
    signs = np.where(y == "up", 1, -1)
    assert_array_equal(model.dual_coef_, (counts * signs)[model.support_])
    assert_array_equal(model.X_fit_, X[model.support_])
    assert_array_equal(np.sort(model.support_), np.flatnonzero(counts))


def test_more_classes_share_one_order():
    X, y = load_iris(return_X_y=True)
    many = KernelPerceptron("rbf", gamma=0.5, n_epochs=3, random_state=1).fit(X, y)
    for one in range(3):
        alone = KernelPerceptron("rbf", gamma=0.5, n_epochs=3, random_state=1).fit(X, y == one)
        assert_array_equal(many.mistakes_[one], alone.mistakes_)
        assert_allclose(many.decision_function(X)[:, one], alone.decision_function(X), atol=1e-9)
    assert many.n_mistakes_ == sum(len(part) for part in many.mistakes_)
    assert many.score(X, y) > 0.9


def test_separable_data_converge():
    X = np.arange(-10.0, 11.0)[:, None]
    y = np.abs(X[:, 0]) > 2
    psi = K.FromFeatures(lambda x: np.hstack([np.asarray(x), np.asarray(x) ** 2]))
    model = KernelPerceptron(psi, n_epochs=2000, random_state=0).fit(X, y)
    assert model.result_.status is Status.CONVERGED
    assert model.result_.gap == 0.0
    assert model.score(X, y) == 1.0


def test_the_budget_bounds_the_support():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300] % 2
    model = KernelPerceptron("rbf", budget=20, random_state=0).fit(X, y)
    assert len(model.support_) == 20
    assert len(model.X_fit_) == 20
    assert model.score(X, y) > 0.6
    free = KernelPerceptron("rbf", random_state=0).fit(X, y)
    roomy = KernelPerceptron("rbf", budget=10**6, random_state=0).fit(X, y)
    assert_array_equal(free.dual_coef_, roomy.dual_coef_)
    with pytest.raises(ValueError, match="budget=3 and average=True"):
        KernelPerceptron(budget=3, average=True).fit(X, y)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_partial_fit_in_parts_is_one_pass(average, k, form):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], np.minimum(y[order], k - 1)
    whole = KernelPerceptron("rbf", gamma=0.5, n_epochs=1, shuffle=False, average=average).fit(X, y)
    parts = KernelPerceptron("rbf", gamma=0.5, shuffle=False, average=average)
    for start in range(0, 150, 37):
        stop = start + 37
        parts.partial_fit(form(X[start:stop]), y[start:stop], classes=np.arange(k))
    dense = parts.decision_function(form(X))
    assert_allclose(dense, whole.decision_function(X), atol=1e-9)
    assert_allclose(parts.intercept_, whole.intercept_)
    assert parts.n_mistakes_ == whole.n_mistakes_


def test_partial_fit_with_a_budget_is_one_pass():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order] > 0
    settings = {"kernel": "rbf", "gamma": 0.5, "shuffle": False, "budget": 4}
    whole = KernelPerceptron(n_epochs=1, **settings).fit(X, y)
    parts = KernelPerceptron(**settings)
    for start in range(0, 150, 10):
        parts.partial_fit(X[start : start + 10], y[start : start + 10], classes=[False, True])
    assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-9)
    assert len(parts.support_) <= 4


def test_partial_fit_goes_on_after_fit_and_learns_strings():
    texts, labels = ["aab", "abb", "bba", "bbb"], np.array([1, 0, 0, 0])
    model = KernelPerceptron(K.Spectrum(k=1), random_state=0).fit(texts, labels)
    model.partial_fit(["aaaa", "bbbb"], np.array([1, 0]))
    assert_array_equal(model.predict(["aaaaa", "bbbbb"]), [1, 0])


def test_partial_fit_says_what_it_needs():
    X, y = integers(), np.arange(40) % 2
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        KernelPerceptron().partial_fit(X, y)
    with pytest.raises(ValueError, match="not among classes"):
        KernelPerceptron().partial_fit(X, y, classes=[1, 2])
    with pytest.raises(ValueError, match="one class only"):
        KernelPerceptron().partial_fit(X, np.zeros(40), classes=[0])
    with pytest.raises(ValueError, match="precomputed"):
        KernelPerceptron("precomputed").partial_fit(X @ X.T, y, classes=[0, 1])
    with pytest.raises(ValueError, match="not positive semidefinite"):
        KernelPerceptron(K.Sigmoid(coef0=1.0), indefinite="clip").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="features"):
        KernelPerceptron().partial_fit(X, y, classes=[0, 1]).partial_fit(X[:, :2], y)


def test_precomputed_and_corrected_kernels_predict():
    X, y = integers(), np.arange(40) % 2
    kernel = K.RBF(0.3)
    plain = KernelPerceptron(kernel, random_state=0).fit(X, y)
    given = KernelPerceptron("precomputed", random_state=0).fit(kernel(X), y)
    query = X[:9] + 0.5
    assert_allclose(given.decision_function(kernel(query, X)), plain.decision_function(query))
    clipped = KernelPerceptron(K.Sigmoid(coef0=1.0), indefinite="clip", random_state=0).fit(X, y)
    assert np.all(np.isfinite(clipped.decision_function(query)))
    with pytest.raises(ValueError, match="partial_fit cannot correct it"):
        clipped.partial_fit(X, y)


def test_the_same_seed_gives_the_same_model():
    X, y = integers(), np.arange(40) % 2
    model = KernelPerceptron(random_state=5).fit(X, y)
    again = clone(model).fit(X, y)
    assert_array_equal(model.mistakes_, again.mistakes_)
    other = KernelPerceptron(random_state=6).fit(X, y)
    assert not np.array_equal(model.mistakes_, other.mistakes_)
    plain = KernelPerceptron(shuffle=False, n_epochs=1).fit(X, y)
    assert np.all(np.diff(plain.mistakes_) > 0)


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_a_correction_is_not_learned_from_some_of_the_points(method):
    X = np.linspace(-2, 2, 20)[:, None]
    y = (X[:, 0] > 0.3).astype(int)
    model = KernelPerceptron(kernel=K.Sigmoid(0.5, 1.0), indefinite=method, random_state=0)
    with pytest.raises(ValueError, match="partial_fit cannot correct it"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="partial_fit cannot correct it"):
        model.fit(X, y).partial_fit(X, y)
