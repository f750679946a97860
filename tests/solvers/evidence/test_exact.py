"""The exact engine against formulas written out: densities, differences and inverses."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from mercer import kernels as K
from mercer.kernels.algebra import Product
from mercer.kernels.hyperparameters import Entry, learnable
from mercer.solvers.evidence.covariance import KernelCovariance, of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.problem import EvidenceProblem

KERNEL = 1.5 * K.Matern(2.5, scales=[0.7, 2.0]) + K.Linear()
NOISE = np.linspace(0.05, 0.2, 25)


def drawn(n=25, t=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.sin(X @ rng.standard_normal((2, t)) * 2) + 0.1 * rng.standard_normal((n, t))


def posed(t=1, basis=None, noise=0.3, kernel=KERNEL):
    X, Y = drawn(t=t)
    covariance = of_kernel(kernel, learnable(kernel), noise=noise)
    return EvidenceProblem(covariance, X, Y, NOISE, basis)


def level(X):
    return np.ones((len(X), 1))


def line(X):
    return np.hstack([np.ones((len(X), 1)), X])


def covariance_of(problem, noise=0.3):
    return KERNEL(problem.X) + np.diag(NOISE + noise)


def test_evidence_is_the_density_of_the_targets():
    problem = posed(t=3)
    found = ExactEngine(problem).evidence(problem.covariance.theta)
    density = multivariate_normal(np.zeros(25), covariance_of(problem))
    expected = density.logpdf(problem.Y.T).sum()
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert found.lower == found.upper == found.value
    assert found.standard_error == 0


@pytest.mark.parametrize("basis", [None, level, line])
@pytest.mark.parametrize("t", [1, 2])
def test_gradient_is_that_of_differences(basis, t):
    problem = posed(t, basis)
    engine, theta = ExactEngine(problem), problem.covariance.theta
    found = engine.evidence(theta).gradient
    expected = approx_fprime(theta, lambda at: engine.evidence(at, gradient=False).value, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    assert len(found) == len(problem.covariance.names) == 4


def test_posterior_by_inverses():
    problem = posed(t=2)
    posterior = ExactEngine(problem).posterior(problem.covariance.theta)
    new = drawn(7, seed=5)[0]
    cross, inverse = KERNEL(new, problem.X), np.linalg.inv(covariance_of(problem))
    np.testing.assert_allclose(posterior.mean(new), cross @ inverse @ problem.Y, atol=1e-10)
    expected = KERNEL(new) - cross @ inverse @ cross.T
    np.testing.assert_allclose(posterior.covariance(new), expected, atol=1e-10)
    np.testing.assert_allclose(posterior.variance(new), expected.diagonal(), atol=1e-10)
    assert posterior.result.status.ok
    assert posterior.result.gap < 1e-12


@pytest.mark.parametrize("basis", [level, line])
def test_a_flat_prior_is_the_limit_of_wide_ones(basis):
    problem = posed(basis=basis)
    theta, new, H = problem.covariance.theta, drawn(7, seed=5)[0], problem.H
    posterior = ExactEngine(problem).posterior(theta)
    wide = 1e6
    C = covariance_of(problem) + wide * H @ H.T
    cross = KERNEL(new, problem.X) + wide * basis(new) @ H.T
    mean = cross @ np.linalg.solve(C, problem.Y)
    own = KERNEL(new) + wide * basis(new) @ basis(new).T
    np.testing.assert_allclose(posterior.mean(new), mean, atol=1e-4)
    expected = own - cross @ np.linalg.solve(C, cross.T)
    np.testing.assert_allclose(posterior.covariance(new), expected, atol=1e-4)
    np.testing.assert_allclose(posterior.variance(new), expected.diagonal(), atol=1e-4)
    # The density of the targets falls with the root of the prior's variance of each coefficient.
    density = multivariate_normal(np.zeros(25), C).logpdf(problem.Y[:, 0])
    q = H.shape[1]
    expected = density + q / 2 * np.log(2 * np.pi * wide)
    assert posterior.evidence.value == pytest.approx(expected, abs=1e-3)


def test_parts_add_up():
    problem = posed()
    posterior = ExactEngine(problem).posterior(problem.covariance.theta)
    new = drawn(7, seed=5)[0]
    parts = [posterior.mean(new, part) for part in (KERNEL.left, KERNEL.right)]
    np.testing.assert_allclose(sum(parts), posterior.mean(new), atol=1e-10)
    for part in (KERNEL.left, KERNEL.right):
        own = posterior.covariance(new, part)
        np.testing.assert_allclose(posterior.variance(new, part), own.diagonal(), atol=1e-10)
        assert np.all(posterior.variance(new, part) <= part.diag(new) + 1e-10)


def test_white_noise_within_a_product():
    # (2 + white(0.4)) * RBF: the white part acts on the diagonal alone.
    whole = (K.Constant(2.0) + K.Constant(0.4)) * K.Linear()
    entries = (Entry("left__left__value"), Entry("left__right__value"))
    bounds = np.log([[1e-5, 1e5]] * 2)
    covariance = KernelCovariance(whole, entries, bounds, white=("left__right__value",))
    X, Y = drawn()
    problem = EvidenceProblem(covariance, X, Y, NOISE)
    C = 2 * X @ X.T + np.diag(NOISE + 0.4 * (X**2).sum(1))
    engine, theta = ExactEngine(problem), covariance.theta
    found = engine.evidence(theta)
    expected = multivariate_normal(np.zeros(25), C).logpdf(Y[:, 0])
    assert found.value == pytest.approx(expected, rel=1e-10)
    differences = approx_fprime(theta, lambda at: engine.evidence(at, False).value, 1e-6)
    np.testing.assert_allclose(found.gradient, differences, rtol=1e-4)


def test_gradient_of_columns_is_that_of_their_product():
    problem = posed()
    covariance, rng = problem.covariance, np.random.default_rng(0)
    U, V = rng.standard_normal((2, 25, 3))
    found = covariance.gradient(problem.X, U, V)
    W = U @ V.T
    np.testing.assert_allclose(found, covariance.contracted(problem.X, (W + W.T) / 2), rtol=1e-9)


def test_a_singular_covariance_has_no_evidence_and_no_nan():
    X = np.zeros((4, 1))
    covariance = of_kernel(K.RBF(), learnable(K.RBF()))
    problem = EvidenceProblem(covariance, X, np.arange(4.0)[:, None], np.zeros(4))
    found = ExactEngine(problem).evidence(covariance.theta)
    assert found.value == -np.inf
    assert np.all(found.gradient == 0)


def test_bounds_and_what_is_fixed():
    covariance = of_kernel(
        KERNEL, learnable(KERNEL), noise=0.1,
        bounds={"left__left__value": "fixed", "left__right__scales": (0.1, 10), "noise": (1, 2)},
    )  # fmt: skip
    assert covariance.names == ("left__right__scales[0]", "left__right__scales[1]", "noise")
    np.testing.assert_allclose(np.exp(covariance.bounds), [[0.1, 10], [0.1, 10], [1, 2]])


@pytest.mark.parametrize("basis", [None, line])
@pytest.mark.parametrize(
    "kernel",
    [1.5 * K.RBF(0.5), (1.5 * K.RBF(0.5)) * K.Matern(1.5), Product(K.RBF(0.5), K.Constant(2.0))],
    ids=["factor", "inner", "right"],
)
def test_the_slope_of_a_factor_takes_no_pass(kernel, basis):
    problem = posed(2, basis, kernel=kernel)
    assert problem.covariance._factor is not None
    engine, theta = ExactEngine(problem), problem.covariance.theta
    differences = approx_fprime(theta, lambda at: engine.evidence(at, False).value, 1e-6)
    np.testing.assert_allclose(engine.evidence(theta).gradient, differences, rtol=1e-4, atol=1e-3)
