"""Engines for points that are tensors, against the same points in arrays."""

import numpy as np
import pytest

from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.covariance import of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.iterative import IterativeEngine
from mercer.solvers.evidence.problem import EvidenceProblem

torch = pytest.importorskip("torch")
KERNEL = 1.0 * K.Matern(2.5, scales=[1.0, 0.5, 2.0]) + 0.1 * K.Linear()


def problem(X, y):
    covariance = of_kernel(KERNEL, learnable(KERNEL), noise=0.1)
    return EvidenceProblem(covariance, X, y[:, None], np.zeros(len(y)))


@pytest.mark.parametrize("engine", [ExactEngine, IterativeEngine, InducingEngine])
def test_evidence_and_gradient(engine):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.normal(size=80)
    ours, theirs = engine(problem(X, y)), engine(problem(torch.tensor(X), y))
    theta = ours.problem.covariance.theta
    expected, found = ours.evidence(theta), theirs.evidence(theta)
    assert found.value == pytest.approx(expected.value, rel=1e-5)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-4, atol=1e-4)
