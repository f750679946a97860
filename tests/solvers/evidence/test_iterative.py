"""Estimates by conjugate gradients against densities written out and the exact engine."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.control_variate import control_variate
from mercer.solvers.evidence.covariance import of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.iterative import IterativeEngine
from mercer.solvers.evidence.maximisation import maximise
from mercer.solvers.evidence.preconditioner import Preconditioner, of_points
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.evidence.quadrature import solve_with_logs
from mercer.solvers.evidence.system import System

KERNEL = 1.5 * K.Matern(2.5, scales=[0.7, 2.0]) + 0.3 * K.RBF(0.2)
N = 150
NOISE = np.linspace(0.01, 0.05, N)


def drawn(n=N, t=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.sin(X @ rng.standard_normal((2, t)) * 2) + 0.1 * rng.standard_normal((n, t))


def level(X):
    return np.ones((len(X), 1))


def line(X):
    return np.hstack([np.ones((len(X), 1)), X])


def posed(t=1, basis=None, kernel=KERNEL):
    X, Y = drawn(t=t)
    covariance = of_kernel(kernel, learnable(kernel), noise=0.02)
    return EvidenceProblem(covariance, X, Y, NOISE, basis)


def test_the_preconditioner_written_out():
    rng = np.random.default_rng(0)
    F, D = rng.standard_normal((30, 4)), rng.uniform(0.1, 2, 30)
    whole, P = F @ F.T + np.diag(D), Preconditioner(F.copy(), D)
    np.testing.assert_allclose(P.solve(np.eye(30)), np.linalg.inv(whole), atol=1e-12)
    root = P.rooted(np.eye(30))
    np.testing.assert_allclose(root @ root.T, whole, atol=1e-12)
    assert P.log_det == pytest.approx(np.linalg.slogdet(whole)[1])


@pytest.mark.parametrize("rank", [1, 10, N])
def test_the_preconditioner_is_at_most_the_covariance(rank):
    problem = posed()
    covariance, Z = problem.covariance, problem.X[:rank]
    P = of_points(covariance, problem.X, Z, problem.diagonal(covariance))
    root = P.rooted(np.eye(N))
    C = KERNEL(problem.X) + np.diag(problem.diagonal(covariance))
    assert np.linalg.eigvalsh(C - root @ root.T)[0] > -1e-8
    log_det = np.linalg.slogdet(C)[1]
    assert P.log_det - 1e-5 <= log_det <= P.log_det + P.log_det_slack + 1e-5


def test_logarithms_and_solutions_written_out():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 40))
    C, F, D = A @ A.T + np.eye(40), A[:, :3].copy(), np.ones(40)
    P = Preconditioner(F, D)
    L = P.rooted(np.eye(40))
    W = rng.standard_normal((40, 5))
    found = solve_with_logs(lambda V: C @ V, P.solve, L @ W, np.full(5, 1e-22), 200)
    np.testing.assert_allclose(found.X, np.linalg.solve(C, L @ W), rtol=1e-6, atol=1e-8)
    inner = np.linalg.solve(L, np.linalg.solve(L, C).T)
    values, vectors = np.linalg.eigh(inner)
    logs = np.einsum("ij,i->j", (vectors.T @ W) ** 2, np.log(values))
    np.testing.assert_allclose(found.logs, logs, rtol=1e-8)


def test_columns_of_zeros_are_solved_at_once():
    found = solve_with_logs(lambda V: 2 * V, lambda V: V, np.zeros((3, 2)), np.zeros(2), 9)
    assert found.n_iter == 0
    assert not found.X.any()
    assert not found.logs.any()


@pytest.mark.parametrize("basis", [None, level, line])
@pytest.mark.parametrize("rank", [2, 40])
def test_estimates_agree_with_the_exact_engine(basis, rank):
    problem = posed(2, basis)
    theta = problem.covariance.theta
    exact = ExactEngine(problem).evidence(theta)
    found = IterativeEngine(problem, rank=rank, n_probes=200, tol=1e-6).evidence(theta)
    assert found.lower <= exact.value <= found.upper
    assert abs(found.value - exact.value) <= 4 * found.standard_error
    assert found.standard_error < 5
    size = np.abs(exact.gradient).max()
    np.testing.assert_allclose(found.gradient, exact.gradient, atol=0.1 * size)


def test_with_all_points_as_pivots_nothing_is_random():
    problem = posed()
    theta = problem.covariance.theta
    exact = ExactEngine(problem).evidence(theta)
    found = IterativeEngine(problem, rank=N, tol=1e-8).evidence(theta)
    assert found.standard_error < 1e-4
    assert found.value == pytest.approx(exact.value, abs=1e-3)
    assert found.upper - found.lower < 1e-2


def test_the_standard_error_is_that_of_repetitions():
    problem = posed()
    theta = problem.covariance.theta
    exact = ExactEngine(problem).evidence(theta).value
    found = [
        IterativeEngine(problem, rank=5, tol=1e-6, n_probes=10, random_state=seed).evidence(
            theta, gradient=False
        )
        for seed in range(40)
    ]
    z = np.array([(e.value - exact) / e.standard_error for e in found])
    assert np.abs(z).max() < 5
    assert 0.6 < np.sqrt((z**2).mean()) < 1.6


@pytest.mark.parametrize("basis", [None, line])
def test_posterior_is_that_of_the_exact_engine(basis):
    problem = posed(2, basis)
    theta, new = problem.covariance.theta, drawn(300, seed=5)[0]
    exact = ExactEngine(problem).posterior(theta)
    found = IterativeEngine(problem, rank=20, variance_tol=1e-9).posterior(theta)
    np.testing.assert_allclose(found.mean(new), exact.mean(new), atol=1e-4)
    np.testing.assert_allclose(found.variance(new), exact.variance(new), atol=1e-6)
    np.testing.assert_allclose(found.covariance(new), exact.covariance(new), atol=1e-6)
    for part in (KERNEL.left, KERNEL.right):
        np.testing.assert_allclose(found.mean(new, part), exact.mean(new, part), atol=1e-4)
        np.testing.assert_allclose(found.variance(new, part), exact.variance(new, part), atol=1e-6)
    np.testing.assert_allclose(found.mean_coefficients, exact.mean_coefficients, atol=1e-4)
    np.testing.assert_allclose(found.mean_covariance, exact.mean_covariance, atol=1e-4)
    assert found.result.status.ok
    assert found.result.gap <= 1e-6


@pytest.mark.parametrize("tol", [1.0, 0.1, 1e-3])
def test_bounds_on_variances_hold(tol):
    problem = posed()
    theta, new = problem.covariance.theta, drawn(50, seed=5)[0]
    exact = ExactEngine(problem).posterior(theta)
    found = IterativeEngine(problem, rank=5, variance_tol=tol).posterior(theta)
    lower, upper = found.variance_bounds(new)
    variance = exact.variance(new)
    assert np.all(lower <= variance + 1e-9)
    assert np.all(variance <= upper + 1e-9)
    assert np.all(upper - lower <= tol * KERNEL.diag(new) + 1e-6)
    np.testing.assert_array_equal(found.variance(new), upper)
    larger = found.covariance(new) - exact.covariance(new)
    assert np.linalg.eigvalsh(larger)[0] > -1e-8


def test_pivots_chosen_anew():
    problem = posed()
    theta = problem.covariance.theta
    engine = IterativeEngine(problem, rank=10)
    again = engine.rechosen(theta)
    np.testing.assert_array_equal(again.at, engine.at)
    assert again.evidence(theta).value == engine.evidence(theta).value
    far = theta + np.log(3)
    assert not np.array_equal(engine.rechosen(far).at, engine.at)


def test_without_errors_there_is_no_estimate_and_no_nan():
    X, Y = drawn()
    covariance = of_kernel(K.RBF(), learnable(K.RBF()))
    problem = EvidenceProblem(covariance, X, Y, np.zeros(N))
    found = IterativeEngine(problem, rank=5).evidence(covariance.theta)
    assert found.value == -np.inf
    assert np.all(found.gradient == 0)
    with pytest.raises(np.linalg.LinAlgError, match="errors of positive variance"):
        IterativeEngine(problem, rank=5).posterior(covariance.theta)


def test_a_density_written_out():
    problem = posed()
    found = IterativeEngine(problem, rank=N).evidence(problem.covariance.theta)
    C = KERNEL(problem.X) + np.diag(NOISE + 0.02)
    expected = multivariate_normal(np.zeros(N), C).logpdf(problem.Y[:, 0])
    assert found.value == pytest.approx(expected, abs=1e-2)


def test_a_search_ends_close_to_the_exact_optimum():
    problem = posed()
    covariance = problem.covariance
    exact = maximise(ExactEngine(problem).evidence, [covariance.theta], covariance.bounds)
    engine = IterativeEngine(problem, rank=60, tol=1e-4)
    found = maximise(engine.evidence, [covariance.theta], covariance.bounds, max_iter=30)
    values = [ExactEngine(problem).evidence(r.value, False).value for r in (exact, found)]
    assert values[0] - values[1] < 1


@pytest.mark.parametrize("kind", ["strings", "float32", "sparse"])
def test_other_points(kind):
    X, Y = drawn()
    kernel = K.RBF(scales=[0.7, 2.0])
    if kind == "strings":
        rng = np.random.default_rng(0)
        X, kernel = ["".join(rng.choice(list("abc"), 6)) for _ in range(N)], 0.5 * K.Spectrum(2)
    elif kind == "float32":
        X = X.astype(np.float32)
    else:
        X = sp.csr_array(X)
    covariance = of_kernel(kernel, learnable(kernel), noise=0.2)
    problem = EvidenceProblem(covariance, X, Y, NOISE)
    exact = ExactEngine(problem).evidence(covariance.theta)
    found = IterativeEngine(problem, rank=20, tol=1e-6).evidence(covariance.theta)
    assert abs(found.value - exact.value) <= 4 * found.standard_error + 1e-3
    assert found.lower <= exact.value <= found.upper


def test_the_control_variate_written_out():
    problem = posed()
    covariance = problem.covariance
    u = np.random.default_rng(0).standard_normal((N, 3))

    def system(theta):
        return System(problem, covariance.at(theta), problem.X[:12])

    def contrast(theta):
        P = system(theta).P
        root = P.rooted(np.eye(N))
        return P.log_det - np.einsum("ic,ij,jc->", u, root @ root.T, u) / 3

    theta = covariance.theta
    expected = approx_fprime(theta, contrast, 1e-6)
    found = control_variate(system(theta), u)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-2)


def test_the_gradient_is_exact_where_the_preconditioner_is():
    problem = posed(2, line)
    theta = problem.covariance.theta
    exact = ExactEngine(problem).evidence(theta)
    found = IterativeEngine(problem, rank=N, tol=1e-8).evidence(theta)
    np.testing.assert_allclose(found.gradient, exact.gradient, rtol=1e-3, atol=1e-2)
