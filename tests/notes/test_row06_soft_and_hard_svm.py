"""Row 6. Soft-SVM without bias and hard-SVM with it, and the conversions of their constants.

Chapter 16 (Shalev-Shwartz and Ben-David). (16.4) minimises lambda alphaᵀGalpha + mean hinge, and
(16.5) has lambda/2 in place of lambda. LIBSVM has C Σ hinge + ½‖w‖², so C = 1/(2 lambda m) for
the first and C = 1/(lambda m) for the second. Hard-SVM asks for the least ‖w‖ with
y_i(<w, psi(x_i)> + b) >= 1: the same with C infinite, and a bias.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import mercer
from mercer import kernels as K


def soft_svm_by_coordinate_ascent(G, y, C, sweeps=3000):
    """The dual of C Σ hinge + ½‖w‖² without bias, one coordinate at a time; returns y * a."""
    a = np.zeros(len(y))
    Q = y[:, None] * G * y
    for _ in range(sweeps):
        before = a.copy()
        for i in range(len(y)):
            a[i] = np.clip(a[i] + (1 - Q[i] @ a) / Q[i, i], 0, C)
        if np.abs(a - before).max() < 1e-13:
            break
    return y * a


def hard_svm_by_slsqp(Phi, y):
    """Least ‖w‖² with every margin at least one, in the explicit feature space."""
    D = Phi.shape[1]
    start, *_ = np.linalg.lstsq(np.column_stack([Phi, np.ones(len(y))]), 2.0 * y, rcond=None)
    found = minimize(
        lambda v: v[:D] @ v[:D],
        start,
        jac=lambda v: np.append(2 * v[:D], 0.0),
        constraints={
            "type": "ineq",
            "fun": lambda v: y * (Phi @ v[:D] + v[D]) - 1,
            "jac": lambda v: y[:, None] * np.column_stack([Phi, np.ones(len(y))]),
        },
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert found.success or found.status == 8  # no step is better within rounding
    return found.x[:D], found.x[D]


def dual_coefficients(model, n) -> np.ndarray:
    alpha = np.zeros(n)
    alpha[model.support_] = model.dual_coef_.ravel()
    return alpha


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=40) > 0, 1, -1)
    return X, y


@pytest.mark.parametrize("lam", [0.003, 0.03, 0.5])
@pytest.mark.parametrize("kernel", [K.RBF(0.7), K.Polynomial(2)], ids=repr)
def test_equation_16_4(kernel, lam, data):
    X, y = data
    m, G = len(y), kernel(X)

    def objective(alpha):
        return lam * alpha @ G @ alpha + np.mean(np.maximum(0, 1 - y * (G @ alpha)))

    model = mercer.SVC(C=1 / (2 * lam * m), kernel=kernel, fit_intercept=False, tol=1e-9).fit(X, y)
    alpha = dual_coefficients(model, m)
    oracle = soft_svm_by_coordinate_ascent(G, y, 1 / (2 * lam * m))
    assert objective(alpha) == pytest.approx(objective(oracle), rel=1e-6)
    np.testing.assert_allclose(G @ alpha, G @ oracle, atol=1e-3)
    np.testing.assert_allclose(model.decision_function(X), G @ alpha, atol=1e-9)
    np.testing.assert_array_equal(model.intercept_, 0)
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-1):
        for _ in range(30):
            assert objective(alpha + size * rng.normal(size=m)) >= objective(alpha) - 1e-8


@pytest.mark.parametrize("lam", [0.003, 0.03, 0.5])
def test_equation_16_5_is_16_4_with_half_the_constant(lam, data):
    X, y = data
    m, kernel = len(y), K.RBF(0.7)
    G = kernel(X)

    def objective(alpha):
        return lam / 2 * alpha @ G @ alpha + np.mean(np.maximum(0, 1 - y * (G @ alpha)))

    model = mercer.SVC(C=1 / (lam * m), kernel=kernel, fit_intercept=False, tol=1e-9).fit(X, y)
    oracle = soft_svm_by_coordinate_ascent(G, y, 1 / (lam * m))
    assert objective(dual_coefficients(model, m)) == pytest.approx(objective(oracle), rel=1e-6)
    halved = mercer.SVC(C=1 / (2 * (lam / 2) * m), kernel=kernel, fit_intercept=False, tol=1e-9)
    np.testing.assert_allclose(
        halved.fit(X, y).decision_function(X), model.decision_function(X), atol=1e-6
    )


def test_a_machine_with_hinge_loss_is_the_same_problem(data):
    X, y = data
    m, lam = len(y), 0.02
    svm = mercer.SVC(C=1 / (2 * lam * m), kernel=K.RBF(0.7), fit_intercept=False, tol=1e-9)
    machine = mercer.KernelMachineClassifier(
        "hinge", alpha=2 * lam * m, kernel=K.RBF(0.7), fit_intercept=False, tol=1e-9
    )
    np.testing.assert_allclose(
        svm.fit(X, y).decision_function(X), machine.fit(X, y).decision_function(X), atol=1e-4
    )


def test_the_duality_gap_is_reported(data):
    X, y = data
    G, C = K.RBF(0.7)(X), 2.0
    model = mercer.SVC(C=C, kernel=K.RBF(0.7), fit_intercept=False, tol=1e-6).fit(X, y)
    beta = dual_coefficients(model, len(y))
    primal = 0.5 * beta @ G @ beta + C * np.sum(np.maximum(0, 1 - y * (G @ beta)))
    dual = np.sum(y * beta) - 0.5 * beta @ G @ beta
    assert -1e-9 <= primal - dual <= 1e-4 * abs(primal)
    assert model.dual_gap_ >= 0
    assert model.dual_gap_ <= 1e-4 * abs(primal)


def separable(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 2))
    value = X[:, 0] ** 2 + X[:, 1] ** 2 - 1.2
    far = np.abs(value) > 0.15
    return X[far], np.sign(value[far])


@pytest.mark.parametrize("seed", range(4))
def test_hard_svm_with_bias_is_the_largest_margin(seed):
    X, y = separable(seed)
    phi = K.Polynomial(2).feature_map().fit(X)
    Phi = phi.transform(X)
    w, b = hard_svm_by_slsqp(Phi, y)
    model = mercer.SVC(C=np.inf, kernel=K.Polynomial(2), tol=1e-8).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.min(y * model.decision_function(X)) == pytest.approx(1, abs=1e-4)
    assert model.margin_ == pytest.approx(1 / np.linalg.norm(w), rel=1e-4)
    np.testing.assert_allclose(model.decision_function(X), Phi @ w + b, atol=2e-3)


def test_hard_svm_is_the_limit_of_soft_svm():
    X, y = separable(9)
    hard = mercer.SVC(C=np.inf, kernel=K.Polynomial(2), tol=1e-8).fit(X, y)
    soft = mercer.SVC(C=1e7, kernel=K.Polynomial(2), tol=1e-8).fit(X, y)
    np.testing.assert_allclose(soft.decision_function(X), hard.decision_function(X), atol=1e-3)


def test_where_no_hyperplane_separates_the_hard_svm_says_so():
    # f is infinite for every w then: there is no answer, and a silent one would be wrong.
    X = np.array([[0.0], [1.0], [2.0]])
    y = np.array([1, -1, 1])
    with pytest.raises(ValueError, match="separa"):
        mercer.SVC(C=np.inf, kernel=K.Linear()).fit(X, y)
