"""Row 3. The perceptron three times: linear, with explicit features, and with a kernel.

Notes 000 (Kakade, CSE 446), Algorithms 1, 2 and 3, and chapter 16, exercise 2. Visit the points in
random order, E times over; where the sign of the score is not the label, add the label times the
point's features to w and the label to the bias. Since w is always a combination of the points, it
is enough to count, in alpha, how often each was added. Algorithms 2 and 3 then err at the same
points in the same order. A score of zero has no sign, and is a mistake.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import check_random_state

import mercer
from mercer import kernels as K


def orders(n: int, epochs: int, seed: int) -> list[np.ndarray]:
    rng = check_random_state(seed)
    return [rng.permutation(n) for _ in range(epochs)]


def explicit_perceptron(Phi, y, epochs, seed):
    """Algorithm 2 (Algorithm 1 where Phi is X): returns w, b and the mistakes in their order."""
    w, b, mistakes = np.zeros(Phi.shape[1]), 0.0, []
    for order in orders(len(Phi), epochs, seed):
        for n in order:
            if np.sign(w @ Phi[n] + b) != y[n]:
                w = w + y[n] * Phi[n]
                b = b + y[n]
                mistakes.append(n)
    return w, b, mistakes


def kernel_perceptron(G, y, epochs, seed, bias=True):
    """Algorithm 3, on a Gram matrix."""
    alpha, b, mistakes = np.zeros(len(G)), 0.0, []
    for order in orders(len(G), epochs, seed):
        for n in order:
            if np.sign(sum(alpha[i] * G[i, n] for i in range(len(G))) + b) != y[n]:
                alpha[n] += y[n]
                b += y[n] if bias else 0.0
                mistakes.append(n)
    return alpha, b, mistakes


def outer_product_features(X):
    """vec(<1; x><1; x>ᵀ), whose inner products are (1 + x·v)²."""
    extended = np.hstack([np.ones((len(X), 1)), X])
    return np.array([np.outer(x, x).ravel() for x in extended])


def all_coefficients(model, n) -> np.ndarray:
    alpha = np.zeros(n)
    alpha[model.support_] = model.dual_coef_
    return alpha


def rings(seed=0, n=60):
    """Whole-number points, so that all three algorithms compute without rounding."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-6, 7, size=(n, 2)).astype(float)
    return X, np.where((X**2).sum(axis=1) > 20, 1, -1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("epochs", [1, 3, 8])
def test_algorithms_2_and_3_make_the_same_mistakes_in_the_same_order(seed, epochs):
    X, y = rings(seed)
    Phi = outer_product_features(X)
    w, b, mistakes = explicit_perceptron(Phi, y, epochs, seed)
    alpha, b3, mistakes3 = kernel_perceptron(Phi @ Phi.T, y, epochs, seed)
    model = mercer.KernelPerceptron(K.Polynomial(2), n_epochs=epochs, random_state=seed).fit(X, y)
    assert mistakes == mistakes3
    np.testing.assert_array_equal(model.mistakes_, mistakes)
    assert model.n_mistakes_ == len(mistakes)
    np.testing.assert_array_equal(all_coefficients(model, len(X)), alpha)
    assert model.intercept_ == b == b3
    # w stays in the span of the data: it is the combination that alpha says.
    np.testing.assert_array_equal(Phi.T @ alpha, w)


@pytest.mark.parametrize("seed", range(3))
def test_algorithm_1_is_the_linear_kernel(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-5, 6, size=(50, 3)).astype(float)
    y = np.where(X @ [2, -1, 1] + 1 > 0, 1, -1)
    w, b, mistakes = explicit_perceptron(X, y, 6, seed)
    model = mercer.KernelPerceptron(K.Linear(), n_epochs=6, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(model.mistakes_, mistakes)
    np.testing.assert_array_equal(X.T @ all_coefficients(model, len(X)), w)
    fresh = rng.normal(size=(20, 3))
    np.testing.assert_allclose(model.decision_function(fresh), fresh @ w + b, rtol=1e-10)


def test_the_same_for_features_with_rounding_and_a_kernel_without_finite_map():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 2))
    y = np.where(np.sin(3 * X[:, 0]) > X[:, 1], 1, -1)
    Phi = K.Polynomial(3).feature_map().fit_transform(X)
    _, _, mistakes = explicit_perceptron(Phi, y, 5, seed=1)
    model = mercer.KernelPerceptron(K.Polynomial(3), n_epochs=5, random_state=1).fit(X, y)
    np.testing.assert_array_equal(model.mistakes_, mistakes)

    _, b, mistakes = kernel_perceptron(K.RBF(1.0)(X), y, 5, seed=2)
    model = mercer.KernelPerceptron(K.RBF(1.0), n_epochs=5, random_state=2).fit(X, y)
    np.testing.assert_array_equal(model.mistakes_, mistakes)
    assert model.intercept_ == b


def test_a_score_of_zero_is_a_mistake():
    X = np.array([[1.0], [-1.0]])
    y = np.array([1, -1])
    for seed in range(4):
        model = mercer.KernelPerceptron(K.Linear(), n_epochs=1, random_state=seed).fit(X, y)
        # Everything is zero before the first step, so the first point visited is always one.
        assert model.mistakes_[0] == orders(2, 1, seed)[0][0]
    # Two points on which the score becomes exactly zero again: both are mistakes, twice over.
    model = mercer.KernelPerceptron(K.Constant(1.0), n_epochs=2, random_state=0).fit(X, y)
    _, _, mistakes = kernel_perceptron(np.ones((2, 2)), y, 2, seed=0)
    np.testing.assert_array_equal(model.mistakes_, mistakes)


def test_epochs_after_a_clean_one_change_nothing():
    X, y = rings(3)
    few = mercer.KernelPerceptron(K.Polynomial(2), n_epochs=500, random_state=0).fit(X, y)
    assert few.score(X, y) == 1.0
    _, _, mistakes = kernel_perceptron((1 + X @ X.T) ** 2, y, 60, seed=0)
    np.testing.assert_array_equal(few.mistakes_[: len(mistakes)], mistakes)


def test_exercise_2_the_homogeneous_perceptron_of_k_plus_one_is_that_of_k_with_bias():
    # With k + 1 in place of k the constant feature is the bias: no bias is needed then.
    X, y = rings(4)
    alpha, _, mistakes = kernel_perceptron(1 + (1 + X @ X.T) ** 2, y, 4, seed=0, bias=False)
    model = mercer.KernelPerceptron(K.Polynomial(2), n_epochs=4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.mistakes_, mistakes)
    np.testing.assert_array_equal(all_coefficients(model, len(X)), alpha)
    assert model.intercept_ == alpha.sum()


def test_number_of_mistakes_obeys_the_margin_bound():
    # Novikoff: at most (R / margin)² mistakes on data separated with that margin, bias included.
    X, y = rings(5)
    G = 1 + (1 + X @ X.T) ** 2
    # Any separator bounds the margin from below: take the one that a long run ends with.
    w, _, _ = kernel_perceptron(G, y, 400, seed=0, bias=False)
    scores = y * (G @ w)
    assert scores.min() > 0
    margin = scores.min() / np.sqrt(w @ G @ w)
    bound = G.diagonal().max() / margin**2
    model = mercer.KernelPerceptron(K.Polynomial(2), n_epochs=400, random_state=9).fit(X, y)
    assert 0 < model.n_mistakes_ <= bound
