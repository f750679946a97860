"""Bounds by conjugate gradients, against the exact evidence and the bounds without them."""

import numpy as np
import pytest

from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.certificate import certified
from mercer.solvers.evidence.covariance import of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.problem import EvidenceProblem


def level(X):
    return np.ones((len(X), 1))


@pytest.mark.parametrize("basis", [None, level])
@pytest.mark.parametrize("max_iter", [1, 100])
def test_bounds_are_closer_and_hold(basis, max_iter):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    Y = np.sin(3 * X) + 0.1 * rng.standard_normal((120, 2))
    kernel = 1.0 * K.RBF()
    covariance = of_kernel(kernel, learnable(kernel), noise=0.02)
    problem = EvidenceProblem(covariance, X, Y, np.zeros(120), basis)
    theta, exact = covariance.theta, ExactEngine(problem).evidence(covariance.theta).value
    engine = InducingEngine(problem, 25)
    plain, close = engine.evidence(theta), certified(engine, theta, tol=1e-6, max_iter=max_iter)
    assert plain.lower <= close.lower <= exact <= close.upper <= plain.upper
    if max_iter > 1:
        assert close.upper - close.lower < 0.5 * (plain.upper - plain.lower)
    assert close.value == plain.value
