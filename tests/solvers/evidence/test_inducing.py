"""The bound of inducing points against matrices written out, differences and the exact engine."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from mercer import kernels as K
from mercer.kernels.hyperparameters import Entry, learnable
from mercer.solvers.evidence.covariance import KernelCovariance, of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine, Positions
from mercer.solvers.evidence.inducing_points import means, pivots
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.evidence.whitening import JITTER

KERNEL = 1.5 * K.Matern(2.5, scales=[0.7, 2.0]) + 0.3 * K.RBF(0.2)
N = 60
NOISE = np.linspace(0.05, 0.2, N)


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
    covariance = of_kernel(kernel, learnable(kernel), noise=0.3)
    return EvidenceProblem(covariance, X, Y, NOISE, basis)


def approximated(engine, X, Z=None):
    """Q between points, by a pseudo-inverse."""
    own = KERNEL(engine.Z)
    own[np.diag_indices_from(own)] *= 1 + JITTER
    cross = KERNEL(X if Z is None else Z, engine.Z)
    return KERNEL(X, engine.Z) @ np.linalg.solve(own, cross.T)


@pytest.fixture(params=[None, 8 * 10 * 7], ids=["one block", "several blocks"])
def blocks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr("mercer.solvers.evidence.inducing_sums.BLOCK_BYTES", request.param)


def test_the_lower_bound_written_out(blocks):
    problem = posed(t=3)
    engine = InducingEngine(problem, 10)
    found = engine.evidence(problem.covariance.theta)
    D, Q = NOISE + 0.3, approximated(engine, problem.X)
    density = multivariate_normal(np.zeros(N), Q + np.diag(D)).logpdf(problem.Y.T).sum()
    excess = ((KERNEL(problem.X) - Q).diagonal() / D).sum()
    assert found.value == found.lower == pytest.approx(density - 1.5 * excess, rel=1e-9)
    wide = multivariate_normal(np.zeros(N), Q + (1 + excess) * np.diag(D))
    dets = [np.linalg.slogdet(Q + c * np.diag(D))[1] for c in (1.0, 1 + excess)]
    upper = wide.logpdf(problem.Y.T).sum() + 1.5 * (dets[1] - dets[0])
    assert found.upper == pytest.approx(upper, rel=1e-9)


@pytest.mark.parametrize("basis", [None, level, line])
@pytest.mark.parametrize("m", [1, 5, 30, N])
def test_the_bounds_hold(basis, m):
    problem = posed(2, basis)
    theta = problem.covariance.theta
    exact = ExactEngine(problem).evidence(theta).value
    found = InducingEngine(problem, m).evidence(theta)
    assert found.lower - 1e-6 <= exact <= found.upper + 1e-6
    if m == N:
        assert found.lower == pytest.approx(exact, abs=1e-4)
        assert found.upper == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("basis", [None, level, line])
@pytest.mark.parametrize("t", [1, 2])
def test_gradient_is_that_of_differences(basis, t, blocks):
    problem = posed(t, basis)
    engine, theta = InducingEngine(problem, 12), problem.covariance.theta
    found = engine.evidence(theta).gradient
    expected = approx_fprime(theta, lambda at: engine.evidence(at, gradient=False).value, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_gradient_with_white_noise_within_a_product():
    whole = (K.Constant(2.0) + K.Constant(0.4)) * K.Polynomial(2, coef0=0.3)
    entries = [Entry("left__left__value"), Entry("left__right__value"), Entry("right__coef0")]
    white = ("left__right__value",)
    bounds = np.log([[1e-5, 1e5]] * 3)
    covariance = KernelCovariance(whole, tuple(entries), bounds, white=white)
    X, Y = drawn()
    problem = EvidenceProblem(covariance, X, Y, NOISE)
    engine, theta = InducingEngine(problem, 4), covariance.theta
    differences = approx_fprime(theta, lambda at: engine.evidence(at, False).value, 1e-6)
    found = engine.evidence(theta)
    np.testing.assert_allclose(found.gradient, differences, rtol=1e-4)
    assert found.lower <= ExactEngine(problem).evidence(theta).value <= found.upper


def test_posterior_written_out():
    problem = posed(t=2)
    engine = InducingEngine(problem, 10)
    posterior = engine.posterior(problem.covariance.theta)
    new = drawn(7, seed=5)[0]
    C = approximated(engine, problem.X) + np.diag(NOISE + 0.3)
    cross = approximated(engine, new, problem.X)
    np.testing.assert_allclose(posterior.mean(new), cross @ np.linalg.solve(C, problem.Y))
    expected = KERNEL(new) - cross @ np.linalg.solve(C, cross.T)
    np.testing.assert_allclose(posterior.covariance(new), expected, atol=1e-9)
    np.testing.assert_allclose(posterior.variance(new), expected.diagonal(), atol=1e-9)
    again = KERNEL(new, posterior.Z) @ posterior.result.value
    np.testing.assert_allclose(again, posterior.mean(new), atol=1e-9)
    evidence = posterior.evidence
    assert posterior.result.gap == pytest.approx(evidence.upper - evidence.lower)


@pytest.mark.parametrize("basis", [level, line])
def test_all_points_give_the_exact_posterior(basis):
    problem = posed(2, basis)
    theta, new = problem.covariance.theta, drawn(7, seed=5)[0]
    exact = ExactEngine(problem).posterior(theta)
    found = InducingEngine(problem, Z=problem.X).posterior(theta)
    np.testing.assert_allclose(found.mean(new), exact.mean(new), atol=1e-5)
    np.testing.assert_allclose(found.covariance(new), exact.covariance(new), atol=1e-5)
    np.testing.assert_allclose(found.mean_coefficients, exact.mean_coefficients, atol=1e-5)
    np.testing.assert_allclose(found.mean_covariance, exact.mean_covariance, atol=1e-5)
    for part in (KERNEL.left, KERNEL.right):
        np.testing.assert_allclose(found.mean(new, part), exact.mean(new, part), atol=1e-5)
        own, expected = found.covariance(new, part), exact.covariance(new, part)
        np.testing.assert_allclose(own, expected, atol=1e-5)


def test_strings_have_inducing_points_too():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), 6)) for _ in range(30)]
    Y = np.array([[word.count("a")] for word in words], dtype=float)
    kernel = 0.5 * K.Spectrum(2)
    covariance = of_kernel(kernel, learnable(kernel), noise=0.2)
    problem = EvidenceProblem(covariance, words, Y, np.zeros(30))
    engine, theta = InducingEngine(problem, 6), covariance.theta
    assert len(engine.Z) == 6
    found = engine.evidence(theta)
    differences = approx_fprime(theta, lambda at: engine.evidence(at, False).value, 1e-6)
    np.testing.assert_allclose(found.gradient, differences, rtol=1e-4)
    assert found.lower <= ExactEngine(problem).evidence(theta).value <= found.upper


def test_chosen_points():
    problem = posed()
    at = pivots(problem.covariance, problem.X, 20)
    assert len(set(at)) == 20
    gaps = [InducingEngine(problem, 20, choose=how) for how in ("pivots", "means")]
    evidences = [engine.evidence(problem.covariance.theta) for engine in gaps]
    first = InducingEngine(problem, Z=problem.X[:20]).evidence(problem.covariance.theta)
    assert min(e.lower for e in evidences) > first.lower
    assert means(problem.covariance, problem.X, 5).shape == (5, 2)
    again = gaps[0].rechosen(problem.covariance.theta)
    np.testing.assert_array_equal(again.Z, gaps[0].Z)


def test_choice_among_some_rows(monkeypatch):
    monkeypatch.setattr(
        "mercer.solvers.evidence.inducing_points.memory_budget", lambda: 16 * 8 * 10
    )
    problem = posed()
    at = pivots(problem.covariance, problem.X, 8)
    assert len(set(at)) == 8


def test_without_errors_there_is_no_bound_and_no_nan():
    X, Y = drawn()
    covariance = of_kernel(K.RBF(), learnable(K.RBF()))
    problem = EvidenceProblem(covariance, X, Y, np.zeros(N))
    found = InducingEngine(problem, 5).evidence(covariance.theta)
    assert found.value == -np.inf
    assert np.all(found.gradient == 0)
    with pytest.raises(np.linalg.LinAlgError, match="errors of positive variance"):
        InducingEngine(problem, 5).posterior(covariance.theta)


def test_copies_of_points_need_no_care():
    X, Y = drawn()
    problem = EvidenceProblem(posed().covariance, np.zeros_like(X), Y, NOISE)
    theta = problem.covariance.theta
    found = InducingEngine(problem, Z=np.zeros((5, 2))).evidence(theta)
    assert found.lower <= ExactEngine(problem).evidence(theta).value <= found.upper
    assert np.isfinite(found.gradient).all()


@pytest.mark.parametrize("basis", [None, line])
def test_gradient_by_points_is_that_of_differences(basis, blocks):
    problem = posed(2, basis, kernel=KERNEL + 0.2 * K.Linear())
    engine, theta = InducingEngine(problem, 6), problem.covariance.theta
    positions = Positions(engine, len(theta))
    at = positions.start(theta)
    found = positions.evidence(at).gradient
    expected = approx_fprime(at, lambda v: positions.evidence(v).value, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3)


def test_points_that_move_raise_the_bound():
    problem = posed(2)
    engine, theta = InducingEngine(problem, 6), problem.covariance.theta
    before = engine.evidence(theta).value
    better, result = engine.improved(theta, max_iter=30)
    after = better.evidence(result.value).value
    assert after > before + 5
    assert not np.allclose(better.Z, engine.Z)
    with pytest.raises(TypeError, match="keep them fixed"):
        InducingEngine(posed(kernel=K.Laplacian()), 6).improved(theta[:2])


def test_points_on_disk_and_sparse_points(tmp_path, monkeypatch):
    problem = posed(2, kernel=K.RBF(scales=[0.7, 2.0]))
    monkeypatch.setattr("mercer.solvers.evidence.inducing_sums.BLOCK_BYTES", 8 * 10 * 7)
    theta, new = problem.covariance.theta, drawn(7, seed=5)[0]
    expected = InducingEngine(problem, 8).evidence(theta)
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=problem.X.shape)
    mapped[:] = problem.X
    for X in (mapped, sp.csr_array(problem.X)):
        engine = InducingEngine(replace(problem, X=X), 8)
        found = engine.evidence(theta)
        assert found.lower == pytest.approx(expected.lower, rel=1e-9)
        np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-6, atol=1e-6)
        assert engine.posterior(theta).mean(new).shape == (7, 2)
