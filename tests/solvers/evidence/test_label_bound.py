"""The bound for labels against its definition, quadrature and Laplace's approximation."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import expit, log_expit

from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.covariance import of_kernel
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.label_bound import LabelBound, LabelBounds
from mercer.solvers.evidence.laplace import LaplaceEngine
from mercer.solvers.evidence.logistic import logistic_moments
from mercer.solvers.evidence.problem import LabelProblem
from mercer.solvers.result import Status

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 2))
SIGNS = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=50) > 0, 1.0, -1.0)
KERNEL = 2.0 * K.RBF(0.5, scales=[1.0, 0.7])
NEW = RNG.normal(size=(7, 2))


def problem(kernel=KERNEL):
    return LabelProblem(of_kernel(kernel, learnable(kernel)), X, SIGNS)


def expected(mean, variance):
    """E log sigma(f) for normal f by nodes of Gauss and Hermite."""
    t, w = np.polynomial.hermite_e.hermegauss(60)
    return log_expit(mean[:, None] + np.sqrt(variance)[:, None] * t) @ (w / w.sum())


def bound_written_out(K_nm, K_mm, own, mean, cov):
    """The bound for q(u) = N(mean, cov) with the matrices of the kernel."""
    P = np.linalg.solve(K_mm, K_nm.T).T
    f, v = P @ mean, own - np.einsum("ij,ji->i", P, K_nm.T - cov @ P.T)
    inverse = np.linalg.inv(K_mm)
    divergence = 0.5 * (
        np.trace(inverse @ cov)
        + mean @ inverse @ mean
        - len(mean)
        + np.linalg.slogdet(K_mm)[1]
        - np.linalg.slogdet(cov)[1]
    )
    return expected(SIGNS * f, v).sum() - divergence


@pytest.mark.parametrize(
    ("mean", "variance"),
    [(0.0, 9.0), (1.0, 0.5), (-3.0, 0.99), (2.0, 1.01), (-20.0, 4.0), (5.0, 400.0), (0.3, 0.0)],
)
def test_moments_are_the_integrals(mean, variance):
    found, s = logistic_moments(np.array([mean]), np.array([variance])), np.sqrt(variance)
    for value, f in zip(found, (log_expit, expit, lambda x: expit(x) * expit(-x)), strict=True):
        if s == 0:
            assert value[0] == pytest.approx(f(mean), rel=1e-12)
            continue
        density = lambda x, f=f: f(x) * np.exp(-0.5 * ((x - mean) / s) ** 2)  # noqa: E731
        whole, _ = quad(density, mean - 12 * s, mean + 12 * s, points=[0, mean], limit=500)
        assert value[0] == pytest.approx(whole / s / np.sqrt(2 * np.pi), rel=1e-7)


def test_the_bound_by_its_definition_and_at_its_highest():
    task, Z = problem(), X[:8]
    found = LabelBound(task, task.covariance, Z)
    K_mm, K_nm = KERNEL(Z), KERNEL(X, Z)
    posterior = found.posterior()
    mean, cov = posterior.mean(Z), posterior.given.covariance(Z)
    own = KERNEL.diag(X)
    value = bound_written_out(K_nm, K_mm, own, mean, cov)
    assert found.lower == pytest.approx(value, rel=1e-5)
    for _ in range(10):  # no other distribution is better
        other = mean + 0.1 * RNG.normal(size=8)
        A = np.eye(8) + 0.03 * RNG.normal(size=(8, 8))
        assert bound_written_out(K_nm, K_mm, own, other, A @ cov @ A.T) < value


@pytest.mark.parametrize("by_points", [False, True])
def test_gradient_is_that_of_differences(by_points):
    task, Z = problem(), X[:6].copy()
    theta = task.covariance.theta
    value = lambda t, Z: LabelBound(task, task.covariance.at(t), Z).lower  # noqa: E731
    slope, moved = LabelBound(task, task.covariance, Z).gradient(by_points)
    np.testing.assert_allclose(slope, approx_fprime(theta, value, 1e-4, Z), rtol=5e-3, atol=5e-3)
    if by_points:
        by_value = approx_fprime(Z.ravel(), lambda z: value(theta, z.reshape(6, 2)), 1e-4)
        np.testing.assert_allclose(moved.ravel(), by_value, rtol=5e-3, atol=5e-3)


def test_all_points_are_close_to_laplace_and_the_bound_rises_with_points():
    task = problem()
    laplace = LaplaceEngine(task).posterior(task.covariance.theta)
    few, many = (LabelBound(task, task.covariance, X[:m]) for m in (5, 50))
    assert few.lower < many.lower < laplace.evidence.value + 1.0
    np.testing.assert_allclose(many.posterior().mean(NEW), laplace.mean(NEW), atol=0.25)


def test_later_bounds_begin_at_the_sites_before():
    task, bounds = problem(), LabelBounds()
    first = bounds(task, task.covariance, X[:8])
    again = bounds(task, task.covariance, X[:8])
    assert again.n_iter < first.n_iter
    assert again.lower == pytest.approx(first.lower, rel=1e-8)


@pytest.mark.parametrize("amplitude", [1e-6, 1e6])
def test_extreme_amplitudes(amplitude):
    task = problem(amplitude * K.RBF())
    posterior = InducingEngine(task, 20, sums=LabelBounds()).posterior(task.covariance.theta)
    assert posterior.result.status.ok
    assert np.isfinite(posterior.evidence.value)
    assert np.all(posterior.variance(NEW) >= 0)


def test_too_few_steps_are_reported():
    task = problem(100.0 * K.RBF())
    posterior = LabelBound(task, task.covariance, X[:10], max_iter=1).posterior()
    assert posterior.result.status is Status.MAX_ITER
