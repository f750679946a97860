"""Row 7. Stochastic gradient descent for the soft-margin SVM, with kernels.

Section 16.3 and Lemma 16.3 of chapter 16 (Shalev-Shwartz and Ben-David). The objective is
(lambda/2)‖w‖² + mean hinge, without bias. At step t the weights are theta/(lambda t); a point is
drawn with replacement, and its label times its features are added to theta if its margin is below
one. What is returned is the average of the weights of steps 1 to T, the first of which are zero.
Keeping the coefficients beta and alpha of the points in place of theta and w gives the same answer.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import check_random_state

import mercer
from mercer import kernels as K


def sgd_on_features(Phi, y, lam, T, seed, average=True):
    """Section 15.5's procedure, in the explicit feature space."""
    draws = check_random_state(seed).randint(len(Phi), size=T)
    theta, weights = np.zeros(Phi.shape[1]), []
    for t in range(1, T + 1):
        w = theta / (lam * t)
        weights.append(w)
        i = draws[t - 1]
        if y[i] * (w @ Phi[i]) < 1:
            theta = theta + y[i] * Phi[i]
    return np.mean(weights, axis=0) if average else weights[-1]


def sgd_on_kernel(G, y, lam, T, seed):
    """The box of section 16.3, line by line."""
    m = len(G)
    draws = check_random_state(seed).randint(m, size=T)
    beta, alphas = np.zeros(m), []
    for t in range(1, T + 1):
        alpha = beta / (lam * t)
        alphas.append(alpha)
        i = draws[t - 1]
        beta = beta.copy()
        if y[i] * sum(alpha[j] * G[j, i] for j in range(m)) < 1:
            beta[i] += y[i]
    return np.mean(alphas, axis=0)


def xor(seed=0, n=50):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lam", [0.003, 0.1, 2.0])
def test_lemma_16_3_kernel_and_explicit_descent_agree(lam, seed):
    X, y = xor(seed)
    phi = K.Polynomial(2).feature_map().fit(X)
    Phi = phi.transform(X)
    w = sgd_on_features(Phi, y, lam, 300, seed)
    model = mercer.KernelSGDClassifier(
        K.Polynomial(2), alpha=lam, n_iter=300, random_state=seed
    ).fit(X, y)
    np.testing.assert_allclose(Phi.T @ model.dual_coef_, w, rtol=1e-9, atol=1e-9)
    fresh = np.random.default_rng(9).normal(size=(10, 2))
    np.testing.assert_allclose(
        model.decision_function(fresh), phi.transform(fresh) @ w, rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize("T", [1, 2, 3, 10, 200])
def test_the_coefficients_are_those_of_the_procedure(T):
    X, y = xor(1)
    for kernel in (K.RBF(0.7), K.Linear()):
        by_hand = sgd_on_kernel(kernel(X), y, 0.05, T, seed=3)
        model = mercer.KernelSGDClassifier(kernel, alpha=0.05, n_iter=T, random_state=3).fit(X, y)
        np.testing.assert_allclose(model.dual_coef_, by_hand, rtol=1e-10, atol=1e-12)


def test_the_average_begins_with_zero():
    X, y = xor(2)
    one = mercer.KernelSGDClassifier(K.RBF(1.0), n_iter=1, random_state=0).fit(X, y)
    np.testing.assert_array_equal(one.dual_coef_, 0)
    # With two steps the average is half of alpha^(2) = y_i / (2 lambda) at the first point drawn.
    two = mercer.KernelSGDClassifier(K.RBF(1.0), alpha=0.1, n_iter=2, random_state=0).fit(X, y)
    first = check_random_state(0).randint(len(X), size=2)[0]
    expected = np.zeros(len(X))
    expected[first] = y[first] / (2 * 0.1) / 2
    np.testing.assert_allclose(two.dual_coef_, expected, rtol=1e-12)


def test_points_are_drawn_with_replacement():
    # Three points, many steps: some order without repetition would give each the same count.
    X, y = np.eye(3) * 1e-3, np.array([1, -1, 1])  # margins stay below one, so every draw counts
    model = mercer.KernelSGDClassifier(
        K.Linear(), alpha=1.0, n_iter=30, average=False, random_state=0
    ).fit(X, y)
    draws = check_random_state(0).randint(3, size=30)[:-1]  # the last draw is in no iterate
    counts = np.bincount(draws, minlength=3)
    assert len(set(counts)) > 1
    np.testing.assert_allclose(model.dual_coef_, y * counts / 30, rtol=1e-12)


def test_the_last_iterate_without_average():
    X, y = xor(3)
    Phi = K.Polynomial(2).feature_map().fit_transform(X)
    w = sgd_on_features(Phi, y, 0.05, 100, seed=1, average=False)
    model = mercer.KernelSGDClassifier(
        K.Polynomial(2), alpha=0.05, n_iter=100, average=False, random_state=1
    ).fit(X, y)
    np.testing.assert_allclose(Phi.T @ model.dual_coef_, w, rtol=1e-9, atol=1e-9)


def test_it_approaches_the_optimum_that_the_svm_finds():
    X, y = xor(4, n=40)
    m, lam = len(y), 0.05
    G = K.RBF(0.5)(X)

    def objective(alpha):
        return lam / 2 * alpha @ G @ alpha + np.mean(np.maximum(0, 1 - y * (G @ alpha)))

    svm = mercer.SVC(C=1 / (lam * m), kernel=K.RBF(0.5), fit_intercept=False, tol=1e-8).fit(X, y)
    optimal = np.zeros(m)
    optimal[svm.support_] = svm.dual_coef_.ravel()
    best = objective(optimal)
    excess = []
    for T in (100, 1000, 10_000, 100_000):
        model = mercer.KernelSGDClassifier(K.RBF(0.5), alpha=lam, n_iter=T, random_state=0).fit(
            X, y
        )
        excess.append(objective(model.dual_coef_) - best)
        # The certificate is the duality gap: no smaller than what is left to gain.
        assert model.result_.gap >= excess[-1] - 1e-9
    assert min(excess) > -1e-9
    assert excess[-1] < 0.01 * excess[0]
    assert excess[-1] < 2e-3
