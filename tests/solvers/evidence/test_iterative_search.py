"""The search by conjugate gradients, against the exact evidence."""

import numpy as np
import pytest

from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.covariance import of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.iterative_search import search
from mercer.solvers.evidence.maximisation import LogNormal, maximise
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.result import Status


@pytest.fixture
def problem(monkeypatch):
    monkeypatch.setattr("mercer.solvers.evidence.some_rows.ROWS", 60)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (200, 2))
    Y = np.sin(2 * X[:, :1]) * np.cos(X[:, 1:]) + 0.2 * rng.standard_normal((200, 1))
    kernel = 1.0 * K.RBF(scales=[1.0, 1.0])
    return EvidenceProblem(of_kernel(kernel, learnable(kernel), noise=1.0), X, Y, np.zeros(200))


def test_the_optimum_is_close_to_that_of_the_exact_evidence(problem):
    covariance = problem.covariance
    exact = maximise(ExactEngine(problem).evidence, [covariance.theta], covariance.bounds)
    engine, result = search(problem)
    found = [ExactEngine(problem).evidence(at, False).value for at in (exact.value, result.value)]
    assert found[0] - found[1] < 1
    assert result.status.ok
    again = search(problem)[1]
    np.testing.assert_array_equal(again.value, result.value)
    evidence = engine.evidence(result.value)
    assert evidence.lower <= found[1] <= evidence.upper


def test_priors_and_time(problem):
    held = search(problem, priors=(LogNormal(5.0, 0.01), None, None, None))[1].value
    assert np.exp(held[0]) == pytest.approx(5.0, rel=0.05)
    assert search(problem, max_time=0.0)[1].status is Status.MAX_TIME
