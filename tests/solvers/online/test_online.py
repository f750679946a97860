"""The perceptron and SGD against their textbook loops, in an explicit feature space."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer.operators import DenseGram, GramOperator
from mercer.solvers.online.perceptron import PerceptronState, perceptron
from mercer.solvers.online.score_cache import first_true
from mercer.solvers.online.sgd import kernel_sgd, soft_margin_gap
from mercer.solvers.result import Status


class Unstored(GramOperator):
    """A Gram matrix that does not show all of itself, so that solvers take it block by block."""

    def __init__(self, K):
        super().__init__(K.shape, K.dtype)
        self.K = K

    def _rows(self, indices):
        return self.K[indices]

    def part(self, index):
        return Unstored(self.K[np.ix_(index, index)])


FORMS = [DenseGram, Unstored]


def points(n, d, seed=0):
    """Small integers, so that kernels and features agree to the last bit."""
    return np.random.default_rng(seed).integers(-3, 4, size=(n, d)).astype(float)


def labels(n, c, seed=1):
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, c))


def orders(n, epochs, seed=2):
    rng = np.random.default_rng(seed)
    return [rng.permutation(n) for _ in range(epochs)]


def perceptron_with_features(Phi, y, epochs):
    """Algorithm 2: weights and bias in feature space, their average, and the mistakes."""
    w, b, mistakes, history = np.zeros(Phi.shape[1]), 0.0, [], []
    for order in epochs:
        for i in order:
            score = w @ Phi[i] + b
            if y[i] * score <= 0:
                w, b = w + y[i] * Phi[i], b + y[i]
                mistakes.append(int(i))
            history.append(np.append(w, b))
    return w, b, mistakes, np.mean(history, axis=0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("n", "d", "epochs"), [(1, 1, 1), (12, 2, 1), (40, 3, 6), (30, 40, 20), (300, 5, 3)]
)
def test_makes_the_mistakes_of_the_explicit_perceptron(n, d, epochs, form):
    Phi, Y, sequence = points(n, d), labels(n, 2), orders(n, epochs)
    K = form(Phi @ Phi.T)
    state = perceptron(K, Y, sequence, stop_when_separated=False).value
    mean, mean_bias = state.averaged()
    for machine in range(2):
        w, b, mistakes, average = perceptron_with_features(Phi, Y[:, machine], sequence)
        ours = state.mistakes[state.mistakes[:, 1] == machine, 0]
        assert_array_equal(ours, mistakes)
        assert_array_equal(Phi.T @ state.coef[:, machine], w)
        assert state.intercept[machine] == b
        assert_allclose(np.append(Phi.T @ mean[:, machine], mean_bias[machine]), average)


def test_stops_once_an_epoch_is_clean():
    Phi = points(20, 30, seed=4)
    Y = labels(20, 1)
    result = perceptron(DenseGram(Phi @ Phi.T), Y, orders(20, 500))
    assert result.status is Status.CONVERGED
    assert result.gap == 0.0
    assert result.n_iter < 500
    assert np.all(Y * (Phi @ Phi.T @ result.value.coef + result.value.intercept) > 0)


@pytest.mark.parametrize("form", FORMS)
def test_going_on_is_the_same_as_not_stopping(form):
    Phi, Y = points(25, 4), labels(25, 3)
    K = Phi @ Phi.T
    first, second = orders(25, 1)[0], orders(25, 1, seed=9)[0]
    gram = form(K)
    whole = perceptron(gram, Y, [first, second], stop_when_separated=False).value
    half = perceptron(gram, Y, [first]).value
    twice = perceptron(
        gram,
        Y,
        [second],
        start=half,
        scores=K @ half.coef + half.intercept,
    ).value
    assert_allclose(twice.coef[:25] + twice.coef[25:], whole.coef)
    assert_allclose(twice.intercept, whole.intercept)
    mean, _ = twice.averaged()
    assert_allclose(mean[:25] + mean[25:], whole.averaged()[0])


def budgeted_by_hand(K, y, epochs, budget):
    alpha, b, queue = np.zeros(len(y)), 0.0, []
    for order in epochs:
        for i in order:
            if y[i] * (K[i] @ alpha + b) <= 0:
                alpha[i] += y[i]
                b += y[i]
                if i not in queue:
                    queue.append(i)
                if len(queue) > budget:
                    alpha[queue.pop(0)] = 0.0
    return alpha, b


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.parametrize("budget", [1, 3, 8, 100])
def test_the_budget_forgets_the_oldest(budget, n, form):
    Phi, Y, sequence = points(n, 2), labels(n, 1), orders(n, 4)
    K = Phi @ Phi.T
    state = perceptron(form(K), Y, sequence, budget=budget, stop_when_separated=False).value
    alpha, b = budgeted_by_hand(K, Y[:, 0], sequence, budget)
    assert_array_equal(state.coef[:, 0], alpha)
    assert state.intercept[0] == b
    assert np.count_nonzero(state.coef) <= len(state.support) <= budget


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("budget", [2, 7, 60])
def test_a_budget_holds_for_what_was_known_before(budget, form):
    Phi, Y = points(50, 3), labels(50, 2)
    K = Phi @ Phi.T
    whole = perceptron(DenseGram(K), Y, [np.arange(50)], budget=budget).value
    half = perceptron(form(K[:25, :25]), Y[:25], [np.arange(25)], budget=budget).value
    kept = half.trimmed()
    among = np.concatenate([half.support, np.arange(25, 50)])
    rest = perceptron(
        form(K[np.ix_(among, np.arange(25, 50))]),
        Y[25:],
        [np.arange(25)],
        budget=budget,
        start=kept,
        scores=K[25:, half.support] @ kept.coef + kept.intercept,
    ).value
    assert_array_equal(among[rest.support], whole.support)
    assert_array_equal(rest.coef[rest.support], whole.coef[whole.support])
    assert_array_equal(rest.intercept, whole.intercept)


def test_nothing_is_shared_between_states():
    state = PerceptronState.zeros(2).extended(3)
    other = state.extended(0)
    other.coef += 1.0
    other.intercept += 1.0
    assert not state.coef.any()
    assert not state.intercept.any()


def test_first_true_finds_every_position():
    for target in [0, 1, 7, 8, 23, 24, 99, 100]:
        found = first_true(lambda lo, hi, t=target: np.arange(lo, hi) >= t, 0, 100)
        assert found == target
    assert first_true(lambda lo, hi: np.ones(hi - lo, bool), 5, 5) == 5


def sgd_with_features(Phi, y, lam, draws):
    """Section 15.5 on mapped points: the average and the last of w^(1) .. w^(T)."""
    theta, iterates = np.zeros(Phi.shape[1]), []
    for t, i in enumerate(draws, start=1):
        w = theta / (lam * t)
        iterates.append(w)
        # y <w, phi> < 1, without the rounding of a division where both sides are equal.
        if y[i] * (theta @ Phi[i]) < lam * t:
            theta = theta + y[i] * Phi[i]
    return np.mean(iterates, axis=0), iterates[-1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "T"), [(1, 1), (1, 5), (10, 2), (25, 400), (600, 500)])
@pytest.mark.parametrize("lam", [0.003, 0.25, 8.0])
def test_sgd_equals_sgd_in_feature_space(n, T, lam, form):
    Phi, Y = points(n, 4), labels(n, 2)
    # More points drawn than there are steps for, so that the kernel is not stored.
    draws = np.random.default_rng(3).integers(n, size=T)
    gram = form(Phi @ Phi.T)
    mean = kernel_sgd(gram, Y, lam, draws).value
    last = kernel_sgd(gram, Y, lam, draws, average=False).value
    for machine in range(2):
        w_mean, w_last = sgd_with_features(Phi, Y[:, machine], lam, draws)
        assert_allclose(Phi.T @ mean[:, machine], w_mean, atol=1e-9)
        assert_allclose(Phi.T @ last[:, machine], w_last, atol=1e-9)


def test_the_sgd_gap_bounds_the_distance_to_the_optimum_and_shrinks():
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(40, 3))
    Y = np.where(Phi[:, :1] + 0.3 * rng.normal(size=(40, 1)) > 0, 1.0, -1.0)
    gram = DenseGram(Phi @ Phi.T)
    gaps = []
    for T in (100, 3_000, 60_000):
        result = kernel_sgd(gram, Y, 0.1, rng.integers(40, size=T))
        assert result.n_iter == T
        gaps.append(result.gap)
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.01
    assert_allclose(result.gap, soft_margin_gap(gram, Y, 0.1, result.value))
