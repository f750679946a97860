"""Laplace's approximation against its definition, differences and quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit
from scipy.stats import norm

from mercer import kernels as K
from mercer.kernels.hyperparameters import Entry, learnable
from mercer.solvers.evidence.covariance import KernelCovariance, of_kernel
from mercer.solvers.evidence.laplace import LaplaceEngine
from mercer.solvers.evidence.logistic import mean_logistic
from mercer.solvers.evidence.problem import LabelProblem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(25, 2))
SIGNS = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=25) > 0, 1.0, -1.0)
KERNEL = 2.0 * K.RBF(scales=[1.0, 2.0])


def posed(kernel=KERNEL):
    return LabelProblem(of_kernel(kernel, learnable(kernel)), X, SIGNS)


def test_evidence_by_its_definition():
    problem = posed()
    found = LaplaceEngine(problem).evidence(problem.covariance.theta)
    L = np.linalg.cholesky(KERNEL(X))

    def loss(z):
        return np.logaddexp(0, -SIGNS * (L @ z)).sum() + 0.5 * z @ z

    z = minimize(loss, np.zeros(25), method="BFGS", options={"gtol": 1e-9}).x
    f = L @ z
    W = np.diag(expit(f) * expit(-f))
    log_det = np.linalg.slogdet(np.eye(25) + KERNEL(X) @ W)[1]
    assert found.value == pytest.approx(-loss(z) - 0.5 * log_det, abs=1e-6)


def test_gradient_is_that_of_differences():
    problem = posed(KERNEL + 0.5 * K.Linear())
    engine, theta = LaplaceEngine(problem), problem.covariance.theta
    expected = approx_fprime(theta, lambda at: engine.evidence(at, gradient=False).value, 1e-6)
    np.testing.assert_allclose(engine.evidence(theta).gradient, expected, rtol=1e-4, atol=1e-5)


def test_gradient_with_white_noise():
    entries = (Entry("left__value"), Entry("right__gamma"))
    covariance = KernelCovariance(
        K.Constant(0.5) + K.RBF(0.7), entries, np.log([[1e-5, 1e5]] * 2), white=("left__value",)
    )
    engine = LaplaceEngine(LabelProblem(covariance, X, SIGNS))
    theta = covariance.theta
    expected = approx_fprime(theta, lambda at: engine.evidence(at, gradient=False).value, 1e-6)
    np.testing.assert_allclose(engine.evidence(theta).gradient, expected, rtol=1e-4, atol=1e-5)


def test_posterior_by_inverses():
    problem = posed()
    posterior = LaplaceEngine(problem).posterior(problem.covariance.theta)
    new = RNG.normal(size=(6, 2))
    f = KERNEL(X) @ posterior.alpha
    W = expit(f) * expit(-f)
    cross = KERNEL(new, X)
    np.testing.assert_allclose(posterior.mean(new), cross @ posterior.alpha, rtol=1e-12)
    expected = KERNEL.diag(new) - np.einsum(
        "ij,ij->i", cross @ np.linalg.inv(KERNEL(X) + np.diag(1 / W)), cross
    )
    np.testing.assert_allclose(posterior.variance(new), expected, rtol=1e-8)
    assert posterior.result.gap <= 1e-10


def test_a_covariance_that_overflows_has_no_evidence():
    problem = posed(2.0 * K.Linear())
    found = LaplaceEngine(problem).evidence(np.array([1e3]))
    assert found.value == -np.inf
    assert np.all(found.gradient == 0)


@pytest.mark.parametrize("variance", [0.0, 1e-4, 0.9, 1.1, 30.0, 1e6])
@pytest.mark.parametrize("mean", [-7.0, 0.0, 0.3, 40.0])
def test_mean_logistic_is_the_integral(mean, variance):
    spread = np.sqrt(variance)
    nodes = np.clip([-mean / max(spread, 1e-300)], -11, 11)
    expected, _ = quad(
        lambda t: expit(mean + spread * t) * norm.pdf(t), -12, 12, points=nodes, limit=500,
        epsabs=1e-13,
    )  # fmt: skip
    found = mean_logistic(np.array([mean]), np.array([variance]))
    assert found[0] == pytest.approx(expected, abs=1e-10)


def test_the_mode_after_one_of_another_scale():
    problem = posed()
    engine, theta = LaplaceEngine(problem), problem.covariance.theta
    engine.evidence(theta)
    for shift in (np.log(1e5), -np.log(1e5), np.log(1e4)):
        at = theta + np.array([shift, 0, 0])
        covariance = problem.covariance.at(at)
        assert engine.mode(covariance).gap < 1e-8
        cold = LaplaceEngine(problem).evidence(at).value
        assert engine.evidence(at).value == pytest.approx(cold, rel=1e-9)
