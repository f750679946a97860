"""Row 22. Gradient descent on the squared loss, carried out on alpha: notes 004 (Kernels).

The loss is Σ (w·x_i - y_i)², without a regulariser; w starts at zero and moves by -s times the
gradient. Each step adds a combination of the points, so w is always Σ alpha_i x_i, and the steps on
alpha are alpha_i <- alpha_i - 2s(h(x_i) - y_i), where h uses kernel values alone. The path of
alphas is the path of w.
"""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import kernels as K

pytestmark = pytest.mark.filterwarnings(
    # These runs stop after a number of steps on purpose.
    "ignore::sklearn.exceptions.ConvergenceWarning"
)


def descend_on_w(Phi, y, s, T):
    w = np.zeros(Phi.shape[1])
    path = [w]
    for _ in range(T):
        gradient = sum(2 * (w @ phi - t) * phi for phi, t in zip(Phi, y, strict=True))
        w = w - s * gradient
        path.append(w)
    return np.array(path)


def descend_on_alpha(G, y, s, T, lam=0.0):
    alpha = np.zeros(len(y))
    path = [alpha]
    for _ in range(T):
        h = [sum(alpha[j] * G[i, j] for j in range(len(y))) for i in range(len(y))]
        alpha = np.array([alpha[i] - 2 * s * (h[i] - y[i] + lam * alpha[i]) for i in range(len(y))])
        path.append(alpha)
    return np.array(path)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 3))
    return X, X[:, 0] - X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=25)


def by_descent(kernel, s, T, alpha=0):
    return mercer.KernelRidge(
        alpha=alpha, kernel=kernel, solver="gd", step_size=s, max_iter=T, tol=0, keep_path=True
    )


@pytest.mark.parametrize("kernel", [K.Linear(), K.Polynomial(2), K.Conjunction()], ids=repr)
def test_path_of_alphas_is_the_path_of_w(kernel, data):
    X, y = data
    T = 40
    s = 0.4 / np.linalg.eigvalsh(kernel(X))[-1]
    Phi = kernel.feature_map().fit_transform(X)
    path_of_w = descend_on_w(Phi, y, s, T)
    model = by_descent(kernel, s, T).fit(X, y)
    assert model.path_.shape == (T + 1, len(y))
    np.testing.assert_array_equal(model.path_[0], 0)
    np.testing.assert_allclose(model.path_ @ Phi, path_of_w, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(model.path_[-1], model.dual_coef_)


@pytest.mark.parametrize("kernel", [K.Linear(), K.RBF(0.5), K.Laplacian(1.0)], ids=repr)
@pytest.mark.parametrize("T", [1, 2, 30])
def test_path_of_alphas_is_the_notes_rule(kernel, T, data):
    X, y = data
    G = kernel(X)
    s = 0.3 / np.linalg.eigvalsh(G)[-1]
    model = by_descent(kernel, s, T).fit(X, y)
    np.testing.assert_allclose(model.path_, descend_on_alpha(G, y, s, T), rtol=1e-9, atol=1e-11)


def test_closed_form_of_alpha_as_a_sum_of_past_slopes(data):
    X, y = data
    kernel, T = K.RBF(0.5), 15
    G = kernel(X)
    s = 0.3 / np.linalg.eigvalsh(G)[-1]
    path = by_descent(kernel, s, T).fit(X, y).path_
    slopes = [2 * (G @ alpha - y) for alpha in path[:-1]]
    np.testing.assert_allclose(path[-1], -s * np.sum(slopes, axis=0), rtol=1e-9)


def test_predictions_use_kernel_values_alone(data):
    X, y = data
    kernel, T = K.Polynomial(2), 20
    s = 0.4 / np.linalg.eigvalsh(kernel(X))[-1]
    phi = kernel.feature_map().fit(X)
    w = descend_on_w(phi.transform(X), y, s, T)[-1]
    fresh = np.random.default_rng(1).normal(size=(6, 3))
    model = by_descent(kernel, s, T).fit(X, y)
    np.testing.assert_allclose(model.predict(fresh), phi.transform(fresh) @ w, rtol=1e-8)


def test_the_loss_goes_down_and_to_the_least_squares_fit(data):
    X, y = data
    s = 0.9 / (2 * np.linalg.eigvalsh(K.Linear()(X))[-1])
    model = by_descent(K.Linear(), s, 400).fit(X, y)
    losses = [np.sum((X @ X.T @ alpha - y) ** 2) for alpha in model.path_]
    assert np.all(np.diff(losses) <= 1e-12)
    w, *_ = np.linalg.lstsq(X, y, rcond=None)
    np.testing.assert_allclose(X.T @ model.dual_coef_, w, rtol=1e-6)


def test_with_a_regulariser_the_rule_gains_one_term(data):
    X, y = data
    G = K.RBF(0.5)(X)
    s = 0.3 / (np.linalg.eigvalsh(G)[-1] + 0.7)
    model = by_descent(K.RBF(0.5), s, 25, alpha=0.7).fit(X, y)
    by_hand = descend_on_alpha(G, y, s, 25, lam=0.7)
    np.testing.assert_allclose(model.path_, by_hand, rtol=1e-9, atol=1e-11)
    closed = np.linalg.solve(G + 0.7 * np.eye(25), y)
    far = by_descent(K.RBF(0.5), s, 3000, alpha=0.7).fit(X, y)
    np.testing.assert_allclose(far.dual_coef_, closed, rtol=1e-6, atol=1e-8)


def test_too_long_a_step_is_not_passed_over_in_silence(data):
    X, y = data
    s = 1.5 / np.linalg.eigvalsh(K.Linear()(X))[-1]
    model = by_descent(K.Linear(), s, 50)
    with pytest.warns(Warning, match="step_size"):
        model.fit(X, y)
    assert not model.result_.status.ok
