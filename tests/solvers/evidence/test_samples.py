"""Moments of samples against those of the posterior they are drawn from."""

import numpy as np
import pytest

from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.covariance import of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.iterative import IterativeEngine
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.evidence.samples import (
    covariance_root,
    function_samples,
    joint_samples,
    prior_sample,
)

KERNEL = 1.5 * K.Matern(2.5, scales=[0.7, 2.0]) + 0.5 * K.Linear()
ENGINES = {
    "exact": ExactEngine,
    "inducing": lambda problem: InducingEngine(problem, 15),
    "iterative": lambda problem: IterativeEngine(problem, rank=10, variance_tol=1e-8),
}
S = 600  # samples


def drawn(n, t=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.sin(X @ rng.standard_normal((2, t)) * 2) + 0.1 * rng.standard_normal((n, t))


def line(X):
    return np.hstack([np.ones((len(X), 1)), X])


def posed(t=1, basis=None, kernel=KERNEL):
    X, Y = drawn(40, t)
    covariance = of_kernel(kernel, learnable(kernel), noise=0.05)
    return EvidenceProblem(covariance, X, Y, np.linspace(0.01, 0.1, 40), basis)


def posterior_of(name, problem):
    return ENGINES[name](problem).posterior(problem.covariance.theta)


def assert_moments(samples, posterior, new):
    """samples: (m, t, S), within five standard errors."""
    mean, cov = posterior.mean(new), posterior.covariance(new)
    std = np.sqrt(cov.diagonal())
    error = np.abs(samples.mean(2) - mean) / std[:, None]
    assert error.max() < 5 / np.sqrt(S)
    for of_target in samples.transpose(1, 0, 2):
        error = np.abs(np.cov(of_target) - cov) / np.outer(std, std)
        assert error.max() < 5 * np.sqrt(2 / S)


@pytest.mark.parametrize("name", ENGINES)
def test_joint_samples(name):
    problem, new = posed(t=2), drawn(6, seed=5)[0]
    posterior = posterior_of(name, problem)
    found = joint_samples(posterior, new, S)
    assert found.shape == (6, 2, S)
    assert_moments(found, posterior, new)


@pytest.mark.parametrize("basis", [None, line])
@pytest.mark.parametrize("name", ENGINES)
def test_samples_that_are_functions(name, basis):
    problem, new = posed(2, basis), drawn(6, seed=5)[0]
    posterior = posterior_of(name, problem)
    functions = function_samples(posterior, S, n_features=200)
    found = np.stack([f(new) for f in functions], axis=2)
    assert_moments(found, posterior, new)


@pytest.mark.parametrize("name", ENGINES)
def test_a_function_is_the_same_wherever_it_is_asked(name):
    problem, new = posed(2, line), drawn(6, seed=5)[0]
    posterior = posterior_of(name, problem)
    f, g = function_samples(posterior, 2, n_features=64)
    whole = f(new)
    for i in range(6):
        np.testing.assert_allclose(f(new[i : i + 1]), whole[i : i + 1], rtol=1e-9)
    again = function_samples(posterior, 2, n_features=64)
    np.testing.assert_array_equal(again[0](new), whole)
    assert not np.allclose(g(new), whole)


def test_functions_pass_close_to_targets_with_little_noise():
    problem = posed()
    exact = EvidenceProblem(
        of_kernel(KERNEL, learnable(KERNEL)), problem.X, problem.Y, np.full(40, 1e-8)
    )
    posterior = posterior_of("exact", exact)
    for f in function_samples(posterior, 3):
        np.testing.assert_allclose(f(problem.X), problem.Y, atol=1e-3)


def test_the_prior_has_the_kernel_as_its_covariance():
    X, rng = drawn(5)[0], np.random.default_rng(0)
    kernel = 2.0 * K.RBF(0.5) + 0.3 * K.Polynomial(2)
    found = np.stack([prior_sample(kernel, X, 1, 100, rng)(X)[:, 0] for _ in range(4000)])
    size = np.sqrt(np.outer(kernel.diag(X), kernel.diag(X)))
    assert np.abs(found.T @ found / 4000 - kernel(X)).max() < 0.12 * size.max()


def test_a_kernel_without_features_is_refused():
    kernel = K.Linear() * K.RBF()
    posterior = posterior_of("exact", posed(kernel=kernel))
    with pytest.raises(TypeError, match="draw samples at given points"):
        function_samples(posterior)


def test_roots_of_singular_matrices():
    rng = np.random.default_rng(0)
    B = rng.standard_normal((30, 4))
    R = covariance_root(B @ B.T)
    assert R.shape == (30, 4)
    np.testing.assert_allclose(R @ R.T, B @ B.T, atol=1e-12)
    assert covariance_root(np.zeros((3, 3))).shape == (3, 0)
