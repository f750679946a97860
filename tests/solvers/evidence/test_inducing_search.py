"""The search for hyperparameters and inducing points, against the exact evidence."""

import numpy as np
import pytest

from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.covariance import of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.inducing_search import search
from mercer.solvers.evidence.maximisation import LogNormal, maximise
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.result import Status


def level(X):
    return np.ones((len(X), 1))


def posed(kernel, n=150, basis=None):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, 1))
    Y = np.sin(2 * X) + 0.2 * rng.standard_normal((n, 1))
    covariance = of_kernel(kernel, learnable(kernel), noise=1.0)
    return EvidenceProblem(covariance, X, Y, np.zeros(n), basis)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr("mercer.solvers.evidence.some_rows.ROWS", 60)


@pytest.mark.parametrize("basis", [None, level])
@pytest.mark.parametrize("kernel", [1.0 * K.RBF(), 1.0 * K.Laplacian()], ids=str)
def test_the_optimum_is_close_to_that_of_the_exact_evidence(kernel, basis):
    problem = posed(kernel, basis=basis)
    covariance = problem.covariance
    exact = maximise(ExactEngine(problem).evidence, [covariance.theta], covariance.bounds)
    highest = ExactEngine(problem).evidence(exact.value).value
    engine, result = search(problem, 40, max_iter=30)
    assert engine.moves == ("RBF" in repr(kernel))
    found = engine.evidence(result.value)
    assert found.lower <= highest + 1e-6
    # 40 points leave much of a rough function unknown.
    assert ExactEngine(problem).evidence(result.value).value > highest - (1 if engine.moves else 15)
    assert result.status.ok
    fixed = InducingEngine(problem, 40).evidence(covariance.theta).value
    assert found.value > fixed
    again = search(problem, 40, max_iter=30)[1]
    np.testing.assert_array_equal(again.value, result.value)


@pytest.mark.parametrize("kernel", [1.0 * K.RBF(), 1.0 * K.Laplacian()], ids=str)
def test_time_is_up(kernel):
    engine, result = search(posed(kernel), 10, max_time=0.0)
    assert result.status is Status.MAX_TIME
    assert np.isfinite(engine.evidence(result.value).value)


def test_few_steps_are_what_was_asked_for():
    engine, result = search(posed(1.0 * K.RBF()), 10, max_iter=2)
    assert result.status is Status.COMPLETED
    assert len(engine.Z) == 10


@pytest.mark.parametrize("kernel", [1.0 * K.RBF(), 1.0 * K.Laplacian()], ids=str)
def test_priors_hold_hyperparameters(kernel):
    problem = posed(kernel)
    free = search(problem, 20, max_iter=20)[1].value
    priors = (LogNormal(5.0, 0.01), None, None)
    held = search(problem, 20, priors=priors, max_iter=20)[1].value
    assert np.exp(held[0]) == pytest.approx(5.0, rel=0.05)
    assert abs(np.exp(free[0]) - 5.0) > 1


def test_the_best_of_several_starts():
    problem = posed(1.0 * K.RBF())
    theta = problem.covariance.theta
    poor = np.array([np.log(1e-3), np.log(1e-4), np.log(1e-1)])
    found = [search(problem, 20, starts=starts, max_iter=20) for starts in ([theta], [poor, theta])]
    values = [engine.evidence(result.value, False).value for engine, result in found]
    assert values[1] >= values[0] - 1e-6
