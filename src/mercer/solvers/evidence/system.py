"""The covariance of the targets as an operator, and bounds from solves that are not exact."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.arrays import to_float64
from mercer.operators import GramOperator, gram
from mercer.solvers.evidence.preconditioner import of_points
from mercer.solvers.evidence.problem import Covariance, EvidenceProblem
from mercer.solvers.ridge_problem import float32_is_small


class System:
    """C = K + D at one theta, with a preconditioner from a few points Z; R = [Y, H]."""

    def __init__(self, problem: EvidenceProblem, covariance: Covariance, Z: Any):
        kernel = covariance.kernel
        if kernel is None:
            raise TypeError("conjugate gradients need a kernel; a Gram matrix is not enough")
        self.problem, self.covariance, self.Z = problem, covariance, Z
        self.R, self.t = np.hstack([problem.Y, problem.H]), problem.Y.shape[1]
        self.D = problem.diagonal(covariance)
        self.P = of_points(covariance, problem.X, Z, self.D)
        self.K: GramOperator = gram(kernel, to_float64(problem.X))
        self.quick = self.K
        if float32_is_small(len(self.D), float(covariance.own(problem.X).max()), self.D.min()):
            self.quick = self.K.single()

    def product(self, V: np.ndarray) -> np.ndarray:
        return self.K @ V + self.D[:, None] * V

    def quick_product(self, V: np.ndarray) -> np.ndarray:
        return self.quick @ V + self.D[:, None] * V


class Bounded(NamedTuple):
    """``low <= B^T C^-1 B <= low + slack`` in the order of positive semidefinite matrices."""

    low: np.ndarray
    slack: np.ndarray


def bounded(system: System, B: np.ndarray, V: np.ndarray) -> Bounded:
    """Bounds from V, which is nearly ``C^-1 B``."""
    left = B - system.product(V)
    # V^T B + B^T V - V^T C V
    low = V.T @ B + left.T @ V
    slack = left.T @ system.P.solve(left)
    return Bounded((low + low.T) / 2, (slack + slack.T) / 2)
